//! The totals of the whole machine between two points in time, and their energy.
//!
//! When a thread enters a region, the sum of all counters is taken, and again when it leaves. Where the other threads
//! wait at both points, as they do at the ends of a parallel region, the difference is exact. Elsewhere others may be a
//! quantum ahead.

use super::counters::{Counters, Served};
use crate::model::{LINE_BYTES, Model};
use pinfold_core::{CacheCounts, RegionCounts};
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
    /// The bytes by memory and by link; `None` if they were not counted, as of a sample.
    pub traffic: Option<TrafficBytes>,
    /// Energy of all packages, in joules.
    pub package_joules: f64,
    /// Energy of all memory, in joules.
    pub memory_joules: f64,
}

impl RegionTotals {
    /// The counts that the counters of LIKWID are computed from.
    pub(crate) fn counts(&self, model: &Model) -> RegionCounts {
        let counters = &self.counters;
        let cache = |number: usize| {
            let level = (number <= model.caches.len()).then(|| &counters.levels[number - 1])?;
            Some(CacheCounts {
                requests: (level.hits + level.misses) as f64,
                misses: level.misses as f64,
            })
        };
        let remote_prefetches = counters.prefetches_from_remote_memory;
        let local_prefetches = counters.prefetches_from_memory - remote_prefetches;
        let bytes = |lines: u64| (lines * LINE_BYTES) as f64;
        RegionCounts {
            instructions: Some(counters.instructions as f64),
            cycles: Some(counters.core_cycles),
            l2: cache(2),
            l3: cache(3),
            local_bytes: Some(bytes(counters.served[Served::LocalMemory] + local_prefetches)),
            remote_bytes: Some(bytes(counters.served[Served::RemoteMemory] + remote_prefetches)),
            core_joules: Some(core_joules(model, counters)),
            package_joules: Some(self.package_joules),
            memory_joules: Some(self.memory_joules),
        }
    }
}

impl AddAssign<&Self> for RegionTotals {
    fn add_assign(&mut self, other: &Self) {
        let executions = self.executions;
        self.executions += other.executions;
        self.seconds += other.seconds;
        self.counters += &other.counters;
        self.memory_bytes += other.memory_bytes;
        match (&mut self.traffic, &other.traffic) {
            (Some(mine), Some(theirs)) => *mine += theirs,
            // Totals without an execution have no traffic yet.
            (mine, theirs) => *mine = if executions == 0 { theirs.clone() } else { None },
        }
        self.package_joules += other.package_joules;
        self.memory_joules += other.memory_joules;
    }
}

/// Bytes that single memories and links carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficBytes {
    /// By node: bytes that its memory read and wrote.
    pub nodes: Vec<u64>,
    /// By link, in the order of the model's: bytes that crossed it. A line that crosses several links counts at each.
    pub links: Vec<u64>,
}

impl AddAssign<&Self> for TrafficBytes {
    fn add_assign(&mut self, other: &Self) {
        for (mine, theirs) in [(&mut self.nodes, &other.nodes), (&mut self.links, &other.links)] {
            mine.resize(mine.len().max(theirs.len()), 0);
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }
}

/// All counts at one point in time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The sum over all threads.
    pub(crate) counters: Counters,
    /// By node: lines that its memory served.
    pub(crate) nodes: Vec<u64>,
    /// By link: lines that crossed it.
    pub(crate) links: Vec<u64>,
    /// Lines that crossed a bus.
    pub(crate) buses: u64,
}

impl Snapshot {
    /// The totals from `begin` to this point, in a time of `seconds`.
    pub(crate) fn since(mut self, begin: &Self, seconds: f64, model: &Model) -> RegionTotals {
        self.counters -= &begin.counters;
        let since = |now: &[u64], then: &[u64]| -> Vec<u64> {
            now.iter()
                .zip(then)
                .map(|(now, then)| (now - then) * LINE_BYTES)
                .collect()
        };
        let traffic = TrafficBytes {
            nodes: since(&self.nodes, &begin.nodes),
            links: since(&self.links, &begin.links),
        };
        let memory_bytes: u64 = traffic.nodes.iter().sum();
        let crossed = traffic.links.iter().sum::<u64>() / LINE_BYTES + self.buses - begin.buses;
        RegionTotals {
            executions: 1,
            seconds,
            memory_bytes,
            traffic: Some(traffic),
            package_joules: package_joules(model, seconds, [&self.counters], crossed as f64),
            memory_joules: memory_joules(model, seconds, (memory_bytes / LINE_BYTES) as f64),
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

/// The part of the packages' energy that is of cores and their caches, without the last level: the domain PP0 of RAPL.
/// The energy of idle cores is not known apart from their package's, and is not in it.
fn core_joules(model: &Model, counters: &Counters) -> f64 {
    let energy = &model.energy;
    let private = &model.caches[..model.caches.len() - 1];
    let caches = counters.levels.iter().zip(private);
    energy.core_active.value().0 * counters.busy_cycles / model.frequency().0
        + energy.instruction.value().0 * counters.instructions as f64
        + caches
            .map(|(level, cache)| cache.energy.value().0 * (level.hits + level.misses) as f64)
            .sum::<f64>()
}

/// Energy of all memory.
pub(crate) fn memory_joules(model: &Model, seconds: f64, lines: f64) -> f64 {
    let energy = &model.energy;
    energy.memory_idle.value().0 * model.nodes() as f64 * seconds + energy.memory_line.value().0 * lines
}
