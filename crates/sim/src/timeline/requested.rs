//! What a policy requests of the time line, and what became of it.

use super::pages::Moved;
use super::regions::RegionRequest;
use crate::window::{PageMapping, Prefetchers};
use pinfold_core::{ProcessGoal, PuId};
use std::collections::BTreeMap;

/// A policy's request: the PUs of tasks, the nodes of pages, and the prefetchers.
#[derive(Clone, Debug)]
pub(crate) struct Requested {
    /// By task: the PU that it is pinned to; `None` for an unpinned task.
    pub(crate) pins: Vec<Option<PuId>>,
    pub(crate) mapping: PageMapping,
    pub(crate) prefetchers: Prefetchers,
    /// The most seconds that a program's pages may take to follow its threads. Pages that take longer stay.
    pub(crate) following_within: Option<f64>,
    /// By program: the goal of its pages. Pages without a goal go back to their first nodes. `None`: all follow.
    pub(crate) followed: Option<Vec<Option<ProcessGoal>>>,
    /// The most seconds that all pages may take to move to another mapping; if it takes longer they stay.
    pub(crate) mapping_within: Option<f64>,
    /// The regions that differ.
    pub(crate) regions: BTreeMap<u64, RegionRequest>,
}

/// What became of a page mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mapped {
    /// It did not change.
    InPlace,
    /// Pages moved, and the programs stood still for that time.
    Moved(Moved),
    /// The same, of pages that followed threads.
    Followed(Moved),
    /// It would have taken longer than was allowed.
    TooLong(Moved),
}
