//! The policy `react` in the loop. Pages are the program's, and threads and prefetchers are a region's, so all regions go
//! through these steps together:
//!
//! 1. The program runs as the operating system places it. Its regions are timed: this is the baseline.
//! 2. It goes to the first of the model's two profiled configurations. Each region is executed once, so that caches are
//!    warm, and is then profiled. The second configuration follows.
//! 3. The model forecasts a configuration for each region. Where a counter that it asks for is not available, the region gets
//!    the faster of the two profiled configurations. Regions that are too short for a change of configuration get that of the
//!    region that takes most of the time.
//! 4. Where the forecast regions want their pages at different places, there is a conflict, and the cross-evaluation of
//!    section 6.2: for each of these places, pages move there once, and each region is timed in its own configuration, and in
//!    that of the region which wants these pages. The places with the least time of all regions, weighted by how often each
//!    is executed, are kept. Each region keeps the faster of the two configurations (section 6.3: threads change at borders,
//!    pages do not).
//! 5. The result is timed again. A region that is not faster than in the baseline beyond the noise goes back to unpinned, and
//!    the result is timed once more. Whichever of the two has the least time of all regions stays. If that is not less than
//!    in the baseline, everything goes back, pages as well.
//!
//! A step ends when each region has been executed often enough, and at the latest after `t`.
//!
//! Known limits: regions are those that take at least a hundredth of the time in regions during the baseline; one that comes
//! later runs like what is outside of regions. The time outside of regions is not compared. Which prefetchers were on before
//! is not known to a policy, so unpinned regions run with all of them on.

use super::model::{ModelConfiguration, Profile, ReactModel};
use super::plan::{Plan, Reach};
use super::timing::{Measured, Timing};
use crate::Policy;
use crate::meter::Meter;
use crate::metric_choice::MetricRequest;
use crate::opening::{Opened, Opening};
use crate::times::{self, Times};
use crate::working_tasks::{Skip, WorkingTasks};
use pinfold_core::{
    Applied, Configuration, Decision, EndedCode, Finding, Metric, NoteCode, RefusalCode, RegionChoice, RegionCode,
    RegionId, Sample, Topology,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// A region with less of the time of all regions is not looked at.
const LEAST_SHARE: f64 = 0.01;

/// The least number of executions of a region in a step.
const EXECUTIONS: f64 = 5.0;

/// The least number of readings of a region in a step, with which the noise is known (`statistics::level`).
const READINGS: usize = 6;

/// A region whose executions are shorter does not change its configuration: a change costs up to 10 us (`make bench`), and
/// in ten times that it can gain little more.
const SHORTEST: f64 = 100e-6;

/// The least interval between two readings.
const LEAST_INTERVAL: Duration = Duration::from_millis(5);

/// The interval between two readings while nothing is known of the regions.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);

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
    /// One of the profiled configurations, by its position.
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
    Watching,
}

/// What is known of a region.
#[derive(Debug)]
struct Region {
    share: f64,
    baseline: Measured,
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
    /// By conflicting place: the configuration that wants the pages there.
    places: Vec<ModelConfiguration>,
    plan: Plan,
    /// The plan before regions went back to unpinned.
    before_going_back: Option<Earlier>,
    requested: Plan,
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
            places: vec![],
            plan: Plan::default(),
            before_going_back: None,
            requested: Plan::default(),
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
            Step::Baseline => self.baseline(timing, sample, findings),
            Step::Profile(number) => {
                for (&id, region) in &mut self.regions {
                    region.profiles[number] = timing.profile(id);
                    region.profiled[number] = timing.measured(id);
                }
                if number + 1 < self.options.model.profiles.len() {
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

    /// The regions that matter are known, and how long they take unpinned.
    fn baseline(&mut self, timing: &Timing, sample: &Sample, findings: &mut Vec<Finding>) {
        let profiles = self.options.model.profiles.len();
        for (id, share) in shares(timing) {
            let measured = timing
                .measured(id)
                .filter(|measured| share >= LEAST_SHARE && measured.profile.executions >= EXECUTIONS);
            if let Some(baseline) = measured {
                self.regions.insert(
                    id,
                    Region {
                        share,
                        baseline,
                        profiles: vec![None; profiles],
                        profiled: vec![None; profiles],
                        wanted: None,
                        own: vec![],
                        shared: vec![],
                        after: None,
                        choice: (
                            RegionCode::Rare,
                            "it was not executed often enough to be measured".to_owned(),
                        ),
                    },
                );
            }
        }
        if self.regions.is_empty() {
            if !std::mem::replace(&mut self.told_nothing, true) {
                let text = if timing.regions().next().is_none() {
                    "No parallel region has ended yet, so there is nothing to profile. Regions are seen in programs that use \
                     GCC's or LLVM's OpenMP; a region that lasts as long as the program has no second execution."
                } else {
                    "No parallel region is executed often enough to be profiled; -t gives each step more time."
                };
                findings.push(note(text.to_owned()));
            }
            self.phase = Phase::Measuring(Step::Baseline, Timing::begin(sample));
            return;
        }
        // Every region is executed once in this time.
        let slowest = self
            .regions
            .values()
            .map(|region| timing.lasts().as_secs_f64() / region.baseline.profile.executions)
            .fold(0.0, f64::max);
        self.reading = Duration::from_secs_f64(slowest)
            .max(LEAST_INTERVAL)
            .min(self.options.times.probe);
        findings.push(note(format!(
            "{} of the time in regions: {}. They are profiled under {}.",
            percent(self.regions.values().map(|region| region.share).sum()),
            self.ordered()
                .iter()
                .map(|id| {
                    let region = &self.regions[id];
                    format!(
                        "region {id} {}, {:.3e} s each",
                        percent(region.share),
                        region.baseline.seconds()
                    )
                })
                .collect::<Vec<_>>()
                .join("; "),
            self.options
                .model
                .profiles
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", and under "),
        )));
        self.profile(0, sample);
    }

    /// All regions go to one of the profiled configurations.
    fn profile(&mut self, number: usize, sample: &Sample) {
        let configuration = &self.options.model.profiles[number];
        self.plan = Plan::of_all(self.regions.keys().copied(), configuration);
        self.change(Step::Profile(number), sample);
    }

    /// Both profiles are there.
    fn forecast(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        for id in self.ordered() {
            let model = &self.options.model;
            let Some(region) = self.regions.get_mut(&id) else {
                continue;
            };
            let wanted = match model.forecast(&region.profiles) {
                Ok((number, why)) => {
                    let configuration = model.configurations[number].clone();
                    let why = match why.as_str() {
                        "" => "the model has this configuration for every region".to_owned(),
                        why => format!("{why}, for which the model has {configuration}"),
                    };
                    Some((configuration, RegionCode::Forecast, why))
                }
                Err(counter) => faster(&model.profiles, &region.profiled).map(|number| {
                    let configuration = model.profiles[number].clone();
                    let why = format!("{counter} is not counted here, and {configuration} is the faster profile");
                    (configuration, RegionCode::FasterProfile, why)
                }),
            };
            if let Some((configuration, _, why)) = &wanted {
                findings.push(note(format!("Region {id}: {configuration}. Why: {why}.")));
            }
            region.wanted = wanted;
        }
        self.merge(findings);
        for id in self.ordered() {
            let Some((configuration, ..)) = &self.regions[&id].wanted else {
                continue;
            };
            if !self.places.iter().any(|place| place.shares_pages_with(configuration)) {
                self.places.push(configuration.clone());
            }
        }
        let places = self.places.len();
        for region in self.regions.values_mut() {
            region.own = vec![None; places];
            region.shared = vec![None; places];
        }
        if places == 0 {
            self.roll_back("no region could be profiled", sample, findings);
            return;
        }
        if places > 1 {
            let wanted: Vec<String> = self
                .places
                .iter()
                .map(|place| format!("{} ({} threads)", place.pages(topology), place.threads))
                .collect();
            findings.push(note(format!(
                "The regions want their pages at different places: {}. Pages cannot move at every border, so each region is timed \
                 with the pages of each.",
                wanted.join(", ")
            )));
        }
        self.try_own(0, sample);
    }

    /// Regions that are too short for a change get the configuration of the one that takes most of the time.
    fn merge(&mut self, findings: &mut Vec<Finding>) {
        let order = self.ordered();
        let long = order.iter().find(|id| self.regions[id].baseline.seconds() >= SHORTEST);
        let Some(leader) = long.or(order.first()).copied() else {
            return;
        };
        let Some((configuration, ..)) = self.regions[&leader].wanted.clone() else {
            return;
        };
        for id in order.into_iter().filter(|&id| id != leader) {
            let Some(region) = self.regions.get_mut(&id) else {
                continue;
            };
            let short = region.baseline.seconds() < SHORTEST;
            let differs = region
                .wanted
                .as_ref()
                .is_none_or(|(wanted, ..)| *wanted != configuration);
            if short && differs {
                let why = format!(
                    "an execution takes {:.3e} s, which is too short for a change of configuration, so it runs as region {leader}",
                    region.baseline.seconds()
                );
                findings.push(note(format!("Region {id}: {why}.")));
                region.wanted = Some((configuration.clone(), RegionCode::Merged, why));
            }
        }
    }

    /// Pages go to one of the places, and regions to their own configurations.
    fn try_own(&mut self, place: usize, sample: &Sample) {
        self.plan = Plan {
            base: Some(self.places[place].clone()),
            regions: self
                .regions
                .iter()
                .map(|(&id, region)| {
                    (
                        id,
                        region.wanted.as_ref().map(|(configuration, ..)| configuration.clone()),
                    )
                })
                .collect(),
        };
        self.change(Step::Own(place), sample);
    }

    /// The pages stay, and all regions go to the configuration that wants them there.
    fn try_shared(&mut self, place: usize, sample: &Sample) {
        self.plan = Plan::of_all(self.regions.keys().copied(), &self.places[place]);
        self.change(Step::Shared(place), sample);
    }

    /// Every conflicting place has been tried: the best for the whole program stays.
    fn choose_places(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        let time = |place: usize| -> f64 {
            let regions = self.regions.values();
            regions
                .map(|region| {
                    let best = better(region.own[place].as_ref(), region.shared[place].as_ref());
                    region.baseline.profile.executions
                        * best.map_or(region.baseline.seconds(), |(best, _)| best.seconds())
                })
                .sum()
        };
        let before: f64 = self
            .regions
            .values()
            .map(|region| region.baseline.profile.seconds)
            .sum();
        let times: Vec<f64> = (0..self.places.len()).map(time).collect();
        let best = (0..times.len())
            .min_by(|&one, &other| times[one].total_cmp(&times[other]))
            .unwrap_or(0);
        let kept = self.places[best].clone();
        let shown: Vec<String> = self
            .places
            .iter()
            .zip(&times)
            .map(|(place, time)| format!("{:.3} with the pages of {place}", time / before))
            .collect();
        findings.push(note(format!(
            "With each region in the better configuration, all of them take these times of the unpinned ones: {}. The pages of \
             the least stay.",
            shown.join("; ")
        )));
        let mut plan = Plan {
            base: Some(kept.clone()),
            regions: BTreeMap::new(),
        };
        for (&id, region) in &mut self.regions {
            let wanted = region.wanted.clone();
            let shared =
                better(region.own[best].as_ref(), region.shared[best].as_ref()).is_none_or(|(_, shared)| shared);
            let configuration = match wanted {
                Some((configuration, code, why)) if !shared || configuration == kept => {
                    region.choice = (code, why);
                    configuration
                }
                _ => {
                    let why = format!("with the pages that stay it is faster in {kept} than in its own");
                    region.choice = (RegionCode::Shared, why);
                    kept.clone()
                }
            };
            plan.regions.insert(id, Some(configuration));
        }
        self.plan = plan;
        self.change(Step::Result { again: false }, sample);
    }

    /// The regions were timed in the configurations that they are to keep: those that are not faster go back.
    fn conclude(&mut self, timing: &Timing, sample: &Sample, findings: &mut Vec<Finding>) {
        let cross_evaluated = self.places.len() > 1;
        let plan = self.plan.clone();
        let mut back = vec![];
        for (&id, region) in &mut self.regions {
            region.after = timing.measured(id);
            if !cross_evaluated && let Some((_, code, why)) = &region.wanted {
                region.choice = (*code, why.clone());
            }
            let faster = region
                .after
                .as_ref()
                .is_some_and(|after| region.baseline.is_slower_than(after));
            let placed = self.plan.regions.get(&id).is_some_and(Option::is_some);
            if placed && !faster {
                back.push(id);
                self.plan.regions.insert(id, None);
                region.choice = (
                    RegionCode::NotFaster,
                    match &region.after {
                        Some(after) => format!(
                            "it goes back to unpinned: it took {:.3e} s an execution, which is not less than before beyond the noise",
                            after.seconds()
                        ),
                        None => "it goes back to unpinned: it was not executed in time".to_owned(),
                    },
                );
            }
        }
        if !self.plan.places() {
            self.roll_back("no region was faster than unpinned beyond the noise", sample, findings);
        } else if !back.is_empty() {
            let after = |(&id, region): (&RegionId, &Region)| Some((id, region.after.clone()?));
            self.before_going_back = Some(Earlier {
                plan,
                time: self.times().1,
                after: self.regions.iter().filter_map(after).collect(),
                back,
            });
            self.change(Step::Result { again: true }, sample);
        } else {
            self.settle(timing, sample, findings);
        }
    }

    /// The configurations stay, if all regions together are faster.
    fn settle(&mut self, timing: &Timing, sample: &Sample, findings: &mut Vec<Finding>) {
        for (&id, region) in &mut self.regions {
            region.after = timing.measured(id);
        }
        let (before, mut after) = self.times();
        if let Some(earlier) = self.before_going_back.take().filter(|earlier| earlier.time < after) {
            after = earlier.time;
            for id in earlier.back {
                if let Some(region) = self.regions.get_mut(&id) {
                    let why =
                        "alone it is not faster than unpinned, but with it unpinned all regions together take longer";
                    region.choice = (RegionCode::Together, why.to_owned());
                }
            }
            for (id, measured) in earlier.after {
                if let Some(region) = self.regions.get_mut(&id) {
                    region.after = Some(measured);
                }
            }
            self.plan = earlier.plan;
        }
        if after >= before {
            self.roll_back("all regions together were not faster than unpinned", sample, findings);
            return;
        }
        self.report(Some(before / after - 1.0), findings);
        self.phase = Phase::Watching;
    }

    /// The time of all regions in the baseline, and the time of as many executions as they were timed last, in seconds. A
    /// region that was not executed counts as in the baseline.
    fn times(&self) -> (f64, f64) {
        let all = self.regions.values();
        all.fold((0.0, 0.0), |(before, after), region| {
            let Profile {
                executions, seconds, ..
            } = region.baseline.profile;
            let now = region
                .after
                .as_ref()
                .map_or(seconds, |measured| executions * measured.seconds());
            (before + seconds, after + now)
        })
    }

    /// Nothing stays.
    fn roll_back(&mut self, why: &str, sample: &Sample, findings: &mut Vec<Finding>) {
        self.plan = Plan::default();
        for region in self.regions.values_mut() {
            region.choice = (RegionCode::NotFaster, format!("the program is left alone: {why}"));
            region.after = None;
        }
        findings.push(Finding::Note {
            code: NoteCode::RolledBack,
            text: format!("Everything was rolled back, because {why}: nothing is pinned."),
        });
        self.report(None, findings);
        if let Some((meter, began)) = &mut self.line {
            meter.restart();
            *began = sample.at;
        }
        self.phase = Phase::Watching;
    }

    fn report(&self, gain: Option<f64>, findings: &mut Vec<Finding>) {
        let choice = |id: &RegionId| {
            let region = &self.regions[id];
            let configuration = self.plan.regions.get(id).and_then(Option::as_ref);
            RegionChoice {
                region: *id,
                share: region.share,
                before: Some(region.baseline.seconds()),
                after: region.after.as_ref().map(Measured::seconds),
                threads: configuration.map(|configuration| configuration.threads),
                pus: None,
                prefetch: configuration
                    .filter(|_| self.reach.sets_prefetchers)
                    .map(|configuration| configuration.prefetch),
                code: region.choice.0,
                why: region.choice.1.clone(),
            }
        };
        findings.push(Finding::RegionsChosen {
            pages: None,
            gain,
            regions: self.ordered().iter().map(choice).collect(),
        });
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

    /// The configuration of the plan, where it is another than was requested last.
    fn configuration(&mut self, topology: &Topology) -> Option<Configuration> {
        if self.plan == self.requested {
            return None;
        }
        self.requested.clone_from(&self.plan);
        let left_alone = self.working_tasks.left_alone();
        let working = self.working_tasks.number();
        Some(self.reach.configuration(&self.plan, topology, working, left_alone))
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

/// The position of the profile in which the region was faster; `None` without any.
fn faster(profiles: &[ModelConfiguration], profiled: &[Option<Measured>]) -> Option<usize> {
    let measured = (0..profiles.len()).filter_map(|number| Some((number, profiled[number].as_ref()?.seconds())));
    measured
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(number, _)| number)
}

/// The faster of what was measured, and whether that is the second.
fn better<'a>(own: Option<&'a Measured>, shared: Option<&'a Measured>) -> Option<(&'a Measured, bool)> {
    match (own, shared) {
        (Some(own), Some(shared)) if shared.seconds() < own.seconds() => Some((shared, true)),
        (Some(own), _) => Some((own, false)),
        (None, Some(shared)) => Some((shared, true)),
        (None, None) => None,
    }
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
