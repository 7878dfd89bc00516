//! Where counts come from: what each metric source brings.
//!
//! A source is a file of this folder and a line in `SOURCES`. The entry says by which code it is known, what one count
//! is, whether `auto` may choose it, how it is listed, and where the program counts it. The rest of pinfold asks the
//! entry and names no source, except where the counting itself is done (CONTRIBUTING.md has the recipe).

mod barriers;
mod event;
mod function;
mod heartbeat;
mod io;
mod iterations;
mod mpi;
mod regions;
mod run;
mod scripted;
#[cfg(test)]
mod toy;
mod uprobe;

use super::{Metric, Scope};
pub use barriers::BARRIERS;
pub use event::EVENT;
pub use function::FUNCTION;
pub use heartbeat::HEARTBEAT;
pub use io::IO;
pub use iterations::ITERATIONS;
pub use mpi::MPI;
pub use regions::REGIONS;
pub use run::RUN;
pub use scripted::SCRIPTED;
use serde::de::{self, Deserialize, Deserializer};
use std::fmt;
pub use uprobe::UPROBE;

/// The sources in `auto`'s order of preference: reports of the application about its progress come first, then the
/// flow through it, then counts that also grow in a thread that spins at a barrier (docs/metrics.md).
pub const SOURCES: &[&MetricSource] = &[
    &HEARTBEAT,
    &REGIONS,
    &BARRIERS,
    #[cfg(test)]
    &toy::TOY,
    &ITERATIONS,
    &MPI,
    &IO,
    &FUNCTION,
    &UPROBE,
    &EVENT,
    &RUN,
    &SCRIPTED,
];

/// A source of counts.
pub struct MetricSource {
    /// The code in scripts. It is also the metric's name where the source has one metric only.
    pub code: &'static str,
    /// The unit of a count, in the singular; `None` if each metric of the source has its own unit.
    pub unit: Option<&'static str>,
    /// The form that `--metric` takes, and the counted event; `None` if no list names the source.
    pub listed: Option<Listed>,
    /// Whether `auto` may choose this metric of the source.
    pub automatic: fn(&Metric) -> bool,
    /// Whether a program that hardly uses processor time is measured by it: the counts are progress that the program
    /// reports.
    pub measures_idle_programs: bool,
    /// Whether the counts are bytes that flow through the program, and may come in bursts.
    pub is_flow: bool,
    /// Whether clients, disks or the other end of a pipe may slow it down. `auto` takes such a metric only while the
    /// program itself sets the pace.
    pub follows_demand: bool,
    /// Why nothing can be read of this metric of the source: a clause.
    pub absent: fn(&Metric) -> String,
    /// The counter in the channel, where the program or the agent counts.
    pub counter: Option<ChannelCounter>,
}

/// A line in a list of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What the user writes: `regions`, `event:NAME`.
    pub name: &'static str,
    /// What is counted.
    pub about: &'static str,
}

/// A counter of the channel between a program and pinfold (`agent/pinfold.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelCounter {
    /// The field of `struct pinfold_slot`.
    pub field: &'static str,
    /// The field's position among the words of the slot.
    pub word: usize,
    /// The libraries that count. The count is missing unless one of them is attached.
    pub attached: &'static [Attached],
}

/// A library that adds to the channel: `enum pinfold_source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// The program, by `pinfold_heartbeat`.
    Heartbeat = 0,
    /// The agent, between a program and GCC's libgomp.
    Gomp = 1,
    /// The agent, as the OMPT tool of LLVM's libomp.
    Ompt = 2,
    /// The interposer between a program and its MPI library.
    Mpi = 3,
}

impl MetricSource {
    /// The metric of a source that has one metric only.
    pub fn metric(&'static self, scope: Scope) -> Metric {
        Metric {
            name: self.code.to_owned(),
            unit: self.unit.unwrap_or("count").to_owned(),
            source: self,
            scope,
        }
    }
}

/// The sources whose counts the program or the agent reports, in the order of `SOURCES`, with their counters.
pub fn reported() -> impl Iterator<Item = (&'static MetricSource, ChannelCounter)> {
    SOURCES
        .iter()
        .filter_map(|&source| source.counter.map(|counter| (source, counter)))
}

/// The positions of the metrics that `auto` may choose, the most preferred first.
pub fn automatic(metrics: &[Metric]) -> Vec<usize> {
    let preference = |index: &usize| SOURCES.iter().position(|&source| source == metrics[*index].source);
    let mut order: Vec<usize> = (0..metrics.len())
        .filter(|&index| (metrics[index].source.automatic)(&metrics[index]))
        .collect();
    order.sort_by_key(preference);
    order
}

/// The clause for a metric that the kernel or a simulated machine counts.
fn unreadable(metric: &Metric) -> String {
    format!("`{}` could not be read", metric.name)
}

impl PartialEq for MetricSource {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for MetricSource {}

impl fmt::Debug for MetricSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)
    }
}

impl<'de> Deserialize<'de> for &'static MetricSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        let known = SOURCES.iter().copied();
        known.clone().find(|source| source.code == code).ok_or_else(|| {
            let codes: Vec<&str> = known.map(|source| source.code).collect();
            de::Error::custom(format!(
                "unknown metric source `{code}`; there are {}",
                codes.join(", ")
            ))
        })
    }
}
