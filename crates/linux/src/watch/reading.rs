//! Reads tasks at low cost.

use super::Watcher;
use crate::affinity::CpuMask;
use crate::counters::{CounterError, TaskCounters};
pub(super) use crate::procfs::CpuTimeFile;
use crate::procfs::{Procfs, StatFile, TaskTimes, ThreadStat};
use pinfold_core::{HostNoteCode, HostSample, LeftAlone, PuId, PuSet, Sample, TaskId, TaskSample, TaskStatus};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A task works if it has used this share of the time since its last reading.
const WORKS: f64 = 0.01;

/// A task that has not worked for this long sleeps, and is read at this interval.
const SLEEPS: Duration = Duration::from_secs(1);

/// The maximum age of the name and the PU of a pinned task.
const STALE: Duration = Duration::from_secs(1);

/// The interval of checks for a sleeping process that has ended without being reaped: the kernel keeps its processor
/// time until then.
const WAITED_FOR: Duration = Duration::from_secs(5);

/// The data of one task in addition to the table's.
pub(super) struct TaskReading {
    /// The start time, in clock ticks since boot.
    pub(super) start: u64,
    pub(super) name: String,
    pub(super) last_pu: Option<PuId>,
    /// The open file with its processor time. `None` if too many files are open.
    time: Option<CpuTimeFile>,
    /// The open file with its state, while it works.
    stat: Option<StatFile>,
    used: Option<Duration>,
    /// The time when its processor time was read.
    read: Duration,
    /// The time when its name and PU were read.
    looked_at: Duration,
    /// The time when it last worked, or was found.
    worked: Duration,
    /// Whether it has worked since it was found.
    has_worked: bool,
    counters: Option<TaskCounters>,
    /// Whether its counters cannot be opened.
    uncounted: bool,
    pub(super) left_alone: Option<LeftAlone>,
    /// Whether another program has changed its mask. Such a task is not moved any more.
    pub(super) taken_over: bool,
    pub(super) allowed: Arc<PuSet>,
    /// The CPUs that it could run on at the last check while it was not pinned.
    pub(super) usable: CpuMask,
}

impl TaskReading {
    pub(super) fn new(stat: &ThreadStat, time: Option<CpuTimeFile>, at: Duration) -> Self {
        Self {
            start: stat.start,
            name: stat.name.clone(),
            last_pu: stat.last_pu,
            used: time.as_ref().and_then(CpuTimeFile::read),
            time,
            stat: None,
            read: at,
            looked_at: at,
            worked: at,
            has_worked: false,
            counters: None,
            uncounted: false,
            left_alone: stat.is_real_time.then_some(LeftAlone::RealTime),
            taken_over: false,
            allowed: Arc::default(),
            usable: CpuMask::default(),
        }
    }

    pub(super) fn sleeps(&self, at: Duration) -> bool {
        at.saturating_sub(self.worked) >= SLEEPS
    }

    /// Updates the processor time. Returns the share of the time since the last reading that the task worked.
    fn use_time(&mut self, used: Duration, at: Duration) -> Option<f64> {
        let elapsed = at.saturating_sub(self.read);
        let before = self.used.replace(used);
        self.read = at;
        let busy = before
            .and_then(|before| used.checked_sub(before))
            .filter(|_| !elapsed.is_zero())
            .map(|used| used.as_secs_f64() / elapsed.as_secs_f64());
        if busy.is_some_and(|busy| busy >= WORKS) {
            self.worked = at;
            self.has_worked = true;
        }
        busy
    }

    /// Reads the name and the PU. The file of a working unpinned task stays open.
    fn update_state(&mut self, procfs: &Procfs, id: TaskId, pinned: Option<PuId>, at: Duration) {
        if pinned.is_none() && self.stat.is_none() {
            let file = procfs.open_stat(id.process, id.thread);
            self.stat = file.filter(StatFile::may_stay_open);
        }
        let stat = match &self.stat {
            Some(file) => file.read(),
            None => procfs.stat(id.process, id.thread),
        };
        if let Some(stat) = stat {
            self.last_pu = stat.last_pu;
            self.name = stat.name;
            if stat.is_real_time {
                self.left_alone = Some(LeftAlone::RealTime);
            }
        }
        self.looked_at = at;
    }

    /// Whether a sleeping task has to be checked: it was not checked since it fell asleep, or not for a while.
    fn is_to_be_looked_at(&self, at: Duration) -> bool {
        self.looked_at < self.worked + SLEEPS || at.saturating_sub(self.looked_at) >= WAITED_FOR
    }

    fn is_due(&self, at: Duration) -> bool {
        !self.sleeps(at) || at.saturating_sub(self.read) >= SLEEPS
    }
}

impl Watcher {
    /// Reads all working tasks, and the sleeping tasks that are due.
    pub(super) fn read_all(&mut self, at: Duration) -> HostSample {
        let due: Vec<u64> = self
            .readings
            .iter()
            .filter(|(_, reading)| reading.is_due(at))
            .map(|(&serial, _)| serial)
            .collect();
        let mut sample = HostSample {
            sample: Sample {
                at,
                ..Sample::default()
            },
            watched: self.readings.len(),
            ..HostSample::default()
        };
        for serial in due {
            if let Some((task, status)) = self.read_one(serial, at) {
                sample.sample.tasks.push(task);
                sample.statuses.push(status);
            }
        }
        if let Some(functions) = self.functions.as_ref().filter(|_| self.options.counts.functions) {
            sample.functions = Some(functions.read());
        }
        if self.options.counts.io {
            let processes: BTreeSet<i32> = sample.sample.tasks.iter().map(|task| task.id.process).collect();
            let read = |process: i32| Some((process, self.processes.get(&process)?.io.as_ref()?.read()?));
            sample.bytes = processes.into_iter().filter_map(read).collect();
        }
        sample
    }

    /// Reads one task. `None` if it sleeps or has ended.
    fn read_one(&mut self, serial: u64, at: Duration) -> Option<(TaskSample, TaskStatus)> {
        let (id, pinned) = self.table.get_mut(serial).map(|task| (task.id, task.pinned))?;
        let reading = self.readings.get_mut(&serial)?;
        let times = match &reading.time {
            Some(file) => file.read_times(),
            None => self.procfs.times(id.process, id.thread),
        };
        let Some(TaskTimes { used, run_delay }) = times else {
            self.ended.push(id.thread);
            return None;
        };
        let spent = reading.used.and_then(|before| used.checked_sub(before));
        let busy = reading.use_time(used, at);
        let container = self
            .processes
            .get(&id.process)
            .and_then(|process| process.container.as_ref());
        if let (Some(container), Some(spent)) = (container, spent) {
            container.add(spent);
        }
        let sleeps = reading.sleeps(at);
        if sleeps && id.thread == id.process && reading.is_to_be_looked_at(at) {
            reading.looked_at = at;
            let stat = self.procfs.stat(id.process, id.thread);
            if stat.is_none_or(|stat| matches!(stat.state, 'Z' | 'X')) {
                self.ended.push(id.thread);
                return None;
            }
        }
        if !reading.has_worked || sleeps {
            if reading.has_worked && at.saturating_sub(reading.worked) >= self.options.release_after {
                reading.has_worked = false;
                reading.counters = None;
                reading.stat = None;
                self.unpin(id);
            }
            return None;
        }
        if pinned.is_none() || at.saturating_sub(reading.looked_at) >= STALE {
            reading.update_state(&self.procfs, id, pinned, at);
            if reading.left_alone == Some(LeftAlone::RealTime) {
                self.unpin(id);
            }
        }
        self.open_counters(id);
        self.look_at_mask(id, at);
        self.look_at_container(id.process, at);
        let pinned = self.table.get_mut(serial)?.pinned;
        let reading = self.readings.get_mut(&serial)?;
        let container = self
            .processes
            .get(&id.process)
            .and_then(|process| process.container.as_ref());
        let metrics = self.options.counts.plan.as_ref().map_or(0, |plan| plan.metrics().len());
        let task = TaskSample {
            id,
            name: reading.name.clone(),
            alive: true,
            cpu_time: Some(used),
            run_delay,
            last_pu: pinned.or(reading.last_pu),
            counts: match &mut reading.counters {
                Some(counters) => counters.read(),
                None => vec![None; metrics],
            },
        };
        let status = TaskStatus {
            allowed: Arc::clone(&reading.allowed),
            pinned,
            left_alone: reading.left_alone,
            busy: busy.map(|busy| busy.min(1.0)),
            container: container.map(|tracked| Arc::clone(&tracked.container)),
        };
        Some((task, status))
    }

    /// Opens the counters of a working task.
    fn open_counters(&mut self, id: TaskId) {
        let Some(plan) = &self.options.counts.plan else { return };
        let Some(reading) = self.readings.get_mut(&id.serial) else {
            return;
        };
        if reading.counters.is_some() || reading.uncounted {
            return;
        }
        match plan.open(id.thread) {
            Ok(counters) => reading.counters = Some(counters),
            Err(error) => {
                reading.uncounted = true;
                self.statistics.not_counted += 1;
                let code = match error {
                    CounterError::Forbidden { .. } => HostNoteCode::CountersForbidden,
                    _ => HostNoteCode::NotCounted,
                };
                self.note_once(code, || {
                    format!("{id} is not counted, so it is not moved, and others may not be either: {error}")
                });
            }
        }
    }

    /// Compares a task's mask with the mask that was last seen or set.
    fn look_at_mask(&mut self, id: TaskId, at: Duration) {
        let Ok(current) = CpuMask::read(id.thread) else {
            return;
        };
        let pinned = self.table.get_mut(id.serial).and_then(|task| task.pinned);
        let known = self.readings.get(&id.serial).map(|reading| &reading.usable);
        match pinned {
            Some(pu) if current.only() != Some(pu) => self.lost_pin(id, at),
            Some(_) => {}
            None if known == Some(&current) => {}
            None => {
                // The task is not pinned, so the current mask is its original one.
                if let Some(original) = self.requested(id.thread, &current) {
                    self.has_mask(id, original);
                }
            }
        }
    }
}
