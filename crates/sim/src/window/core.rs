//! How much of a miss the core hides.
//!
//! The model is that of interval analysis (Eyerman, Eeckhout, Karkhanis, Smith: "A mechanistic performance model for
//! superscalar out-of-order processors", ACM TOCS 27(2), 2009; Karkhanis and Smith, ISCA 2004): instructions are
//! dispatched at a steady pace until a load that missed blocks the reorder buffer. In terms of this file:
//!
//! - `n` instructions take `n x base_cpi` cycles, in which hits of the L1 are contained.
//! - A miss is issued when its address is known and a line-fill buffer is free: `issue = max(now, address, buffer)`; it
//!   completes at `issue + latency`, until when the buffer is taken. So at most as many misses overlap as there are buffers.
//! - `reorder_buffer` instructions after a load that missed, dispatch stops until it has completed: `now = max(now,
//!   completion)`. That is the stall; everything before it is hidden.
//! - A store that missed does not block the reorder buffer. It takes a line-fill buffer, and dispatch stops while none is
//!   free. Stores are done in order, so `store_buffer` stores after it dispatch stops until it has completed.
//!
//! Which load's address depends on which other load a recording without registers cannot tell. The rule here: a load
//! whose address could be predicted from its stride depends on nothing. Any other took its address from the nearest load
//! before it, if that is at most `DEPENDENCE_DISTANCE` instructions away: `address = completion of that load`. A pointer
//! chase is a chain by this rule, a gather through an index array is not (the load before is the index, which streams),
//! and a random access whose address is computed in many instructions is not. It errs where a short computation gives
//! an address that depends on no load, and where dependent loads are far apart.
//!
//! - An atomic instruction waits for everything before it, and everything after it waits for it. Where the model says that
//!   several may wait for their lines at once, they are like stores that hold up the reorder buffer, too.
//!
//! Limits: branch mispredictions, the instruction cache and execution units are in `base_cpi`.

use super::time::Ticks;
use std::collections::VecDeque;

/// How many instructions back an address may come from. Assumed: between a load and one that uses its value as an
/// address compilers put less than this in chases, trees and hash chains, and generators of random numbers more.
pub(crate) const DEPENDENCE_DISTANCE: u32 = 8;

/// The line-fill buffers of a core.
#[derive(Clone, Debug)]
pub(crate) struct FillBuffers {
    /// When each is free again.
    free: Vec<Ticks>,
}

impl FillBuffers {
    pub(crate) fn new(number: usize) -> Self {
        Self { free: vec![0; number] }
    }

    /// The buffer that is free first, and when.
    #[inline]
    pub(crate) fn first_free(&self) -> (usize, Ticks) {
        let mut best = (0, self.free[0]);
        for (index, &free) in self.free.iter().enumerate().skip(1) {
            if free < best.1 {
                best = (index, free);
            }
        }
        best
    }

    #[inline]
    pub(crate) fn take(&mut self, buffer: usize, until: Ticks) {
        self.free[buffer] = until;
    }
}

/// Prefetches of a core that are under way.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    /// Completion of the last ones in the order of their issue, as a ring.
    completions: Vec<Ticks>,
    next: usize,
    /// By a hash of the line: line and completion. An older line in the same place is forgotten and counts as arrived.
    lines: Vec<(u32, Ticks)>,
}

const REMEMBERED: usize = 256;

impl InFlight {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            completions: vec![0; number],
            next: 0,
            lines: vec![(0, 0); REMEMBERED],
        }
    }

    /// Whether one more may go out at `time`.
    #[inline]
    pub(crate) fn room(&self, time: Ticks) -> bool {
        self.completions[self.next] <= time
    }

    #[inline]
    pub(crate) fn add(&mut self, line: u32, completion: Ticks) {
        self.lines[line as usize % REMEMBERED] = (line, completion);
        self.completions[self.next] = completion;
        self.next = (self.next + 1) % self.completions.len();
    }

    /// When the line arrives; 0 where it is not known to be under way.
    #[inline]
    pub(crate) fn arrival(&self, line: u32) -> Ticks {
        let (there, completion) = self.lines[line as usize % REMEMBERED];
        if there == line { completion } else { 0 }
    }
}

/// The accesses of a thread that missed and hold up a buffer: loads the reorder buffer, whose entries are instructions,
/// or stores the store buffer, whose entries are stores.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The entry that has no room before it has completed, and its completion, in program order.
    misses: VecDeque<(u64, Ticks)>,
    /// The entry of the first of them.
    next_block: u64,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            misses: VecDeque::new(),
            next_block: u64::MAX,
        }
    }
}

impl Pending {
    /// The entry from which on `advance` has something to do.
    #[inline]
    pub(crate) fn next_block(&self) -> u64 {
        self.next_block
    }

    /// A miss that entry `blocks` cannot overtake.
    #[inline]
    pub(crate) fn add(&mut self, blocks: u64, completion: Ticks) {
        if self.misses.is_empty() {
            self.next_block = blocks;
        }
        self.misses.push_back((blocks, completion));
    }

    /// The time at which entry `entry`, which would be made at `now`, has room.
    pub(crate) fn advance(&mut self, entry: u64, mut now: Ticks) -> Ticks {
        while let Some(&(blocks, completion)) = self.misses.front() {
            if blocks > entry && completion > now {
                self.next_block = blocks;
                return now;
            }
            now = now.max(completion);
            self.misses.pop_front();
        }
        self.next_block = u64::MAX;
        now
    }

    /// The time at which all have completed.
    pub(crate) fn drain(&mut self, now: Ticks) -> Ticks {
        self.advance(u64::MAX, now)
    }
}
