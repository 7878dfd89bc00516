//! The goal of a migration: the rule for the places of a process's pages, before they are moved.

use pinfold_core::NodeId;
use pinfold_core::memory::{PageGoal, PagePlaces, Spread};

/// The places of pages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Goal {
    ByAddress(Spread),
    ByAccesses(PagePlaces),
}

impl PageGoal for Goal {
    fn wanted(&self, address: u64, bytes: u64, now: NodeId) -> NodeId {
        match self {
            Self::ByAddress(spread) => spread.wanted(address, bytes, now),
            Self::ByAccesses(places) => places.wanted(address, bytes, now),
        }
    }
}
