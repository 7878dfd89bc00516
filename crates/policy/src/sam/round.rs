//! One decision while it is made: the data of the three steps, and how a move is made and recorded.

use super::memory::{Memory, Remembered};
use super::options::{FAINT, MapperOptions, Thresholds};
use super::placement_sets::PlacementSets;
use super::rates::TaskRates;
use super::shape::{Place, Shape};
use super::{Excess, Move, Reason};

/// The data of a step. Tasks are numbered in the order of their ids.
pub(super) struct Round<'a> {
    /// The number of this decision, from 1.
    pub(super) now: u64,
    pub(super) shape: &'a Shape,
    pub(super) thresholds: &'a Thresholds,
    pub(super) options: MapperOptions,
    pub(super) tasks: &'a [TaskRates],
    pub(super) sets: &'a mut PlacementSets,
    pub(super) memory: &'a mut Memory,
    pub(super) moves: &'a mut Vec<Move>,
    /// What was remembered of each task that was moved, before its move.
    pub(super) before: Vec<(usize, Remembered)>,
}

/// A decision up to some move, so that later moves can be dropped.
pub(super) struct Savepoint {
    sets: PlacementSets,
    moves: usize,
    before: usize,
}

/// The reason of a move, and the rate that caused it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause {
    pub(super) reason: Reason,
    pub(super) excess: Excess,
}

impl Round<'_> {
    /// The decision as it is now.
    pub(super) fn save(&self) -> Savepoint {
        Savepoint {
            sets: self.sets.clone(),
            moves: self.moves.len(),
            before: self.before.len(),
        }
    }

    /// The moves that were made since.
    pub(super) fn moves_since(&self, savepoint: &Savepoint) -> &[Move] {
        &self.moves[savepoint.moves..]
    }

    /// Drops the moves that were made since.
    pub(super) fn restore(&mut self, savepoint: Savepoint) {
        *self.sets = savepoint.sets;
        self.moves.truncate(savepoint.moves);
        for (task, remembered) in self.before.drain(savepoint.before..).rev() {
            *self.memory.task_mut(task) = remembered;
        }
    }

    /// The place of a task, if it is on a PU that may be used.
    pub(super) fn place(&self, task: usize) -> Option<Place> {
        self.sets.place(self.shape, task)
    }

    /// A task with at most this traffic between domains shares with no other domain.
    pub(super) fn quiet_below(&self) -> f64 {
        let share = if self.options.tries_faint_sharers() { FAINT } else { 1.0 };
        share * self.thresholds.coherence
    }

    /// A memory domain with a higher demand for bandwidth is saturated.
    pub(super) fn bandwidth(&self, memory: usize) -> f64 {
        self.thresholds.package_memory * self.shape.bandwidth_share[memory]
    }

    /// `move` of figure 4: the task goes to an idle PU of these cells, if there is one for it.
    pub(super) fn move_to_idle(&mut self, task: usize, cells: &[usize], cause: Cause) -> bool {
        let Some(to) = self.sets.idle(self.shape, self.tasks, cells, task) else {
            return false;
        };
        self.move_to(task, to, cause);
        true
    }

    /// The task goes to this PU, which is idle. A task that hardly runs there goes to the old PU. Other tasks may wait
    /// for it, and on one PU each of the two would wait until the other leaves.
    pub(super) fn move_to(&mut self, task: usize, position: usize, cause: Cause) {
        let (Some(from), Some(left)) = (self.place(task), self.sets.states()[task].position) else {
            return;
        };
        let to = self.shape.places[position];
        self.sets.put(self.shape, task, position);
        let lodger = self.sets.evict(self.shape, self.tasks, position, left);
        self.note(task, from, to, cause, lodger.map(|other| (other, false)), false);
        if let Some(other) = lodger {
            self.note(other, to, from, cause, Some((task, true)), false);
        }
    }

    /// The task is pinned to the PU on which it runs, if its mask allows that.
    pub(super) fn keep(&mut self, task: usize, cause: Cause) {
        let state = self.sets.states()[task];
        let (Some(place), Some(position)) = (self.place(task), state.position) else {
            return;
        };
        if state.free && self.tasks[state.input].allowed.contains(place.pu) {
            self.sets.put(self.shape, task, position);
            self.note(task, place, place, cause, None, false);
        }
    }

    /// `swap` of figure 4: the task and the one that makes room for it exchange their PUs. `reluctant`: the other one
    /// leaves its memory.
    pub(super) fn swap(&mut self, task: usize, other: usize, cause: Cause, reluctant: bool) {
        let (Some(from), Some(to)) = (self.place(task), self.place(other)) else {
            return;
        };
        self.sets.swap(self.shape, task, other);
        self.note(task, from, to, cause, Some((other, false)), false);
        let reluctant = reluctant && from.memory != to.memory;
        self.note(other, to, from, cause, Some((task, true)), reluctant);
    }

    fn note(
        &mut self,
        task: usize,
        from: Place,
        to: Place,
        cause: Cause,
        swap: Option<(usize, bool)>,
        reluctant: bool,
    ) {
        let id = |task: usize| self.tasks[self.sets.states()[task].input].id;
        self.moves.push(Move {
            task: id(task),
            from: from.pu,
            to: to.pu,
            reason: cause.reason,
            makes_room: swap.is_some_and(|(_, makes_room)| makes_room),
            reluctant,
            excess: Some(cause.excess),
            swapped_with: swap.map(|(other, _)| id(other)),
        });
        let remembered = self.memory.task_mut(task);
        self.before.push((task, remembered.clone()));
        if cause.reason == Reason::Keep {
            remembered.note_kept();
        } else {
            let back = cause.reason == Reason::RollBack;
            remembered.note_move(self.now, [from.domain, to.domain], back, self.options.hysteresis);
        }
        remembered.note_memory(from.memory, to.memory, reluctant);
    }
}
