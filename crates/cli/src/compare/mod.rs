//! `pinfold compare`: a program alone, unpinned under pinfold, and under policies, in turns.
//!
//! 1. `variants` resolves the variants and checks each command line; the files of the result are opened.
//! 2. On a simulated machine a missing recording is made, and the number of repetitions is found (`simulated`).
//! 3. `execute` runs the variants in turns. Each one is a process, so that it is exactly what the user would run.
//! 4. The result is reported, also when a run failed or a signal ended the comparison, so that no measurement is lost.
//!
//! Turns, statistics, table and exports are `pinfold_compare`'s.

mod arguments;
mod execute;
mod passed;
mod simulated;
mod variants;

use crate::console;
use crate::machine::{Selected, topology_here};
use crate::progress::{Progress, ProgressUnit};
use anyhow::{Result, bail};
pub(crate) use arguments::Arguments;
use execute::{Ended, Executor};
use nix::sys::signal::Signal;
use pinfold_compare::{Comparison, Document, LeftOut, Turn, Turns, Variant, export, table};
use pinfold_files::output::Output;
use std::ffi::OsString;
use std::process::ExitCode;
use variants::Planned;

const COUNTED: ProgressUnit = ProgressUnit {
    what: "runs",
    first: "the first one runs",
};

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    arguments.check()?;
    let machine = machine(arguments)?;
    let (planned, left_out) = variants::plan(arguments)?;
    let outputs = Outputs::open(arguments)?;
    for LeftOut { policy, why } in left_out.iter().filter(|_| !arguments.surroundings.quiet) {
        console::say(format_args!("{policy} is left out: {why}"));
    }
    let recording = simulated::recording(arguments)?;
    let program = recording
        .as_ref()
        .map_or_else(|| arguments.command.clone(), simulated::Program::words);
    let mut executor = Executor::new(arguments)?;
    let mut comparison = Comparison {
        command: shown(
            recording
                .as_ref()
                .map_or(&arguments.command, |recording| &recording.command),
        ),
        machine,
        simulated: None,
        variants: planned.iter().map(Planned::variant).collect(),
        left_out,
        ended_early: None,
    };
    if let Some(recording) = &recording {
        match simulated::settings(arguments, recording, &planned, &mut executor)? {
            Ok(settings) => comparison.simulated = Some(settings),
            Err(signal) => return Ok(interrupted(signal)),
        }
    }
    let ended = measure(arguments, &planned, &program, &mut executor, &mut comparison);
    comparison.ended_early = match &ended {
        Ok(None) => None,
        Ok(Some(signal)) => Some(format!("{} ended it", name(*signal))),
        Err(error) => Some(console::whole(error)),
    };
    if comparison.has_runs() {
        outputs.write(&comparison)?;
        console::print(&table::text(&comparison))?;
    }
    match ended? {
        None => Ok(ExitCode::SUCCESS),
        Some(signal) => Ok(interrupted(signal)),
    }
}

/// The machine in one line. Errors: it cannot be compared on.
fn machine(arguments: &Arguments) -> Result<String> {
    let topology = match arguments.machine.selected()? {
        Selected::Here => topology_here(arguments.surroundings.quiet)?,
        selected @ (Selected::Builtin(_) | Selected::ModelFile(_) | Selected::Table(_)) => selected.topology()?,
        Selected::Described(source) => bail!(
            "{source} describes the topology of a machine and not its speed, so nothing can be compared there; leave --machine \
             out to run here, or name a model (`pinfold machines` lists them)"
        ),
        Selected::Scripted(file) => bail!(
            "the script `{}` says how long the program runs, so all policies take the same time; name a model (`pinfold \
             machines` lists them), or leave --machine out to run here",
            file.display()
        ),
    };
    Ok(pinfold_core::summary(&topology))
}

/// Runs the variants in turns. The result is the signal that ended the comparison, if there was one.
fn measure(
    arguments: &Arguments,
    planned: &[Planned],
    program: &[OsString],
    executor: &mut Executor<'_>,
    comparison: &mut Comparison,
) -> Result<Option<i32>> {
    let surroundings = &arguments.surroundings;
    let progress = Progress::new(surroundings.quiet || surroundings.shows_output(), COUNTED, 0, 0);
    let mut turns = Turns::new(planned.len(), arguments.extent());
    let ended = loop {
        let Some(turn) = turns.next(comparison.spent()) else {
            break Ok(None);
        };
        let variant = &planned[turn.variant];
        progress.begin(turns.foreseen(comparison.spent()), &variant.name);
        let words = executor.words(variant, &run_words(comparison, turn), program);
        match executor.run(&words, variant) {
            Ok(Ended::Complete(run, _)) if turn.round.is_some() => comparison.variants[turn.variant].runs.push(run),
            Ok(Ended::Complete(..)) => {}
            Ok(Ended::Interrupted(signal)) => break Ok(Some(signal)),
            Err(error) => break Err(error.context(which(turn, &variant.name))),
        }
        progress.step();
    };
    progress.finish();
    ended
}

/// The options of a simulated run that differ by round.
fn run_words(comparison: &Comparison, turn: Turn) -> Vec<OsString> {
    comparison.simulated.as_ref().map_or_else(Vec::new, |simulated| {
        let later = turn.round.unwrap_or(1).saturating_sub(1) as u64;
        simulated::options(Some(simulated.repeat), simulated.first_seed.wrapping_add(later))
    })
}

/// The run that failed.
fn which(turn: Turn, name: &str) -> String {
    match turn.round {
        Some(round) => format!("run {round} of the variant `{name}`"),
        None => format!("a warm-up run of the variant `{name}`"),
    }
}

fn interrupted(signal: i32) -> ExitCode {
    console::say(format_args!("{} ended the comparison", name(signal)));
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(crate::FAILURE))
}

fn name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string())
}

fn shown(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

impl Planned {
    /// The variant before its first run.
    fn variant(&self) -> Variant {
        Variant {
            name: self.name.clone(),
            role: self.role,
            options: self.words.as_deref().map(shown),
            runs: vec![],
        }
    }
}

/// The files that the result is written to.
struct Outputs {
    json: Option<Output>,
    csv: Option<Output>,
    markdown: Option<Output>,
}

impl Outputs {
    /// Checks before the first run whether they can be written.
    fn open(arguments: &Arguments) -> Result<Self> {
        let exports = &arguments.exports;
        Ok(Self {
            json: Output::optional("--export-json", exports.json.as_deref())?,
            csv: Output::optional("--export-csv", exports.csv.as_deref())?,
            markdown: Output::optional("--export-markdown", exports.markdown.as_deref())?,
        })
    }

    fn write(self, comparison: &Comparison) -> Result<()> {
        let texts = [
            (self.csv, export::csv(comparison)),
            (self.markdown, export::markdown(comparison)),
        ];
        for (output, text) in texts {
            if let Some(output) = output {
                output.write(text.as_bytes())?;
            }
        }
        if let Some(json) = self.json {
            json.write_json(&Document::of(comparison))?;
        }
        Ok(())
    }
}
