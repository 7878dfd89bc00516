//! A followed process of the program, as a target of page migration and sampling.

use super::{Phase, Shared, State};
use crate::memory::{StopReason, Target};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The longest sleep between two checks that the process lives.
const GLANCE: Duration = Duration::from_millis(50);

/// A process of the followed program.
pub(super) struct FollowedProcess<'a> {
    pub(super) shared: &'a Shared,
    pub(super) process: i32,
}

impl FollowedProcess<'_> {
    fn runs(&self, state: &State) -> Result<(), StopReason> {
        if state.end_wanted {
            return Err(StopReason::Interrupted);
        }
        if matches!(state.phase, Phase::Running) && state.program.has_process(self.process) {
            Ok(())
        } else {
            Err(StopReason::Ended)
        }
    }
}

impl Target for FollowedProcess<'_> {
    fn process(&self) -> i32 {
        self.process
    }

    fn held(&self, act: &mut dyn FnMut(i32)) -> Result<(), StopReason> {
        let _held = self.shared.hold_processes();
        {
            let mut state = self.shared.lock();
            state.program.verify_if_due();
            self.runs(&state)?;
        }
        act(self.process);
        Ok(())
    }

    fn pause(&self, duration: Duration) -> Result<(), StopReason> {
        let until = Instant::now() + duration;
        let mut state = self.shared.lock();
        loop {
            self.runs(&state)?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let waited = self.shared.changed.wait_timeout(state, left.min(GLANCE));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
