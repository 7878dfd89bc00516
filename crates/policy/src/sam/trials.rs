//! The trials that run, and whether the machine is calm enough for another one.

use super::coherence::Gathering;
use super::memory::HOLD;
use super::round::Round;
use super::trial::{Purpose, Trial};
use pinfold_core::TaskId;

/// No task must have moved for this number of intervals before a trial starts that no counter suggests.
const CALM: u64 = HOLD + 2;

/// The trials that run.
#[derive(Debug, Default)]
pub(super) struct Trials {
    running: Vec<Trial>,
    /// The last decision that moved a task; 0 before the first one.
    moved: u64,
}

impl Trials {
    /// Whether no trial runs.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether no trial runs, and no task has moved for a while.
    pub(super) fn is_calm(&self, now: u64) -> bool {
        self.is_empty() && now >= self.moved + CALM
    }

    /// Whether earlier moves may still have effects.
    pub(super) fn is_waiting(&self, now: u64) -> bool {
        self.moved > 0 && !self.is_calm(now)
    }

    /// The tasks that stay until their trial ends.
    pub(super) fn held(&self) -> impl Iterator<Item = TaskId> {
        self.running.iter().flat_map(Trial::held)
    }

    /// This decision moved a task.
    pub(super) fn note_moved(&mut self, now: u64) {
        self.moved = now;
    }

    /// Begins the trial of what was gathered.
    pub(super) fn begin(&mut self, round: &Round<'_>, gathering: &Gathering, purpose: Purpose) {
        self.running.push(Trial::new(round, gathering, round.moves, purpose));
    }

    /// Records an interval, and ends the trials that have seen enough intervals.
    pub(super) fn observe(&mut self, round: &mut Round<'_>) {
        let mut index = 0;
        while index < self.running.len() {
            if self.running[index].observe(round) {
                self.running.remove(index).conclude(round);
            } else {
                index += 1;
            }
        }
    }
}
