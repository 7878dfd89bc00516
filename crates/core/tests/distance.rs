//! The distance between pinnings: what it counts, and that the machine's symmetries do not change it.

#[path = "support/synthetic.rs"]
mod synthetic;

use pinfold_core::placement::{Levels, distance};
use pinfold_core::{CoreKind, ObjectKind, Pinning, PuId, PuSet, Topology, TopologyBuilder};
use proptest::prelude::*;
use synthetic::{cache, synthetic};

fn pinning(list: &str) -> Pinning {
    Pinning::new(PuSet::parse_ordered(list).unwrap()).unwrap()
}

fn between(topology: &Topology, a: &str, b: &str) -> u64 {
    distance(topology, &pinning(a), &pinning(b))
}

#[test]
fn each_level_that_branches_and_is_shared_counts_one() {
    // Per package: cache 0 with cores {0,1} and {2,3}, cache 1 with {4,5} and {6,7}.
    let topology = synthetic("package:2 l3:2 core:2 pu:2");
    assert_eq!(between(&topology, "0,1", "0,1"), 0);
    assert_eq!(between(&topology, "0,1", "0,2"), 1);
    assert_eq!(between(&topology, "0,1", "0,4"), 2);
    assert_eq!(between(&topology, "0,1", "0,8"), 3);
    assert_eq!(between(&topology, "0,0", "0,8"), 4);
}

#[test]
fn a_level_with_one_object_in_each_outer_one_does_not_count_twice() {
    let topology = synthetic("package:2 l3:1 l2:1 core:2 pu:1");
    assert_eq!(between(&topology, "0,1", "0,2"), 1);
    let levels = Levels::new(&topology);
    assert_eq!(levels.kinds(), [ObjectKind::Cache]);
}

#[test]
fn the_order_of_ranks_counts_and_not_the_set_of_pus_only() {
    let topology = synthetic("package:2 core:2 pu:1");
    // Block 0,1 | 2,3 against cyclic 0,2 | 1,3: pairs 01 and 23 were together, 02 and 13 are.
    assert_eq!(between(&topology, "0,1,2,3", "0,2,1,3"), 4);
}

#[test]
fn ranks_beyond_the_last_start_again() {
    let topology = synthetic("package:2 core:2 pu:1");
    assert_eq!(between(&topology, "0,1", "0,1,0,1"), 0);
    assert_ne!(between(&topology, "0,1", "0,1,2,3"), 0);
}

#[test]
fn a_rank_on_another_kind_of_core_counts_one() {
    let mut builder = TopologyBuilder::new("hybrid");
    let root = builder.root();
    for pu in 0..2 {
        let core = builder.object(root, ObjectKind::Core, None);
        builder.pu(core, PuId(pu));
        builder.core_kind(CoreKind {
            pus: [PuId(pu)].into_iter().collect(),
            efficiency: Some(pu),
            info: vec![],
        });
    }
    let topology = builder.build_all().unwrap();
    assert_eq!(between(&topology, "0", "1"), 1);
}

#[test]
fn a_pu_without_an_object_of_a_level_shares_nothing_there() {
    // A package whose cores 0 and 1 share a cache, and cores 2 and 3 have none.
    let mut builder = TopologyBuilder::new("lopsided");
    let root = builder.root();
    let package = builder.object(root, ObjectKind::Package, None);
    let l2 = builder.cache(package, cache(2));
    for (pu, parent) in (0..).zip([l2, l2, package, package]) {
        let core = builder.object(parent, ObjectKind::Core, None);
        builder.pu(core, PuId(pu));
    }
    let topology = builder.build_all().unwrap();
    assert_eq!(between(&topology, "0,1", "2,3"), 1);
    assert_eq!(between(&topology, "0,2", "2,3"), 0);
}

#[test]
fn a_pu_that_is_not_allowed_shares_nothing() {
    let topology = synthetic("package:2 core:2 pu:1")
        .restricted_to(&"0-2".parse().unwrap())
        .unwrap();
    assert_eq!(between(&topology, "2,3", "0,2"), 0);
    assert_eq!(between(&topology, "2,3", "0,1"), 1);
}

/// A symmetry of `package:2 l3:2 core:2 pu:2`, a binary tree of four levels: each of its fifteen inner nodes swaps its
/// two children or does not.
fn swapped(pinning: &Pinning, swaps: u32) -> Pinning {
    let image = |pu: &PuId| {
        let mut node = 1;
        let mut image = 0;
        for level in (0..4).rev() {
            let bit = pu.0 >> level & 1;
            image = image << 1 | (bit ^ (swaps >> node & 1));
            node = node << 1 | bit;
        }
        PuId(image)
    };
    Pinning::new(pinning.pus().iter().map(image).collect()).unwrap()
}

fn any_pinning() -> impl Strategy<Value = Pinning> {
    proptest::collection::vec((0u32..16).prop_map(PuId), 6).prop_map(|pus| Pinning::new(pus).unwrap())
}

proptest! {
    #[test]
    fn symmetries_do_not_change_the_distance(a in any_pinning(), b in any_pinning(), swaps in 0u32..1 << 16) {
        let topology = synthetic("package:2 l3:2 core:2 pu:2");
        prop_assert_eq!(distance(&topology, &a, &swapped(&a, swaps)), 0);
        prop_assert_eq!(distance(&topology, &a, &swapped(&b, swaps)), distance(&topology, &a, &b));
    }

    #[test]
    fn the_distance_is_a_pseudometric(a in any_pinning(), b in any_pinning(), c in any_pinning()) {
        let topology = synthetic("package:2 l3:2 core:2 pu:2");
        let ab = distance(&topology, &a, &b);
        prop_assert_eq!(ab, distance(&topology, &b, &a));
        prop_assert!(ab <= distance(&topology, &a, &c) + distance(&topology, &c, &b));
    }
}
