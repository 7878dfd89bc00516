//! How much of a miss's latency the core hides.
//!
//! The model is that of interval analysis (Eyerman, Eeckhout, Karkhanis, Smith: "A mechanistic performance model for
//! superscalar out-of-order processors", ACM TOCS 27(2), 2009; Karkhanis and Smith, ISCA 2004): instructions are
//! dispatched at a steady rate until a load that missed blocks the reorder buffer. In terms of this file:
//!
//! - `n` instructions take `n x base_cpi` cycles, which include hits of the L1.
//! - A miss is issued when its address is known and a line-fill buffer is free: `issue = max(now, address, buffer)`. It
//!   completes at `issue + latency` and occupies the buffer until then. So at most as many misses overlap as there are
//!   buffers.
//! - `reorder_buffer` instructions after a load that missed, dispatch stops until the load has completed: `now =
//!   max(now, completion)`. This is the stall; the latency before it is hidden.
//! - A store that missed does not block the reorder buffer. It occupies a line-fill buffer, and dispatch stops while
//!   none is free. Stores complete in order. So `store_buffer` stores after it, dispatch stops until it has completed.
//!
//! Where the program's code is known (`steps`), it says how long the instructions between two accesses take, on which
//! other loads the address of a load depends, and for which loads a branch waits that is predicted wrongly. A load that
//! depends on others is issued when their values have arrived and the arithmetic from them is done.
//!
//! Otherwise one number of cycles per instruction is used, and dependence is guessed by this rule: a
//! load whose address its stride predicts depends on no load. Any other load takes its address from the nearest load
//! before it, if that is at most `DEPENDENCE_DISTANCE` instructions away: `address = completion of that load`. By this
//! rule a pointer chase is a chain. A gather through an index array is not: the load before is the index, which
//! streams. A random access whose address is computed in many instructions is not a chain either. The rule is wrong
//! where a short computation gives an address that depends on no load, and where dependent loads are far apart.
//!
//! - An atomic instruction waits for everything before it, and everything after it waits for it. Where the model says
//!   that several may wait for their lines at the same time, they are like stores that also hold up the reorder buffer.
//!
//! Limits: branch mispredictions, the instruction cache and execution units are part of `base_cpi`.

use super::time::Ticks;
use std::collections::VecDeque;

/// The largest distance to the load that gives an address, in instructions. Assumed: compilers put fewer instructions
/// between a load and the use of its value as an address in pointer chases, trees and hash chains; generators of random
/// numbers need more.
pub(crate) const DEPENDENCE_DISTANCE: u32 = 8;

/// The line-fill buffers of a core.
#[derive(Clone, Debug)]
pub(crate) struct FillBuffers {
    /// For each buffer, when it is free again.
    free: Vec<Ticks>,
}

impl FillBuffers {
    pub(crate) fn new(number: usize) -> Self {
        Self { free: vec![0; number] }
    }

    /// The buffer that is free first, and the time.
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

    /// The number of buffers that are in use at `time`.
    #[inline]
    pub(crate) fn in_use(&self, time: Ticks) -> u32 {
        self.free.iter().map(|&free| u32::from(free > time)).sum()
    }
}

/// A limited number of requests.
#[derive(Clone, Debug)]
struct Requests {
    /// Completion times of the last requests in the order of their issue, as a ring.
    completions: Vec<Ticks>,
    next: usize,
}

impl Requests {
    fn new(number: usize) -> Self {
        Self {
            completions: vec![0; number],
            next: 0,
        }
    }

    #[inline]
    fn room(&self, time: Ticks) -> bool {
        self.completions
            .get(self.next)
            .is_some_and(|&completion| completion <= time)
    }

    #[inline]
    fn add(&mut self, completion: Ticks) {
        self.completions[self.next] = completion;
        self.next = (self.next + 1) % self.completions.len();
    }
}

/// Prefetches of a core that are in flight.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    /// To the private caches.
    private: Requests,
    /// To the last-level cache only.
    shared: Requests,
    /// Line and completion time, indexed by a hash of the line. A new line overwrites an older one in the same entry,
    /// which then counts as arrived.
    lines: Vec<(u32, Ticks)>,
}

const REMEMBERED: usize = 256;

impl InFlight {
    /// At most `private` prefetches to the private caches and `shared` to the last-level cache only are in flight.
    pub(crate) fn new(private: usize, shared: usize) -> Self {
        Self {
            private: Requests::new(private),
            shared: Requests::new(shared),
            lines: vec![(0, 0); REMEMBERED],
        }
    }

    /// Whether one more prefetch to the private caches may be issued at `time`.
    #[inline]
    pub(crate) fn room(&self, time: Ticks) -> bool {
        self.private.room(time)
    }

    /// Whether one more prefetch to the last-level cache only may be issued at `time`.
    #[inline]
    pub(crate) fn shared_room(&self, time: Ticks) -> bool {
        self.shared.room(time)
    }

    #[inline]
    pub(crate) fn add(&mut self, line: u32, completion: Ticks) {
        self.note(line, completion);
        self.private.add(completion);
    }

    #[inline]
    pub(crate) fn add_shared(&mut self, line: u32, completion: Ticks) {
        self.note(line, completion);
        self.shared.add(completion);
    }

    /// A line that a load requested arrives at `completion`.
    #[inline]
    pub(crate) fn note(&mut self, line: u32, completion: Ticks) {
        self.lines[line as usize % REMEMBERED] = (line, completion);
    }

    /// When the line arrives; 0 if no request of it is known to be in flight.
    #[inline]
    pub(crate) fn arrival(&self, line: u32) -> Ticks {
        let (there, completion) = self.lines[line as usize % REMEMBERED];
        if there == line { completion } else { 0 }
    }
}

/// The accesses of a thread that missed and hold up a buffer: loads hold up the reorder buffer, whose entries are
/// instructions, and stores the store buffer, whose entries are stores.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// For each miss in program order: the first entry that has to wait for it, and its completion time.
    misses: VecDeque<(u64, Ticks)>,
    /// The first entry that has to wait for the first of them.
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
    /// The first entry that `advance` affects.
    #[inline]
    pub(crate) fn next_block(&self) -> u64 {
        self.next_block
    }

    /// Adds a miss. Entry `blocks` is the first that has to wait for it.
    #[inline]
    pub(crate) fn add(&mut self, blocks: u64, completion: Ticks) {
        if self.misses.is_empty() {
            self.next_block = blocks;
        }
        self.misses.push_back((blocks, completion));
    }

    /// When entry `entry`, which is reached at `now`, has room.
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

    /// When all have completed.
    pub(crate) fn drain(&mut self, now: Ticks) -> Ticks {
        self.advance(u64::MAX, now)
    }
}
