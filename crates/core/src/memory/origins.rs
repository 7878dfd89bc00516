//! Where pages were before a page mapping moved them, so that they can go back.
//!
//! A page mapping is tried like a pinning: if it does not help, the program gets back what it had. The kernel does not
//! remember where a page was, so each move is noted.
//!
//! 1. The first move of a page notes the node that it leaves. Later moves change nothing.
//! 2. To go back, a page goes to the noted node if it is where the mapping put it.
//!
//! Known limits: if a program unmaps memory and maps other memory at the same addresses, a new page that happens to be
//! where the mapping would put it counts as the old one. Notes of neighbouring pages from one node are one entry; pages
//! that were in their place already separate them. So interleaving over four nodes needs an entry for each four pages,
//! some 50 MB for 10 GiB of small pages.

use super::PageGoal;
use super::runs::Runs;
use crate::NodeId;

/// The nodes that pages of one process have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    nodes: Runs<NodeId>,
}

impl Origins {
    /// The same goal, whose moves are noted.
    pub fn noting<'a>(&'a mut self, goal: &'a mut dyn PageGoal) -> Noting<'a> {
        Noting { goal, origins: self }
    }

    /// The way back for pages that `put` has moved.
    pub fn back<'a>(&'a self, put: &'a dyn PageGoal) -> Back<'a> {
        Back { put, origins: self }
    }

    /// Whether no page has been moved.
    pub fn is_empty(&self) -> bool {
        self.nodes.values().next().is_none()
    }
}

/// A goal whose moves are noted.
pub struct Noting<'a> {
    goal: &'a mut dyn PageGoal,
    origins: &'a mut Origins,
}

impl PageGoal for Noting<'_> {
    fn wanted(&self, address: u64, bytes: u64, now: NodeId) -> NodeId {
        self.goal.wanted(address, bytes, now)
    }

    fn moved(&mut self, address: u64, bytes: u64, from: NodeId, to: NodeId) {
        if self.origins.nodes.get(address).is_none() {
            self.origins.nodes.set(address, address + bytes, from);
        }
        self.goal.moved(address, bytes, from, to);
    }
}

/// The way back: each page that is still on the mapping's node belongs on the noted node.
pub struct Back<'a> {
    put: &'a dyn PageGoal,
    origins: &'a Origins,
}

impl PageGoal for Back<'_> {
    fn wanted(&self, address: u64, bytes: u64, now: NodeId) -> NodeId {
        match self.origins.nodes.get(address) {
            Some(origin) if self.put.wanted(address, bytes, now) == now => origin,
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Spread, Turns};
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    fn nodes(numbers: &[u32]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId).collect()
    }

    /// Moves each page where it belongs.
    fn go(goal: &mut dyn PageGoal, pages: &mut [NodeId]) {
        for (address, page) in (0..).map(|page| page * PAGE).zip(pages) {
            let wanted = goal.wanted(address, PAGE, *page);
            if wanted != *page {
                goal.moved(address, PAGE, *page, wanted);
                *page = wanted;
            }
        }
    }

    fn interleave() -> Spread {
        Spread::InTurn(Turns::weighted((0..4).map(|node| (NodeId(node), 1))).unwrap())
    }

    proptest! {
        #[test]
        fn pages_that_were_spread_go_back_to_where_they_were(
            touched in proptest::collection::vec(0u32..4, 1..60), also in 0u32..4,
        ) {
            let touched = nodes(&touched);
            let mut pages = touched.clone();
            let mut origins = Origins::default();
            // A second mapping does not change the noted nodes.
            go(&mut origins.noting(&mut Spread::On(NodeId(also))), &mut pages);
            go(&mut origins.noting(&mut interleave()), &mut pages);
            go(&mut origins.back(&interleave()), &mut pages);
            prop_assert_eq!(pages, touched);
        }
    }

    #[test]
    fn a_page_that_something_else_has_moved_since_stays_there() {
        let mut pages = nodes(&[0, 0, 0, 0]);
        let mut origins = Origins::default();
        assert!(origins.is_empty());
        go(&mut origins.noting(&mut interleave()), &mut pages);
        assert!(!origins.is_empty());
        pages[3] = NodeId(1);
        go(&mut origins.back(&interleave()), &mut pages);
        assert_eq!(pages, nodes(&[0, 0, 0, 1]));
    }

    #[test]
    fn a_new_page_stays_on_the_node_of_its_first_touch() {
        let origins = Origins::default();
        assert_eq!(origins.back(&interleave()).wanted(PAGE, PAGE, NodeId(1)), NodeId(1));
    }
}
