//! Thread maps: the order in which threads go to the nodes.
//!
//! As in the paper, a thread map gives each thread its own core while there are cores. Further threads use the second
//! PUs, and then threads share PUs.

use crate::model::Model;
use pinfold_core::{Pinning, PuId};
use std::fmt;

/// The order in which threads are assigned to the nodes (Sánchez Barrera et al., ICS 2020, section 2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadMap {
    /// Neighbouring ranks on the same node: the paper's `contiguous`.
    Compact,
    /// Round-robin over the nodes.
    Scatter,
}

impl ThreadMap {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Compact, Self::Scatter];

    /// The name in data sets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::Scatter => "scatter",
        }
    }
}

impl fmt::Display for ThreadMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `threads` threads spread evenly over the first `nodes` nodes; `None` for no threads, no nodes, or more nodes than
/// exist or than threads. Where the division leaves a rest, the first nodes have one thread more.
pub fn map_threads(model: &Model, threads: usize, nodes: usize, map: ThreadMap) -> Option<Pinning> {
    if nodes == 0 || nodes > model.nodes() || nodes > threads {
        return None;
    }
    let mut pus = vec![vec![]; nodes];
    for (node, pu) in pus_by_node(model) {
        if node < nodes {
            pus[node].push(pu);
        }
    }
    let share = |node: usize| threads / nodes + usize::from(node < threads % nodes);
    let place = |node: usize, turn: usize| pus[node][turn % pus[node].len()];
    let ranks = match map {
        ThreadMap::Compact => (0..nodes)
            .flat_map(|node| (0..share(node)).map(move |turn| (node, turn)))
            .map(|(node, turn)| place(node, turn))
            .collect(),
        ThreadMap::Scatter => (0..threads).map(|rank| place(rank % nodes, rank / nodes)).collect(),
    };
    Pinning::new(ranks)
}

/// All PUs with their nodes: the first PU of each core, core by core, then the second ones.
fn pus_by_node(model: &Model) -> Vec<(usize, PuId)> {
    let mut pus: Vec<(usize, usize, PuId)> = (0..u32::try_from(model.pus()).unwrap_or(u32::MAX))
        .filter_map(|pu| {
            let (core, sibling) = model.core_of_pu(pu)?;
            Some((sibling, core, PuId(pu)))
        })
        .collect();
    pus.sort_unstable();
    pus.into_iter()
        .map(|(_, core, pu)| (model.node_of_core(core), pu))
        .collect()
}
