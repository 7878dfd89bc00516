//! Whole runs of a program.

use super::{Listed, MetricSource, unreadable};

/// The wall time of a run is the measurement, and the behaviour database compares runs. No machine counts it.
pub static RUN: MetricSource = MetricSource {
    code: "run",
    unit: Some("run"),
    listed: Some(Listed {
        name: "run",
        about: "whole runs of the program, which the behaviour database compares",
    }),
    automatic: |_| false,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: unreadable,
    counter: None,
};
