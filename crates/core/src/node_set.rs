//! Sets of NUMA nodes, and the kernel's text form of them: `0-3,8`.

use crate::{NodeId, PuId, PuSet};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Words of 64 nodes: 256 nodes, the most that a single Linux machine has had (SGI UV 2000). A kernel can be built for
/// 1024 (`CONFIG_NODES_SHIFT` is at most 10), but a page mapping is copied often and should stay small.
const WORDS: usize = 4;
const WORD_BITS: u32 = u64::BITS;

/// A set of NUMA nodes, ordered by operating-system index. It holds the nodes 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSet([u64; WORDS]);

/// Why a text is not a list of nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{list}` is no list of NUMA nodes: {why}; write numbers and ranges such as 0-3,8")]
pub struct ParseNodeSetError {
    /// The whole text.
    pub list: String,
    /// The error.
    pub why: String,
}

impl NodeSet {
    /// The highest number of a node.
    pub const HIGHEST: NodeId = NodeId(4 * WORD_BITS - 1);

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no node is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Whether `node` is in the set.
    pub fn contains(&self, node: NodeId) -> bool {
        let word = self.0.get((node.0 / WORD_BITS) as usize);
        word.is_some_and(|word| word >> (node.0 % WORD_BITS) & 1 == 1)
    }

    /// Adds `node`. Returns false, and adds nothing, if it is above [`NodeSet::HIGHEST`].
    pub fn insert(&mut self, node: NodeId) -> bool {
        let word = self.0.get_mut((node.0 / WORD_BITS) as usize);
        word.map(|word| *word |= 1 << (node.0 % WORD_BITS)).is_some()
    }

    /// The nodes, lowest index first.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..=Self::HIGHEST.0).map(NodeId).filter(|&node| self.contains(node))
    }

    /// The lowest-numbered node.
    pub fn first(&self) -> Option<NodeId> {
        self.iter().next()
    }

    /// The only node; `None` if there are more, or none.
    pub fn only(&self) -> Option<NodeId> {
        if self.len() == 1 { self.first() } else { None }
    }

    /// The nodes in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|&node| other.contains(node)).collect()
    }

    /// The nodes of this set that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        self.iter().filter(|&node| !other.contains(node)).collect()
    }

    /// Bit `n % 64` of word `n / 64` says whether node `n` is in the set, as in the kernel's node masks.
    pub fn words(&self) -> &[u64] {
        &self.0
    }
}

impl From<NodeId> for NodeSet {
    fn from(node: NodeId) -> Self {
        [node].into_iter().collect()
    }
}

/// Nodes above [`NodeSet::HIGHEST`] are left out.
impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::default();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

impl FromStr for NodeSet {
    type Err = ParseNodeSetError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let error = |why: String| ParseNodeSetError {
            list: list.to_owned(),
            why,
        };
        // A list of nodes has the form of a CPU list.
        let numbers: PuSet = list.parse().map_err(|pus: crate::ParsePuSetError| error(pus.why))?;
        let mut set = Self::default();
        for number in numbers.iter() {
            if !set.insert(NodeId(number.0)) {
                return Err(error(format!("{number} is above {}", Self::HIGHEST)));
            }
        }
        Ok(set)
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: PuSet = self.iter().map(|node| PuId(node.0)).collect();
        numbers.fmt(f)
    }
}

impl Serialize for NodeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_printed_parses_back(nodes in proptest::collection::btree_set(0u32..256, 0..40)) {
            let set: NodeSet = nodes.iter().copied().map(NodeId).collect();
            prop_assert_eq!(set.to_string().parse::<NodeSet>().unwrap(), set);
            prop_assert_eq!(set.len(), nodes.len());
            prop_assert_eq!(set.iter().map(|node| node.0).collect::<Vec<_>>(), nodes.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[-0-9,: a]{0,24}") {
            if let Err(error) = text.parse::<NodeSet>() {
                prop_assert!(error.to_string().contains(&text));
            }
        }
    }

    #[test]
    fn a_number_that_no_node_can_have_is_refused_by_name() {
        let error = "0,256".parse::<NodeSet>().unwrap_err().to_string();
        assert!(error.contains("256 is above 255"), "{error}");
    }
}
