//! Parallel regions: the counts of each, and the configuration that a policy sets for each.

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
    /// The time from the start to the end of all executions together, in seconds.
    pub seconds: f64,
    /// What the whole machine counted during them; `None` if regions are only timed.
    pub counts: Option<RegionCounts>,
    /// What a configuration cannot change.
    pub keeps: RegionKeeps,
}

/// What a configuration cannot change of a region, as far as it has been tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionKeeps {
    /// The number of threads of its team.
    pub threads: bool,
    /// The PUs of its threads.
    pub places: bool,
}

/// What all caches of a level counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheCounts {
    /// Demand accesses. LIKWID's event for requests to the L2 counts prefetches, too.
    pub requests: f64,
    /// Those that missed.
    pub misses: f64,
}

impl CacheCounts {
    const ZERO: Self = Self {
        requests: 0.0,
        misses: 0.0,
    };

    /// `self + factor * growth`.
    fn plus(&self, factor: f64, growth: &Self) -> Self {
        Self {
            requests: self.requests + factor * growth.requests,
            misses: self.misses + factor * growth.misses,
        }
    }
}

/// The machine's counts during the executions of a region, or during a run: all that the metrics of LIKWID's groups
/// NUMA, L2CACHE, L3CACHE and ENERGY are computed from. A count that is not known is `None`, as all are by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionCounts {
    /// Instructions of all threads.
    pub instructions: Option<f64>,
    /// Cycles of running threads.
    pub cycles: Option<f64>,
    /// The second-level caches; `None` on a machine without them.
    pub l2: Option<CacheCounts>,
    /// The third-level caches.
    pub l3: Option<CacheCounts>,
    /// Bytes that demand misses and prefetches brought from memory of a core's own node.
    pub local_bytes: Option<f64>,
    /// The same from memory of other nodes.
    pub remote_bytes: Option<f64>,
    /// Energy of the cores, in joules. On a simulated machine that of idle ones is a part of the package's, and not in
    /// it.
    pub core_joules: Option<f64>,
    /// Energy of all packages, in joules.
    pub package_joules: Option<f64>,
    /// Energy of all memory, in joules.
    pub memory_joules: Option<f64>,
}

impl RegionCounts {
    /// The counts of no time at all.
    pub const ZERO: Self = Self {
        instructions: Some(0.0),
        cycles: Some(0.0),
        l2: Some(CacheCounts::ZERO),
        l3: Some(CacheCounts::ZERO),
        local_bytes: Some(0.0),
        remote_bytes: Some(0.0),
        core_joules: Some(0.0),
        package_joules: Some(0.0),
        memory_joules: Some(0.0),
    };

    /// `self + factor * growth`. A count that one of them lacks is missing.
    pub fn plus(&self, factor: f64, growth: &Self) -> Self {
        let sum = |pick: fn(&Self) -> Option<f64>| Some(pick(self)? + factor * pick(growth)?);
        let cache = |pick: fn(&Self) -> Option<CacheCounts>| Some(pick(self)?.plus(factor, &pick(growth)?));
        Self {
            instructions: sum(|counts| counts.instructions),
            cycles: sum(|counts| counts.cycles),
            l2: cache(|counts| counts.l2),
            l3: cache(|counts| counts.l3),
            local_bytes: sum(|counts| counts.local_bytes),
            remote_bytes: sum(|counts| counts.remote_bytes),
            core_joules: sum(|counts| counts.core_joules),
            package_joules: sum(|counts| counts.package_joules),
            memory_joules: sum(|counts| counts.memory_joules),
        }
    }
}

/// What is set while a region runs, from its begin to the start of the next one that wants something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionConfiguration {
    /// The PUs of its team's threads; `None` for unpinned threads.
    pub pinning: Option<Pinning>,
    /// The number of threads of its team; `None` for the program's own number.
    pub threads: Option<usize>,
    /// The prefetchers that are on; `None` for the whole program's setting.
    pub prefetchers: Option<Prefetchers>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_grow_in_every_member() {
        let cache = Some(CacheCounts {
            requests: 1.0,
            misses: 1.0,
        });
        let one = RegionCounts {
            instructions: Some(1.0),
            cycles: Some(1.0),
            l2: cache,
            l3: cache,
            local_bytes: Some(1.0),
            remote_bytes: Some(1.0),
            core_joules: Some(1.0),
            package_joules: Some(1.0),
            memory_joules: Some(1.0),
        };
        let half = RegionCounts::ZERO.plus(0.5, &one);
        assert_eq!(half.plus(0.5, &one), one);
        assert_eq!(one.plus(-1.0, &one), RegionCounts::ZERO);
    }

    #[test]
    fn a_sum_that_lacks_a_part_is_missing() {
        let known = RegionCounts {
            cycles: Some(5.0),
            package_joules: Some(7.0),
            ..RegionCounts::default()
        };
        let less = RegionCounts {
            cycles: Some(2.0),
            ..RegionCounts::default()
        };
        let difference = RegionCounts {
            cycles: Some(3.0),
            ..RegionCounts::default()
        };
        assert_eq!(known.plus(-1.0, &less), difference);
        assert_eq!(RegionCounts::ZERO.plus(1.0, &known), known);
    }
}
