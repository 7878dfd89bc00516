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

    /// The configuration that brings the program into `placement`. `pages_moved`: pages were moved, so a placement
    /// without a mapping moves them back.
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

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::PuId;

    fn on(pu: u32) -> Pinning {
        Pinning::new(vec![PuId(pu)]).unwrap()
    }

    #[test]
    fn threads_that_are_let_go_return_once_to_the_pus_of_the_baseline() {
        let mut placing = Placing::default();
        placing.ran_on(Some(on(7)));
        let mut pinning = |placement: &Placement| placing.configuration(placement, false, BTreeSet::new()).pinning;
        let (unpinned, pinned) = (Placement::default(), Placement::pinned(on(1)));
        let pinnings = [&unpinned, &pinned, &unpinned, &unpinned].map(&mut pinning);
        assert_eq!(pinnings, [None, Some(on(1)), Some(on(7)), None]);
    }

    #[test]
    fn pages_that_were_moved_move_back_without_a_mapping() {
        let mut placing = Placing::default();
        let unpinned = Placement::default();
        let interleaved = Placement::default().with_pages(Some(PageMapping::Interleave));
        let mut pages = |placement, moved| placing.configuration(placement, moved, BTreeSet::new()).pages;
        assert_eq!(pages(&unpinned, false), None);
        assert_eq!(pages(&interleaved, false), Some(PageMapping::Interleave));
        assert_eq!(pages(&unpinned, true), Some(PageMapping::FirstTouch));
    }

    #[test]
    fn a_configuration_is_requested_again_every_two_seconds() {
        let mut placing = Placing::default();
        let times = [1, 2, 3, 5, 6].map(|at| placing.is_time_to_affirm(Duration::from_secs(at)));
        assert_eq!(times, [false, true, false, true, false]);
    }
}
