//! The accesses of the program's threads by page. They are sampled once per process after its initialisation, or taken
//! from a recording, and kept. Accesses belong to threads, so they remain valid under another pinning.

use super::followed_process::FollowedProcess;
use super::{Ranked, Shared};
use crate::memory::{Accesses, ProfileError, SampledMachine, Sampling, SamplingError, Target, on_process};
use pinfold_core::memory::{
    AccessProfile, MemoryArea, PagePlaces, Profiled, RecordedProfile, Sampled, main_memory, memory_nodes, node_of_pu,
};
use pinfold_core::{NodeId, PageMapping, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The known accesses of each process.
#[derive(Default)]
pub(super) struct ProgramAccesses {
    known: BTreeMap<i32, ProcessAccesses>,
}

/// The accesses of one process.
enum ProcessAccesses {
    /// By the kernel's thread numbers.
    Sampled(Box<Accesses>),
    /// By ranks.
    Recorded(AccessProfile),
}

impl ProgramAccesses {
    /// Removes processes that are not in `lives`.
    pub(super) fn retain(&mut self, lives: &BTreeSet<i32>) {
        self.known.retain(|process, _| lives.contains(process));
    }

    /// Whether the accesses of a process are known.
    pub(super) fn knows(&self, process: i32) -> bool {
        self.known.contains_key(&process)
    }

    /// Samples the accesses of these processes. Returns the result, and the reasons for processes without accesses. A
    /// process without samples is sampled again the next time.
    pub(super) fn sample(
        &mut self,
        shared: &Shared,
        processes: &[(i32, Vec<MemoryArea>)],
        machine: &SampledMachine,
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
        let results = match machine.sample(&with_areas, sampling) {
            Ok(results) => results,
            Err(error) => return (None, vec![error]),
        };
        for (result, &(process, _)) in results.into_iter().zip(processes) {
            match result {
                Ok(accesses) => {
                    whole.get_or_insert_default().add(&accesses.sampled);
                    if !accesses.profile.is_empty() {
                        self.known.insert(process, ProcessAccesses::Sampled(Box::new(accesses)));
                    }
                }
                // The process has ended, and its accesses are not needed any more.
                Err(SamplingError::Stopped(_)) => {}
                Err(error) => errors.push(error),
            }
        }
        (whole, errors)
    }

    /// Takes the accesses of a process from a recording. Returns the result. Fails if the recording is of another
    /// program.
    pub(super) fn recorded(
        &mut self,
        shared: &Shared,
        process: i32,
        areas: &[MemoryArea],
        procfs: &Path,
        page_size: u64,
        recorded: &RecordedProfile,
    ) -> Result<Option<Profiled>, ProfileError> {
        let target = FollowedProcess { shared, process };
        let mut read = None;
        let held = target.held(&mut |process| read = Some(on_process(procfs, recorded, process, areas, page_size)));
        // The process has ended, and its accesses are not needed any more.
        let (Ok(()), Some(read)) = (held, read) else {
            return Ok(None);
        };
        let (profile, profiled) = read?;
        self.known.insert(process, ProcessAccesses::Recorded(profile));
        Ok(Some(profiled))
    }

    /// The places of the pages of a process with known accesses. A thread's node is the node of its PU if it is pinned,
    /// or else the node of the PU that it was last seen on.
    pub(super) fn places(
        &self,
        process: i32,
        mapping: PageMapping,
        topology: &Topology,
        ranked: &[Ranked],
    ) -> Option<PagePlaces> {
        let known = self.known.get(&process)?;
        let profile = match known {
            ProcessAccesses::Sampled(accesses) => &accesses.profile,
            ProcessAccesses::Recorded(profile) => profile,
        };
        if mapping == PageMapping::Balance {
            return Some(profile.place_by_balance(&main_memory(topology)));
        }
        let its = ranked.iter().filter(|(id, ..)| id.process == process);
        let pinned = its.filter_map(|&(id, rank, pu)| {
            let number = match known {
                ProcessAccesses::Sampled(_) => id.thread.cast_unsigned(),
                ProcessAccesses::Recorded(_) => u32::try_from(rank).ok()?,
            };
            Some((number, node_of_pu(topology, pu?)?))
        });
        let pinned: BTreeMap<u32, NodeId> = pinned.collect();
        let node_of = |thread: u32| {
            let seen = || match known {
                ProcessAccesses::Sampled(accesses) => node_of_pu(topology, *accesses.last_pus.get(&thread)?),
                ProcessAccesses::Recorded(_) => None,
            };
            pinned.get(&thread).copied().or_else(seen)
        };
        Some(profile.place_by_locality(&memory_nodes(topology), node_of))
    }
}
