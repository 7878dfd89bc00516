//! The last-level caches of a machine as the scheduler sees them.

use crate::StartError;
use crate::layout::{MOST_CPUS, MOST_DOMAINS};
use pinfold_core::memory::node_of_pu;
use pinfold_core::{PuId, PuSet, Topology};

/// The last-level cache of each CPU, by number, and their order by distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    pus: Vec<PuSet>,
    /// Of each domain: all domains, itself first, then by the distance of their memory and of their cores.
    nearest: Vec<Vec<usize>>,
}

impl Domains {
    /// The domains of a machine, in the order of its topology.
    ///
    /// # Errors
    /// If there are more than the scheduler can have.
    pub fn new(topology: &Topology) -> Result<Self, StartError> {
        let domains = topology.llc_domains();
        let pus: Vec<PuSet> = domains.iter().map(|&id| topology.object(id).pus.clone()).collect();
        at_most("last-level caches", pus.len(), MOST_DOMAINS)?;
        let cpus = pus
            .iter()
            .filter_map(|pus| pus.iter().next_back())
            .map(|pu| pu.0 as usize + 1)
            .max();
        at_most("CPUs", cpus.unwrap_or(0), MOST_CPUS)?;
        let firsts: Vec<PuId> = pus.iter().filter_map(PuSet::first).collect();
        let nearest = firsts.iter().enumerate().map(|(own, &from)| {
            let mut order: Vec<usize> = (0..firsts.len()).collect();
            order.sort_by_key(|&other| (other != own, distance(topology, from, firsts[other]), other));
            order
        });
        Ok(Self {
            nearest: nearest.collect(),
            pus,
        })
    }

    /// The number of domains.
    pub fn len(&self) -> usize {
        self.pus.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pus.is_empty()
    }

    /// The CPUs of a domain.
    pub fn pus(&self, domain: usize) -> Option<&PuSet> {
        self.pus.get(domain)
    }

    /// The domain of a CPU.
    pub fn of(&self, pu: PuId) -> Option<usize> {
        self.pus.iter().position(|pus| pus.contains(pu))
    }

    /// The domains with CPUs of a set, as bits.
    pub fn bits(&self, pus: &PuSet) -> u64 {
        let with = |(number, own): (usize, &PuSet)| u64::from(!own.intersection(pus).is_empty()) << number;
        self.pus.iter().enumerate().map(with).sum()
    }

    /// All domains in the order of their distance from one of them.
    pub(crate) fn nearest(&self, domain: usize) -> Option<&[usize]> {
        self.nearest.get(domain).map(Vec::as_slice)
    }
}

/// Refuses a machine with more of something than the scheduler can have.
pub(crate) fn at_most(what: &'static str, found: usize, most: usize) -> Result<(), StartError> {
    if found > most {
        return Err(StartError::TooLarge { what, found, most });
    }
    Ok(())
}

/// How far memory and cores of two CPUs are from each other. Without a table of distances only cores count.
fn distance(topology: &Topology, from: PuId, to: PuId) -> (u64, usize) {
    let memory = || {
        let (from, to) = (node_of_pu(topology, from)?, node_of_pu(topology, to)?);
        topology.distances()?.between(from, to)
    };
    (memory().unwrap_or(0), topology.hops(from, to))
}
