//! Placements: the pinnings of a number of threads, one per PU, up to the symmetries of the machine.
//!
//! Threads are not distinguished here, so a placement is a set of allowed PUs. Two sets are the same placement when an
//! automorphism of the topology tree maps one to the other. Sibling subtrees are interchangeable when they are
//! isomorphic as labelled trees. A label has: the kind of object, the cache's attributes, the kind of core, and the
//! number of attached NUMA nodes with whether each has memory, is allowed, and its subtype. A PU of a node that cuts
//! across packages or caches has that node in its label. PUs that are not allowed are ignored, and so are subtrees
//! without allowed PUs.
//!
//! 1. `symmetry` reduces the topology to a tree of the objects that branch, and gives isomorphic subtrees the same
//!    class.
//! 2. `count` counts placements by arithmetic on one polynomial per class.
//! 3. `enumerate` enumerates one representative of each placement, with one of them in memory at a time.
//! 4. `levels` and `distance` measure the difference of two pinnings, again up to symmetry.
//! 5. `elsewhere` finds the same placement on other PUs.
//! 6. `named` are the placements whose names users know from elsewhere.
//! 7. `different` lists pinnings that differ most, for searches.
//! 8. `alike` recognises machines on which no placement differs from another.
//!
//! Known limits: the distances between NUMA nodes are ignored, so on a machine whose packages form a ring two
//! neighbours and two opposites are the same placement. Exact memory sizes are ignored, too, since the kernel takes a
//! part of node 0. A NUMA node that is attached to a package in one subtree and to that package's only cache in another
//! makes the two different.

mod alike;
mod count;
pub mod different;
mod distance;
mod elsewhere;
mod enumerate;
mod levels;
mod named;
mod symmetry;
mod tool_form;

pub use alike::why_all_alike;
pub use distance::{Profile, distance};
pub use elsewhere::Symmetries;
pub use enumerate::Iter;
pub use levels::Levels;
pub use named::NamedPlacement;
pub(crate) use named::cores;
pub use tool_form::{ParseToolFormError, Threads, ToolForm};

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
    /// There is no thread.
    #[error(
        "0 threads have no placement: `{machine}` can take 1 to {allowed} threads, one for each PU that may be used"
    )]
    NoThreads {
        /// The machine's name.
        machine: String,
        /// The number of allowed PUs.
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
        /// The number of allowed PUs.
        allowed: usize,
    },
}

impl PlacementError {
    /// Whether this number of threads has placements: at least one, and at most the number of allowed PUs.
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
    /// The placements of `threads` threads: at least one, and at most the number of allowed PUs.
    pub fn new(topology: &Topology, threads: usize) -> Result<Self, PlacementError> {
        PlacementError::check(topology, threads)?;
        Ok(Self {
            tree: Tree::new(topology),
            threads,
        })
    }

    /// The number of placements, without enumerating them.
    pub fn count(&self) -> BigUint {
        count::placements(&self.tree, self.threads)
    }

    /// One pinning for each placement, in an order that depends on the topology only: the most packed first.
    /// Interchangeable objects are in ascending order of their PUs, and the first ones get more threads. Ranks follow
    /// the topology, depth first.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(&self.tree, self.threads)
    }

    /// The representative in `iter` of the placement of `pus`; `None` if these are not as many allowed PUs as there are
    /// threads.
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
