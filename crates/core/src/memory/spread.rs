//! Pages on one node, or spread over several by their addresses.

use super::PageGoal;
use crate::{NodeId, NodeSet};

/// Nodes in turn, each for as many consecutive pages as its weight says. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    turns: Vec<(NodeId, u32)>,
    round: u64,
}

impl Turns {
    /// These nodes with their weights; a weight of 0 counts as 1. `None` for no node at all.
    pub fn weighted(turns: impl IntoIterator<Item = (NodeId, u32)>) -> Option<Self> {
        let turns: Vec<(NodeId, u32)> = turns.into_iter().map(|(node, weight)| (node, weight.max(1))).collect();
        let round = turns.iter().map(|&(_, weight)| u64::from(weight)).sum();
        (round > 0).then_some(Self { turns, round })
    }

    /// These nodes, one page each. `None` for no node at all.
    pub fn even(nodes: &NodeSet) -> Option<Self> {
        Self::weighted(nodes.iter().map(|node| (node, 1)))
    }

    /// The node of page `index`.
    pub fn node(&self, index: u64) -> NodeId {
        let mut left = index % self.round;
        for &(node, weight) in &self.turns {
            if left < u64::from(weight) {
                return node;
            }
            left -= u64::from(weight);
        }
        // The weights sum to a round, so the loop has returned.
        self.turns[0].0
    }

    /// Whether `node` is one of them.
    pub fn contains(&self, node: NodeId) -> bool {
        self.turns.iter().any(|&(turn, _)| turn == node)
    }

    /// The nodes.
    pub fn nodes(&self) -> NodeSet {
        self.turns.iter().map(|&(node, _)| node).collect()
    }
}

/// The places of pages, independent of the threads that use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All on one node.
    On(NodeId),
    /// On some of these nodes: pages that are there stay, the others go to them in turn, by address.
    Within(Turns),
    /// On these nodes in turn, by address.
    InTurn(Turns),
}

impl Spread {
    /// The nodes that may have pages at the end.
    pub fn nodes(&self) -> NodeSet {
        match self {
            Self::On(node) => (*node).into(),
            Self::Within(turns) | Self::InTurn(turns) => turns.nodes(),
        }
    }
}

impl PageGoal for Spread {
    fn wanted(&self, address: u64, bytes: u64, now: NodeId) -> NodeId {
        match self {
            Self::On(node) => *node,
            Self::Within(turns) if turns.contains(now) => now,
            Self::Within(turns) | Self::InTurn(turns) => turns.node(address / bytes.max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spreads() -> impl Strategy<Value = Spread> {
        let turns = proptest::collection::btree_map(0u32..256, 0u32..5, 1..9);
        (turns, 0..3).prop_map(|(weights, kind)| {
            let weights = weights.into_iter().map(|(node, weight)| (NodeId(node), weight));
            let turns = Turns::weighted(weights).unwrap();
            match kind {
                0 => Spread::On(turns.node(0)),
                1 => Spread::Within(turns),
                _ => Spread::InTurn(turns),
            }
        })
    }

    proptest! {
        #[test]
        fn a_page_goes_to_an_allowed_node_only(spread in spreads(), address: u64, shift in 12u32..31, now in 0u32..1024) {
            prop_assert!(!spread.nodes().is_empty());
            prop_assert!(spread.nodes().contains(spread.wanted(address, 1 << shift, NodeId(now))));
        }

        #[test]
        fn a_page_that_was_moved_is_where_it_belongs(spread in spreads(), page in 0u64..1 << 36, now in 0u32..1024) {
            let there = spread.wanted(page << 12, 4096, NodeId(now));
            prop_assert_eq!(spread.wanted(page << 12, 4096, there), there);
        }

        #[test]
        fn in_each_round_every_node_has_its_weight_in_pages(
            weights in proptest::collection::btree_map(0u32..64, 1u32..6, 1..6),
            first in 0u64..1000,
        ) {
            let turns = Turns::weighted(weights.iter().map(|(&node, &weight)| (NodeId(node), weight))).unwrap();
            let round: u64 = weights.values().map(|&weight| u64::from(weight)).sum();
            for (&node, &weight) in &weights {
                let pages = (first..first + round).filter(|&index| turns.node(index) == NodeId(node)).count();
                prop_assert_eq!(pages, weight as usize);
            }
        }
    }

    #[test]
    fn no_node_makes_no_turns() {
        assert_eq!(Turns::even(&NodeSet::default()), None);
    }
}
