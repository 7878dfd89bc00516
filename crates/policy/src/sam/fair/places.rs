//! The PUs of each task: the one that the mapper chose, and the one that the operating system chose.
//!
//! ```text
//!               first move                without                 with
//!   unpinned  ------------->  placed  --------------->  at home  ------->  placed
//!                                     homes of others              PUs of others
//! ```
//!
//! `placed` has the tasks that the mapper pinned. All other tasks are unpinned in both arrangements, but the operating
//! system may have placed them around the pinned ones. So each change of the arrangement also moves them to the PU on
//! which they ran in the other arrangement, and lets them go one decision later.

use super::super::mapper::Mapper;
use super::super::rates::TaskRates;
use super::super::{Move, Reason};
use super::processes::WORKS;
use pinfold_core::{PuId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A task that the mapper has pinned.
#[derive(Clone, Copy, Debug)]
struct Placement {
    /// Its last move.
    made: Move,
    /// The last interval that listed it.
    listed: u64,
}

/// Where tasks are with the moves, and without.
#[derive(Debug, Default)]
pub(super) struct Places {
    placed: BTreeMap<TaskId, Placement>,
    /// Where tasks ran before the first move, or when the last turn without moves ended.
    homes: BTreeMap<TaskId, PuId>,
    /// Where tasks ran when the last turn with moves ended.
    mapped: BTreeMap<TaskId, PuId>,
    /// The tasks that the next decision lets go: they are back on their PUs.
    leaving: BTreeSet<TaskId>,
}

impl Places {
    /// Whether no task is pinned.
    pub(super) fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// The processes of pinned tasks.
    pub(super) fn processes(&self) -> BTreeSet<i32> {
        self.placed.keys().map(|task| task.process).collect()
    }

    /// Whether this task runs elsewhere with the moves than without, by `differ`. `is_pinned`: whether the moves are in
    /// force.
    pub(super) fn is_away(&self, task: &TaskRates, is_pinned: bool, differ: impl Fn(PuId, PuId) -> bool) -> bool {
        let mapped = match self.placed.get(&task.id) {
            Some(placement) => Some(placement.made.to),
            None if is_pinned => Some(task.pu),
            None => self.mapped.get(&task.id).copied(),
        };
        let home = self.homes.get(&task.id);
        home.zip(mapped).is_some_and(|(&home, mapped)| differ(home, mapped))
    }

    /// Notes which pinned tasks are listed, and forgets tasks that were not listed for the last `gone` intervals.
    pub(super) fn see(&mut self, now: u64, gone: u64, tasks: &[TaskRates]) {
        for task in tasks {
            if let Some(placement) = self.placed.get_mut(&task.id) {
                placement.listed = now;
            }
        }
        self.placed.retain(|_, placement| now < placement.listed + gone);
    }

    /// The first moves follow: tasks are at home now.
    pub(super) fn note_homes(&mut self, tasks: &[TaskRates]) {
        self.homes = arrangement(tasks);
    }

    /// Notes moves of the mapper.
    pub(super) fn note_moves(&mut self, now: u64, moves: &[Move]) {
        for made in moves {
            self.homes.entry(made.task).or_insert(made.from);
            let placement = Placement {
                made: *made,
                listed: now,
            };
            self.placed.insert(made.task, placement);
        }
    }

    /// The mapper no longer pins these tasks.
    pub(super) fn release(&mut self, tasks: &[TaskId]) {
        for task in tasks {
            self.placed.remove(task);
        }
    }

    /// No task is pinned any more, and the mapper learns that.
    pub(super) fn clear(&mut self, mapper: &mut Mapper) {
        for id in self.placed.keys() {
            mapper.let_go(*id);
        }
        self.placed.clear();
        self.homes.clear();
    }

    /// Whether the next decision lets tasks go.
    pub(super) fn are_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The tasks to let go.
    pub(super) fn take_leaving(&mut self) -> BTreeSet<TaskId> {
        std::mem::take(&mut self.leaving)
    }

    /// Moves tasks to the PUs on which they ran with the mapper's moves. A task that the mapper pinned stays pinned,
    /// unless it is not listed or may no longer run there.
    pub(super) fn pin(&mut self, tasks: &[TaskRates], mapper: &mut Mapper, moves: &mut Vec<Move>) {
        self.homes.extend(arrangement(tasks));
        let listed: BTreeMap<TaskId, &TaskRates> = tasks.iter().map(|task| (task.id, task)).collect();
        self.placed.retain(|id, placement| {
            let to = placement.made.to;
            let task = listed.get(id).filter(|task| task.allowed.contains(to));
            match task {
                Some(task) => moves.push(compared(task, to, &placement.made)),
                None => mapper.let_go(*id),
            }
            task.is_some()
        });
        let mut others = std::mem::take(&mut self.mapped);
        others.retain(|id, _| !self.placed.contains_key(id));
        self.send(tasks, &others, moves);
    }

    /// Moves tasks to the PUs on which they ran without moves. The next decision lets them go.
    pub(super) fn put_back(&mut self, tasks: &[TaskRates], moves: &mut Vec<Move>) {
        self.mapped = arrangement(tasks);
        let homes = std::mem::take(&mut self.homes);
        self.send(tasks, &homes, moves);
        self.homes = homes;
        self.leaving.extend(self.placed.keys());
    }

    /// Moves tasks to these PUs. The next decision lets them go.
    fn send(&mut self, tasks: &[TaskRates], to: &BTreeMap<TaskId, PuId>, moves: &mut Vec<Move>) {
        // A task that the mapper did not move has the cause of the first task that it did move.
        let Some(cause) = self.placed.values().next().map(|placement| placement.made) else {
            return;
        };
        for task in tasks {
            if let Some(&to) = to.get(&task.id)
                && to != task.pu
                && task.allowed.contains(to)
            {
                let cause = self.placed.get(&task.id).map_or(cause, |placement| placement.made);
                moves.push(compared(task, to, &cause));
                self.leaving.insert(task.id);
            }
        }
    }
}

/// The PU of each working task. Tasks that hardly run stay in both arrangements.
fn arrangement(tasks: &[TaskRates]) -> BTreeMap<TaskId, PuId> {
    let working = tasks.iter().filter(|task| task.busy >= WORKS);
    working.map(|task| (task.id, task.pu)).collect()
}

/// A move for a comparison, with the cause of the mapper's move.
fn compared(task: &TaskRates, to: PuId, made: &Move) -> Move {
    Move {
        from: task.pu,
        to,
        task: task.id,
        reason: Reason::Comparison,
        makes_room: false,
        reluctant: false,
        swapped_with: None,
        ..*made
    }
}
