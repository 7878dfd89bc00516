//! The pages of each process: which may move, which follow their tasks, and whether some are under way.

use pinfold_core::memory::node_of_pu;
use pinfold_core::{NodeId, ProcessGoal, PuId, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Where the pages of processes belong while the moves are in force.
#[derive(Debug)]
pub(super) struct Pages {
    /// Whether pages may be moved at all.
    may_move: bool,
    /// The node of each PU.
    nodes: BTreeMap<PuId, NodeId>,
    /// The processes whose pages are moved, and where to.
    followed: BTreeMap<i32, ProcessGoal>,
    /// The processes whose pages cannot be moved.
    immovable: BTreeSet<i32>,
    /// Whether pages were under way in this interval.
    under_way: bool,
}

impl Pages {
    pub(super) fn new(topology: &Topology, may_move: bool) -> Self {
        let node = |pu| Some((pu, node_of_pu(topology, pu)?));
        Self {
            may_move,
            nodes: topology.allowed_pus().iter().filter_map(node).collect(),
            followed: BTreeMap::new(),
            immovable: BTreeSet::new(),
            under_way: false,
        }
    }

    /// The processes whose pages are moved, and where to.
    pub(super) fn followed(&self) -> &BTreeMap<i32, ProcessGoal> {
        &self.followed
    }

    /// Whether the pages of this process are moved.
    pub(super) fn follow(&self, process: i32) -> bool {
        self.followed.contains_key(&process)
    }

    /// Whether the pages of this process cannot be moved.
    pub(super) fn are_immovable(&self, process: i32) -> bool {
        self.immovable.contains(&process)
    }

    /// Whether two PUs are on different nodes.
    pub(super) fn are_apart(&self, one: PuId, other: PuId) -> bool {
        self.nodes.get(&one) != self.nodes.get(&other)
    }

    /// The pages of these processes move, too.
    pub(super) fn extend(&mut self, goals: &BTreeMap<i32, ProcessGoal>) {
        self.followed.extend(goals);
    }

    /// The pages of these processes move to their tasks, unless they are moved already or cannot be. Returns whether
    /// any process was added.
    pub(super) fn bring(&mut self, processes: &BTreeSet<i32>) -> bool {
        let brought: Vec<i32> = processes
            .iter()
            .copied()
            .filter(|&process| !self.follow(process) && !self.are_immovable(process))
            .collect();
        if !self.may_move || brought.is_empty() {
            return false;
        }
        let brought = brought.into_iter().map(|process| (process, ProcessGoal::Tasks));
        self.followed.extend(brought);
        true
    }

    /// The pages of all processes go back.
    pub(super) fn clear(&mut self) {
        self.followed.clear();
    }

    /// The pages of this process cannot be moved.
    pub(super) fn note_immovable(&mut self, process: i32) {
        self.followed.remove(&process);
        self.immovable.insert(process);
    }

    /// Forgets processes that have ended.
    pub(super) fn retain(&mut self, lives: impl Fn(i32) -> bool) {
        self.immovable.retain(|&process| lives(process));
    }

    /// Pages are under way in this interval.
    pub(super) fn note_under_way(&mut self) {
        self.under_way = true;
    }

    /// Whether pages were under way since the last call.
    pub(super) fn take_under_way(&mut self) -> bool {
        std::mem::take(&mut self.under_way)
    }
}
