//! The nodes that the pages of another process belong to, from the nodes of its threads. The file systems' roots are in
//! `System`, so that a test can use its own files.
//!
//! A thread is on the node that it may run on. If it may run on several nodes, it is on the node of its last PU.

use super::{Accesses, System};
use crate::affinity::CpuMask;
use crate::procfs::Procfs;
use pinfold_core::memory::{
    AccessProfile, PagePlaces, Spread, Unavailable, main_memory, memory_nodes, node_of_pu, nodes_of_pus, spread,
};
use pinfold_core::{NodeId, NodeSet, PageMapping, PuId, Topology};
use std::collections::BTreeMap;

/// The threads of a process, on a machine.
pub struct ProcessThreads<'a> {
    topology: &'a Topology,
    system: &'a System,
    procfs: Procfs,
    process: i32,
}

impl<'a> ProcessThreads<'a> {
    /// The threads of the process with this number.
    pub fn new(topology: &'a Topology, system: &'a System, process: i32) -> Self {
        Self {
            topology,
            system,
            procfs: Procfs::new(system.procfs()),
            process,
        }
    }

    /// The nodes that the threads may run on.
    pub fn nodes(&self) -> NodeSet {
        let threads = self.procfs.threads(self.process);
        let masks = threads.iter().filter_map(|&thread| CpuMask::read(thread).ok());
        let pus: Vec<PuId> = masks.flat_map(|mask| mask.pus().collect::<Vec<_>>()).collect();
        nodes_of_pus(self.topology, pus)
    }

    /// The places of pages under a mapping that ignores accesses. `None` if the mapping names no node for these
    /// threads.
    ///
    /// # Errors
    ///
    /// The mapping names a node that does not exist or may not be used.
    pub fn spread(&self, mapping: PageMapping) -> Result<Option<Spread>, Unavailable> {
        spread(mapping, self.topology, &self.nodes(), |node| self.system.weight(node))
    }

    /// The places of pages under a mapping, from sampled accesses.
    pub fn places_from_samples(&self, mapping: PageMapping, accesses: &Accesses) -> PagePlaces {
        let threads = self.procfs.threads(self.process).into_iter();
        let bound: BTreeMap<u32, NodeId> = threads
            .filter_map(|thread| Some((thread.cast_unsigned(), self.bound_to(thread)?)))
            .collect();
        let node_of = |thread: u32| {
            let ran_last = || node_of_pu(self.topology, *accesses.last_pus.get(&thread)?);
            bound.get(&thread).copied().or_else(ran_last)
        };
        self.places(mapping, &accesses.profile, node_of)
    }

    /// The places of pages under a mapping, from recorded accesses. The threads of `profile` are ranks: positions in
    /// the start order of the process's threads.
    pub fn places_from_recording(&self, mapping: PageMapping, profile: &AccessProfile) -> PagePlaces {
        let threads = self.procfs.threads(self.process).into_iter();
        let mut threads: Vec<(u64, i32, Option<PuId>)> = threads
            .filter_map(|thread| {
                let stat = self.procfs.stat(self.process, thread)?;
                Some((stat.start, thread, stat.last_pu))
            })
            .collect();
        // Threads that started within one clock tick are ordered by number.
        threads.sort_unstable();
        let node_of = |rank: u32| {
            let &(_, thread, last_pu) = threads.get(usize::try_from(rank).ok()?)?;
            self.bound_to(thread).or_else(|| node_of_pu(self.topology, last_pu?))
        };
        self.places(mapping, profile, node_of)
    }

    fn places(
        &self,
        mapping: PageMapping,
        profile: &AccessProfile,
        node_of: impl Fn(u32) -> Option<NodeId>,
    ) -> PagePlaces {
        match mapping {
            PageMapping::Balance => profile.place_by_balance(&main_memory(self.topology)),
            _ => profile.place_by_locality(&memory_nodes(self.topology), node_of),
        }
    }

    /// The only node that a thread may run on.
    fn bound_to(&self, thread: i32) -> Option<NodeId> {
        let mask = CpuMask::read(thread).ok()?;
        nodes_of_pus(self.topology, mask.pus()).only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::memory::PageGoal;
    use pinfold_core::{NumaNode, ObjectKind, TopologyBuilder};
    use std::fs;

    /// Two packages of one PU each, with a node of memory.
    fn two_nodes() -> Topology {
        let mut builder = TopologyBuilder::new("pair");
        let root = builder.root();
        for package in 0..2 {
            let object = builder.object(root, ObjectKind::Package, Some(package));
            builder.pu(object, PuId(package));
            builder.node(NumaNode {
                id: NodeId(package),
                attached_to: object,
                pus: [PuId(package)].into_iter().collect(),
                memory: Some(1 << 30),
                subtype: None,
            });
        }
        builder.build_all().unwrap()
    }

    /// A `stat` line of a thread that started at `start` and last ran on `pu`.
    fn stat(thread: i32, start: u64, pu: u32) -> String {
        format!(
            "{thread} (app) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 {pu} 0 0 0"
        )
    }

    #[test]
    fn recorded_pages_follow_the_threads_in_the_order_in_which_they_began() {
        // No kernel assigns these numbers, so no thread of this machine has a mask under one of them.
        const PROCESS: i32 = 2_000_000_000;
        const FIRST: i32 = PROCESS + 2;
        const SECOND: i32 = PROCESS + 1;
        let root = tempfile::tempdir().unwrap();
        for (thread, start, pu) in [(FIRST, 10, 1), (SECOND, 20, 0)] {
            let folder = root.path().join(format!("{PROCESS}/task/{thread}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("stat"), stat(thread, start, pu)).unwrap();
        }
        let (topology, system) = (two_nodes(), System::new(root.path(), root.path()));
        let threads = ProcessThreads::new(&topology, &system, PROCESS);
        let mut profile = AccessProfile::default();
        profile.add(0x1000, 0x1000, 0, 5);
        profile.add(0x2000, 0x1000, 1, 5);
        let places = threads.places_from_recording(PageMapping::Locality, &profile);
        let node = |address| places.wanted(address, 0x1000, NodeId(7)).0;
        assert_eq!([node(0x1000), node(0x2000)], [1, 0]);
        assert_eq!(node(0x3000), 7, "no thread accessed it");
    }
}
