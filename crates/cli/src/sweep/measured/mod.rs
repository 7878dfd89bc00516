//! A sweep that measures on this machine.
//!
//! 1. The program runs unpinned first (`--warmup-runs`). That shows the number of its threads, and that it works.
//! 2. The spaces of the command line become configurations (`MeasuredPlan`).
//! 3. The course says which configuration runs next (`Course`), and `executor` runs it. Each run goes to the journal at
//!    once, so that nothing is lost at an interruption.
//! 4. At the end, or at the time limit, `result` writes the data set and tells the user what he should know.

mod arguments;
mod counted;
mod executor;
mod here;
mod program;
mod result;
mod seen;
mod written;

use super::{check_absent, open_journal};
use crate::finished::Commands;
use crate::machine;
use crate::progress::{Progress, ProgressUnit};
use anyhow::{Context, Result, bail};
pub(super) use arguments::Arguments;
use counted::Counted;
use executor::{Ended, Executor, Team};
pub(super) use here::this_machine;
use here::{Configurations, SpacesHere};
use pinfold_files::output::Output;
use pinfold_sweep::measured::{Course, MeasuredPlan, MeasuredRun, RunEnd};
use pinfold_sweep::{Journal, Key};
use program::Program;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// What the progress bar counts.
const COUNTED: ProgressUnit = ProgressUnit {
    what: "runs",
    first: "the first one runs",
};

/// How a sweep ended.
enum End {
    /// All runs are made.
    Complete,
    /// The time limit was reached.
    Late,
    /// This signal arrived.
    Signal(i32),
}

/// The sweep while it runs.
struct Sweep<'a> {
    arguments: &'a super::Arguments,
    plan: &'a MeasuredPlan,
    course: Course,
    journal: Journal<MeasuredRun>,
    executor: Executor<'a>,
    /// Every run, with its configuration's position.
    runs: Vec<(usize, MeasuredRun)>,
    /// The number of runs of earlier sessions.
    resumed: usize,
    /// The files in the working directory that the run before the first one wrote; `None` when they have been compared.
    written: Option<BTreeSet<OsString>>,
    began: Instant,
}

pub(super) fn sweep(arguments: &super::Arguments) -> Result<ExitCode> {
    let began = Instant::now();
    let output = Output::open("--output", &arguments.output)?;
    // A sweep that its time limit ended has written what it had.
    if !arguments.beside(".partial").exists() {
        check_absent(&arguments.output, arguments.force)?;
    }
    let json = Output::optional("--json", arguments.json.as_deref())?;
    let extent = arguments.measured.extent()?;
    let topology = machine::topology_here(arguments.quiet)?;
    let spaces = SpacesHere::new(arguments, &topology)?;
    let program = Program::new(arguments, spaces.varies_threads())?;
    let counted = Counted::here(spaces.varies_threads());
    let (journal, found) = open_journal::<MeasuredRun>(arguments)?;
    let mut executor = Executor {
        arguments,
        program: &program,
        topology: &topology,
        commands: Commands::new()?,
        pinfold: std::env::current_exe().context("cannot find the program pinfold itself")?,
        session: super::session(),
        sets_prefetchers: false,
        counted,
    };
    for note in executor.counted.notes() {
        arguments.say(note);
    }
    let warm = match warm_up(arguments, &mut executor, &spaces)? {
        Ok(warm) => warm,
        Err(signal) => return Ok(interrupted(signal)),
    };
    let Configurations { plan, left_out } = spaces.configurations(arguments, &program, warm.team)?;
    executor.sets_prefetchers = here::sets_prefetchers(&plan);
    for note in left_out {
        arguments.say(note);
    }
    let jobs: Vec<usize> = (0..plan.jobs.len())
        .filter(|job| plan.references.contains(job) || arguments.shard.is_none_or(|shard| shard.has(*job)))
        .collect();
    let mut sweep = Sweep {
        arguments,
        course: Course::new(
            plan.jobs.len(),
            &jobs,
            &plan.references,
            extent,
            arguments.measured.seed,
        ),
        plan: &plan,
        journal,
        executor,
        runs: vec![],
        resumed: 0,
        written: Some(warm.written),
        began,
    };
    sweep.resume(found.results);
    let end = sweep.measure();
    sweep.journal.sync()?;
    match end? {
        End::Signal(signal) => {
            sweep.say_kept();
            Ok(interrupted(signal))
        }
        end => result::write(sweep, &jobs, matches!(end, End::Complete), output, json),
    }
}

/// What the runs before the first measured one showed.
struct Warm {
    /// The number of threads.
    team: Team,
    /// The files that the last of them wrote in the working directory.
    written: BTreeSet<OsString>,
}

/// Runs the unpinned program as often as the user wants. Returns what that showed, or the signal that ended it.
fn warm_up(
    arguments: &super::Arguments,
    executor: &mut Executor<'_>,
    spaces: &SpacesHere,
) -> Result<Result<Warm, i32>> {
    let team = match (spaces.most_threads(), arguments.threads) {
        (Some(threads), _) | (None, Some(threads)) => Team::Told(threads),
        (None, None) => Team::Own,
    };
    let (mut seen, mut written) = (None, BTreeSet::new());
    for number in 1..=arguments.measured.warm_up {
        arguments.say(format_args!(
            "warm-up run {number} of {}: the program unpinned",
            arguments.measured.warm_up
        ));
        let start = SystemTime::now();
        let run = match executor.run(None, team, 0)? {
            Ended::Interrupted(signal) => return Ok(Err(signal)),
            Ended::Over(run) => run,
        };
        if let RunEnd::Failed { why } = &run.end {
            let input = match arguments.measured.input {
                Some(_) => "",
                None => "; its standard input is empty: if it needs one, give it with --input FILE",
            };
            bail!("the unpinned program fails before anything is measured: {why}{input}");
        }
        seen = run.threads.max(seen);
        written = written::since(Path::new("."), start, &arguments.output);
    }
    let team = match (team, seen) {
        (Team::Own, Some(threads)) => {
            arguments.say(format_args!("the program has {threads} threads unpinned"));
            Team::Seen(threads)
        }
        (Team::Own, None) => bail!(
            "the program ended before its threads could be counted: give their number with --threads N, or a larger input"
        ),
        (team, _) => team,
    };
    Ok(Ok(Warm { team, written }))
}

fn interrupted(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(crate::FAILURE))
}

impl Sweep<'_> {
    /// Takes the runs of earlier sessions into account.
    fn resume(&mut self, found: Vec<(Key, MeasuredRun)>) {
        let jobs: HashMap<Key, usize> = self.plan.jobs.iter().map(|job| job.key).zip(0..).collect();
        let mut unknown = 0;
        for (key, run) in found {
            let Some(&job) = jobs.get(&key).filter(|job| self.course.has(**job)) else {
                unknown += 1;
                continue;
            };
            self.course.restore(job, &run);
            self.runs.push((job, run));
        }
        self.resumed = self.runs.len();
        if self.resumed > 0 {
            self.arguments
                .say(format_args!("{} runs were made before", self.resumed));
        }
        if unknown > 0 {
            self.arguments.say(format_args!(
                "{unknown} runs of an earlier sweep are not used: they are of another program, command, environment, machine, \
                 space or shard"
            ));
        }
    }

    /// Makes all runs that are left.
    fn measure(&mut self) -> Result<End> {
        let (left, seconds) = self.course.left();
        let progress = self
            .arguments
            .show_progress(COUNTED, self.runs.len(), self.runs.len() + left);
        if seconds > 0.0 {
            progress.left(Duration::from_secs_f64(seconds));
        }
        let end = self.measure_all(&progress);
        progress.finish();
        end
    }

    fn measure_all(&mut self, progress: &Progress) -> Result<End> {
        loop {
            if let Some(signal) = self.executor.commands.asked_to_end() {
                return Ok(End::Signal(signal));
            }
            let limit = self.arguments.measured.time_limit;
            if limit.is_some_and(|limit| self.began.elapsed() >= limit) {
                return Ok(End::Late);
            }
            let Some(job) = self.course.next_job() else {
                return Ok(End::Complete);
            };
            let (left, _) = self.course.left();
            progress.begin(self.runs.len() + left.max(1), &self.plan.jobs[job].described());
            let (began, start) = (Instant::now(), SystemTime::now());
            let number = self.runs.len() + 1;
            let team = self.team(job);
            let mut run = match self.executor.run(Some(&self.plan.jobs[job]), team, number)? {
                Ended::Over(run) => *run,
                Ended::Interrupted(signal) => return Ok(End::Signal(signal)),
            };
            let around = began.elapsed().as_secs_f64() - run.seconds().unwrap_or(0.0);
            if run.seconds().is_some() {
                self.course.took_around(around);
            }
            if let Some(first) = self.written.take() {
                let second = written::since(Path::new("."), start, &self.arguments.output);
                if let Some(note) = written::note(&first, &second) {
                    self.arguments.say(note);
                }
            }
            self.add(job, &mut run)?;
            self.runs.push((job, run));
            progress.step();
            progress.left(Duration::from_secs_f64(self.course.left().1));
        }
    }

    /// The number of threads that a configuration must have.
    fn team(&self, job: usize) -> Team {
        let threads = self.plan.jobs[job].threads;
        if self.plan.varies_threads || self.arguments.threads.is_some() {
            Team::Told(threads)
        } else {
            Team::Seen(threads)
        }
    }

    /// Keeps a run, and reports one that does not count.
    fn add(&mut self, job: usize, run: &mut MeasuredRun) -> Result<()> {
        let repeated = self.course.add(job, run);
        self.journal.keep(self.plan.jobs[job].key, run)?;
        let described = || self.plan.jobs[job].described();
        match &run.end {
            RunEnd::Failed { why } if repeated => {
                self.arguments
                    .say(format_args!("{}: {why}; the run is repeated", described()));
            }
            RunEnd::Failed { why } => {
                if job == self.plan.references[0] {
                    bail!("the unpinned program failed twice in a row: {why}");
                }
                self.arguments.say(format_args!(
                    "{}: {why}; that was the second time in a row, and the configuration is left out",
                    described()
                ));
            }
            RunEnd::Done { .. } => {
                if let Some(why) = run.disturbed.as_ref().filter(|_| repeated) {
                    self.arguments
                        .say(format_args!("{}: {why}; the run is repeated", described()));
                }
            }
        }
        Ok(())
    }

    fn say_kept(&self) {
        self.arguments.say(format_args!(
            "{} runs are made and kept in {}: the same command goes on from there",
            self.runs.len(),
            self.arguments.beside(".partial").display()
        ));
    }
}
