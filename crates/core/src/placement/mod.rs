//! Placements: the pinnings of a number of threads, one to a PU, up to the symmetries of the machine.
//!
//! Threads are not told apart here, so a placement is a set of allowed PUs, and two sets are the same placement when
//! an automorphism of the topology tree carries one to the other. Sibling subtrees are interchangeable when they are
//! isomorphic as labelled trees. A label says: the kind of object, the cache's attributes, the kind of core, and of the
//! attached NUMA nodes how many there are, whether each has memory, may be used, and its subtype. A PU that is not
//! allowed does not exist here, and a subtree without allowed PUs neither.
//!
//! 1. `symmetry` reduces the topology to a tree of the objects that branch, and gives isomorphic subtrees the same
//!    class.
//! 2. `count` counts placements by arithmetic on one polynomial per class.
//! 3. `enumerate` walks through one representative of each placement, with one of them in memory at a time.
//! 4. `levels` and `distance` say how different two pinnings are, again up to symmetry.
//!
//! Known limits: the distances between NUMA nodes are not looked at, so on a machine whose packages form a ring two
//! neighbours and two opposites are the same placement. Nor are exact memory sizes, since node 0 always has a little
//! less of it because of the kernel. A NUMA node that hangs below a package in one subtree and below that package's
//! only cache in another makes the two look different.

mod count;
mod distance;
mod enumerate;
mod levels;
mod symmetry;

pub use distance::{Profile, distance};
pub use enumerate::Iter;
pub use levels::Levels;

use crate::{Pinning, PuSet, Topology};
use num_bigint::BigUint;
use symmetry::Tree;

/// The placements of a number of threads on a machine.
#[derive(Debug)]
pub struct Placements {
    tree: Tree,
    threads: usize,
}

/// Why there are no placements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Nothing to place.
    #[error(
        "0 threads have no placement: `{machine}` can take 1 to {allowed} threads, one for each PU that may be used"
    )]
    NoThreads {
        /// The machine's name.
        machine: String,
        /// How many PUs may be used.
        allowed: usize,
    },
    /// More threads than PUs.
    #[error(
        "{threads} threads cannot have a PU each: only {allowed} PUs of `{machine}` may be used; \
         ask for at most {allowed} threads, or allow more PUs"
    )]
    TooManyThreads {
        /// How many threads were to be placed.
        threads: usize,
        /// The machine's name.
        machine: String,
        /// How many PUs may be used.
        allowed: usize,
    },
}

impl PlacementError {
    /// Whether so many threads have placements: at least one, and no more than there are allowed PUs.
    pub(crate) fn check(topology: &Topology, threads: usize) -> Result<(), Self> {
        let allowed = topology.allowed_pus().len();
        let machine = topology.name().to_owned();
        if threads == 0 {
            return Err(Self::NoThreads { machine, allowed });
        }
        if threads > allowed {
            return Err(Self::TooManyThreads {
                threads,
                machine,
                allowed,
            });
        }
        Ok(())
    }
}

impl Placements {
    /// The placements of `threads` threads: at least one, and no more than there are allowed PUs.
    pub fn new(topology: &Topology, threads: usize) -> Result<Self, PlacementError> {
        PlacementError::check(topology, threads)?;
        Ok(Self {
            tree: Tree::new(topology),
            threads,
        })
    }

    /// How many placements there are, without enumerating them.
    pub fn count(&self) -> BigUint {
        count::placements(&self.tree, self.threads)
    }

    /// One pinning for each placement, in an order that depends on the topology only: the most packed first. Of
    /// interchangeable objects those with the lowest-numbered PUs are taken first, and get the more threads. Ranks
    /// follow the topology, depth first.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(&self.tree, self.threads)
    }

    /// The pinning with which `iter` represents the placement that `pus` belong to; `None` where these are not as many
    /// allowed PUs as there are threads.
    pub fn representative(&self, pus: &PuSet) -> Option<Pinning> {
        let (threads, pinning) = enumerate::representative(&self.tree, pus)?;
        (threads == self.threads && threads == pus.len()).then_some(pinning)
    }
}

impl<'a> IntoIterator for &'a Placements {
    type Item = Pinning;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
