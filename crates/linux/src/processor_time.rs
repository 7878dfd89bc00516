//! Processor time of this process and of its children.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io;
use std::time::Duration;

/// Processor time in user mode and in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl ProcessorTime {
    /// User mode and kernel together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// The processor time of this process so far.
pub fn this_process() -> io::Result<ProcessorTime> {
    usage(UsageWho::RUSAGE_SELF)
}

/// The processor time of all children that this process has reaped, and of the children that those have reaped.
pub fn reaped_children() -> io::Result<ProcessorTime> {
    usage(UsageWho::RUSAGE_CHILDREN)
}

fn usage(who: UsageWho) -> io::Result<ProcessorTime> {
    let usage = getrusage(who)?;
    let duration = |time: TimeVal| Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or(0));
    Ok(ProcessorTime {
        user: duration(usage.user_time()),
        system: duration(usage.system_time()),
    })
}
