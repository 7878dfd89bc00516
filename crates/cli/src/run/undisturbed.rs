//! The answer of the default policy on a machine on which no placement differs from another: the program runs as it is.
//!
//! Nothing is left to do for pinfold then, so this process becomes the program. It stays only if the user wants a record
//! of the run, or gives the program CPUs. An option that asks for a placement or for a measurement, such as `--policy` or
//! `--metric`, is obeyed on every machine: then there is no such answer.

use super::arguments::Detail;
use super::lines::Lines;
use super::plan::Plan;
use super::{Arguments, status};
use crate::colour::Tone;
use crate::console;
use anyhow::Result;
use pinfold_core::Topology;
use pinfold_core::placement::why_all_alike;
use pinfold_linux::launch::{WaitingChild, run_alone};
use pinfold_view::findings;
use std::process::ExitCode;

/// The options that ask neither for a placement nor for a measurement.
const ASK_NOTHING: &[&str] = &[
    "account_as",
    "claims",
    "color",
    "command",
    "cpunodebind",
    "db",
    "dry_run",
    "journals",
    "json",
    "keep_pinned",
    "lasts",
    "log",
    "outlive",
    "physcpubind",
    "pid",
    "quiet",
    "verbose",
    "with",
];

/// Whether the answer is due on a machine with this topology.
pub(super) fn is_due(arguments: &Arguments, topology: &Topology) -> bool {
    !arguments.policies.asks_for_more_than(ASK_NOTHING) && why_all_alike(topology).is_some()
}

/// Whether pinfold has something to do while the program runs.
pub(super) fn stays(arguments: &Arguments) -> bool {
    arguments.reports.json.is_some() || arguments.limits.are_given()
}

/// Gives the answer, and becomes the program, or lets the waiting child execute it.
pub(super) fn run(arguments: &Arguments, plan: &Plan, waiting: Option<&WaitingChild>) -> Result<ExitCode> {
    say(arguments, plan)?;
    match waiting {
        Some(child) => Ok(status(child.clone().run_alone()?)),
        None => Err(run_alone(&arguments.command).into()),
    }
}

/// Prints the machine, the notes and the answer.
pub(super) fn say(arguments: &Arguments, plan: &Plan) -> Result<()> {
    let (reports, lines) = (&arguments.reports, Lines::new(arguments.reports.log.as_deref())?);
    if let Some(name) = &reports.account_as {
        console::say_to_launcher(format_args!(
            "{name}: policy auto: placement cannot matter on this machine"
        ));
    }
    if reports.detail() >= Detail::Changes {
        lines.say(Tone::Plain, &pinfold_core::summary(&plan.topology));
        for note in &plan.notes {
            lines.say(Tone::Plain, note);
        }
    }
    if let Some(why) = why_all_alike(&plan.topology).filter(|_| reports.detail() >= Detail::Result) {
        let answer = findings::nothing_to_gain(&why);
        let result = answer.lines().next().unwrap_or_default().trim_end_matches(';');
        let shown = if reports.detail() > Detail::Result {
            &answer
        } else {
            result
        };
        lines.say(Tone::NotFaster, shown);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Cli, Command, definition};
    use clap::{ColorChoice, FromArgMatches};

    /// Whether these words ask for a placement or a measurement.
    fn ask(words: &str) -> bool {
        let words = format!("pinfold run {words} -- true");
        let matches = definition(ColorChoice::Never).get_matches_from(words.split_whitespace());
        let Command::Run(arguments) = Cli::from_arg_matches(&matches).unwrap().command else {
            unreachable!("the words are those of `run`")
        };
        arguments.policies.asks_for_more_than(super::ASK_NOTHING)
    }

    #[test]
    fn reports_and_files_ask_nothing() {
        for words in [
            "",
            "--json a -v --db b --journals c --claims d",
            "--log a --color never",
            "-q --outlive --keep-pinned",
            "--with auto",
        ] {
            assert!(!ask(words), "{words}");
        }
    }

    #[test]
    fn policies_metrics_times_pages_and_devices_are_asked_for() {
        for words in [
            "--policy auto",
            "--metric regions",
            "-e task-clock",
            "-t 1s",
            "--threads 2",
            "--schedule 0,1",
            "--interleave all",
            "--near net:eth0",
            "--search racing",
            "--override",
            "--prefetch 0000",
        ] {
            assert!(ask(words), "{words}");
        }
    }
}
