//! Thread maps: the order in which threads go to the nodes.
//!
//! As in the papers, a thread map gives each thread its own core while there are cores. Further threads use the second
//! PUs, and then threads share PUs.

use crate::placement::cores;
use crate::{Pinning, PuId, Topology};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
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
/// The threads are spread evenly while each has its own core, and then while each has its own PU: a full node gets no
/// more, and the first nodes get the remainder of the division. Further threads share PUs, again one on each.
pub fn map_threads(topology: &Topology, threads: usize, nodes: usize, map: ThreadMap) -> Option<Pinning> {
    let mut cores = cores_by_node(topology);
    if nodes == 0 || nodes > cores.len() || nodes > threads {
        return None;
    }
    cores.truncate(nodes);
    deal(&cores, threads, map)
}

/// Threads on the cores of nodes.
fn deal(cores: &[Vec<Vec<PuId>>], threads: usize, map: ThreadMap) -> Option<Pinning> {
    let shares = shares_of_cores(threads, cores);
    let pus: Vec<Vec<PuId>> = cores.iter().map(|cores| by_sibling(cores)).collect();
    let place = |(node, turn): (usize, usize)| pus[node][turn % pus[node].len()];
    let of_node = |node: usize| (0..shares[node]).map(move |turn| (node, turn));
    let mut places: Vec<(usize, usize)> = (0..pus.len()).flat_map(of_node).collect();
    if map == ThreadMap::Scatter {
        places.sort_by_key(|&(node, turn)| (turn, node));
    }
    Pinning::new(places.into_iter().map(place).collect())
}

/// The same with `threads_per_core` threads on the core that has most. `None` also if that is not possible.
///
/// If `map_threads` has this number on a core, the result is the same. Otherwise the threads share cores although others
/// are idle: a node uses its first cores only, each with up to `threads_per_core` threads on different PUs. The first PUs
/// of these cores come before the second ones.
pub fn map_threads_per_core(
    topology: &Topology,
    threads: usize,
    nodes: usize,
    map: ThreadMap,
    threads_per_core: usize,
) -> Option<Pinning> {
    let spread = map_threads(topology, threads, nodes, map)?;
    match most_on_a_core(topology, &spread, threads).cmp(&threads_per_core) {
        Ordering::Equal => return Some(spread),
        Ordering::Greater => return None,
        Ordering::Less => {}
    }
    let cores = cores_by_node(topology);
    let of_node = |cores: &Vec<Vec<PuId>>| -> Vec<Vec<PuId>> {
        let first = |core: &Vec<PuId>| core.iter().copied().take(threads_per_core).collect();
        cores.iter().map(first).collect()
    };
    let cores: Vec<Vec<Vec<PuId>>> = cores.iter().take(nodes).map(of_node).collect();
    let used = shares_of_cores(threads, &cores)
        .into_iter()
        .zip(&cores)
        .map(|(share, cores)| {
            let enough = (1..=cores.len()).find(|&used| cores[..used].concat().len() >= share);
            cores[..enough.unwrap_or(cores.len())].to_vec()
        });
    let packed = deal(&used.collect::<Vec<_>>(), threads, map)?;
    (most_on_a_core(topology, &packed, threads) == threads_per_core).then_some(packed)
}

/// The most of the first `threads` ranks that are on one core; 0 for no threads. A PU without a core counts as a core.
pub fn most_on_a_core(topology: &Topology, pinning: &Pinning, threads: usize) -> usize {
    let cores = cores(topology);
    let core_of: BTreeMap<PuId, usize> = cores
        .iter()
        .enumerate()
        .flat_map(|(core, pus)| pus.iter().map(move |&pu| (pu, core)))
        .collect();
    let mut on_core: BTreeMap<Option<usize>, usize> = BTreeMap::new();
    for rank in 0..threads {
        *on_core.entry(core_of.get(&pinning.pu(rank)).copied()).or_default() += 1;
    }
    on_core.into_values().max().unwrap_or(0)
}

/// The same over as many nodes as there are threads for; `None` for no threads.
pub fn map_over_nodes(topology: &Topology, threads: usize, map: ThreadMap) -> Option<Pinning> {
    let nodes = cores_by_node(topology).len();
    map_threads(topology, threads, nodes.min(threads), map)
}

/// The number of threads on each of several groups of PUs: as even as possible while each thread has its own PU. The
/// first groups get the remainder of the division.
pub(crate) fn shares(threads: usize, pus: &[Vec<PuId>]) -> Vec<usize> {
    let sizes: Vec<usize> = pus.iter().map(Vec::len).collect();
    let all: usize = sizes.iter().sum();
    let rounds = threads / all;
    let shares = even_shares(threads % all, &sizes);
    shares
        .iter()
        .zip(sizes)
        .map(|(share, size)| share + rounds * size)
        .collect()
}

/// The number of threads on each node: on cores of their own, then on second PUs, and so on.
fn shares_of_cores(threads: usize, nodes: &[Vec<Vec<PuId>>]) -> Vec<usize> {
    let pus = |cores: &Vec<Vec<PuId>>| cores.iter().map(Vec::len).sum::<usize>();
    let all: usize = nodes.iter().map(pus).sum();
    let (rounds, mut rest) = (threads / all, threads % all);
    let mut shares: Vec<usize> = nodes.iter().map(|cores| rounds * pus(cores)).collect();
    let mut sibling = 0;
    while rest > 0 {
        let with_sibling = |cores: &Vec<Vec<PuId>>| cores.iter().filter(|pus| pus.len() > sibling).count();
        let sizes: Vec<usize> = nodes.iter().map(with_sibling).collect();
        let placed = rest.min(sizes.iter().sum());
        for (share, more) in shares.iter_mut().zip(even_shares(placed, &sizes)) {
            *share += more;
        }
        rest -= placed;
        sibling += 1;
    }
    shares
}

/// `number` divided over groups of these sizes, as even as possible. The groups have room for it.
fn even_shares(number: usize, sizes: &[usize]) -> Vec<usize> {
    let mut rest = number;
    let mut shares = vec![0; sizes.len()];
    while rest > 0 {
        for (share, size) in shares.iter_mut().zip(sizes) {
            if rest > 0 && *share < *size {
                *share += 1;
                rest -= 1;
            }
        }
    }
    shares
}

/// The first PU of each core, core by core, then the second ones.
fn by_sibling(cores: &[Vec<PuId>]) -> Vec<PuId> {
    let siblings = cores.iter().map(Vec::len).max().unwrap_or(0);
    let of_siblings = |sibling: usize| cores.iter().filter_map(move |core| core.get(sibling).copied());
    (0..siblings).flat_map(of_siblings).collect()
}

/// The allowed PUs of each core of each node, for nodes and cores that have any. The PUs without a node come last, as
/// one node. `map_threads` numbers nodes in this order.
pub fn cores_by_node(topology: &Topology) -> Vec<Vec<Vec<PuId>>> {
    let cores = cores(topology);
    let on = |belongs: &dyn Fn(PuId) -> bool| -> Vec<Vec<PuId>> {
        let of_core = |core: &Vec<PuId>| core.iter().copied().filter(|&pu| belongs(pu)).collect();
        let pus = cores.iter().map(of_core);
        pus.filter(|pus: &Vec<PuId>| !pus.is_empty()).collect()
    };
    let outside = |pu: PuId| topology.nodes().iter().all(|node| !node.pus.contains(pu));
    let nodes = topology.nodes().iter().map(|node| on(&|pu| node.pus.contains(pu)));
    nodes
        .chain([on(&outside)])
        .filter(|cores: &Vec<Vec<PuId>>| !cores.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeId, NumaNode, ObjectKind, PuSet, TopologyBuilder};

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

    fn per_core(threads: usize, nodes: usize, map: ThreadMap, most: usize) -> Option<String> {
        map_threads_per_core(&topology(0..12), threads, nodes, map, most).map(|pinning| pinning.to_string())
    }

    #[test]
    fn threads_on_siblings_use_fewer_cores() {
        let (compact, scatter) = (ThreadMap::Compact, ThreadMap::Scatter);
        assert_eq!(per_core(2, 1, compact, 1).unwrap(), "0,1");
        assert_eq!(per_core(2, 1, compact, 2).unwrap(), "0,6");
        assert_eq!(
            per_core(3, 1, compact, 2),
            map_text(3, 1, compact),
            "it needs a second PU"
        );
        assert_eq!(per_core(4, 2, compact, 2).unwrap(), "0,6,2,8");
        assert_eq!(per_core(4, 2, scatter, 2).unwrap(), "0,2,6,8");
        assert_eq!(per_core(3, 2, scatter, 2).unwrap(), "0,2,6");
    }

    fn map_text(threads: usize, nodes: usize, map: ThreadMap) -> Option<String> {
        text(&topology(0..12), threads, nodes, map)
    }

    #[test]
    fn a_number_on_a_core_that_is_not_possible_has_no_pinning() {
        let compact = ThreadMap::Compact;
        assert_eq!(per_core(3, 1, compact, 1), None, "a node has two cores");
        assert_eq!(per_core(4, 1, compact, 3), None, "a core has two PUs");
        assert_eq!(per_core(2, 2, compact, 2), None, "each node has one thread");
        assert_eq!(per_core(1, 1, compact, 0), None);
        assert_eq!(per_core(5, 1, compact, 3), map_text(5, 1, compact), "threads share PUs");
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
    fn a_small_node_gets_no_second_thread_on_a_core_while_a_larger_node_has_an_idle_core() {
        let uneven = topology([0, 6, 2, 8, 3, 9]);
        assert_eq!(text(&uneven, 3, 2, ThreadMap::Compact).unwrap(), "0,2,3");
        assert_eq!(text(&uneven, 4, 2, ThreadMap::Compact).unwrap(), "0,6,2,3");
        assert_eq!(text(&uneven, 6, 2, ThreadMap::Scatter).unwrap(), "0,2,6,3,8,9");
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
