//! The topology of a machine: hwloc's tree of packages, caches, cores and PUs, with the NUMA nodes beside it.
//!
//! Objects live in one vector, parents before children, the root (the machine) first. As in hwloc 2, NUMA nodes are
//! not part of the tree: a node is attached to the object whose PUs are local to it, and several nodes may be attached
//! to one object: high-bandwidth memory beside DRAM, memory-only nodes beside their neighbour, nodes that cut across
//! packages. A PU belongs to one node at most (`node`).

use crate::text::one_line;
use crate::{NodeId, PuId, PuSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod described;
mod node;
mod parts;

pub use node::{MemoryKind, NumaNode, resolve_overlaps};

/// Position of an object in `Topology::objects`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectId(pub usize);

/// What an object is, in hwloc's words, from the outermost inwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// The whole machine.
    Machine,
    /// A group without a name, such as NUMA nodes at a short distance.
    Group,
    /// A package: what sits in one socket.
    Package,
    /// A die within a package.
    Die,
    /// A cache; `Object::cache` has the details.
    Cache,
    /// A core.
    Core,
    /// A processing unit.
    Pu,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheType {
    /// Instructions and data.
    Unified,
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
}

/// The attributes of a cache. `None` if the machine does not report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cache {
    /// 1 for the cache nearest to the core.
    pub level: u32,
    /// What it holds.
    pub cache_type: CacheType,
    /// Capacity in bytes.
    pub size: Option<u64>,
    /// Line size in bytes.
    pub line_size: Option<u32>,
    /// Number of ways; `None` also for a fully associative cache.
    pub ways: Option<u32>,
}

/// A kind of core on a hybrid machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreKind {
    /// The PUs of this kind.
    pub pus: PuSet,
    /// Rank of the efficiency class: 0 is the most power-efficient, the highest the fastest; `None` if unknown.
    pub efficiency: Option<u32>,
    /// What the kernel or the firmware reports of this kind, as name and value, such as `CoreType` and `IntelAtom`.
    pub info: Vec<(String, String)>,
}

/// One object of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// The operating system's number for it, if it has one.
    pub os_index: Option<u32>,
    /// The cache's details; `Some` exactly for caches.
    pub cache: Option<Cache>,
    /// The enclosing object; `None` for the machine.
    pub parent: Option<ObjectId>,
    /// The enclosed objects, in hwloc's order.
    pub children: Vec<ObjectId>,
    /// The online PUs below, allowed or not.
    pub pus: PuSet,
}

/// Relative latencies between NUMA nodes, as the firmware's SLIT gives them: 10 is local.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distances {
    /// The nodes of the rows and of the columns.
    pub nodes: Vec<NodeId>,
    /// One row per node, from it to each node.
    pub values: Vec<Vec<u64>>,
}

impl Distances {
    /// The distance from a node to another one; `None` if it is not reported.
    pub fn between(&self, from: NodeId, to: NodeId) -> Option<u64> {
        let place = |node| self.nodes.iter().position(|&known| known == node);
        self.values.get(place(from)?)?.get(place(to)?).copied()
    }
}

/// The topology of a machine, and which parts are allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "parts::Parts")]
pub struct Topology {
    name: String,
    objects: Vec<Object>,
    nodes: Vec<NumaNode>,
    distances: Option<Distances>,
    core_kinds: Vec<CoreKind>,
    allowed_pus: PuSet,
    allowed_nodes: Vec<NodeId>,
}

/// Why a description is not a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// No PU is allowed.
    #[error("no PU of `{0}` may be used: its online PUs and the allowed ones have none in common")]
    NoAllowedPu(String),
}

impl Topology {
    /// The machine's name: its processor model, or the name of its description.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All objects, parents before children, the machine first.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The object at `id`.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0]
    }

    /// The machine itself.
    pub fn root(&self) -> ObjectId {
        ObjectId(0)
    }

    /// The objects of one kind, in hwloc's order.
    pub fn objects_of(&self, kind: ObjectKind) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.objects
            .iter()
            .enumerate()
            .filter(move |(_, object)| object.kind == kind)
            .map(|(index, object)| (ObjectId(index), object))
    }

    /// The NUMA nodes, by operating-system index.
    pub fn nodes(&self) -> &[NumaNode] {
        &self.nodes
    }

    /// The NUMA nodes that have PUs, by operating-system index.
    pub fn nodes_with_pus(&self) -> impl Iterator<Item = &NumaNode> {
        self.nodes.iter().filter(|node| !node.pus.is_empty())
    }

    /// Whether a node and the object that it is attached to have different PUs, so that the tree does not show the
    /// node's: it cuts across packages or caches.
    pub fn is_cut(&self, node: &NumaNode) -> bool {
        !node.pus.is_empty() && node.pus != self.object(node.attached_to).pus
    }

    /// Distances between the NUMA nodes, where the machine reports them.
    pub fn distances(&self) -> Option<&Distances> {
        self.distances.as_ref()
    }

    /// The kinds of cores; empty if all are alike or if the machine does not report them.
    pub fn core_kinds(&self) -> &[CoreKind] {
        &self.core_kinds
    }

    /// The rank of the core of `pu` among the kinds of cores; a greater one is faster. 0 for all where the machine does
    /// not report kinds.
    pub fn core_speed(&self, pu: PuId) -> u32 {
        let kind = self.core_kinds.iter().find(|kind| kind.pus.contains(pu));
        kind.and_then(|kind| kind.efficiency).unwrap_or(0)
    }

    /// The online PUs that are allowed: never empty, and never widened.
    pub fn allowed_pus(&self) -> &PuSet {
        &self.allowed_pus
    }

    /// The NUMA nodes whose memory is allowed.
    pub fn allowed_nodes(&self) -> &[NodeId] {
        &self.allowed_nodes
    }

    /// Firmware, the kernel or a file has the names. They stand in lines, and belong to what identifies a machine.
    fn name_in_one_line(&mut self) {
        let parse_nodes = self.nodes.iter_mut().filter_map(|node| node.subtype.as_mut());
        let kinds = self.core_kinds.iter_mut().flat_map(|kind| &mut kind.info);
        let of_cores = kinds.flat_map(|(name, value)| [name, value]);
        for name in parse_nodes.chain(of_cores).chain([&mut self.name]) {
            *name = one_line(name).into_owned();
        }
    }

    /// The same machine with fewer allowed PUs. A PU that was not allowed before is not allowed after.
    pub fn restricted_to(mut self, pus: &PuSet) -> Result<Self, TopologyError> {
        self.allowed_pus = self.allowed_pus.intersection(pus);
        if self.allowed_pus.is_empty() {
            return Err(TopologyError::NoAllowedPu(self.name));
        }
        Ok(self)
    }

    /// The same machine with equal cores.
    #[must_use]
    pub fn without_core_kinds(mut self) -> Self {
        self.core_kinds.clear();
        self
    }

    /// The objects that enclose `pu`, the machine first, the PU itself last.
    pub fn path_to(&self, pu: PuId) -> Vec<ObjectId> {
        let mut path = vec![];
        let mut here = self.root();
        if !self.object(here).pus.contains(pu) {
            return path;
        }
        loop {
            path.push(here);
            match self
                .object(here)
                .children
                .iter()
                .find(|&&child| self.object(child).pus.contains(pu))
            {
                Some(&child) => here = child,
                None => return path,
            }
        }
    }

    /// The number of steps between the cores of two PUs, from object to object up to the first common one and down
    /// again; 0 for PUs of the same core.
    pub fn hops(&self, one: PuId, other: PuId) -> usize {
        let core = |pu: PuId| {
            let mut path = self.path_to(pu);
            if path.last().is_some_and(|&id| self.object(id).kind == ObjectKind::Pu) {
                path.pop();
            }
            path
        };
        let (one, other) = (core(one), core(other));
        let common = one.iter().zip(&other).take_while(|(here, there)| here == there).count();
        one.len() + other.len() - 2 * common
    }

    /// The last-level-cache domains with allowed PUs, each with these PUs, by package. Domains outside packages are
    /// together, before the others.
    pub fn llc_domains_by_package(&self) -> Vec<Vec<(ObjectId, PuSet)>> {
        let mut packages: BTreeMap<Option<ObjectId>, Vec<(ObjectId, PuSet)>> = BTreeMap::new();
        for domain in self.llc_domains() {
            let pus = self.object(domain).pus.intersection(&self.allowed_pus);
            if let Some(pu) = pus.first() {
                let is_package = |id: &ObjectId| self.object(*id).kind == ObjectKind::Package;
                let package = self.path_to(pu).into_iter().find(is_package);
                packages.entry(package).or_default().push((domain, pus));
            }
        }
        packages.into_values().collect()
    }

    /// The last-level-cache domains, in hwloc's order: for each PU the outermost unified or data cache above it. A
    /// machine that reports no caches has its packages instead, or itself if it has no package.
    pub fn llc_domains(&self) -> Vec<ObjectId> {
        let mut domains = vec![];
        let mut covered = PuSet::new();
        let is_data_cache = |object: &Object| {
            object
                .cache
                .is_some_and(|cache| cache.cache_type != CacheType::Instruction)
        };
        // Parents come before children, so the first cache that covers a PU is its outermost.
        for (index, object) in self.objects.iter().enumerate() {
            if is_data_cache(object) && object.pus.intersection(&covered).is_empty() {
                covered.extend(object.pus.iter());
                domains.push(ObjectId(index));
            }
        }
        for kind in [ObjectKind::Package, ObjectKind::Machine] {
            for (id, object) in self.objects_of(kind) {
                if !object.pus.is_empty() && object.pus.intersection(&covered).is_empty() {
                    covered.extend(object.pus.iter());
                    domains.push(id);
                }
            }
        }
        domains.sort();
        domains
    }
}

/// Builds a topology from the outside in. `children` and the PU sets of the enclosing objects are derived from the
/// added objects, so that they cannot contradict each other.
#[derive(Debug)]
pub struct TopologyBuilder {
    topology: Topology,
}

impl TopologyBuilder {
    /// A machine without objects in it.
    pub fn new(name: impl Into<String>) -> Self {
        let root = Object {
            kind: ObjectKind::Machine,
            os_index: None,
            cache: None,
            parent: None,
            children: vec![],
            pus: PuSet::new(),
        };
        Self {
            topology: Topology {
                name: name.into(),
                objects: vec![root],
                nodes: vec![],
                distances: None,
                core_kinds: vec![],
                allowed_pus: PuSet::new(),
                allowed_nodes: vec![],
            },
        }
    }

    /// The machine itself.
    pub fn root(&self) -> ObjectId {
        ObjectId(0)
    }

    /// The PUs so far.
    pub fn pus(&self) -> &PuSet {
        &self.topology.objects[0].pus
    }

    /// Adds an object below `parent`.
    pub fn object(&mut self, parent: ObjectId, kind: ObjectKind, os_index: Option<u32>) -> ObjectId {
        self.push(parent, kind, os_index, None)
    }

    /// Adds a cache below `parent`.
    pub fn cache(&mut self, parent: ObjectId, cache: Cache) -> ObjectId {
        self.push(parent, ObjectKind::Cache, None, Some(cache))
    }

    /// Adds a PU below `parent`.
    pub fn pu(&mut self, parent: ObjectId, pu: PuId) -> ObjectId {
        let id = self.push(parent, ObjectKind::Pu, Some(pu.0), None);
        let mut above = Some(id);
        while let Some(here) = above {
            let object = &mut self.topology.objects[here.0];
            object.pus.insert(pu);
            above = object.parent;
        }
        id
    }

    /// Adds a NUMA node.
    pub fn node(&mut self, node: NumaNode) {
        self.topology.nodes.push(node);
    }

    /// Sets the distances between the NUMA nodes.
    pub fn distances(&mut self, distances: Distances) {
        self.topology.distances = Some(distances);
    }

    /// Adds a kind of core.
    pub fn core_kind(&mut self, kind: CoreKind) {
        self.topology.core_kinds.push(kind);
    }

    /// The topology with only these PUs and nodes allowed. PUs that are not in the tree are dropped.
    pub fn build(mut self, allowed_pus: &PuSet, allowed_nodes: &[NodeId]) -> Result<Topology, TopologyError> {
        let topology = &mut self.topology;
        topology.name_in_one_line();
        topology.nodes.sort_by_key(|node| node.id);
        node::resolve_overlaps(&mut topology.nodes);
        topology.allowed_pus = topology.objects[0].pus.intersection(allowed_pus);
        topology.allowed_nodes = topology
            .nodes
            .iter()
            .map(|node| node.id)
            .filter(|id| allowed_nodes.contains(id))
            .collect();
        if topology.allowed_pus.is_empty() {
            return Err(TopologyError::NoAllowedPu(self.topology.name));
        }
        Ok(self.topology)
    }

    /// The topology with all PUs and nodes allowed.
    pub fn build_all(self) -> Result<Topology, TopologyError> {
        let pus = self.topology.objects[0].pus.clone();
        let nodes: Vec<NodeId> = self.topology.nodes.iter().map(|node| node.id).collect();
        self.build(&pus, &nodes)
    }

    fn push(&mut self, parent: ObjectId, kind: ObjectKind, os_index: Option<u32>, cache: Option<Cache>) -> ObjectId {
        let id = ObjectId(self.topology.objects.len());
        self.topology.objects.push(Object {
            kind,
            os_index,
            cache,
            parent: Some(parent),
            children: vec![],
            pus: PuSet::new(),
        });
        self.topology.objects[parent.0].children.push(id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_machine_are_one_line_without_control_characters() {
        let hostile = "EPYC\u{1b}[2J\nforged\u{202e}".to_owned();
        let mut builder = TopologyBuilder::new(hostile.clone());
        let pu = builder.pu(builder.root(), PuId(0));
        builder.node(NumaNode {
            id: NodeId(0),
            attached_to: pu,
            pus: [PuId(0)].into_iter().collect(),
            memory: None,
            subtype: Some(hostile.clone()),
        });
        builder.core_kind(CoreKind {
            pus: [PuId(0)].into_iter().collect(),
            efficiency: None,
            info: vec![(hostile.clone(), hostile)],
        });
        let topology = builder.build_all().unwrap();
        let shown = r"EPYC\x1b[2J\nforged\u202e";
        assert_eq!(topology.name(), shown);
        assert_eq!(topology.nodes()[0].subtype.as_deref(), Some(shown));
        assert_eq!(topology.core_kinds()[0].info, [(shown.to_owned(), shown.to_owned())]);
    }

    /// One package with an L3 over two cores of two PUs, and one package without caches.
    pub(super) fn lopsided() -> Topology {
        let mut builder = TopologyBuilder::new("lopsided");
        let root = builder.root();
        let package = builder.object(root, ObjectKind::Package, Some(0));
        let l3 = builder.cache(
            package,
            Cache {
                level: 3,
                cache_type: CacheType::Unified,
                size: Some(1 << 20),
                line_size: Some(64),
                ways: Some(16),
            },
        );
        for core in 0..2 {
            let object = builder.object(l3, ObjectKind::Core, Some(core));
            builder.pu(object, PuId(core));
            builder.pu(object, PuId(core + 2));
        }
        let other = builder.object(root, ObjectKind::Package, Some(1));
        builder.pu(other, PuId(4));
        builder.build_all().unwrap()
    }

    #[test]
    fn the_pus_of_an_object_are_those_below_it() {
        let topology = lopsided();
        assert_eq!(topology.object(topology.root()).pus.to_string(), "0-4");
        let (_, core) = topology.objects_of(ObjectKind::Core).nth(1).unwrap();
        assert_eq!(core.pus.to_string(), "1,3");
    }

    #[test]
    fn a_domain_is_the_outermost_cache_and_else_the_package() {
        let topology = lopsided();
        let domains: Vec<String> = topology
            .llc_domains()
            .iter()
            .map(|&id| topology.object(id).pus.to_string())
            .collect();
        assert_eq!(domains, ["0-3", "4"]);
    }

    #[test]
    fn the_path_to_a_pu_runs_from_the_machine_to_the_pu() {
        let topology = lopsided();
        let kinds: Vec<ObjectKind> = topology
            .path_to(PuId(3))
            .iter()
            .map(|&id| topology.object(id).kind)
            .collect();
        let expected = [
            ObjectKind::Machine,
            ObjectKind::Package,
            ObjectKind::Cache,
            ObjectKind::Core,
            ObjectKind::Pu,
        ];
        assert_eq!(kinds, expected);
        assert!(topology.path_to(PuId(9)).is_empty());
    }

    #[test]
    fn hops_go_up_to_the_first_common_object_and_down_again() {
        let topology = lopsided();
        let hops = [0, 2, 1, 4].map(|pu| topology.hops(PuId(0), PuId(pu)));
        // Itself; its sibling; the other core under the same cache; the package without caches.
        assert_eq!(hops, [0, 0, 2, 4]);
        assert_eq!(topology.hops(PuId(4), PuId(0)), 4);
    }

    #[test]
    fn what_is_allowed_is_never_widened_and_never_empty() {
        let topology = lopsided().restricted_to(&"0-1".parse().unwrap()).unwrap();
        let again = topology.clone().restricted_to(&"1-4".parse().unwrap()).unwrap();
        assert_eq!(again.allowed_pus().to_string(), "1");
        assert!(topology.restricted_to(&"4".parse().unwrap()).is_err());
    }
}
