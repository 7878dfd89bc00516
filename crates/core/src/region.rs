//! Parallel regions: what is counted of each, and what a policy sets for each.

use crate::{Pinning, Prefetchers};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A parallel region of a program: the address of its code, which is the same in all its executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RegionId(pub u64);

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What was counted of one region since the program began. All values grow.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionSample {
    /// Which region.
    pub id: RegionId,
    /// Ended executions. A simulated machine, whose counts grow evenly, also counts the completed part of one.
    pub executions: f64,
    /// The time from the begin to the end of all executions together, in seconds.
    pub seconds: f64,
    /// What the whole machine counted during them; `None` where regions are only timed.
    pub counts: Option<RegionCounts>,
}

/// What the whole machine counted during the executions of a region: all from which the counters of LIKWID's groups NUMA,
/// L2CACHE, L3CACHE and ENERGY follow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RegionCounts {
    /// Instructions of all threads.
    pub instructions: f64,
    /// Cycles for which threads ran.
    pub cycles: f64,
    /// Accesses of the second-level caches.
    pub l2_requests: f64,
    /// Those that missed there.
    pub l2_misses: f64,
    /// Accesses of the last-level caches.
    pub l3_requests: f64,
    /// Those that missed there.
    pub l3_misses: f64,
    /// Bytes that the memory of a core's own node served.
    pub local_bytes: f64,
    /// Bytes that the memory of another node served.
    pub remote_bytes: f64,
    /// Bytes that all memory read and wrote.
    pub memory_bytes: f64,
    /// Energy of the cores, in joules.
    pub core_joules: f64,
    /// Energy of all packages, in joules.
    pub package_joules: f64,
    /// Energy of all memory, in joules.
    pub memory_joules: f64,
}

impl RegionCounts {
    /// `self + factor * growth`.
    pub fn plus(&self, factor: f64, growth: &Self) -> Self {
        let sum = |pick: fn(&Self) -> f64| pick(self) + factor * pick(growth);
        Self {
            instructions: sum(|counts| counts.instructions),
            cycles: sum(|counts| counts.cycles),
            l2_requests: sum(|counts| counts.l2_requests),
            l2_misses: sum(|counts| counts.l2_misses),
            l3_requests: sum(|counts| counts.l3_requests),
            l3_misses: sum(|counts| counts.l3_misses),
            local_bytes: sum(|counts| counts.local_bytes),
            remote_bytes: sum(|counts| counts.remote_bytes),
            memory_bytes: sum(|counts| counts.memory_bytes),
            core_joules: sum(|counts| counts.core_joules),
            package_joules: sum(|counts| counts.package_joules),
            memory_joules: sum(|counts| counts.memory_joules),
        }
    }
}

/// What is set while a region runs, from its begin to the begin of the next one that wants something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionConfiguration {
    /// The PUs of its team's threads; `None` for unpinned threads.
    pub pinning: Option<Pinning>,
    /// The number of threads of its team; `None` for the program's own number.
    pub threads: Option<usize>,
    /// The prefetchers that are on; `None` for those of the whole program.
    pub prefetchers: Option<Prefetchers>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_grow_in_every_member() {
        let one = RegionCounts {
            instructions: 1.0,
            cycles: 1.0,
            l2_requests: 1.0,
            l2_misses: 1.0,
            l3_requests: 1.0,
            l3_misses: 1.0,
            local_bytes: 1.0,
            remote_bytes: 1.0,
            memory_bytes: 1.0,
            core_joules: 1.0,
            package_joules: 1.0,
            memory_joules: 1.0,
        };
        let half = RegionCounts::default().plus(0.5, &one);
        assert_eq!(half.plus(0.5, &one), one);
        assert_eq!(one.plus(-1.0, &one), RegionCounts::default());
    }
}
