//! Scheduling policies whose threads are not pinned.
//!
//! The kernel refuses a deadline for a thread that may not run on all PUs of its root domain. A thread with real-time
//! priority keeps others off its PU while it works. The scheduler moves it to a PU without more important work
//! (sched(7)).

use pinfold_core::TaskId;
use std::collections::BTreeSet;
use std::fmt;

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
    pub(crate) fn of_thread(thread: i32) -> Option<Self> {
        // The C library's function has no effect in musl.
        // SAFETY: a plain system call.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) };
        Self::of_policy(i32::try_from(policy).ok()?)
    }

    fn of_policy(policy: i32) -> Option<Self> {
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
    fn policies_are_known_also_where_children_do_not_inherit_them() {
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
            assert_eq!(RealTime::of_policy(policy), expected, "{policy}");
        }
        // The system call never reports this policy.
        assert_eq!(RealTime::of_policy(-1), None);
    }
}
