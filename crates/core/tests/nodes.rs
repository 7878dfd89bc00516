//! NUMA nodes of any description: sets of PUs that overlap, nodes without PUs, and nodes that cut across packages.

use pinfold_core::memory::{node_of_pu, nodes_of_pus};
use pinfold_core::placement::{NamedPlacement, Placements};
use pinfold_core::{NodeId, NumaNode, ObjectKind, PuId, PuSet, Topology, TopologyBuilder};
use proptest::prelude::*;
use std::collections::BTreeSet;

const NAMES: [&str; 8] = [
    "compact",
    "scatter",
    "close",
    "spread",
    "packed",
    "distributed",
    "slP",
    "SLp",
];

/// Packages of cores with PUs, where the second PUs come after all first ones, and nodes with these PUs and subtypes.
fn machine(
    [packages, cores, siblings]: [u32; 3],
    nodes: &[(BTreeSet<u32>, Option<&str>)],
    allowed: &BTreeSet<u32>,
) -> Option<Topology> {
    let mut builder = TopologyBuilder::new("any");
    let root = builder.root();
    for package in 0..packages {
        let object = builder.object(root, ObjectKind::Package, Some(package));
        for core in package * cores..(package + 1) * cores {
            let parent = builder.object(object, ObjectKind::Core, Some(core));
            for sibling in 0..siblings {
                builder.pu(parent, PuId(core + sibling * packages * cores));
            }
        }
    }
    let all = packages * cores * siblings;
    for (id, (pus, subtype)) in (0..).zip(nodes) {
        builder.node(NumaNode {
            id: NodeId(id),
            attached_to: root,
            pus: pus.iter().filter(|&&pu| pu < all).copied().map(PuId).collect(),
            memory: Some(1 << 30),
            subtype: subtype.map(str::to_owned),
        });
    }
    let ids: Vec<NodeId> = (0..).take(nodes.len()).map(NodeId).collect();
    let allowed: PuSet = allowed.iter().copied().map(PuId).collect();
    builder.build(&allowed, &ids).ok()
}

fn machines() -> impl Strategy<Value = Topology> {
    let pus = || proptest::collection::btree_set(0u32..12, 0..12);
    let subtype = prop_oneof![
        Just(None),
        Just(Some("DRAM")),
        Just(Some("GPUMemory")),
        Just(Some("HBM"))
    ];
    let nodes = proptest::collection::vec((pus(), subtype), 0..5);
    let shape = [1u32..4, 1..3, 1..3];
    (shape, nodes, pus()).prop_filter_map("no PU is allowed", |(shape, nodes, allowed)| {
        machine(shape, &nodes, &allowed)
    })
}

proptest! {
    #[test]
    fn a_pu_belongs_to_one_node_at_most(machine in machines()) {
        let mut seen = PuSet::new();
        for node in machine.nodes() {
            for pu in node.pus.iter() {
                prop_assert!(seen.insert(pu), "PU {} is in two nodes", pu);
                prop_assert_eq!(node_of_pu(&machine, pu), Some(node.id));
            }
        }
    }

    #[test]
    fn ranks_are_distinct_wherever_there_are_as_many_pus(
        machine in machines(), name in proptest::sample::select(&NAMES[..]), part in any::<prop::sample::Index>()
    ) {
        let threads = 1 + part.index(machine.allowed_pus().len());
        let placement: NamedPlacement = name.parse().unwrap();
        let ranks = placement.pinning(&machine, threads);
        let pus: PuSet = ranks.pus().iter().copied().collect();
        prop_assert_eq!((ranks.pus().len(), pus.len()), (threads, threads), "{} of {} threads: {}", name, threads, ranks);
        prop_assert!(pus.is_subset(machine.allowed_pus()));
    }
}

/// Two packages of two cores with two PUs, and two nodes of one core of each package.
fn cut() -> Topology {
    let nodes = [([0, 2, 4, 6].into(), None), ([1, 3, 5, 7].into(), None)];
    machine([2, 2, 2], &nodes, &(0..8).collect()).unwrap()
}

#[test]
fn thread_maps_follow_nodes_that_cut_across_packages() {
    let cut = cut();
    let of = |name: &str| name.parse::<NamedPlacement>().unwrap().pinning(&cut, 4).to_string();
    assert_eq!(of("compact"), "0,2,1,3");
    assert_eq!(of("scatter"), "0-3");
}

#[test]
fn placements_on_one_and_on_two_nodes_that_cut_across_packages_differ() {
    let cut = cut();
    let package = |&pu: &PuId| pu.0 % 4 / 2;
    let packages_and_nodes: BTreeSet<(usize, usize)> = Placements::new(&cut, 2)
        .unwrap()
        .iter()
        .map(|pinning| {
            let packages: BTreeSet<u32> = pinning.pus().iter().map(package).collect();
            (packages.len(), nodes_of_pus(&cut, pinning.pus().iter().copied()).len())
        })
        .collect();
    assert_eq!(packages_and_nodes, [(1, 1), (1, 2), (2, 1), (2, 2)].into());
}
