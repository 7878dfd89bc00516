//! Processes to sample in tests.

use crate::memory::calls::{StopReason, Target};
use std::time::Duration;

/// This process.
pub(super) struct Us;

impl Target for Us {
    fn process(&self) -> i32 {
        std::process::id().cast_signed()
    }

    fn held(&self, act: &mut dyn FnMut(i32)) -> Result<(), StopReason> {
        act(self.process());
        Ok(())
    }

    fn pause(&self, duration: Duration) -> Result<(), StopReason> {
        std::thread::sleep(duration);
        Ok(())
    }
}

/// A process that has ended.
pub(super) struct Gone;

impl Target for Gone {
    fn process(&self) -> i32 {
        i32::MAX
    }

    fn held(&self, _act: &mut dyn FnMut(i32)) -> Result<(), StopReason> {
        Err(StopReason::Ended)
    }

    fn pause(&self, _duration: Duration) -> Result<(), StopReason> {
        Err(StopReason::Ended)
    }
}
