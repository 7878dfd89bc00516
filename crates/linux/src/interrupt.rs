//! Being told of the signals that end a process instead of being ended by them.

use nix::sys::signal::{SigSet, Signal};
use std::io;

/// SIGINT, SIGTERM and SIGHUP are held back from every thread that is started from now on, and wait to be asked for.
pub struct Interrupts(SigSet);

impl Interrupts {
    /// To be called before the process has other threads.
    pub fn hold_back() -> io::Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block()?;
        Ok(Self(signals))
    }

    /// Waits for one of them; its number.
    pub fn wait(&self) -> io::Result<i32> {
        Ok(self.0.wait()? as i32)
    }
}
