//! Placements against brute force that knows nothing of classes, polynomials or sorted arrangements: two sets of PUs
//! are the same placement when a search through the bijections between siblings finds an automorphism that carries
//! one to the other.

#[path = "support/synthetic.rs"]
mod synthetic;

use pinfold_core::placement::{PlacementError, Placements};
use pinfold_core::{CoreKind, NodeId, NumaNode, ObjectId, ObjectKind, Pinning, PuId, PuSet, Topology, TopologyBuilder};
use proptest::prelude::*;
use std::collections::BTreeSet;
use synthetic::{cache, synthetic};

fn count(topology: &Topology, threads: usize) -> String {
    Placements::new(topology, threads).unwrap().count().to_string()
}

// ---- Automorphisms, straight from the definition. ----

/// Whether an isomorphism from the subtree at `x` to that at `y` carries `from` to `to`.
fn carries(topology: &Topology, x: ObjectId, from: &PuSet, y: ObjectId, to: &PuSet) -> bool {
    let (a, b) = (topology.object(x), topology.object(y));
    if a.kind != b.kind || a.cache != b.cache || nodes_at(topology, x) != nodes_at(topology, y) {
        return false;
    }
    if a.kind == ObjectKind::Pu {
        let kind = |pus: &PuSet| topology.core_kinds().iter().position(|kind| pus.is_subset(&kind.pus));
        return kind(&a.pus) == kind(&b.pus) && a.pus.is_subset(from) == b.pus.is_subset(to);
    }
    let living = |id: ObjectId| -> Vec<ObjectId> {
        let has_pus = |child: &ObjectId| {
            let pus = &topology.object(*child).pus;
            !pus.intersection(topology.allowed_pus()).is_empty()
        };
        topology.object(id).children.iter().copied().filter(has_pus).collect()
    };
    let (left, right) = (living(x), living(y));
    left.len() == right.len() && pair_up(topology, &left, from, &right, to)
}

/// Whether the objects of `left` can be paired with those of `right` so that each pair carries `from` to `to`.
fn pair_up(topology: &Topology, left: &[ObjectId], from: &PuSet, right: &[ObjectId], to: &PuSet) -> bool {
    let Some((&first, rest)) = left.split_first() else {
        return true;
    };
    right.iter().enumerate().any(|(position, &partner)| {
        let mut others = right.to_vec();
        others.remove(position);
        carries(topology, first, from, partner, to) && pair_up(topology, rest, from, &others, to)
    })
}

fn nodes_at(topology: &Topology, object: ObjectId) -> Vec<Option<bool>> {
    let mut nodes: Vec<Option<bool>> = topology
        .nodes()
        .iter()
        .filter(|node| node.attached_to == object)
        .map(|node| node.memory.map(|bytes| bytes > 0))
        .collect();
    nodes.sort();
    nodes
}

fn same_placement(topology: &Topology, a: &PuSet, b: &PuSet) -> bool {
    carries(topology, topology.root(), a, topology.root(), b)
}

/// One set of PUs out of each orbit of the sets with `threads` PUs.
fn orbits(topology: &Topology, threads: usize) -> Vec<PuSet> {
    let allowed: Vec<PuId> = topology.allowed_pus().iter().collect();
    let mut orbits: Vec<PuSet> = vec![];
    for chosen in 0u32..1 << allowed.len() {
        if chosen.count_ones() as usize != threads {
            continue;
        }
        let set: PuSet = (0..allowed.len())
            .filter(|bit| chosen >> bit & 1 == 1)
            .map(|bit| allowed[bit])
            .collect();
        if !orbits.iter().any(|known| same_placement(topology, known, &set)) {
            orbits.push(set);
        }
    }
    orbits
}

fn set(pinning: &Pinning) -> PuSet {
    pinning.pus().iter().copied().collect()
}

// ---- Counting. ----

#[test]
fn the_opteron_has_as_many_placements_as_the_paper_should_have_printed() {
    let opteron = synthetic("package:4 numa:2 l3:1 core:6 pu:1");
    let counts = [4, 8, 16, 24].map(|threads| count(&opteron, threads));
    assert_eq!(counts, ["11", "80", "912", "1979"]);
}

/// In the paper `autofinity-2012.txt` an affinity says how many threads each last-level cache has, where caches of a
/// package are not distinguished, nor packages. It prints 78 and 1941 of them for 8 and 24 threads on four packages
/// with two caches of six cores each (sections 2 and 3.1). Its own definition gives 80 and 1979.
#[test]
fn brute_force_over_autofinitys_definition_agrees_with_us_and_not_with_its_figures() {
    let mut packages: BTreeSet<[u32; 2]> = BTreeSet::new();
    for a in 0..=6 {
        for b in 0..=6 {
            let mut loads = [a, b];
            loads.sort_unstable();
            packages.insert(loads);
        }
    }
    let packages: Vec<[u32; 2]> = packages.into_iter().collect();
    let mut affinities: BTreeSet<(u32, [[u32; 2]; 4])> = BTreeSet::new();
    for a in &packages {
        for b in &packages {
            for c in &packages {
                for d in &packages {
                    let mut machine = [*a, *b, *c, *d];
                    machine.sort_unstable();
                    affinities.insert((machine.iter().flatten().sum(), machine));
                }
            }
        }
    }
    let opteron = synthetic("package:4 numa:2 l3:1 core:6 pu:1");
    for (threads, printed, expected) in [(8, 78, 80), (24, 1941, 1979)] {
        let brute = affinities.iter().filter(|(sum, _)| *sum == threads).count();
        assert_eq!(brute, expected);
        assert_ne!(brute, printed);
        assert_eq!(count(&opteron, threads as usize), expected.to_string());
    }
}

#[test]
fn sixty_four_threads_on_two_packages_of_twelve_caches_are_counted_and_not_enumerated() {
    let epyc = synthetic("package:2 l3:12 core:8 pu:1");
    assert_eq!(count(&epyc, 64), "38580711");
}

#[test]
fn numbers_beyond_64_bits_are_counted() {
    let mut builder = TopologyBuilder::new("no two alike");
    for pu in 0..160 {
        let mut cache = cache(3);
        cache.size = Some(u64::from(pu));
        let root = builder.root();
        let object = builder.cache(root, cache);
        builder.pu(object, PuId(pu));
    }
    let any_half = count(&builder.build_all().unwrap(), 80);
    // The binomial coefficient of 160 and 80.
    assert_eq!(any_half, "92045125813734238026462263037378063990076729140");
}

#[test]
fn orbits_of_small_machines_are_counted_right() {
    for description in [
        "pu:6",
        "core:4 pu:2",
        "package:2 core:2 pu:2",
        "package:3 core:3 pu:1",
        "package:2 numa:1 l3:2 core:2 pu:1",
        "l3:2 core:2 pu:2",
    ] {
        let topology = synthetic(description);
        for threads in 1..=topology.allowed_pus().len() {
            let expected = orbits(&topology, threads).len().to_string();
            assert_eq!(count(&topology, threads), expected, "{description}, {threads} threads");
        }
    }
}

#[test]
fn kinds_of_cores_break_the_symmetry() {
    let mut builder = TopologyBuilder::new("two fast, two slow");
    let root = builder.root();
    for pu in 0..4 {
        let core = builder.object(root, ObjectKind::Core, None);
        builder.pu(core, PuId(pu));
    }
    for (efficiency, pus) in [(0, "2-3"), (1, "0-1")] {
        builder.core_kind(CoreKind {
            pus: pus.parse().unwrap(),
            efficiency: Some(efficiency),
            info: vec![],
        });
    }
    let topology = builder.build_all().unwrap();
    assert_eq!(count(&topology, 2), "3");
}

/// Two packages with a node each.
fn two_nodes(memory: [u64; 2], allowed: &[NodeId]) -> Topology {
    let mut builder = TopologyBuilder::new("two nodes");
    let root = builder.root();
    for (pu, memory) in (0..).zip(memory) {
        let package = builder.object(root, ObjectKind::Package, None);
        builder.pu(package, PuId(pu));
        builder.node(NumaNode {
            id: NodeId(pu),
            attached_to: package,
            pus: [PuId(pu)].into_iter().collect(),
            memory: Some(memory),
            subtype: None,
        });
    }
    builder.build(&"0-1".parse().unwrap(), allowed).unwrap()
}

#[test]
fn a_node_without_memory_breaks_the_symmetry_and_one_with_a_little_less_does_not() {
    let both = [NodeId(0), NodeId(1)];
    assert_eq!(count(&two_nodes([1000, 1001], &both), 1), "1");
    assert_eq!(count(&two_nodes([1000, 0], &both), 1), "2");
}

#[test]
fn a_node_that_may_not_be_used_breaks_the_symmetry() {
    assert_eq!(count(&two_nodes([1000, 1000], &[NodeId(0)]), 1), "2");
}

#[test]
fn pus_that_are_not_allowed_do_not_exist() {
    let topology = synthetic("package:3 core:2 pu:2");
    // All of package 0, one thread of each core of package 1, nothing of package 2.
    let topology = topology.restricted_to(&"0-3,4,6".parse().unwrap()).unwrap();
    for threads in 1..=6 {
        assert_eq!(count(&topology, threads), orbits(&topology, threads).len().to_string());
    }
}

// ---- Enumeration. ----

#[test]
fn the_lowest_numbered_pus_are_taken_and_the_most_packed_placement_comes_first() {
    let topology = synthetic("package:2 core:2 pu:2");
    let all: Vec<String> = Placements::new(&topology, 3)
        .unwrap()
        .iter()
        .map(|pinning| pinning.to_string())
        .collect();
    assert_eq!(all, ["0-2", "0,1,4", "0,2,4"]);
}

#[test]
fn the_first_of_very_many_placements_come_without_the_others() {
    let epyc = synthetic("package:2 l3:12 core:8 pu:2");
    let placements = Placements::new(&epyc, 192).unwrap();
    let many: u128 = placements.count().to_string().parse().unwrap();
    assert!(many > 100_000_000_000);
    let first: BTreeSet<String> = placements.iter().take(10).map(|pinning| pinning.to_string()).collect();
    assert_eq!(first.len(), 10);
}

#[test]
fn every_placement_of_the_opteron_is_visited_once() {
    let opteron = synthetic("package:4 numa:2 l3:1 core:6 pu:1");
    let placements = Placements::new(&opteron, 24).unwrap();
    let visited: BTreeSet<String> = placements.iter().map(|pinning| pinning.to_string()).collect();
    assert_eq!((visited.len(), placements.iter().count()), (1979, 1979));
}

#[test]
fn no_threads_and_too_many_threads_are_errors_that_name_both_numbers() {
    let topology = synthetic("core:2 pu:2");
    let error = Placements::new(&topology, 5).unwrap_err();
    assert!(matches!(
        error,
        PlacementError::TooManyThreads {
            threads: 5,
            allowed: 4,
            ..
        }
    ));
    assert!(error.to_string().contains("ask for at most 4 threads"), "{error}");
    let error = Placements::new(&topology, 0).unwrap_err().to_string();
    assert!(error.contains('0') && error.contains("1 to 4"), "{error}");
}

#[test]
fn only_as_many_allowed_pus_as_threads_have_a_representative() {
    let topology = synthetic("package:2 core:2 pu:1")
        .restricted_to(&"0-2".parse().unwrap())
        .unwrap();
    let placements = Placements::new(&topology, 2).unwrap();
    let of = |pus: &str| {
        placements
            .representative(&pus.parse().unwrap())
            .map(|pinning| pinning.to_string())
    };
    assert_eq!(of("1-2"), Some("0,2".to_owned()));
    assert_eq!(of("1,3"), None);
    assert_eq!(of("1"), None);
}

// ---- Random machines. ----

/// A small tree: what an object has in it, and how it differs from others.
#[derive(Clone, Debug)]
enum Part {
    Pu,
    Core(u32),
    Cache(Vec<Part>),
    Package { memory: u64, parts: Vec<Part> },
}

fn part() -> impl Strategy<Value = Part> {
    let leaf = prop_oneof![Just(Part::Pu), (1u32..=2).prop_map(Part::Core)];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..=3).prop_map(Part::Cache),
            (0u64..2, proptest::collection::vec(inner, 1..=3))
                .prop_map(|(memory, parts)| Part::Package { memory, parts }),
        ]
    })
}

fn build(builder: &mut TopologyBuilder, parent: ObjectId, part: &Part, numbers: &mut Vec<u32>, nodes: &mut u32) {
    match part {
        Part::Pu => {
            if let Some(pu) = numbers.pop() {
                builder.pu(parent, PuId(pu));
            }
        }
        Part::Core(threads) => {
            let core = builder.object(parent, ObjectKind::Core, None);
            for _ in 0..*threads {
                build(builder, core, &Part::Pu, numbers, nodes);
            }
        }
        Part::Cache(parts) => {
            let object = builder.cache(parent, cache(3));
            for part in parts {
                build(builder, object, part, numbers, nodes);
            }
        }
        Part::Package { memory, parts } => {
            let package = builder.object(parent, ObjectKind::Package, None);
            for part in parts {
                build(builder, package, part, numbers, nodes);
            }
            builder.node(NumaNode {
                id: NodeId(*nodes),
                attached_to: package,
                pus: PuSet::new(),
                memory: Some(*memory),
                subtype: None,
            });
            *nodes += 1;
        }
    }
}

/// A machine of up to eight PUs, numbered in any order, some of them slow and some not allowed.
fn machine() -> impl Strategy<Value = Topology> {
    let parts = proptest::collection::vec(part(), 1..=3);
    let numbers = Just((0..8).collect::<Vec<u32>>()).prop_shuffle();
    let slow = prop_oneof![Just(None), (0u32..256).prop_map(Some)];
    let forbidden = prop_oneof![Just(0u32), 0u32..256];
    (parts, numbers, slow, forbidden).prop_filter_map("no PU is left", |(parts, mut numbers, slow, forbidden)| {
        let mut builder = TopologyBuilder::new("random");
        let root = builder.root();
        let mut nodes = 0;
        for part in &parts {
            build(&mut builder, root, part, &mut numbers, &mut nodes);
        }
        let pus = |bits: u32| -> PuSet { (0..8).filter(|bit| bits >> bit & 1 == 1).map(PuId).collect() };
        for bits in slow.iter().flat_map(|&slow| [slow, !slow]) {
            builder.core_kind(CoreKind {
                pus: pus(bits),
                efficiency: None,
                info: vec![],
            });
        }
        let nodes: Vec<NodeId> = (0..nodes).map(NodeId).collect();
        builder.build(&pus(!forbidden), &nodes).ok()
    })
}

proptest! {
    // The brute force makes a machine cost some tens of milliseconds.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn on_any_machine_each_placement_is_visited_exactly_once(topology in machine()) {
        for threads in 1..=topology.allowed_pus().len() {
            let placements = Placements::new(&topology, threads).unwrap();
            let visited: Vec<PuSet> = placements.iter().map(|pinning| set(&pinning)).collect();
            for (position, a) in visited.iter().enumerate() {
                prop_assert_eq!(a.len(), threads);
                prop_assert!(a.is_subset(topology.allowed_pus()));
                for b in &visited[..position] {
                    prop_assert!(!same_placement(&topology, a, b), "{} and {} are the same", a, b);
                }
            }
            prop_assert_eq!(visited.len(), orbits(&topology, threads).len());
            prop_assert_eq!(placements.count().to_string(), visited.len().to_string());
        }
    }

    #[test]
    fn any_pus_are_represented_by_the_placement_that_is_visited(topology in machine(), chosen in 1u32..256) {
        let pus: PuSet = topology.allowed_pus().iter().filter(|pu| chosen >> pu.0 & 1 == 1).collect();
        prop_assume!(!pus.is_empty());
        let placements = Placements::new(&topology, pus.len()).unwrap();
        let representative = placements.representative(&pus).unwrap();
        prop_assert!(same_placement(&topology, &pus, &set(&representative)));
        prop_assert!(placements.iter().any(|visited| visited == representative));
    }
}
