//! Machines with two kinds of cores.

use pinfold_core::{Cache, CacheType, CoreKind, NodeId, NumaNode, ObjectKind, PuId, PuSet, Topology, TopologyBuilder};

/// NVIDIA's GB10 as hwloc shows it: two last-level caches in one package, each with five Cortex-A725 before five
/// Cortex-X925, which are the faster ones.
pub(crate) fn gb10() -> Topology {
    let slow = "0-4,10-14".parse().expect("a list of PUs");
    hybrid("NVIDIA GB10", 2, 10, &slow)
}

/// A package with these numbers of last-level caches and cores per cache; these cores are slow.
pub(crate) fn hybrid(name: &str, caches: u32, cores: u32, slow: &PuSet) -> Topology {
    let mut builder = TopologyBuilder::new(name);
    let package = builder.object(builder.root(), ObjectKind::Package, Some(0));
    for number in 0..caches {
        let llc = Cache {
            level: 3,
            cache_type: CacheType::Unified,
            size: Some(16 << 20),
            line_size: Some(64),
            ways: Some(16),
        };
        let domain = builder.cache(package, llc);
        for core in number * cores..(number + 1) * cores {
            let object = builder.object(domain, ObjectKind::Core, Some(core));
            builder.pu(object, PuId(core));
        }
    }
    let all: PuSet = (0..caches * cores).map(PuId).collect();
    for (efficiency, pus) in [(0, slow.clone()), (1, all.difference(slow))] {
        builder.core_kind(CoreKind {
            pus,
            efficiency: Some(efficiency),
            info: vec![],
        });
    }
    builder.node(NumaNode {
        id: NodeId(0),
        attached_to: package,
        pus: all,
        memory: Some(1 << 30),
        subtype: None,
    });
    builder.build_all().expect("a machine has PUs")
}
