//! The default policy on a machine on which no placement differs from another: it says so, and nothing is measured.

use crate::Policy;
use pinfold_core::placement::why_all_alike;
use pinfold_core::{Applied, Decision, Finding, Metric, Sample, Topology};
use std::time::Duration;

/// How often the program is looked at, for the record of the run.
const INTERVAL: Duration = Duration::from_secs(1);

/// Leaves the program as it is.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged;

impl Policy for Unchanged {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn start(&mut self, topology: &Topology, _metrics: &[Metric]) -> Decision {
        Decision {
            configuration: None,
            wait: INTERVAL,
            findings: why_all_alike(topology)
                .map(|why| Finding::NothingToGain { why })
                .into_iter()
                .collect(),
            function: None,
        }
    }

    fn decide(&mut self, _topology: &Topology, _sample: &Sample, _applied: &Applied) -> Decision {
        Decision {
            configuration: None,
            wait: INTERVAL,
            findings: vec![],
            function: None,
        }
    }

    fn end(&mut self) -> Vec<Finding> {
        vec![]
    }
}
