//! The loop of the baselines.

use crate::Policy;
use crate::program::meter::Meter;
use crate::program::metric_choice::MetricRequest;
use crate::program::opening::{Opened, Opening};
use crate::program::requested::RequestedConfiguration;
use crate::program::times::{self, Times};
use crate::program::working_tasks::{Skip, WorkingTasks};
use pinfold_core::placement::NamedPlacement;
use pinfold_core::placement::different;
use pinfold_core::{Applied, CandidatesCode, Decision, Finding, Metric, Pinning, Sample, Topology};
use std::time::Duration;

/// What is kept.
#[derive(Clone, Debug)]
pub enum Kept {
    /// The unpinned program.
    Nothing,
    /// This pinning, and its source: what the user named, or the topology.
    Pinning(Pinning, CandidatesCode),
    /// A placement with a name.
    Placement {
        /// The name that `--policy` takes.
        policy: &'static str,
        /// The placement.
        placement: NamedPlacement,
        /// The number of threads; `None` for the number of working threads. Until that is known, each core has a rank,
        /// or threads are distributed: `NamedPlacement::of_all_cores`.
        threads: Option<usize>,
    },
}

impl Kept {
    /// The pinning from the first instruction on; `None` leaves threads to the operating system.
    pub fn first_pinning(&self, topology: &Topology) -> Option<Pinning> {
        match self {
            Self::Nothing => None,
            Self::Pinning(pinning, _) => Some(pinning.clone()),
            Self::Placement {
                placement,
                threads: Some(threads),
                ..
            } => Some(placement.pinning(topology, *threads)),
            Self::Placement {
                placement,
                threads: None,
                ..
            } => placement
                .of_all_cores(topology)
                .or_else(|| Pinning::new(different::distributed(topology))),
        }
    }
}

/// One placement, or none, for the whole run.
#[derive(Debug)]
pub struct Fixed {
    kept: Kept,
    pinning: Option<Pinning>,
    /// The number of threads for which the pinning was made.
    placed_for: Option<usize>,
    times: Times,
    opening: Opening,
    working_tasks: WorkingTasks,
    /// The meter, the interval between its readings, and when the present rate line began.
    line: Option<(Meter, Duration, Duration)>,
    requested: RequestedConfiguration,
}

impl Fixed {
    /// Keeps `kept`. The warm-up in `times` is not used.
    pub fn new(kept: Kept, times: Times, metric: MetricRequest, skip: Skip) -> Self {
        Self {
            kept,
            pinning: None,
            placed_for: None,
            times,
            opening: Opening::new(times, metric),
            working_tasks: WorkingTasks::new(skip),
            line: None,
            requested: RequestedConfiguration::default(),
        }
    }

    /// Places the working threads by the name, where the user gave no number and the number has changed. A pinning is reported
    /// when their number is known.
    fn place(&mut self, topology: &Topology, findings: &mut Vec<Finding>) {
        let threads = self.working_tasks.number();
        if let Kept::Pinning(pinning, code) = &self.kept
            && threads > 0
            && self.placed_for.is_none()
        {
            self.placed_for = Some(threads);
            findings.push(Finding::CandidatesChosen {
                threads,
                pinnings: vec![Some(pinning.clone())],
                code: *code,
                why: "the first candidate, which is kept".to_owned(),
            });
        }
        if let Kept::Placement {
            placement,
            threads: None,
            ..
        } = self.kept
            && threads > 0
            && self.placed_for != Some(threads)
        {
            self.placed_for = Some(threads);
            self.report_placement(placement.pinning(topology, threads), threads, placement, findings);
        }
    }

    fn report_placement(
        &mut self,
        pinning: Pinning,
        threads: usize,
        placement: NamedPlacement,
        findings: &mut Vec<Finding>,
    ) {
        let (code, why) = match placement {
            NamedPlacement::Hint(hint) => (
                CandidatesCode::Hint,
                format!("the placement of the affinity hint {hint} for this number of threads"),
            ),
            other => (
                CandidatesCode::Placement,
                format!("the {other} for this number of threads"),
            ),
        };
        findings.push(Finding::CandidatesChosen {
            threads,
            pinnings: vec![Some(pinning.clone())],
            code,
            why,
        });
        self.pinning = Some(pinning);
    }

    fn decision(&mut self, now: Duration, findings: Vec<Finding>) -> Decision {
        let wait = match &self.line {
            None => self.opening.wait(now),
            Some((_, reading, began)) => times::wait(now, *began + self.times.probe, *reading),
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

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        match self.kept {
            Kept::Nothing => "none",
            Kept::Pinning(..) => "fixed",
            Kept::Placement { policy, .. } => policy,
        }
    }

    fn start(&mut self, topology: &Topology, metrics: &[Metric]) -> Decision {
        let mut findings = vec![];
        self.pinning = self.kept.first_pinning(topology);
        self.opening.start(metrics, &mut findings);
        if let Kept::Placement {
            placement,
            threads: Some(threads),
            ..
        } = self.kept
            && let Some(pinning) = self.pinning.clone()
        {
            self.report_placement(pinning, threads, placement, &mut findings);
        }
        self.decision(Duration::ZERO, findings)
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, _applied: &Applied) -> Decision {
        let mut findings = vec![];
        self.working_tasks.update(sample);
        if let Some((meter, _, began)) = &mut self.line {
            meter.read(sample, |id| !self.working_tasks.is_left_alone(id));
            if sample.at >= *began + self.times.probe {
                let line = meter.measurement();
                findings.push(Finding::Rate {
                    rate: line.rate,
                    spread: line.spread,
                });
                self.working_tasks.judge(sample, self.pinning.is_none());
                meter.share(sample, |id| !self.working_tasks.is_left_alone(id));
                meter.restart();
                *began = sample.at;
                self.place(topology, &mut findings);
                self.requested.affirm();
            }
        } else {
            match self.opening.look(sample, &mut self.working_tasks, &mut findings) {
                Opened::NotYet => {}
                Opened::WithoutMetric => {
                    self.place(topology, &mut findings);
                    self.requested.affirm();
                }
                Opened::With { meter, reading } => {
                    self.place(topology, &mut findings);
                    self.requested.affirm();
                    self.working_tasks.begin_window(sample);
                    self.line = Some((meter, reading, sample.at));
                }
            }
        }
        self.decision(sample.at, findings)
    }

    fn end(&mut self) -> Vec<Finding> {
        vec![]
    }
}
