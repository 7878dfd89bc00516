//! `--policy sam`: the events, the thresholds, the extensions that are turned off, and the report of moves.

use super::{Built, Listener, PolicyEntry, PolicyRequest, Prepared, Program, Setting};
use crate::run::names_events;
use crate::run::place::Where;
use crate::{activities, behaviour};
use anyhow::{Result, bail};
use clap::{Args, Command, FromArgMatches, ValueEnum};
use pinfold_calibrate::activities::{mapper_events, set_of_machine, thresholds_of_model};
use pinfold_calibrate::thresholds::Clock;
use pinfold_core::{Finding, MoveReason, TaskMove};
use pinfold_linux::counters::Request;
use pinfold_policy::KnownPlacement;
use pinfold_policy::sam::{MapperEvents, MapperOptions, SamOptions, Thresholds};
use pinfold_runtime::{DecidesOn, Record};
use pinfold_store::{MachineKey, ProgramKey};
use pinfold_view::findings;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

pub(super) struct Sam;

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy sam")]
struct Flags {
    /// The rates above which sharing and memory traffic count as a bottleneck, as `pinfold calibrate --thresholds`
    /// writes them [default: the paper's; for the memory of a simulated machine the model's].
    #[arg(long, value_name = "FILE.toml")]
    thresholds: Option<PathBuf>,

    /// Turn off extensions beyond the paper.
    #[arg(long, hide = true, value_enum, value_delimiter = ',', value_name = "LIST")]
    without: Vec<Ability>,

    /// Compare the moves with unpinned threads in turns. Keep them only if a process makes more progress with them, and
    /// none makes less. The daemon always does this.
    #[arg(long, hide = true)]
    compared: bool,

    /// A program that the behaviour database knows goes where an earlier run was fastest, if no other program works on
    /// these cores, and that is compared with unpinned threads. The daemon always does this.
    #[arg(long, hide = true, requires = "compared")]
    known: bool,
}

/// The extensions of the mapper beyond the paper.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ability {
    /// A thread that was moved stays for some intervals.
    Hysteresis,
    /// A move for coherence that does not help is rolled back.
    Validation,
    /// The threads of a process are assumed to share data until the sharers are known.
    LearnGroups,
    /// Threads that share less than the threshold are brought together on trial.
    FaintSharers,
    /// A thread returns to where its memory was local.
    LearnHomes,
    /// The pages of a thread that moves to another node move with it.
    PagesFollow,
    /// All of these.
    All,
}

impl PolicyEntry for Sam {
    fn name(&self) -> &'static str {
        "sam"
    }

    fn about(&self) -> &'static str {
        "moves single threads all the time, those that share data together and memory-bound ones apart, by hardware counters"
    }

    fn explained(&self) -> &'static str {
        "brings threads together that share data and spreads those that need memory, one by one, by what hardware counters say"
    }

    fn flags(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn decides_on(&self) -> DecidesOn {
        DecidesOn::Tasks
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        let (counted, requests) = match request.place {
            Where::Here => flags.here(&request.arguments.search.metric)?,
            Where::Simulated(model) => {
                let thresholds = flags.thresholds_or(Clock::Cycle, || thresholds_of_model(model))?;
                let events = mapper_events(&set_of_machine(&model.name)?)?;
                (CountedActivities { events, thresholds }, vec![])
            }
            Where::Scripted(_) => bail!(
                "a scripted machine has no events by which SAM could distinguish sharing from contention; name a model (`pinfold \
                 machines` lists them), or another policy"
            ),
            Where::Table(_) => bail!(
                "a table of measurements has no events by which SAM could distinguish sharing from contention; name a model \
                 (`pinfold machines` lists them), or another policy"
            ),
        };
        Ok(Prepared {
            requests,
            names_events: true,
            counts: true,
            build: Box::new(move |setting| {
                let common = setting.common.clone();
                let (known, notes) = if flags.known {
                    known(setting)?
                } else {
                    Default::default()
                };
                let policy = pinfold_policy::sam::Sam::new(SamOptions {
                    interval: setting.arguments.times.interval,
                    thresholds: counted.thresholds.clone(),
                    mapper: flags.mapper(),
                    known,
                    pages_follow: flags.with(Ability::PagesFollow),
                    events: counted.events.clone(),
                    times: common.times,
                    metric: common.metric,
                    skip: common.skip,
                });
                Ok(Built {
                    listener: Box::new(Moves),
                    notes,
                    ..Built::new(policy)
                })
            }),
        })
    }
}

/// The events, and the thresholds of their rates.
struct CountedActivities {
    events: MapperEvents,
    thresholds: Thresholds,
}

impl Flags {
    /// For a program on this machine; with the requests that must be counted.
    fn here(&self, metric: &str) -> Result<(CountedActivities, Vec<Request>)> {
        let named = names_events(metric);
        let (events, requests) = if named {
            activities::named(metric)?
        } else {
            activities::here()?
        };
        if named && self.thresholds.is_none() {
            bail!(
                "--metric {metric} counts by the nanosecond of processor time, for which there are no thresholds; \
                 name a file of them with --thresholds (`pinfold calibrate --thresholds --metric {metric}` measures \
                 them)"
            );
        }
        let by = if named { Clock::Nanosecond } else { Clock::Cycle };
        let thresholds = self.thresholds_or(by, Thresholds::paper)?;
        Ok((CountedActivities { events, thresholds }, requests))
    }

    fn thresholds_or(&self, by: Clock, otherwise: impl FnOnce() -> Thresholds) -> Result<Thresholds> {
        match &self.thresholds {
            Some(file) => activities::read_thresholds(file, by),
            None => Ok(otherwise()),
        }
    }

    fn with(&self, ability: Ability) -> bool {
        !self.without.contains(&ability) && !self.without.contains(&Ability::All)
    }

    fn mapper(&self) -> MapperOptions {
        MapperOptions {
            hysteresis: self.with(Ability::Hysteresis),
            validation: self.with(Ability::Validation),
            learn_groups: self.with(Ability::LearnGroups),
            faint_sharers: self.with(Ability::FaintSharers),
            learn_homes: self.with(Ability::LearnHomes),
            comparison: self.compared,
            pages: self.with(Ability::PagesFollow),
            known: self.known,
        }
    }
}

/// What is known of each program, by number of threads.
type Known = Vec<BTreeMap<usize, KnownPlacement>>;

/// What is known of the programs, with notes for the user.
fn known(setting: &Setting<'_>) -> Result<(Known, Vec<String>)> {
    let machine = MachineKey::new(setting.topology, setting.simulated);
    let keys: Vec<ProgramKey> = match setting.program {
        Program::Several(programs) => {
            let key = |(file, command): &(PathBuf, Vec<String>)| behaviour::program_key(file, command, machine.clone());
            programs.iter().map(key).collect::<Result<_>>()?
        }
        one => one.key(machine.clone())?.into_iter().collect(),
    };
    let database = &setting.arguments.behaviour;
    if database.file_for_run(machine.simulated)?.is_none() {
        bail!("--known needs a behaviour database, and this run has none; name one with --db");
    }
    let (store, notes) = database.open_for_run(setting.topology, &machine)?;
    let Some(mut store) = store else {
        return Ok((vec![], notes));
    };
    let known = keys.iter().map(|key| Ok(store.known_placements(key)?));
    Ok((known.collect::<Result<_>>()?, notes))
}

/// Reports moves of threads, and their number by cause.
struct Moves;

impl Listener for Moves {
    fn finding(&mut self, at: Duration, finding: &Finding, _record: &Record) -> Option<String> {
        let Finding::Moved(moved) = finding else { return None };
        Some(line(at, moved))
    }

    fn program_ended(&mut self, record: &Record) -> Option<String> {
        let mut moves: BTreeMap<MoveReason, usize> = BTreeMap::new();
        for one in record.by_policy.moves.iter().filter(|one| !one.moved.makes_room) {
            *moves.entry(one.moved.reason).or_default() += 1;
        }
        let causes: Vec<String> = moves
            .iter()
            .map(|(reason, times)| format!("{times} {reason}"))
            .collect();
        (!causes.is_empty()).then(|| format!("moves of threads by cause: {}", causes.join(", ")))
    }
}

/// One move of a task, as a line.
fn line(at: Duration, moved: &TaskMove) -> String {
    let (at, thread) = (findings::duration(at), moved.task.thread);
    let mut text = if moved.stays() {
        format!("at {at}: thread {thread} stays on CPU {}", moved.to)
    } else {
        format!("at {at}: thread {thread} from CPU {} to CPU {}", moved.from, moved.to)
    };
    let _ = match (moved.makes_room, moved.swapped_with) {
        (true, Some(other)) => write!(text, ", to make room for thread {}", other.thread),
        (_, other) => {
            let swapped = other.map_or_else(String::new, |other| {
                format!(", in the place of thread {}", other.thread)
            });
            let excess = moved.excess.map_or_else(String::new, |excess| format!(", {excess}"));
            write!(text, "{swapped}: {}{excess}", moved.reason)
        }
    };
    text
}
