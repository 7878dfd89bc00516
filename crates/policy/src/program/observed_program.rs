//! The program as a policy sees it: its working tasks, its rate, and the configuration that was requested for it.
//!
//! A policy takes each sample through this type, in this order:
//!
//! 1. `observe` reads which tasks work, and their counts. It returns an `Observation`.
//! 2. `stage` says whether the initialisation goes on. When it ends, the metric is chosen.
//! 3. The policy measures in windows: `begin_window`, `is_over`, `measurement`.
//! 4. `decide` takes the observation and makes the decision from it. A configuration is requested only if it differs
//!    from the last one. The program runs until its next reading, or until the window ends.
//!
//! An `Observation` is made by `observe` only, and `decide` takes it. So a policy can neither skip a sample nor process
//! one twice.

use crate::program::meter::{Measurement, Meter};
use crate::program::metric_choice::MetricRequest;
use crate::program::opening::{Opened, Opening};
use crate::program::requested::RequestedConfiguration;
use crate::program::times::{self, Times};
use crate::program::working_tasks::{Judgement, Skip, WorkingTasks};
use pinfold_core::function::FoundFunction;
use pinfold_core::{
    Applied, Configuration, Decision, Finding, Metric, PageMapping, Pinning, Sample, TaskId, TaskSample, Topology,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// One sample, and the findings that a policy derives from it.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    topology: &'a Topology,
    sample: &'a Sample,
    applied: &'a Applied,
    tasks_changed: bool,
    findings: Vec<Finding>,
}

impl<'a> Observation<'a> {
    /// The machine.
    pub(crate) fn topology(&self) -> &'a Topology {
        self.topology
    }

    /// The sample.
    pub(crate) fn sample(&self) -> &'a Sample {
        self.sample
    }

    /// The time of the sample.
    pub(crate) fn at(&self) -> Duration {
        self.sample.at
    }

    /// How the machine applied the last decision.
    pub(crate) fn applied(&self) -> &'a Applied {
        self.applied
    }

    /// Whether other tasks work than at the sample before.
    pub(crate) fn tasks_changed(&self) -> bool {
        self.tasks_changed
    }

    /// Adds a finding to the decision.
    pub(crate) fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds a rate line to the decision.
    pub(crate) fn report_rate(&mut self, line: &Measurement) {
        self.report(Finding::Rate {
            rate: line.rate,
            spread: line.spread,
        });
    }

    /// The findings so far, for a function that adds its own.
    pub(crate) fn findings(&mut self) -> &mut Vec<Finding> {
        &mut self.findings
    }
}

/// The stage of the run at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The program initialises, or idles.
    Initialising,
    /// The initialisation is over, but no metric counts. The metrics are compared again later.
    WithoutMetric,
    /// The metric was chosen at this sample.
    Opened,
    /// The metric was chosen at an earlier sample.
    Open,
}

/// A program, from samples to decisions.
#[derive(Debug)]
pub(crate) struct ObservedProgram {
    opening: Opening,
    tasks: WorkingTasks,
    /// `None` until the metric is chosen.
    meter: Option<Meter>,
    /// The function whose calls are counted, if the metric is `function`.
    function: Option<FoundFunction>,
    /// The interval between two readings of the metric.
    reading: Duration,
    /// The first sample of the window.
    first: Sample,
    /// The end of the window.
    ends: Duration,
    requested: RequestedConfiguration,
    /// The time of the last sample.
    now: Duration,
}

impl ObservedProgram {
    /// A program that is about to start.
    pub(crate) fn new(times: Times, metric: MetricRequest, skip: Skip) -> Self {
        Self {
            opening: Opening::new(times, metric),
            tasks: WorkingTasks::new(skip),
            meter: None,
            function: None,
            reading: times.interval,
            first: Sample::default(),
            ends: Duration::ZERO,
            requested: RequestedConfiguration::default(),
            now: Duration::ZERO,
        }
    }

    /// The same, for a program that an earlier run measured by this metric.
    pub(crate) fn measured_by(self, metric: Option<String>) -> Self {
        Self {
            opening: self.opening.measured_by(metric),
            ..self
        }
    }

    /// The program starts, in the configuration `wanted`. The decision's finding is that it initialises.
    pub(crate) fn start(&mut self, metrics: &[Metric], wanted: Option<Configuration>) -> Decision {
        let mut findings = vec![];
        self.opening.start(metrics, &mut findings);
        self.decision(wanted, findings)
    }

    /// Reads a sample: which tasks work, and the counts of the metric.
    pub(crate) fn observe<'a>(
        &mut self,
        topology: &'a Topology,
        sample: &'a Sample,
        applied: &'a Applied,
    ) -> Observation<'a> {
        self.now = sample.at;
        let tasks_changed = self.tasks.update(sample);
        if let Some(meter) = &mut self.meter {
            meter.read(sample, &self.tasks);
        }
        Observation {
            topology,
            sample,
            applied,
            tasks_changed,
            findings: vec![],
        }
    }

    /// Continues the initialisation. At its end the working tasks are judged and the metric is chosen.
    pub(crate) fn stage(&mut self, seen: &mut Observation<'_>) -> Stage {
        if self.meter.is_some() {
            return Stage::Open;
        }
        let pus = seen.topology.allowed_pus().len();
        match self.opening.look(seen.sample, pus, &mut self.tasks, &mut seen.findings) {
            Opened::NotYet => Stage::Initialising,
            Opened::WithoutMetric => {
                self.request_again();
                Stage::WithoutMetric
            }
            Opened::With {
                meter,
                function,
                reading,
            } => {
                self.meter = Some(meter);
                self.function = function;
                self.reading = reading;
                Stage::Opened
            }
        }
    }

    /// Begins a window of length `lasts`. Its rates are divided by the number of tasks that work now.
    pub(crate) fn begin_window(&mut self, seen: &Observation<'_>, lasts: Duration) {
        if let Some(meter) = &mut self.meter {
            meter.share(seen.sample, &self.tasks);
        }
        self.begin_comparable_window(seen, lasts);
    }

    /// Begins a window of length `lasts`. Its rates have the divisor of the window before, so that the two compare.
    pub(crate) fn begin_comparable_window(&mut self, seen: &Observation<'_>, lasts: Duration) {
        self.first.clone_from(seen.sample);
        self.tasks.begin_window(seen.sample);
        self.drop_readings();
        self.settle(seen, lasts);
    }

    /// Lets threads, pages and caches settle for `lasts`. The window goes on, and is over after this time.
    pub(crate) fn settle(&mut self, seen: &Observation<'_>, lasts: Duration) {
        self.ends = seen.at() + lasts;
    }

    /// Drops the readings so far, because nothing is measured now.
    pub(crate) fn drop_readings(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.restart();
        }
    }

    /// Whether the window has had its length.
    pub(crate) fn is_over(&self, seen: &Observation<'_>) -> bool {
        seen.at() >= self.ends
    }

    /// The first sample of the window.
    pub(crate) fn first(&self) -> &Sample {
        &self.first
    }

    /// The rate since the window began.
    pub(crate) fn measurement(&self) -> Measurement {
        self.meter.as_ref().map(Meter::measurement).unwrap_or_default()
    }

    /// The counts of all working tasks since the window began.
    pub(crate) fn counts(&self) -> f64 {
        self.meter.as_ref().map_or(0.0, Meter::grown)
    }

    /// Reports the rate since the window began.
    pub(crate) fn report_rate(&self, seen: &mut Observation<'_>) -> Measurement {
        let line = self.measurement();
        seen.report_rate(&line);
        line
    }

    /// Judges which tasks worked since the window began. `is_unpinned`: the operating system placed all of them.
    pub(crate) fn judge(&mut self, seen: &Observation<'_>, is_unpinned: bool) -> Judgement {
        self.tasks.judge(seen.sample, is_unpinned)
    }

    /// The metrics of the machine.
    pub(crate) fn metrics(&self) -> &[Metric] {
        self.opening.metrics()
    }

    /// The metric that counts the program's progress; `None` until it is chosen.
    pub(crate) fn metric(&self) -> Option<&Metric> {
        Some(&self.metrics()[self.meter.as_ref()?.metric()])
    }

    /// What the metric of another run must have in common with this one for rates to compare; `None` until the metric is
    /// chosen.
    pub(crate) fn metric_identity(&self) -> Option<String> {
        let function = self.function.as_ref().map(FoundFunction::identity);
        function.or_else(|| Some(self.metric()?.name.clone()))
    }

    /// Whether the metric counts the progress of the whole program, and not of each task.
    pub(crate) fn is_counted_as_a_whole(&self) -> bool {
        self.meter.as_ref().is_some_and(Meter::is_of_program)
    }

    /// Whether the metric also measures a program that hardly uses processor time.
    pub(crate) fn is_measured_when_idle(&self) -> bool {
        self.meter.as_ref().is_some_and(Meter::measures_idle_programs)
    }

    /// The interval between two readings of the metric.
    pub(crate) fn reading(&self) -> Duration {
        self.reading
    }

    /// The number of working tasks.
    pub(crate) fn working(&self) -> usize {
        self.tasks.number()
    }

    /// The number of threads to place: `given` by the user, or the number of working tasks; at least one.
    pub(crate) fn threads(&self, given: Option<usize>) -> usize {
        given.unwrap_or(self.working()).max(1)
    }

    /// The working tasks.
    pub(crate) fn working_tasks(&self) -> &BTreeSet<TaskId> {
        self.tasks.working()
    }

    /// The tasks that have no rank.
    pub(crate) fn left_alone(&self) -> BTreeSet<TaskId> {
        self.tasks.left_alone()
    }

    /// Whether this task has a rank.
    pub(crate) fn works(&self, id: TaskId) -> bool {
        self.tasks.works(id)
    }

    /// The tasks of the first `threads` ranks, in their order.
    pub(crate) fn ranks<'s>(
        &'s self,
        seen: &Observation<'s>,
        threads: usize,
    ) -> impl Iterator<Item = &'s TaskSample> + use<'s> {
        self.tasks.ranks(seen.sample, threads)
    }

    /// The last PUs of the first `threads` ranks; `None` if one of them is not known.
    pub(crate) fn last_seen(&self, seen: &Observation<'_>, threads: usize) -> Option<Pinning> {
        self.tasks.last_seen(seen.sample, threads)
    }

    /// A configuration with this pinning of the working tasks and this mapping of pages.
    pub(crate) fn configuration(&self, pinning: Option<&Pinning>, pages: Option<PageMapping>) -> Configuration {
        Configuration {
            pinning: pinning.cloned(),
            pages,
            left_alone: self.left_alone(),
            ..Configuration::default()
        }
    }

    /// Requests the next configuration also if it is the last one. So it applies to tasks that the machine left alone
    /// when they began.
    pub(crate) fn request_again(&mut self) {
        self.requested.request_again();
    }

    /// Makes the decision on a sample. `wanted` is requested if it differs from the last request; `None` keeps that.
    pub(crate) fn decide(&mut self, seen: Observation<'_>, wanted: Option<Configuration>) -> Decision {
        self.decision(wanted, seen.findings)
    }

    fn decision(&mut self, wanted: Option<Configuration>, findings: Vec<Finding>) -> Decision {
        Decision {
            function: self.opening.take_request(),
            configuration: wanted.and_then(|wanted| self.requested.changed(wanted)),
            wait: match self.meter {
                None => self.opening.wait(self.now),
                Some(_) => times::wait(self.now, self.ends, self.reading),
            },
            findings,
        }
    }

    /// The findings of a program that ended before its metric was chosen, under `pinning`; `None` for any other.
    pub(crate) fn ended_early(&self, pinning: Option<&Pinning>) -> Option<Vec<Finding>> {
        self.meter.is_none().then(|| self.opening.end(&self.tasks, pinning))
    }

    /// Advice for a program that ended before it was measured.
    pub(crate) fn remedy(&self) -> String {
        times::remedy(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;
    use pinfold_core::function::{FunctionRequest, FunctionSearch};
    use pinfold_core::{Count, PuId, Scope, sources};

    const SECOND: Duration = Duration::from_secs(1);

    /// A sample at `at` seconds. Each of the tasks has run all the time, and has counted 100 regions a second.
    fn sample(at: u64, tasks: u64) -> Sample {
        let time = Duration::from_secs(at);
        let task = |serial| TaskSample {
            id: TaskId {
                serial,
                process: 1,
                thread: 1,
            },
            name: String::new(),
            alive: true,
            cpu_time: Some(time),
            run_delay: None,
            last_pu: None,
            counts: vec![Some(Count::exact(100 * at))],
        };
        Sample {
            at: time,
            tasks: (0..tasks).map(task).collect(),
            ..Sample::default()
        }
    }

    fn opening_times() -> Times {
        Times {
            interval: SECOND / 10,
            ..Times::new(Some(SECOND * 10), None, Some(SECOND * 2))
        }
    }

    fn program() -> ObservedProgram {
        let mut program = ObservedProgram::new(opening_times(), MetricRequest::Auto, Skip::default());
        program.start(&[sources::REGIONS.metric(Scope::Task)], None);
        program
    }

    /// The decision at `at`, after `act`.
    fn decide(
        program: &mut ObservedProgram,
        (at, tasks): (u64, u64),
        wanted: Option<Configuration>,
        act: impl FnOnce(&mut ObservedProgram, &mut Observation<'_>),
    ) -> Decision {
        let (topology, sample, applied) = (synthetic("core:2 pu:1"), sample(at, tasks), Applied::default());
        let mut seen = program.observe(&topology, &sample, &applied);
        act(program, &mut seen);
        program.decide(seen, wanted)
    }

    /// A program with two tasks whose metric was chosen at 2 s.
    fn opened() -> ObservedProgram {
        let mut program = program();
        decide(&mut program, (1, 2), None, |program, seen| {
            assert_eq!(program.stage(seen), Stage::Initialising);
        });
        decide(&mut program, (2, 2), None, |program, seen| {
            assert_eq!(program.stage(seen), Stage::Opened);
            program.begin_window(seen, SECOND * 4);
        });
        program
    }

    fn pinned(pu: u32) -> Configuration {
        Configuration {
            pinning: Pinning::new(vec![PuId(pu)]),
            ..Configuration::default()
        }
    }

    #[test]
    fn a_window_has_a_rate_per_task_and_is_over_after_its_length() {
        let mut program = opened();
        decide(&mut program, (4, 2), None, |program, seen| {
            assert_eq!(program.stage(seen), Stage::Open);
            assert!(!program.is_over(seen));
        });
        let decision = decide(&mut program, (6, 2), None, |program, seen| {
            assert!(program.is_over(seen));
            let line = program.report_rate(seen);
            assert!(line.rate.is_some_and(|rate| (rate - 100.0).abs() < 1e-9), "{line:?}");
        });
        assert!(matches!(decision.findings[..], [Finding::Rate { rate: Some(_), .. }]));
    }

    #[test]
    fn the_next_sample_is_at_the_end_of_the_window_at_the_latest() {
        let mut program = opened();
        let wait = |program: &mut ObservedProgram, lasts| {
            decide(program, (3, 2), None, |program, seen| program.begin_window(seen, lasts)).wait
        };
        assert_eq!(wait(&mut program, SECOND / 20), SECOND / 20);
        let reading = program.reading();
        assert!(reading < SECOND);
        assert_eq!(wait(&mut program, SECOND), reading);
    }

    #[test]
    fn a_comparable_window_keeps_its_divisor_when_tasks_end() {
        for (comparable, per_task) in [(true, 50.0), (false, 100.0)] {
            let mut program = opened();
            decide(&mut program, (6, 1), None, |program, seen| {
                if comparable {
                    program.begin_comparable_window(seen, SECOND);
                } else {
                    program.begin_window(seen, SECOND);
                }
            });
            decide(&mut program, (8, 1), None, |_, _| ());
            let rate = program.measurement().rate.unwrap();
            assert!((rate - per_task).abs() < 1e-9, "{rate}");
        }
    }

    #[test]
    fn a_configuration_is_requested_once_and_limits_alone_are_no_change() {
        let mut program = opened();
        let requested = |program: &mut ObservedProgram, wanted: Configuration| {
            decide(program, (3, 2), Some(wanted), |_, _| ()).configuration
        };
        assert_eq!(requested(&mut program, pinned(0)), Some(pinned(0)));
        assert_eq!(requested(&mut program, pinned(0)), None);
        let limited = |pu| Configuration {
            following_within: Some(SECOND),
            ..pinned(pu)
        };
        assert_eq!(requested(&mut program, limited(0)), None);
        assert_eq!(requested(&mut program, limited(1)), Some(limited(1)));
        program.request_again();
        assert_eq!(requested(&mut program, limited(1)), Some(limited(1)));
    }

    fn found() -> FunctionSearch {
        FunctionSearch::Found(FoundFunction {
            name: "step".to_owned(),
            file: "solver".to_owned(),
            calls_per_second: 100.0,
            threads: 2,
            spread: 0.1,
            cost: 0.001,
        })
    }

    #[test]
    fn a_found_function_is_not_the_metric_of_a_program_that_waits_for_clients() {
        let mut program = ObservedProgram::new(opening_times(), MetricRequest::Auto, Skip::default());
        program.start(&[sources::FUNCTION.metric(Scope::Program)], None);
        let topology = synthetic("core:2 pu:1");
        // The tasks are busy until 4 s, and run a tenth of the time later.
        let mut look = |at: u64, function: FunctionSearch, calls: Option<u64>| {
            let mut sample = Sample {
                program: vec![calls.map(Count::exact)],
                function,
                ..sample(at, 2)
            };
            for task in &mut sample.tasks {
                task.cpu_time = Some(
                    SECOND * u32::try_from(at.min(4)).unwrap()
                        + SECOND / 10 * u32::try_from(at.saturating_sub(4)).unwrap(),
                );
            }
            let applied = Applied::default();
            let mut seen = program.observe(&topology, &sample, &applied);
            program.stage(&mut seen);
            program.decide(seen, None).findings
        };
        look(1, FunctionSearch::NotBegun, None);
        look(2, FunctionSearch::NotBegun, None);
        look(4, found(), Some(0));
        let findings: Vec<Finding> = (6..40).flat_map(|at| look(at, found(), Some(200 * at))).collect();
        let chosen = |finding: &Finding| matches!(finding, Finding::MetricChosen { metric: Some(_), .. });
        assert!(!findings.iter().any(chosen), "{findings:?}");
        let said = |finding: &Finding| matches!(finding, Finding::MetricChosen { metric: None, why, .. } if why.contains("its clients"));
        assert!(findings.iter().any(said), "{findings:?}");
    }

    #[test]
    fn a_function_is_looked_for_where_nothing_counts_and_becomes_the_metric() {
        let mut program = ObservedProgram::new(opening_times(), MetricRequest::Auto, Skip::default());
        program.start(&[sources::FUNCTION.metric(Scope::Program)], None);
        let found = found();
        let topology = synthetic("core:2 pu:1");
        let mut look = |at, function: FunctionSearch, calls: Option<u64>| {
            let sample = Sample {
                program: vec![calls.map(Count::exact)],
                function,
                ..sample(at, 2)
            };
            let applied = Applied::default();
            let mut seen = program.observe(&topology, &sample, &applied);
            let stage = program.stage(&mut seen);
            (stage, program.decide(seen, None), program.metric_identity())
        };
        assert_eq!(look(1, FunctionSearch::NotBegun, None).0, Stage::Initialising);
        let (stage, decision, _) = look(2, FunctionSearch::NotBegun, None);
        assert_eq!(stage, Stage::Initialising);
        assert!(matches!(decision.function, Some(FunctionRequest::Search { tasks, .. }) if tasks.len() == 2));
        let (stage, decision, _) = look(3, FunctionSearch::Running, None);
        assert_eq!((stage, decision.function), (Stage::Initialising, None));
        assert_eq!(look(4, found.clone(), Some(0)).0, Stage::Initialising);
        let (stage, decision, identity) = look(6, found, Some(200));
        assert_eq!((stage, decision.function), (Stage::Opened, None));
        assert_eq!(identity.as_deref(), Some("function:step of solver"));
        let chosen = decision.findings.iter().any(
            |finding| matches!(finding, Finding::MetricChosen { function: Some(found), .. } if found.name == "step"),
        );
        assert!(chosen, "{:?}", decision.findings);
    }

    #[test]
    fn a_program_that_ends_before_its_metric_is_chosen_has_findings_about_that() {
        assert!(opened().ended_early(None).is_none());
        let mut program = program();
        decide(&mut program, (1, 2), None, |program, seen| {
            program.stage(seen);
        });
        let findings = program.ended_early(None).unwrap();
        assert!(matches!(findings.last(), Some(Finding::EndedEarly { .. })));
    }
}
