//! The loop of the baselines.

use crate::Policy;
use crate::program::metric_choice::MetricRequest;
use crate::program::observed_program::{Observation, ObservedProgram, Stage};
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use pinfold_core::placement::NamedPlacement;
use pinfold_core::placement::different;
use pinfold_core::{Applied, CandidatesCode, Configuration, Decision, Finding, Metric, Pinning, Sample, Topology};
use std::time::Duration;

/// What is kept.
#[derive(Clone, Debug)]
pub enum Kept {
    /// The unpinned program.
    Nothing,
    /// This pinning, and its source: the user or the topology.
    Pinning(Pinning, CandidatesCode),
    /// A placement with a name.
    Placement {
        /// The name that `--policy` takes.
        policy: &'static str,
        /// The placement.
        placement: NamedPlacement,
        /// The number of threads; `None` for the number of working threads. Until that is known, each core has a rank,
        /// or threads are distributed: `NamedPlacement::on_all_cores`.
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
                .on_all_cores(topology)
                .or_else(|| Pinning::new(different::distributed(topology))),
        }
    }
}

/// One placement, or none, for the whole run.
#[derive(Debug)]
pub struct Fixed {
    kept: Kept,
    pinning: Option<Pinning>,
    /// The pinning was made for this number of threads.
    placed_for: Option<usize>,
    program: ObservedProgram,
    /// The length of a rate line.
    line: Duration,
}

impl Fixed {
    /// Keeps `kept`. The warm-up in `times` is not used.
    pub fn new(kept: Kept, times: Times, metric: MetricRequest, skip: Skip) -> Self {
        Self {
            kept,
            pinning: None,
            placed_for: None,
            program: ObservedProgram::new(times, metric, skip),
            line: times.probe,
        }
    }

    /// Places the working threads by the name, if the user gave no number and the number has changed. A pinning is
    /// reported when the number of threads is known.
    fn place(&mut self, seen: &mut Observation<'_>) {
        let threads = self.program.working();
        if let Kept::Pinning(pinning, code) = &self.kept
            && threads > 0
            && self.placed_for.is_none()
        {
            self.placed_for = Some(threads);
            seen.report(Finding::CandidatesChosen {
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
            let pinning = placement.pinning(seen.topology(), threads);
            seen.report(placed(&pinning, threads, placement));
            self.pinning = Some(pinning);
        }
    }

    fn configuration(&self) -> Configuration {
        self.program.configuration(self.pinning.as_ref(), None)
    }
}

/// The finding that threads have the placement with a name.
fn placed(pinning: &Pinning, threads: usize, placement: NamedPlacement) -> Finding {
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
    Finding::CandidatesChosen {
        threads,
        pinnings: vec![Some(pinning.clone())],
        code,
        why,
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
        self.pinning = self.kept.first_pinning(topology);
        let wanted = self.configuration();
        let mut decision = self.program.start(metrics, Some(wanted));
        if let Kept::Placement {
            placement,
            threads: Some(threads),
            ..
        } = self.kept
            && let Some(pinning) = &self.pinning
        {
            decision.findings.push(placed(pinning, threads, placement));
        }
        decision
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, applied: &Applied) -> Decision {
        let mut seen = self.program.observe(topology, sample, applied);
        let begins_line = match self.program.stage(&mut seen) {
            Stage::Initialising => false,
            Stage::WithoutMetric | Stage::Opened => true,
            Stage::Open => {
                let is_over = self.program.is_over(&seen);
                if is_over {
                    self.program.report_rate(&mut seen);
                    self.program.judge(&seen, self.pinning.is_none());
                }
                is_over
            }
        };
        if begins_line {
            self.program.begin_window(&seen, self.line);
            self.place(&mut seen);
            self.program.request_again();
        }
        let wanted = self.configuration();
        self.program.decide(seen, Some(wanted))
    }

    fn end(&mut self) -> Vec<Finding> {
        vec![]
    }
}
