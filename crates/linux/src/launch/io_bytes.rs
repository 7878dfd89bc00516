//! The bytes that a program's tasks read and write, those of ended tasks included.
//!
//! The kernel has them for each thread in `/proc/PID/task/TID/io`. The file of the whole process also contains the
//! bytes of children that the process has waited for, so a sum over processes would count these twice.
//!
//! The files of many threads take long to read. The time between two readings of living tasks is at least `REST` times
//! what such a reading takes. Between them the count is missing, not zero.

use super::task_sum::TaskSum;
use crate::procfs::{IoFile, Procfs};
use nix::unistd::{getpid, gettid};
use pinfold_core::TaskId;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Readings take at most this share of the time of one PU.
const REST: u32 = 200;

/// The bytes of all tasks of a program.
pub(crate) struct IoBytes {
    procfs: Procfs,
    /// The open files of living tasks; `None` for a task whose file is opened for each reading.
    files: HashMap<u64, Option<IoFile>>,
    sum: TaskSum,
    /// The time that the current reading has taken so far.
    took: Duration,
    /// The time before which living tasks are not read.
    rests_until: Option<Instant>,
}

impl IoBytes {
    /// `None` if the kernel does not count them.
    pub(crate) fn new() -> Option<Self> {
        let procfs = Procfs::default();
        procfs.open_io(getpid().as_raw(), gettid().as_raw())?.read()?;
        Some(Self {
            procfs,
            files: HashMap::new(),
            sum: TaskSum::default(),
            took: Duration::ZERO,
            rests_until: None,
        })
    }

    /// Reads a task, unless it is too early. The last reading of a task, at its end, is never too early.
    pub(crate) fn read(&mut self, task: TaskId, alive: bool) {
        let began = Instant::now();
        if alive && self.rests_until.is_some_and(|until| began < until) {
            return;
        }
        let open = || self.procfs.open_io(task.process, task.thread);
        let file = self.files.entry(task.serial).or_insert_with(|| {
            let file = open();
            file.filter(|file| alive && file.may_stay_open())
        });
        let bytes = match file {
            Some(file) => file.read(),
            None => open().and_then(|file| file.read()),
        };
        if let Some(bytes) = bytes {
            self.sum.read(task.serial, bytes);
        }
        if alive {
            self.took += began.elapsed();
        }
    }

    /// Keeps the last reading of a task that has ended.
    pub(crate) fn end(&mut self, task: TaskId) {
        self.files.remove(&task.serial);
        self.sum.end(task.serial);
    }

    /// The bytes of all tasks, after each of them was read. `None` if none could be read, or if it was too early.
    pub(crate) fn total(&mut self) -> Option<u64> {
        let now = Instant::now();
        if self.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        self.rests_until = now.checked_add(std::mem::take(&mut self.took) * REST);
        self.sum.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn own(serial: u64) -> TaskId {
        TaskId {
            serial,
            process: getpid().as_raw(),
            thread: gettid().as_raw(),
        }
    }

    #[test]
    fn what_a_task_reads_is_counted_and_stays_after_its_end() {
        let Some(mut bytes) = IoBytes::new() else {
            pinfold_testing::skip(format_args!("the kernel has no /proc/PID/io"));
            return;
        };
        bytes.read(own(0), true);
        let before = bytes.total().expect("the own bytes can be read");
        let read = fs::read("/proc/self/maps").expect("the maps can be read").len() as u64;
        bytes.read(own(0), false);
        bytes.end(own(0));
        bytes.rests_until = None;
        let after = bytes.total().expect("an ended task keeps its bytes");
        assert!(after - before >= read, "{before} {after} {read}");
    }

    #[test]
    fn readings_rest_in_proportion_to_what_they_take() {
        let Some(mut bytes) = IoBytes::new() else {
            pinfold_testing::skip(format_args!("the kernel has no /proc/PID/io"));
            return;
        };
        bytes.read(own(0), true);
        bytes.took = Duration::from_secs(1);
        assert!(bytes.total().is_some());
        bytes.read(own(0), true);
        assert_eq!(bytes.took, Duration::ZERO);
        assert_eq!(bytes.total(), None);
    }
}
