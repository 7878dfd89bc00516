//! The loop of `autopin`.

use crate::Policy;
use crate::autopin::options::{Options, Search};
use crate::autopin::pinned::Pinned;
use crate::autopin::repeats::Repeats;
use crate::comparison::candidate_results::{CandidateResults, Outcome, Screening};
use crate::comparison::change::Fall;
use crate::comparison::race::{self, Look, Race};
use crate::findings::probed;
use crate::program::meter::Measurement;
use crate::program::observed_program::{Observation, ObservedProgram, Stage};
use crate::program::working_tasks::Judgement;
use pinfold_core::{Applied, Configuration, Decision, EndedCode, Finding, Metric, NoteCode, Pinning, Sample, Topology};
use std::time::Duration;

/// The phase of the search.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Initialising,
    /// A candidate is screened, in a race.
    Screening(usize),
    /// A candidate warms up.
    WarmingUp(usize),
    /// A candidate is measured.
    Probing {
        candidate: usize,
        /// The same tasks have worked since the start of the window.
        steady: bool,
    },
    /// The rate of the choice is reported, a line for each window.
    Watching {
        steady: bool,
    },
}

/// The policy.
#[derive(Debug)]
pub struct Autopin {
    options: Options,
    program: ObservedProgram,
    phase: Phase,
    results: CandidateResults,
    /// The number of tasks that worked when the search began; rates are divided by it.
    worked: usize,
    race: Race,
    repeats: Repeats,
    pinned: Pinned,
    choice: Option<usize>,
    fall: Fall,
    noted_crowded: bool,
}

impl Autopin {
    /// A search with these options, which `Options::check` has accepted.
    pub fn new(options: Options) -> Self {
        Self {
            program: ObservedProgram::new(options.times, options.metric.clone(), options.skip.clone()),
            phase: Phase::Initialising,
            results: CandidateResults::new(vec![], 0),
            worked: 0,
            race: Race::default(),
            repeats: Repeats::default(),
            pinned: Pinned::default(),
            choice: None,
            fall: Fall::new(options.watch.unwrap_or_default()),
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
        self.pinned = Pinned::from_start(self.options.candidates.first_pinning());
        let wanted = self.configuration();
        self.program.start(metrics, Some(wanted))
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut seen = self.program.observe(topology, sample, applied);
        match self.program.stage(&mut seen) {
            Stage::Opened => self.search(None, &mut seen),
            Stage::Open => self.advance(&mut seen),
            Stage::Initialising | Stage::WithoutMetric => {}
        }
        let wanted = self.configuration();
        self.program.decide(seen, Some(wanted))
    }

    fn end(&mut self) -> Vec<Finding> {
        if let Some(findings) = self.program.ended_early(self.pinned.pinning()) {
            return findings;
        }
        let mut findings = vec![];
        let during = match self.phase {
            Phase::Initialising | Phase::Watching { .. } => return findings,
            Phase::Screening(candidate) => format!("while {} was screened", self.text(candidate)),
            Phase::WarmingUp(candidate) => format!("while {} warmed up", self.text(candidate)),
            Phase::Probing { candidate, .. } => {
                let measurement = self.program.measurement();
                if measurement.rate.is_some() {
                    self.record(candidate, measurement, false, &mut findings);
                }
                format!("while {} was measured", self.text(candidate))
            }
        };
        let best = self.results.best().or_else(|| self.results.best_screened());
        let (measured, all) = (self.results.measured(), self.results.pinnings().len());
        findings.push(Finding::EndedEarly {
            best: best.map(|(candidate, _)| candidate),
            rate: best.map(|(_, rate)| rate),
            code: EndedCode::DuringSearch,
            why: format!(
                "The program ended {during}; {measured} of {all} candidates have a rate. {}",
                self.program.remedy()
            ),
        });
        findings
    }
}

impl Autopin {
    fn advance(&mut self, seen: &mut Observation<'_>) {
        let disturbed = seen.tasks_changed();
        match self.phase {
            Phase::Initialising => {}
            Phase::Screening(candidate) => self.screening(candidate, seen),
            Phase::WarmingUp(candidate) => self.warm_up(candidate, seen),
            Phase::Probing { candidate, steady } => {
                let moved = seen.applied().moved.iter().any(|&id| self.program.works(id));
                if moved && self.repeats.repeat(seen.findings()) {
                    // The ranks have shifted, because a helper was found or a thread ended, or the machine pinned only
                    // now a thread that it had left alone. The threads warm up as after a change of the pinning.
                    self.pinned.moved(self.program.first().at);
                    self.settle(candidate, seen);
                } else {
                    self.probe(candidate, steady && !disturbed, seen);
                }
            }
            Phase::Watching { steady } => self.watch(steady && !disturbed, seen),
        }
    }

    /// Makes candidates for the tasks that work now and begins a search among them.
    fn search(&mut self, because: Option<String>, seen: &mut Observation<'_>) {
        let threads = self.program.threads(self.options.threads);
        self.worked = self.program.threads(None);
        // The windows of all candidates keep the divisor of this one.
        self.program.begin_window(seen, Duration::ZERO);
        let (pinnings, code, source) = self.options.candidates.pinnings(seen.topology(), threads);
        let allowed = seen.topology().allowed_pus().len();
        if threads > allowed && !self.noted_crowded {
            self.noted_crowded = true;
            seen.report(Finding::Note {
                code: NoteCode::MoreThreadsThanPus,
                text: format!("{threads} threads share {allowed} CPUs: there are fewer CPUs than threads."),
            });
        }
        seen.report(Finding::CandidatesChosen {
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
        self.begin_search(seen);
    }

    /// The text of a candidate in messages.
    fn text(&self, candidate: usize) -> String {
        Pinning::text(self.results.pinnings()[candidate].as_ref())
    }

    /// Begins to search among the candidates.
    fn begin_search(&mut self, seen: &mut Observation<'_>) {
        self.repeats = Repeats::default();
        self.program.request_again();
        if self.options.search == Search::Racing && self.results.pinnings().len() > 1 {
            self.results.race();
            self.next_screening(seen);
        } else {
            self.next(seen);
        }
    }

    /// Begins the next screening, or ends the screening round.
    fn next_screening(&mut self, seen: &mut Observation<'_>) {
        self.repeats.begin_candidate();
        if let Some(candidate) = self.results.next_screening() {
            self.pin(candidate, seen.at());
            self.race = match self.results.best_screened() {
                Some((best, _)) => Race::against(self.results.screened(best)),
                None => Race::default(),
            };
            self.begin_screening(candidate, seen);
            return;
        }
        for (candidate, screening) in self.results.end_screening() {
            self.record(candidate, screening.measurement(), true, seen.findings());
        }
        self.next(seen);
    }

    fn begin_screening(&mut self, candidate: usize, seen: &mut Observation<'_>) {
        // At most the warm-up, but long enough for some readings.
        let lasts = self.options.times.warm_up.max(self.options.times.probe / 4);
        seen.report(Finding::Screening { candidate, lasts });
        self.begin(lasts, Phase::Screening(candidate), seen);
    }

    fn screening(&mut self, candidate: usize, seen: &mut Observation<'_>) {
        if seen.tasks_changed() && self.repeats.repeat(seen.findings()) {
            self.begin_screening(candidate, seen);
            return;
        }
        let readings = self.program.measurement().readings;
        let warm_up = self.options.times.warm_up;
        let look = self.race.look(&readings, warm_up);
        if look == Look::Open && !self.program.is_over(seen) {
            return;
        }
        let (readings, outlook) = race::outlook(&readings, warm_up);
        let screening = Screening::new(readings.to_vec(), outlook);
        if look == Look::Lost {
            self.record(candidate, screening.measurement(), true, seen.findings());
        } else {
            self.results.record_screening(candidate, screening);
        }
        self.next_screening(seen);
    }

    /// Begins with the next candidate, or ends the search.
    fn next(&mut self, seen: &mut Observation<'_>) {
        let Some(candidate) = self.results.next() else {
            self.choose(seen);
            return;
        };
        self.repeats.begin_candidate();
        self.race = match (self.options.search, self.results.best()) {
            (Search::Racing, Some((best, _))) => Race::against(self.results.readings(best)),
            _ => Race::default(),
        };
        self.pin(candidate, seen.at());
        match self.pinned.warm_at(self.options.times.warm_up) {
            Some(warm_at) if seen.at() < warm_at => self.settle(candidate, seen),
            _ => self.begin_probe(candidate, seen),
        }
    }

    /// Pins the program as this candidate says.
    fn pin(&mut self, candidate: usize, now: Duration) {
        let ranks = self.results.threads().max(self.program.working());
        let wanted = self.results.pinnings()[candidate].as_ref();
        self.pinned.pin(wanted, ranks, now);
    }

    /// Lets the candidate warm up, from the last change of the pinning on.
    fn settle(&mut self, candidate: usize, seen: &mut Observation<'_>) {
        let warm_at = self.pinned.warm_at(self.options.times.warm_up);
        self.settle_until(warm_at.unwrap_or_default(), candidate, seen);
    }

    /// Lets the candidate warm up once more, because its threads have changed.
    fn settle_again(&mut self, candidate: usize, seen: &mut Observation<'_>) {
        self.settle_until(seen.at() + self.options.times.warm_up, candidate, seen);
    }

    fn settle_until(&mut self, warm_at: Duration, candidate: usize, seen: &mut Observation<'_>) {
        let lasts = warm_at.saturating_sub(seen.at());
        seen.report(Finding::WarmingUp { candidate, lasts });
        self.begin(lasts, Phase::WarmingUp(candidate), seen);
    }

    fn warm_up(&mut self, candidate: usize, seen: &mut Observation<'_>) {
        if seen.tasks_changed() && self.repeats.repeat(seen.findings()) {
            self.settle_again(candidate, seen);
            return;
        }
        let warm_up = self.options.times.warm_up;
        if self.race.is_on() {
            let readings = self.program.measurement().readings;
            if self.race.look(&readings, warm_up) == Look::Lost {
                let (readings, outlook) = race::outlook(&readings, warm_up);
                let rate = outlook.map(|outlook| outlook.value);
                let measurement = Measurement::from_readings(readings.to_vec(), rate);
                self.record(candidate, measurement, true, seen.findings());
                self.next(seen);
                return;
            }
        }
        if self.program.is_over(seen) {
            self.race.warmed_up();
            self.begin_probe(candidate, seen);
        }
    }

    fn begin_probe(&mut self, candidate: usize, seen: &mut Observation<'_>) {
        let lasts = self.options.times.probe;
        seen.report(Finding::Probing { candidate, lasts });
        self.program.request_again();
        let steady = true;
        self.begin(lasts, Phase::Probing { candidate, steady }, seen);
    }

    fn probe(&mut self, candidate: usize, mut steady: bool, seen: &mut Observation<'_>) {
        let is_over = self.program.is_over(seen);
        if is_over && self.program.judge(seen, self.pinned.pinning().is_none()) == Judgement::Changed {
            steady = false;
        }
        if !steady && self.repeats.repeat(seen.findings()) {
            self.settle_again(candidate, seen);
            return;
        }
        let lost = !is_over && self.race.is_on() && self.race.lost(&self.program.measurement().readings);
        if is_over && steady && self.number_changed() {
            self.search(Some(self.changed_number()), seen);
        } else if is_over || lost {
            self.record(candidate, self.program.measurement(), lost, seen.findings());
            self.next(seen);
        } else {
            self.phase = Phase::Probing { candidate, steady };
        }
    }

    fn number_changed(&self) -> bool {
        self.program.threads(None) != self.worked
    }

    fn changed_number(&self) -> String {
        format!(
            "the number of working threads has changed from {} to {}",
            self.worked,
            self.program.threads(None)
        )
    }

    fn record(&mut self, candidate: usize, measurement: Measurement, dropped: bool, findings: &mut Vec<Finding>) {
        findings.push(probed(candidate, &measurement, dropped));
        self.results.record(candidate, Outcome { measurement, dropped });
    }

    /// Ends the search: the best candidate is applied and watched.
    fn choose(&mut self, seen: &mut Observation<'_>) {
        if let Some(candidate) = self.results.choice() {
            self.pin(candidate, seen.at());
            seen.report(self.results.chosen(candidate));
            let before = self.choice.and_then(|before| self.results.measurement(before)?.rate);
            self.fall.chosen(self.results.measurement(candidate).cloned(), before);
            self.choice = Some(candidate);
        } else {
            self.pin(0, seen.at());
            seen.report(Finding::Note {
                code: NoteCode::NothingMeasured,
                text: format!(
                    "No candidate's rate could be measured; the first is kept: {}.",
                    self.text(0)
                ),
            });
        }
        self.program.request_again();
        self.begin(self.options.times.probe, Phase::Watching { steady: true }, seen);
    }

    fn watch(&mut self, mut steady: bool, seen: &mut Observation<'_>) {
        self.phase = Phase::Watching { steady };
        if !self.program.is_over(seen) {
            return;
        }
        let line = self.program.report_rate(seen);
        let judgement = self.program.judge(seen, self.pinned.pinning().is_none());
        steady &= judgement != Judgement::Changed;
        self.program.request_again();
        self.program.begin_window(seen, self.options.times.probe);
        self.phase = Phase::Watching { steady: true };
        // Changing threads or an idle program say nothing about the pinning.
        let reports_progress = self.program.is_measured_when_idle() && line.rate.is_some_and(|rate| rate > 0.0);
        let is_idle = judgement == Judgement::Idle && !reports_progress;
        if self.options.watch.is_none() || !steady || is_idle {
            return;
        }
        if self.number_changed() {
            self.search(Some(self.changed_number()), seen);
        } else if self.results.pinnings().len() > 1
            && self.fall.has_fallen(&line)
            && let (Some(choice), Some(chosen_at), Some(now)) = (self.choice, self.fall.chosen_at(), line.rate)
        {
            seen.report(Finding::SearchAgain { chosen_at, now });
            self.results.again(choice);
            self.begin_search(seen);
        }
    }

    /// Begins a window of this phase, whose rates compare with the other candidates' rates.
    fn begin(&mut self, lasts: Duration, phase: Phase, seen: &Observation<'_>) {
        self.program.begin_comparable_window(seen, lasts);
        self.phase = phase;
    }

    fn configuration(&self) -> Configuration {
        self.program.configuration(self.pinned.pinning(), None)
    }
}
