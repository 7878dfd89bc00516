//! The policy `auto` in the loop: windows one after the other, and what follows from each.

use super::budget::Budget;
use super::candidates::{Candidate, UNPINNED};
use super::options::{AutoOptions, Near};
use super::phases::Phases;
use super::placement::Placement;
use super::proposals::Proposal;
use super::search::Search;
use super::step::{COUNTS, Purpose, Step};
use super::thread_sets::ThreadSets;
use crate::Policy;
use crate::comparison::change::ChangePoint;
use crate::comparison::turns::Window;
use crate::findings::probed;
use crate::known::KnownPlacement;
use crate::program::meter::{Measurement, Meter};
use crate::program::opening::{Opened, Opening};
use crate::program::requested::RequestedConfiguration;
use crate::program::times;
use crate::program::working_tasks::{Judgement, WorkingTasks};
use crate::sam::Observer;
use pinfold_core::statistics::Reading;
use pinfold_core::{
    Applied, Configuration, Decision, EndedCode, Finding, Metric, PageMapping, Pinning, Sample, Topology,
};
use std::time::Duration;

/// The windows of the baseline.
const BASELINE: usize = 6;

/// Windows that are repeated because threads began or ended in them.
const REPEATS: u32 = 5;

/// The share of the time that the settling of a trial may take, beyond the shortest time: so more pages may follow their
/// threads in a program that has run for longer.
const SETTLE: f64 = 0.002;

/// How many times as long the unpinned program settles: the operating system leaves threads for a while where they were
/// pinned.
const UNPINNED_SETTLES: u32 = 3;

/// The time after which a configuration is requested again, for tasks that the machine left alone when they began.
const AFFIRM: Duration = Duration::from_secs(2);

/// The policy.
#[derive(Debug)]
pub struct Auto {
    pub(super) options: AutoOptions,
    pub(super) metrics: Vec<Metric>,
    pub(super) opening: Opening,
    pub(super) working_tasks: WorkingTasks,
    pub(super) observer: Option<Observer>,
    pub(super) meter: Option<(Meter, Duration)>,
    /// The length of a window.
    pub(super) window: Duration,
    /// The sample at which the present window began.
    pub(super) first: Sample,
    pub(super) threads: usize,
    /// The sets of threads that worked, and what was best for each.
    pub(super) thread_sets: ThreadSets,
    pub(super) search: Search,
    /// The candidate that runs.
    pub(super) present: usize,
    pub(super) step: Step,
    pub(super) repeats: u32,
    pub(super) budget: Budget,
    pub(super) change: ChangePoint,
    /// How much more evidence is needed for another search after searches in vain.
    pub(super) patience: f64,
    pub(super) phases: Phases,
    /// The first sample of the present choice.
    pub(super) chosen_from: Option<Sample>,
    /// Whether the rates of the present phase in the present choice were noted.
    pub(super) is_seen: bool,
    /// The known program whose rate is checked.
    pub(super) known: Option<KnownPlacement>,
    /// When the choice is compared with the unpinned program again.
    pub(super) confirm_at: Duration,
    /// The readings since the last rate line, and when it was.
    pub(super) line: Vec<Reading>,
    pub(super) line_began: Duration,
    pub(super) requested: RequestedConfiguration,
    /// By rank: the PUs on which the unpinned program last ran in a baseline.
    pub(super) home: Option<Pinning>,
    /// Whether threads are pinned.
    pub(super) is_pinned: bool,
    /// How many regions had a placement of their own in what was reported last.
    pub(super) reported_regions: usize,
    /// When the configuration was last requested again.
    pub(super) affirmed: Duration,
    /// Whether pages were moved, so that leaving them means moving them back.
    pub(super) has_moved_pages: bool,
    /// How long they took the last time.
    pub(super) moved_in: Option<Duration>,
    /// How long pages took to follow threads the last time.
    pub(super) followed_in: Duration,
    pub(super) now: Duration,
}

impl Auto {
    /// The policy with these options.
    pub fn new(options: AutoOptions) -> Self {
        let known = options.expected().map(KnownPlacement::place);
        let place = known.or_else(|| options.near.as_ref().map(Near::place));
        let place = place.unwrap_or_default();
        Self {
            opening: Opening::new(options.times.opening(), options.metric.clone())
                .measured_by(options.known.values().next().map(|known| known.metric.clone())),
            working_tasks: WorkingTasks::new(options.skip.clone()),
            metrics: vec![],
            observer: None,
            meter: None,
            window: options.times.shortest,
            first: Sample::default(),
            threads: 0,
            thread_sets: ThreadSets::default(),
            search: Search {
                candidates: vec![Candidate::new(place)],
                ..Search::default()
            },
            present: UNPINNED,
            step: Step::Opening,
            repeats: 0,
            budget: Budget::default(),
            change: ChangePoint::new(1.0),
            patience: 1.0,
            phases: Phases::default(),
            chosen_from: None,
            is_seen: false,
            known: None,
            confirm_at: Duration::ZERO,
            line: vec![],
            line_began: Duration::ZERO,
            requested: RequestedConfiguration::default(),
            home: None,
            is_pinned: false,
            reported_regions: 0,
            affirmed: Duration::ZERO,
            has_moved_pages: false,
            moved_in: None,
            followed_in: Duration::ZERO,
            now: Duration::ZERO,
            options,
        }
    }
}

impl Policy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn start(&mut self, _topology: &Topology, metrics: &[Metric]) -> Decision {
        let mut findings = vec![];
        self.metrics = metrics.to_vec();
        // An event that is not counted here leaves its figures missing, and the model says what it lacks.
        let events = self.options.events.as_ref();
        self.observer = events.and_then(|events| Observer::new(events, metrics).ok());
        self.opening.start(metrics, &mut findings);
        self.decision(Duration::ZERO, findings)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut findings = vec![];
        self.now = sample.at;
        let disturbed = self.working_tasks.update(sample);
        if let Some((meter, _)) = &mut self.meter {
            meter.read(sample, |id| !self.working_tasks.is_left_alone(id));
        }
        self.pages_moved(topology, sample, applied, &mut findings);
        match self.step {
            Step::Opening => self.open(topology, sample, &mut findings),
            Step::Settling { purpose, began, lasts } if sample.at >= began + lasts => {
                self.measure(purpose, sample);
            }
            Step::Measuring { purpose, .. } if disturbed && self.repeats < REPEATS => {
                self.repeats += 1;
                self.measure(purpose, sample);
            }
            Step::Measuring { purpose, began, lasts } if sample.at >= began + lasts || self.is_hopeless(purpose) => {
                self.repeats = 0;
                self.measured(topology, sample, purpose, &mut findings);
            }
            _ => {}
        }
        self.decision(sample.at, findings)
    }

    fn end(&mut self) -> Vec<Finding> {
        if matches!(self.step, Step::Opening) {
            return self.opening.end(&self.working_tasks, self.place().pinning.as_ref());
        }
        if self.search.chosen {
            return vec![];
        }
        let lost = self.budget.lost();
        let why = if lost < 0.0005 {
            "The program ended before the search did; no trial had slowed it down.".to_owned()
        } else {
            format!("The program ended before the search did; trials had cost it about {lost:.2} s.")
        };
        let best = self.search.best;
        let candidate = &self.search.candidates[best];
        vec![Finding::EndedEarly {
            best: Some(best),
            rate: candidate.rate,
            code: EndedCode::DuringSearch,
            why: format!("{why} {}", self.best_so_far()),
        }]
    }
}

impl Auto {
    /// The initialisation, until a metric is chosen.
    fn open(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        match self.opening.look(sample, &mut self.working_tasks, findings) {
            Opened::NotYet => {}
            Opened::WithoutMetric => self.requested.request_again(),
            Opened::With { mut meter, reading } => {
                meter.restart();
                self.meter = Some((meter, reading));
                self.window = self
                    .options
                    .times
                    .shortest
                    .max(reading * 2)
                    .min(self.options.times.longest);
                self.line_began = sample.at;
                self.threads = self.working_threads();
                let known = self.options.known.get(&self.threads).cloned();
                let known = known.filter(|known| !known.other_build && self.may_follow(known, topology));
                if let Some(known) = known {
                    self.follow(sample, known, findings);
                } else {
                    // A program that was expected to be a known one, with other threads, is unpinned now.
                    let first = self.options.near.as_ref().map(Near::place).unwrap_or_default();
                    let why = if first == Placement::default() {
                        "the operating system's placement is measured first"
                    } else {
                        "where the user wants the program is measured first, and then the operating system's placement"
                    };
                    self.phases.begin(first, None);
                    let requested = self.requested_place();
                    self.begin_search(sample, requested, why, findings);
                }
            }
        }
    }

    pub(super) fn working_threads(&self) -> usize {
        self.options.threads.unwrap_or(self.working_tasks.number()).max(1)
    }

    /// Whether the present window may end early, because the candidate of a trial is much slower than the other one.
    fn is_hopeless(&self, purpose: Purpose) -> bool {
        let (Purpose::Trial, Some(trial), Some((meter, _))) = (purpose, &self.search.trial, &self.meter) else {
            return false;
        };
        let so_far = Window::new(meter.measurement().rate, meter.grown());
        so_far.is_some_and(|window| trial.is_hopeless(window))
    }

    /// A window has ended.
    fn measured(&mut self, topology: &Topology, sample: &Sample, purpose: Purpose, findings: &mut Vec<Finding>) {
        let measurement = self.measurement();
        let counts = self.meter.as_ref().map_or(0.0, |(meter, _)| meter.grown());
        let window = Window::new(measurement.rate, counts);
        self.adapt(measurement.rate, counts);
        if let Some(rate) = measurement.rate {
            self.line.push(Reading {
                at: sample.at.as_secs_f64(),
                rate,
            });
        }
        self.time_regions(sample);
        let judgement = self.judge_tasks(sample, findings);
        let is_search_or_watch = !matches!(purpose, Purpose::Baseline | Purpose::Signature);
        let may_change = is_search_or_watch && judgement != Judgement::Idle && self.options.threads.is_none();
        if may_change && self.heed_threads(sample, findings) {
            self.report_line(sample, findings);
            return;
        }
        let best = self.search.best;
        if best == self.present
            && let Some(gain) = self.search.candidates[best].gain
        {
            self.budget.save(measurement.over, gain.log.exp());
        }
        if !matches!(purpose, Purpose::Baseline | Purpose::Signature)
            && let Some(Proposal { place, by, gain, why }) = self.of_mapper(topology, sample)
        {
            self.propose(place, by, gain, why, findings);
        }
        match purpose {
            Purpose::Baseline => self.baseline(topology, sample, window, &measurement, findings),
            Purpose::Trial => self.trial(topology, sample, window, findings),
            Purpose::Waiting => self.waited(topology, sample, window, findings),
            Purpose::Watching => self.watch(topology, sample, window, findings),
            Purpose::Signature => self.phase(sample, findings),
        }
        self.report_line(sample, findings);
    }

    /// A window of the best one, before the next trial can be afforded.
    fn waited(&mut self, topology: &Topology, sample: &Sample, window: Option<Window>, findings: &mut Vec<Finding>) {
        if let Some(window) = window {
            if self.change.has_changed(window.log) {
                self.search.trial = None;
                self.measure(Purpose::Signature, sample);
                return;
            }
            if let Some(trial) = &mut self.search.trial {
                trial.offer(self.present, window);
            }
        }
        self.next(topology, sample, findings);
    }

    /// Windows follow from the rate: rare counts need longer ones.
    fn adapt(&mut self, rate: Option<f64>, counts: f64) {
        let times = self.options.times;
        if counts < COUNTS / 2.0 && rate.is_some() {
            self.window = (self.window * 2).min(times.longest);
        }
    }

    /// A window of the baseline, or of a known program in its placement.
    fn baseline(
        &mut self,
        topology: &Topology,
        sample: &Sample,
        window: Option<Window>,
        measurement: &Measurement,
        findings: &mut Vec<Finding>,
    ) {
        self.search.baseline.extend(window);
        if self.search.baseline.len() < BASELINE {
            self.measure(Purpose::Baseline, sample);
            return;
        }
        let baseline = std::mem::take(&mut self.search.baseline);
        self.search.noise.learn_alike(&baseline);
        if self.place().pinning.is_none() {
            self.home = self.working_tasks.last_seen(sample, self.threads);
        }
        findings.push(probed(self.present, measurement, false));
        self.search.candidates[self.present].rate = measurement.rate;
        if let Some(known) = self.known.take() {
            self.check_known(topology, sample, &known, &baseline, findings);
            return;
        }
        self.sample(topology, sample, findings);
        self.next(topology, sample, findings);
    }

    /// A line with the rate, now and then after the choice.
    fn report_line(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        if !self.search.chosen {
            self.line.clear();
            self.line_began = sample.at;
            return;
        }
        if sample.at < self.line_began + self.options.times.line {
            return;
        }
        let readings = std::mem::take(&mut self.line);
        let number = readings.len() as f64;
        let rate = (!readings.is_empty()).then(|| readings.iter().map(|one| one.rate).sum::<f64>() / number);
        let line = Measurement::of_readings(readings, rate);
        findings.push(Finding::Rate {
            rate: line.rate,
            spread: line.spread,
        });
        self.line_began = sample.at;
    }

    pub(super) fn place(&self) -> &Placement {
        &self.search.candidates[self.present].place
    }

    /// How long threads, pages and caches settle after a change to this candidate.
    pub(super) fn settling(&self, candidate: usize, at: Duration) -> Duration {
        let settles = self.settles(at);
        let place = &self.search.candidates[candidate].place;
        let settles = match place.pinning {
            Some(_) => settles,
            None => settles * UNPINNED_SETTLES,
        };
        let moving = if place.pages == self.place().pages {
            Duration::ZERO
        } else {
            self.moving_takes(candidate, at)
        };
        settles + moving
    }

    /// How long threads and caches settle after they are pinned.
    pub(super) fn settles(&self, at: Duration) -> Duration {
        self.options.times.settle.max(at.mul_f64(SETTLE))
    }

    pub(super) fn settle(&mut self, purpose: Purpose, at: Duration) {
        self.step = Step::Settling {
            purpose,
            began: at,
            lasts: self.settling(self.present, at),
        };
    }

    /// A window begins at `sample`.
    pub(super) fn measure(&mut self, purpose: Purpose, sample: &Sample) {
        self.first = sample.clone();
        if let Some((meter, _)) = &mut self.meter {
            meter.share(sample, |id| !self.working_tasks.is_left_alone(id));
            meter.restart();
        }
        self.working_tasks.begin_window(sample);
        if sample.at >= self.affirmed + AFFIRM {
            self.affirmed = sample.at;
            self.requested.request_again();
        }
        let lasts = match purpose {
            Purpose::Watching | Purpose::Waiting => self.window.max(self.options.times.shortest * 5),
            Purpose::Signature => self.window.max(self.options.times.shortest * 10),
            _ => self.window,
        };
        self.step = Step::Measuring {
            purpose,
            began: sample.at,
            lasts,
        };
    }

    pub(super) fn measurement(&self) -> Measurement {
        let meter = self.meter.as_ref();
        meter.map(|(meter, _)| meter.measurement()).unwrap_or_default()
    }

    fn decision(&mut self, now: Duration, findings: Vec<Finding>) -> Decision {
        let reading = self
            .meter
            .as_ref()
            .map_or(self.options.times.interval, |(_, reading)| *reading);
        let wait = match self.step {
            Step::Opening => self.opening.wait(now),
            Step::Settling { began, lasts, .. } | Step::Measuring { began, lasts, .. } => {
                times::wait(now, began + lasts, reading)
            }
        };
        let place = self.place().clone();
        let back = self.has_moved_pages.then_some(PageMapping::FirstTouch);
        let within = place.pages.and_then(|_| self.moving_within(self.present, now));
        let following_within = Some(self.following_within(now));
        // Before threads are let go they return to where they ran: the operating system would leave them where they are.
        let pins = place.pinning.is_some() || !place.regions.is_empty();
        let was_pinned = std::mem::replace(&mut self.is_pinned, pins);
        let home = self.home.as_ref().filter(|_| was_pinned && !pins);
        let wanted = Configuration {
            pinning: place.pinning.as_ref().or(home).cloned(),
            within: place.within,
            pages: place.pages.or(back),
            regions: place.regions,
            left_alone: self.working_tasks.left_alone(),
            ..Configuration::default()
        };
        // The limits of time change at each decision, and alone are no reason for another request.
        let configuration = self.requested.changed(wanted).map(|configuration| Configuration {
            following_within,
            mapping_within: within,
            ..configuration
        });
        Decision {
            configuration,
            wait,
            findings,
        }
    }
}
