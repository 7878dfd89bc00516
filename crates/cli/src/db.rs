//! `pinfold db`: the database of programs and their fastest placements.

use crate::rebuild;
use crate::{behaviour, console, db_runs};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use pinfold_core::hint::AffinityHint;
use pinfold_core::text::one_line;
use pinfold_store::{Store, StoredProgram, hint_text};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show, forget or use what `pinfold run` has learned about programs.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold db list
      the programs that are known
  pinfold db show 3
      everything about one of them
  pinfold db forget 3
      make it new again")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    behaviour: behaviour::Arguments,
}

#[derive(Subcommand)]
enum Command {
    /// List the programs: number, name, threads with their placements, samples, whole runs, machine.
    List,
    /// Show everything about a program.
    Show {
        /// Its number in the list, or its name.
        #[arg(value_name = "PROGRAM")]
        program: String,
    },
    /// Print everything as JSON.
    Export {
        /// Only this program, by its number or name.
        #[arg(value_name = "PROGRAM")]
        program: Option<String>,

        /// Write a data set to this file instead, as `pinfold sweep` does (docs/formats/data-sets.md).
        #[arg(long, value_name = "FILE.parquet")]
        data: Option<PathBuf>,
    },
    /// Rebuild the rules from all that was observed. `pinfold run --policy hints:rules` does so when the database has grown
    /// enough.
    Rebuild {
        /// Learn from this data set of `pinfold sweep` as well, now and in the future.
        #[arg(long, value_name = "FILE.parquet")]
        data: Option<PathBuf>,
    },
    /// Forget a program, so that it is new when it runs again.
    Forget {
        /// Its number in the list, or its name.
        #[arg(value_name = "PROGRAM", required_unless_present = "all")]
        program: Option<String>,

        /// Forget all programs.
        #[arg(long, conflicts_with = "program")]
        all: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.behaviour.path()?;
    if !file.exists() {
        bail!(
            "there is no behaviour database `{}` yet; `pinfold run --policy hints:rules` begins one, and --db names another",
            file.display()
        );
    }
    let (mut store, note) = arguments.behaviour.open()?;
    if let Some(note) = note {
        console::say(note);
    }
    let text = match &arguments.command {
        Command::List => list(&store.programs(None)?),
        Command::Show { program } => show(&found(&store, Some(program))?),
        Command::Export {
            program,
            data: Some(file),
        } => {
            let rows = rebuild::export(&found(&store, program.as_deref())?, file)?;
            format!("{rows} rows\n")
        }
        Command::Rebuild { data } => rebuild::rebuild(&mut store, &arguments.behaviour, data.as_deref())?,
        Command::Export { program, data: None } => {
            serde_json::to_string_pretty(&found(&store, program.as_deref())?)? + "\n"
        }
        Command::Forget { program, .. } => {
            let forgotten = store.forget(program.as_deref())?.programs;
            if let Some(program) = program.as_ref().filter(|_| forgotten == 0) {
                bail!("no program has the number or the name `{program}`; `pinfold db list` shows them");
            }
            format!("forgotten: {forgotten}\n")
        }
    };
    console::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn found(store: &Store, which: Option<&str>) -> Result<Vec<StoredProgram>> {
    let programs = store.programs(which)?;
    match which.filter(|_| programs.is_empty()) {
        Some(which) => bail!("no program has the number or the name `{which}`; `pinfold db list` shows them"),
        None => Ok(programs),
    }
}

fn list(programs: &[StoredProgram]) -> String {
    let mut text = format!(
        "{:>4}  {:<20} {:<28} {:<24} {:>7} {:>5}\n",
        "", "program", "arguments", "threads: placement", "samples", "runs"
    );
    for program in programs {
        let hints: Vec<String> = program
            .choices
            .iter()
            .map(|choice| format!("{}: {}", choice.threads, hint_text(choice.hint)))
            .chain(
                program
                    .placements
                    .iter()
                    .map(|one| format!("{}: {}", one.threads, one.place())),
            )
            .chain(db_runs::used(program))
            .collect();
        let hints = if hints.is_empty() {
            "-".to_owned()
        } else {
            hints.join(", ")
        };
        let _ = writeln!(
            text,
            "{:>4}  {:<20} {:<28} {hints:<24} {:>7} {:>5}  on {}{}",
            program.id,
            one_line(&program.key.name),
            one_line(&program.key.shape),
            program.samples.len(),
            db_runs::number(program),
            one_line(&program.key.machine.name),
            simulated(program),
        );
    }
    text
}

fn simulated(program: &StoredProgram) -> &'static str {
    if program.key.machine.simulated {
        " (simulated)"
    } else {
        ""
    }
}

/// The placement that a hint names, as text.
fn place(hint: Option<AffinityHint>) -> String {
    let text = hint_text(hint);
    if hint.is_some() { format!("hint {text}") } else { text }
}

fn show(programs: &[StoredProgram]) -> String {
    let mut text = String::new();
    for program in programs {
        let key = &program.key;
        let _ = writeln!(
            text,
            "{} {} {}\n  on {}{}\n  {}",
            program.id,
            one_line(&key.name),
            one_line(&key.shape),
            one_line(&key.machine.name),
            simulated(program),
            one_line(&key.identity)
        );
        for choice in &program.choices {
            let threads = choice.threads;
            let rates = match (choice.before, choice.after) {
                (Some(before), Some(after)) => format!(", rate {before:.4e} before and {after:.4e} after"),
                _ => String::new(),
            };
            let kept = if choice.kept { "" } else { ", gone back to" };
            let why = choice.why.replace('\n', "\n      ");
            let _ = writeln!(
                text,
                "  {threads} threads: {}{kept}{rates}\n      {why}",
                place(choice.hint)
            );
        }
        for one in &program.placements {
            let _ = writeln!(
                text,
                "  {} threads: {}, {} {:.4e} a second, {:+.1} % over unpinned",
                one.threads,
                one.place(),
                one_line(&one.metric),
                one.rate,
                100.0 * one.gain
            );
        }
        text += &db_runs::show(program);
        for sample in &program.samples {
            let rate = match (&sample.metric, sample.rate) {
                (Some(metric), Some(rate)) => format!("{} {rate:.4e} a second", one_line(metric)),
                _ => "no rate".to_owned(),
            };
            let _ = writeln!(
                text,
                "  sample: {} threads, {} on {}, {:.3} s, {rate}",
                sample.threads,
                place(sample.hint),
                sample.pus,
                sample.lasted
            );
            for observed in &sample.observed {
                let _ = writeln!(text, "      {observed}");
            }
        }
    }
    text
}
