//! Scripted machines.

use super::{MetricSource, unreadable};

/// The script of a scripted machine gives the rates.
pub static SCRIPTED: MetricSource = MetricSource {
    code: "scripted",
    unit: Some("step"),
    listed: None,
    automatic: |_| true,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: unreadable,
    counter: None,
};
