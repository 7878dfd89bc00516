//! The policy `react` in the loop. Pages are the program's, and threads and prefetchers are a region's, so all regions go
//! through these steps together:
//!
//! 1. The program runs as the operating system places it. Its regions are timed: this is the baseline.
//! 2. It goes to the first of the model's profiled configurations. Each region is executed once, so that caches are warm, and
//!    is then profiled. The other ones follow. In a race, neighbours of the fastest one are profiled, too, until it has none
//!    that were not, or `MOST_NEIGHBOURS` were.
//! 3. The model forecasts a configuration for each region. Where a counter that it asks for is not available, and in a race,
//!    the region gets the fastest of the profiled configurations. Regions that are too short for a change of configuration
//!    get that of the region that takes most of the time.
//! 4. Where the forecast regions want their pages at different places, there is a conflict, and the cross-evaluation of
//!    section 6.2: for each of these places, pages move there once, and each region is timed in its own configuration, and in
//!    that of the region which wants these pages. The places with the least time of all regions, weighted by how often each
//!    is executed, are kept. Each region keeps the faster of the two configurations (section 6.3: threads change at borders,
//!    pages do not).
//! 5. The result is timed again. If all regions took less time together in one of the profiled configurations, they get that
//!    one, and are timed again: a forecast may be wrong, and what a region finds in the caches depends on where the one
//!    before it ran. A region that is not faster than in the baseline beyond the noise goes back to unpinned, and
//!    the result is timed once more. Whichever of the two has the least time of all regions stays. If that is not less than
//!    in the baseline, everything goes back, pages as well.
//! 6. The rate of the whole program is compared in turns with that before. If it is not higher beyond the noise, everything
//!    goes back, too: time outside of regions counts there.
//!
//! A step ends when each region has been executed often enough, and at the latest after `t`. This file has the order of the
//! steps; `profiling` has the first two, `forecasting` the third, `cross_evaluation` the fourth, `verification` the fifth and
//! `whole_program` the last.
//!
//! Known limits: regions are those that take at least a hundredth of the time in regions during the baseline; one that comes
//! later runs like what is outside of regions. The time outside of regions is not searched: where it makes the whole program
//! slower, all configurations are given up together. Which prefetchers were on before is not known to a policy, so unpinned
//! regions run with all of them on.

mod cross_evaluation;
mod forecasting;
mod profiling;
mod verification;
mod whole_program;

use super::model::{ModelConfiguration, Profile, ReactModel};
use super::plan::{Plan, Reach};
use super::timing::{Measured, Timing};
use crate::Policy;
use crate::program::meter::Meter;
use crate::program::metric_choice::MetricRequest;
use crate::program::opening::{Opened, Opening};
use crate::program::times::{self, Times};
use crate::program::working_tasks::{Skip, WorkingTasks};
use pinfold_core::{
    Applied, Configuration, Decision, EndedCode, Finding, Metric, NoteCode, Pinning, RefusalCode, RegionCode, RegionId,
    Sample, Topology,
};
use std::collections::BTreeMap;
use std::time::Duration;
use whole_program::WholeProgram;

/// A region with less of the time of all regions is not looked at.
const LEAST_SHARE: f64 = 0.01;

/// The least number of executions of a region in a step.
const EXECUTIONS: f64 = 5.0;

/// The least number of readings of a region in a step, with which the noise is known (`statistics::level`).
const READINGS: usize = 6;

/// A neighbour ends early if after `FEW_READINGS` of each region it takes `BEATEN` times as long as the fastest so far.
const FEW_READINGS: usize = READINGS / 2;
const BEATEN: f64 = 1.2;

/// Where it took longer to move pages, as a share of the time that the program has run, no neighbours are tried for which
/// pages move: the share that all trials of the default policy may lose.
const MOVING: f64 = 0.025;

/// The interval between two readings while nothing is known of the regions.
const FIRST_INTERVAL: Duration = Duration::from_millis(10);

/// The options of `react`.
#[derive(Clone, Debug)]
pub struct ReactOptions {
    /// The longest time of a step (`t`), and the initialisation (`i`).
    pub times: Times,
    /// The metric whose rate is reported.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// What forecasts configurations; it fits the machine (`ReactModel::check`).
    pub model: ReactModel,
}

/// What a step measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The program as it was.
    Baseline,
    /// One of [`React::profiles`], by its position.
    Profile(usize),
    /// The pages of one of the conflicting places, and each region in its own configuration.
    Own(usize),
    /// The same pages, and all regions in the configuration that wants them.
    Shared(usize),
    /// The result. The first time, single regions may go back.
    Result { again: bool },
}

/// The present phase.
#[derive(Debug)]
enum Phase {
    /// Until the initialisation is over.
    Initialising,
    /// Every region is executed once after a change.
    WarmingUp(Step, Timing),
    Measuring(Step, Timing),
    /// The whole program, in turns with how it was.
    Comparing(Box<WholeProgram>),
    Watching,
}

/// What is known of a region.
#[derive(Debug)]
struct Region {
    share: f64,
    baseline: Measured,
    /// By position in [`React::profiles`]: what was counted of it, and its time.
    profiles: Vec<Option<Profile>>,
    profiled: Vec<Option<Measured>>,
    /// The configuration that it would get alone, and why.
    wanted: Option<(ModelConfiguration, RegionCode, String)>,
    /// For each of the conflicting places: its time in its own configuration, and in the shared one.
    own: Vec<Option<Measured>>,
    shared: Vec<Option<Measured>>,
    after: Option<Measured>,
    choice: (RegionCode, String),
}

/// A plan that was timed, and what then changed.
#[derive(Debug)]
struct Earlier {
    plan: Plan,
    /// The time of all regions as often as they were executed in the baseline, in seconds.
    time: f64,
    after: BTreeMap<RegionId, Measured>,
    /// The regions that went back.
    back: Vec<RegionId>,
}

/// The policy.
#[derive(Debug)]
pub struct React {
    options: ReactOptions,
    opening: Opening,
    working_tasks: WorkingTasks,
    line: Option<(Meter, Duration)>,
    phase: Phase,
    regions: BTreeMap<RegionId, Region>,
    /// The configurations in which regions are profiled: those of the model, and in a race neighbours of the fastest ones.
    profiles: Vec<ModelConfiguration>,
    /// By conflicting place: the configuration that wants the pages there.
    places: Vec<ModelConfiguration>,
    plan: Plan,
    /// The longest time that it took to move pages.
    moved_pages: Duration,
    /// Whether it was decided already if all regions get one configuration.
    uniform: bool,
    /// The plan before regions went back to unpinned.
    before_going_back: Option<Earlier>,
    requested: Plan,
    /// By rank: the PUs on which the unpinned program last ran in the baseline.
    home: Option<Pinning>,
    /// Whether threads are on their way there, and are let go in the next decision.
    returns: bool,
    reach: Reach,
    told_nothing: bool,
    now: Duration,
    /// The interval between two readings.
    reading: Duration,
}

impl React {
    /// The policy with these options.
    pub fn new(options: ReactOptions) -> Self {
        Self {
            opening: Opening::new(options.times, options.metric.clone()),
            working_tasks: WorkingTasks::new(options.skip.clone()),
            line: None,
            phase: Phase::Initialising,
            regions: BTreeMap::new(),
            profiles: options.model.profiles.clone(),
            places: vec![],
            plan: Plan::default(),
            moved_pages: Duration::ZERO,
            uniform: false,
            before_going_back: None,
            requested: Plan::default(),
            home: None,
            returns: false,
            reach: Reach::default(),
            told_nothing: false,
            now: Duration::ZERO,
            reading: FIRST_INTERVAL.min(options.times.interval),
            options,
        }
    }
}

impl Policy for React {
    fn name(&self) -> &'static str {
        "react"
    }

    fn start(&mut self, _topology: &Topology, metrics: &[Metric]) -> Decision {
        let mut findings = vec![];
        self.opening.start(metrics, &mut findings);
        Decision {
            configuration: None,
            wait: self.options.times.initialise.min(self.reading),
            findings,
        }
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut findings = vec![];
        self.now = sample.at;
        self.working_tasks.update(sample);
        self.heed(applied, &mut findings);
        self.report_rate(sample, &mut findings);
        self.advance(topology, sample, &mut findings);
        self.decision(topology, findings)
    }

    fn end(&mut self) -> Vec<Finding> {
        let (code, during) = match &self.phase {
            Phase::Watching => return vec![],
            Phase::Initialising => (EndedCode::BeforeMetric, "while it initialised"),
            Phase::Comparing(_) => (
                EndedCode::DuringSearch,
                "before its rate with the configurations of its regions was compared with that before",
            ),
            Phase::WarmingUp(step, _) | Phase::Measuring(step, _) => (
                EndedCode::DuringSearch,
                match step {
                    Step::Baseline => "before its regions were timed",
                    Step::Profile(_) => "while its regions were profiled",
                    Step::Own(_) | Step::Shared(_) => "during the cross-evaluation of its regions' configurations",
                    Step::Result { .. } => "before the configurations of its regions were verified",
                },
            ),
        };
        vec![Finding::EndedEarly {
            best: None,
            rate: None,
            code,
            why: format!("The program ended {during}. {}", times::remedy(self.now)),
        }]
    }
}

impl React {
    /// A machine that cannot set prefetchers is not asked again: the rest is optimised.
    fn heed(&mut self, applied: &Applied, findings: &mut Vec<Finding>) {
        let lasted = applied.pages.as_ref().map(|moves| moves.lasted);
        self.moved_pages = self.moved_pages.max(lasted.unwrap_or_default());
        let refused = |code: RefusalCode| applied.refused.iter().any(|refusal| refusal.code == code);
        if self.reach.sets_prefetchers && refused(RefusalCode::Prefetchers) {
            self.reach.sets_prefetchers = false;
            findings.push(note(
                "Prefetchers cannot be set here, so only threads, their number and pages are optimised.".to_owned(),
            ));
        }
    }

    fn advance(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        match std::mem::replace(&mut self.phase, Phase::Watching) {
            Phase::Initialising if sample.at >= self.options.times.initialise => {
                self.phase = Phase::Measuring(Step::Baseline, Timing::begin(sample));
            }
            Phase::WarmingUp(step, mut timing) => {
                timing.read(sample);
                let warm = |id: &RegionId| timing.profile(*id).is_some_and(|profile| profile.executions >= 1.0);
                if self.regions.keys().all(warm) || timing.lasts() >= self.options.times.probe {
                    self.phase = Phase::Measuring(step, Timing::begin(sample));
                } else {
                    self.phase = Phase::WarmingUp(step, timing);
                }
            }
            Phase::Measuring(step, mut timing) => {
                timing.read(sample);
                if self.is_complete(step, &timing) {
                    self.measured(step, &timing, topology, sample, findings);
                } else {
                    self.phase = Phase::Measuring(step, timing);
                }
            }
            Phase::Comparing(whole) => self.compare(whole, sample, findings),
            other => self.phase = other,
        }
    }

    /// Whether a step has measured enough.
    fn is_complete(&self, step: Step, timing: &Timing) -> bool {
        if timing.lasts() >= self.options.times.probe {
            return true;
        }
        let enough = |id: RegionId| {
            let profile = timing.profile(id);
            profile.is_some_and(|profile| profile.executions >= EXECUTIONS) && timing.readings(id) >= READINGS
        };
        match step {
            Step::Baseline => {
                let all = shares(timing);
                let mut matter = all.iter().filter(|(_, share)| **share >= LEAST_SHARE);
                !all.is_empty() && matter.all(|(&id, _)| enough(id))
            }
            Step::Profile(number) if number >= self.options.model.profiles.len() && self.is_beaten(timing) => true,
            _ => self.regions.keys().all(|&id| enough(id)),
        }
    }

    /// A step has measured enough, or lasts too long.
    fn measured(
        &mut self,
        step: Step,
        timing: &Timing,
        topology: &Topology,
        sample: &Sample,
        findings: &mut Vec<Finding>,
    ) {
        match step {
            Step::Baseline => {
                self.home = self.working_tasks.last_seen(sample, self.working_tasks.number());
                self.baseline(timing, sample, findings);
            }
            Step::Profile(number) => {
                for (&id, region) in &mut self.regions {
                    region.profiles.push(timing.profile(id));
                    region.profiled.push(timing.measured(id));
                }
                if number + 1 == self.profiles.len() {
                    self.profiles.extend(self.untried_neighbour(topology));
                }
                if number + 1 < self.profiles.len() {
                    self.profile(number + 1, sample);
                } else {
                    self.forecast(topology, sample, findings);
                }
            }
            Step::Own(place) => {
                for (&id, region) in &mut self.regions {
                    region.own[place] = timing.measured(id);
                }
                if self.places.len() > 1 {
                    self.try_shared(place, sample);
                } else {
                    self.conclude(timing, sample, findings);
                }
            }
            Step::Shared(place) => {
                for (&id, region) in &mut self.regions {
                    region.shared[place] = timing.measured(id);
                }
                if place + 1 < self.places.len() {
                    self.try_own(place + 1, sample);
                } else {
                    self.choose_places(sample, findings);
                }
            }
            Step::Result { again: false } => self.conclude(timing, sample, findings),
            Step::Result { again: true } => self.settle(timing, sample, findings),
        }
    }

    /// The plan is requested, and `step` measures it.
    fn change(&mut self, step: Step, sample: &Sample) {
        self.phase = Phase::WarmingUp(step, Timing::begin(sample));
    }

    /// The regions, those that take most of the time first.
    fn ordered(&self) -> Vec<RegionId> {
        let mut all: Vec<RegionId> = self.regions.keys().copied().collect();
        all.sort_by(|one, other| self.regions[other].share.total_cmp(&self.regions[one].share));
        all
    }

    /// Reports the rate of progress while nothing changes any more.
    fn report_rate(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        let Some((meter, began)) = &mut self.line else {
            if let Opened::With { meter, .. } = self.opening.look(sample, &mut self.working_tasks, findings) {
                self.working_tasks.begin_window(sample);
                self.line = Some((meter, sample.at));
            }
            return;
        };
        meter.read(sample, |id| !self.working_tasks.is_left_alone(id));
        if matches!(self.phase, Phase::Comparing(_)) {
            return;
        }
        if !matches!(self.phase, Phase::Watching) {
            meter.restart();
            *began = sample.at;
        } else if sample.at >= *began + self.options.times.probe {
            let line = meter.measurement();
            meter.restart();
            *began = sample.at;
            findings.push(Finding::Rate {
                rate: line.rate,
                spread: line.spread,
            });
        }
    }

    fn decision(&mut self, topology: &Topology, mut findings: Vec<Finding>) -> Decision {
        for finding in &mut findings {
            if let Finding::RegionsChosen { pages, regions, .. } = finding {
                *pages = self.plan.base.as_ref().map(|base| base.pages(topology));
                for choice in regions {
                    let wanted = self.plan.regions.get(&choice.region).and_then(Option::as_ref);
                    choice.pus = wanted.and_then(|wanted| wanted.pinning(topology));
                }
            }
        }
        Decision {
            configuration: self.configuration(topology),
            wait: match self.phase {
                Phase::Watching => self.options.times.interval,
                _ => self.reading,
            },
            findings,
        }
    }

    /// The configuration of the plan, where it is another than was requested last. Before all threads are let go they return
    /// to where they ran: the operating system would leave them where they are.
    fn configuration(&mut self, topology: &Topology) -> Option<Configuration> {
        let returned = std::mem::take(&mut self.returns);
        if self.plan == self.requested && !returned {
            return None;
        }
        let home = self
            .home
            .clone()
            .filter(|_| self.requested.places() && !self.plan.places());
        self.returns = home.is_some();
        self.requested.clone_from(&self.plan);
        let left_alone = self.working_tasks.left_alone();
        let working = self.working_tasks.number();
        let wanted = self.reach.configuration(&self.plan, topology, working, left_alone);
        Some(Configuration {
            pinning: wanted.pinning.clone().or(home),
            ..wanted
        })
    }
}

/// Each region's share of the time in regions.
fn shares(timing: &Timing) -> BTreeMap<RegionId, f64> {
    let seconds: BTreeMap<RegionId, f64> = timing
        .regions()
        .filter_map(|id| Some((id, timing.profile(id)?.seconds)))
        .collect();
    let all: f64 = seconds.values().sum();
    seconds.into_iter().map(|(id, seconds)| (id, seconds / all)).collect()
}

fn note(text: String) -> Finding {
    Finding::Note {
        code: NoteCode::Regions,
        text,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
