//! The shape of a machine for affinity hints: packages, their last-level-cache domains, and how many threads each can
//! have.
//!
//! Domains outside packages form one package. Cores are identified by their PUs; a machine that reports no cores has
//! one core per PU.

use crate::placement::{Levels, PlacementError};
use crate::{Cache, ObjectId, ObjectKind, Pinning, PuId, PuSet, Topology};
use std::cmp::Reverse;

/// The packages with allowed PUs, in topology order.
pub(super) struct Shape {
    pub(super) packages: Vec<Vec<Domain>>,
    pub(super) threads: usize,
    /// All PUs, depth first.
    order: Vec<PuId>,
}

/// The allowed PUs of one last-level cache.
pub(super) struct Domain {
    /// The first PU of each core, then the second ones, and so on, each time the fastest cores first.
    pus: Vec<PuId>,
    /// By threads: how many of them are on each kind of core, the fastest first.
    pub(super) on_kinds: Vec<Vec<u32>>,
    /// The fewest and the most threads that it can have if each thread has a PU.
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) likeness: Likeness,
}

/// Domains with equal values are interchangeable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Likeness {
    /// PUs by core, the most first.
    cores: Vec<usize>,
    /// Level, size and ways of the cache.
    cache: Option<(u32, Option<u64>, Option<u32>)>,
    /// The kinds of cores, as positions in `Topology::core_kinds`.
    kinds: Vec<Option<usize>>,
}

impl Shape {
    /// The shape for this number of threads.
    pub(super) fn new(topology: &Topology, threads: usize) -> Result<Self, PlacementError> {
        PlacementError::check(topology, threads)?;
        let cores = cores(topology);
        let share = threads > cores.len();
        let packages = topology
            .llc_domains_by_package()
            .iter()
            .map(|package| {
                let domain = |(id, pus): &(ObjectId, PuSet)| Domain::new(topology, *id, pus, &cores, share);
                package.iter().map(domain).collect()
            })
            .collect();
        Ok(Self {
            packages,
            threads,
            order: Levels::new(topology).pus().to_vec(),
        })
    }

    /// The pinning with these numbers of threads in each domain of each package.
    pub(super) fn pinning(&self, loads: &[Vec<usize>]) -> Pinning {
        let domains = self.packages.iter().flatten().zip(loads.iter().flatten());
        let chosen: PuSet = domains
            .flat_map(|(domain, &load)| domain.pus[..load].iter().copied())
            .collect();
        let pus = self.order.iter().copied().filter(|&pu| chosen.contains(pu)).collect();
        Pinning::new(pus).expect("there is at least one thread")
    }
}

impl Domain {
    fn new(topology: &Topology, id: ObjectId, pus: &PuSet, cores: &[Vec<PuId>], share: bool) -> Self {
        let mut mine: Vec<&Vec<PuId>> = cores.iter().filter(|core| pus.contains(core[0])).collect();
        mine.sort_by_key(|core| Reverse(topology.core_speed(core[0])));
        let widest = mine.iter().map(|core| core.len()).max().unwrap_or(0);
        let turns = (0..widest).flat_map(|turn| mine.iter().filter_map(move |core| core.get(turn).copied()));
        let turns: Vec<PuId> = turns.collect();
        let mut threads_a_core: Vec<usize> = mine.iter().map(|core| core.len()).collect();
        threads_a_core.sort_unstable_by(|a, b| b.cmp(a));
        let mut kinds: Vec<Option<usize>> = mine
            .iter()
            .map(|core| topology.core_kinds().iter().position(|kind| kind.pus.contains(core[0])))
            .collect();
        kinds.sort_unstable();
        let cache = |cache: Cache| (cache.level, cache.size, cache.ways);
        Self {
            on_kinds: on_kinds(topology, &turns),
            pus: turns,
            least: if share { mine.len() } else { 0 },
            most: if share { pus.len() } else { mine.len() },
            likeness: Likeness {
                cores: threads_a_core,
                cache: topology.object(id).cache.map(cache),
                kinds,
            },
        }
    }
}

/// The number of PUs of each kind of core among none, the first, the first two … of `pus`, the fastest kind first.
fn on_kinds(topology: &Topology, pus: &[PuId]) -> Vec<Vec<u32>> {
    let speed = |pu: PuId| topology.core_speed(pu) as usize;
    let fastest = topology.allowed_pus().iter().map(speed).max().unwrap_or(0);
    let mut counts = vec![0; fastest + 1];
    let mut by_threads = vec![counts.clone()];
    for &pu in pus {
        counts[fastest - speed(pu)] += 1;
        by_threads.push(counts.clone());
    }
    by_threads
}

/// The allowed PUs, by core.
fn cores(topology: &Topology) -> Vec<Vec<PuId>> {
    let allowed = topology.allowed_pus();
    let mut covered = PuSet::new();
    let mut cores: Vec<Vec<PuId>> = vec![];
    for (_, core) in topology.objects_of(ObjectKind::Core) {
        let pus = core.pus.intersection(allowed);
        covered.extend(pus.iter());
        if !pus.is_empty() {
            cores.push(pus.iter().collect());
        }
    }
    cores.extend(allowed.difference(&covered).iter().map(|pu| vec![pu]));
    cores
}

/// The number of `pus` in each domain of each package.
pub(super) fn loads(topology: &Topology, pus: &PuSet) -> Vec<Vec<usize>> {
    let load = |(_, domain): &(ObjectId, PuSet)| domain.intersection(pus).len();
    let package = |package: &Vec<(ObjectId, PuSet)>| package.iter().map(load).collect();
    topology.llc_domains_by_package().iter().map(package).collect()
}
