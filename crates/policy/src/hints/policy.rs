//! The loop of `hints`.

use crate::Policy;
use crate::findings::{chosen, probed};
use crate::program::meter::Measurement;
use crate::program::metric_choice::MetricRequest;
use crate::program::observed_program::{Observation, ObservedProgram, Stage};
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use crate::rules::Rules;
use crate::rules::observed::{observed, verdict};
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::NamedPlacement;
use pinfold_core::placement::different;
use pinfold_core::{
    Applied, CandidatesCode, ChoiceCode, Configuration, Decision, EndedCode, Finding, Metric, NoteCode, Observed,
    Pinning, Reason, Sample, SampleCode, Topology,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The knowledge of a program from earlier runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The hint with the best result; `None` if the unpinned program was best.
    pub hint: Option<AffinityHint>,
    /// The source of this knowledge, as text.
    pub why: String,
}

/// The options of `hints:rules`.
#[derive(Clone, Debug)]
pub struct HintOptions {
    /// When to sample, and for how long. A probe is the sample.
    pub times: Times,
    /// The metric that verifies moves.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// The number of threads, if the user gave it.
    pub threads: Option<usize>,
    /// The hint in whose placement an unknown program is sampled; `None` for the unpinned program.
    pub observe: Option<AffinityHint>,
    /// What is known, by number of threads.
    pub known: BTreeMap<usize, Known>,
    /// The rules, whose classes are hints.
    pub rules: Option<Rules>,
    /// Whether a second sample shows if the rules' hint helps. If not, it is kept, as in the paper.
    pub verify: bool,
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rules have the class `{class}`, which is no affinity hint (three letters, such as SLP or slp); train them with `pinfold learn train hints`"
)]
pub struct NoHintError {
    class: String,
}

impl NoHintError {
    /// Whether the classes of the rules are hints.
    pub fn check(rules: &Rules) -> Result<(), Self> {
        let outcomes = rules.rules().iter().map(crate::Rule::outcome);
        for outcome in outcomes.chain([rules.default_outcome()]) {
            if outcome.class.parse::<AffinityHint>().is_err() {
                let class = outcome.class.clone();
                return Err(Self { class });
            }
        }
        Ok(())
    }
}

impl HintOptions {
    /// The expected number of threads at the start: the given number, or the only known one.
    fn expected_threads(&self) -> Option<usize> {
        let mut known = self.known.keys();
        self.threads.or(match (known.next(), known.next()) {
            (Some(&only), None) => Some(only),
            _ => None,
        })
    }

    /// What is known for the number of threads that is expected.
    pub fn expected(&self) -> Option<&Known> {
        self.known.get(&self.expected_threads()?)
    }

    /// The hint at the start.
    fn first_hint(&self) -> Option<AffinityHint> {
        self.expected().map_or(self.observe, |known| known.hint)
    }

    /// The pinning from the first instruction on; `None` leaves threads to the operating system.
    pub fn first_pinning(&self, topology: &Topology) -> Option<Pinning> {
        let hint = self.first_hint()?;
        match self.expected_threads() {
            Some(threads) => Some(NamedPlacement::Hint(hint).pinning(topology, threads)),
            None => Pinning::new(different::distributed(topology)),
        }
    }
}

/// The phase of the run.
#[derive(Debug)]
enum Phase {
    Initialising,
    /// An unknown program is sampled.
    Sampling,
    /// The threads warm up in the hint's placement.
    WarmingUp(Before),
    /// The move is verified.
    Checking(Before),
    /// The rate is reported, a line for each window.
    Watching,
}

/// The placement before the move, and its measurement.
#[derive(Clone, Debug)]
struct Before {
    hint: Option<AffinityHint>,
    measurement: Measurement,
}

/// The policy.
#[derive(Debug)]
pub struct Hints {
    options: HintOptions,
    program: ObservedProgram,
    hint: Option<AffinityHint>,
    /// The number of threads of the pinning.
    threads: usize,
    pinning: Option<Pinning>,
    phase: Phase,
    /// Whether a sample was reported for this number of threads.
    sampled: bool,
}

impl Hints {
    /// The policy with these options, whose rules `NoHintError::check` has accepted.
    pub fn new(options: HintOptions) -> Self {
        Self {
            program: ObservedProgram::new(options.times, options.metric.clone(), options.skip.clone()),
            hint: options.first_hint(),
            threads: 0,
            pinning: None,
            phase: Phase::Initialising,
            sampled: false,
            options,
        }
    }
}

impl Policy for Hints {
    fn name(&self) -> &'static str {
        "hints:rules"
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        self.pinning = self.options.first_pinning(topology);
        let wanted = self.configuration();
        self.program.start(metrics, Some(wanted))
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut seen = self.program.observe(topology, sample, applied);
        match self.program.stage(&mut seen) {
            Stage::Opened => self.open(&mut seen),
            Stage::Open if self.program.is_over(&seen) => self.end_window(&mut seen),
            _ => {}
        }
        let wanted = self.configuration();
        self.program.decide(seen, Some(wanted))
    }

    fn end(&mut self) -> Vec<Finding> {
        if let Some(findings) = self.program.ended_early(self.pinning.as_ref()) {
            return findings;
        }
        let mut findings = vec![];
        let (code, why, measurement) = match &self.phase {
            Phase::Initialising | Phase::Watching => return findings,
            Phase::Sampling => {
                let measurement = self.program.measurement();
                findings.push(probed(0, &measurement, false));
                let why = "The program ended before its sample was complete, and was not moved.";
                (EndedCode::DuringSample, why, measurement)
            }
            Phase::WarmingUp(before) | Phase::Checking(before) => (
                EndedCode::BeforeCheck,
                "The program ended before the move could be verified.",
                before.measurement.clone(),
            ),
        };
        findings.push(Finding::EndedEarly {
            best: measurement.rate.map(|_| 0),
            rate: measurement.rate,
            code,
            why: format!("{why} {}", self.program.remedy()),
        });
        findings
    }
}

impl Hints {
    /// The metric is chosen: a known program gets its hint, and an unknown one is sampled.
    fn open(&mut self, seen: &mut Observation<'_>) {
        self.threads = self.program.threads(self.options.threads);
        match self.options.known.get(&self.threads).cloned() {
            Some(known) => self.follow(seen, &known),
            None => self.begin_sample(seen),
        }
    }

    fn end_window(&mut self, seen: &mut Observation<'_>) {
        match std::mem::replace(&mut self.phase, Phase::Watching) {
            Phase::Initialising => {}
            Phase::Sampling => self.take_sample(seen),
            Phase::WarmingUp(before) => {
                let lasts = self.options.times.probe;
                self.begin(seen, lasts, Phase::Checking(before));
                seen.report(Finding::Probing { candidate: 1, lasts });
            }
            Phase::Checking(before) => self.check(seen, &before),
            Phase::Watching => self.report_line(seen),
        }
    }

    /// A known program gets the placement of its best hint.
    fn follow(&mut self, seen: &mut Observation<'_>, known: &Known) {
        self.place(seen.topology(), known.hint);
        seen.report(self.candidates(
            vec![self.pinning.clone()],
            CandidatesCode::KnownProgram,
            format!("{}: {}", shown(known.hint), known.why),
        ));
        let why = "the program ran best with it before";
        seen.report(chosen(0, None, ChoiceCode::KnownProgram, why));
        self.begin_line(seen);
    }

    /// An unknown program is sampled once.
    fn begin_sample(&mut self, seen: &mut Observation<'_>) {
        self.place(seen.topology(), self.options.observe);
        let why = format!(
            "{}: nothing is known of the program with this number of threads, so it is sampled once",
            shown(self.hint)
        );
        seen.report(self.candidates(vec![self.pinning.clone()], CandidatesCode::Sample, why));
        let lasts = self.options.times.probe;
        seen.report(Finding::Probing { candidate: 0, lasts });
        self.begin(seen, lasts, Phase::Sampling);
    }

    /// The sample is complete: the rules' hint is applied.
    fn take_sample(&mut self, seen: &mut Observation<'_>) {
        let measurement = self.program.measurement();
        seen.report(probed(0, &measurement, false));
        let (says, why) = self.ask_rules(seen, &measurement);
        let from = self.pinning.clone();
        let before = Before {
            hint: self.hint,
            measurement,
        };
        let hint = says.or(self.hint);
        self.place(seen.topology(), hint);
        if self.pinning == from {
            let why = match says {
                Some(_) => "the rules ask for the placement that the sample had",
                None => "there are no rules, so the placement of the sample stays",
            };
            seen.report(chosen(0, None, ChoiceCode::SamplePlacement, why));
            self.begin_line(seen);
            return;
        }
        let why = format!("{}: {why}", shown(hint));
        seen.report(self.candidates(vec![from, self.pinning.clone()], CandidatesCode::Rules, why));
        seen.report(probed(0, &before.measurement, false));
        if !self.options.verify {
            let why = "the rules ask for it, and the move is not verified";
            seen.report(chosen(1, None, ChoiceCode::HintNotVerified, why));
            self.begin_line(seen);
            return;
        }
        let lasts = self.options.times.warm_up;
        seen.report(Finding::WarmingUp { candidate: 1, lasts });
        self.begin(seen, lasts, Phase::WarmingUp(before));
    }

    /// Verifies the move, and rolls it back if it did not help.
    fn check(&mut self, seen: &mut Observation<'_>, before: &Before) {
        let after = self.program.measurement();
        seen.report(probed(1, &after, false));
        self.keep_sample(seen, &after);
        let back = match before.hint {
            Some(_) => after.is_lower_than(&before.measurement),
            None => !before.measurement.is_lower_than(&after),
        };
        if back {
            self.place(seen.topology(), before.hint);
            let why = match before.hint {
                Some(_) => "the rate fell with the hint that the rules ask for",
                None => "the rate did not rise with the hint that the rules ask for",
            };
            seen.report(chosen(0, None, ChoiceCode::HintRolledBack, why));
            seen.report(Finding::Note {
                code: NoteCode::RolledBack,
                text: match before.hint {
                    Some(_) => "The rate fell with the hint, so the move was rolled back.",
                    None => "The rate did not rise with the hint, so the move was rolled back: nothing is pinned.",
                }
                .to_owned(),
            });
        } else {
            let why = match before.hint {
                Some(_) => "the rate did not fall with the hint that the rules ask for",
                None => "the rate rose with the hint that the rules ask for",
            };
            let gain = gain(before.measurement.rate, after.rate);
            seen.report(chosen(1, gain, ChoiceCode::HintKept, why));
        }
        self.begin_line(seen);
    }

    /// Reports a rate line. If another number of threads works than before, the hint is applied for it.
    fn report_line(&mut self, seen: &mut Observation<'_>) {
        let line = self.program.report_rate(seen);
        if !self.sampled {
            self.keep_sample(seen, &line);
        }
        self.program.judge(seen, self.pinning.is_none());
        let threads = self.options.threads.unwrap_or(self.program.working());
        if threads > 0 && threads != self.threads {
            self.threads = threads;
            let hint = self.options.known.get(&threads).map_or(self.hint, |known| known.hint);
            self.place(seen.topology(), hint);
            let why = format!("{}, for the present number of working threads", shown(hint));
            seen.report(self.candidates(vec![self.pinning.clone()], CandidatesCode::ThreadsChanged, why));
            let why = "the number of working threads changed";
            seen.report(chosen(0, None, ChoiceCode::ThreadsChanged, why));
            self.sampled = false;
        }
        self.begin_line(seen);
    }

    fn begin_line(&mut self, seen: &Observation<'_>) {
        self.begin(seen, self.options.times.probe, Phase::Watching);
    }

    /// Begins a window of this phase.
    fn begin(&mut self, seen: &Observation<'_>, lasts: Duration, phase: Phase) {
        self.program.begin_window(seen, lasts);
        self.program.request_again();
        self.phase = phase;
    }

    /// Reports the sample of this window. Returns the hint that the rules choose, and why.
    fn ask_rules(&mut self, seen: &mut Observation<'_>, measurement: &Measurement) -> (Option<AffinityHint>, String) {
        let observed = self.observed(seen);
        let (says, code, why) = match &self.options.rules {
            None => (None, SampleCode::NoRules, "there are no rules to evaluate".to_owned()),
            Some(rules) => {
                let verdict = verdict(rules, &observed, self.threads);
                let code = verdict.fired.map_or(SampleCode::DefaultRule, |_| SampleCode::Rule);
                (verdict.outcome.class.parse().ok(), code, verdict.to_string())
            }
        };
        self.report_sample(seen, observed, measurement, says, Reason::new(code, why.clone()));
        (says, why)
    }

    /// Reports the sample of this window without asking the rules.
    fn keep_sample(&mut self, seen: &mut Observation<'_>, measurement: &Measurement) {
        let observed = self.observed(seen);
        let why = Reason::new(SampleCode::NotEvaluated, "the sample is kept, and no rule is evaluated");
        self.report_sample(seen, observed, measurement, None, why);
    }

    fn report_sample(
        &mut self,
        seen: &mut Observation<'_>,
        observed: Vec<Observed>,
        measurement: &Measurement,
        says: Option<AffinityHint>,
        reason: Reason<SampleCode>,
    ) {
        self.sampled = true;
        let last_seen = || self.program.last_seen(seen, self.threads);
        let pus = self.pinning.clone().or_else(last_seen);
        seen.report(Finding::Sampled {
            hint: self.hint,
            pus,
            threads: self.threads,
            lasts: measurement.over,
            rate: measurement.rate,
            observed,
            says,
            code: reason.code,
            why: reason.why,
        });
    }

    /// The rates of all metrics in this window.
    fn observed(&self, seen: &Observation<'_>) -> Vec<Observed> {
        let (metrics, first) = (self.program.metrics(), self.program.first());
        observed(metrics, first, seen.sample(), |id| self.program.works(id), self.threads)
    }

    fn place(&mut self, topology: &Topology, hint: Option<AffinityHint>) {
        self.hint = hint;
        self.pinning = hint.map(|hint| NamedPlacement::Hint(hint).pinning(topology, self.threads));
    }

    fn candidates(&self, pinnings: Vec<Option<Pinning>>, code: CandidatesCode, why: String) -> Finding {
        Finding::CandidatesChosen {
            threads: self.threads,
            pinnings,
            code,
            why,
        }
    }

    fn configuration(&self) -> Configuration {
        self.program.configuration(self.pinning.as_ref(), None)
    }
}

/// The text of a hint in messages.
fn shown(hint: Option<AffinityHint>) -> String {
    hint.map_or_else(|| "unpinned".to_owned(), |hint| format!("hint {hint}"))
}

fn gain(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let (before, after) = (before?, after?);
    (before > 0.0).then_some(after / before - 1.0)
}
