//! The loop of `autopin`.

use crate::Policy;
use crate::autopin::options::{Candidates, Options, Search};
use crate::comparison::candidate_results::{CandidateResults, Outcome, Screening};
use crate::comparison::race::{self, Look, Race};
use crate::comparison::watch::Watcher;
use crate::findings::probed;
use crate::program::meter::{Measurement, Meter};
use crate::program::opening::{Opened, Opening};
use crate::program::requested::RequestedConfiguration;
use crate::program::times;
use crate::program::working_tasks::{Judgement, WorkingTasks};
use pinfold_core::placement::different;
use pinfold_core::{
    Applied, CandidatesCode, Decision, EndedCode, Finding, Metric, NoteCode, Pinning, Sample, Topology,
};
use std::time::Duration;

/// The number of repetitions of a probe during which threads began or ended; the last one is accepted.
const REPEATS: u32 = 2;

/// The present phase of the search, and when it began.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Opening,
    /// The screening of one candidate, in a race.
    Screening {
        candidate: usize,
        began: Duration,
    },
    WarmingUp {
        candidate: usize,
        began: Duration,
    },
    Probing {
        candidate: usize,
        began: Duration,
        /// The same tasks have worked all the time.
        steady: bool,
    },
    /// The time since the last rate line.
    Watching {
        began: Duration,
        steady: bool,
    },
}

/// The policy.
#[derive(Debug)]
pub struct Autopin {
    options: Options,
    opening: Opening,
    working_tasks: WorkingTasks,
    /// The metric's meter and how far apart it is read; known when the opening is over.
    meter: Option<Meter>,
    reading: Duration,
    results: CandidateResults,
    /// The number of tasks that worked when the search began; rates are divided by it.
    worked: usize,
    phase: Phase,
    race: Race,
    /// How often the probe of the present candidate was repeated.
    repeats: u32,
    /// Threads begin and end all the time: probes are not repeated any more.
    threads_change: bool,
    /// The requested pinning, when it last changed, and the configuration that was last requested.
    pinning: Option<Pinning>,
    pinned_at: Option<Duration>,
    requested: RequestedConfiguration,
    choice: Option<usize>,
    /// When the last sample was taken.
    now: Duration,
    watcher: Watcher,
    noted_crowded: bool,
}

impl Autopin {
    /// A search with these options, which `Options::check` has accepted.
    pub fn new(options: Options) -> Self {
        Self {
            opening: Opening::new(options.times, options.metric.clone()),
            working_tasks: WorkingTasks::new(options.skip.clone()),
            meter: None,
            reading: options.times.interval,
            results: CandidateResults::new(vec![], 0),
            worked: 0,
            phase: Phase::Opening,
            race: Race::default(),
            repeats: 0,
            threads_change: false,
            pinning: None,
            pinned_at: None,
            requested: RequestedConfiguration::default(),
            choice: None,
            now: Duration::ZERO,
            watcher: Watcher::new(options.watch.unwrap_or_default()),
            noted_crowded: false,
            options,
        }
    }
}

impl Policy for Autopin {
    fn name(&self) -> &'static str {
        "autopin"
    }

    fn start(&mut self, _topology: &Topology, metrics: &[Metric]) -> Decision {
        let mut findings = vec![];
        self.pinning = self.options.candidates.first_pinning();
        self.opening.start(metrics, &mut findings);
        self.decision(Duration::ZERO, findings)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut findings = vec![];
        self.now = sample.at;
        let disturbed = self.working_tasks.update(sample);
        if let Some(meter) = &mut self.meter {
            meter.read(sample, |id| !self.working_tasks.is_left_alone(id));
        }
        match self.phase {
            Phase::Opening => self.open(topology, sample, &mut findings),
            Phase::Screening { candidate, began } => self.screening(sample, candidate, began, disturbed, &mut findings),
            Phase::WarmingUp { candidate, began } => self.warm_up(sample, candidate, began, disturbed, &mut findings),
            Phase::Probing {
                candidate,
                began,
                steady,
            } => {
                let moved = applied.moved.iter().any(|&id| !self.working_tasks.is_left_alone(id));
                if moved && self.may_repeat(&mut findings) {
                    // The ranks have shifted, because a helper was found or a thread ended, or a thread that the
                    // machine had left alone was pinned only now. This counts as a re-pinning.
                    self.pinned_at = Some(began);
                    self.settle(sample, candidate, began, &mut findings);
                } else {
                    self.probe(topology, sample, candidate, began, steady && !disturbed, &mut findings);
                }
            }
            Phase::Watching { began, steady } => {
                self.watch(topology, sample, began, steady && !disturbed, &mut findings);
            }
        }
        self.decision(sample.at, findings)
    }

    fn end(&mut self) -> Vec<Finding> {
        let mut findings = vec![];
        let during = match self.phase {
            Phase::Watching { .. } => return findings,
            Phase::Opening => return self.opening.end(&self.working_tasks, self.pinning.as_ref()),
            Phase::Screening { candidate, .. } => format!("while {} was screened", self.text(candidate)),
            Phase::WarmingUp { candidate, .. } => format!("while {} warmed up", self.text(candidate)),
            Phase::Probing { candidate, .. } => {
                let measurement = self.measurement();
                if measurement.rate.is_some() {
                    self.record(candidate, measurement, false, &mut findings);
                }
                format!("while {} was measured", self.text(candidate))
            }
        };
        let best_screened = || {
            self.results
                .best_screened()
                .map(|(candidate, _, rate)| (candidate, rate))
        };
        let best = self.results.best().or_else(best_screened);
        let (measured, of) = (self.results.measured(), self.results.pinnings.len());
        findings.push(Finding::EndedEarly {
            best: best.map(|(candidate, _)| candidate),
            rate: best.map(|(_, rate)| rate),
            code: EndedCode::DuringSearch,
            why: format!(
                "The program ended {during}; {measured} of {of} candidates have a rate. {}",
                times::remedy(self.now)
            ),
        });
        findings
    }
}

impl Autopin {
    /// The initialisation, until a metric is chosen; then the first search begins.
    fn open(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        match self.opening.look(sample, &mut self.working_tasks, findings) {
            Opened::NotYet => {}
            Opened::WithoutMetric => self.requested.affirm(),
            Opened::With { meter, reading } => {
                self.meter = Some(meter);
                self.reading = reading;
                self.search(topology, sample, None, findings);
            }
        }
    }

    /// Makes candidates for the tasks that work now and begins a search among them.
    fn search(&mut self, topology: &Topology, sample: &Sample, because: Option<String>, findings: &mut Vec<Finding>) {
        let threads = self.options.threads.unwrap_or(self.working_tasks.number()).max(1);
        self.worked = self.working_tasks.number().max(1);
        if let Some(meter) = &mut self.meter {
            meter.share(sample, |id| !self.working_tasks.is_left_alone(id));
        }
        let (pinnings, code, source) = match &self.options.candidates {
            Candidates::Schedule(pinnings) => (
                pinnings.iter().cloned().map(Some).collect(),
                CandidatesCode::Schedule,
                "the pinnings that were asked for",
            ),
            Candidates::Topology { most } => {
                let pinnings = different::from_topology(topology, threads, *most);
                if pinnings.len() == 1 && *most > 1 {
                    let why = "threads stay where the operating system runs them, since on this topology no pinning differs from another";
                    (vec![None], CandidatesCode::NoDifference, why)
                } else {
                    let why = "unpinned, as the operating system runs threads, and pinnings from the topology, the most different first";
                    (
                        std::iter::once(None).chain(pinnings.into_iter().map(Some)).collect(),
                        CandidatesCode::Topology,
                        why,
                    )
                }
            }
        };
        let allowed = topology.allowed_pus().len();
        if threads > allowed && !self.noted_crowded {
            self.noted_crowded = true;
            findings.push(Finding::Note {
                code: NoteCode::MoreThreadsThanPus,
                text: format!("{threads} threads share {allowed} CPUs: there are fewer CPUs than threads."),
            });
        }
        findings.push(Finding::CandidatesChosen {
            threads,
            pinnings: pinnings.clone(),
            code,
            why: match because {
                Some(because) => format!("{source}; {because}"),
                None => source.to_owned(),
            },
        });
        self.results = CandidateResults::new(pinnings, threads);
        self.choice = None;
        self.begin_search(sample, findings);
    }

    /// The text of a candidate in messages.
    fn text(&self, candidate: usize) -> String {
        Pinning::text(self.results.pinnings[candidate].as_ref())
    }

    /// Begins to search among the candidates.
    fn begin_search(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        self.threads_change = false;
        self.requested.affirm();
        if self.options.search == Search::Racing && self.results.pinnings.len() > 1 {
            self.results.race();
            self.next_screening(sample, findings);
        } else {
            self.next(sample, findings);
        }
    }

    /// Begins the next screening, or ends the screening round.
    fn next_screening(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        self.repeats = 0;
        if let Some(candidate) = self.results.next_screening() {
            self.pin(candidate, sample.at);
            self.race = match self.results.best_screened() {
                Some((_, best, _)) => Race::against(&best.readings),
                None => Race::default(),
            };
            self.begin_screening(sample, candidate, findings);
            return;
        }
        for (candidate, screening) in self.results.end_screening() {
            self.record(candidate, screening.measurement(), true, findings);
        }
        self.next(sample, findings);
    }

    fn begin_screening(&mut self, sample: &Sample, candidate: usize, findings: &mut Vec<Finding>) {
        self.restart_meter();
        findings.push(Finding::Screening {
            candidate,
            lasts: self.screening_lasts(),
        });
        self.phase = Phase::Screening {
            candidate,
            began: sample.at,
        };
    }

    /// A screening takes at most the warm-up time, but long enough for some readings.
    fn screening_lasts(&self) -> Duration {
        self.options.times.warm_up.max(self.options.times.probe / 4)
    }

    fn screening(
        &mut self,
        sample: &Sample,
        candidate: usize,
        began: Duration,
        disturbed: bool,
        findings: &mut Vec<Finding>,
    ) {
        if disturbed && self.may_repeat(findings) {
            self.begin_screening(sample, candidate, findings);
            return;
        }
        let readings = self.measurement().readings;
        let warm_up = self.options.times.warm_up;
        let look = self.race.look(&readings, warm_up);
        if look == Look::Open && sample.at < began + self.screening_lasts() {
            return;
        }
        let (readings, outlook) = race::outlook(&readings, warm_up);
        let screening = Screening {
            readings: readings.to_vec(),
            outlook,
        };
        if look == Look::Lost {
            self.record(candidate, screening.measurement(), true, findings);
        } else {
            self.results.record_screening(candidate, screening);
        }
        self.next_screening(sample, findings);
    }

    /// Begins with the next candidate, or ends the search.
    fn next(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        let Some(candidate) = self.results.next() else {
            self.choose(sample, findings);
            return;
        };
        self.repeats = 0;
        self.race = match (self.options.search, self.results.best()) {
            (Search::Racing, Some((best, _))) => Race::against(self.results.readings(best)),
            _ => Race::default(),
        };
        self.pin(candidate, sample.at);
        match self.pinned_at {
            Some(pinned_at) if sample.at < pinned_at + self.options.times.warm_up => {
                self.settle(sample, candidate, pinned_at, findings);
            }
            _ => self.begin_probe(sample, candidate, findings),
        }
    }

    /// Requests this candidate's pinning from `now` on, unless the present ranks have it already.
    fn pin(&mut self, candidate: usize, now: Duration) {
        let wanted = self.results.pinnings[candidate].as_ref();
        let ranks = self.results.threads.max(self.working_tasks.number());
        // Both pinnings repeat. If they agree on as many ranks as both have PUs, they agree on all ranks (Fine and
        // Wilf, 1965).
        let same = match (&self.pinning, wanted) {
            (None, None) => true,
            (Some(pinning), Some(wanted)) => {
                (0..ranks.min(pinning.pus().len() + wanted.pus().len())).all(|rank| pinning.pu(rank) == wanted.pu(rank))
            }
            _ => false,
        };
        if !same {
            self.pinning = wanted.cloned();
            self.pinned_at = Some(now);
        }
    }

    /// Lets the candidate warm up. The warm-up began at `began`.
    fn settle(&mut self, sample: &Sample, candidate: usize, began: Duration, findings: &mut Vec<Finding>) {
        self.restart_meter();
        findings.push(Finding::WarmingUp {
            candidate,
            lasts: (began + self.options.times.warm_up).saturating_sub(sample.at),
        });
        self.phase = Phase::WarmingUp { candidate, began };
    }

    fn warm_up(
        &mut self,
        sample: &Sample,
        candidate: usize,
        began: Duration,
        disturbed: bool,
        findings: &mut Vec<Finding>,
    ) {
        if disturbed && self.may_repeat(findings) {
            self.settle(sample, candidate, sample.at, findings);
            return;
        }
        let warm_up = self.options.times.warm_up;
        if self.race.is_on() {
            let readings = self.measurement().readings;
            if self.race.look(&readings, warm_up) == Look::Lost {
                let (readings, outlook) = race::outlook(&readings, warm_up);
                let rate = outlook.map(|outlook| outlook.value);
                self.record(
                    candidate,
                    Measurement::of_readings(readings.to_vec(), rate),
                    true,
                    findings,
                );
                self.next(sample, findings);
                return;
            }
        }
        if sample.at >= began + warm_up {
            self.race.warmed_up();
            self.begin_probe(sample, candidate, findings);
        }
    }

    fn begin_probe(&mut self, sample: &Sample, candidate: usize, findings: &mut Vec<Finding>) {
        self.requested.affirm();
        self.restart_meter();
        self.working_tasks.begin_window(sample);
        findings.push(Finding::Probing {
            candidate,
            lasts: self.options.times.probe,
        });
        self.phase = Phase::Probing {
            candidate,
            began: sample.at,
            steady: true,
        };
    }

    fn probe(
        &mut self,
        topology: &Topology,
        sample: &Sample,
        candidate: usize,
        began: Duration,
        mut steady: bool,
        findings: &mut Vec<Finding>,
    ) {
        let over = sample.at >= began + self.options.times.probe;
        if over && self.working_tasks.judge(sample, self.pinning.is_none()) == Judgement::Changed {
            steady = false;
        }
        if !steady && self.may_repeat(findings) {
            self.settle(sample, candidate, sample.at, findings);
            return;
        }
        let lost = !over && self.race.is_on() && self.race.lost(&self.measurement().readings);
        if over && steady && self.number_changed() {
            self.search(topology, sample, Some(self.changed_number()), findings);
        } else if over || lost {
            self.record(candidate, self.measurement(), lost, findings);
            self.next(sample, findings);
        } else {
            self.phase = Phase::Probing {
                candidate,
                began,
                steady,
            };
        }
    }

    /// Whether a disturbed probe is to be repeated. After `REPEATS` repetitions a note says so once, and no probe of
    /// this search is repeated any more.
    fn may_repeat(&mut self, findings: &mut Vec<Finding>) -> bool {
        if self.threads_change {
            return false;
        }
        if self.repeats < REPEATS {
            self.repeats += 1;
            return true;
        }
        self.threads_change = true;
        findings.push(Finding::Note {
            code: NoteCode::ThreadsChange,
            text: "Threads begin and end all the time; the rates are measured nevertheless.".to_owned(),
        });
        false
    }

    fn number_changed(&self) -> bool {
        self.working_tasks.number().max(1) != self.worked
    }

    fn changed_number(&self) -> String {
        format!(
            "the number of working threads has changed from {} to {}",
            self.worked,
            self.working_tasks.number().max(1)
        )
    }

    fn record(&mut self, candidate: usize, measurement: Measurement, dropped: bool, findings: &mut Vec<Finding>) {
        findings.push(probed(candidate, &measurement, dropped));
        self.results.record(candidate, Outcome { measurement, dropped });
    }

    /// Ends the search: the best candidate is applied and watched.
    fn choose(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        if let Some(candidate) = self.results.choice() {
            self.pin(candidate, sample.at);
            findings.push(self.results.chosen(candidate));
            let before = self.choice.and_then(|before| self.results.measurement(before)?.rate);
            self.watcher
                .chosen(self.results.measurement(candidate).cloned(), before);
            self.choice = Some(candidate);
        } else {
            self.pin(0, sample.at);
            findings.push(Finding::Note {
                code: NoteCode::NothingMeasured,
                text: format!(
                    "No candidate's rate could be measured; the first is kept: {}.",
                    self.text(0)
                ),
            });
        }
        self.begin_line(sample);
    }

    fn begin_line(&mut self, sample: &Sample) {
        self.requested.affirm();
        self.restart_meter();
        self.working_tasks.begin_window(sample);
        self.phase = Phase::Watching {
            began: sample.at,
            steady: true,
        };
    }

    fn watch(
        &mut self,
        topology: &Topology,
        sample: &Sample,
        began: Duration,
        mut steady: bool,
        findings: &mut Vec<Finding>,
    ) {
        if sample.at < began + self.options.times.probe {
            self.phase = Phase::Watching { began, steady };
            return;
        }
        let line = self.measurement();
        findings.push(Finding::Rate {
            rate: line.rate,
            spread: line.spread,
        });
        let judgement = self.working_tasks.judge(sample, self.pinning.is_none());
        steady &= judgement != Judgement::Changed;
        if let Some(meter) = &mut self.meter {
            meter.share(sample, |id| !self.working_tasks.is_left_alone(id));
        }
        self.begin_line(sample);
        // Changing threads or an idle program say nothing about the pinning.
        let reports_progress =
            self.meter.as_ref().is_some_and(Meter::measures_idle_programs) && line.rate.is_some_and(|rate| rate > 0.0);
        let is_idle = judgement == Judgement::Idle && !reports_progress;
        if self.options.watch.is_none() || !steady || is_idle {
            return;
        }
        if self.number_changed() {
            self.search(topology, sample, Some(self.changed_number()), findings);
        } else if self.results.pinnings.len() > 1
            && self.watcher.fell(&line)
            && let (Some(choice), Some(chosen_at), Some(now)) = (self.choice, self.watcher.chosen_at(), line.rate)
        {
            findings.push(Finding::SearchAgain { chosen_at, now });
            self.results.again(choice);
            self.begin_search(sample, findings);
        }
    }

    fn restart_meter(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.restart();
        }
    }

    fn measurement(&self) -> Measurement {
        self.meter.as_ref().map(Meter::measurement).unwrap_or_default()
    }

    /// The decision at `now`: the configuration that is not in force yet, and the time until the next reading or the
    /// end of the phase.
    fn decision(&mut self, now: Duration, findings: Vec<Finding>) -> Decision {
        let times = self.options.times;
        let wait = match self.phase {
            Phase::Opening => self.opening.wait(now),
            Phase::Screening { began, .. } => times::wait(now, began + self.screening_lasts(), self.reading),
            Phase::WarmingUp { began, .. } => times::wait(now, began + times.warm_up, self.reading),
            Phase::Probing { began, .. } | Phase::Watching { began, .. } => {
                times::wait(now, began + times.probe, self.reading)
            }
        };
        Decision {
            configuration: self
                .requested
                .configuration(self.pinning.as_ref(), None, &self.working_tasks),
            wait,
            findings,
        }
    }
}
