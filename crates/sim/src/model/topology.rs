//! A model's shape as a `Topology`.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a checked model has at most 1024 cores and 64 nodes"
)]

use super::{LINE_BYTES, Model};
use pinfold_core::{
    Cache, CacheType, Distances, NodeId, NumaNode, ObjectId, ObjectKind, PuId, PuSet, Topology, TopologyBuilder,
};

impl Model {
    /// The machine's topology. PUs have the numbers of `shape.pu_numbering`. Distances are as firmware gives them: 10
    /// for a node itself, and for another node 10 times the ratio of its memory's latency to the local one.
    pub fn topology(&self) -> Topology {
        let mut builder = TopologyBuilder::new(&self.name);
        let mut pus_of_core = vec![vec![]; self.cores()];
        for pu in 0..u32::try_from(self.pus()).unwrap_or(u32::MAX) {
            if let Some((core, _)) = self.core_of_pu(pu) {
                pus_of_core[core].push(PuId(pu));
            }
        }
        let nodes = self.nodes();
        let nodes_per_package = nodes / self.packages();
        let cores_per_package = self.cores() / self.packages();
        let mut node_pus = vec![PuSet::new(); nodes];
        let mut attached = vec![builder.root(); nodes];
        for package in 0..self.packages() {
            let root = builder.root();
            let package_object = builder.object(root, ObjectKind::Package, number(package));
            let groups = nodes_per_package.max(1);
            for group in 0..groups {
                let inside = if groups > 1 {
                    builder.object(package_object, ObjectKind::Group, number(package * groups + group))
                } else {
                    package_object
                };
                if nodes_per_package > 0 {
                    attached[package * groups + group] = inside;
                }
                let cores = cores_per_package / groups;
                let first = package * cores_per_package + group * cores;
                self.add_cores(&mut builder, inside, first..first + cores, &pus_of_core);
            }
        }
        for (core, pus) in pus_of_core.iter().enumerate() {
            node_pus[self.node_of_core(core)].extend(pus.iter().copied());
        }
        for (node, pus) in node_pus.into_iter().enumerate() {
            builder.node(NumaNode {
                id: NodeId(node as u32),
                attached_to: attached[node],
                pus,
                memory: self.memory.capacity.as_ref().map(|capacity| capacity.value().0),
                subtype: None,
            });
        }
        builder.distances(self.distances());
        builder.build_all().expect("a checked model has PUs")
    }

    fn add_cores(
        &self,
        builder: &mut TopologyBuilder,
        parent: ObjectId,
        cores: std::ops::Range<usize>,
        pus_of_core: &[Vec<PuId>],
    ) {
        let last = self.caches.len() - 1;
        let mut domain = parent;
        for core in cores {
            if core % self.cores_per_domain() == 0 {
                domain = builder.cache(parent, self.cache_object(last));
            }
            let mut inside = domain;
            for level in (0..last).rev() {
                inside = builder.cache(inside, self.cache_object(level));
            }
            let object = builder.object(inside, ObjectKind::Core, number(core));
            for &pu in &pus_of_core[core] {
                builder.pu(object, pu);
            }
        }
    }

    fn cache_object(&self, level: usize) -> Cache {
        let cache = &self.caches[level];
        Cache {
            level: level as u32 + 1,
            cache_type: if level == 0 {
                CacheType::Data
            } else {
                CacheType::Unified
            },
            size: Some(cache.size.value().0),
            line_size: Some(LINE_BYTES as u32),
            ways: Some(cache.ways.value().0),
        }
    }

    fn distances(&self) -> Distances {
        let nodes = self.nodes();
        let routes = self.routes();
        let local = self.memory.latency.value().cycles(self.frequency());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive ratio"
        )]
        let distance = |from, to| ((local + routes.latency(from, to)) / local * 10.0).round() as u64;
        Distances {
            nodes: (0..nodes).map(|node| NodeId(node as u32)).collect(),
            values: (0..nodes)
                .map(|from| (0..nodes).map(|to| distance(from, to)).collect())
                .collect(),
        }
    }
}

fn number(index: usize) -> Option<u32> {
    u32::try_from(index).ok()
}
