//! `pinfold run --machine MODEL`: a recording, or a program that is recorded first, on a simulated machine.

use super::plan::{self, Plan};
use super::{About, drive_about, json_file, words};
use crate::recorded::{self, Recorded};
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::{Finding, Machine, PageMapping, Prefetchers};
use pinfold_runtime::Recorder;
use pinfold_sim::model::Model;
use pinfold_sim::{EndSwitch, RecordedProgram, Repeat, Run, SimulatedMachine};
use serde::Serialize;
use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// What can be said of a run on a simulated machine.
#[derive(Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// On a simulated machine: the recording to run, instead of a program.
    #[arg(value_name = "FILE.pft", conflicts_with = "command")]
    recording: Option<PathBuf>,

    /// On a simulated machine: of a recording that is damaged or cut off, run what precedes the damage.
    #[arg(long, requires = "recording")]
    salvage: bool,

    /// On a simulated machine: do what was recorded so many times, or `auto`: until the policy has made its choice and
    /// told one rate after it [default: auto].
    #[arg(long, value_name = "N|auto")]
    repeat: Option<Repetitions>,

    /// On a simulated machine: keep the recording of the program in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "recording")]
    keep_recording: Option<PathBuf>,

    /// On a simulated machine: what its scheduler's chance follows from; the same seed gives the same run [default: 0].
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,

    /// Which prefetchers are on while the program runs: four characters, 0 enabled, 1 disabled, in the order DCU-IP, DCU,
    /// L2 adjacent, L2 streamer; on a real machine as root, with the kernel's module msr [default: as they are, and 0000 on a
    /// simulated machine].
    #[arg(long, value_name = "BITS")]
    pub(super) prefetch: Option<Prefetchers>,
}

/// How often the recorded piece is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Repetitions {
    #[default]
    Auto,
    Times(NonZeroU64),
}

impl FromStr for Repetitions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse()
            .map(Self::Times)
            .map_err(|_| "give a number from 1 on, or auto".to_owned())
    }
}

/// What is only of use on a simulated machine must not be given elsewhere.
pub(super) fn refuse(arguments: &super::Arguments, place: plan::Where) -> Result<()> {
    let simulated = &arguments.simulated;
    if let Some(recording) = &simulated.recording {
        bail!(
            "`{}` would be run on a simulated machine: name one with --machine (`pinfold machines` lists them), or put -- \
             before a program that is to run here",
            recording.display()
        );
    }
    let given = [
        (simulated.repeat.is_some(), "--repeat"),
        (simulated.keep_recording.is_some(), "--keep-recording"),
        (simulated.seed.is_some(), "--seed"),
        (simulated.prefetch.is_some() && place != plan::Where::Here, "--prefetch"),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, option)) => bail!("{option} is about a simulated machine; name one with --machine, or leave it out"),
        None => Ok(()),
    }
}

/// Ends the program when the policy has told its first rate after the choice; does nothing without a switch.
#[derive(Default)]
pub(super) struct Ending(Option<EndSwitch>);

impl Recorder for Ending {
    fn finding(&mut self, _at: Duration, finding: &Finding) {
        if let (Finding::Rate { .. }, Some(switch)) = (finding, &self.0) {
            switch.end();
        }
    }
}

/// How a program was simulated.
#[derive(Serialize)]
pub(super) struct Simulation {
    /// The model.
    model: String,
    /// The recording; `None` where it was not kept.
    recording: Option<PathBuf>,
    /// What was asked for: `auto` or a number.
    repeat: String,
    /// How often the recorded piece was done.
    repetitions: f64,
    seed: u64,
    /// Where pages were; `None` where nobody said.
    page_map: Option<PageMapping>,
    /// Which prefetchers were on; `None` where nobody said.
    prefetch: Option<Prefetchers>,
    /// How many configurations were simulated in detail.
    windows: usize,
    /// For how many seconds the program stood still because its pages were moved.
    paused: f64,
}

impl fmt::Display for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "simulated on {}: what was recorded was done {:.0} times (--repeat {}), {} configurations in detail, {:.3} s \
             for moving pages, seed {}",
            self.model, self.repetitions, self.repeat, self.windows, self.paused, self.seed
        )
    }
}

pub(super) fn run(arguments: &super::Arguments, model: Model) -> Result<ExitCode> {
    let given = [
        (arguments.overrides, "--override"),
        (arguments.outlive, "--outlive"),
        (arguments.keep_pinned, "--keep-pinned"),
        (arguments.dry_run, "--dry-run"),
    ];
    let given = given.iter().find(|(given, _)| *given).map(|&(_, option)| option);
    if let Some(option) = given.or(arguments.about_real_pages()) {
        bail!(
            "{option} is about a program that really runs, and on {} it is simulated; leave it out",
            model.name
        );
    }
    let mut plan = Plan::new(arguments, model.topology(), plan::Where::Simulated)?;
    plan.count_on(arguments, &model)?;
    let json = json_file(arguments)?;
    let (recorded, kept) = match &arguments.simulated.recording {
        Some(file) => {
            let recording = recorded::open(file, arguments.simulated.salvage)?;
            let exit_status = 0;
            (Recorded { recording, exit_status }, Some(file.clone()))
        }
        None => match record_program(arguments)? {
            Ok(recorded) => (recorded, arguments.simulated.keep_recording.clone()),
            Err(status) => return Ok(super::status(i32::from(status))),
        },
    };
    let command = recorded.recording.header().command.clone();
    let identity = match &arguments.simulated.recording {
        Some(file) => plan::Identity::File(file, &command),
        None => plan::Identity::Command(&arguments.command),
    };
    let learner = plan.learn(arguments, &identity, Some(&model.name))?;
    let name = command
        .first()
        .map_or("program", |word| word.rsplit('/').next().unwrap_or(word));
    let repetitions = arguments.simulated.repeat.unwrap_or_default();
    let seed = arguments.simulated.seed.unwrap_or(0);
    let (repeat, ending) = match repetitions {
        Repetitions::Times(times) => (Repeat::Times(times), Ending::default()),
        Repetitions::Auto => {
            let switch = EndSwitch::default();
            (Repeat::UntilAsked(switch.clone()), Ending(Some(switch)))
        }
    };
    let run = Run {
        // As the kernel keeps it: fifteen bytes.
        name: name.chars().take(15).collect(),
        repeat,
        exit_status: recorded.exit_status,
        seed,
    };
    let program = Arc::new(RecordedProgram::new(recorded.recording)?);
    let model_name = model.name.clone();
    let mut machine = SimulatedMachine::new(model, plan.topology.clone(), program, run);
    check_events(arguments, &machine)?;
    let simulation = |machine: &SimulatedMachine| {
        Some(Simulation {
            model: model_name.clone(),
            recording: kept.clone(),
            repeat: match repetitions {
                Repetitions::Auto => "auto".to_owned(),
                Repetitions::Times(times) => times.to_string(),
            },
            repetitions: machine.repetitions(),
            seed,
            page_map: plan.pages(),
            prefetch: arguments.simulated.prefetch,
            windows: machine.windows(),
            paused: machine.paused().as_secs_f64(),
        })
    };
    let mut about = About {
        learner,
        command: if arguments.command.is_empty() {
            command
        } else {
            words(&arguments.command)
        },
        events: Some(arguments.event.iter().map(|event| format!("event:{event}")).collect()),
        ending,
        simulation,
    };
    drive_about(arguments, &plan, &mut machine, json, &mut about)
}

/// Whether the machine counts all the events that were asked for.
fn check_events(arguments: &super::Arguments, machine: &SimulatedMachine) -> Result<()> {
    for event in &arguments.event {
        pinfold_policy::MetricRequest::Named(format!("event:{event}")).check(machine.metrics())?;
    }
    Ok(())
}

/// Records the program; an exit status where it could not be run.
fn record_program(arguments: &super::Arguments) -> Result<Result<Recorded, u8>> {
    if arguments.command.is_empty() {
        bail!("there is nothing to run: name a recording (FILE.pft), or a program after --");
    }
    let directory = tempfile::tempdir().context("no room for a recording")?;
    let kept = arguments.simulated.keep_recording.clone();
    let file = kept.unwrap_or_else(|| directory.path().join("recording.pft"));
    // An open file is there until it is closed, wherever its name goes.
    recorded::record(&file, &arguments.command, arguments.threads, arguments.quiet)
}
