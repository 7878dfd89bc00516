//! The loop of `hints`.

use crate::Policy;
use crate::findings::{chosen, probed};
use crate::program::meter::{Measurement, Meter};
use crate::program::metric_choice::MetricRequest;
use crate::program::opening::{Opened, Opening};
use crate::program::requested::RequestedConfiguration;
use crate::program::times::{self, Times};
use crate::program::working_tasks::{Skip, WorkingTasks};
use crate::rules::Rules;
use crate::rules::observed::{observed, verdict};
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::NamedPlacement;
use pinfold_core::placement::different;
use pinfold_core::{
    Applied, CandidatesCode, ChoiceCode, Decision, EndedCode, Finding, Metric, NoteCode, Observed, Pinning, Reason,
    Sample, SampleCode, TaskId, Topology,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The knowledge of a program from earlier runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The hint with the best result; `None` where the unpinned program was best.
    pub hint: Option<AffinityHint>,
    /// The source of this knowledge, as text.
    pub why: String,
}

/// The options of `hints`.
#[derive(Clone, Debug)]
pub struct HintOptions {
    /// When to sample, and for how long. A probe is the sample.
    pub times: Times,
    /// The metric that verifies moves.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// The number of threads, where it was given.
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

impl HintOptions {
    /// Whether the classes of the rules are hints.
    pub fn check(&self) -> Result<(), NoHintError> {
        let Some(rules) = &self.rules else { return Ok(()) };
        let outcomes = rules.rules().iter().map(crate::Rule::outcome);
        for outcome in outcomes.chain([rules.default_outcome()]) {
            if outcome.class.parse::<AffinityHint>().is_err() {
                let class = outcome.class.clone();
                return Err(NoHintError { class });
            }
        }
        Ok(())
    }

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

/// The present phase, and when it began.
#[derive(Debug)]
enum Phase {
    Opening,
    /// The sample of an unknown program.
    Sampling {
        began: Duration,
    },
    /// The hint's placement has been applied.
    WarmingUp {
        began: Duration,
        before: Before,
    },
    /// Whether the move was right.
    Checking {
        began: Duration,
        before: Before,
    },
    /// The time since the last rate line.
    Watching {
        began: Duration,
    },
}

/// What was before the move.
#[derive(Clone, Debug)]
struct Before {
    hint: Option<AffinityHint>,
    measurement: Measurement,
}

/// The policy.
#[derive(Debug)]
pub struct Hints {
    options: HintOptions,
    metrics: Vec<Metric>,
    opening: Opening,
    working_tasks: WorkingTasks,
    meter: Option<(Meter, Duration)>,
    /// The sample at which the present observation began.
    first: Sample,
    hint: Option<AffinityHint>,
    /// The number of threads of the pinning.
    threads: usize,
    pinning: Option<Pinning>,
    requested: RequestedConfiguration,
    phase: Phase,
    sampled: bool,
    /// When the last sample was taken.
    now: Duration,
}

impl Hints {
    /// The policy with these options, which `HintOptions::check` has accepted.
    pub fn new(options: HintOptions) -> Self {
        Self {
            opening: Opening::new(options.times, options.metric.clone()),
            working_tasks: WorkingTasks::new(options.skip.clone()),
            metrics: vec![],
            meter: None,
            first: Sample::default(),
            hint: options.first_hint(),
            threads: 0,
            pinning: None,
            requested: RequestedConfiguration::default(),
            phase: Phase::Opening,
            sampled: false,
            now: Duration::ZERO,
            options,
        }
    }
}

impl Policy for Hints {
    fn name(&self) -> &'static str {
        "hints"
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        let mut findings = vec![];
        self.metrics = metrics.to_vec();
        self.pinning = self.options.first_pinning(topology);
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
        match &self.phase {
            Phase::Opening => self.open(topology, sample, &mut findings),
            Phase::Sampling { began } if sample.at >= *began + times.probe => {
                self.take_sample(topology, sample, &mut findings);
            }
            Phase::WarmingUp { began, before } if sample.at >= *began + times.warm_up => {
                let before = before.clone();
                self.begin(sample);
                findings.push(Finding::Probing {
                    candidate: 1,
                    lasts: times.probe,
                });
                self.phase = Phase::Checking {
                    began: sample.at,
                    before,
                };
            }
            Phase::Checking { began, before } if sample.at >= *began + times.probe => {
                let before = before.clone();
                self.check(topology, sample, &before, &mut findings);
            }
            Phase::Watching { began } if sample.at >= *began + times.probe => {
                self.report_rate(topology, sample, &mut findings);
            }
            _ => {}
        }
        self.decision(sample.at, findings)
    }

    fn end(&mut self) -> Vec<Finding> {
        let mut findings = vec![];
        let (code, why, measurement) = match &self.phase {
            Phase::Watching { .. } => return findings,
            Phase::Opening => return self.opening.end(&self.working_tasks, self.pinning.as_ref()),
            Phase::Sampling { .. } => {
                let measurement = self.measurement();
                findings.push(probed(0, &measurement, false));
                let why = "The program ended before its sample was complete, and was not moved.";
                (EndedCode::DuringSample, why, measurement)
            }
            Phase::WarmingUp { before, .. } | Phase::Checking { before, .. } => (
                EndedCode::BeforeCheck,
                "The program ended before the move could be verified.",
                before.measurement.clone(),
            ),
        };
        findings.push(Finding::EndedEarly {
            best: measurement.rate.map(|_| 0),
            rate: measurement.rate,
            code,
            why: format!("{why} {}", times::remedy(self.now)),
        });
        findings
    }
}

impl Hints {
    /// The initialisation, until a metric is chosen.
    fn open(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        match self.opening.look(sample, &mut self.working_tasks, findings) {
            Opened::NotYet => {}
            Opened::WithoutMetric => self.requested.affirm(),
            Opened::With { meter, reading } => {
                self.meter = Some((meter, reading));
                let threads = self.options.threads.unwrap_or(self.working_tasks.number()).max(1);
                self.threads = threads;
                match self.options.known.get(&threads).cloned() {
                    Some(known) => self.follow(topology, sample, &known, findings),
                    None => self.begin_sample(topology, sample, findings),
                }
            }
        }
    }

    /// A known program gets the placement of its best hint.
    fn follow(&mut self, topology: &Topology, sample: &Sample, known: &Known, findings: &mut Vec<Finding>) {
        self.place(topology, known.hint);
        findings.push(self.candidates(
            vec![self.pinning.clone()],
            CandidatesCode::KnownProgram,
            format!("{}: {}", shown(known.hint), known.why),
        ));
        findings.push(chosen(
            0,
            None,
            ChoiceCode::KnownProgram,
            "the program ran best with it before",
        ));
        self.begin(sample);
        self.phase = Phase::Watching { began: sample.at };
    }

    /// An unknown program is sampled once.
    fn begin_sample(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        self.place(topology, self.options.observe);
        let why = format!(
            "{}: nothing is known of the program with this number of threads, so it is sampled once",
            shown(self.hint)
        );
        findings.push(self.candidates(vec![self.pinning.clone()], CandidatesCode::Sample, why));
        findings.push(Finding::Probing {
            candidate: 0,
            lasts: self.options.times.probe,
        });
        self.begin(sample);
        self.phase = Phase::Sampling { began: sample.at };
    }

    /// The sample is complete: the rules' hint is applied.
    fn take_sample(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        let measurement = self.measurement();
        findings.push(probed(0, &measurement, false));
        let (says, why) = self.observe(sample, &measurement, findings);
        let from = self.pinning.clone();
        let before = Before {
            hint: self.hint,
            measurement,
        };
        let hint = says.or(self.hint);
        self.place(topology, hint);
        self.begin(sample);
        if self.pinning == from {
            let why = match says {
                Some(_) => "the rules ask for the placement that the sample had",
                None => "there are no rules, so the placement of the sample stays",
            };
            findings.push(chosen(0, None, ChoiceCode::SamplePlacement, why));
            self.phase = Phase::Watching { began: sample.at };
            return;
        }
        let why = format!("{}: {why}", shown(hint));
        findings.push(self.candidates(vec![from, self.pinning.clone()], CandidatesCode::Rules, why));
        findings.push(probed(0, &before.measurement, false));
        if !self.options.verify {
            let why = "the rules ask for it, and the move is not verified";
            findings.push(chosen(1, None, ChoiceCode::HintNotVerified, why));
            self.phase = Phase::Watching { began: sample.at };
            return;
        }
        findings.push(Finding::WarmingUp {
            candidate: 1,
            lasts: self.options.times.warm_up,
        });
        self.phase = Phase::WarmingUp {
            began: sample.at,
            before,
        };
    }

    /// Verifies the move, and rolls it back if it did not help.
    fn check(&mut self, topology: &Topology, sample: &Sample, before: &Before, findings: &mut Vec<Finding>) {
        let after = self.measurement();
        findings.push(probed(1, &after, false));
        self.observe_only(sample, &after, findings);
        let gain = gain(before.measurement.rate, after.rate);
        let back = match before.hint {
            Some(_) => after.is_lower_than(&before.measurement),
            None => !before.measurement.is_lower_than(&after),
        };
        if back {
            self.place(topology, before.hint);
            let why = match before.hint {
                Some(_) => "the rate fell with the hint that the rules ask for",
                None => "the rate did not rise with the hint that the rules ask for",
            };
            findings.push(chosen(0, None, ChoiceCode::HintRolledBack, why));
            findings.push(Finding::Note {
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
            findings.push(chosen(1, gain, ChoiceCode::HintKept, why));
        }
        self.begin(sample);
        self.phase = Phase::Watching { began: sample.at };
    }

    /// A rate line. If other threads work than before, the hint is applied for them.
    fn report_rate(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        let measurement = self.measurement();
        findings.push(Finding::Rate {
            rate: measurement.rate,
            spread: measurement.spread,
        });
        if !self.sampled {
            self.observe_only(sample, &measurement, findings);
        }
        self.working_tasks.judge(sample, self.pinning.is_none());
        let threads = self.options.threads.unwrap_or(self.working_tasks.number());
        if threads > 0 && threads != self.threads {
            self.threads = threads;
            let hint = self.options.known.get(&threads).map_or(self.hint, |known| known.hint);
            self.place(topology, hint);
            let why = format!("{}, for the present number of working threads", shown(hint));
            findings.push(self.candidates(vec![self.pinning.clone()], CandidatesCode::ThreadsChanged, why));
            let why = "the number of working threads changed";
            findings.push(chosen(0, None, ChoiceCode::ThreadsChanged, why));
            self.sampled = false;
        }
        self.begin(sample);
        self.phase = Phase::Watching { began: sample.at };
    }

    /// Reports the sample since `begin`, which hint the rules choose, and why.
    fn observe(
        &mut self,
        sample: &Sample,
        measurement: &Measurement,
        findings: &mut Vec<Finding>,
    ) -> (Option<AffinityHint>, String) {
        let observed = self.observed(sample);
        let (says, code, why) = match &self.options.rules {
            None => (None, SampleCode::NoRules, "there are no rules to evaluate".to_owned()),
            Some(rules) => {
                let verdict = verdict(rules, &observed, self.threads);
                let code = verdict.fired.map_or(SampleCode::DefaultRule, |_| SampleCode::Rule);
                (verdict.outcome.class.parse().ok(), code, verdict.to_string())
            }
        };
        self.report(
            sample,
            observed,
            measurement,
            says,
            Reason::new(code, why.clone()),
            findings,
        );
        (says, why)
    }

    /// Reports the sample without asking the rules.
    fn observe_only(&mut self, sample: &Sample, measurement: &Measurement, findings: &mut Vec<Finding>) {
        let observed = self.observed(sample);
        let why = Reason::new(SampleCode::NotEvaluated, "the sample is kept, and no rule is evaluated");
        self.report(sample, observed, measurement, None, why, findings);
    }

    fn report(
        &mut self,
        sample: &Sample,
        observed: Vec<Observed>,
        measurement: &Measurement,
        says: Option<AffinityHint>,
        reason: Reason<SampleCode>,
        findings: &mut Vec<Finding>,
    ) {
        self.sampled = true;
        findings.push(Finding::Sampled {
            hint: self.hint,
            pus: self
                .pinning
                .clone()
                .or_else(|| self.working_tasks.last_seen(sample, self.threads)),
            threads: self.threads,
            lasts: measurement.over,
            rate: measurement.rate,
            observed,
            says,
            code: reason.code,
            why: reason.why,
        });
    }

    /// The rates of all metrics since `begin`.
    fn observed(&self, sample: &Sample) -> Vec<Observed> {
        let counts = |id: TaskId| !self.working_tasks.is_left_alone(id);
        observed(&self.metrics, &self.first, sample, counts, self.threads)
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

    fn measurement(&self) -> Measurement {
        let meter = self.meter.as_ref();
        meter.map(|(meter, _)| meter.measurement()).unwrap_or_default()
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
        let wait = match &self.phase {
            Phase::Opening => self.opening.wait(now),
            Phase::WarmingUp { began, .. } => times::wait(now, *began + self.options.times.warm_up, reading),
            Phase::Sampling { began } | Phase::Checking { began, .. } | Phase::Watching { began } => {
                times::wait(now, *began + self.options.times.probe, reading)
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

/// The text of a hint in messages.
fn shown(hint: Option<AffinityHint>) -> String {
    hint.map_or_else(|| "unpinned".to_owned(), |hint| format!("hint {hint}"))
}

fn gain(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let (before, after) = (before?, after?);
    (before > 0.0).then_some(after / before - 1.0)
}
