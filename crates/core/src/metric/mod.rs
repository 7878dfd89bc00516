//! Metrics of a running program, and their names on the command line.

pub mod sources;

use serde::{Deserialize, Serialize};
pub use sources::MetricSource;
use std::fmt;

/// The unit of a count of an energy event. The kernel converts to it from the unit of the processor, and gives `perf`
/// the scale 2.3283064365386962890625e-10.
pub const ENERGY_UNIT: &str = "2^-32 joule";

/// Counts of an energy event per joule.
pub const COUNTS_OF_A_JOULE: f64 = 4_294_967_296.0;

/// A named count that grows as the program runs; its rate is what a policy compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name that `--metric` takes: `regions`, `heartbeat`, `uprobe:SYMBOL`, `event:NAME`.
    pub name: String,
    /// What one count is, in the singular: `region`, `heartbeat`, `instruction`. A rate is in these per second.
    pub unit: String,
    /// Where the counts come from.
    pub source: &'static MetricSource,
    /// Whether each task has its own count or the program has one.
    pub scope: Scope,
}

/// What a count belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Each task has its own count; the program's rate is the average over its working tasks.
    Task,
    /// The program has one count.
    Program,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
