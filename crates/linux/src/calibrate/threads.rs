//! Work on chosen PUs.

use super::CalibrationError;
use crate::affinity::CpuMask;
use pinfold_core::PuId;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does `work` in a new thread on `pu`.
pub(super) fn on<T: Send>(pu: PuId, work: impl FnOnce() -> T + Send) -> Result<T, CalibrationError> {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                pin(pu)?;
                Ok(work())
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Pins the calling thread on one PU.
pub(super) fn pin(pu: PuId) -> Result<(), CalibrationError> {
    CpuMask::single(pu)
        .give_to(0)
        .map_err(|error| CalibrationError::Affinity { pu, error })
}

/// A barrier. Its threads spin, because a sleeping thread wakes up late.
pub(super) struct Meeting {
    members: usize,
    arrivals: AtomicUsize,
}

impl Meeting {
    pub(super) fn new(members: usize) -> Self {
        Self {
            members,
            arrivals: AtomicUsize::new(0),
        }
    }

    /// Returns when all members have called it as often as the caller.
    pub(super) fn meet(&self) {
        let mine = self.arrivals.fetch_add(1, Ordering::AcqRel);
        let all = (mine / self.members + 1) * self.members;
        while self.arrivals.load(Ordering::Acquire) < all {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_leaves_a_meeting_before_all_have_come() {
        let meeting = Meeting::new(2);
        let come = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 1..=100 {
                        come.fetch_add(1, Ordering::Relaxed);
                        meeting.meet();
                        assert!(come.load(Ordering::Relaxed) >= 2 * round);
                        meeting.meet();
                    }
                });
            }
        });
    }
}
