//! Thread maps: the order in which threads go to the nodes.
//!
//! As in the papers, a thread map gives each thread its own core while there are cores. Further threads use the second
//! PUs, and then threads share PUs.

use crate::placement::cores;
use crate::{NumaNode, Pinning, PuId, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The order in which threads are assigned to the nodes (Sánchez Barrera et al., ICS 2020, section 2.1.1; Denoyelle et
/// al., ICPP 2019, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadMap {
    /// Neighbouring ranks on the same node. Sánchez Barrera et al. call it `contiguous`.
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

/// `threads` threads on the first `nodes` nodes that have allowed PUs; `None` for no threads, no nodes, or more nodes
/// than exist or than threads. PUs that belong to no node count as one node after the others.
///
/// The threads are spread evenly while each has its own PU: a full node gets no more, and the first nodes get the
/// remainder of the division. Further threads share PUs, again one on each.
pub fn map_threads(topology: &Topology, threads: usize, nodes: usize, map: ThreadMap) -> Option<Pinning> {
    let mut pus = pus_by_node(topology);
    if nodes == 0 || nodes > pus.len() || nodes > threads {
        return None;
    }
    pus.truncate(nodes);
    let shares = shares(threads, &pus);
    let place = |(node, turn): (usize, usize)| pus[node][turn % pus[node].len()];
    let of_node = |node: usize| (0..shares[node]).map(move |turn| (node, turn));
    let mut places: Vec<(usize, usize)> = (0..nodes).flat_map(of_node).collect();
    if map == ThreadMap::Scatter {
        places.sort_by_key(|&(node, turn)| (turn, node));
    }
    Pinning::new(places.into_iter().map(place).collect())
}

/// The same over as many nodes as there are threads for; `None` for no threads.
pub fn map_over_nodes(topology: &Topology, threads: usize, map: ThreadMap) -> Option<Pinning> {
    let nodes = pus_by_node(topology).len();
    map_threads(topology, threads, nodes.min(threads), map)
}

/// The number of threads on each of several groups of PUs: as even as possible while each thread has its own PU. The
/// first groups get the remainder of the division.
pub(crate) fn shares(threads: usize, pus: &[Vec<PuId>]) -> Vec<usize> {
    let all: usize = pus.iter().map(Vec::len).sum();
    let (rounds, mut rest) = (threads / all, threads % all);
    let mut shares = vec![0; pus.len()];
    while rest > 0 {
        for (share, pus) in shares.iter_mut().zip(pus) {
            if rest > 0 && *share < pus.len() {
                *share += 1;
                rest -= 1;
            }
        }
    }
    let full = pus.iter().map(|pus| rounds * pus.len());
    shares.iter().zip(full).map(|(share, full)| share + full).collect()
}

/// The allowed PUs of each node that has any, and then the PUs without a node: the first PU of each core, core by core,
/// then the second ones.
fn pus_by_node(topology: &Topology) -> Vec<Vec<PuId>> {
    let cores = cores(topology);
    let siblings = cores.iter().map(Vec::len).max().unwrap_or(0);
    let all: Vec<PuId> = (0..siblings)
        .flat_map(|sibling| cores.iter().filter_map(move |core| core.get(sibling).copied()))
        .collect();
    let (parse_nodes, outside): (Vec<PuId>, Vec<PuId>) = all
        .iter()
        .partition(|&&pu| topology.nodes().iter().any(|node| node.pus.contains(pu)));
    let of_node = |node: &NumaNode| {
        parse_nodes
            .iter()
            .copied()
            .filter(|&pu| node.pus.contains(pu))
            .collect()
    };
    topology
        .nodes()
        .iter()
        .map(of_node)
        .chain([outside])
        .filter(|pus: &Vec<PuId>| !pus.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeId, ObjectKind, PuSet, TopologyBuilder};

    /// Three nodes of two cores with two PUs, numbered as Linux does: the second PUs of all cores come after the first
    /// ones. The last node has memory and no PUs.
    fn topology(allowed: impl IntoIterator<Item = u32>) -> Topology {
        let mut builder = TopologyBuilder::new("three");
        for node in 0..3 {
            let package = builder.object(builder.root(), ObjectKind::Package, Some(node));
            let cores = [2 * node, 2 * node + 1];
            for core in cores {
                let object = builder.object(package, ObjectKind::Core, Some(core));
                builder.pu(object, PuId(core));
                builder.pu(object, PuId(core + 6));
            }
            let pus: PuSet = cores
                .into_iter()
                .flat_map(|core| [PuId(core), PuId(core + 6)])
                .collect();
            builder.node(NumaNode {
                id: NodeId(node),
                attached_to: package,
                pus,
                memory: Some(1),
                subtype: None,
            });
        }
        builder.node(NumaNode {
            id: NodeId(3),
            attached_to: builder.root(),
            pus: PuSet::new(),
            memory: Some(1),
            subtype: None,
        });
        let allowed: PuSet = allowed.into_iter().map(PuId).collect();
        builder
            .build(&allowed, &(0..4).map(NodeId).collect::<Vec<_>>())
            .unwrap()
    }

    fn text(topology: &Topology, threads: usize, nodes: usize, map: ThreadMap) -> Option<String> {
        map_threads(topology, threads, nodes, map).map(|pinning| pinning.to_string())
    }

    #[test]
    fn compact_keeps_neighbours_together_and_scatter_distributes_them() {
        let all = topology(0..12);
        let of = |threads, map| text(&all, threads, 3, map).unwrap();
        assert_eq!(of(6, ThreadMap::Compact), "0-5");
        assert_eq!(of(6, ThreadMap::Scatter), "0,2,4,1,3,5");
        assert_eq!(of(4, ThreadMap::Compact), "0-2,4", "the first node has the rest");
        assert_eq!(of(12, ThreadMap::Compact), "0,1,6,7,2,3,8,9,4,5,10,11");
    }

    #[test]
    fn more_threads_than_pus_share_them() {
        assert_eq!(text(&topology(0..12), 5, 1, ThreadMap::Compact).unwrap(), "0,1,6,7,0");
    }

    #[test]
    fn only_allowed_pus_are_used_and_nodes_without_one_do_not_count() {
        let some = topology([0, 4, 5, 10]);
        assert_eq!(text(&some, 2, 2, ThreadMap::Compact).unwrap(), "0,4");
        assert_eq!(text(&some, 4, 3, ThreadMap::Compact), None);
    }

    #[test]
    fn a_node_that_is_full_has_no_more_threads_while_another_has_an_idle_pu() {
        let some = topology([0, 4, 5, 10]);
        assert_eq!(text(&some, 4, 2, ThreadMap::Compact).unwrap(), "0,4,5,10");
        assert_eq!(text(&some, 3, 2, ThreadMap::Scatter).unwrap(), "0,4,5");
        assert_eq!(text(&some, 6, 2, ThreadMap::Compact).unwrap(), "0,0,4,5,10,4");
    }

    #[test]
    fn pus_of_no_node_come_after_those_of_the_nodes() {
        let mut builder = TopologyBuilder::new("half");
        for pu in 0..4 {
            builder.pu(builder.root(), PuId(pu));
        }
        builder.node(NumaNode {
            id: NodeId(0),
            attached_to: builder.root(),
            pus: "2-3".parse().unwrap(),
            memory: None,
            subtype: None,
        });
        let half = builder.build_all().unwrap();
        assert_eq!(
            map_over_nodes(&half, 4, ThreadMap::Compact).unwrap().to_string(),
            "2,3,0,1"
        );
        assert_eq!(
            map_over_nodes(&half, 4, ThreadMap::Scatter).unwrap().to_string(),
            "2,0,3,1"
        );
    }

    #[test]
    fn there_is_none_for_fewer_threads_than_nodes_and_for_nothing() {
        let all = topology(0..12);
        assert_eq!(text(&all, 2, 3, ThreadMap::Scatter), None);
        assert_eq!(text(&all, 0, 0, ThreadMap::Scatter), None);
    }
}
