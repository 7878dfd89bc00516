//! The built-in models compared with what the papers say of their machines.

use pinfold_core::{ObjectKind, PuId, PuSet, Topology};
use pinfold_sim::EventSet;
use pinfold_sim::model::{Model, builtin, builtin_names};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Packages, nodes, LLC domains, cores and PUs in the papers and data sheets.
const SHAPES: [(&str, [usize; 5]); 14] = [
    ("clovertown", [2, 1, 4, 8, 8]),
    ("caneland", [4, 1, 8, 16, 16]),
    ("barcelona", [2, 2, 2, 8, 8]),
    ("opteron-6164x4", [4, 8, 8, 48, 48]),
    ("e5-2660v2x2", [2, 2, 2, 20, 40]),
    ("e5-2680v3x2", [2, 4, 4, 24, 24]),
    ("e5-2650lv4x2", [2, 4, 4, 28, 28]),
    ("gold-6140x2", [2, 4, 4, 36, 36]),
    ("gold-6142x2", [2, 2, 2, 32, 64]),
    ("e5-4650x4", [4, 4, 4, 32, 64]),
    ("platinum-8168x2", [2, 2, 2, 48, 96]),
    ("epyc-9654x2", [2, 2, 24, 192, 384]),
    ("epyc-7763x2", [2, 2, 16, 128, 128]),
    ("xeon-8480x2", [2, 2, 2, 112, 224]),
];

fn model(name: &str) -> Model {
    builtin(name).unwrap_or_else(|| panic!("{name} is built in"))
}

fn share_package(topology: &Topology, pus: &PuSet) -> bool {
    topology
        .objects_of(ObjectKind::Package)
        .any(|(_, package)| pus.iter().all(|pu| package.pus.contains(pu)))
}

fn share_cache(topology: &Topology, pus: &PuSet) -> bool {
    topology
        .llc_domains()
        .into_iter()
        .any(|domain| pus.iter().all(|pu| topology.object(domain).pus.contains(pu)))
}

fn packages_used(topology: &Topology, pus: &str) -> usize {
    let pus: PuSet = pus.parse().unwrap();
    topology
        .objects_of(ObjectKind::Package)
        .filter(|(_, package)| !package.pus.intersection(&pus).is_empty())
        .count()
}

fn domains_used(topology: &Topology, pus: &str) -> usize {
    let pus: PuSet = pus.parse().unwrap();
    topology
        .llc_domains()
        .into_iter()
        .filter(|&domain| !topology.object(domain).pus.intersection(&pus).is_empty())
        .count()
}

/// The names of the TOML files of a folder of the repository, sorted.
#[expect(clippy::disallowed_methods, reason = "the test compares with the folder")]
fn files_of(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter_map(|name| name.to_str()?.strip_suffix(".toml").map(str::to_owned));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn every_file_in_machines_is_a_built_in_model() {
    assert_eq!(builtin_names().collect::<Vec<_>>(), files_of("machines"));
}

#[test]
fn every_file_in_events_is_an_event_set() {
    let mut names: Vec<String> = EventSet::all().into_iter().map(|set| set.name).collect();
    names.sort();
    assert_eq!(names, files_of("events"));
}

#[test]
fn every_model_has_the_shape_of_its_machine() {
    for (name, expected) in SHAPES {
        let topology = model(name).topology();
        let count = |kind| topology.objects_of(kind).count();
        let shape = [
            count(ObjectKind::Package),
            topology.nodes().len(),
            topology.llc_domains().len(),
            count(ObjectKind::Core),
            count(ObjectKind::Pu),
        ];
        assert_eq!(shape, expected, "packages, nodes, LLC domains, cores and PUs of {name}");
    }
}

#[test]
fn every_pu_of_a_model_is_found_under_its_core() {
    for name in builtin_names() {
        let model = model(name);
        let topology = model.topology();
        let cores: Vec<_> = topology.objects_of(ObjectKind::Core).collect();
        for pu in 0..u32::try_from(model.pus()).unwrap() {
            let (core, _) = model.core_of_pu(pu).unwrap_or_else(|| panic!("PU {pu} of {name}"));
            assert!(cores[core].1.pus.contains(PuId(pu)), "PU {pu} of {name}");
        }
        assert_eq!(model.core_of_pu(u32::try_from(model.pus()).unwrap()), None, "{name}");
    }
}

/// autopin (2008), section 4.3: pairs on two packages, on one package with a shared cache, on one package without.
#[test]
fn autopins_pairs_of_pus_are_the_three_kinds_that_the_paper_names() {
    let kinds = |name: &str, pairs: [&str; 3]| {
        let topology = model(name).topology();
        pairs.map(|pair| {
            let pus: PuSet = pair.parse().unwrap();
            (share_package(&topology, &pus), share_cache(&topology, &pus))
        })
    };
    let apart_alone_together = [(false, false), (true, false), (true, true)];
    assert_eq!(kinds("clovertown", ["2,6", "4,5", "4,6"]), apart_alone_together);
    assert_eq!(kinds("caneland", ["1,2", "1,7", "1,8"]), apart_alone_together);
}

#[test]
fn cores_0_and_2_of_clovertown_share_a_cache() {
    assert!(share_cache(&model("clovertown").topology(), &"0,2".parse().unwrap()));
}

/// autopin (2008), section 4.3: the thread that runs alone is on another package than core 0.
#[test]
fn autopins_single_thread_is_not_on_the_package_of_core_0() {
    for (name, pair) in [("clovertown", "0,4"), ("caneland", "0,1"), ("barcelona", "0,1")] {
        assert!(
            !share_package(&model(name).topology(), &pair.parse().unwrap()),
            "{name}"
        );
    }
}

/// autopin (2008), section 4.3 and table 2: packages and caches that each pinning of several threads uses.
#[test]
fn autopins_larger_pinnings_use_the_packages_and_caches_that_the_paper_names() {
    let pinnings = [
        ("clovertown", "4,5,6,7", 1, 2),
        ("clovertown", "2,3,6,7", 2, 4),
        ("clovertown", "1,3,5,7", 2, 2),
        ("caneland", "1,7,8,9", 1, 2),
        ("caneland", "1,8,2,11", 2, 2),
        ("caneland", "5,8,11,14", 4, 4),
        ("caneland", "8,9,11,12", 2, 4),
        ("caneland", "1,7,8,9,2,10,11,12", 2, 4),
        ("caneland", "4,6,7,9,10,12,13,15", 4, 4),
        ("caneland", "5,6,8,9,11,12,14,15", 4, 8),
        ("barcelona", "2,6,3,7", 2, 2),
        ("barcelona", "4,6,5,7", 2, 2),
        ("barcelona", "1,3,5,7", 1, 1),
    ];
    for (name, pus, packages, domains) in pinnings {
        let topology = model(name).topology();
        assert_eq!(packages_used(&topology, pus), packages, "packages of {pus} on {name}");
        assert_eq!(domains_used(&topology, pus), domains, "caches of {pus} on {name}");
    }
}

/// Denoyelle et al. (2019), table 4: nodes and memory; a node's cores have its half of the last cache.
#[test]
fn the_halves_of_a_package_are_nodes_with_a_cache_each() {
    for (name, gib) in [("e5-2680v3x2", 32), ("e5-2650lv4x2", 16), ("gold-6140x2", 24)] {
        let topology = model(name).topology();
        let domains: Vec<&PuSet> = topology
            .llc_domains()
            .into_iter()
            .map(|id| &topology.object(id).pus)
            .collect();
        let nodes: Vec<&PuSet> = topology.nodes().iter().map(|node| &node.pus).collect();
        assert_eq!(nodes, domains, "{name}");
        assert!(
            topology.nodes().iter().all(|node| node.memory == Some(gib << 30)),
            "{name}"
        );
    }
}

fn error_of(text: &str) -> String {
    Model::parse("a.toml", text).unwrap_err().to_string()
}

/// The text of clovertown with another numbering.
fn renumbered(numbering: &str) -> String {
    let text = include_str!("../../../machines/clovertown.toml");
    text.lines()
        .map(|line| {
            if line.starts_with("pu_numbering") {
                format!("pu_numbering = {{ {numbering}, source = \"assumed\" }}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect()
}

#[test]
fn a_list_with_a_pu_twice_or_missing_is_refused() {
    for list in [
        "[0, 2, 1, 3, 4, 6, 5, 5]",
        "[0, 2, 1, 3, 4, 6, 5]",
        "[1, 2, 3, 4, 5, 6, 7, 8]",
    ] {
        let error = error_of(&renumbered(&format!("pus = {list}")));
        assert!(
            error.contains("shape.pu_numbering: the list does not have each of the 8 PUs once"),
            "{error}"
        );
        assert!(error.contains("give each number from 0 to 7 once"), "{error}");
    }
}

#[test]
fn numbers_that_are_not_pus_are_refused() {
    for (numbering, why) in [
        ("pus = [0, -2]", "-2 is not a PU"),
        ("pus = [0, 1.5]", "1.5 is not a PU"),
        ("pus = [0, \"one\"]", "mixes words and numbers"),
        ("pus = \"all\"", "give the list of the PUs' numbers"),
        ("order = [0, 1]", "give contiguous or round_robin"),
    ] {
        let error = error_of(&renumbered(numbering));
        assert!(error.contains(why) && error.contains("pu_numbering"), "{error}");
    }
}
