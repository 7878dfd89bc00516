//! The levels of a machine at which sharing an object makes a difference.
//!
//! 1. Objects are at the same level when they are of the same kind, caches also of the same cache level and type, and
//!    when the same number of objects of that kind enclose them (groups nest).
//! 2. A level is distinguishing when one of its objects has two or more children with allowed PUs. The machine as a
//!    whole is not: all threads are in it. A package with one cache has the same PUs as that cache, and only the cache,
//!    which branches into cores, is a level.
//! 3. Each PU belongs to one domain at each level: the enclosing object of that level. If an asymmetric machine lacks
//!    it, the PU alone is a domain, since it shares nothing at that level.
//!
//! Levels are ordered from the outermost inwards, by the greatest depth of their objects.

use super::symmetry::{children, core_kind};
use crate::{CacheType, ObjectId, ObjectKind, PuId, Topology};
use std::collections::HashMap;

/// The properties that objects of one level share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sort {
    kind: ObjectKind,
    cache: Option<(u32, CacheType)>,
    /// The number of enclosing objects of the same kind and cache level.
    nested_in: usize,
}

/// The distinguishing levels of a machine, and which PUs share what at them.
#[derive(Clone, Debug)]
pub struct Levels {
    kinds: Vec<ObjectKind>,
    pus: Vec<PuId>,
    positions: HashMap<PuId, usize>,
    core_kinds: Vec<Option<usize>>,
    /// The domain of leaf `l` at level `v` is at `l * kinds.len() + v`.
    domains: Vec<usize>,
    domain_count: usize,
}

/// The data of a level during the traversal.
struct Found {
    sort: Sort,
    depth: usize,
    distinguishes: bool,
}

/// A depth-first traversal of the tree.
struct Walk<'a> {
    topology: &'a Topology,
    found: Vec<Found>,
    /// Objects and their levels (positions in `found`) from below the machine to here.
    path: Vec<(ObjectId, usize)>,
    /// The allowed PUs in topology order, each with its path.
    leaves: Vec<(PuId, Vec<(ObjectId, usize)>)>,
}

impl Levels {
    /// The levels of the allowed PUs of a machine.
    pub fn new(topology: &Topology) -> Self {
        let mut walk = Walk {
            topology,
            found: vec![],
            path: vec![],
            leaves: vec![],
        };
        walk.below(topology.root());

        let mut order: Vec<usize> = (0..walk.found.len())
            .filter(|&level| walk.found[level].distinguishes)
            .collect();
        order.sort_by_key(|&level| walk.found[level].depth);

        let mut numbers: HashMap<ObjectId, usize> = HashMap::new();
        let mut domain_count = 0;
        let mut domains = vec![];
        for (_, path) in &walk.leaves {
            for &level in &order {
                let object = path.iter().find(|(_, at)| *at == level).map(|&(object, _)| object);
                let domain = match object {
                    Some(object) => *numbers.entry(object).or_insert(domain_count),
                    None => domain_count,
                };
                domain_count = domain_count.max(domain + 1);
                domains.push(domain);
            }
        }
        let pus: Vec<PuId> = walk.leaves.iter().map(|&(pu, _)| pu).collect();
        Self {
            kinds: order.iter().map(|&level| walk.found[level].sort.kind).collect(),
            positions: pus.iter().enumerate().map(|(leaf, &pu)| (pu, leaf)).collect(),
            core_kinds: pus.iter().map(|&pu| core_kind(topology, pu)).collect(),
            pus,
            domains,
            domain_count,
        }
    }

    /// The kind of object at each level, the outermost first.
    pub fn kinds(&self) -> &[ObjectKind] {
        &self.kinds
    }

    /// The allowed PUs in topology order: depth first, siblings by their lowest allowed PU. A position in this slice is
    /// called a leaf.
    pub fn pus(&self) -> &[PuId] {
        &self.pus
    }

    /// The leaf of a PU; `None` for one that is not allowed.
    pub fn leaf(&self, pu: PuId) -> Option<usize> {
        self.positions.get(&pu).copied()
    }

    /// The kind of the core of a leaf, as position in `Topology::core_kinds`; `None` if the machine does not report
    /// it.
    pub fn core_kind(&self, leaf: usize) -> Option<usize> {
        self.core_kinds[leaf]
    }

    /// The domains of a leaf, one for each level. Domains are numbered from 0 through all levels.
    pub fn domains(&self, leaf: usize) -> &[usize] {
        let levels = self.kinds.len();
        &self.domains[leaf * levels..(leaf + 1) * levels]
    }

    /// The number of domains at all levels together.
    pub fn domain_count(&self) -> usize {
        self.domain_count
    }
}

impl Walk<'_> {
    /// Visits the objects below `object`, which is already the last one of the path.
    fn below(&mut self, object: ObjectId) {
        let children = children(self.topology, object);
        if let Some(&(_, level)) = self.path.last() {
            self.found[level].distinguishes |= children.len() > 1;
        }
        for child in children {
            if self.topology.object(child).kind == ObjectKind::Pu {
                let pus = self.topology.object(child).pus.iter();
                let path = &self.path;
                self.leaves.extend(pus.map(|pu| (pu, path.clone())));
                continue;
            }
            let level = self.level_of(child);
            self.path.push((child, level));
            self.below(child);
            self.path.pop();
        }
    }

    /// The level of an object at the end of the path, new or known.
    fn level_of(&mut self, id: ObjectId) -> usize {
        let object = self.topology.object(id);
        let cache = object.cache.map(|cache| (cache.level, cache.cache_type));
        let alike = |&&(_, level): &&(ObjectId, usize)| {
            let around = self.found[level].sort;
            around.kind == object.kind && around.cache == cache
        };
        let sort = Sort {
            kind: object.kind,
            cache,
            nested_in: self.path.iter().filter(alike).count(),
        };
        let depth = self.path.len();
        if let Some(level) = self.found.iter().position(|found| found.sort == sort) {
            let known = &mut self.found[level];
            known.depth = known.depth.max(depth);
            return level;
        }
        self.found.push(Found {
            sort,
            depth,
            distinguishes: false,
        });
        self.found.len() - 1
    }
}
