//! The placements near the best one: when a trial of one is worth its cost, and which one is next.

use super::proposals;
use pinfold_core::{Pinning, Topology};
use std::time::Duration;

/// The gain that is expected of a neighbour before any was tried, as a logarithm.
const HOPE: f64 = 0.01;

/// The neighbours of the best placement in one search.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// The sum of the gains of neighbours that were faster, as logarithms.
    gained: f64,
    /// The number of neighbours that were tried.
    tried: u32,
    /// The neighbours that were not proposed, the nearest one last; `None` before they were looked up.
    untried: Option<Vec<Pinning>>,
}

impl Neighbours {
    /// Nothing near the best placement is tried.
    pub(super) fn none() -> Self {
        Self {
            untried: Some(vec![]),
            ..Self::default()
        }
    }

    /// Whether the mean gain of the trials so far, over the time `at` that the program has run, exceeds the cost of the
    /// next trial.
    pub(super) fn are_worth(&self, at: Duration, cost: f64) -> bool {
        let expected = (self.gained + HOPE) / f64::from(self.tried + 1);
        expected * at.as_secs_f64() >= cost
    }

    /// Counts a trial.
    pub(super) fn count(&mut self) {
        self.tried += 1;
    }

    /// A neighbour was faster by `gain` and is the best placement now, which has other neighbours.
    pub(super) fn move_on(&mut self, gain: f64) {
        self.gained += gain;
        self.untried = None;
    }

    /// The nearest neighbour of `best` that was not returned before.
    pub(super) fn nearest(&mut self, topology: &Topology, threads: usize, best: &Pinning) -> Option<Pinning> {
        let untried = self.untried.get_or_insert_with(|| {
            let mut near = proposals::neighbours(topology, threads, best);
            near.reverse();
            near
        });
        untried.pop()
    }
}
