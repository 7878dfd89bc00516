//! A piece of a long execution: a window that begins with caches, translations and pages as the execution left them.

use super::engine::ThreadCounts;
use super::state::CacheState;
use super::system::Touch;
use super::totals::RegionTotals;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The state of a program that has run for a while.
#[derive(Clone, Copy)]
pub(crate) struct Running<'a> {
    /// The blocks of its memory, in the order of their numbers.
    pub(crate) blocks: &'a [u64],
    /// By page number: the node, or `UNPLACED`.
    pub(crate) placed: &'a [u8],
    /// Its last accesses, from the newest to the oldest.
    pub(crate) past: &'a [&'a [Touch]],
    /// What the past leaves with these cores of the threads on this machine. If it is set, the past is not read;
    /// otherwise it is set. `None` if it is not kept.
    pub(crate) state: Option<&'a OnceLock<CacheState>>,
}

/// What was counted of a piece.
pub(crate) struct PieceResult {
    /// By thread; `None` if a thread has no two `Count` events.
    pub(crate) threads: Vec<Option<ThreadCounts>>,
    /// By region: the totals of its executions.
    pub(crate) regions: BTreeMap<u64, RegionTotals>,
    /// Threads that waited for something that never came.
    pub(crate) released: u64,
}
