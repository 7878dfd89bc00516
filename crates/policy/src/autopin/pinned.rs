//! The pinning that the program has in a search, and since when.

use pinfold_core::Pinning;
use std::time::Duration;

/// The requested pinning.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    /// `None` for the unpinned program.
    pinning: Option<Pinning>,
    /// The start of the warm-up; `None` until the pinning changes for the first time.
    since: Option<Duration>,
}

impl Pinned {
    /// The pinning from the first instruction on, which needs no warm-up.
    pub(super) fn from_start(pinning: Option<Pinning>) -> Self {
        Self { pinning, since: None }
    }

    pub(super) fn pinning(&self) -> Option<&Pinning> {
        self.pinning.as_ref()
    }

    /// When threads that are pinned now have warmed up.
    pub(super) fn warm_at(&self, warm_up: Duration) -> Option<Duration> {
        Some(self.since? + warm_up)
    }

    /// Pins the program at `now`, unless the first `ranks` ranks have this pinning already.
    pub(super) fn pin(&mut self, wanted: Option<&Pinning>, ranks: usize, now: Duration) {
        // Both pinnings repeat. If they agree on as many ranks as both have PUs, they agree on all ranks (Fine and
        // Wilf, 1965).
        let same = match (&self.pinning, wanted) {
            (None, None) => true,
            (Some(pinning), Some(wanted)) => {
                (0..ranks.min(pinning.pus().len() + wanted.pus().len())).all(|rank| pinning.pu(rank) == wanted.pu(rank))
            }
            _ => false,
        };
        if !same {
            self.pinning = wanted.cloned();
            self.since = Some(now);
        }
    }

    /// The machine moved threads at `now`: they warm up again.
    pub(super) fn moved(&mut self, now: Duration) {
        self.since = Some(now);
    }
}
