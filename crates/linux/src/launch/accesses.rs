//! Who accesses which pages of the program that is followed: sampled once for each process, when its initialisation is over,
//! and kept. Accesses belong to threads, so that they are as true of another pinning.

use super::pages::FollowedProcess;
use super::{Ranked, Shared};
use crate::memory::{Accesses, SampledMachine, Sampling, SamplingError, Target};
use pinfold_core::memory::{MemoryArea, PagePlaces, Sampled, memory_nodes, node_of_pu};
use pinfold_core::{NodeId, PageMapping, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of each process's accesses.
#[derive(Default)]
pub(super) struct ProgramAccesses {
    known: BTreeMap<i32, Accesses>,
}

impl ProgramAccesses {
    /// Forgets processes that have ended.
    pub(super) fn retain(&mut self, lives: &BTreeSet<i32>) {
        self.known.retain(|process, _| lives.contains(process));
    }

    /// Whether the accesses of a process are known.
    pub(super) fn knows(&self, process: i32) -> bool {
        self.known.contains_key(&process)
    }

    /// Samples the accesses of these processes. What came of it, and why there is nothing to be known of some. A process
    /// of which no access was seen is sampled again the next time.
    pub(super) fn sample(
        &mut self,
        shared: &Shared,
        processes: &[(i32, Vec<MemoryArea>)],
        sampling: Sampling,
    ) -> (Option<Sampled>, Vec<SamplingError>) {
        let targets: Vec<FollowedProcess<'_>> = processes
            .iter()
            .map(|&(process, _)| FollowedProcess { shared, process })
            .collect();
        let with_areas: Vec<(&dyn Target, &[MemoryArea])> = targets
            .iter()
            .zip(processes)
            .map(|(target, (_, areas))| (target as &dyn Target, areas.as_slice()))
            .collect();
        let mut whole: Option<Sampled> = None;
        let mut errors = vec![];
        let results = match SampledMachine::here().sample(&with_areas, sampling) {
            Ok(results) => results,
            Err(error) => return (None, vec![error]),
        };
        for (result, &(process, _)) in results.into_iter().zip(processes) {
            match result {
                Ok(accesses) => {
                    whole.get_or_insert_default().add(&accesses.sampled);
                    if !accesses.profile.is_empty() {
                        self.known.insert(process, accesses);
                    }
                }
                // It needs no places for its pages any more.
                Err(SamplingError::Halted(_)) => {}
                Err(error) => errors.push(error),
            }
        }
        (whole, errors)
    }

    /// Where a mapping puts the pages of a process whose accesses are known. A thread is where it is pinned, or else where
    /// it was seen last.
    pub(super) fn places(
        &self,
        process: i32,
        mapping: PageMapping,
        topology: &Topology,
        ranked: &[Ranked],
    ) -> Option<PagePlaces> {
        let accesses = self.known.get(&process)?;
        let nodes = memory_nodes(topology);
        if mapping == PageMapping::Balance {
            return Some(accesses.profile.by_balance(&nodes));
        }
        let pinned = ranked.iter().filter_map(|&(id, _, pu)| {
            let node = node_of_pu(topology, pu?)?;
            Some((id.thread.cast_unsigned(), node))
        });
        let pinned: BTreeMap<u32, NodeId> = pinned.collect();
        let node_of = |thread: u32| {
            let seen = || node_of_pu(topology, *accesses.last_pus.get(&thread)?);
            pinned.get(&thread).copied().or_else(seen)
        };
        Some(accesses.profile.by_locality(&nodes, node_of))
    }
}
