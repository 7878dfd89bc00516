//! Where a program's pages are.

use crate::NodeId;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Where pages are (Sánchez Barrera et al., ICS 2020, section 2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageMapping {
    /// On the node of the thread that touches the page first.
    FirstTouch,
    /// On all nodes of the machine in turn, by address.
    Interleave,
    /// All on one node.
    Single(NodeId),
    /// On the node of the threads, which are meant to be on one node; with threads on several, as `FirstTouch`.
    Local,
    /// On the node that is nearest to the thread that touches the page first without being its own.
    Remote,
    /// On the node whose threads access the page most. Needs to know who accesses what.
    Locality,
    /// Spread so that all nodes of the machine have about the same number of accesses. Needs to know who accesses what.
    Balance,
}

/// The names of the mappings that need no more than a name.
const NAMES: [(&str, PageMapping); 6] = [
    ("first_touch", PageMapping::FirstTouch),
    ("interleave", PageMapping::Interleave),
    ("local", PageMapping::Local),
    ("remote", PageMapping::Remote),
    ("locality", PageMapping::Locality),
    ("balance", PageMapping::Balance),
];
const SINGLE: &str = "single";

/// A text is no page mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no page mapping: there are first_touch, interleave, single:NODE, local, remote, locality and balance"
)]
pub struct ParsePageMappingError(String);

/// The dataset's names; `single:NODE` says on which node all pages are.
impl FromStr for PageMapping {
    type Err = ParsePageMappingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(&(_, mapping)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(mapping);
        }
        text.split_once(':')
            .filter(|(name, _)| *name == SINGLE)
            .and_then(|(_, node)| node.parse().ok())
            .map(|node| Self::Single(NodeId(node)))
            .ok_or_else(|| ParsePageMappingError(text.to_owned()))
    }
}

impl fmt::Display for PageMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Single(node) = self {
            return write!(f, "{SINGLE}:{node}");
        }
        NAMES
            .iter()
            .find(|(_, mapping)| mapping == self)
            .map_or(Err(fmt::Error), |(name, _)| f.write_str(name))
    }
}

impl Serialize for PageMapping {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_mapping_reads_back_as_it_was_written() {
        for mapping in NAMES
            .map(|(_, mapping)| mapping)
            .into_iter()
            .chain([PageMapping::Single(NodeId(3))])
        {
            assert_eq!(mapping.to_string().parse(), Ok(mapping));
        }
    }

    #[test]
    fn what_is_no_page_mapping_is_refused_with_those_that_there_are() {
        for text in ["", "single", "single:", "single:x", "firsttouch"] {
            let error = text.parse::<PageMapping>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("single:NODE"),
                "{error}"
            );
        }
    }
}
