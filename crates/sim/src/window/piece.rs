//! A piece of a long execution: a window that begins with caches, translations and pages as the execution left them.

use super::engine::Counted;
use super::system::Touch;
use super::totals::RegionTotals;
use std::collections::BTreeMap;

/// The state of a program that has run for a while.
#[derive(Clone, Copy)]
pub(crate) struct Running<'a> {
    /// The blocks of its memory, in the order of their numbers.
    pub(crate) blocks: &'a [u64],
    /// By page number: the node, or `UNPLACED`.
    pub(crate) placed: &'a [u8],
    /// Its last accesses, from the newest to the oldest.
    pub(crate) past: &'a [&'a [Touch]],
}

/// What was counted of a piece.
pub(crate) struct PieceResult {
    /// By thread; `None` if a thread has no two `Count` events.
    pub(crate) threads: Vec<Option<Counted>>,
    /// By region: the totals of its executions.
    pub(crate) regions: BTreeMap<u64, RegionTotals>,
    /// Threads that waited for something that never came.
    pub(crate) released: u64,
}
