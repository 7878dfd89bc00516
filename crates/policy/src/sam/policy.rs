//! `sam` as a policy for one program: the mapper in the loop, each interval.
//!
//! Threads begin where the operating system places them, and stay unpinned until the mapper moves them: setting
//! affinities "allows seamless inter-operation with Linux's default scheduler and load balancer" (section 3.2). A task
//! that was moved is pinned to its new PU; so is one that made room for it. The configuration has the places of all
//! tasks that were ever moved. Pages follow, unless `pages_follow` is off.
//!
//! The policy also reports the rate of progress by the same rules as the other policies (`opening`, `meter`), so that
//! rate lines can be compared. The mapper does not use it.

use super::Activity;
use super::fair::FairMapper;
use super::observe::{MapperEvents, Observer};
use super::options::{MapperOptions, Thresholds};
use super::rates::TaskRates;
use crate::Policy;
use crate::known::KnownPlacement;
use crate::program::metric_choice::MetricRequest;
use crate::program::observed_program::{Observation, ObservedProgram, Stage};
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use pinfold_core::{
    Applied, Configuration, Decision, Finding, Metric, NoteCode, ProcessGoal, PuId, PuSet, Sample, TaskId, Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The longest time for moving a program's pages after its tasks: ten intervals of the paper, which is how long the
/// gain of a move is expected to last (`worth`).
const FOLLOWING: Duration = Duration::from_secs(1);

/// The options of `sam`.
#[derive(Clone, Debug)]
pub struct SamOptions {
    /// The interval between decisions; 100 ms in the paper.
    pub interval: Duration,
    /// The thresholds of the activities.
    pub thresholds: Thresholds,
    /// What the mapper does beyond the paper.
    pub mapper: MapperOptions,
    /// What is known of each program, in the order of their processes, by number of threads.
    pub known: Vec<BTreeMap<usize, KnownPlacement>>,
    /// Beyond the paper: the pages of a task that is moved to another node follow, if that does not take long. In the
    /// paper they stay, so that a task that leaves a saturated memory still uses it remotely.
    pub pages_follow: bool,
    /// The events to count for it.
    pub events: MapperEvents,
    /// When rates are reported.
    pub times: Times,
    /// Their metric.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
}

/// The policy.
#[derive(Debug)]
pub struct Sam {
    options: SamOptions,
    /// Both exist from `start` on, if the machine counts the events that they need.
    mapper: Option<(FairMapper, Observer)>,
    /// All PUs that may be used.
    anywhere: Arc<PuSet>,
    last: Sample,
    /// The PUs of the tasks that were moved.
    places: BTreeMap<TaskId, PuId>,
    /// The tasks that could not be moved, which are not moved again.
    refused: BTreeSet<TaskId>,
    /// With a comparison of moves: the processes whose pages move, where to, and until when pages are under way.
    followed: BTreeMap<i32, ProcessGoal>,
    under_way: Duration,
    noted_missing: bool,
    /// The processes so far, in the order of their start.
    processes: Vec<i32>,
    program: ObservedProgram,
}

impl Sam {
    /// The policy with these options.
    pub fn new(options: SamOptions) -> Self {
        Self {
            program: ObservedProgram::new(options.times, options.metric.clone(), options.skip.clone()),
            mapper: None,
            anywhere: Arc::default(),
            last: Sample::default(),
            places: BTreeMap::new(),
            refused: BTreeSet::new(),
            followed: BTreeMap::new(),
            under_way: Duration::ZERO,
            noted_missing: false,
            processes: vec![],
            options,
        }
    }

    /// One interval of the mapper; whether places have changed.
    fn map(&mut self, seen: &mut Observation<'_>) -> bool {
        let sample = seen.sample();
        let living = |id: &TaskId| {
            sample
                .tasks
                .binary_search_by_key(id, |task| task.id)
                .is_ok_and(|index| sample.tasks[index].alive)
        };
        self.places.retain(|id, _| living(id));
        self.refused.retain(living);
        let Some((mapper, observer)) = &mut self.mapper else {
            return false;
        };
        let mut rates = observer.rates(&self.last, sample, |_| Arc::clone(&self.anywhere));
        rates.retain(|task| self.program.works(task.id));
        let placed = |task: TaskRates| {
            // The PU of the sample may be out of date.
            let pu = self.places.get(&task.id).copied().unwrap_or(task.pu);
            let allowed = if self.refused.contains(&task.id) {
                Arc::new([pu].into_iter().collect::<PuSet>())
            } else {
                task.allowed
            };
            TaskRates { pu, allowed, ..task }
        };
        let rates: Vec<TaskRates> = rates.into_iter().map(placed).collect();
        if !self.noted_missing && !rates.is_empty() && sample.at >= self.options.times.initialise {
            self.noted_missing = true;
            seen.findings().extend(missing(&rates));
        }
        if sample.at < self.under_way {
            mapper.note_pages_under_way();
        }
        if !self.options.known.is_empty() {
            for task in &sample.tasks {
                if !self.processes.contains(&task.id.process) {
                    self.processes.push(task.id.process);
                }
            }
        }
        mapper.decide(&rates);
        for process in mapper.take_newcomers() {
            let program = self.processes.iter().position(|&one| one == process);
            if let Some(known) = program.and_then(|program| self.options.known.get(program)) {
                mapper.note_known(process, known);
            }
        }
        let compared = mapper.take_comparison().map(Finding::MappingCompared);
        seen.findings().extend(compared);
        for task in mapper.released() {
            self.places.remove(task);
        }
        for made in mapper.moves() {
            self.places.insert(made.task, made.to);
            seen.report(Finding::Moved(*made));
        }
        let follow = *mapper.followed() != self.followed;
        self.followed.clone_from(mapper.followed());
        follow || !mapper.moves().is_empty() || !mapper.released().is_empty()
    }

    fn configuration(&self) -> Configuration {
        Configuration {
            tasks: self.places.clone(),
            following_within: Some(if self.options.pages_follow {
                FOLLOWING
            } else {
                Duration::ZERO
            }),
            followed: self.options.mapper.comparison.then(|| self.followed.clone()),
            ..Configuration::default()
        }
    }

    /// Records how the machine applied the last moves.
    fn heed(&mut self, applied: &Applied) {
        if let Some(pages) = &applied.pages {
            self.under_way = self.last.at + pages.lasted;
        }
        for task in applied.refused.iter().filter_map(|refusal| refusal.task) {
            self.places.remove(&task);
            self.refused.insert(task);
        }
    }

    /// Reports the rate of progress, when it is due.
    fn report_rate(&mut self, seen: &mut Observation<'_>) {
        match self.program.stage(seen) {
            Stage::Open if self.program.is_over(seen) => {
                self.program.report_rate(seen);
                // Moves of single tasks leave the others to the operating system.
                self.program.judge(seen, true);
            }
            Stage::Opened => {}
            Stage::Initialising | Stage::WithoutMetric | Stage::Open => return,
        }
        self.program.begin_window(seen, self.options.times.probe);
    }
}

/// The rates that were missing for all tasks.
fn missing(rates: &[TaskRates]) -> Option<Finding> {
    let of = |task: &TaskRates, activity| match activity {
        Activity::InterPackageCoherence => task.inter,
        Activity::IntraPackageCoherence => task.intra,
        Activity::RemoteDram => task.remote,
        Activity::MemoryBandwidth => task.memory,
    };
    let unknown = |&activity: &Activity| rates.iter().all(|task| of(task, activity).is_none());
    let names: Vec<&str> = Activity::ALL.into_iter().filter(unknown).map(Activity::name).collect();
    (!names.is_empty()).then(|| Finding::Note {
        code: NoteCode::ActivitiesMissing,
        text: format!(
            "Not available for any task: {}. SAM makes no moves because of it.",
            names.join(", ")
        ),
    })
}

impl Policy for Sam {
    fn name(&self) -> &'static str {
        "sam"
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        let mut findings = vec![];
        self.anywhere = Arc::new(topology.allowed_pus().clone());
        let thresholds = &self.options.thresholds;
        findings.push(Finding::Note {
            code: NoteCode::Thresholds,
            text: format!(
                "Thresholds, in events per unhalted cycle: coherence {:.2e}, remote memory {:.2e}, memory {:.2e} of a \
                 task and {:.2e} of a package ({}).",
                thresholds.coherence,
                thresholds.remote,
                thresholds.memory,
                thresholds.package_memory,
                thresholds.source
            ),
        });
        match Observer::new(&self.options.events, metrics) {
            Ok(observer) => {
                let mapper = FairMapper::new(topology, thresholds.clone(), self.options.mapper, self.options.interval);
                self.mapper = Some((mapper, observer));
            }
            Err(error) => findings.push(Finding::Note {
                code: NoteCode::NoMoves,
                text: format!("No thread is moved: {error}."),
            }),
        }
        let started = self.program.start(metrics, Some(self.configuration()));
        findings.extend(started.findings);
        Decision {
            wait: self.options.interval,
            findings,
            ..started
        }
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut seen = self.program.observe(topology, sample, applied);
        self.heed(applied);
        let moved = self.map(&mut seen);
        self.report_rate(&mut seen);
        self.last = sample.clone();
        if moved {
            self.program.request_again();
        }
        let wanted = moved.then(|| self.configuration());
        Decision {
            wait: self.options.interval,
            ..self.program.decide(seen, wanted)
        }
    }

    fn end(&mut self) -> Vec<Finding> {
        vec![]
    }
}
