//! The initialisation, which all policies share. At its end the working tasks are known, and the metric that shows
//! their progress.
//!
//! 1. Nothing is compared for `i`. Its later half is the window that judges the tasks (`working_tasks`) and compares
//!    the metrics (`metric_choice`), because later behaviour is more typical.
//! 2. If the program is idle at the end of `i`, because it waits for input or sleeps, the window is repeated every `i /
//!    2`. A program that reports heartbeats is never idle, since a server sleeps between requests.
//!    A window is also longer if a preferred metric may count often enough after a longer time.
//! 3. If the program ends before that, its rate so far is reported.
//! 4. If no metric counts, the machine is asked to find a function that shows progress (`function_search`), and the
//!    choice waits for that.
//! 5. If no metric counts then, the run continues without one, and the metrics are compared again every `t`: the first
//!    parallel region may come late.

use crate::program::flow::{Flow, Pace};
use crate::program::function_search::{FunctionSearcher, FunctionStep};
use crate::program::meter::Meter;
use crate::program::metric_choice::{MetricRequest, Purpose, busiest};
use crate::program::times::{self, Times};
use crate::program::working_tasks::{Judgement, WorkingTasks};
use pinfold_core::function::{FoundFunction, FunctionRequest};
use pinfold_core::{CandidatesCode, EndedCode, Finding, Metric, NoteCode, Pinning, Sample, Scope, sources};
use std::collections::BTreeSet;
use std::time::Duration;

/// The least counts of a reading. Whole counts then add 2 % to the spread: the difference of two rounding errors has a
/// standard deviation of 0.41 counts.
const COUNTS_IN_A_READING: f64 = 20.0;

/// The least number of readings of a probe, also for a metric that counts rarely.
const READINGS_IN_A_PROBE: u32 = 10;

/// The most probes before a preferred metric is passed over: on an idle machine, and on a machine that gives the
/// program little time.
const PATIENCE: u32 = 4;
const PATIENCE_UNDER_LOAD: u32 = 8;

/// The observation of a run until its tasks and its metric are known.
#[derive(Debug)]
pub(crate) struct Opening {
    times: Times,
    request: MetricRequest,
    /// The metric of an earlier run.
    known: Option<String>,
    metrics: Vec<Metric>,
    functions: FunctionSearcher,
    /// The first sample of the window; an empty one is the program's first instruction.
    first: Sample,
    window_begun: bool,
    /// The flows of the program in the window.
    flow: Flow,
    /// The number of PUs that the program may use.
    pus: usize,
    window_ends: Duration,
    noted: Noted,
    /// The last sample of the living program.
    latest: Sample,
}

/// What was reported, so that it is reported once.
#[derive(Debug, Default)]
struct Noted {
    /// That the program is idle.
    idle: bool,
    /// The reasons why nothing is measured, without their figures, which differ each time.
    why: BTreeSet<String>,
}

/// The result of one look.
#[derive(Debug)]
pub(crate) enum Opened {
    /// The initialisation goes on, or the program idles.
    NotYet,
    /// The initialisation is over, but no metric counts.
    WithoutMetric,
    /// The initialisation is over, and this is the metric.
    With {
        meter: Meter,
        /// The function whose calls it counts, if the metric is `function`.
        function: Option<FoundFunction>,
        /// The interval between its readings.
        reading: Duration,
    },
}

impl Opening {
    pub(crate) fn new(times: Times, request: MetricRequest) -> Self {
        // An initialisation of zero would give no window.
        let window_ends = times.initialise.max(times.interval);
        Self {
            times,
            request,
            known: None,
            metrics: vec![],
            functions: FunctionSearcher::default(),
            first: Sample::default(),
            window_begun: false,
            flow: Flow::default(),
            pus: 1,
            window_ends,
            noted: Noted::default(),
            latest: Sample::default(),
        }
    }

    /// The same, for a program that an earlier run measured by this metric.
    pub(crate) fn measured_by(self, metric: Option<String>) -> Self {
        Self { known: metric, ..self }
    }

    /// The run begins.
    pub(crate) fn start(&mut self, metrics: &[Metric], findings: &mut Vec<Finding>) {
        self.metrics = metrics.to_vec();
        self.functions.start(metrics, self.known.as_deref());
        findings.push(Finding::Initialising {
            lasts: self.window_ends,
        });
    }

    /// The metrics of the machine.
    pub(crate) fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// What the machine shall do about a function that shows progress. Each request is returned once.
    pub(crate) fn take_request(&mut self) -> Option<FunctionRequest> {
        self.functions.take_request()
    }

    /// How long to wait until the next look.
    pub(crate) fn wait(&self, now: Duration) -> Duration {
        times::wait(now, self.window_ends, self.times.interval)
    }

    /// Looks at a sample that `working_tasks` has seen.
    pub(crate) fn look(
        &mut self,
        sample: &Sample,
        pus: usize,
        working_tasks: &mut WorkingTasks,
        findings: &mut Vec<Finding>,
    ) -> Opened {
        self.latest.clone_from(sample);
        self.pus = pus;
        self.flow.read(&self.metrics, sample);
        if sample.at < self.window_ends {
            if !self.window_begun && sample.at >= self.times.initialise / 2 {
                self.begin_window(sample, working_tasks);
            }
            return Opened::NotYet;
        }
        let idle = working_tasks.judge(sample, false) == Judgement::Idle;
        if idle
            && !self
                .request
                .measures_idle_program(&self.metrics, &self.first, sample, self.times.probe)
        {
            if !self.noted.idle {
                self.noted.idle = true;
                findings.push(Finding::Note {
                    code: NoteCode::Idle,
                    text: "The program is idle; the search begins when its threads run.".to_owned(),
                });
            }
            self.begin_window(sample, working_tasks);
            self.window_ends = sample.at + (self.times.initialise / 2).max(self.times.interval);
            return Opened::NotYet;
        }
        let purpose = self.purpose(self.times.probe);
        let choice = self.request.choose(&self.metrics, &self.first, sample, purpose, |id| {
            working_tasks.works(id)
        });
        if choice.waits && self.is_patient(sample) {
            self.window_ends = sample.at + (self.times.initialise / 2).max(self.times.interval);
            return Opened::NotYet;
        }
        let asked = self.request.is_named(sources::FUNCTION.code);
        // The clients of a program that waits for them also decide how often its functions are called.
        let step = if asked || self.flow.pace(pus) == Pace::Program {
            self.functions.look(sample, asked, &choice, working_tasks.working())
        } else {
            FunctionStep::Choose
        };
        if step != FunctionStep::Choose {
            if step == FunctionStep::Begins {
                findings.push(Finding::Note {
                    code: NoteCode::LooksForFunction,
                    text: "pinfold looks for a function of the program whose calls show its progress.".to_owned(),
                });
            }
            self.begin_window(sample, working_tasks);
            self.window_ends = sample.at + (self.times.initialise / 2).max(self.times.interval);
            return Opened::NotYet;
        }
        let gist = choice.why.replace(|one: char| one.is_ascii_digit(), "");
        if choice.metric.is_some() || self.noted.why.insert(gist) {
            findings.push(Finding::MetricChosen {
                metric: choice.metric.map(|metric| self.metrics[metric].name.clone()),
                code: choice.code,
                why: choice.why.clone(),
                function: self.functions.found(choice.metric, sample),
            });
        }
        let Some(metric) = choice.metric else {
            self.begin_window(sample, working_tasks);
            self.window_ends = sample.at + self.times.probe;
            return Opened::WithoutMetric;
        };
        let mut meter = Meter::new(metric, &self.metrics);
        meter.read(sample, working_tasks);
        meter.share(sample, working_tasks);
        Opened::With {
            meter,
            function: self.functions.found(choice.metric, sample),
            reading: self.reading(choice.per_second),
        }
    }

    /// The program has ended before its metric was chosen. Reports its rate so far under `pinning`, and how a user gets
    /// more.
    pub(crate) fn end(&self, working_tasks: &WorkingTasks, pinning: Option<&Pinning>) -> Vec<Finding> {
        let mut findings = vec![];
        let window = self.latest.at.saturating_sub(self.first.at);
        let whole = Sample::default();
        // A window that has just begun says little.
        let first = if window >= self.latest.at / 2 {
            &self.first
        } else {
            &whole
        };
        let over = self.latest.at.saturating_sub(first.at);
        let works = |id| working_tasks.works(id);
        let purpose = self.purpose(over);
        let choice = self.request.choose(&self.metrics, first, &self.latest, purpose, works);
        let rate = choice.metric.map(|metric| {
            let shares = match self.metrics[metric].scope {
                Scope::Program => 1,
                Scope::Task => working_tasks.number().max(1),
            };
            findings.push(Finding::MetricChosen {
                metric: Some(self.metrics[metric].name.clone()),
                code: choice.code,
                why: choice.why,
                function: self.functions.found(Some(metric), &self.latest),
            });
            findings.push(Finding::CandidatesChosen {
                threads: working_tasks.number().max(1),
                pinnings: vec![pinning.cloned()],
                code: CandidatesCode::UntilTheEnd,
                why: "the program ended before its metric was chosen".to_owned(),
            });
            let rate = choice.per_second / shares as f64;
            findings.push(Finding::Probed {
                candidate: 0,
                rate: Some(rate),
                spread: None,
                error: None,
                measured: over,
                dropped: false,
            });
            rate
        });
        let lacked = if self.noted.idle {
            "Its threads hardly ran; heartbeats measure a program that sleeps (docs/metrics.md).".to_owned()
        } else if !self.noted.why.is_empty() {
            "Nothing had counted.".to_owned()
        } else {
            let initialise = self.window_ends;
            format!(
                "It has {initialise:.1?} to initialise. {}",
                times::remedy(self.latest.at)
            )
        };
        findings.push(Finding::EndedEarly {
            best: rate.map(|_| 0),
            rate,
            code: EndedCode::BeforeMetric,
            why: format!("The program ended before a metric was chosen. {lacked}"),
        });
        findings
    }

    fn purpose(&self, probe: Duration) -> Purpose<'_> {
        Purpose {
            probe,
            known: self.known.as_deref(),
            flow: &self.flow,
            pus: self.pus,
        }
    }

    /// Whether the window may be longer.
    fn is_patient(&self, sample: &Sample) -> bool {
        let probe = self.times.probe;
        let lasted = sample.at.saturating_sub(self.first.at);
        let ran = busiest(&self.first, sample).unwrap_or(lasted);
        ran < probe * PATIENCE && lasted < probe * PATIENCE_UNDER_LOAD
    }

    fn begin_window(&mut self, sample: &Sample, working_tasks: &mut WorkingTasks) {
        self.window_begun = true;
        self.first = sample.clone();
        self.flow.begin(&self.metrics, sample);
        working_tasks.begin_window(sample);
    }

    /// The interval between two readings of a metric with this rate: a multiple of the interval of `times`.
    fn reading(&self, per_second: f64) -> Duration {
        let interval = self.times.interval.as_secs_f64();
        let wanted = (COUNTS_IN_A_READING / (per_second * interval)).ceil();
        let most = (self.times.probe.as_secs_f64() / f64::from(READINGS_IN_A_PROBE) / interval).floor();
        self.times.interval.mul_f64(wanted.min(most).max(1.0))
    }
}
