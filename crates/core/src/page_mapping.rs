//! The nodes of a program's pages.

use crate::{NodeId, NodeSet};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// The nodes of pages: the mappings of Sánchez Barrera et al., ICS 2020, section 2.1.2, and numactl's mappings with
/// named nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageMapping {
    /// On the node of the thread that touches the page first.
    FirstTouch,
    /// On the nodes of the main memory in turn, by address (`memory::main_memory`).
    Interleave,
    /// On these nodes in turn, by address. At least one node.
    InterleaveOver(NodeSet),
    /// On these nodes in turn, on each as many consecutive pages as its weight says. At least one node.
    WeightedInterleave(NodeSet),
    /// On the node of the thread that touches the page first if it is one of these nodes, else on the nearest of them.
    /// Never on another node, even if these are full. At least one node.
    Bind(NodeSet),
    /// On this node, or elsewhere when it is full.
    Preferred(NodeId),
    /// All on one node.
    Single(NodeId),
    /// On the node of the threads, if they are on one node; with threads on several nodes, as `FirstTouch`.
    Local,
    /// On the node of the main memory that is nearest to the thread that touches the page first, but not its own.
    Remote,
    /// On the node whose threads access the page most. Needs the accesses of each thread.
    Locality,
    /// Distributed so that all nodes of the main memory have about the same number of accesses. Needs the accesses of
    /// each thread.
    Balance,
}

impl PageMapping {
    /// Whether it needs the accesses of each thread.
    pub fn needs_accesses(self) -> bool {
        matches!(self, Self::Locality | Self::Balance)
    }

    /// The nodes in its text; empty without any.
    pub fn named(self) -> NodeSet {
        match self {
            Self::InterleaveOver(nodes) | Self::WeightedInterleave(nodes) | Self::Bind(nodes) => nodes,
            Self::Preferred(node) | Self::Single(node) => node.into(),
            Self::FirstTouch | Self::Interleave | Self::Local | Self::Remote | Self::Locality | Self::Balance => {
                NodeSet::default()
            }
        }
    }
}

/// The names of the mappings without nodes.
const NAMES: [(&str, PageMapping); 6] = [
    ("first_touch", PageMapping::FirstTouch),
    ("interleave", PageMapping::Interleave),
    ("local", PageMapping::Local),
    ("remote", PageMapping::Remote),
    ("locality", PageMapping::Locality),
    ("balance", PageMapping::Balance),
];

/// The names of the mappings with nodes.
const INTERLEAVE: &str = "interleave";
const WEIGHTED_INTERLEAVE: &str = "weighted_interleave";
const BIND: &str = "bind";
const PREFERRED: &str = "preferred";
const SINGLE: &str = "single";

/// The text is not a page mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no page mapping: there are first_touch, interleave, interleave:NODES, weighted_interleave:NODES, \
     bind:NODES, preferred:NODE, single:NODE, local, remote, locality and balance"
)]
pub struct ParsePageMappingError(String);

/// The dataset's names. The nodes follow a colon, as in `single:2` and `bind:0-3,8`.
impl FromStr for PageMapping {
    type Err = ParsePageMappingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(&(_, mapping)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(mapping);
        }
        let named = |(name, nodes): (&str, &str)| {
            let nodes = nodes.parse().ok().filter(|nodes: &NodeSet| !nodes.is_empty())?;
            match name {
                INTERLEAVE => Some(Self::InterleaveOver(nodes)),
                WEIGHTED_INTERLEAVE => Some(Self::WeightedInterleave(nodes)),
                BIND => Some(Self::Bind(nodes)),
                PREFERRED => nodes.only().map(Self::Preferred),
                SINGLE => nodes.only().map(Self::Single),
                _ => None,
            }
        };
        text.split_once(':')
            .and_then(named)
            .ok_or_else(|| ParsePageMappingError(text.to_owned()))
    }
}

impl fmt::Display for PageMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::FirstTouch => "first_touch",
            Self::Interleave | Self::InterleaveOver(_) => INTERLEAVE,
            Self::WeightedInterleave(_) => WEIGHTED_INTERLEAVE,
            Self::Bind(_) => BIND,
            Self::Preferred(_) => PREFERRED,
            Self::Single(_) => SINGLE,
            Self::Local => "local",
            Self::Remote => "remote",
            Self::Locality => "locality",
            Self::Balance => "balance",
        };
        f.write_str(name)?;
        match self.named() {
            nodes if nodes.is_empty() => Ok(()),
            nodes => write!(f, ":{nodes}"),
        }
    }
}

impl Serialize for PageMapping {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PageMapping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_mapping_reads_back_as_it_was_written() {
        let nodes: NodeSet = [0, 1, 2, 8].map(NodeId).into_iter().collect();
        let named = [
            PageMapping::InterleaveOver(nodes),
            PageMapping::WeightedInterleave(nodes),
            PageMapping::Bind(nodes),
            PageMapping::Preferred(NodeId(8)),
            PageMapping::Single(NodeId(3)),
        ];
        for mapping in NAMES.map(|(_, mapping)| mapping).into_iter().chain(named) {
            assert_eq!(mapping.to_string().parse(), Ok(mapping));
        }
    }

    #[test]
    fn what_is_no_page_mapping_is_refused_with_those_that_there_are() {
        for text in [
            "",
            "single",
            "single:",
            "single:x",
            "single:0-1",
            "bind:",
            "preferred:0,1",
            "firsttouch",
            "local:0",
        ] {
            let error = text.parse::<PageMapping>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("single:NODE"),
                "{error}"
            );
        }
    }
}
