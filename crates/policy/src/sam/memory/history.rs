//! When a task moved, and how long it stays.

/// The least number of intervals that a task stays after a move. In the first its caches are cold, and "tasks that have
/// just been migrated" are easily mistaken for sharers (section 4.5). The next two show the effect of the move. That
/// two are enough is assumed.
pub(in super::super) const HOLD: u64 = 3;

/// After this number of intervals the progress of a moved task is known again, so that another move can be judged.
const KNOWN_AGAIN: u64 = 2;

/// A task that returns to a domain within this number of intervals moves back and forth. Assumed: a minute of the
/// paper's 100 ms.
const BACK_AND_FORTH: u64 = 600;

/// A task that is moved again within this multiple of its hold is restless, also if it goes to a third domain. Assumed.
const RESTLESS: u64 = 4;

/// The largest number of doublings of the hold: about two days at 100 ms.
const MOST_STRIKES: u32 = 20;

/// The moves of a task from one coherence domain to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MoveHistory {
    /// The decision of the last move.
    moved: Option<u64>,
    /// The domain that it left.
    moved_from: Option<usize>,
    /// It is not moved before this interval.
    held_until: u64,
    /// How often it returned, or moved on, soon.
    strikes: u32,
}

impl MoveHistory {
    /// Whether this decision moved it.
    pub(super) fn was_moved_by(&self, decision: u64) -> bool {
        self.moved == Some(decision)
    }

    /// Whether it must stay now.
    pub(super) fn is_held(&self, now: u64) -> bool {
        now < self.held_until
    }

    /// How often it returned, or moved on, soon.
    pub(super) fn strikes(&self) -> u32 {
        self.strikes
    }

    /// Adds a move. `back`: a move is rolled back. After the first time another method may move it soon. A task that
    /// returns more often is held like any other.
    pub(super) fn add(&mut self, now: u64, [from, to]: [usize; 2], back: bool, hysteresis: bool) {
        if hysteresis {
            let restless = match self.moved {
                None => false,
                Some(before) if self.moved_from == Some(to) => now - before < BACK_AND_FORTH,
                Some(before) => now - before < RESTLESS * (HOLD << self.strikes),
            };
            if restless {
                self.strikes = (self.strikes + 1).min(MOST_STRIKES);
            }
            let soon = back && self.strikes <= 1;
            self.held_until = now + if soon { KNOWN_AGAIN } else { HOLD << self.strikes };
        }
        self.moved = Some(now);
        self.moved_from = Some(from);
    }
}
