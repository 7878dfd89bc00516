//! The candidates that come from the topology: what is in the list, in which order, and that choosing moves nothing.

#[path = "support/hybrid.rs"]
mod hybrid;
#[path = "support/synthetic.rs"]
mod synthetic;

use hybrid::{gb10, hybrid};
use pinfold_core::placement::different::{distributed, from_topology, packed};
use pinfold_core::placement::{Placements, distance};
use pinfold_core::{CoreKind, ObjectKind, Pinning, PuId, PuSet, Topology, TopologyBuilder};
use proptest::prelude::*;
use synthetic::{cache, synthetic};

fn texts(pinnings: &[Pinning]) -> Vec<String> {
    pinnings.iter().map(ToString::to_string).collect()
}

fn numbers(pus: &[PuId]) -> Vec<u32> {
    pus.iter().map(|pu| pu.0).collect()
}

fn set(pinning: &Pinning) -> PuSet {
    pinning.pus().iter().copied().collect()
}

/// How many threads each package has, the fullest first, and in each how many each of its caches has.
fn loads(topology: &Topology, pinning: &Pinning) -> Vec<Vec<usize>> {
    let pus = set(pinning);
    let load = |object: &pinfold_core::Object| object.pus.intersection(&pus).len();
    let mut packages: Vec<Vec<usize>> = topology
        .objects_of(ObjectKind::Package)
        .map(|(_, package)| {
            let caches = topology.objects_of(ObjectKind::Cache).map(|(_, cache)| cache);
            let mut caches: Vec<usize> = caches
                .filter(|cache| cache.pus.is_subset(&package.pus))
                .map(load)
                .collect();
            caches.sort_unstable_by_key(|&load| std::cmp::Reverse(load));
            caches
        })
        .collect();
    packages.sort();
    packages.reverse();
    packages
}

#[test]
fn distributed_takes_packages_then_caches_then_cores_and_second_pus_last() {
    let topology = synthetic("package:2 l3:2 core:2 pu:2");
    let expected = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15];
    assert_eq!(numbers(&distributed(&topology)), expected);
}

#[test]
fn packed_fills_one_core_cache_and_package_after_the_other() {
    let topology = synthetic("package:2 l3:2 core:2 pu:2");
    assert_eq!(numbers(&packed(&topology)), (0..16).collect::<Vec<u32>>());
}

#[test]
fn packed_begins_with_the_object_that_holds_the_most() {
    let topology = synthetic("package:2 core:3 pu:1")
        .restricted_to(&"1-5".parse().unwrap())
        .unwrap();
    assert_eq!(numbers(&packed(&topology)), [3, 4, 5, 1, 2]);
}

#[test]
fn a_small_package_lends_its_second_pus_last() {
    // One core of two PUs in package 0, three in package 1.
    let topology = synthetic("package:2 core:3 pu:2")
        .restricted_to(&"0-1,6-11".parse().unwrap())
        .unwrap();
    assert_eq!(numbers(&distributed(&topology)), [0, 6, 8, 10, 1, 7, 9, 11]);
}

#[test]
fn of_equals_the_faster_core_is_taken() {
    let mut builder = TopologyBuilder::new("slow cores come first");
    let root = builder.root();
    for pu in 0..4 {
        let core = builder.object(root, ObjectKind::Core, None);
        builder.pu(core, PuId(pu));
    }
    for (efficiency, pus) in [(0, "0-1"), (1, "2-3")] {
        builder.core_kind(CoreKind {
            pus: pus.parse().unwrap(),
            efficiency: Some(efficiency),
            info: vec![],
        });
    }
    let topology = builder.build_all().unwrap();
    assert_eq!(numbers(&distributed(&topology)), [2, 3, 0, 1]);
}

#[test]
fn a_candidate_is_on_the_fastest_cores_that_its_equals_have() {
    let slow = ["0-4,10-14", "0,1,3"].map(|list| list.parse::<PuSet>().unwrap());
    let machines = [
        (gb10(), 10, &slow[0], 8),
        (hybrid("small", 2, 4, &slow[1]), 4, &slow[1], 3),
    ];
    for (topology, cores, slow, threads) in machines {
        for pinning in from_topology(&topology, threads, usize::MAX) {
            let pus = set(&pinning);
            let slow_ones = |cache: u32| {
                let mine: PuSet = (cache * cores..(cache + 1) * cores).map(PuId).collect();
                let used = mine.intersection(&pus);
                let idle_and_fast = mine.difference(&pus).difference(slow);
                (used.intersection(slow).len(), idle_and_fast.len())
            };
            for cache in 0..2 {
                let (used_slow, idle_fast) = slow_ones(cache);
                assert!(used_slow == 0 || idle_fast == 0, "{}: {pinning}", topology.name());
            }
        }
    }
    assert_eq!(set(&from_topology(&gb10(), 8, 1)[0]), "5-8,15-18".parse().unwrap());
}

#[test]
fn the_extremes_of_the_opteron_are_autofinitys_hints() {
    let topology = synthetic("package:4 numa:2 l3:1 core:6 pu:1");
    // Few or many sockets, few or many caches, the one or the other first: of eight hints the two that want many of
    // both are the same, and so are the two that want few of both; many caches leave no choice of sockets.
    let mut found: Vec<Vec<Vec<usize>>> = from_topology(&topology, 8, usize::MAX)
        .iter()
        .map(|pinning| loads(&topology, pinning))
        .collect();
    found.sort();
    found.dedup();
    let none = vec![0, 0];
    let expected = [
        vec![vec![1, 1]; 4],
        vec![vec![2, 0]; 4],
        vec![vec![4, 4], none.clone(), none.clone(), none.clone()],
        vec![vec![6, 0], vec![2, 0], none.clone(), none.clone()],
        vec![vec![6, 2], none.clone(), none.clone(), none],
    ];
    assert_eq!(found, expected);
}

#[test]
fn few_placements_are_all_candidates() {
    let topology = synthetic("package:2 core:4 pu:1");
    let candidates = from_topology(&topology, 4, usize::MAX);
    let mut splits: Vec<usize> = candidates
        .iter()
        .map(|pinning| pinning.pus().iter().filter(|pu| pu.0 < 4).count())
        .collect();
    splits.sort_unstable();
    splits.dedup();
    assert_eq!(splits, [2, 3, 4]);
}

#[test]
fn a_placement_comes_in_block_and_in_cyclic_order() {
    let topology = synthetic("package:2 core:2 pu:1");
    assert_eq!(texts(&from_topology(&topology, 4, 10)), ["0,2,1,3", "0-3"]);
}

#[test]
fn the_most_different_candidate_is_second() {
    let topology = synthetic("package:2 l3:2 core:4 pu:1");
    let candidates = from_topology(&topology, 4, usize::MAX);
    let first = &candidates[0];
    let farthest = candidates
        .iter()
        .map(|other| distance(&topology, first, other))
        .max()
        .unwrap();
    assert_eq!(distance(&topology, first, &candidates[1]), farthest);
    assert_eq!(texts(&candidates)[..2], ["0,8,4,12", "0-3"]);
}

#[test]
fn placements_that_no_pair_of_ranks_distinguishes_are_both_tried() {
    let mut builder = TopologyBuilder::new("two different caches");
    let root = builder.root();
    for (pu, ways) in [(0, 8), (1, 16)] {
        let mut l2 = cache(2);
        l2.ways = Some(ways);
        let l2 = builder.cache(root, l2);
        builder.pu(l2, PuId(pu));
    }
    assert_eq!(texts(&from_topology(&builder.build_all().unwrap(), 1, 10)), ["0", "1"]);
}

#[test]
fn one_thread_on_a_symmetric_machine_has_one_candidate() {
    let topology = synthetic("package:2 l3:2 core:4 pu:2");
    assert_eq!(texts(&from_topology(&topology, 1, 10)), ["0"]);
}

#[test]
fn more_threads_than_pus_try_the_orders_of_all_pus() {
    let topology = synthetic("package:2 core:2 pu:1");
    assert_eq!(from_topology(&topology, 7, 10), from_topology(&topology, 4, 10));
}

#[test]
fn no_threads_have_no_candidates() {
    assert!(from_topology(&synthetic("core:2 pu:1"), 0, 10).is_empty());
}

/// Machines with few and with many placements, with and without a third of their PUs.
fn machine() -> impl Strategy<Value = Topology> {
    let shapes = prop_oneof![
        Just("package:2 l3:2 core:2 pu:2"),
        Just("package:4 numa:2 l3:1 core:6 pu:1"),
        Just("package:3 core:3 pu:1"),
        Just("pu:5"),
        Just("package:2 die:2 l3:2 l2:2 core:2 pu:2"),
    ];
    (shapes, any::<bool>()).prop_map(|(shape, whole)| {
        let topology = synthetic(shape);
        let some: PuSet = topology
            .allowed_pus()
            .iter()
            .filter(|pu| whole || pu.0 % 3 != 0)
            .collect();
        topology.restricted_to(&some).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_first_candidate_is_the_start_of_distributed(topology in machine(), threads in 1usize..64) {
        let candidates = from_topology(&topology, threads, 1);
        let start: Vec<PuId> = distributed(&topology).into_iter().take(threads).collect();
        prop_assert_eq!(candidates[0].pus(), start);
    }

    #[test]
    fn candidates_are_placements_that_are_not_repeated(
        topology in machine(),
        threads in 1usize..64,
        most in 0usize..12,
    ) {
        let threads = threads.min(topology.allowed_pus().len());
        let candidates = from_topology(&topology, threads, most);
        prop_assert!(candidates.len() <= most);
        let placements = Placements::new(&topology, threads).unwrap();
        for (position, a) in candidates.iter().enumerate() {
            prop_assert_eq!(set(a).len(), threads);
            prop_assert!(set(a).is_subset(topology.allowed_pus()));
            for b in &candidates[..position] {
                let same = placements.representative(&set(a)) == placements.representative(&set(b));
                prop_assert!(!same || distance(&topology, a, b) > 0, "{} and {}", a, b);
            }
        }
    }

    #[test]
    fn a_shorter_list_is_the_start_of_a_longer_one(topology in machine(), threads in 1usize..64, most in 0usize..12) {
        let long = from_topology(&topology, threads, 12);
        let short = from_topology(&topology, threads, most);
        prop_assert_eq!(&long[..short.len()], &short[..]);
        prop_assert_eq!(short.len(), most.min(long.len()));
    }

    #[test]
    fn both_orders_have_every_allowed_pu_once(topology in machine()) {
        for order in [distributed(&topology), packed(&topology)] {
            prop_assert_eq!(order.len(), topology.allowed_pus().len());
            prop_assert_eq!(&order.into_iter().collect::<PuSet>(), topology.allowed_pus());
        }
    }
}
