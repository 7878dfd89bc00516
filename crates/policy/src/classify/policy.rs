//! The policy `classify:forest` in the loop.
//!
//! 1. The program starts unpinned, as the operating system places it. When its threads work it is measured for `t`:
//!    this is the first candidate and the baseline.
//! 2. It goes to the default strategy, warms up for `w`, and is observed once, for `t`. That is the second candidate.
//! 3. The model forecasts its time in each strategy. If it is sure that none is clearly faster than the default,
//!    nothing else is tried. If it is sure of one, that is a candidate. If it is not sure, all that may be the fastest
//!    are, the likeliest first.
//! 4. Each candidate warms up for `w` and is measured for `t`, or until it has lost (`race`). Threads and pages move,
//!    also pages that are in memory already.
//! 5. The fastest one stays, if it is significantly faster than the unpinned program. Otherwise the program is left
//!    alone: nothing is pinned, and pages that were moved go back.
//!
//! The model does not forecast if a figure that it needs is not known, or if the machine is unlike all machines of its
//! training data. Then no strategy but the default is tried, and the reason is reported.
//!
//! The paper's programs start in the default strategy. Here it is a trial like any other, because nothing is pinned
//! before something is measured (docs/design/unpinned.md). It has to be tried, because counts show
//! which threads share data only if it is known which threads are neighbours.

use super::forecast::{Answer, Figures, ask, figures};
use super::{MachinePeaks, Pages, PlacementModel, Strategy};
use crate::Policy;
use crate::comparison::race::Race;
use crate::findings::{chosen, probed};
use crate::program::meter::Measurement;
use crate::program::metric_choice::MetricRequest;
use crate::program::observed_program::{Observation, ObservedProgram, Stage};
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use crate::sam::{MapperEvents, Observer};
use pinfold_core::{
    Applied, CandidatesCode, ChoiceCode, Configuration, Decision, EndedCode, Finding, Metric, NoteCode, PageMapping,
    Pinning, Sample, Topology, map_over_nodes,
};
use std::time::Duration;

/// The options of `classify`.
#[derive(Clone, Debug)]
pub struct ClassifyOptions {
    /// When to observe, and for how long. A probe is the observation.
    pub times: Times,
    /// The metric that compares candidates.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// The number of threads, if the user gave it.
    pub threads: Option<usize>,
    /// The model; `None` only observes.
    pub model: Option<PlacementModel>,
    /// The peak bandwidths of the machine.
    pub peaks: MachinePeaks,
    /// The events of the activities that a model sees; `None` if they cannot be counted.
    pub events: Option<MapperEvents>,
}

/// The positions of the unpinned program and of the default strategy among the candidates.
const UNPINNED: usize = 0;
const DEFAULT: usize = 1;

/// The phase of the run.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Initialising,
    /// A candidate warms up.
    WarmingUp(usize),
    /// A candidate is measured.
    Probing(usize),
    /// The rate is reported, a line for each window.
    Watching,
}

/// The policy.
#[derive(Debug)]
pub struct Classify {
    options: ClassifyOptions,
    program: ObservedProgram,
    observer: Option<Observer>,
    threads: usize,
    /// The candidates and their measurements: the unpinned program, the default strategy, and others.
    candidates: Vec<(Option<Strategy>, Option<Measurement>)>,
    pinning: Option<Pinning>,
    /// `None` until pages were interleaved.
    pages: Option<PageMapping>,
    race: Race,
    phase: Phase,
}

impl Classify {
    /// The policy with these options.
    pub fn new(options: ClassifyOptions) -> Self {
        Self {
            program: ObservedProgram::new(options.times, options.metric.clone(), options.skip.clone()),
            observer: None,
            threads: 0,
            candidates: vec![(None, None), (Some(Strategy::DEFAULT), None)],
            pinning: None,
            pages: None,
            race: Race::default(),
            phase: Phase::Initialising,
            options,
        }
    }
}

impl Policy for Classify {
    fn name(&self) -> &'static str {
        "classify:forest"
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        // An event that is not counted here leaves its figures missing, and the model says which ones it lacks.
        self.observer = self
            .options
            .events
            .as_ref()
            .and_then(|events| Observer::new(events, metrics).ok());
        self.place(topology, None);
        let wanted = self.configuration();
        self.program.start(metrics, Some(wanted))
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut seen = self.program.observe(topology, sample, applied);
        match self.program.stage(&mut seen) {
            Stage::Opened => self.open(&mut seen),
            Stage::Open => self.advance(&mut seen),
            Stage::Initialising | Stage::WithoutMetric => {}
        }
        let wanted = self.configuration();
        self.program.decide(seen, Some(wanted))
    }

    fn end(&mut self) -> Vec<Finding> {
        if let Some(findings) = self.program.ended_early(self.pinning.as_ref()) {
            return findings;
        }
        let (code, why) = match self.phase {
            Phase::Initialising | Phase::Watching => return vec![],
            Phase::WarmingUp(candidate) | Phase::Probing(candidate) if candidate <= DEFAULT => (
                EndedCode::DuringSample,
                "The program ended before it was observed for long enough, and was not moved to any strategy.",
            ),
            Phase::WarmingUp(_) | Phase::Probing(_) => (
                EndedCode::BeforeCheck,
                "The program ended before the strategies were compared.",
            ),
        };
        let rate = self.rate(UNPINNED);
        vec![Finding::EndedEarly {
            best: rate.map(|_| UNPINNED),
            rate,
            code,
            why: format!("{why} {}", self.program.remedy()),
        }]
    }
}

impl Classify {
    /// The metric is chosen: the unpinned program is measured.
    fn open(&mut self, seen: &mut Observation<'_>) {
        self.threads = self.program.threads(self.options.threads);
        let why = format!("unpinned, {}: the program is observed there once", Strategy::DEFAULT);
        seen.report(self.candidates_chosen(seen.topology(), CandidatesCode::Sample, why));
        self.probe(UNPINNED, seen);
    }

    fn advance(&mut self, seen: &mut Observation<'_>) {
        let is_over = self.program.is_over(seen);
        match self.phase {
            Phase::WarmingUp(candidate) if is_over => self.probe(candidate, seen),
            Phase::Probing(candidate) => {
                let measurement = self.program.measurement();
                // The unpinned program and the default strategy always take their whole time.
                let lost = candidate > DEFAULT && self.race.is_on() && self.race.lost(&measurement.readings);
                if lost || is_over {
                    self.probed(candidate, measurement, lost, seen);
                }
            }
            Phase::Watching if is_over => {
                self.program.report_rate(seen);
                self.watch(seen);
            }
            Phase::Initialising | Phase::WarmingUp(_) | Phase::Watching => {}
        }
    }

    /// The program was observed in the default strategy: the model forecasts its time in the others.
    fn forecast(&mut self, seen: &mut Observation<'_>) {
        let figures = self.figures(seen);
        let answer = ask(self.options.model.as_ref(), &figures);
        seen.report(answer.finding(&figures));
        let Answer { why, wanted, .. } = answer;
        if wanted.is_empty() {
            return self.conclude(&why, seen);
        }
        let wanted = wanted.into_iter().map(|strategy| (Some(strategy), None));
        self.candidates.extend(wanted);
        let names: Vec<String> = self.candidates.iter().map(|&(strategy, _)| name(strategy)).collect();
        let text = format!("{}: {why}", names.join(", "));
        seen.report(self.candidates_chosen(seen.topology(), CandidatesCode::Forecast, text));
        // A new list of candidates has no results, so the first two are reported again.
        for (candidate, (_, measurement)) in self.candidates[..=DEFAULT].iter().enumerate() {
            seen.report(probed(candidate, &measurement.clone().unwrap_or_default(), false));
        }
        self.try_candidate(DEFAULT + 1, seen);
    }

    /// Moves threads and pages as a candidate's strategy says, and lets them warm up.
    fn try_candidate(&mut self, candidate: usize, seen: &mut Observation<'_>) {
        let best = self.best();
        let readings = self.candidates[best].1.as_ref().map_or(&[][..], |best| &best.readings);
        self.race = Race::against(readings);
        self.place(seen.topology(), self.candidates[candidate].0);
        let lasts = self.options.times.warm_up;
        seen.report(Finding::WarmingUp { candidate, lasts });
        self.begin(lasts, Phase::WarmingUp(candidate), seen);
    }

    /// Measures a candidate that has warmed up.
    fn probe(&mut self, candidate: usize, seen: &mut Observation<'_>) {
        let lasts = self.options.times.probe;
        seen.report(Finding::Probing { candidate, lasts });
        self.begin(lasts, Phase::Probing(candidate), seen);
    }

    /// A candidate was measured; the next one follows, or the best one stays.
    fn probed(&mut self, candidate: usize, measurement: Measurement, lost: bool, seen: &mut Observation<'_>) {
        seen.report(probed(candidate, &measurement, lost));
        // A candidate that lost has no measurement, so it is never the best.
        self.candidates[candidate].1 = (!lost).then_some(measurement);
        if candidate == DEFAULT {
            self.forecast(seen);
        } else if candidate + 1 < self.candidates.len() {
            self.try_candidate(candidate + 1, seen);
        } else {
            let why = "no strategy had a higher rate than the unpinned program beyond the noise";
            self.conclude(why, seen);
        }
    }

    /// All candidates were measured: the fastest one stays. `why` says why no other one is tried.
    fn conclude(&mut self, why: &str, seen: &mut Observation<'_>) {
        let best = self.best();
        let strategy = self.candidates[best].0;
        self.place(seen.topology(), strategy);
        let tried = self.candidates.len() > DEFAULT + 1;
        let faster = format!("{} had a higher rate than the unpinned program", name(strategy));
        let (code, why) = match (best, tried) {
            (UNPINNED, false) => (ChoiceCode::NoPinningBetter, format!("the program is left alone: {why}")),
            (UNPINNED, true) => (ChoiceCode::StrategyRolledBack, why.to_owned()),
            (DEFAULT, false) => (ChoiceCode::DefaultStrategy, format!("{faster}, and {why}")),
            _ => (ChoiceCode::StrategyKept, format!("{faster} beyond the noise")),
        };
        seen.report(chosen(best, self.gain(best), code, &why));
        if code == ChoiceCode::StrategyRolledBack {
            seen.report(Finding::Note {
                code: NoteCode::RolledBack,
                text: "No strategy helped, so the moves were rolled back: nothing is pinned.".to_owned(),
            });
        }
        self.watch(seen);
    }

    /// The fastest candidate that is significantly faster than the unpinned program; the unpinned one if none is.
    fn best(&self) -> usize {
        let Some(unpinned) = &self.candidates[UNPINNED].1 else {
            return UNPINNED;
        };
        let measured = self.candidates.iter().enumerate().skip(DEFAULT);
        measured
            .filter_map(|(candidate, (_, measurement))| Some((candidate, measurement.as_ref()?)))
            .filter(|(_, measurement)| unpinned.is_lower_than(measurement))
            // Of equally fast ones `min_by` takes the first, which is the likeliest.
            .min_by(|one, other| other.1.rate.unwrap_or(0.0).total_cmp(&one.1.rate.unwrap_or(0.0)))
            .map_or(UNPINNED, |(candidate, _)| candidate)
    }

    fn rate(&self, candidate: usize) -> Option<f64> {
        self.candidates[candidate].1.as_ref()?.rate
    }

    fn gain(&self, candidate: usize) -> Option<f64> {
        let unpinned = self.rate(UNPINNED).filter(|unpinned| *unpinned > 0.0);
        let over = self.rate(candidate).zip(unpinned).filter(|_| candidate != UNPINNED);
        over.map(|(rate, unpinned)| rate / unpinned - 1.0)
    }

    /// The figures of the program in this window, and of the machine.
    fn figures(&self, seen: &Observation<'_>) -> Figures {
        figures(
            self.observer.as_ref(),
            (self.program.first(), seen.sample()),
            |id| self.program.works(id),
            seen.topology(),
            &self.options.peaks,
        )
    }

    fn place(&mut self, topology: &Topology, strategy: Option<Strategy>) {
        self.pinning = strategy.and_then(|strategy| map_over_nodes(topology, self.threads, strategy.threads));
        self.pages = match strategy.map(|strategy| strategy.pages) {
            Some(Pages::Interleave) => Some(PageMapping::Interleave),
            // A program whose pages were never moved keeps its memory policy.
            Some(Pages::FirstTouch) | None => self.pages.map(|_| PageMapping::FirstTouch),
        };
    }

    fn candidates_chosen(&self, topology: &Topology, code: CandidatesCode, why: String) -> Finding {
        let pinnings = self
            .candidates
            .iter()
            .map(|&(strategy, _)| map_over_nodes(topology, self.threads, strategy?.threads));
        Finding::CandidatesChosen {
            threads: self.threads,
            pinnings: pinnings.collect(),
            code,
            why,
        }
    }

    fn watch(&mut self, seen: &Observation<'_>) {
        self.begin(self.options.times.probe, Phase::Watching, seen);
    }

    /// Begins a window of this phase.
    fn begin(&mut self, lasts: Duration, phase: Phase, seen: &Observation<'_>) {
        self.program.begin_window(seen, lasts);
        self.program.request_again();
        self.phase = phase;
    }

    fn configuration(&self) -> Configuration {
        self.program.configuration(self.pinning.as_ref(), self.pages)
    }
}

/// The name of a candidate.
fn name(strategy: Option<Strategy>) -> String {
    strategy.map_or_else(|| "unpinned".to_owned(), |strategy| strategy.to_string())
}
