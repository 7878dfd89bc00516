//! A sweep on simulated machines.
//!
//! 1. Read the recordings, or make one of a program, and lay out all jobs (`pinfold_sweep::Plan`).
//! 2. Open the journal, which has the finished jobs (`Journal`), and do the rest on all cores.
//! 3. Write the data set in the order of the plan (`data_set`), or with `--shard` a shard file (`shard`), and remove
//!    the journal.
//!
//! The same inputs give the same file, byte by byte: all threads are pinned, and the latency of transfers between
//! caches varies with a fixed seed.

use super::{check_absent, open_journal};
use crate::machine::Selected;
use crate::progress::ProgressUnit;
use crate::recorded;
use crate::run::number;
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::content_hash;
use pinfold_files::output::Output;
use pinfold_linux::interrupt::Interrupts;
use pinfold_linux::processor_time;
use pinfold_sweep::{
    End, Extent, Journal, Key, Outcome, Plan, Shard, Spaces, SweptMachine, SweptProgram, data_set, outcome_notes,
    plan_notes, shard,
};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, available_parallelism};
use std::time::Instant;

/// The options of a sweep on simulated machines.
#[derive(Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// Simulate pieces of long recordings, and estimate the times of the whole from them, with their errors.
    #[arg(long)]
    sampled: bool,

    /// Simulate N configurations at the same time [default: one for each CPU that is allowed].
    #[arg(short, long, value_parser = number::within(1usize, 4096), value_name = "N")]
    jobs: Option<usize>,

    /// Keep the recording of the program in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "recordings")]
    keep_recording: Option<PathBuf>,
}

impl Arguments {
    /// Whether pieces of recordings are simulated.
    pub(super) fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// The first option that was given, if any.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.sampled, "--sampled"),
            (self.jobs.is_some(), "--jobs"),
            (self.keep_recording.is_some(), "--keep-recording"),
        ];
        given.iter().find(|(given, _)| *given).map(|&(_, option)| option)
    }
}

/// The summary of a sweep.
#[derive(Serialize)]
struct Summary {
    output: PathBuf,
    simulated: bool,
    /// The part of the sweep; `null` for all of it.
    shard: Option<Shard>,
    machines: usize,
    programs: usize,
    /// Those of the part.
    configurations: usize,
    /// Configurations that an earlier run of the command had done.
    resumed: usize,
    rows: usize,
    workers: usize,
    /// Wall time of the simulations.
    seconds: f64,
    /// Processor time that they took.
    processor_seconds: f64,
    /// The used share of all workers' processor time; `null` if nothing was to be done.
    busy: Option<f64>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "simulated {} configurations in {:.1} s, {} CPUs",
            self.configurations - self.resumed,
            self.seconds,
            self.workers,
        )?;
        if let Some(busy) = self.busy {
            write!(f, " {:.0} % busy", busy * 100.0)?;
        }
        if self.resumed > 0 {
            write!(f, "; {} more were done before", self.resumed)?;
        }
        write!(f, ": {} rows in {}", self.rows, self.output.display())?;
        if let Some(shard) = self.shard {
            write!(f, ", which is shard {shard}")?;
        }
        Ok(())
    }
}

/// What the progress bar counts.
const COUNTED: ProgressUnit = ProgressUnit {
    what: "configurations",
    first: "the first one is being simulated",
};

impl super::Arguments {
    fn extent(&self) -> Extent {
        if self.simulated.sampled {
            /// The usual precision.
            const PRECISION: f64 = 0.02;
            Extent::Sampled {
                precision: self.measured.precision.unwrap_or(PRECISION),
            }
        } else {
            Extent::Whole
        }
    }

    fn workers(&self) -> Result<usize> {
        match self.simulated.jobs {
            Some(jobs) => Ok(jobs),
            None => Ok(available_parallelism()
                .context("the number of CPUs cannot be read; give --jobs N")?
                .get()),
        }
    }

    /// The recording of the program. Its name differs between commands.
    fn own_recording(&self) -> PathBuf {
        let mut words = self.command.clone();
        let variables = recorded::threads_wanted(self.threads);
        words.extend(variables.into_iter().map(|(_, threads)| threads));
        words.extend(std::env::var_os("OMP_NUM_THREADS"));
        let text: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), &[0]].concat()).collect();
        self.beside(&format!(".{:08x}.pft", content_hash(&text) >> 96))
    }
}

pub(super) fn sweep(arguments: &super::Arguments) -> Result<ExitCode> {
    if arguments.shard.is_some() && !arguments.command.is_empty() {
        bail!(
            "--shard needs recordings: each part would record the program again, and order its threads in another way; \
             record it once (`pinfold record`), and give the recording"
        );
    }
    let machines = arguments
        .machine
        .iter()
        .map(|name| machine(name))
        .collect::<Result<Vec<_>>>()?;
    let spaces = Spaces::new(&arguments.space, arguments.limit)?;
    let output = Output::open("--output", &arguments.output)?;
    check_absent(&arguments.output, arguments.force)?;
    let json = Output::optional("--json", arguments.json.as_deref())?;
    let kept = Output::optional("--keep-recording", arguments.simulated.keep_recording.as_deref())?;
    let (mut journal, found) = open_journal(arguments)?;
    let (programs, own_recording) = if arguments.command.is_empty() {
        (open(&arguments.recordings, arguments.workers()?)?, None)
    } else {
        check_one_recording(&machines, &spaces)?;
        let file = arguments.own_recording();
        if let Some(status) = record(arguments, &file)? {
            return Ok(ExitCode::from(status));
        }
        (open(std::slice::from_ref(&file), 1)?, Some(file))
    };
    let plan = Arc::new(Plan::new(machines, programs, &spaces, arguments.extent())?);
    for note in plan_notes(&plan) {
        arguments.say(note);
    }
    let (outcomes, mut summary) = simulate(arguments, &plan, &mut journal, found.by_key())?;
    match arguments.shard {
        Some(shard) => output.write_with(|file| shard::write(&plan, shard, &outcomes, &mut BufWriter::new(file)))?,
        None => output.write_with(|file| data_set(&plan, &outcomes).write(file))?,
    }
    summary.rows = outcomes.values().map(|outcome| outcome.rows.len()).sum();
    journal.remove()?;
    if let Some(file) = own_recording {
        remove_recording(&file, kept)?;
    }
    for note in outcome_notes(&plan, &outcomes) {
        arguments.say(note);
    }
    arguments.say(&summary);
    if let Some(json) = json {
        json.write_json(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A program is recorded once, with one number of threads.
fn check_one_recording(machines: &[SweptMachine], spaces: &Spaces) -> Result<()> {
    for machine in machines {
        if let Some(threads) = spaces.thread_counts(&machine.space)? {
            let threads: Vec<String> = threads.iter().map(usize::to_string).collect();
            bail!(
                "the configurations of --space {} on {} have {} threads, each of a recording of its own: record the \
                 program with each number (`pinfold record`), and give the recordings",
                spaces.with_thread_counts(),
                machine.model.name,
                threads.join(", ")
            );
        }
    }
    Ok(())
}

/// Removes the recording of the program, after a copy to the file that the user named, if any.
fn remove_recording(file: &Path, kept: Option<Output>) -> Result<()> {
    let failure = || format!("the recording {} cannot be moved", file.display());
    if let Some(kept) = kept {
        let mut recording = fs::File::open(file).with_context(failure)?;
        kept.write_with(|kept| io::copy(&mut recording, kept).map(drop))?;
    }
    fs::remove_file(file).with_context(failure)
}

/// The machine of this name.
fn machine(name: &str) -> Result<SweptMachine> {
    let selected = Selected::parse(name)?;
    if !matches!(selected, Selected::Builtin(_) | Selected::ModelFile(_)) {
        bail!(
            "`{name}` cannot be simulated: a sweep needs a model, which says how fast everything is (`pinfold machines` lists \
             them)"
        );
    }
    SweptMachine::new(selected.model()?)
}

/// The program of a recording.
fn program(file: &Path) -> Result<SweptProgram> {
    SweptProgram::new(file, recorded::open(file, false)?)
}

/// Opens and reads recordings, several at a time.
fn open(files: &[PathBuf], workers: usize) -> Result<Vec<SweptProgram>> {
    let next = AtomicUsize::new(0);
    let opened: Vec<OnceLock<Result<SweptProgram>>> = files.iter().map(|_| OnceLock::new()).collect();
    thread::scope(|scope| {
        for _ in 0..workers.min(files.len()) {
            scope.spawn(|| {
                while let Some((file, slot)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    files.get(number).zip(opened.get(number))
                } {
                    let _ = slot.set(program(file));
                }
            });
        }
    });
    opened
        .into_iter()
        .map(|slot| slot.into_inner().context("a recording was not read")?)
        .collect()
}

/// Records the program to `file`, unless an earlier run of this command has done so: another recording would order the
/// threads in another way, so that no earlier result could be used. An exit status where there is nothing to sweep.
fn record(arguments: &super::Arguments, file: &Path) -> Result<Option<u8>> {
    /// The statuses of a program that SIGHUP, SIGINT or SIGTERM ended, which were meant for the whole command.
    const INTERRUPTED: [i32; 3] = [129, 130, 143];
    if file.exists() {
        arguments.say("the recording of the earlier run is used");
        return Ok(None);
    }
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    let recorded = recorded::record(new, &arguments.command, arguments.threads, arguments.quiet)?;
    let status = match recorded {
        Ok(recorded) => recorded.exit_status,
        Err(status) => {
            // The file is empty; it may stay.
            let _ = fs::remove_file(new);
            return Ok(Some(status));
        }
    };
    if INTERRUPTED.contains(&status) {
        fs::remove_file(new)?;
        return Ok(u8::try_from(status).ok());
    }
    if status != 0 {
        arguments.say(format!(
            "the program ended with status {status}; what it did until then is swept"
        ));
    }
    fs::rename(new, file).with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(None)
}

/// The jobs of the sweep, or of its shard, without a known outcome, the longest first, and the known outcomes.
fn pending(
    arguments: &super::Arguments,
    plan: &Plan,
    mut known: HashMap<Key, Outcome>,
) -> (Vec<usize>, BTreeMap<usize, Outcome>) {
    let mut outcomes = BTreeMap::new();
    let mut pending = vec![];
    for job in (0..plan.jobs.len()).filter(|&job| arguments.shard.is_none_or(|shard| shard.has(job))) {
        match known.remove(&plan.jobs[job].key) {
            Some(outcome) => drop(outcomes.insert(job, outcome)),
            None => pending.push(job),
        }
    }
    if !known.is_empty() {
        let shard = arguments.shard.map_or("", |_| " or shard");
        arguments.say(format!(
            "{} results of an earlier run are not used: they are of another recording, model, space{shard}, or of another \
             build of pinfold",
            known.len()
        ));
    }
    pending.sort_by_key(|&job| Reverse(plan.cost(job)));
    if !outcomes.is_empty() {
        arguments.say(format!(
            "{} of {} configurations were done before",
            outcomes.len(),
            outcomes.len() + pending.len()
        ));
    }
    (pending, outcomes)
}

/// Completes the journal of an interrupted sweep, and reports if it is.
fn say_kept(arguments: &super::Arguments, journal: &mut Journal<Outcome>, done: usize, total: usize) -> Result<()> {
    journal.sync()?;
    arguments.say(format!(
        "{done} of {total} configurations are done and kept in {}: the same command goes on from there",
        arguments.beside(".partial").display()
    ));
    Ok(())
}

/// Does all jobs whose outcome is not in `known`. The outcomes of all, by the positions of their jobs.
fn simulate(
    arguments: &super::Arguments,
    plan: &Arc<Plan>,
    journal: &mut Journal<Outcome>,
    known: HashMap<Key, Outcome>,
) -> Result<(BTreeMap<usize, Outcome>, Summary)> {
    let (pending, mut outcomes) = pending(arguments, plan, known);
    let workers = arguments.workers()?;
    let resumed = outcomes.len();
    let total = resumed + pending.len();
    let progress = arguments.show_progress(COUNTED, resumed, total);
    let anything = !pending.is_empty();
    let signals = Interrupts::hold_back().context("signals cannot be held back")?;
    let started = Instant::now();
    let before = processor_time::this_process()?.total();
    let mut done = resumed;
    let work = {
        let plan = Arc::clone(plan);
        move |job| plan.evaluate(job)
    };
    let end = pinfold_sweep::run(
        pending,
        workers,
        move || signals.wait(),
        work,
        |job, outcome| {
            journal.keep(plan.jobs[job].key, &outcome)?;
            outcomes.insert(job, outcome);
            done += 1;
            progress.step();
            Ok(())
        },
    );
    progress.finish();
    match end {
        Ok(End::Done) => {}
        Ok(End::Signal(signal)) => {
            say_kept(arguments, journal, done, total)?;
            // Unfinished simulations of the workers are dropped.
            std::process::exit(128 + signal);
        }
        Err(error) => {
            journal.sync()?;
            return Err(error);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let processor_seconds = (processor_time::this_process()?.total().saturating_sub(before)).as_secs_f64();
    let summary = Summary {
        output: arguments.output.clone(),
        simulated: true,
        shard: arguments.shard,
        machines: plan.machines.len(),
        programs: plan.programs.len(),
        configurations: total,
        resumed,
        rows: 0,
        workers,
        seconds,
        processor_seconds,
        busy: anything.then(|| processor_seconds / (seconds * workers as f64)),
    };
    Ok((outcomes, summary))
}
