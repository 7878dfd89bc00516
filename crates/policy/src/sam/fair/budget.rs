//! What comparisons cost, when the next one begins, and for how long tasks stay unpinned after moves were given up.
//!
//! A comparison costs progress: where moves help, the turns without them, in the mean of the processes; where moves
//! harm, the turns with them, in the slowest process. The time in which pages are copied is lost, too. All of this may
//! be `LOSS` of the time at most.

use super::clock::{Clock, SETTLE, WINDOW};
use std::collections::BTreeSet;

/// The share of the time that comparisons may cost.
const LOSS: f64 = 0.005;

/// The assumed gain of moves that were not measured yet: the mean of the paper's mixes (section 4.3).
const EXPECTED: f64 = 0.15;

/// The unpinned steps of a comparison that needs as few pairs as possible.
const UNPINNED: u64 = 1 + SETTLE + 2 * WINDOW;

/// Moves that do not end within this number of steps are measured while they go on. Assumed.
pub(super) const RESTLESS: u64 = 30;

/// The least number of steps between two comparisons. Assumed: ten seconds.
const PAUSE: u64 = 100;

/// The largest number of doublings of the pause.
const MOST_PAUSES: u32 = 10;

/// The pause after moves were given up. All values are in intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    /// Nothing ends it before this interval.
    pub(super) earliest_end: f64,
    pub(super) end: f64,
    pub(super) lasts: f64,
}

/// A comparison that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The intervals without moves, and with moves.
    pub(super) spent: [u64; 2],
    /// The intervals in which pages were copied, as a share of the processes: one for all of them.
    pub(super) copying: f64,
    /// The mean gain of the processes by the moves, and the least one, as logarithms.
    pub(super) gains: (f64, f64),
    /// The processes that were compared.
    pub(super) processes: BTreeSet<i32>,
}

/// The cost of comparisons so far.
#[derive(Debug)]
pub(super) struct Budget {
    /// The mean gain by the moves in force, as a logarithm; assumed before it is measured.
    gain: f64,
    /// The cost of all comparisons, in intervals.
    cost: f64,
    /// The interval that pinned the first task.
    pinned_since: u64,
    /// The processes of the last comparison, and its end.
    judged: BTreeSet<i32>,
    ended: u64,
    /// The earliest interval of the next comparison of the same processes.
    next: u64,
    /// How often moves were given up since moves were kept.
    refusals: u32,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            gain: EXPECTED,
            cost: 0.0,
            pinned_since: 0,
            judged: BTreeSet::new(),
            ended: 0,
            next: 0,
            refusals: 0,
        }
    }

    /// Tasks are pinned from now on.
    pub(super) fn note_pinned(&mut self, now: u64) {
        self.pinned_since = now;
    }

    /// Moves have settled, and changed progress by this, as a logarithm. A comparison of them is due now.
    pub(super) fn note_change(&mut self, now: u64, change: Option<f64>) {
        self.gain = change.unwrap_or(EXPECTED);
        self.next = now;
    }

    /// Whether this process was in the last comparison.
    pub(super) fn has_judged(&self, process: i32) -> bool {
        self.judged.contains(&process)
    }

    /// Whether a comparison of these processes is due, and cheap enough.
    pub(super) fn affords(&self, clock: &Clock, processes: impl Iterator<Item = i32>) -> bool {
        let next = if processes.eq(self.judged.iter().copied()) {
            self.next
        } else {
            self.next.min(self.ended + clock.steps(PAUSE))
        };
        let cost = clock.steps(UNPINNED) as f64 * lost(self.gain);
        clock.now() >= next && self.cost + cost <= LOSS * clock.now() as f64
    }

    /// The moves stay after this comparison. The next one is due when twice as much time has passed.
    pub(super) fn keep(&mut self, clock: &Clock, ended: Ended) {
        self.charge(clock, ended);
        self.refusals = 0;
        self.next = clock.now() + clock.now().max(clock.steps(PAUSE));
    }

    /// The moves are given up after this comparison. Returns how long tasks stay unpinned: the next comparison costs as
    /// much as this one, unless it compares other processes.
    pub(super) fn give_up(&mut self, clock: &Clock, mut ended: Ended) -> Pause {
        // Moves that stayed for longer did no harm when they were measured last.
        ended.spent[1] += (clock.now() - self.pinned_since).min(clock.steps(RESTLESS));
        let cost = self.charge(clock, ended);
        let now = clock.now() as f64;
        let affordable = (self.cost + cost) / LOSS - now;
        let least = (clock.steps(PAUSE) << self.refusals) as f64;
        self.refusals = (self.refusals + 1).min(MOST_PAUSES);
        self.next = 0;
        let lasts = affordable.max(least);
        Pause {
            earliest_end: now + least,
            end: now + lasts,
            lasts,
        }
    }

    /// Adds the cost of a comparison, and returns it.
    fn charge(&mut self, clock: &Clock, ended: Ended) -> f64 {
        let [unpinned, pinned] = ended.spent;
        let (mean, least) = ended.gains;
        let cost = unpinned as f64 * lost(mean) + pinned as f64 * lost(-least) + ended.copying;
        self.cost += cost;
        self.gain = mean;
        self.judged = ended.processes;
        self.ended = clock.now();
        cost
    }
}

/// The share of the progress that is lost in the slower of two arrangements. `gain` is the other one's gain, as a
/// logarithm.
fn lost(gain: f64) -> f64 {
    1.0 - (-gain.max(0.0)).exp()
}
