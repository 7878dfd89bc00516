//! From a placement to the hints that may have given it: the paper's AFFINITYHINTFROMCONF (section 2.2).
//!
//! A placement belongs to a hint when moving at most `leeway` threads between last-level-cache domains makes it the
//! hint's best placement, or one that a symmetry of the machine maps to it.
//!
//! Packages with equal domains are interchangeable, and so are equal domains within a package. So the number of threads
//! to move is the minimum over all matchings of packages. Within two matched packages the domains are matched in the
//! order of their threads, which is optimal where costs are differences of numbers.

use super::shape::{self, Likeness, Shape};
use super::{AffinityHint, best, pus_of};
use crate::placement::PlacementError;
use crate::{Pinning, Topology};
use pathfinding::kuhn_munkres::kuhn_munkres_min;
use pathfinding::matrix::Matrix;

/// The best placements of the eight hints, for one machine and number of threads.
pub struct Destinations {
    /// By package, its domains.
    likenesses: Vec<Vec<Likeness>>,
    /// Each hint's best placement, as threads by package and domain.
    best: Vec<(AffinityHint, Vec<Vec<usize>>)>,
}

impl Destinations {
    /// The best placements of `threads` threads.
    pub fn new(topology: &Topology, threads: usize) -> Result<Self, PlacementError> {
        let shape = Shape::new(topology, threads)?;
        let likeness = |package: &Vec<shape::Domain>| package.iter().map(|domain| domain.likeness.clone()).collect();
        Ok(Self {
            likenesses: shape.packages.iter().map(likeness).collect(),
            best: AffinityHint::ALL.map(|hint| (hint, best::loads(&shape, hint))).to_vec(),
        })
    }

    /// By hint: the number of threads that must move to another domain so that `pinning`, with as many threads on
    /// different PUs, becomes the hint's best placement.
    pub fn distances(&self, topology: &Topology, pinning: &Pinning) -> Vec<(AffinityHint, usize)> {
        let loads = shape::loads(topology, &pus_of(pinning));
        let distance = |(hint, best): &(AffinityHint, Vec<Vec<usize>>)| (*hint, self.distance(&loads, best));
        self.best.iter().map(distance).collect()
    }

    /// The hints that `pinning` belongs to when `leeway` threads may be elsewhere.
    pub fn hints(&self, topology: &Topology, pinning: &Pinning, leeway: usize) -> Vec<AffinityHint> {
        let near = self.distances(topology, pinning).into_iter();
        near.filter(|&(_, distance)| distance <= leeway)
            .map(|(hint, _)| hint)
            .collect()
    }

    fn distance(&self, from: &[Vec<usize>], to: &[Vec<usize>]) -> usize {
        let mut different = 0;
        let mut matched = vec![false; from.len()];
        for first in 0..from.len() {
            if matched[first] {
                continue;
            }
            let kind = sorted(&self.likenesses[first]);
            let alike: Vec<usize> = (first..from.len())
                .filter(|&other| sorted(&self.likenesses[other]) == kind)
                .collect();
            for &package in &alike {
                matched[package] = true;
            }
            let costs = alike.iter().map(|&a| {
                let cost = |&b: &usize| self.difference(a, &from[a], b, &to[b]);
                alike.iter().map(cost).collect::<Vec<i64>>()
            });
            let costs = Matrix::from_rows(costs).expect("as many columns as rows");
            different += kuhn_munkres_min(&costs).0;
        }
        // Each thread that moves is missing in one domain and surplus in another.
        usize::try_from(different / 2).unwrap_or(0)
    }

    /// The difference of the domains of two equal packages, in threads.
    fn difference(&self, a: usize, from: &[usize], b: usize, to: &[usize]) -> i64 {
        let in_order = |package: usize, loads: &[usize]| {
            let mut domains: Vec<(&Likeness, usize)> =
                self.likenesses[package].iter().zip(loads.iter().copied()).collect();
            domains.sort();
            domains
        };
        let pairs = in_order(a, from).into_iter().zip(in_order(b, to));
        let sum: usize = pairs.map(|((_, from), (_, to))| from.abs_diff(to)).sum();
        i64::try_from(sum).unwrap_or(i64::MAX)
    }
}

fn sorted(likenesses: &[Likeness]) -> Vec<&Likeness> {
    let mut sorted: Vec<&Likeness> = likenesses.iter().collect();
    sorted.sort();
    sorted
}
