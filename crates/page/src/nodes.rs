//! The NUMA nodes of a machine, each with the colour that it has in every drawing of a page.
//!
//! The style has eight colours. The ninth node has the colour of the first again; its name is written beside it.

use pinfold_core::Topology;
use std::collections::BTreeMap;

/// The classes of the style that have a colour.
const CLASSES: [&str; 8] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];

/// The nodes of a machine, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Nodes {
    /// The numbers of the operating system.
    ids: Vec<u32>,
    /// By PU: the position of its node.
    of_pu: BTreeMap<u32, usize>,
}

impl Nodes {
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut nodes = Self::default();
        for (position, node) in topology.nodes().iter().enumerate() {
            nodes.ids.push(node.id.0);
            nodes.of_pu.extend(node.pus.iter().map(|pu| (pu.0, position)));
        }
        nodes
    }

    /// The position of the node of a PU.
    pub(crate) fn of(&self, pu: u32) -> Option<usize> {
        self.of_pu.get(&pu).copied()
    }

    /// The position of a node.
    pub(crate) fn position(&self, node: u32) -> Option<usize> {
        self.ids.iter().position(|&id| id == node)
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The PUs of the node at a position.
    pub(crate) fn pus(&self, position: usize) -> impl Iterator<Item = u32> {
        self.of_pu
            .iter()
            .filter(move |(_, of)| **of == position)
            .map(|(&pu, _)| pu)
    }
}

/// The class with the colour of the node at this position; no colour for a PU without a node.
pub(crate) fn class(position: Option<usize>) -> &'static str {
    position.map_or("", |position| CLASSES[position % CLASSES.len()])
}
