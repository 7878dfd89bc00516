//! Repetitions of a recording.

use super::{MetricSource, unreadable};

/// A simulated machine counts the repetitions of the region of interest.
pub static ITERATIONS: MetricSource = MetricSource {
    code: "iterations",
    unit: Some("iteration"),
    listed: None,
    automatic: |_| true,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: unreadable,
    counter: None,
};
