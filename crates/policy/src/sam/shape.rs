//! The mapper's view of the machine: which PUs share what.
//!
//! The paper has packages only, which share everything. Here each step has the domain of its bottleneck:
//!
//! - coherence: the last-level-cache domain. On a package with one last-level cache that is the package; on AMD's EPYC
//!   it is a core complex. Traffic between two domains of a package is traffic between domains;
//! - memory, local and remote, and its bandwidth: the PUs that a NUMA node and a package have in common. If a package
//!   has several nodes, each has its share of the package's bandwidth. If all packages share one node, each has its own
//!   bus to it.
//!
//! A *cell* is the PUs that are in the same domain of both kinds. Nearly always it is a last-level-cache domain.

use pinfold_core::{ObjectKind, PuId, PuSet, Topology};
use std::cmp::Reverse;

/// The domains of one PU; numbers are positions in the lists of `Shape`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pu: PuId,
    pub(super) core: usize,
    pub(super) cell: usize,
    pub(super) domain: usize,
    pub(super) memory: usize,
    pub(super) package: usize,
}

/// A set of PUs that share something.
#[derive(Clone, Debug, Default)]
pub(super) struct Area {
    /// Its cells.
    pub(super) cells: Vec<usize>,
    /// How many cores may be used.
    pub(super) cores: usize,
    /// How many PUs may be used.
    pub(super) pus: usize,
    /// Its package.
    pub(super) package: usize,
}

/// The PUs that may be used, and their domains.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// By position; ascending by PU.
    pub(super) places: Vec<Place>,
    /// By core: positions of its PUs.
    pub(super) cores: Vec<Vec<usize>>,
    /// By core: its rank among the kinds of cores; a greater one is faster.
    pub(super) speeds: Vec<u32>,
    /// By cell: its cores, the fastest first.
    pub(super) cells: Vec<Vec<usize>>,
    /// Last-level-cache domains.
    pub(super) domains: Vec<Area>,
    /// Memory domains.
    pub(super) memories: Vec<Area>,
    /// By memory domain: its share of its package's bandwidth.
    pub(super) bandwidth_share: Vec<f64>,
    /// By number of PU: its position.
    positions: Vec<Option<usize>>,
}

impl Shape {
    pub(super) fn new(topology: &Topology) -> Self {
        let allowed = topology.allowed_pus();
        let domains: Vec<&PuSet> = topology
            .llc_domains()
            .into_iter()
            .map(|id| &topology.object(id).pus)
            .collect();
        let packages: Vec<&PuSet> = sets(topology, ObjectKind::Package);
        let cores: Vec<&PuSet> = sets(topology, ObjectKind::Core);
        let nodes: Vec<&PuSet> = topology.nodes().iter().map(|node| &node.pus).collect();
        let mut known = Known::default();
        let mut shape = Self {
            places: vec![],
            cores: vec![],
            speeds: vec![],
            cells: vec![],
            domains: vec![],
            memories: vec![],
            bandwidth_share: vec![],
            positions: vec![],
        };
        for pu in allowed.iter() {
            let within = |sets: &[&PuSet]| sets.iter().position(|set| set.contains(pu));
            let package = known.package(within(&packages));
            let domain = known.domain(within(&domains));
            let memory = known.memory((package, within(&nodes)));
            let cell = known.cell((domain, memory));
            let core = known.core(within(&cores).ok_or(pu));
            shape.add(Place {
                pu,
                core,
                cell,
                domain,
                memory,
                package,
            });
        }
        let speed = |core: &Vec<usize>| topology.core_speed(shape.places[core[0]].pu);
        shape.speeds = shape.cores.iter().map(speed).collect();
        for cell in &mut shape.cells {
            cell.sort_by_key(|&core| Reverse(shape.speeds[core]));
        }
        let memories_of = |package| shape.memories.iter().filter(|area| area.package == package).count();
        shape.bandwidth_share = shape
            .memories
            .iter()
            .map(|area| 1.0 / memories_of(area.package) as f64)
            .collect();
        shape
    }

    /// The position of a PU; `None` for one that may not be used.
    pub(super) fn position(&self, pu: PuId) -> Option<usize> {
        *self.positions.get(pu.0 as usize)?
    }

    fn add(&mut self, place: Place) {
        let position = self.places.len();
        self.places.push(place);
        let number = place.pu.0 as usize;
        self.positions.resize(self.positions.len().max(number + 1), None);
        self.positions[number] = Some(position);
        let new_core = at(&mut self.cores, place.core).is_empty();
        self.cores[place.core].push(position);
        let cell = at(&mut self.cells, place.cell);
        if new_core {
            cell.push(place.core);
        }
        for (areas, index) in [(&mut self.domains, place.domain), (&mut self.memories, place.memory)] {
            let area = at(areas, index);
            area.package = place.package;
            area.pus += 1;
            area.cores += usize::from(new_core);
            if !area.cells.contains(&place.cell) {
                area.cells.push(place.cell);
            }
        }
    }
}

fn sets(topology: &Topology, kind: ObjectKind) -> Vec<&PuSet> {
    topology.objects_of(kind).map(|(_, object)| &object.pus).collect()
}

/// The element at `index`, which exists or is the next.
fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if index == list.len() {
        list.push(T::default());
    }
    &mut list[index]
}

/// Numbers objects in the order of their first use, so that only objects with usable PUs have a number.
#[derive(Default)]
struct Known {
    packages: Vec<Option<usize>>,
    domains: Vec<Option<usize>>,
    memories: Vec<(usize, Option<usize>)>,
    cells: Vec<(usize, usize)>,
    cores: Vec<Result<usize, PuId>>,
}

impl Known {
    fn package(&mut self, one: Option<usize>) -> usize {
        number(&mut self.packages, one)
    }

    fn domain(&mut self, one: Option<usize>) -> usize {
        number(&mut self.domains, one)
    }

    fn memory(&mut self, one: (usize, Option<usize>)) -> usize {
        number(&mut self.memories, one)
    }

    fn cell(&mut self, one: (usize, usize)) -> usize {
        number(&mut self.cells, one)
    }

    /// A PU outside any core is its own core.
    fn core(&mut self, one: Result<usize, PuId>) -> usize {
        number(&mut self.cores, one)
    }
}

fn number<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    known.iter().position(|other| *other == one).unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    })
}
