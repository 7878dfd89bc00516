//! `pinfold run --machine MODEL`: a recording, several side by side, or a program that is recorded first, on a
//! simulated machine.

use super::arguments::Detail;
use super::pages::BALANCING_OF_A_REAL_MACHINE;
use super::place::Where;
use super::plan::Plan;
use super::policies::{Program, Regions};
use super::simulations::{Folder, SIMULATOR, VARIABLE, hash_of};
use super::{About, Outputs, Played, drive_about, words};
use crate::recorded::{self, Recorded};
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::{Finding, Machine, NoteCode, PageMapping, Prefetchers, digits};
use pinfold_runtime::{NumaBalancing, Record, Recorder, SimulatedProgram, Simulation};
use pinfold_sim::model::Model;
use pinfold_sim::{EndSwitch, Kernel, NamedProgram, RecordedProgram, Repeat, RunSettings, SimulatedMachine};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The options of a run on a simulated machine.
#[derive(Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// On a simulated machine: the recording to run, instead of a program.
    ///
    /// Several run side by side, each as a separate program that repeats its recording; name one N times to run it N
    /// times at once.
    #[arg(help_heading = None::<&str>, value_name = "FILE.pft", conflicts_with = "command")]
    recordings: Vec<PathBuf>,

    /// On a simulated machine: accept damaged recordings, and run the part before the damage.
    #[arg(long, requires = "recordings")]
    salvage: bool,

    /// On a simulated machine or a table: repeat what was recorded or measured N times, or with `auto` until the policy
    /// has chosen and reported one rate after that. Of several recordings each is repeated at least N times, and all go on until the
    /// last is done [default: auto].
    #[arg(long, value_name = "N")]
    pub(super) repeat: Option<Repetitions>,

    /// On a simulated machine: keep the recording of the program in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "recordings")]
    keep_recording: Option<PathBuf>,

    /// On a simulated machine: the seed of its random choices, which are its scheduler's, the variation of the latency
    /// of transfers between caches, and the noise; on a table the noise. The same seed gives the same run [default: 0].
    #[arg(long, value_parser = super::number::within(0u64, u64::MAX), value_name = "SEED")]
    pub(super) seed: Option<u64>,

    /// On a simulated machine: what is read of a metric in a tenth of a second varies by this many percent (standard
    /// deviation), as on a real machine; longer measurements vary less. On a virtual machine 6 was
    /// measured. On a table: so much does the time of an execution vary [default: 0, exact readings; on a table its own
    /// spread].
    #[arg(long, value_parser = super::number::parse_percent, value_name = "PERCENT")]
    pub(super) noise: Option<f64>,

    /// On a simulated machine: the version of Linux that places unpinned threads: 2.6.39, 3.10, 6.1, 6.12 or 7.2
    /// [default: 6.1].
    ///
    /// 2.6.39 and 3.10 spread threads evenly over the NUMA nodes. 6.1 and 6.12 keep the first threads of a program on
    /// one node. 7.2 also gathers the threads of a small process on one last-level cache.
    #[arg(long, value_name = "VERSION")]
    kernel: Option<Kernel>,

    /// On a simulated machine: keep the configurations that were simulated in this folder, and take from it those that
    /// earlier runs of the same recordings, model and seed have left there. The result is the same.
    #[arg(long, env = VARIABLE, hide_env_values = true, value_name = "FOLDER")]
    simulations: Option<PathBuf>,

    /// Which prefetchers are on while the program runs: four characters, 0 enabled, 1 disabled, in the order DCU-IP,
    /// DCU, L2 adjacent, L2 streamer; on a real machine as root, with the kernel's module msr [default: as they are,
    /// and 0000 on a simulated machine].
    #[arg(long, help_heading = "Changes of the program", value_name = "BITS")]
    pub(super) prefetch: Option<Prefetchers>,
}

/// How often the region of interest is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Repetitions {
    #[default]
    Auto,
    Times(NonZeroU64),
}

impl Repetitions {
    /// When the programs end, and the recorder that ends them.
    pub(super) fn repeat(self) -> (Repeat, Ending) {
        match self {
            Self::Times(times) => (Repeat::Times(times), Ending::default()),
            Self::Auto => {
                let switch = EndSwitch::default();
                (Repeat::UntilAsked(switch.clone()), Ending(Some(switch)))
            }
        }
    }
}

/// The value of `--repeat`.
impl fmt::Display for Repetitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Times(times) => times.fmt(f),
        }
    }
}

impl FromStr for Repetitions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        digits::decimal(text)
            .map(Self::Times)
            .ok_or_else(|| "give a number from 1 on, or auto".to_owned())
    }
}

/// Why no kernel can be selected where a program really runs.
pub(crate) const KERNEL_OF_A_REAL_MACHINE: &str = "--kernel selects the kernel of a simulated machine, and the kernel \
    of a real machine is the one that runs; name a model with --machine (`pinfold machines` lists them), or leave \
    --kernel out";

/// Refuses options that are only for simulated machines.
pub(super) fn refuse(arguments: &super::Arguments, place: &Where<'_>) -> Result<()> {
    let simulated = &arguments.simulated;
    if let Some(recording) = simulated.recordings.first() {
        bail!(
            "`{}` is a recording, which runs on a simulated machine: name one with --machine (`pinfold machines` lists \
             them)",
            recording.display()
        );
    }
    if simulated.kernel.is_some() {
        bail!("{KERNEL_OF_A_REAL_MACHINE}");
    }
    if arguments.pages.balances() {
        bail!("{BALANCING_OF_A_REAL_MACHINE}");
    }
    let given = [
        (simulated.repeat.is_some(), "--repeat"),
        (simulated.keep_recording.is_some(), "--keep-recording"),
        (simulated.seed.is_some(), "--seed"),
        (simulated.noise.is_some(), "--noise"),
        (
            simulated.prefetch.is_some() && !matches!(place, Where::Here),
            "--prefetch",
        ),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, option)) => bail!("{option} is about a simulated machine; name one with --machine, or leave it out"),
        None => Ok(()),
    }
}

/// Refuses a recording where a table says what runs.
pub(super) fn refuse_recordings(arguments: &super::Arguments) -> Result<()> {
    let simulated = &arguments.simulated;
    if let Some(recording) = simulated.recordings.first() {
        bail!(
            "the table says what runs there, so the recording `{}` cannot be run; leave it out, or name a model \
             (`pinfold machines` lists them)",
            recording.display()
        );
    }
    let given = [
        (simulated.keep_recording.is_some(), "--keep-recording"),
        (simulated.kernel.is_some(), "--kernel"),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, option)) => bail!("{option} is about a simulated machine, and a table is replayed; leave it out"),
        None => Ok(()),
    }
}

/// Ends the program when the policy has reported its first rate after the choice, or that it has chosen; does nothing
/// without a switch.
#[derive(Default)]
pub(super) struct Ending(Option<EndSwitch>);

impl Recorder for Ending {
    fn finding(&mut self, _at: Duration, finding: &Finding, _record: &Record) {
        let has_chosen = match finding {
            Finding::Rate { .. } => true,
            Finding::Note { code, .. } => *code == NoteCode::PolicyIsDone,
            _ => false,
        };
        if let Some(switch) = self.0.as_ref().filter(|_| has_chosen) {
            switch.end();
        }
    }
}

/// A program that is going to run.
struct Part {
    recorded: Recorded,
    /// Where its recording is; `None` if it was not kept.
    kept: Option<PathBuf>,
}

impl Part {
    /// The name of its tasks: fifteen characters, as the kernel keeps it.
    fn name(&self) -> String {
        let command = &self.recorded.recording.header().command;
        let name = command
            .first()
            .map_or("program", |word| word.rsplit('/').next().unwrap_or(word));
        name.chars().take(15).collect()
    }
}

pub(super) fn run(arguments: &super::Arguments, model: Model) -> Result<ExitCode> {
    if let Some(option) = arguments.about_real_process().or(arguments.pages.about_real_programs()) {
        bail!(
            "{option} is about a program that really runs, and on {} it is simulated; leave it out",
            model.name
        );
    }
    let kernel = arguments.simulated.kernel.unwrap_or_default();
    let numa_balancing = arguments.pages.balances();
    if numa_balancing {
        kernel.check_numa_balancing().context("--numa-balancing on")?;
    }
    let mut plan = Plan::new(arguments, model.topology(), &Where::Simulated(&model))?;
    let outputs = Outputs::open(arguments)?;
    let parts = match parts(arguments)? {
        Ok(parts) => parts,
        Err(status) => return Ok(super::status(i32::from(status))),
    };
    let command = command(arguments, &parts);
    let part = |part: &Part| Some((part.kept.clone()?, part.recorded.recording.header().command.clone()));
    let several: Vec<(PathBuf, Vec<String>)> = parts.iter().filter_map(part).collect();
    let program = match (parts.as_slice(), arguments.simulated.recordings.as_slice()) {
        ([_], []) => Program::Command(&arguments.command),
        ([_], [file, ..]) => Program::File(file, &command),
        _ => Program::Several(&several),
    };
    let built = plan.build(arguments, &program)?;
    let repetitions = arguments.simulated.repeat.unwrap_or_default();
    let seed = arguments.simulated.seed.unwrap_or(0);
    let (repeat, ending) = repetitions.repeat();
    let run = RunSettings {
        repeat,
        exit_status: parts.iter().map(|part| part.recorded.exit_status).max().unwrap_or(0),
        seed,
        noise: arguments.simulated.noise.unwrap_or(0.0),
        kernel,
        numa_balancing,
    };
    let files: Vec<(Option<PathBuf>, String)> = parts.iter().map(|part| (part.kept.clone(), part.name())).collect();
    let settings = Settings {
        model: model.name.clone(),
        files,
        repetitions,
        seed,
        noise: run.noise,
        kernel,
        numa_balancing,
        page_map: plan.pages(),
        prefetch: arguments.simulated.prefetch,
    };
    let drawn = match parts.as_slice() {
        [one] if arguments.reports.report.is_some() => Some(one.recorded.recording.clone()),
        _ => None,
    };
    let by_region = built.regions != Regions::No;
    let wants = match built.regions {
        Regions::Needed => "--policy react",
        _ => "--by-region",
    };
    if by_region && parts.len() > 1 {
        bail!("{wants} is for one program, because regions of several may have the same address; give one recording");
    }
    let kept = kept_windows(arguments, &model, &parts, by_region, seed)?;
    let programs = programs(parts, by_region)?;
    if by_region && programs.iter().all(|named| named.program.regions().is_none()) {
        bail!(
            "the recording marks no parallel region, so there is nothing that {wants} could configure; record an OpenMP program \
             with `pinfold record`"
        );
    }
    let mut machine = SimulatedMachine::new(model, plan.topology.clone(), programs, run);
    if let Some((folder, run)) = kept {
        machine.keep_windows(Box::new(folder), run.as_bytes());
    }
    check_events(arguments, &machine)?;
    let mut about = About {
        command,
        attached: None,
        with: None,
        events: Some(
            arguments
                .search
                .event
                .iter()
                .map(|event| format!("event:{event}"))
                .collect(),
        ),
        ending,
        recording: drawn,
        played: |machine: &SimulatedMachine| Played {
            simulation: Some(settings.simulation(machine)),
            replay: None,
        },
    };
    drive_about(arguments, &plan, &mut machine, outputs, built, &mut about)
}

/// The folder of configurations that were simulated, and the run that uses them. A program that is recorded for this
/// run alone has none: no other run has its recording.
fn kept_windows(
    arguments: &super::Arguments,
    model: &Model,
    parts: &[Part],
    regions: bool,
    seed: u64,
) -> Result<Option<(Folder, String)>> {
    let Some(folder) = &arguments.simulated.simulations else {
        return Ok(None);
    };
    let files: Option<Vec<&PathBuf>> = parts.iter().map(|part| part.kept.as_ref()).collect();
    let Some(files) = files.filter(|_| !arguments.simulated.recordings.is_empty()) else {
        return Ok(None);
    };
    let hash = |file: &PathBuf| hash_of(file).with_context(|| format!("cannot read `{}`", file.display()));
    let recordings: Vec<u128> = files.into_iter().map(hash).collect::<Result<_>>()?;
    let salvage = arguments.simulated.salvage;
    let run = format!("{SIMULATOR} {recordings:x?} {salvage} {regions} {seed} {model:?}");
    let folder = Folder::new(folder)
        .with_context(|| format!("cannot create the folder `{}` of --simulations", folder.display()))?;
    Ok(Some((folder, run)))
}

/// The command of the record: the user's, or the recordings'.
fn command(arguments: &super::Arguments, parts: &[Part]) -> Vec<String> {
    match arguments.command.as_slice() {
        [] => parts
            .iter()
            .flat_map(|part| part.recorded.recording.header().command.clone())
            .collect(),
        command => words(command),
    }
}

/// The settings of a simulated run that its record names.
struct Settings {
    model: String,
    /// The recording of each program, if it was kept, and the program's name.
    files: Vec<(Option<PathBuf>, String)>,
    repetitions: Repetitions,
    seed: u64,
    noise: f64,
    kernel: Kernel,
    numa_balancing: bool,
    page_map: Option<PageMapping>,
    prefetch: Option<Prefetchers>,
}

impl Settings {
    /// The record of a simulation that has ended.
    fn simulation(&self, machine: &SimulatedMachine) -> Simulation {
        let programs = simulated_programs(machine, &self.files);
        Simulation {
            model: self.model.clone(),
            recording: match self.files.as_slice() {
                [(file, _)] => file.clone(),
                _ => None,
            },
            repeat: self.repetitions.to_string(),
            repetitions: programs.iter().map(|program| program.repetitions).sum(),
            seed: self.seed,
            noise: self.noise,
            kernel: self.kernel.to_string(),
            numa_balancing: self.numa_balancing.then(|| balancing(machine)),
            page_map: self.page_map,
            prefetch: self.prefetch,
            windows: machine.windows(),
            paused: programs.iter().map(|program| program.paused).sum(),
            programs,
        }
    }
}

/// The record of automatic NUMA balancing that was on.
fn balancing(machine: &SimulatedMachine) -> NumaBalancing {
    let counts = machine.numa_balancing().unwrap_or_default();
    NumaBalancing {
        scans: counts.scans,
        hint_faults: counts.hint_faults,
        pages_moved: counts.pages_moved,
        tasks_moved: counts.tasks_moved,
    }
}

/// The programs of the run: the named recordings, or the program, which is recorded first. An exit status where the
/// program could not be run.
fn parts(arguments: &super::Arguments) -> Result<Result<Vec<Part>, u8>> {
    let files = &arguments.simulated.recordings;
    if files.is_empty() {
        let kept = arguments.simulated.keep_recording.clone();
        return Ok(record_program(arguments)?.map(|recorded| vec![Part { recorded, kept }]));
    }
    let part = |file: &PathBuf| {
        let recorded = Recorded {
            recording: recorded::open(file, arguments.simulated.salvage)?,
            exit_status: 0,
        };
        Ok(Part {
            recorded,
            kept: Some(file.clone()),
        })
    };
    files.iter().map(part).collect::<Result<_>>().map(Ok)
}

/// The programs of recordings. One that is named twice is read once. With `regions` the machine can place the threads
/// of each region.
fn programs(parts: Vec<Part>, regions: bool) -> Result<Vec<NamedProgram>> {
    let mut read: BTreeMap<PathBuf, Arc<RecordedProgram>> = BTreeMap::new();
    parts
        .into_iter()
        .map(|part| {
            let name = part.name();
            let known = part.kept.as_ref().and_then(|file| read.get(file)).cloned();
            let program = match known {
                Some(program) => program,
                None if regions => Arc::new(RecordedProgram::with_regions(part.recorded.recording)?),
                None => Arc::new(RecordedProgram::new(part.recorded.recording)?),
            };
            read.extend(part.kept.map(|file| (file, Arc::clone(&program))));
            Ok(NamedProgram { name, program })
        })
        .collect()
}

/// The record of each program.
fn simulated_programs(machine: &SimulatedMachine, files: &[(Option<PathBuf>, String)]) -> Vec<SimulatedProgram> {
    let ran = machine.now().as_secs_f64();
    machine
        .programs()
        .into_iter()
        .zip(files)
        .map(|(program, (recording, name))| SimulatedProgram {
            recording: recording.clone(),
            name: name.clone(),
            process: program.process,
            tasks: program.tasks,
            pus: program.pus.into_iter().collect(),
            repetitions: program.repetitions,
            speed: (ran > 0.0).then(|| program.repetitions / ran),
            paused: program.paused.as_secs_f64(),
            unrecorded_wait_share: program.unrecorded_wait_share,
            events: program.events.into_iter().collect(),
        })
        .collect()
}

/// Whether the machine counts all the events that were asked for.
fn check_events(arguments: &super::Arguments, machine: &SimulatedMachine) -> Result<()> {
    for event in &arguments.search.event {
        pinfold_policy::MetricRequest::Named(format!("event:{event}")).check(machine.metrics())?;
    }
    Ok(())
}

/// Records the program; an exit status if it could not be run.
fn record_program(arguments: &super::Arguments) -> Result<Result<Recorded, u8>> {
    if arguments.command.is_empty() {
        bail!("there is nothing to run: name a recording (FILE.pft), or a program after --");
    }
    let directory = tempfile::tempdir().context("no room for a recording")?;
    let kept = arguments.simulated.keep_recording.clone();
    let file = kept.unwrap_or_else(|| directory.path().join("recording.pft"));
    // An open file exists until it is closed, even after its folder is removed.
    recorded::record(
        &file,
        &arguments.command,
        arguments.search.threads,
        arguments.reports.detail() < Detail::Changes,
    )
}
