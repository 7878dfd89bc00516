//! The totals of the whole machine between two points in time, and their energy.
//!
//! When a thread enters a region, the sum of all counters is taken, and again when it leaves. Where the other threads
//! wait at both points, as they do at the ends of a parallel region, the difference is exact. Elsewhere others may be a
//! quantum ahead.

use super::counters::Counters;
use crate::model::{LINE_BYTES, Model};
use std::ops::AddAssign;

/// The totals of the whole machine during all executions of a region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionTotals {
    /// The number of executions.
    pub executions: u64,
    /// The sum of their durations.
    pub seconds: f64,
    /// The sum over all threads.
    pub counters: Counters,
    /// Bytes that all memory read and wrote.
    pub memory_bytes: u64,
    /// Energy of all packages, in joules.
    pub package_joules: f64,
    /// Energy of all memory, in joules.
    pub memory_joules: f64,
}

impl AddAssign<&Self> for RegionTotals {
    fn add_assign(&mut self, other: &Self) {
        self.executions += other.executions;
        self.seconds += other.seconds;
        self.counters += &other.counters;
        self.memory_bytes += other.memory_bytes;
        self.package_joules += other.package_joules;
        self.memory_joules += other.memory_joules;
    }
}

/// All counts at one point in time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The sum over all threads.
    pub(crate) counters: Counters,
    /// Lines that all memory served.
    pub(crate) memory_lines: u64,
    /// Lines that crossed a link or a bus.
    pub(crate) crossings: u64,
}

impl Snapshot {
    /// The totals from `begin` to this point, in a time of `seconds`.
    pub(crate) fn since(mut self, begin: &Self, seconds: f64, model: &Model) -> RegionTotals {
        self.counters -= &begin.counters;
        let lines = self.memory_lines - begin.memory_lines;
        let crossings = (self.crossings - begin.crossings) as f64;
        RegionTotals {
            executions: 1,
            seconds,
            memory_bytes: lines * LINE_BYTES,
            package_joules: package_joules(model, seconds, [&self.counters], crossings),
            memory_joules: memory_joules(model, seconds, lines as f64),
            counters: self.counters,
        }
    }
}

/// Energy of all packages.
pub(crate) fn package_joules<'a>(
    model: &Model,
    seconds: f64,
    counters: impl IntoIterator<Item = &'a Counters>,
    crossings: f64,
) -> f64 {
    let energy = &model.energy;
    let mut package = energy.package_idle.value().0 * model.packages() as f64 * seconds;
    package += energy.link_line.value().0 * crossings;
    for counters in counters {
        package += energy.core_active.value().0 * counters.busy_cycles / model.frequency().0;
        package += energy.instruction.value().0 * counters.instructions as f64;
        for (level, cache) in counters.levels.iter().zip(&model.caches) {
            package += cache.energy.value().0 * (level.hits + level.misses) as f64;
        }
    }
    package
}

/// Energy of all memory.
pub(crate) fn memory_joules(model: &Model, seconds: f64, lines: f64) -> f64 {
    let energy = &model.energy;
    energy.memory_idle.value().0 * model.nodes() as f64 * seconds + energy.memory_line.value().0 * lines
}
