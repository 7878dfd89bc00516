//! A piece of a long execution: a window that begins with caches, translations and pages as the execution left them.

use super::configuration::WindowConfiguration;
use super::engine::{Counted, simulate_from};
use super::options::{Options, WindowError};
use super::stream::Stream;
use super::system::Touch;
use super::totals::RegionTotals;
use crate::model::Model;
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
    /// By thread; `None` where a thread has no two `Count` events.
    pub(crate) threads: Vec<Option<Counted>>,
    /// By region: the totals of its executions.
    pub(crate) regions: BTreeMap<u64, RegionTotals>,
    /// Threads that waited for something that never came.
    pub(crate) released: u64,
}

/// Simulates `streams` from the state `running` on. All pages that they use and that have a node stay there.
pub(crate) fn simulate_piece(
    model: &Model,
    configuration: &WindowConfiguration,
    running: &Running<'_>,
    streams: Vec<Box<dyn Stream + '_>>,
    options: &Options,
) -> Result<PieceResult, WindowError> {
    simulate_from(model, configuration, running, streams, options)
}
