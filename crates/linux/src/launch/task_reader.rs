//! Reads tasks from `/proc` at low cost: observing many tasks ten times a second must not slow the program down.
//!
//! Processor time is read each time, from a file that stays open. Name, state and last PU cost ten times as much and
//! change rarely. They are at most `STALE` old.

use crate::procfs::{CpuTimeFile, Procfs, TaskTimes, ThreadStat};
use pinfold_core::TaskId;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The maximum age of a living task's state.
const STALE: Duration = Duration::from_secs(1);

/// The reader of all tasks' state.
#[derive(Default)]
pub(crate) struct TaskReader {
    procfs: Procfs,
    tasks: HashMap<u64, CachedState>,
}

struct CachedState {
    cpu_time: Option<CpuTimeFile>,
    stat: Option<ThreadStat>,
    read: Instant,
}

impl TaskReader {
    pub(crate) fn procfs(&self) -> &Procfs {
        &self.procfs
    }

    /// The state of a task, and its times. With `fresh` the state is always read.
    pub(crate) fn read(&mut self, id: TaskId, fresh: bool) -> (Option<ThreadStat>, Option<TaskTimes>) {
        let TaskId {
            serial,
            process,
            thread,
        } = id;
        let procfs = &self.procfs;
        let now = Instant::now();
        let is_known = self.tasks.contains_key(&serial);
        let cached = self.tasks.entry(serial).or_insert_with(|| CachedState {
            cpu_time: procfs.open_cpu_time(process, thread).filter(CpuTimeFile::may_stay_open),
            stat: procfs.stat(process, thread),
            read: now,
        });
        if is_known && (fresh || now.duration_since(cached.read) >= STALE) {
            cached.stat = procfs.stat(process, thread);
            cached.read = now;
        }
        let times = match &cached.cpu_time {
            Some(file) => file.read_times(),
            // Too many files were open when the task was first read.
            None => procfs.times(process, thread),
        };
        (cached.stat.clone(), times)
    }

    /// Removes a task that has ended.
    pub(crate) fn forget(&mut self, id: TaskId) {
        self.tasks.remove(&id.serial);
    }
}
