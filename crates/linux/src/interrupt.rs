//! Receives the signals that would end the process.

use nix::sys::signal::{SigSet, Signal};
use std::io;

/// Blocks SIGINT, SIGTERM and SIGHUP in this thread, and in all threads that it starts afterwards, until they are
/// received.
pub struct Interrupts(SigSet);

impl Interrupts {
    /// Call it before the process has other threads.
    pub fn hold_back() -> io::Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        Ok(Self(signals))
    }

    /// Waits for one of the signals. Returns its number.
    pub fn wait(&self) -> io::Result<i32> {
        Ok(self.0.wait()? as i32)
    }
}
