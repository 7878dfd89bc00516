//! The configuration that the machine is asked for, made from a placement.

use super::placement::Placement;
use pinfold_core::{Configuration, PageMapping, Pinning, TaskId};
use std::collections::BTreeSet;
use std::time::Duration;

/// A configuration is requested again after this time, for tasks that the machine left alone when they began.
const AFFIRM: Duration = Duration::from_secs(2);

/// What the last requests leave behind.
#[derive(Debug, Default)]
pub(super) struct Placing {
    /// By rank: the last PUs of the unpinned program in a baseline.
    baseline_pus: Option<Pinning>,
    /// Whether threads are pinned.
    is_pinned: bool,
    /// When the configuration was last requested again.
    affirmed: Duration,
}

impl Placing {
    /// By rank: the last PUs of the unpinned program in a baseline; `None` if one of them is not known.
    pub(super) fn baseline_pus(&self) -> Option<&Pinning> {
        self.baseline_pus.as_ref()
    }

    /// The unpinned program ran on these PUs at the end of a baseline.
    pub(super) fn ran_on(&mut self, pus: Option<Pinning>) {
        self.baseline_pus = pus;
    }

    /// Whether the configuration is requested again at `at`.
    pub(super) fn is_time_to_affirm(&mut self, at: Duration) -> bool {
        let is_time = at >= self.affirmed + AFFIRM;
        if is_time {
            self.affirmed = at;
        }
        is_time
    }

    /// The configuration that brings the program into `placement`. `pages_moved`: pages were moved, so a placement without
    /// a mapping moves them back.
    ///
    /// Threads that are let go first return to the PUs of the baseline, because the operating system would leave them
    /// where they were pinned.
    pub(super) fn configuration(
        &mut self,
        placement: &Placement,
        pages_moved: bool,
        left_alone: BTreeSet<TaskId>,
    ) -> Configuration {
        let pins = placement.pinning.is_some() || !placement.regions.is_empty();
        let was_pinned = std::mem::replace(&mut self.is_pinned, pins);
        let baseline_pus = self.baseline_pus.as_ref().filter(|_| was_pinned && !pins);
        Configuration {
            pinning: placement.pinning.as_ref().or(baseline_pus).cloned(),
            within: placement.within.clone(),
            pages: placement.pages.or(pages_moved.then_some(PageMapping::FirstTouch)),
            regions: placement.regions.clone(),
            left_alone,
            ..Configuration::default()
        }
    }
}
