//! The built-in machine models against hwloc's captures of the same machines.
//!
//! The captures have one NUMA node each, so packages, caches, cores and PUs are compared.

use pinfold_core::{Cache, CacheType, ObjectId, ObjectKind, PuSet, Topology};
use pinfold_linux::topology::{Source, read};
use pinfold_sim::model::builtin;
use std::path::{Path, PathBuf};

/// A model, the capture of its machine, and in what the two differ.
struct Pair {
    model: &'static str,
    file: &'static str,
    /// Packages of the model for one of the capture.
    packages: usize,
    /// LLC domains of the model for one of the capture: 2 where the capture was taken without Cluster-on-Die or
    /// sub-NUMA clusters.
    halves: usize,
    /// PUs of a core in the capture for one in the model: 2 where the paper's machine has hyper-threading off.
    threads: usize,
    /// Whether the PUs have the same numbers.
    same_numbers: bool,
}

const ALIKE: Pair = Pair {
    model: "",
    file: "",
    packages: 1,
    halves: 1,
    threads: 1,
    same_numbers: true,
};

const PAIRS: [Pair; 7] = [
    Pair {
        model: "epyc-7763x2",
        file: "AMD-19h-Zen3-2xEpyc-7763",
        ..ALIKE
    },
    Pair {
        model: "epyc-9654x2",
        file: "AMD-19h-Zen4-2xEpyc-9654",
        ..ALIKE
    },
    Pair {
        model: "opteron-6164x4",
        file: "AMD-K10-MagnyCours-2xOpteron-6164HE",
        packages: 2,
        ..ALIKE
    },
    Pair {
        model: "e5-2650lv4x2",
        file: "Intel-Broadwell-2xXeon-E5-2650Lv4",
        halves: 2,
        threads: 2,
        ..ALIKE
    },
    Pair {
        model: "clovertown",
        file: "Intel-Core-2xXeon-E5345",
        same_numbers: false,
        ..ALIKE
    },
    Pair {
        model: "e5-2680v3x2",
        file: "Intel-Haswell-2xXeon-E5-2680v3",
        ..ALIKE
    },
    Pair {
        model: "gold-6140x2",
        file: "Intel-Skylake-2xXeon6140",
        halves: 2,
        threads: 2,
        ..ALIKE
    },
];

/// The captured machines, where they are at hand.
fn captures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies/xml");
    if folder.is_dir() {
        return Some(folder);
    }
    pinfold_testing::skip(format_args!("no captured machines at {}", folder.display()));
    None
}

/// Each pair with the topologies of both.
fn both(folder: &Path) -> Vec<(&'static Pair, Topology, Topology)> {
    PAIRS
        .iter()
        .map(|pair| {
            let model = builtin(pair.model).unwrap_or_else(|| panic!("{} is built in", pair.model));
            let file = folder.join(format!("{}.xml", pair.file));
            let captured = read(&Source::Xml(file)).unwrap();
            (pair, model.topology(), captured)
        })
        .collect()
}

fn count(topology: &Topology, kind: ObjectKind) -> usize {
    topology.objects_of(kind).count()
}

/// Bytes of the data caches above the first PU, nearest to the core first.
fn cache_sizes(topology: &Topology) -> Vec<u64> {
    let first = topology.object(topology.root()).pus.iter().next().unwrap();
    let cache = |id: ObjectId| -> Option<Cache> { topology.object(id).cache };
    let mut caches: Vec<Cache> = topology.path_to(first).into_iter().filter_map(cache).collect();
    caches.retain(|cache| cache.cache_type != CacheType::Instruction);
    caches.sort_by_key(|cache| cache.level);
    caches.into_iter().filter_map(|cache| cache.size).collect()
}

/// The PUs of each LLC domain that are also among `pus`.
fn domains_within(topology: &Topology, pus: &PuSet) -> Vec<PuSet> {
    let within = |id: ObjectId| topology.object(id).pus.intersection(pus);
    topology
        .llc_domains()
        .into_iter()
        .map(within)
        .filter(|pus| !pus.is_empty())
        .collect()
}

#[test]
fn a_model_has_the_packages_cores_and_pus_of_the_captured_machine() {
    let Some(folder) = captures() else { return };
    for (pair, model, captured) in both(&folder) {
        for (kind, factor) in [
            (ObjectKind::Package, 1),
            (ObjectKind::Core, 1),
            (ObjectKind::Pu, pair.threads),
        ] {
            let expected = count(&captured, kind) * pair.packages;
            assert_eq!(count(&model, kind) * factor, expected, "{kind:?} of {}", pair.model);
        }
    }
}

#[test]
fn a_model_has_the_cache_sizes_and_llc_domains_of_the_captured_machine() {
    let Some(folder) = captures() else { return };
    for (pair, model, captured) in both(&folder) {
        let mut sizes = cache_sizes(&model);
        *sizes.last_mut().unwrap() *= pair.halves as u64;
        assert_eq!(sizes, cache_sizes(&captured), "cache sizes of {}", pair.model);
        let expected = captured.llc_domains().len() * pair.packages * pair.halves;
        assert_eq!(model.llc_domains().len(), expected, "LLC domains of {}", pair.model);
    }
}

#[test]
fn a_model_numbers_the_pus_of_a_domain_as_the_captured_machine() {
    let Some(folder) = captures() else { return };
    for (pair, model, captured) in both(&folder) {
        if !pair.same_numbers {
            continue;
        }
        let common = model
            .object(model.root())
            .pus
            .intersection(&captured.object(captured.root()).pus);
        assert!(!common.is_empty(), "{}", pair.model);
        let wide = domains_within(&captured, &common);
        for domain in domains_within(&model, &common) {
            let around = wide.iter().filter(|wide| domain.intersection(wide) == domain).count();
            assert_eq!(around, 1, "domains of the capture around {domain} of {}", pair.model);
        }
    }
}
