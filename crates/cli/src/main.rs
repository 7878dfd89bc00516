//! pinfold: places the threads and the memory of running programs.
//!
//! `main` parses the command line, runs one command and turns its result into an exit status. Each command is a module
//! of the same name.

mod activities;
mod behaviour;
mod calibrate;
mod claims;
mod colour;
mod compare;
mod completions;
mod console;
mod daemon;
mod db;
mod db_runs;
mod embedded;
mod events;
mod explain;
mod finished;
mod help;
mod journals;
mod learn;
mod machine;
mod machines;
mod man;
mod message;
#[cfg(test)]
mod options;
mod page_mapping;
mod pages;
mod placements;
mod profile;
mod program;
mod progress;
mod rebuild;
mod record;
mod recorded;
mod report;
mod reset;
mod run;
mod sampling;
mod sweep;
mod table;
mod top;
mod topo;
mod trace;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use pinfold_linux::launch::{LaunchError, WaitingChild};
use pinfold_linux::limits;
use ratatui::crossterm::style::force_color_output;
use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

/// Places the threads and the memory of running programs on multi-socket, multi-cache machines: observes the
/// programs, decides where their threads and pages belong, places them, and verifies the effect.
#[derive(Parser)]
#[command(
    name = "pinfold",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Use colours in help, messages and `pinfold top`: auto means on a terminal, and not if the variable `NO_COLOR` is
    /// set.
    #[arg(long, global = true, value_enum, default_value_t, hide_possible_values = true, help_heading = help::EVERYWHERE,
          value_name = "auto|always|never")]
    color: ColorChoice,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Arguments>),
    Compare(Box<compare::Arguments>),
    Topo(topo::Arguments),
    Placements(placements::Arguments),
    Machines(machines::Arguments),
    Pages(pages::Arguments),
    Events(events::Arguments),
    Explain(explain::Arguments),
    Report(report::Arguments),
    Record(record::Arguments),
    Calibrate(calibrate::Arguments),
    Trace(trace::Arguments),
    Sweep(Box<sweep::Command>),
    Db(db::Arguments),
    Learn(learn::Arguments),
    Daemon(Box<daemon::Arguments>),
    Top(top::Arguments),
    Reset(reset::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    #[command(name = machine::READER, hide = true)]
    ReadTopology(machine::Described),
}

/// The exit status of a command that failed, also by its options, as in `env`, `nice` and `timeout`. The observed program
/// is unlikely to end with it.
const FAILURE: u8 = 125;

/// What follows from an error where another process has prepared the program.
const ALONE: &str = "the program runs without pinfold";

fn main() -> ExitCode {
    limits::with_usual_stack(run_command)
}

/// Runs the command of the command line.
fn run_command() -> ExitCode {
    let waiting = WaitingChild::from_environment();
    let result = run(waiting.as_ref());
    let left = waiting.filter(WaitingChild::is_left);
    let code = match result {
        // The parser of the command line has printed the error.
        Ok(_) if left.is_some() => {
            console::say(ALONE);
            ExitCode::from(FAILURE)
        }
        Ok(code) => code,
        Err(error) => {
            let alone = left.as_ref().map(|_| format!("; {ALONE}")).unwrap_or_default();
            console::fail(console::whole(&error) + &alone);
            status(&error)
        }
    };
    // Whatever has kept pinfold from the program, the program runs.
    match left.map(WaitingChild::run_alone) {
        Some(Ok(status)) => ExitCode::from(u8::try_from(status & 0xff).unwrap_or(FAILURE)),
        _ => code,
    }
}

/// Takes a negative number after an option as the value of the option, so that the option's own error explains it. clap
/// would take it as another option, and advise `--` before it, which makes it the name of a program to run.
fn options_take_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| {
            let takes_value = !argument.is_positional() && argument.get_action().takes_values();
            if takes_value {
                argument.allow_negative_numbers(true)
            } else {
                argument
            }
        })
        .mut_subcommands(options_take_negative_numbers)
}

/// The exit status for an error.
fn status(error: &anyhow::Error) -> ExitCode {
    if error.is::<console::Unwritable>() {
        return ExitCode::FAILURE;
    }
    let launch = error.downcast_ref().map(LaunchError::exit_status);
    ExitCode::from(launch.and_then(|status| u8::try_from(status).ok()).unwrap_or(FAILURE))
}

/// The whole command line.
fn definition(color: ColorChoice) -> clap::Command {
    options_take_negative_numbers(help::in_two_forms(Cli::command(), "pinfold").color(color))
}

fn run(waiting: Option<&WaitingChild>) -> Result<ExitCode> {
    let given: Vec<OsString> = env::args_os().collect();
    let words = program::separated(given.clone(), &definition(ColorChoice::Auto))?;
    let color = help::color(words.clone());
    colour::choose(color);
    let parsed = definition(color).try_get_matches_from(words);
    let (command, color) = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => (cli.command, cli.color),
        // clap would show the command as `pinfold-topo`.
        Err(answer) if answer.kind() == ErrorKind::DisplayVersion => {
            console::print(&Cli::command().render_version())?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(answer) => {
            let is_usage_error = console::print_parsed(&answer)?;
            if let Some(hint) = program::hint(&answer, &given) {
                console::say(hint);
            }
            return Ok(if is_usage_error {
                ExitCode::from(FAILURE)
            } else {
                ExitCode::SUCCESS
            });
        }
    };
    if color != ColorChoice::Auto {
        force_color_output(color == ColorChoice::Always);
    }
    match command {
        Command::Run(arguments) => run::run(&arguments, waiting),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Topo(arguments) => topo::run(&arguments),
        Command::Placements(arguments) => placements::run(&arguments),
        Command::Machines(arguments) => machines::run(&arguments),
        Command::Pages(arguments) => pages::run(&arguments),
        Command::Events(arguments) => events::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Db(arguments) => db::run(&arguments),
        Command::Learn(arguments) => learn::run(&arguments),
        Command::Daemon(arguments) => daemon::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Reset(arguments) => reset::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, &definition(color)),
        Command::Man(arguments) => man::run(&arguments, definition(color)),
        Command::ReadTopology(described) => machine::describe(&described),
    }
}
