//! The table as a `Machine`.

use super::clock::{Clock, Pace};
use super::measured::Measured;
use super::moves::{self, GivenCosts};
use super::pages;
use super::program::{TableError, TableProgram};
use super::request::{self, Answer, Home, Resolver};
use crate::machine::{LONGEST, Repeat};
use pinfold_core::function::FunctionSearch;
use pinfold_core::memory::{PageCount, PageMoves};
use pinfold_core::{
    Applied, Configuration, Count, Instead, Machine, MachineError, MachineKind, Metric, MoveCosts, PageMapping, PuId,
    Refusal, RegionKeeps, RegionSample, Replayed, ReplayedRegion, Sample, Scope, TaskId, TaskSample, Topology, Wait,
    sources,
};
use std::time::Duration;

/// How long an execution of a region takes in the baseline, on average, where the table's times have no unit. Some
/// executions then fit in the windows of all policies.
const EXECUTION: Duration = Duration::from_millis(500);

/// The process of the program. The ids of its threads follow.
const PROCESS: i32 = 1000;

/// The size of the pages that are counted when they move.
const PAGE_BYTES: u64 = 4096;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct TableSettings {
    /// How often the program repeats its regions.
    pub repeat: Repeat,
    /// The seed of the noise.
    pub seed: u64,
    /// The relative standard deviation of the time of an execution; `None` for the table's own.
    pub noise: Option<f64>,
    /// Whether the times of the table are in seconds.
    pub in_seconds: bool,
    /// How long an execution of a region takes in the baseline, on average; `None` for the table's times if they are
    /// in seconds, and else for half a second.
    pub execution: Option<Duration>,
    /// What the user says of the cost of moves.
    pub moves: GivenCosts,
    /// The number of threads; `None` for the baseline's.
    pub threads: Option<usize>,
}

/// A program of a table that runs.
pub struct TableMachine {
    program: TableProgram,
    topology: Topology,
    settings: TableSettings,
    home: Home,
    metrics: Vec<Metric>,
    costs: MoveCosts,
    /// Seconds of one unit of the table's times.
    unit: f64,
    clock: Clock,
    /// The clock in whole nanoseconds, as policies see it.
    now: Duration,
    applied: request::Applied,
    counted: Requests,
    /// The last repetition, once the program has been asked to end.
    last: Option<u64>,
    notes: Vec<String>,
}

/// The requests of policies.
#[derive(Clone, Debug, Default)]
struct Requests {
    last: Option<Configuration>,
    all: usize,
    /// Those of which something was refused.
    refused: usize,
    /// Those that other CPUs stand for.
    alike: usize,
}

impl Requests {
    /// Counts a request, unless it repeats the last one. The time that pages may take changes in each of them.
    fn count(&mut self, request: &Configuration, is_refused: bool, is_alike: bool) {
        let request = Configuration {
            following_within: None,
            mapping_within: None,
            ..request.clone()
        };
        if self.last.as_ref() != Some(&request) {
            self.all += 1;
            self.refused += usize::from(is_refused);
            self.alike += usize::from(is_alike);
            self.last = Some(request);
        }
    }
}

impl TableMachine {
    /// A run that has not begun. `topology` is the table's, restricted to the allowed PUs.
    ///
    /// # Errors
    ///
    /// The table has no configuration in which all regions were measured, or none with the number of threads.
    pub fn new(program: TableProgram, topology: Topology, settings: TableSettings) -> Result<Self, TableError> {
        let (key, source) = program.unpinned(settings.threads)?;
        let home = Home::new(&program, &topology, key, source);
        let resolver = Resolver {
            program: &program,
            topology: &topology,
            home: &home,
        };
        let applied = resolver.at_home();
        let costs = settings.moves.costs(program.footprint);
        let regions = program.regions().count();
        let mut metrics = vec![];
        if regions > 0 {
            metrics.push(sources::REGIONS.metric(Scope::Program));
        }
        metrics.push(sources::ITERATIONS.metric(Scope::Program));
        let mut machine = Self {
            clock: Clock::new(program.parts.len(), settings.seed),
            now: Duration::ZERO,
            unit: 1.0,
            counted: Requests::default(),
            last: None,
            notes: vec![],
            program,
            topology,
            settings,
            home,
            metrics,
            costs,
            applied,
        };
        machine.unit = machine.unit_in_seconds();
        machine.notes = machine.first_notes();
        Ok(machine)
    }

    /// What the run has replayed so far.
    pub fn replayed(&self) -> Replayed {
        let times = self.home_times();
        let all: f64 = times.iter().sum();
        let parts = self.program.parts.iter().zip(self.clock.parts()).zip(times);
        Replayed {
            program: self.program.command.clone(),
            regions: parts
                .filter_map(|((part, progress), time)| {
                    Some(ReplayedRegion {
                        region: part.region?,
                        name: part.name.clone(),
                        share: time / all,
                        executions: progress.executions,
                    })
                })
                .collect(),
            threads: self.home.threads,
            unpinned: self.program.text(&self.home.key),
            unpinned_source: self.home.source,
            unit: self.unit,
            moves: self.costs,
            repetitions: self.clock.repetitions(),
            paused: self.clock.paused(),
            requests: self.counted.all,
            refused: self.counted.refused,
            alike: self.counted.alike,
            simulated_times: self.program.simulated,
        }
    }

    /// The times of the parts in the configuration of the unpinned program, in the table's unit.
    fn home_times(&self) -> Vec<f64> {
        let parts = self.program.parts.iter();
        parts
            .map(|part| part.rows.get(&self.home.key).map_or(0.0, |row| row.time))
            .collect()
    }

    /// Seconds of one unit of the table's times.
    fn unit_in_seconds(&self) -> f64 {
        let usual = (!self.settings.in_seconds).then_some(EXECUTION);
        let Some(execution) = self.settings.execution.or(usual) else {
            return 1.0;
        };
        let all: f64 = self.home_times().iter().sum();
        execution.as_secs_f64() * self.program.regions().count().max(1) as f64 / all
    }

    /// What the user should know of the table.
    fn first_notes(&self) -> Vec<String> {
        let key = &self.home.key;
        let mut notes = vec![format!(
            "The times were measured before, and are replayed. The unpinned program has {} ({}).",
            self.program.text(key),
            self.home.source
        )];
        if self.program.simulated {
            notes[0] = notes[0].replacen("measured before", "simulated before, and not measured", 1);
        }
        if key.pages != PageMapping::FirstTouch {
            let why = if self.program.has_pages(PageMapping::FirstTouch) {
                ""
            } else {
                ", because the table has no first touch"
            };
            notes.push(format!(
                "Pages that go back to first touch go to {}{why}.",
                pages::name(key.pages)
            ));
        }
        if !self.settings.in_seconds && self.settings.execution.is_none() {
            notes.push(format!(
                "The table's times have no unit: an execution of a region takes {} s in the unpinned program, on average. \
                 --unit gives another time.",
                EXECUTION.as_secs_f64()
            ));
        }
        let mut rows = self.program.parts.iter().filter_map(|part| part.rows.get(key));
        if self.settings.noise.is_none() && rows.any(|row| row.spread.is_none()) {
            notes.push(
                "The table does not say how much times vary, so they are exact. --noise makes them vary.".to_owned(),
            );
        }
        notes.extend(moves::note(&self.costs));
        notes
    }

    /// How long each part takes now.
    fn paces(&self) -> Vec<Pace> {
        let rows = self.program.parts.iter().zip(&self.applied.parts);
        rows.map(|(part, key)| {
            let Measured { time, spread } = part.rows.get(key).unwrap_or(Measured {
                time: 0.0,
                spread: None,
            });
            Pace {
                seconds: time * self.unit,
                spread: self.settings.noise.or(spread).unwrap_or(0.0),
            }
        })
        .collect()
    }

    /// The last repetition.
    fn ends(&mut self) -> u64 {
        match &self.settings.repeat {
            Repeat::Times(times) => times.get(),
            Repeat::UntilAsked(switch) => {
                if self.last.is_none() && (switch.is_asked() || self.clock.now() >= LONGEST) {
                    self.last = Some(self.clock.present());
                }
                self.last.unwrap_or(u64::MAX)
            }
        }
    }

    fn ended(&mut self) -> bool {
        let last = self.ends();
        self.clock.repetitions() >= last
    }

    /// The name of its tasks: fifteen characters, as the kernel keeps it.
    fn task_name(&self) -> String {
        self.program.name.chars().take(15).collect()
    }

    /// The rows of a request. Pages that would take too long stay.
    fn answer(&self, configuration: &Configuration, pins: &[Option<PuId>]) -> Answer {
        let resolver = Resolver {
            program: &self.program,
            topology: &self.topology,
            home: &self.home,
        };
        let answer = resolver.answer(configuration, pins, &self.applied);
        let takes = self.costs.pages.seconds;
        let too_long = configuration
            .mapping_within
            .is_some_and(|most| takes > most.as_secs_f64());
        let is_mapped = answer.applied.pages != self.applied.pages && self.clock.now() > 0.0;
        let Some(pages) = configuration.pages.filter(|_| too_long && is_mapped) else {
            return answer;
        };
        let stays = Configuration {
            pages: None,
            ..configuration.clone()
        };
        let mut answer = resolver.answer(&stays, pins, &self.applied);
        answer.refused.push(Refusal::for_pages(
            Duration::from_secs_f64(takes),
            format!("pages stay where they are: moving them to where {pages} wants them would take {takes:.2} s"),
        ));
        answer
    }

    /// Applies rows. The result is what is reported of pages that moved.
    fn take(&mut self, applied: request::Applied) -> Option<PageMoves> {
        let has_begun = self.clock.now() > 0.0;
        let placements =
            |applied: &request::Applied| -> Vec<usize> { applied.parts.iter().map(|key| key.placement).collect() };
        let threads_move = placements(&applied) != placements(&self.applied);
        let pages_move = applied.place != self.applied.place;
        let goal = if applied.pages == self.applied.pages {
            PageMoves::AFTER_THREADS.to_owned()
        } else {
            applied.pages.to_string()
        };
        self.applied = applied;
        if !has_begun {
            return None;
        }
        if threads_move {
            self.clock.pause(self.costs.threads.seconds);
        }
        pages_move.then(|| {
            self.clock.pause(self.costs.pages.seconds);
            let bytes = self.program.footprint.unwrap_or(0);
            PageMoves {
                processes: 1,
                moved: PageCount {
                    pages: bytes / PAGE_BYTES,
                    bytes,
                },
                lasted: Duration::from_secs_f64(self.costs.pages.seconds),
                ..PageMoves::towards(goal)
            }
        })
    }
}

impl Machine for TableMachine {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn kind(&self) -> MachineKind {
        MachineKind::Table
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn observe(&mut self) -> Sample {
        let alive = !self.ended();
        let parts = || self.program.parts.iter().zip(self.clock.parts());
        let regions = || parts().filter_map(|(part, progress)| Some((part.region?, progress)));
        let ended: u64 = regions().map(|(_, progress)| progress.executions).sum();
        let count = |metric: &Metric| {
            Some(Count::exact(if metric.source == &sources::REGIONS {
                ended
            } else {
                self.clock.repetitions()
            }))
        };
        // Threads of OpenMP spin while they wait for others, and stand still while they are moved.
        let ran = Duration::from_secs_f64((self.clock.now() - self.clock.paused()).max(0.0));
        Sample {
            function: FunctionSearch::NotBegun,
            at: self.now,
            program: self.metrics.iter().map(count).collect(),
            tasks: (0..self.home.threads)
                .map(|rank| TaskSample {
                    id: task(rank),
                    name: self.task_name(),
                    alive,
                    cpu_time: Some(ran),
                    run_delay: None,
                    last_pu: request::shown(&self.applied, &self.home, rank),
                    counts: vec![None; self.metrics.len()],
                })
                .collect(),
            regions: regions()
                .filter(|(_, progress)| progress.executions > 0)
                .map(|(id, progress)| RegionSample {
                    id,
                    executions: progress.executions as f64,
                    seconds: progress.seconds,
                    counts: None,
                    keeps: RegionKeeps::default(),
                })
                .collect(),
            machine: None,
        }
    }

    fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        let ids: Vec<TaskId> = (0..self.home.threads).map(task).collect();
        let mut ranks = 0..;
        let pins: Vec<Option<PuId>> = ids
            .iter()
            .map(|id| {
                let has_rank = !configuration.left_alone.contains(id);
                configuration.pu_of(*id, if has_rank { ranks.next() } else { None })
            })
            .collect();
        let Answer {
            applied,
            mut refused,
            not_pinned,
            is_alike,
        } = self.answer(configuration, &pins);
        refused.extend(configuration.refused_limit());
        self.counted.count(configuration, !refused.is_empty(), is_alike);
        let before: Vec<Option<PuId>> = (0..ids.len()).map(|rank| self.pin(rank)).collect();
        let pages = self.take(applied);
        let moved = ids
            .into_iter()
            .enumerate()
            .filter(|&(rank, _)| self.pin(rank) != before[rank]);
        Applied {
            moved: moved.map(|(_, id)| id).collect(),
            refused,
            pages,
            instead: not_pinned.map(|why| Instead {
                configuration: Configuration {
                    left_alone: configuration.left_alone.clone(),
                    ..Configuration::default()
                },
                why,
            }),
            ..Applied::default()
        }
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        let last = self.ends();
        let until = self.now + duration;
        let paces = self.paces();
        if self.clock.run(until.as_secs_f64(), last, &paces) {
            self.now = Duration::from_secs_f64(self.clock.now());
            return Ok(Wait::Ended(0));
        }
        self.now = until;
        Ok(Wait::Elapsed)
    }
}

impl TableMachine {
    /// The PU that a thread is pinned to.
    fn pin(&self, rank: usize) -> Option<PuId> {
        self.applied.pus.as_ref()?.get(rank).copied()
    }
}

/// The task of a rank.
fn task(rank: usize) -> TaskId {
    TaskId {
        serial: rank as u64,
        process: PROCESS,
        thread: PROCESS.saturating_add(i32::try_from(rank).unwrap_or(i32::MAX)),
    }
}
