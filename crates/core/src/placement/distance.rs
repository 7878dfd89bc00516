//! The distance of two pinnings.
//!
//! The measure of a pair of ranks in a pinning is the number of distinguishing levels (see `levels`) at which its two
//! PUs are in the same domain. This is the depth of their lowest common ancestor when only levels at which the machine
//! branches count, plus one when both are the same PU. The distance of two pinnings is the sum over all pairs of ranks
//! of the difference of these depths. On a machine with several kinds of cores each rank that runs on another kind adds
//! one: otherwise a single thread on a fast core and on a slow one would have distance 0.
//!
//! An automorphism of the topology preserves levels, lowest common ancestors and kinds of cores, so applying one to
//! either pinning does not change the distance. It is a pseudometric: symmetric, with the triangle inequality, and zero
//! for equal pinnings. It is also zero for two placements that differ only in what no pair of ranks shows, such as
//! which of two packages has the bigger cache.
//!
//! N ranks cost O(N² levels) time, and N²/2 bytes for a profile.

use super::Levels;
use crate::{Pinning, PuId, Topology};

/// The data of a pinning that its distances depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The depths of the pairs of ranks (0,1), (0,2), (1,2), (0,3) …
    depths: Vec<u8>,
    /// The kind of core of each rank.
    core_kinds: Vec<Option<usize>>,
}

/// The distance between two pinnings of the same threads: 0 for pinnings that a symmetry of the machine maps to each
/// other. The pinning with fewer PUs repeats. A PU that is not allowed shares nothing with others.
pub fn distance(topology: &Topology, a: &Pinning, b: &Pinning) -> u64 {
    let levels = Levels::new(topology);
    let ranks = a.pus().len().max(b.pus().len());
    Profile::new(&levels, a, ranks).distance(&Profile::new(&levels, b, ranks))
}

impl Profile {
    /// The profile of the first `ranks` ranks of a pinning.
    pub fn new(levels: &Levels, pinning: &Pinning, ranks: usize) -> Self {
        let pus: Vec<PuId> = (0..ranks).map(|rank| pinning.pu(rank)).collect();
        let leaves: Vec<Option<usize>> = pus.iter().map(|&pu| levels.leaf(pu)).collect();
        let domains: Vec<&[usize]> = leaves
            .iter()
            .map(|leaf| leaf.map_or(&[][..], |leaf| levels.domains(leaf)))
            .collect();
        let mut depths = Vec::with_capacity(ranks * ranks.saturating_sub(1) / 2);
        for second in 0..ranks {
            for first in 0..second {
                let shared = domains[first].iter().zip(domains[second]).filter(|(a, b)| a == b);
                let same = usize::from(pus[first] == pus[second]);
                let depth = shared.count() + same;
                depths.push(u8::try_from(depth).unwrap_or(u8::MAX));
            }
        }
        Self {
            depths,
            core_kinds: leaves
                .iter()
                .map(|leaf| leaf.and_then(|leaf| levels.core_kind(leaf)))
                .collect(),
        }
    }

    /// The distance to the profile of a pinning of as many ranks.
    pub fn distance(&self, other: &Self) -> u64 {
        let pairs: u64 = self
            .depths
            .iter()
            .zip(&other.depths)
            .map(|(a, b)| u64::from(a.abs_diff(*b)))
            .sum();
        let moved = self.core_kinds.iter().zip(&other.core_kinds).filter(|(a, b)| a != b);
        pairs + moved.count() as u64
    }
}
