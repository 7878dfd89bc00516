//! A distribution of pages that balancing has made. Each is simulated in detail, so there are few: pages that move
//! change the distribution only if they matter for some task.

use super::accesses::{Accesses, Shares};
use pinfold_core::content_hash;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// Distributions are taken for one another if no task has a larger share of its accesses on other nodes. Assumed.
const SAME: f64 = 0.05;

/// The node of each page, by the number of the page. Two distributions are equal if their contents have the same hash.
#[derive(Clone)]
pub(crate) struct Distribution {
    nodes: Rc<[u8]>,
    hash: u128,
}

impl Distribution {
    pub(crate) fn new(nodes: &[u8]) -> Self {
        Self {
            hash: content_hash(nodes),
            nodes: nodes.into(),
        }
    }

    /// By page: its node.
    pub(crate) fn nodes(&self) -> &[u8] {
        &self.nodes
    }
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Distribution {}

impl Hash for Distribution {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// It stands for the distribution in the name of a configuration that is kept.
impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.hash)
    }
}

/// The distributions that have been used.
pub(super) struct Distributions {
    tasks: usize,
    nodes: usize,
    known: Vec<(Distribution, Shares)>,
}

impl Distributions {
    pub(super) fn new(tasks: usize, nodes: usize) -> Self {
        Self {
            tasks,
            nodes,
            known: vec![],
        }
    }

    /// The distribution to simulate while pages are on the nodes `exact`: `None` if it is still `present`, else the
    /// nearest known one, or a new one.
    pub(super) fn next(&mut self, accesses: &Accesses, present: &[u8], exact: &[u8]) -> Option<Distribution> {
        let shares = |nodes: &[u8]| accesses.shares(nodes, self.tasks, self.nodes);
        let wanted = shares(exact);
        if wanted.distance(&shares(present)) <= SAME {
            return None;
        }
        let known = self.known.iter().map(|(known, its)| (wanted.distance(its), known));
        let nearest = known.min_by(|(one, _), (other, _)| one.total_cmp(other));
        if let Some((distance, nearest)) = nearest
            && distance <= SAME
        {
            return Some(nearest.clone());
        }
        let new = Distribution::new(exact);
        self.known.push((new.clone(), wanted));
        Some(new)
    }
}
