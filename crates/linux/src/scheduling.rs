//! Scheduling policies: those whose threads are not pinned, and the one that asks for a scheduler of the kernel's
//! `sched_ext`.
//!
//! The kernel refuses a deadline for a thread that may not run on all PUs of its root domain. A thread with real-time
//! priority keeps others off its PU while it works. The scheduler moves it to a PU without more important work
//! (sched(7)).

use pinfold_core::TaskId;
use std::collections::BTreeSet;
use std::fmt;
use std::io;

/// `SCHED_EXT`.
const EXTENSION: i32 = 7;

/// The policy of a thread, or of the calling one with 0. Negative if it has ended.
fn policy(thread: i32) -> i32 {
    // The C library's function has no effect in musl.
    // SAFETY: a plain system call.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) };
    i32::try_from(policy).unwrap_or(-1)
}

fn set_policy(thread: i32, policy: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameters, which live until the call has returned.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this thread, and the programs that it starts, have normal priority. Others do not ask for a scheduler.
pub fn is_normal_here() -> bool {
    policy(0) == libc::SCHED_OTHER
}

/// Makes a thread with normal priority, and all threads that it creates, ask for the scheduler that is loaded in the
/// kernel. A thread with another policy keeps it.
///
/// # Errors
/// If the thread has ended, the kernel has no such schedulers, or forbids the change.
pub(crate) fn ask_for_extension(thread: i32) -> io::Result<()> {
    match policy(thread) {
        libc::SCHED_OTHER => set_policy(thread, EXTENSION),
        _ => Ok(()),
    }
}

/// Gives a thread that asks for such a scheduler back to the kernel's own.
pub(crate) fn leave_extension(thread: i32) {
    if policy(thread) == EXTENSION {
        // A thread that has ended meanwhile has no scheduler.
        let _ = set_policy(thread, libc::SCHED_OTHER);
    }
}

/// Such a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RealTime {
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_FIFO` or `SCHED_RR`.
    Priority,
}

impl RealTime {
    /// The policy of a thread. `None` if the thread has another policy or has ended.
    pub(crate) fn read(thread: i32) -> Option<Self> {
        Self::from_policy(policy(thread))
    }

    fn from_policy(policy: i32) -> Option<Self> {
        match policy & !libc::SCHED_RESET_ON_FORK {
            libc::SCHED_DEADLINE => Some(Self::Deadline),
            libc::SCHED_FIFO | libc::SCHED_RR => Some(Self::Priority),
            _ => None,
        }
    }
}

/// The property of the thread, for messages.
impl fmt::Display for RealTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "a deadline (SCHED_DEADLINE)",
            Self::Priority => "real-time priority",
        })
    }
}

/// The reported threads that are left alone for their policies: one per process and policy.
#[derive(Debug, Default)]
pub(crate) struct RealTimeNotes(BTreeSet<(i32, RealTime)>);

impl RealTimeNotes {
    /// Records that the thread with this name is left alone. Returns the note for the user, once per process and
    /// policy.
    pub(crate) fn note(&mut self, id: TaskId, name: &str, real_time: RealTime) -> Option<String> {
        let TaskId { process, thread, .. } = id;
        self.0.insert((process, real_time)).then(|| {
            let which = format!("Thread {thread} ({name}) of process {process}");
            format!("{which} is left alone, and so are others like it: it has {real_time}.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_known_even_if_children_do_not_inherit_them() {
        for (policy, expected) in [
            (libc::SCHED_OTHER, None),
            (libc::SCHED_BATCH, None),
            (libc::SCHED_FIFO, Some(RealTime::Priority)),
            (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, Some(RealTime::Priority)),
            (
                libc::SCHED_DEADLINE | libc::SCHED_RESET_ON_FORK,
                Some(RealTime::Deadline),
            ),
        ] {
            assert_eq!(RealTime::from_policy(policy), expected, "{policy}");
        }
        // The system call never reports this policy.
        assert_eq!(RealTime::from_policy(-1), None);
    }
}
