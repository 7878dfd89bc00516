//! The machine as boxes in boxes: NUMA nodes, packages, last-level-cache domains, and cores with their PUs.
//!
//! 1. Each NUMA node, package and domain is a set of PUs. Nodes without PUs, and nodes that cut across packages, are no
//!    boxes.
//! 2. The sets are nested, the largest first. If sets are equal, the package contains the node, and the node the
//!    domain. So a node with several packages, and a domain with several nodes, are drawn as they are.
//! 3. A core is in the smallest box that contains it.

use crate::nodes::Nodes;
use pinfold_core::{NodeId, NumaNode, ObjectKind, PuSet, Topology, size_text};
use pinfold_runtime::daemon::state;

/// The boxes of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layout {
    pub(crate) blocks: Vec<Block>,
    /// Nodes without a box, with their labels.
    pub(crate) apart: Vec<(NodeId, String)>,
    /// The PUs that the program may use.
    pub(crate) allowed: PuSet,
    /// The nodes with their colours; empty if it is not known which PUs they have.
    pub(crate) nodes: Nodes,
}

/// A node, a package, or a last-level-cache domain.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Block {
    /// Its name, or more than one of equal sets.
    pub(crate) labels: Vec<String>,
    pub(crate) pus: PuSet,
    /// The nodes whose PUs are these.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) inside: Vec<Block>,
    /// The PUs of each core that is in no inner box.
    pub(crate) cores: Vec<Vec<u32>>,
}

impl Layout {
    /// The boxes of a topology.
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut found = vec![];
        for (_, package) in topology.objects_of(ObjectKind::Package) {
            found.push((
                0,
                Block::new(numbered("Package", package.os_index), package.pus.clone()),
            ));
        }
        let cuts = |pus: &PuSet, package: &PuSet| {
            let both = pus.intersection(package);
            !both.is_empty() && both != *pus && both != *package
        };
        let is_box = |node: &&NumaNode| {
            let mut packages = topology.objects_of(ObjectKind::Package);
            !node.pus.is_empty() && !packages.any(|(_, package)| cuts(&node.pus, &package.pus))
        };
        for node in topology.nodes().iter().filter(is_box) {
            let kind = node
                .subtype
                .as_ref()
                .map_or_else(String::new, |kind| format!(" ({kind})"));
            let mut block = Block::new(format!("NUMA node {}{kind}", node.id), node.pus.clone());
            block.nodes.push(node.id);
            found.push((1, block));
        }
        for domain in topology.llc_domains() {
            let object = topology.object(domain);
            if let Some(cache) = object.cache {
                let size = cache
                    .size
                    .map_or_else(String::new, |size| format!(" {}", size_text(size)));
                found.push((2, Block::new(format!("L{}{size}", cache.level), object.pus.clone())));
            }
        }
        let mut cores: Vec<Vec<u32>> = vec![];
        for (_, core) in topology.objects_of(ObjectKind::Core) {
            cores.push(core.pus.iter().map(|pu| pu.0).collect());
        }
        let mut without_core = topology.object(topology.root()).pus.clone();
        for (_, core) in topology.objects_of(ObjectKind::Core) {
            without_core = without_core.iter().filter(|&pu| !core.pus.contains(pu)).collect();
        }
        cores.extend(without_core.iter().map(|pu| vec![pu.0]));
        let nodes = topology.nodes().iter();
        Self {
            blocks: nested(found, topology.object(topology.root()).pus.clone(), cores),
            apart: nodes.filter(|node| !is_box(node)).map(label_apart).collect(),
            allowed: topology.allowed_pus().clone(),
            nodes: Nodes::new(topology),
        }
    }

    /// The boxes of the machine in a daemon's state.
    pub(crate) fn from_state(machine: &state::MachineState) -> Self {
        let blocks = machine.packages.iter().map(|package| {
            // A damaged log can have any number.
            let valid = |core: &state::Core| core.pus.iter().copied().filter(|&pu| pu <= PuSet::HIGHEST.0).collect();
            let cores: Vec<Vec<u32>> = package.cores.iter().map(valid).collect();
            let mut labels = vec![match package.index {
                Some(index) => format!("Package {index}"),
                None => "Machine".to_owned(),
            }];
            labels.extend(package.nodes.iter().map(|node| format!("NUMA node {node}")));
            Block {
                labels,
                pus: cores.iter().flatten().map(|&pu| pinfold_core::PuId(pu)).collect(),
                nodes: vec![],
                inside: vec![],
                cores,
            }
        });
        let blocks: Vec<Block> = blocks.collect();
        Self {
            allowed: blocks.iter().flat_map(|block| block.pus.iter()).collect(),
            blocks,
            apart: vec![],
            nodes: Nodes::default(),
        }
    }

    /// The innermost boxes with the labels of the boxes around them, from the outside in.
    pub(crate) fn leaves(&self) -> Vec<(String, &Block)> {
        let mut leaves = vec![];
        for block in &self.blocks {
            block.leaves("", &mut leaves);
        }
        leaves
    }
}

impl Block {
    fn new(label: String, pus: PuSet) -> Self {
        Self {
            labels: vec![label],
            pus,
            ..Self::default()
        }
    }

    /// The labels in one line.
    pub(crate) fn label(&self) -> String {
        self.labels.join(", ")
    }

    /// Its PUs that are in no inner box, core by core.
    pub(crate) fn own_pus(&self) -> Vec<u32> {
        self.cores.iter().flatten().copied().collect()
    }

    fn leaves<'a>(&'a self, around: &str, leaves: &mut Vec<(String, &'a Self)>) {
        let label = if around.is_empty() {
            self.label()
        } else {
            format!("{around}, {}", self.label())
        };
        if !self.cores.is_empty() {
            leaves.push((label.clone(), self));
        }
        for block in &self.inside {
            block.leaves(&label, leaves);
        }
    }

    /// Puts a box into this one, or into the one in it that contains it.
    fn put(&mut self, block: Self) {
        match self.inside.iter_mut().find(|inner| block.pus.is_subset(&inner.pus)) {
            Some(inner) if inner.pus == block.pus && inner.inside.is_empty() => {
                inner.labels.extend(block.labels);
                inner.nodes.extend(block.nodes);
            }
            Some(inner) => inner.put(block),
            None => self.inside.push(block),
        }
    }

    fn put_core(&mut self, core: Vec<u32>) {
        let first = core.first().map(|&pu| pinfold_core::PuId(pu));
        let inner = first.and_then(|first| self.inside.iter_mut().find(|inner| inner.pus.contains(first)));
        match inner {
            Some(inner) => inner.put_core(core),
            None => self.cores.push(core),
        }
    }
}

/// A node without a box, with its label.
fn label_apart(node: &NumaNode) -> (NodeId, String) {
    let has = if node.pus.is_empty() {
        "memory only".to_owned()
    } else {
        format!("CPUs {}", node.pus)
    };
    (node.id, format!("NUMA node {}, {has}", node.id))
}

fn numbered(what: &str, number: Option<u32>) -> String {
    number.map_or_else(|| what.to_owned(), |number| format!("{what} {number}"))
}

/// The boxes of the machine in each other.
fn nested(mut found: Vec<(u8, Block)>, all: PuSet, cores: Vec<Vec<u32>>) -> Vec<Block> {
    found.sort_by_key(|(kind, block)| (std::cmp::Reverse(block.pus.len()), *kind));
    let mut machine = Block::new("Machine".to_owned(), all);
    for (_, block) in found {
        machine.put(block);
    }
    for core in cores {
        machine.put_core(core);
    }
    let own = std::mem::take(&mut machine.cores);
    let mut blocks = std::mem::take(&mut machine.inside);
    if !own.is_empty() {
        machine.cores = own;
        blocks.push(machine);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Cache, CacheType, ObjectId, PuId, TopologyBuilder};

    /// Packages of `cores` cores with one cache each, and a node for each list of PUs.
    fn machine(packages: u32, cores: u32, nodes: &[&str]) -> Topology {
        let mut builder = TopologyBuilder::new("test");
        for package in 0..packages {
            let object = builder.object(builder.root(), ObjectKind::Package, Some(package));
            let cache = Cache {
                level: 3,
                cache_type: CacheType::Unified,
                size: Some(32 << 20),
                line_size: None,
                ways: None,
            };
            let l3 = builder.cache(object, cache);
            for core in 0..cores {
                let number = package * cores + core;
                let core = builder.object(l3, ObjectKind::Core, Some(number));
                builder.pu(core, PuId(number));
            }
        }
        for (id, pus) in (0..).zip(nodes) {
            builder.node(NumaNode {
                id: NodeId(id),
                attached_to: ObjectId(0),
                pus: pus.parse().unwrap(),
                memory: None,
                subtype: None,
            });
        }
        builder.build_all().unwrap()
    }

    fn labels(topology: &Topology) -> Vec<String> {
        Layout::new(topology)
            .leaves()
            .into_iter()
            .map(|(label, _)| label)
            .collect()
    }

    #[test]
    fn equal_sets_are_one_box() {
        let layout = Layout::new(&machine(2, 2, &["0-1", "2-3"]));
        assert_eq!(layout.blocks.len(), 2);
        assert_eq!(layout.blocks[1].labels, ["Package 1", "NUMA node 1", "L3 32 MiB"]);
        assert_eq!(layout.blocks[1].cores, [[2], [3]]);
    }

    #[test]
    fn a_node_with_several_packages_is_around_them() {
        let expected = ["NUMA node 0, Package 0, L3 32 MiB", "NUMA node 0, Package 1, L3 32 MiB"];
        assert_eq!(labels(&machine(2, 2, &["0-3"])), expected);
    }

    #[test]
    fn a_domain_with_several_nodes_is_around_them() {
        let expected = ["Package 0, L3 32 MiB, NUMA node 0", "Package 0, L3 32 MiB, NUMA node 1"];
        assert_eq!(labels(&machine(1, 4, &["0-1", "2-3"])), expected);
    }

    #[test]
    fn memory_without_cpus_is_listed() {
        let layout = Layout::new(&machine(1, 2, &["0-1", ""]));
        assert_eq!(layout.apart, [(NodeId(1), "NUMA node 1, memory only".to_owned())]);
    }

    #[test]
    fn nodes_that_cut_across_packages_are_listed_and_each_core_is_in_its_package() {
        let cut = machine(2, 2, &["0,2", "1,3"]);
        let apart = [(0, "NUMA node 0, CPUs 0,2"), (1, "NUMA node 1, CPUs 1,3")];
        assert_eq!(
            Layout::new(&cut).apart,
            apart.map(|(node, label)| (NodeId(node), label.to_owned()))
        );
        assert_eq!(labels(&cut), ["Package 0, L3 32 MiB", "Package 1, L3 32 MiB"]);
    }

    #[test]
    fn a_machine_without_packages_is_one_box() {
        let mut builder = TopologyBuilder::new("flat");
        builder.pu(builder.root(), PuId(0));
        builder.pu(builder.root(), PuId(1));
        assert_eq!(labels(&builder.build_all().unwrap()), ["Machine"]);
    }
}
