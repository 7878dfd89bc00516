//! Machines on which no placement differs from another.
//!
//! All of this has to be known of the machine:
//!
//! 1. it has one NUMA node, so that a page is equally far from every thread;
//! 2. the allowed PUs have one last-level cache in common;
//! 3. any two of them are the same placement of two threads (`Placements`): they differ in no core kind, and none shares
//!    a core or an inner cache with some of the others only.
//!
//! Then all placements of any number of threads are the same up to a symmetry. Pinning can only keep threads from
//! migrating between PUs that are alike. What the machine does not report is not assumed: without a known cache or node
//! placements may differ.

use super::Placements;
use crate::{ObjectKind, PuSet, Topology};
use num_bigint::BigUint;

/// Why no placement of threads or pages differs from another, as a clause; `None` if placements differ, or may differ.
pub fn why_all_alike(topology: &Topology) -> Option<String> {
    if topology.nodes().len() != 1 {
        return None;
    }
    let pus = topology.allowed_pus();
    if pus.len() == 1 {
        return Some(format!("CPU {pus} is the only one allowed, and there is one NUMA node"));
    }
    let is_one =
        |threads| Placements::new(topology, threads).is_ok_and(|placements| placements.count() == BigUint::from(1u8));
    let level = shared_level(topology, pus)?;
    if !is_one(1) || !is_one(2) {
        return None;
    }
    let has_all = |(_, core): (_, &crate::Object)| pus.difference(&core.pus).is_empty();
    Some(if topology.objects_of(ObjectKind::Core).any(has_all) {
        format!("CPUs {pus} are the hardware threads of one core, beside the only NUMA node")
    } else {
        format!("CPUs {pus} share the only L{level} cache and NUMA node and are alike")
    })
}

/// The level of the last-level cache that all of `pus` have in common; `None` if they have several or none is known.
fn shared_level(topology: &Topology, pus: &PuSet) -> Option<u32> {
    let domains = topology.llc_domains();
    let mut with_pus = domains
        .iter()
        .map(|&id| topology.object(id))
        .filter(|domain| !domain.pus.intersection(pus).is_empty());
    let only = with_pus.next()?;
    with_pus.next().is_none().then_some(only.cache?.level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, CacheType, CoreKind, NodeId, NumaNode, PuId, TopologyBuilder};

    fn cache(level: u32) -> Cache {
        Cache {
            level,
            cache_type: CacheType::Unified,
            size: Some(1 << 20),
            line_size: None,
            ways: None,
        }
    }

    /// One package and one node with an L3 for each of `groups`; each of its cores has an L2 and this number of PUs.
    fn machine(groups: &[&[u32]]) -> TopologyBuilder {
        let mut builder = TopologyBuilder::new("Ox");
        let package = builder.object(builder.root(), ObjectKind::Package, Some(0));
        let mut pu = 0;
        for cores in groups {
            let l3 = builder.cache(package, cache(3));
            for (number, threads) in (0..).zip(cores.iter()) {
                let l2 = builder.cache(l3, cache(2));
                let core = builder.object(l2, ObjectKind::Core, Some(number));
                for _ in 0..*threads {
                    builder.pu(core, PuId(pu));
                    pu += 1;
                }
            }
        }
        let pus = builder.pus().clone();
        builder.node(NumaNode {
            id: NodeId(0),
            attached_to: package,
            pus,
            memory: Some(1 << 30),
            subtype: None,
        });
        builder
    }

    fn built(builder: TopologyBuilder) -> Topology {
        let pus = builder.pus().clone();
        builder.build(&pus, &[NodeId(0)]).unwrap()
    }

    #[test]
    fn cores_of_one_thread_below_one_cache_are_alike() {
        let why = why_all_alike(&built(machine(&[&[1, 1, 1]]))).unwrap();
        assert_eq!(why, "CPUs 0-2 share the only L3 cache and NUMA node and are alike");
    }

    #[test]
    fn the_threads_of_one_core_are_alike() {
        let why = why_all_alike(&built(machine(&[&[2]]))).unwrap();
        assert_eq!(
            why,
            "CPUs 0-1 are the hardware threads of one core, beside the only NUMA node"
        );
    }

    #[test]
    fn one_cpu_offers_no_choice() {
        let only = built(machine(&[&[2, 2], &[2, 2]]))
            .restricted_to(&[PuId(5)].into_iter().collect())
            .unwrap();
        let why = why_all_alike(&only).unwrap();
        assert_eq!(why, "CPU 5 is the only one allowed, and there is one NUMA node");
    }

    #[test]
    fn allowed_cpus_are_judged_and_not_the_machine() {
        let of_two_caches = built(machine(&[&[2, 2], &[2, 2]]));
        let allow = |pus: &[u32]| {
            of_two_caches
                .clone()
                .restricted_to(&pus.iter().map(|&pu| PuId(pu)).collect())
                .unwrap()
        };
        assert!(why_all_alike(&allow(&[0, 2])).is_some(), "one thread of each core");
        assert!(why_all_alike(&allow(&[2, 3])).is_some(), "both threads of a core");
        assert!(
            why_all_alike(&allow(&[0, 1, 2])).is_none(),
            "siblings, and a core of its own"
        );
        assert!(why_all_alike(&allow(&[0, 4])).is_none(), "two caches");
    }

    #[test]
    fn a_choice_between_siblings_and_cores_is_a_choice() {
        assert_eq!(why_all_alike(&built(machine(&[&[2, 2]]))), None);
    }

    #[test]
    fn cores_of_two_kinds_are_a_choice() {
        let mut builder = machine(&[&[1, 1]]);
        for (pu, efficiency) in [(0, 0), (1, 1)] {
            builder.core_kind(CoreKind {
                pus: [PuId(pu)].into_iter().collect(),
                efficiency: Some(efficiency),
                info: vec![],
            });
        }
        assert_eq!(why_all_alike(&built(builder)), None);
    }

    #[test]
    fn a_second_node_is_a_choice_although_it_has_no_cpus() {
        let mut builder = machine(&[&[1, 1]]);
        let root = builder.root();
        builder.node(NumaNode {
            id: NodeId(1),
            attached_to: root,
            pus: PuSet::new(),
            memory: Some(1 << 30),
            subtype: Some("CXL-DRAM".to_owned()),
        });
        assert_eq!(why_all_alike(&built(builder)), None);
    }

    #[test]
    fn an_unknown_cache_or_node_is_not_taken_for_a_shared_one() {
        let mut without_caches = TopologyBuilder::new("Ox");
        let package = without_caches.object(without_caches.root(), ObjectKind::Package, Some(0));
        for pu in [0, 1] {
            without_caches.pu(package, PuId(pu));
        }
        let without_nodes = without_caches
            .build(&[PuId(0), PuId(1)].into_iter().collect(), &[])
            .unwrap();
        assert_eq!(why_all_alike(&without_nodes), None);

        let mut without_caches = TopologyBuilder::new("Ox");
        let package = without_caches.object(without_caches.root(), ObjectKind::Package, Some(0));
        for pu in [0, 1] {
            without_caches.pu(package, PuId(pu));
        }
        let pus = without_caches.pus().clone();
        without_caches.node(NumaNode {
            id: NodeId(0),
            attached_to: package,
            pus,
            memory: None,
            subtype: None,
        });
        assert_eq!(why_all_alike(&built(without_caches)), None);
    }
}
