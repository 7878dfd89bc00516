//! The policy `react` in the loop. Pages belong to the program, and threads and prefetchers to a region. So all regions
//! go through these steps together:
//!
//! 1. The operating system places the program. Its regions are timed: this is the baseline.
//! 2. The program gets the first of the model's profiled configurations. Each region is executed once, so that caches
//!    are warm, and is then profiled. The other configurations follow. A belief chooses each of these configurations
//!    itself, and may wait with the next one (`believing`).
//! 3. The model forecasts a configuration for each region. With a belief, or if a counter is not available, the region
//!    gets the fastest profiled configuration. Regions that are too short for a change of configuration get the
//!    configuration of the region that takes most of the time.
//! 4. If the regions want their pages at different places, there is a conflict, which section 6.2 of the paper solves
//!    by cross-evaluation. The pages move to each of these places once. There each region is timed in its own
//!    configuration, and in the configuration that wants the pages at this place. The places with the least time of all
//!    executions of all regions are kept. Each region keeps the faster of the two configurations (section 6.3: threads
//!    change at borders, pages do not).
//! 5. The result is timed again. If all regions took less time together in one of the profiled configurations, they get
//!    that one, and are timed again: a forecast may be wrong, and the caches of a region depend on the PUs of the
//!    previous region. A region that is not significantly faster than in the baseline goes back to unpinned, and the
//!    result is timed once more. The plan with the least time of all regions stays, with this region or without it. If
//!    the time is not less than in the baseline, everything goes back, pages as well.
//! 6. The rate of the whole program with the plan is compared in turns with its rate without it, because the time
//!    outside of regions counts, too. If it is not significantly higher, everything goes back.
//!
//! A step ends when each region has been executed often enough, and at the latest after `t`. This file has the order of
//! the steps; `profiles` has the results of the first two, `forecasting` the third step, `cross_evaluation` the fourth,
//! `verification` the fifth and `whole_program` the last.
//!
//! Known limits: a region counts if it takes at least a hundredth of the time in regions during the baseline. A region
//! that comes later runs like the code outside of regions. That code is not optimised: if it makes the whole program
//! slower, all configurations are given up together. A policy does not know which prefetchers were on before, so
//! unpinned regions run with all of them on.

mod believing;
mod cross_evaluation;
mod forecasting;
mod profiles;
mod verification;
mod whole_program;

use super::chooser::Chooser;
use super::plan::{Plan, Requests};
use super::timing::Timing;
use crate::Policy;
use crate::comparison::turns::Gain;
use crate::program::metric_choice::MetricRequest;
use crate::program::observed_program::{Observation, ObservedProgram, Stage};
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use believing::{Believing, Wanted};
use cross_evaluation::CrossEvaluation;
use pinfold_core::{Applied, Decision, EndedCode, Finding, Metric, NoteCode, Sample, Topology};
use profiles::Profiles;
use std::time::Duration;
use verification::Verification;
use whole_program::{Progress, WholeProgram};

/// The interval between two readings until the regions are known, and the least after that.
const FIRST_INTERVAL: Duration = Duration::from_millis(10);
const LEAST_INTERVAL: Duration = Duration::from_millis(2);

/// The options of `react`.
#[derive(Clone, Debug)]
pub struct ReactOptions {
    /// The longest time of a step (`t`), and the initialisation (`i`).
    pub times: Times,
    /// The metric whose rate is reported.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// What chooses the configurations that are tried.
    pub chooser: Chooser,
}

/// What a step measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The unpinned program.
    Baseline,
    /// One of the profiled configurations, by its position.
    Profile(usize),
    /// Nothing new: the next trial of the belief is not affordable yet.
    Waiting,
    /// The pages of one of the conflicting places, and each region in its own configuration.
    Own(usize),
    /// The same pages, and all regions in the configuration that wants them.
    Shared(usize),
    /// The result. The first time, single regions may go back.
    Result { again: bool },
}

/// What follows from the result of a step.
#[derive(Debug)]
enum Next {
    /// The regions get this plan, which the step measures.
    Measure(Step, Plan),
    /// The whole program is compared with and without this plan. All regions together are faster by this share.
    Compare(Plan, f64),
    /// Everything goes back, for this reason.
    RollBack(&'static str),
}

/// The phase of the run.
#[derive(Debug)]
enum Phase {
    /// Until the initialisation is over.
    Initialising,
    /// Each region is executed once after a change.
    WarmingUp(Step, Timing),
    Measuring(Step, Timing),
    /// The whole program, in turns with the unpinned program.
    Comparing(Box<WholeProgram>),
    Watching,
}

/// The policy.
#[derive(Debug)]
pub struct React {
    options: ReactOptions,
    program: ObservedProgram,
    phase: Phase,
    profiles: Profiles,
    evaluation: CrossEvaluation,
    verification: Verification,
    /// What a belief says of the regions; `None` with a model, and before the baseline.
    believing: Option<Believing>,
    plan: Plan,
    requests: Requests,
    /// Whether a note said that there is nothing to profile.
    noted_nothing: bool,
    /// The interval between two readings.
    reading: Duration,
}

impl React {
    /// The policy with these options.
    pub fn new(options: ReactOptions) -> Self {
        Self {
            program: ObservedProgram::new(options.times, options.metric.clone(), options.skip.clone()),
            phase: Phase::Initialising,
            profiles: Profiles::new(options.chooser.model().map_or(vec![], |model| model.profiles.clone())),
            evaluation: CrossEvaluation::default(),
            verification: Verification::default(),
            believing: None,
            plan: Plan::default(),
            requests: Requests::default(),
            noted_nothing: false,
            reading: FIRST_INTERVAL.min(options.times.interval),
            options,
        }
    }
}

impl Policy for React {
    fn name(&self) -> &'static str {
        match self.options.chooser {
            Chooser::Belief(_) => "react",
            Chooser::Model(_) => "react:tree",
        }
    }

    fn start(&mut self, _topology: &Topology, metrics: &[Metric]) -> Decision {
        Decision {
            wait: self.options.times.initialise.min(self.reading),
            ..self.program.start(metrics, None)
        }
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut seen = self.program.observe(topology, sample, applied);
        if self.requests.heed(applied) {
            seen.report(note(
                "Prefetchers cannot be set here, so only threads, their number and pages are optimised.".to_owned(),
            ));
        }
        if let (Some(believing), Some(moves)) = (&mut self.believing, &applied.pages) {
            believing.note_moving(moves.lasted);
        }
        self.report_rate(&mut seen);
        self.advance(&mut seen);
        let wanted = self.requests.configuration(&self.plan, &self.program, &seen);
        if wanted.is_some() {
            self.program.request_again();
        }
        Decision {
            wait: match self.phase {
                Phase::Watching | Phase::WarmingUp(Step::Waiting, _) | Phase::Measuring(Step::Waiting, _) => {
                    self.options.times.interval
                }
                _ => self.reading,
            },
            ..self.program.decide(seen, wanted)
        }
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
                    Step::Waiting => "before the next trial of a configuration was worth its cost",
                    Step::Own(_) | Step::Shared(_) => "during the cross-evaluation of its regions' configurations",
                    Step::Result { .. } => "before the configurations of its regions were verified",
                },
            ),
        };
        vec![Finding::EndedEarly {
            best: None,
            rate: None,
            code,
            why: format!("The program ended {during}. {}", self.program.remedy()),
        }]
    }
}

impl React {
    /// Reports the rate of progress when nothing changes any more.
    fn report_rate(&mut self, seen: &mut Observation<'_>) {
        match (self.program.stage(seen), &self.phase) {
            (Stage::Opened, _) => self.begin_line(seen),
            (Stage::Open, Phase::Watching) if self.program.is_over(seen) => {
                self.program.report_rate(seen);
                self.begin_line(seen);
            }
            (Stage::Open, Phase::Initialising | Phase::WarmingUp(..) | Phase::Measuring(..)) => {
                self.program.drop_readings();
            }
            _ => {}
        }
    }

    fn begin_line(&mut self, seen: &Observation<'_>) {
        self.program.begin_comparable_window(seen, self.options.times.probe);
    }

    fn advance(&mut self, seen: &mut Observation<'_>) {
        match &mut self.phase {
            Phase::Initialising if seen.at() >= self.options.times.initialise => self.begin_baseline(seen),
            Phase::WarmingUp(step, timing) => {
                timing.read(seen.sample());
                let warm = |id| timing.profile(id).is_some_and(|profile| profile.executions >= 1.0);
                if self.profiles.ids().all(warm) || timing.lasts() >= self.options.times.probe {
                    self.phase = Phase::Measuring(*step, Timing::begin(seen.sample()));
                }
            }
            Phase::Measuring(step, timing) => {
                timing.read(seen.sample());
                let is_complete = match *step {
                    Step::Baseline => Profiles::is_baseline_complete(timing),
                    Step::Profile(number) => {
                        let at = seen.at();
                        let hopeless =
                            |believing: &Believing| believing.is_hopeless(&self.profiles, number, timing, at);
                        self.believing.as_ref().is_some_and(hopeless) || self.profiles.is_complete(timing)
                    }
                    _ => self.profiles.is_complete(timing),
                };
                if is_complete || timing.lasts() >= self.options.times.probe {
                    let (step, timing) = (*step, std::mem::take(timing));
                    let next = self.measured(step, &timing, seen);
                    self.follow(next, seen);
                }
            }
            Phase::Comparing(whole) => {
                let is_named = matches!(self.options.metric, MetricRequest::Named(_));
                let of_regions = whole.of_regions();
                match whole.advance(&mut self.program, is_named, seen) {
                    Progress::Stay => {}
                    Progress::Change(plan) => self.plan = plan,
                    Progress::Keep(plan, gain) => {
                        self.plan = plan;
                        self.end_search(Some(of_regions), Some(gain), seen);
                    }
                    Progress::GiveUp(gain) => {
                        let why = whole.why_given_up(gain);
                        self.roll_back(&why, seen);
                        self.end_search(Some(of_regions), gain, seen);
                    }
                }
            }
            Phase::Initialising | Phase::Watching => {}
        }
    }

    fn begin_baseline(&mut self, seen: &Observation<'_>) {
        self.phase = Phase::Measuring(Step::Baseline, Timing::begin(seen.sample()));
    }

    /// A step has measured enough, or lasts too long. Returns `None` if the baseline begins again.
    fn measured(&mut self, step: Step, timing: &Timing, seen: &mut Observation<'_>) -> Option<Next> {
        match step {
            Step::Baseline => {
                let home = self.program.last_seen(seen, self.program.working());
                self.requests.note_home(home);
                if !self.profiles.take_baseline(timing) {
                    self.note_nothing(timing, seen);
                    return None;
                }
                self.note_regions(timing, seen);
                if let Chooser::Belief(belief) = &self.options.chooser {
                    let (working, home) = (self.program.working(), self.requests.home());
                    let believing = Believing::begin(belief, &self.profiles, seen.topology(), working, home);
                    return Some(self.planned(believing, timing, seen));
                }
                Some(self.profile(0))
            }
            Step::Waiting => {
                let believing = self.believing.take()?;
                Some(self.planned(believing, timing, seen))
            }
            Step::Profile(number) => {
                self.profiles.record(timing);
                if let Some(mut believing) = self.believing.take() {
                    for learned in believing.learn(&self.profiles, number, timing, &self.requests) {
                        seen.report(Finding::Believed(learned));
                    }
                    return Some(self.planned(believing, timing, seen));
                }
                Some(if number + 1 < self.profiles.configurations().len() {
                    self.profile(number + 1)
                } else {
                    self.forecast(seen)
                })
            }
            Step::Own(place) => {
                self.evaluation.record_own(place, timing);
                if self.evaluation.places() > 1 {
                    let plan = self.evaluation.shared(place, &self.profiles);
                    return Some(Next::Measure(Step::Shared(place), plan));
                }
                Some(self.conclude(timing, seen))
            }
            Step::Shared(place) => {
                self.evaluation.record_shared(place, timing);
                if place + 1 < self.evaluation.places() {
                    return Some(self.own(place + 1));
                }
                let (plan, choices) = self.evaluation.choose(&self.profiles, seen.findings());
                self.verification.choose(choices);
                Some(Next::Measure(Step::Result { again: false }, plan))
            }
            Step::Result { again: false } => Some(self.conclude(timing, seen)),
            Step::Result { again: true } => Some(self.verification.settle(&self.plan, timing, &self.profiles)),
        }
    }

    /// Does what follows from a step.
    fn follow(&mut self, next: Option<Next>, seen: &mut Observation<'_>) {
        match next {
            None => self.begin_baseline(seen),
            Some(Next::Measure(step, plan)) => {
                self.plan = plan;
                self.phase = Phase::WarmingUp(step, Timing::begin(seen.sample()));
            }
            Some(Next::Compare(plan, of_regions)) => {
                self.plan = plan.clone();
                self.program.drop_readings();
                let longest = self.options.times.probe;
                let whole = WholeProgram::new(plan, of_regions, self.reading, longest, seen.sample());
                self.phase = Phase::Comparing(Box::new(whole));
            }
            Some(Next::RollBack(why)) => {
                self.roll_back(why, seen);
                self.end_search(None, None, seen);
            }
        }
    }

    /// No region was executed often enough in the baseline.
    fn note_nothing(&mut self, timing: &Timing, seen: &mut Observation<'_>) {
        if std::mem::replace(&mut self.noted_nothing, true) {
            return;
        }
        let text = if timing.regions().next().is_none() {
            "No parallel region has ended yet, so there is nothing to profile. Regions are seen in programs that use \
             GCC's or LLVM's OpenMP; a region that lasts as long as the program has no second execution."
        } else {
            "No parallel region is executed often enough to be profiled; -t gives each step more time."
        };
        seen.report(note(text.to_owned()));
    }

    /// The regions are known, and the time of their executions.
    fn note_regions(&mut self, timing: &Timing, seen: &mut Observation<'_>) {
        let longest = self.profiles.longest_execution(timing.lasts());
        self.reading = longest.max(LEAST_INTERVAL).min(self.options.times.probe);
        let (share, regions, configurations) = self.profiles.text();
        let tried = match &self.options.chooser {
            Chooser::Belief(_) => "under configurations that a belief chooses".to_owned(),
            Chooser::Model(_) => format!("under {configurations}"),
        };
        seen.report(note(format!(
            "{share} of the time in regions: {regions}. They are profiled {tried}."
        )));
    }

    /// The belief decides after a step.
    fn planned(&mut self, mut believing: Believing, timing: &Timing, seen: &mut Observation<'_>) -> Next {
        believing.note_step(timing.lasts());
        let (wanted, why) = believing.wanted(&self.profiles, &self.plan, &self.requests, seen.at());
        if let Some(why) = why {
            seen.report(note(why));
        }
        self.believing = Some(believing);
        match wanted {
            Wanted::Trial(configuration) => {
                self.profiles.add(configuration);
                self.profile(self.profiles.configurations().len() - 1)
            }
            Wanted::Wait(plan) => Next::Measure(Step::Waiting, plan),
            Wanted::Enough => self.forecast(seen),
        }
    }

    /// All regions go to one of the profiled configurations.
    fn profile(&self, number: usize) -> Next {
        let configuration = &self.profiles.configurations()[number];
        let plan = Plan::uniform(self.profiles.ids(), configuration);
        Next::Measure(Step::Profile(number), plan)
    }

    /// All regions were profiled: each gets a configuration.
    fn forecast(&mut self, seen: &mut Observation<'_>) -> Next {
        let wanted = forecasting::forecast(&self.profiles, self.options.chooser.model(), seen.findings());
        self.evaluation = CrossEvaluation::new(wanted, &self.profiles);
        self.verification.choose(self.evaluation.reasons());
        match self.evaluation.places() {
            0 => return Next::RollBack("no region could be profiled"),
            1 => {}
            _ => seen.report(self.evaluation.conflict(seen.topology())),
        }
        self.own(0)
    }

    /// Pages go to one of the places, and regions to their own configurations.
    fn own(&self, place: usize) -> Next {
        Next::Measure(Step::Own(place), self.evaluation.own(place, &self.profiles))
    }

    fn conclude(&mut self, timing: &Timing, seen: &mut Observation<'_>) -> Next {
        self.verification
            .conclude(&self.plan, timing, &self.profiles, seen.findings())
    }

    fn roll_back(&mut self, why: &str, seen: &mut Observation<'_>) {
        self.plan = Plan::default();
        seen.report(self.verification.roll_back(why, &self.profiles));
    }

    /// Reports the result. From now on nothing changes, and only the rate is reported.
    fn end_search(&mut self, of_regions: Option<f64>, program: Option<Gain>, seen: &mut Observation<'_>) {
        let gains = (of_regions, program.map(Gain::of_program));
        let sets_prefetchers = self.requests.sets_prefetchers();
        let topology = seen.topology();
        seen.report(
            self.verification
                .report(&self.plan, gains, &self.profiles, topology, sets_prefetchers),
        );
        self.begin_line(seen);
        self.phase = Phase::Watching;
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
