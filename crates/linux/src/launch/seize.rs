//! Attaches to all threads of a running process and of its descendants, as if they had been followed from their start.
//!
//! 1. The threads of the process and of its descendants are listed, and each is seized. That does not stop the thread.
//!    From then on the kernel attaches to each task that it creates, and stops the task before its first instruction.
//! 2. This is repeated until no new thread is found: a thread that is not seized yet may be creating others.
//! 3. The mask of each thread is read. No change precedes this.
//!
//! The kernel's threads of a process (`io_uring`, vhost) have no rank, and so are left alone: see `untraced`. A process
//! that traces itself or others is polled instead of seized (`stepping_aside`).
//!
//! If a descendant may not be traced, or is in another PID namespace, it is left alone with its own descendants. For
//! the process itself, either all threads are seized or none.
//!
//! Limits: a kernel without `CONFIG_PROC_CHILDREN` does not show existing descendants.

use super::attach::{AttachError, ProcessName, RunningProcess, age};
use super::executable::Executables;
use super::polling::Cause;
use super::trace;
use crate::cpuset::Cpusets;
use crate::requested::Requested;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

/// A thread that is now followed.
pub(super) struct SeizedTask {
    pub(super) process: i32,
    pub(super) thread: i32,
    /// Its age.
    pub(super) age: Duration,
    /// Its mask.
    pub(super) mask: Requested,
    /// Why its process is polled. `None` if it is traced.
    pub(super) polled: Option<Cause>,
    start: u64,
}

/// The followed threads, the oldest first, and notes for the user.
pub(super) struct Seized {
    pub(super) tasks: Vec<SeizedTask>,
    pub(super) notes: Vec<String>,
}

/// Seizes the threads of `running` and of its descendants for the calling thread. After an error nothing is changed,
/// and the kernel detaches from the seized threads when the calling thread ends. With `kill_with_us` the kernel kills
/// them instead when this process ends.
pub(super) fn seize(running: &RunningProcess, kill_with_us: bool) -> Result<Seized, AttachError> {
    let procfs = running.procfs();
    let mut seen: BTreeSet<i32> = BTreeSet::new();
    let mut seized = vec![];
    let mut left_alone: BTreeSet<i32> = BTreeSet::new();
    let mut notes = vec![];
    let mut executables = Executables::default();
    let mut tracing: BTreeMap<i32, Option<Cause>> = BTreeMap::new();
    loop {
        let before = seen.len();
        for process in procfs.family_without(running.number(), &left_alone) {
            if process != running.number() && procfs.is_in_nested_namespace(process) {
                notes.push(format!(
                    "{} is left alone: it is in another PID namespace.",
                    ProcessName::of(procfs, process)
                ));
                left_alone.insert(process);
                continue;
            }
            let polled = tracing
                .entry(process)
                .or_insert_with(|| executables.tracing_of_running(procfs, process));
            for thread in procfs.threads(process) {
                let is_user_worker = || procfs.stat(process, thread).is_some_and(|stat| stat.is_user_worker);
                if !seen.insert(thread) || is_user_worker() {
                    continue;
                }
                if polled.is_some() {
                    seized.push((process, thread));
                    continue;
                }
                match trace::seize(thread, kill_with_us) {
                    Ok(()) => seized.push((process, thread)),
                    Err(error) if is_no_refusal(running, process, thread, &error) => {}
                    Err(error) if process == running.number() => return Err(running.not_traced(error)),
                    Err(error) => {
                        let name = ProcessName::of(procfs, process);
                        notes.push(format!("{name} is left alone: it cannot be followed ({error})."));
                        left_alone.insert(process);
                        break;
                    }
                }
            }
        }
        if seen.len() == before {
            break;
        }
    }
    if !running.is_there() {
        return Err(AttachError::None(running.number()));
    }
    let cpusets = Cpusets::new(procfs.clone(), "/sys");
    let mut tasks: Vec<SeizedTask> = seized
        .into_iter()
        .filter_map(|(process, thread)| {
            let start = procfs.stat(process, thread)?.start;
            Some(SeizedTask {
                process,
                thread,
                age: age(start),
                mask: Requested::of(thread, &cpusets).ok()?,
                polled: tracing.get(&process).copied().flatten(),
                start,
            })
        })
        .collect();
    // The first thread of a process is the oldest, even if its number is not the lowest.
    tasks.sort_by_key(|task| (task.start, task.thread != task.process, task.thread));
    Ok(Seized { tasks, notes })
}

/// Whether a thread that cannot be seized has ended, or is already followed because the kernel has attached to it.
fn is_no_refusal(running: &RunningProcess, process: i32, thread: i32, error: &io::Error) -> bool {
    let procfs = running.procfs();
    let ended = || {
        let stat = procfs.stat(process, thread);
        stat.is_none_or(|stat| matches!(stat.state, 'Z' | 'X'))
    };
    // SAFETY: a plain system call.
    let own = unsafe { libc::gettid() };
    error.raw_os_error() == Some(libc::ESRCH) || ended() || procfs.tracer(thread) == Some(own)
}
