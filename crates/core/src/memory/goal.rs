//! The node of each page under a page mapping, on a given machine with threads on given nodes.

use super::{Spread, Turns};
use crate::{MemoryKind, NodeId, NodeSet, NumaNode, PageMapping, PuId, Topology};

/// Why a page mapping is not possible on this machine at present.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The machine reports no nodes.
    #[error("no NUMA node of this machine is known, so pages have no other place; leave the page mapping out")]
    NoNodes,
    /// It names a node that the machine does not have.
    #[error("there is no NUMA node {nodes}; there are {known}")]
    NoSuchNode {
        /// The unknown nodes.
        nodes: NodeSet,
        /// The known nodes.
        known: NodeSet,
    },
    /// It names a node whose memory is not allowed.
    #[error("the memory of NUMA node {nodes} is not allowed; pinfold's cpuset allows that of {allowed}")]
    Forbidden {
        /// The nodes that are not allowed.
        nodes: NodeSet,
        /// The allowed nodes.
        allowed: NodeSet,
    },
    /// It names a node without memory.
    #[error("NUMA node {nodes} has no memory; these have: {with_memory}")]
    NoMemory {
        /// The nodes without memory.
        nodes: NodeSet,
        /// The nodes with memory.
        with_memory: NodeSet,
    },
    /// `remote` has no second node.
    #[error(
        "the page mapping remote needs a second NUMA node with main memory, and {0} is the only one that is allowed; single:NODE \
         names memory of another kind"
    )]
    NoOtherNode(NodeId),
    /// The remote node depends on the thread.
    #[error(
        "the page mapping remote needs all threads on one NUMA node, and they are on {0}: which node is remote depends on the \
         thread that touches a page, which Linux does not tell; keep the threads on one node (--cpunodebind) or name the \
         pages' node (single:NODE)"
    )]
    SeveralNodes(NodeSet),
}

/// The nodes whose memory is allowed and not empty; a node whose memory size is not known counts.
pub fn memory_nodes(topology: &Topology) -> NodeSet {
    let with_memory = topology.nodes().iter().filter(|node| node.memory != Some(0));
    with_memory
        .map(|node| node.id)
        .filter(|id| topology.allowed_nodes().contains(id))
        .collect()
}

/// The nodes of the host's main memory. Pages are spread over them if the user names no nodes. Memory of other kinds
/// (GPUs, high-bandwidth, persistent and CXL memory) is used only if the user asks for it.
///
/// The main memory is DRAM, and memory of unknown kind on nodes with CPUs: the kernel, too, has all nodes with CPUs in
/// the first memory tier. A node of unknown kind without CPUs is left out. If no node qualifies, all memory nodes with
/// CPUs count (a processor with only high-bandwidth memory), and if there are none either, all memory nodes.
pub fn main_memory(topology: &Topology) -> NodeSet {
    let usable = memory_nodes(topology);
    let those = |wanted: fn(&NumaNode) -> bool| -> NodeSet {
        let nodes = topology.nodes().iter().filter(|node| usable.contains(node.id));
        nodes.filter(|node| wanted(node)).map(|node| node.id).collect()
    };
    let is_main = |node: &NumaNode| match node.kind() {
        Some(kind) => kind == MemoryKind::Dram,
        None => !node.pus.is_empty(),
    };
    let sets = [those(is_main), those(|node| !node.pus.is_empty())];
    sets.into_iter().find(|nodes| !nodes.is_empty()).unwrap_or(usable)
}

/// Whether the machine has the nodes that `mapping` names, and they are allowed.
pub fn check_nodes(mapping: PageMapping, topology: &Topology) -> Result<(), Unavailable> {
    let known: NodeSet = topology.nodes().iter().map(|node| node.id).collect();
    let allowed: NodeSet = topology.allowed_nodes().iter().copied().collect();
    let with_memory = memory_nodes(topology);
    let needs_nodes = |mapping| !matches!(mapping, PageMapping::FirstTouch | PageMapping::Local);
    if known.is_empty() && needs_nodes(mapping) {
        return Err(Unavailable::NoNodes);
    }
    let lacking = |present: &NodeSet| Some(mapping.named().difference(present)).filter(|nodes| !nodes.is_empty());
    if let Some(nodes) = lacking(&known) {
        return Err(Unavailable::NoSuchNode { nodes, known });
    }
    if let Some(nodes) = lacking(&allowed) {
        return Err(Unavailable::Forbidden { nodes, allowed });
    }
    if let Some(nodes) = lacking(&with_memory) {
        return Err(Unavailable::NoMemory { nodes, with_memory });
    }
    Ok(())
}

/// The node of a PU.
pub fn node_of_pu(topology: &Topology, pu: PuId) -> Option<NodeId> {
    let mut local = topology.nodes().iter().filter(|node| node.pus.contains(pu));
    local.next().map(|node| node.id)
}

/// The nodes of several PUs.
pub fn nodes_of_pus(topology: &Topology, pus: impl IntoIterator<Item = PuId>) -> NodeSet {
    pus.into_iter().filter_map(|pu| node_of_pu(topology, pu)).collect()
}

/// The node of the main memory that is nearest to `node`, but not `node` itself. The lowest one wins a tie, also where
/// the machine reports no distances.
pub fn nearest_other(topology: &Topology, node: NodeId) -> Option<NodeId> {
    let distance = |other: NodeId| topology.distances()?.between(node, other);
    let others = main_memory(topology);
    let others = others.iter().filter(|&other| other != node);
    others.min_by_key(|&other| (distance(other).unwrap_or(u64::MAX), other))
}

/// The nodes that `mapping` gives the pages of a program whose threads are on the nodes `threads`. `None` if each
/// page stays on the node of its first touch, or its node depends on accesses (`AccessProfile`). `weight` is the
/// kernel's weight of a node for weighted interleaving.
pub fn spread(
    mapping: PageMapping,
    topology: &Topology,
    threads: &NodeSet,
    weight: impl Fn(NodeId) -> u32,
) -> Result<Option<Spread>, Unavailable> {
    check_nodes(mapping, topology)?;
    let weighted = |nodes: NodeSet| Turns::weighted(nodes.iter().map(|node| (node, weight(node)))).map(Spread::InTurn);
    Ok(match mapping {
        PageMapping::FirstTouch | PageMapping::Locality | PageMapping::Balance => None,
        PageMapping::Interleave => Turns::even(&main_memory(topology)).map(Spread::InTurn),
        PageMapping::InterleaveOver(nodes) => Turns::even(&nodes).map(Spread::InTurn),
        PageMapping::WeightedInterleave(nodes) => weighted(nodes),
        PageMapping::Bind(nodes) => Turns::even(&nodes).map(Spread::Within),
        PageMapping::Single(node) | PageMapping::Preferred(node) => Some(Spread::On(node)),
        PageMapping::Local => threads
            .only()
            .filter(|&node| memory_nodes(topology).contains(node))
            .map(Spread::On),
        PageMapping::Remote => match threads.only() {
            Some(node) => Some(Spread::On(
                nearest_other(topology, node).ok_or(Unavailable::NoOtherNode(node))?,
            )),
            None => return Err(Unavailable::SeveralNodes(*threads)),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Distances, ObjectKind, PuSet, TopologyBuilder};
    use proptest::prelude::*;

    /// Four nodes of two PUs, a fifth with DRAM alone that is nearest to node 3, and a sixth without memory. Node 2
    /// is not allowed. They form a ring, so that node 0 is nearer to 1 and 3 than to 2.
    fn machine() -> Topology {
        let mut builder = TopologyBuilder::new("ring");
        let root = builder.root();
        for node in 0..4u32 {
            let package = builder.object(root, ObjectKind::Package, Some(node));
            for pu in [2 * node, 2 * node + 1] {
                builder.pu(package, PuId(pu));
            }
            builder.node(numa_node(node, &[2 * node, 2 * node + 1], 1 << 30));
        }
        builder.node(NumaNode {
            subtype: Some("DRAM".to_owned()),
            ..numa_node(4, &[], 1 << 30)
        });
        builder.node(numa_node(5, &[], 0));
        builder.distances(Distances {
            nodes: (0..6).map(NodeId).collect(),
            values: vec![
                vec![10, 20, 30, 20, 40, 50],
                vec![20, 10, 20, 30, 40, 50],
                vec![30, 20, 10, 20, 40, 50],
                vec![20, 30, 20, 10, 15, 50],
                vec![40, 40, 40, 15, 10, 50],
                vec![50, 50, 50, 50, 50, 10],
            ],
        });
        let pus: PuSet = (0..8).map(PuId).collect();
        builder.build(&pus, &[0, 1, 3, 4, 5].map(NodeId)).unwrap()
    }

    fn numa_node(id: u32, pus: &[u32], memory: u64) -> NumaNode {
        NumaNode {
            id: NodeId(id),
            attached_to: crate::ObjectId(0),
            pus: pus.iter().copied().map(PuId).collect(),
            memory: Some(memory),
            subtype: None,
        }
    }

    fn nodes(list: &str) -> NodeSet {
        list.parse().unwrap()
    }

    fn of(mapping: PageMapping, threads: &str) -> Result<Option<Spread>, Unavailable> {
        spread(mapping, &machine(), &nodes(threads), |_| 1)
    }

    #[test]
    fn interleaving_leaves_out_what_is_not_ours_and_what_has_no_memory() {
        assert_eq!(
            of(PageMapping::Interleave, "0").unwrap().unwrap().nodes(),
            nodes("0-1,3-4")
        );
    }

    /// A node for each PU set and subtype, with 1 GiB each.
    fn mixed(nodes: &[(&str, Option<&str>)]) -> Topology {
        let mut builder = TopologyBuilder::new("mixed");
        let root = builder.root();
        for pu in 0..4 {
            builder.pu(root, PuId(pu));
        }
        for (id, &(pus, subtype)) in (0..).zip(nodes) {
            builder.node(NumaNode {
                pus: pus.parse().unwrap(),
                subtype: subtype.map(str::to_owned),
                ..numa_node(id, &[], 1 << 30)
            });
        }
        builder.build_all().unwrap()
    }

    #[test]
    fn the_main_memory_is_dram_and_that_of_nodes_with_cpus_where_no_kind_is_known() {
        for (machine, expected) in [
            (vec![("0-1", None), ("2-3", None)], "0-1"),
            // hwloc gives GPU memory the CPUs of its neighbour.
            (vec![("0-3", None), ("0-3", Some("GPUMemory"))], "0"),
            (
                vec![
                    ("0-1", Some("DRAM")),
                    ("2-3", Some("DRAM")),
                    ("", Some("NVM")),
                    ("", Some("CXL-DRAM")),
                ],
                "0-1",
            ),
            (
                vec![("0-3", None), ("0-3", Some("HBM")), ("", Some("memory_tier22"))],
                "0",
            ),
            (vec![("0-3", None), ("", None)], "0"),
            (vec![("0-3", None), ("", Some("DRAM"))], "0-1"),
            // Processors with high-bandwidth memory alone.
            (
                vec![("0-1", Some("HBM")), ("2-3", Some("HBM")), ("", Some("NVM"))],
                "0-1",
            ),
            (vec![("", None), ("", Some("NVM"))], "0-1"),
        ] {
            assert_eq!(main_memory(&mixed(&machine)), nodes(expected), "{machine:?}");
        }
    }

    #[test]
    fn memory_of_another_kind_is_taken_where_it_is_named_only() {
        let machine = mixed(&[("0-3", None), ("", Some("GPUMemory"))]);
        let of = |mapping| spread(mapping, &machine, &nodes("0"), |_| 1);
        assert_eq!(of(PageMapping::Interleave).unwrap().unwrap().nodes(), nodes("0"));
        assert_eq!(of(PageMapping::Remote), Err(Unavailable::NoOtherNode(NodeId(0))));
        for named in [
            PageMapping::InterleaveOver(nodes("0-1")),
            PageMapping::Bind(nodes("0-1")),
        ] {
            assert_eq!(of(named).unwrap().unwrap().nodes(), nodes("0-1"));
        }
    }

    #[test]
    fn local_is_the_node_of_the_threads_and_first_touch_for_threads_on_several() {
        assert_eq!(of(PageMapping::Local, "3"), Ok(Some(Spread::On(NodeId(3)))));
        assert_eq!(of(PageMapping::Local, "0,3"), Ok(None));
        assert_eq!(of(PageMapping::FirstTouch, "3"), Ok(None));
    }

    #[test]
    fn remote_is_the_nearest_other_node_that_is_ours() {
        assert_eq!(of(PageMapping::Remote, "0"), Ok(Some(Spread::On(NodeId(1)))));
        assert_eq!(of(PageMapping::Remote, "3"), Ok(Some(Spread::On(NodeId(4)))));
        assert_eq!(
            of(PageMapping::Remote, "0-1"),
            Err(Unavailable::SeveralNodes(nodes("0-1")))
        );
    }

    #[test]
    fn a_pu_is_on_its_node() {
        assert_eq!(node_of_pu(&machine(), PuId(6)), Some(NodeId(3)));
        assert_eq!(nodes_of_pus(&machine(), [0, 1, 2].map(PuId)), nodes("0-1"));
    }

    #[test]
    fn nodes_that_cannot_be_had_are_refused_with_those_that_can() {
        for (named, texts) in [
            ("0,7", ["no NUMA node 7", "0-5"]),
            ("2", ["node 2 is not allowed", "0-1,3-5"]),
            ("5", ["node 5 has no memory", "0-1,3-4"]),
        ] {
            let error = of(PageMapping::Bind(nodes(named)), "0").unwrap_err().to_string();
            assert!(texts.iter().all(|text| error.contains(text)), "{error}");
        }
    }

    #[test]
    fn where_no_node_is_known_pages_stay_with_the_threads_that_touch_them() {
        let mut builder = TopologyBuilder::new("no nodes");
        builder.pu(builder.root(), PuId(0));
        let machine = builder.build_all().unwrap();
        let of = |mapping| spread(mapping, &machine, &NodeSet::default(), |_| 1);
        assert_eq!(of(PageMapping::FirstTouch), Ok(None));
        assert_eq!(of(PageMapping::Local), Ok(None));
        for mapping in [
            PageMapping::Interleave,
            PageMapping::Remote,
            PageMapping::Single(NodeId(0)),
        ] {
            assert_eq!(of(mapping), Err(Unavailable::NoNodes));
        }
    }

    #[test]
    fn what_depends_on_accesses_is_not_decided_by_address() {
        for mapping in [PageMapping::Locality, PageMapping::Balance] {
            assert_eq!(of(mapping, "0"), Ok(None));
        }
    }

    proptest! {
        #[test]
        fn what_is_named_is_ours_or_refused(named in proptest::collection::btree_set(0u32..8, 1..4), kind in 0..5) {
            let set: NodeSet = named.iter().copied().map(NodeId).collect();
            let first = set.first().unwrap();
            let mapping = match kind {
                0 => PageMapping::Bind(set),
                1 => PageMapping::InterleaveOver(set),
                2 => PageMapping::WeightedInterleave(set),
                3 => PageMapping::Preferred(first),
                _ => PageMapping::Single(first),
            };
            let ours = memory_nodes(&machine());
            match of(mapping, "0") {
                Ok(Some(spread)) => {
                    prop_assert_eq!(spread.nodes(), mapping.named());
                    prop_assert!(spread.nodes().difference(&ours).is_empty());
                }
                Ok(None) => prop_assert!(false, "{} is no first touch", mapping),
                Err(_) => prop_assert!(!mapping.named().difference(&ours).is_empty()),
            }
        }
    }
}
