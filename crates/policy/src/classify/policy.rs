//! The policy `classify` in the loop.
//!
//! 1. The program starts unpinned, as the operating system places it. When its threads work it is measured for `t`: this
//!    is the first candidate and the baseline.
//! 2. It goes to the default strategy, warms up for `w`, and is observed once, for `t`. That is the second candidate.
//! 3. The model forecasts its time in each strategy. If it is sure that none is clearly faster than the default, nothing
//!    else is tried. If it is sure of one, that is a candidate. If it is not sure, all that may be the fastest are, the
//!    likeliest first.
//! 4. Each candidate warms up for `w` and is measured for `t`, or until it has lost (`race`). Threads and pages move,
//!    also pages that are in memory already.
//! 5. The fastest one stays, if it is faster than the unpinned program beyond the noise. Otherwise the program is left
//!    alone: nothing is pinned, and pages that were moved go back.
//!
//! Where the model says nothing, because a figure that it needs is not known or the machine is unlike all that it was
//! learned from, no strategy but the default is tried, and the reason is reported.
//!
//! The paper's programs start in the default strategy. Here it is a trial like any other, because nothing is pinned
//! before something is measured (docs/design/unpinned.md). It has to be tried: only where it is known which threads are
//! neighbours, counts show who shares with whom.

use super::forecast::{Answer, Figures, ask, figures};
use super::{MachinePeaks, Pages, PlacementModel, Strategy};
use crate::Policy;
use crate::comparison::race::Race;
use crate::findings::{chosen, probed};
use crate::program::meter::{Measurement, Meter};
use crate::program::metric_choice::MetricRequest;
use crate::program::opening::{Opened, Opening};
use crate::program::requested::RequestedConfiguration;
use crate::program::times::{self, Times};
use crate::program::working_tasks::{Skip, WorkingTasks};
use crate::sam::{MapperEvents, Observer};
use pinfold_core::{
    Applied, CandidatesCode, ChoiceCode, Decision, EndedCode, Finding, Metric, NoteCode, PageMapping, Pinning, Sample,
    Topology, map_over_nodes,
};
use std::time::Duration;

/// The options of `classify`.
#[derive(Clone, Debug)]
pub struct ClassifyOptions {
    /// When to observe, and for how long. A probe is the observation.
    pub times: Times,
    /// The metric by which candidates are compared.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// The number of threads, where it was given.
    pub threads: Option<usize>,
    /// The model; `None` only observes.
    pub model: Option<PlacementModel>,
    /// What the machine can carry.
    pub peaks: MachinePeaks,
    /// The events of the activities that a model sees; `None` where they cannot be counted.
    pub events: Option<MapperEvents>,
}

/// The positions of the unpinned program and of the default strategy among the candidates.
const UNPINNED: usize = 0;
const DEFAULT: usize = 1;

/// The present phase, and when it began.
#[derive(Debug)]
enum Phase {
    Opening,
    WarmingUp {
        candidate: usize,
        began: Duration,
    },
    Probing {
        candidate: usize,
        began: Duration,
    },
    /// The time since the last rate line.
    Watching {
        began: Duration,
    },
}

/// The policy.
#[derive(Debug)]
pub struct Classify {
    options: ClassifyOptions,
    opening: Opening,
    working_tasks: WorkingTasks,
    observer: Option<Observer>,
    meter: Option<(Meter, Duration)>,
    /// The sample at which the present candidate's measurement began.
    first: Sample,
    threads: usize,
    /// The candidates and what was measured of them: the unpinned program, the default strategy, and others.
    candidates: Vec<(Option<Strategy>, Option<Measurement>)>,
    pinning: Option<Pinning>,
    /// `None` until pages were interleaved.
    pages: Option<PageMapping>,
    race: Race,
    requested: RequestedConfiguration,
    phase: Phase,
    now: Duration,
}

impl Classify {
    /// The policy with these options.
    pub fn new(options: ClassifyOptions) -> Self {
        Self {
            opening: Opening::new(options.times, options.metric.clone()),
            working_tasks: WorkingTasks::new(options.skip.clone()),
            observer: None,
            meter: None,
            first: Sample::default(),
            threads: 0,
            candidates: vec![(None, None), (Some(Strategy::DEFAULT), None)],
            pinning: None,
            pages: None,
            race: Race::default(),
            requested: RequestedConfiguration::default(),
            phase: Phase::Opening,
            now: Duration::ZERO,
            options,
        }
    }
}

impl Policy for Classify {
    fn name(&self) -> &'static str {
        "classify"
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        let mut findings = vec![];
        // An event that is not counted here leaves its figures missing, and the model says what it lacks.
        self.observer = self
            .options
            .events
            .as_ref()
            .and_then(|events| Observer::new(events, metrics).ok());
        self.place(topology, None);
        self.opening.start(metrics, &mut findings);
        self.decision(Duration::ZERO, findings)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, _applied: &Applied) -> Decision {
        let mut findings = vec![];
        self.now = sample.at;
        self.working_tasks.update(sample);
        if let Some((meter, _)) = &mut self.meter {
            meter.read(sample, |id| !self.working_tasks.is_left_alone(id));
        }
        let times = self.options.times;
        match self.phase {
            Phase::Opening => self.open(topology, sample, &mut findings),
            Phase::WarmingUp { candidate, began } if sample.at >= began + times.warm_up => {
                self.probe(candidate, sample, &mut findings);
            }
            Phase::Probing { candidate, began } => {
                let measurement = self.measurement();
                // The baseline and the observation always take their whole time.
                let lost = candidate > DEFAULT && self.race.is_on() && self.race.lost(&measurement.readings);
                if lost || sample.at >= began + times.probe {
                    self.probed(topology, sample, candidate, measurement, lost, &mut findings);
                }
            }
            Phase::Watching { began } if sample.at >= began + times.probe => {
                let measurement = self.measurement();
                findings.push(Finding::Rate {
                    rate: measurement.rate,
                    spread: measurement.spread,
                });
                self.watch(sample);
            }
            _ => {}
        }
        self.decision(sample.at, findings)
    }

    fn end(&mut self) -> Vec<Finding> {
        let (code, why) = match self.phase {
            Phase::Watching { .. } => return vec![],
            Phase::Opening => return self.opening.end(&self.working_tasks, self.pinning.as_ref()),
            Phase::WarmingUp { candidate, .. } | Phase::Probing { candidate, .. } if candidate <= DEFAULT => (
                EndedCode::DuringSample,
                "The program ended before it was observed for long enough, and was not moved to any strategy.",
            ),
            Phase::WarmingUp { .. } | Phase::Probing { .. } => (
                EndedCode::BeforeCheck,
                "The program ended before the strategies were compared.",
            ),
        };
        let rate = self.candidates[UNPINNED]
            .1
            .as_ref()
            .and_then(|measurement| measurement.rate);
        vec![Finding::EndedEarly {
            best: rate.map(|_| UNPINNED),
            rate,
            code,
            why: format!("{why} {}", times::remedy(self.now)),
        }]
    }
}

impl Classify {
    /// The initialisation, until a metric is chosen.
    fn open(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        match self.opening.look(sample, &mut self.working_tasks, findings) {
            Opened::NotYet => {}
            Opened::WithoutMetric => self.requested.affirm(),
            Opened::With { meter, reading } => {
                self.meter = Some((meter, reading));
                self.threads = self.options.threads.unwrap_or(self.working_tasks.number()).max(1);
                let why = format!("unpinned, {}: the program is observed there once", Strategy::DEFAULT);
                findings.push(self.candidates_chosen(topology, CandidatesCode::Sample, why));
                self.probe(UNPINNED, sample, findings);
            }
        }
    }

    /// The default was observed: the model forecasts the program.
    fn forecast(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        let figures = self.figures(topology, sample);
        let answer = ask(self.options.model.as_ref(), &figures);
        findings.push(answer.finding(&figures));
        let Answer { why, wanted, .. } = answer;
        if wanted.is_empty() {
            return self.conclude(topology, sample, &why, findings);
        }
        let wanted = wanted.into_iter().map(|strategy| (Some(strategy), None));
        self.candidates.extend(wanted);
        let names: Vec<String> = self.candidates.iter().map(|&(strategy, _)| name(strategy)).collect();
        let text = format!("{}: {why}", names.join(", "));
        findings.push(self.candidates_chosen(topology, CandidatesCode::Forecast, text));
        // The list of candidates is new, and what is known of the first ones belongs to it.
        for (candidate, (_, measurement)) in self.candidates[..=DEFAULT].iter().enumerate() {
            findings.push(probed(candidate, &measurement.clone().unwrap_or_default(), false));
        }
        self.try_candidate(topology, sample, DEFAULT + 1, findings);
    }

    /// Threads and pages go to a candidate's strategy, which warms up.
    fn try_candidate(&mut self, topology: &Topology, sample: &Sample, candidate: usize, findings: &mut Vec<Finding>) {
        let best = self.best();
        let readings = self.candidates[best].1.as_ref().map_or(&[][..], |best| &best.readings);
        self.race = Race::against(readings);
        self.place(topology, self.candidates[candidate].0);
        self.begin(sample);
        findings.push(Finding::WarmingUp {
            candidate,
            lasts: self.options.times.warm_up,
        });
        self.phase = Phase::WarmingUp {
            candidate,
            began: sample.at,
        };
    }

    /// A candidate has warmed up.
    fn probe(&mut self, candidate: usize, sample: &Sample, findings: &mut Vec<Finding>) {
        self.begin(sample);
        findings.push(Finding::Probing {
            candidate,
            lasts: self.options.times.probe,
        });
        self.phase = Phase::Probing {
            candidate,
            began: sample.at,
        };
    }

    /// A candidate was measured; the next one follows, or the best one stays.
    fn probed(
        &mut self,
        topology: &Topology,
        sample: &Sample,
        candidate: usize,
        measurement: Measurement,
        lost: bool,
        findings: &mut Vec<Finding>,
    ) {
        findings.push(probed(candidate, &measurement, lost));
        // One that lost is no candidate any more.
        self.candidates[candidate].1 = (!lost).then_some(measurement);
        if candidate == DEFAULT {
            self.forecast(topology, sample, findings);
        } else if candidate + 1 < self.candidates.len() {
            self.try_candidate(topology, sample, candidate + 1, findings);
        } else {
            let why = "no strategy had a higher rate than the unpinned program beyond the noise";
            self.conclude(topology, sample, why, findings);
        }
    }

    /// All candidates were measured: the fastest one stays. `why` says why nothing else is tried.
    fn conclude(&mut self, topology: &Topology, sample: &Sample, why: &str, findings: &mut Vec<Finding>) {
        let best = self.best();
        let strategy = self.candidates[best].0;
        self.place(topology, strategy);
        let tried = self.candidates.len() > DEFAULT + 1;
        let faster = format!("{} had a higher rate than the unpinned program", name(strategy));
        let (code, why) = match (best, tried) {
            (UNPINNED, false) => (ChoiceCode::NoPinningBetter, format!("the program is left alone: {why}")),
            (UNPINNED, true) => (ChoiceCode::StrategyRolledBack, why.to_owned()),
            (DEFAULT, false) => (ChoiceCode::DefaultStrategy, format!("{faster}, and {why}")),
            _ => (ChoiceCode::StrategyKept, format!("{faster} beyond the noise")),
        };
        findings.push(chosen(best, self.gain(best), code, &why));
        if code == ChoiceCode::StrategyRolledBack {
            findings.push(Finding::Note {
                code: NoteCode::RolledBack,
                text: "No strategy helped, so the moves were rolled back: nothing is pinned.".to_owned(),
            });
        }
        self.watch(sample);
    }

    /// The fastest candidate that is faster than the unpinned program beyond the noise; the unpinned one if none is.
    fn best(&self) -> usize {
        let Some(unpinned) = &self.candidates[UNPINNED].1 else {
            return UNPINNED;
        };
        let measured = self.candidates.iter().enumerate().skip(DEFAULT);
        measured
            .filter_map(|(place, (_, measurement))| Some((place, measurement.as_ref()?)))
            .filter(|(_, measurement)| unpinned.is_lower_than(measurement))
            // The first of equally fast ones is the likeliest.
            .min_by(|one, other| other.1.rate.unwrap_or(0.0).total_cmp(&one.1.rate.unwrap_or(0.0)))
            .map_or(UNPINNED, |(place, _)| place)
    }

    fn gain(&self, candidate: usize) -> Option<f64> {
        let rate = |place: usize| self.candidates[place].1.as_ref()?.rate;
        let over = rate(candidate).zip(rate(UNPINNED).filter(|unpinned| *unpinned > 0.0));
        over.filter(|_| candidate != UNPINNED)
            .map(|(rate, unpinned)| rate / unpinned - 1.0)
    }

    /// The figures of the program since `begin`, and of the machine.
    fn figures(&self, topology: &Topology, sample: &Sample) -> Figures {
        let between = (&self.first, sample);
        let peaks = &self.options.peaks;
        figures(self.observer.as_ref(), between, &self.working_tasks, topology, peaks)
    }

    fn place(&mut self, topology: &Topology, strategy: Option<Strategy>) {
        self.pinning = strategy.and_then(|strategy| map_over_nodes(topology, self.threads, strategy.threads));
        self.pages = match strategy.map(|strategy| strategy.pages) {
            Some(Pages::Interleave) => Some(PageMapping::Interleave),
            // A program whose pages were never moved keeps the policy that it has.
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

    fn measurement(&self) -> Measurement {
        let meter = self.meter.as_ref();
        meter.map(|(meter, _)| meter.measurement()).unwrap_or_default()
    }

    fn watch(&mut self, sample: &Sample) {
        self.begin(sample);
        self.phase = Phase::Watching { began: sample.at };
    }

    /// Measuring and counting begin again at `sample`.
    fn begin(&mut self, sample: &Sample) {
        self.first = sample.clone();
        self.working_tasks.begin_window(sample);
        if let Some((meter, _)) = &mut self.meter {
            meter.share(sample, |id| !self.working_tasks.is_left_alone(id));
            meter.restart();
        }
        self.requested.affirm();
    }

    fn decision(&mut self, now: Duration, findings: Vec<Finding>) -> Decision {
        let reading = self
            .meter
            .as_ref()
            .map_or(self.options.times.interval, |(_, reading)| *reading);
        let wait = match self.phase {
            Phase::Opening => self.opening.wait(now),
            Phase::WarmingUp { began, .. } => times::wait(now, began + self.options.times.warm_up, reading),
            Phase::Probing { began, .. } | Phase::Watching { began } => {
                times::wait(now, began + self.options.times.probe, reading)
            }
        };
        Decision {
            configuration: self
                .requested
                .configuration(self.pinning.as_ref(), self.pages, &self.working_tasks),
            wait,
            findings,
        }
    }
}

/// The name of a candidate.
fn name(strategy: Option<Strategy>) -> String {
    strategy.map_or_else(|| "unpinned".to_owned(), |strategy| strategy.to_string())
}
