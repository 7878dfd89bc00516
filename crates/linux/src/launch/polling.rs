//! Follows processes without `ptrace`, by repeated readings of `/proc` for their threads and children.
//!
//! 1. A process is polled after pinfold has let go of it, because it traces (`stepping_aside`) or creates very many
//!    threads (`births`). Its children are polled as well.
//! 2. Each reading compares the threads and children with the previous reading, and with the threads that the program
//!    has from other sources: one that lived shorter than the time between two readings still ends.
//! 3. The time between two readings grows with the duration of a reading, so that readings take at most a twentieth of
//!    one PU.
//!
//! The number of an ended thread may name another thread, because the kernel does not wait until pinfold has seen the
//! end. So the start time is stored, and compared before the thread is changed.
//!
//! Limits: a thread or process that lives shorter than the time between two readings is not seen. The same holds for
//! the child of a process that has ended in between.

use crate::procfs::Procfs;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The shortest time between the end of a reading and the start of the next one.
const INTERVAL: Duration = Duration::from_millis(10);

/// The time between two readings is at least this many times the duration of a reading.
const REST: u32 = 19;

/// Why a process is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// It traces itself.
    TracesItself,
    /// It traces others, or another process traces it.
    Traces,
    /// It creates more threads than can be traced.
    ManyThreads,
}

/// The result of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ThreadChange {
    /// `thread` of `process` has started. It may be the process's first thread. `creator` is the process that created
    /// it.
    Started { creator: i32, process: i32, thread: i32 },
    /// A thread has ended.
    Ended { thread: i32 },
}

/// The polled processes, with their threads and the threads' start times.
#[derive(Debug, Default)]
pub(super) struct Polling {
    processes: BTreeMap<i32, BTreeMap<i32, u64>>,
    next: Option<Instant>,
}

impl Polling {
    /// Starts to poll a process.
    pub(super) fn add(&mut self, procfs: &Procfs, process: i32) {
        let threads = procfs.threads(process).into_iter();
        let living = threads.filter_map(|thread| Some((thread, start(procfs, process, thread)?)));
        self.processes.insert(process, living.collect());
        self.next.get_or_insert(Instant::now() + INTERVAL);
    }

    pub(super) fn has(&self, process: i32) -> bool {
        self.processes.contains_key(&process)
    }

    /// Whether a thread's number still names the same thread. True for a process that is not polled.
    pub(super) fn is_same(&self, procfs: &Procfs, process: i32, thread: i32) -> bool {
        let Some(threads) = self.processes.get(&process) else {
            return true;
        };
        let known = threads.get(&thread);
        known.is_some_and(|&known| start(procfs, process, thread) == Some(known))
    }

    /// The time of the next reading of `/proc`. `None` while no process is polled.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The changes since the last reading. Reads only if the next reading is due. `followed` returns the threads of a
    /// process that the caller takes to be alive.
    pub(super) fn changes_if_due(&mut self, procfs: &Procfs, followed: impl Fn(i32) -> Vec<i32>) -> Vec<ThreadChange> {
        let began = Instant::now();
        if self.next.is_none_or(|next| began < next) {
            return vec![];
        }
        let changes = self.changes(procfs, followed);
        let rest = (began.elapsed() * REST).max(INTERVAL);
        self.next = (!self.processes.is_empty()).then(|| Instant::now() + rest);
        changes
    }

    fn changes(&mut self, procfs: &Procfs, followed: impl Fn(i32) -> Vec<i32>) -> Vec<ThreadChange> {
        let mut found = vec![];
        let mut polled: Vec<i32> = self.processes.keys().copied().collect();
        while let Some(process) = polled.pop() {
            let listed = procfs.threads(process);
            let known = self.processes.entry(process).or_default();
            let mut gone: BTreeSet<i32> = known.keys().copied().chain(followed(process)).collect();
            gone.retain(|thread| listed.binary_search(thread).is_err());
            for thread in gone {
                known.remove(&thread);
                found.push(ThreadChange::Ended { thread });
            }
            for &thread in &listed {
                if !known.contains_key(&thread)
                    && let Some(start) = start(procfs, process, thread)
                {
                    known.insert(thread, start);
                    let creator = process;
                    found.push(ThreadChange::Started {
                        creator,
                        process,
                        thread,
                    });
                }
            }
            for child in listed.iter().flat_map(|&thread| procfs.children(process, thread)) {
                if !self.has(child) && start(procfs, child, child).is_some() {
                    found.push(ThreadChange::Started {
                        creator: process,
                        process: child,
                        thread: child,
                    });
                }
            }
            if listed.is_empty() {
                self.processes.remove(&process);
            }
        }
        found
    }
}

/// The start time of a thread that has not ended.
fn start(procfs: &Procfs, process: i32, thread: i32) -> Option<u64> {
    let stat = procfs.stat(process, thread)?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    /// Writes the state of a thread with the start time `start`.
    fn write(root: &TempDir, process: i32, thread: i32, state: char, start: u64, children: &str) {
        let folder = root.path().join(format!("{process}/task/{thread}"));
        fs::create_dir_all(&folder).unwrap();
        let stat = format!("{thread} (x) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 {start} 20\n");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("children"), children).unwrap();
    }

    fn end(root: &TempDir, path: &str) {
        fs::remove_dir_all(root.path().join(path)).unwrap();
    }

    fn nothing(_: i32) -> Vec<i32> {
        vec![]
    }

    fn started(creator: i32, process: i32, thread: i32) -> ThreadChange {
        ThreadChange::Started {
            creator,
            process,
            thread,
        }
    }

    #[test]
    fn threads_and_children_are_found_once_and_so_are_their_ends() {
        let root = tempfile::tempdir().unwrap();
        let procfs = Procfs::new(root.path());
        write(&root, 7, 7, 'S', 100, "");
        let mut polling = Polling::default();
        polling.add(&procfs, 7);
        assert_eq!(polling.changes(&procfs, nothing), []);
        write(&root, 7, 8, 'R', 200, "30 ");
        write(&root, 30, 30, 'R', 201, "");
        assert_eq!(
            polling.changes(&procfs, nothing),
            [started(7, 7, 8), started(7, 30, 30)]
        );
        polling.add(&procfs, 30);
        assert_eq!(polling.changes(&procfs, nothing), []);
        end(&root, "7/task/8");
        assert_eq!(polling.changes(&procfs, nothing), [ThreadChange::Ended { thread: 8 }]);
        end(&root, "30");
        assert_eq!(polling.changes(&procfs, nothing), [ThreadChange::Ended { thread: 30 }]);
        assert!(!polling.has(30) && polling.has(7));
    }

    #[test]
    fn a_zombie_is_not_reported_as_started() {
        let root = tempfile::tempdir().unwrap();
        let procfs = Procfs::new(root.path());
        write(&root, 7, 7, 'S', 100, "30 ");
        write(&root, 30, 30, 'Z', 201, "");
        let mut polling = Polling::default();
        polling.add(&procfs, 7);
        assert_eq!(polling.changes(&procfs, nothing), []);
    }

    #[test]
    fn a_child_that_ends_before_its_threads_are_read_has_ended() {
        let root = tempfile::tempdir().unwrap();
        let procfs = Procfs::new(root.path());
        write(&root, 7, 7, 'S', 100, "30 ");
        write(&root, 30, 30, 'R', 201, "");
        let mut polling = Polling::default();
        polling.add(&procfs, 7);
        let followed = |process: i32| vec![process];
        assert_eq!(polling.changes(&procfs, followed), [started(7, 30, 30)]);
        end(&root, "30");
        polling.add(&procfs, 30);
        assert_eq!(polling.changes(&procfs, followed), [ThreadChange::Ended { thread: 30 }]);
        assert!(!polling.has(30) && polling.has(7));
    }

    #[test]
    fn a_number_that_names_another_thread_is_recognised() {
        let root = tempfile::tempdir().unwrap();
        let procfs = Procfs::new(root.path());
        write(&root, 7, 7, 'S', 100, "");
        let mut polling = Polling::default();
        assert!(polling.is_same(&procfs, 7, 7), "it is not polled");
        polling.add(&procfs, 7);
        assert!(polling.is_same(&procfs, 7, 7));
        write(&root, 7, 7, 'S', 101, "");
        assert!(!polling.is_same(&procfs, 7, 7));
    }
}
