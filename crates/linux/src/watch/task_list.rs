//! The list of watched tasks: new tasks are added, and ended ones removed.

use super::containers::Tracked;
use super::forks::Uncovered;
use super::reading::TaskReading;
use super::{FormerPin, Watcher};
use crate::affinity::CpuMask;
use crate::held::Held;
use crate::journal::{Target, Thread};
use crate::new_tasks::NewTasks;
use crate::procfs::{IoFile, ThreadStat};
use crate::requested::{ObservedMask, Requested, Standing};
use crate::tasks::{Task, TaskOrigin};
use pinfold_core::{HostNoteCode, LeftAlone, PuId, PuSet, TaskId};
use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

/// A watched process.
#[derive(Debug)]
pub(super) struct WatchedProcess {
    /// The name when it was found.
    pub(super) name: String,
    /// Whether it is watched by its number, or because its creator is.
    by_number: bool,
    /// The handle of the process, from its first placement on.
    pub(super) held: Option<Held>,
    /// The time when it was found.
    found: Duration,
    /// Its container, and the time when that was read.
    pub(super) container: Option<Arc<Tracked>>,
    container_read: Option<Duration>,
    /// The open file with the bytes that it reads and writes. `None` if too many files are open.
    pub(super) io: Option<IoFile>,
}

/// A process that was found this recently may not be in its container yet. A runtime moves it there before it runs the
/// program.
const SETTLES: Duration = Duration::from_secs(10);

/// The maximum age of a process's container.
const CONTAINER_STALE: Duration = Duration::from_secs(1);

/// The time that a new task may have a mask that its creator no longer has: it is found at most an interval after its
/// creation.
const INHERITED_WITHIN: Duration = Duration::from_secs(2);

impl Watcher {
    /// Adds the tasks that started since the last search.
    pub(super) fn add_new_tasks(&mut self, at: Duration) {
        match self.new_tasks.since_last_search(&self.procfs, at) {
            NewTasks::None => {}
            NewTasks::Among(numbers) => {
                for number in numbers {
                    // A reused number belongs to another task.
                    self.never_watched.remove(&number);
                    self.unselected.remove(&number);
                    if self.table.find_thread(number).is_some_and(|task| !self.has_ended(task)) {
                        continue;
                    }
                    if let Some(kinship) = self.procfs.kinship(number)
                        && self.select_process(kinship.process, at)
                    {
                        self.add_if_alive(kinship.process, number, at);
                    }
                }
            }
            NewTasks::Anywhere => self.list_all_tasks(at),
        }
        self.find_children_after_lost_records(at);
        let expired = |former: &mut FormerPin| former.until <= at;
        for former in self.former_pins.extract_if(.., expired) {
            if let Some(noted) = former.noted {
                self.journal.rolled_back(Target::Mask(noted));
            }
            let is_there_again = |task: &Task| task.pinned == Some(former.pu);
            if let Some(forks) = &self.forks
                && !self.table.find_thread(former.thread).is_some_and(is_there_again)
            {
                forks.leave(former.pu, former.thread);
            }
        }
    }

    /// If records of forks were lost, lists all tasks, so that the children of that time are known.
    fn find_children_after_lost_records(&mut self, at: Duration) {
        let Some(forks) = &self.forks else { return };
        let Uncovered { lost, ended } = forks.uncovered();
        if !ended.is_empty() {
            self.note_once(HostNoteCode::ChildrenWhenMet, || {
                format!(
                    "a child of a task that is pinned on one of the PUs {ended} runs there until it is met, an interval \
                     after its birth: forks cannot be watched there any more"
                )
            });
        }
        let goes_on = std::mem::replace(&mut self.records_are_lost, !lost.is_empty());
        if lost.is_empty() {
            return;
        }
        if !goes_on {
            let pus: PuSet = lost.keys().copied().collect();
            let text = format!(
                "children of tasks that are pinned on the PUs {pus} ran there until they were met: the kernel lost records \
                 of forks, because too many came at once"
            );
            self.note(HostNoteCode::ChildrenWhenMet, text);
        }
        self.list_all_tasks(at);
        if let Some(forks) = &self.forks {
            forks.all_were_listed(&lost);
        }
    }

    /// Lists all tasks.
    fn list_all_tasks(&mut self, at: Duration) {
        let processes = self.procfs.processes();
        for set in [&mut self.never_watched, &mut self.unselected] {
            set.retain(|process| processes.binary_search(process).is_ok());
        }
        for &process in &processes {
            if !self.select_process(process, at) {
                self.drop_process(process);
                continue;
            }
            for thread in self.procfs.threads(process) {
                if self.table.find_thread(thread).is_none() {
                    self.add_if_alive(process, thread, at);
                }
            }
            self.look_at_cpuset(process);
            let settles = |process: &WatchedProcess| at < process.found + SETTLES;
            if self.processes.get(&process).is_some_and(settles) {
                self.look_at_container(process, at);
            }
        }
        let table = &self.table;
        self.processes.retain(|process, _| table.has_process(*process));
        self.tracked.forget_ended();
    }

    /// Whether a process is watched.
    fn select_process(&mut self, process: i32, at: Duration) -> bool {
        if self.never_watched.contains(&process) {
            return false;
        }
        let selection = &self.options.selection;
        if self.processes.contains_key(&process) && selection.is_everything() && !selection.has_exceptions() {
            return true;
        }
        let Some(stat) = self.procfs.stat(process, process) else {
            return false;
        };
        let ourselves = std::process::id().cast_signed();
        if stat.is_kernel_thread || process == ourselves || Some(process) == self.journal.guard() {
            self.never_watched.insert(process);
            return false;
        }
        let inherited = |process: i32| self.processes.get(&process).is_some_and(|process| process.by_number);
        let inherited = inherited(process) || inherited(stat.parent);
        if !selection.includes(&self.procfs, &mut self.containers, process, &stat.name, inherited) {
            if self.unselected.insert(process) {
                self.restore_masks(process, &stat, at);
            }
            return false;
        }
        let by_number = inherited || selection.processes.contains(&process);
        let (procfs, counts) = (&self.procfs, self.options.counts.io);
        let entered = self.processes.entry(process).or_insert_with(|| WatchedProcess {
            name: String::new(),
            by_number,
            held: None,
            found: at,
            container: None,
            container_read: None,
            io: counts
                .then(|| procfs.open_process_io(process).filter(IoFile::may_stay_open))
                .flatten(),
        });
        entered.name = stat.name;
        true
    }

    /// Finds the container of a process, unless it was just found.
    pub(super) fn look_at_container(&mut self, process: i32, at: Duration) {
        let Some(entered) = self.processes.get_mut(&process) else {
            return;
        };
        if entered.container_read.is_some_and(|read| at < read + CONTAINER_STALE) {
            return;
        }
        entered.container_read = Some(at);
        let membership = self.containers.membership(&self.procfs, process);
        entered.container = membership.containers.last().map(|nearest| self.tracked.track(nearest));
    }

    /// Restores the creators' original masks for threads of an unwatched process that inherited a mask of pinfold's: a
    /// child may run another program than its parent.
    fn restore_masks(&mut self, process: i32, stat: &ThreadStat, at: Duration) {
        for thread in self.procfs.threads(process) {
            let Ok(usable) = CpuMask::read(thread) else {
                continue;
            };
            if let Some((pu, original)) = self.inherited_pinning(process, thread, stat, &usable) {
                self.restore_mask(process, thread, pu, &original, at);
            }
        }
    }

    /// Restores the creator's original mask for a thread that inherited a mask of pinfold's.
    fn restore_mask(&mut self, process: i32, thread: i32, pu: PuId, original: &Arc<Requested>, at: Duration) {
        // If the thread has ended, or may not be changed, nothing is lost.
        if original.restore(thread, &self.cpusets).is_ok() {
            self.statistics.freed += 1;
        }
        // The thread may have created others before.
        self.former_pins.push(FormerPin {
            process,
            thread,
            pu,
            original: Arc::clone(original),
            noted: None,
            until: at + INHERITED_WITHIN,
        });
    }

    /// Restores the masks of a process that is no longer watched, because its name, user or control group has changed.
    fn drop_process(&mut self, process: i32) {
        if !self.processes.contains_key(&process) {
            return;
        }
        // A process that has just ended is removed like any other.
        if self.procfs.stat(process, process).is_none() {
            return;
        }
        self.processes.remove(&process);
        let tasks: Vec<TaskId> = self.table.tasks_of(process).map(|task| task.id).collect();
        for task in tasks {
            self.unpin(task);
            self.table.end(task.thread);
            self.readings.remove(&task.serial);
        }
    }

    /// Adds one task if it is alive.
    fn add_if_alive(&mut self, process: i32, thread: i32, at: Duration) {
        if let Some(stat) = self.procfs.stat(process, thread)
            && !matches!(stat.state, 'Z' | 'X')
            && let Ok(usable) = CpuMask::read(thread)
        {
            if self.table.find_thread(thread).is_some() {
                // Removes the previous task with this number.
                self.forget(thread, at);
            }
            self.add(process, thread, &stat, &usable, at);
        }
    }

    fn add(&mut self, process: i32, thread: i32, stat: &ThreadStat, usable: &CpuMask, at: Duration) {
        let inherited = self.inherited_pinning(process, thread, stat, usable);
        let original = match &inherited {
            Some((_, original)) => Arc::clone(original),
            None => match self.requested(thread, usable) {
                Some(requested) => Arc::new(requested),
                None => return,
            },
        };
        let origin = TaskOrigin {
            original: Arc::clone(&original),
            pinned: None,
        };
        let id = self.table.add(process, thread, origin, |_| true);
        self.statistics.found += 1;
        if let Some((pu, original)) = inherited {
            // The task was not placed, but its creator was.
            self.restore_mask(process, thread, pu, &original, at);
        }
        let time = self.procfs.open_cpu_time(process, thread);
        let mut reading = TaskReading::new(stat, time.filter(super::reading::CpuTimeFile::may_stay_open), at);
        reading.usable = CpuMask::read(thread).unwrap_or_default();
        let usable = reading.usable.clone();
        self.set_allowed(process, thread, &original, &usable, &mut reading);
        self.readings.insert(id.serial, reading);
        self.look_at_container(process, at);
    }

    /// The pinning by pinfold that a task has inherited, and its creator's original mask. `usable` are the CPUs that
    /// the task can run on now: the PU of the pinning, or the result of a cpuset on it.
    fn inherited_pinning(
        &self,
        process: i32,
        thread: i32,
        stat: &ThreadStat,
        usable: &CpuMask,
    ) -> Option<(PuId, Arc<Requested>)> {
        let creator = if thread == process { stat.parent } else { process };
        let former = self.former_pins.iter().rev().filter(|former| former.process == creator);
        let former = former.map(|former| (former.pu, Arc::clone(&former.original)));
        let pins: Vec<(PuId, Arc<Requested>)> = self.table.pins_of(creator).chain(former).collect();
        // If children get their masks at their creation, a task has set a one-PU mask itself.
        let covers = |pu| self.forks.as_ref().is_some_and(|forks| forks.covers(pu));
        let only = usable.only().filter(|&pu| !covers(pu));
        if let Some(pin) = pins.iter().find(|&&(pu, _)| only == Some(pu)) {
            return Some(pin.clone());
        }
        let seen = LazyCell::new(|| ObservedMask::once(thread, &self.cpusets).ok());
        let is_cut = |pu: PuId| {
            let standing = || Some((*seen).as_ref()?.standing(&[pu]));
            !usable.contains(pu) && standing() == Some(Standing::Cut)
        };
        if let Some(&(pu, _)) = pins.iter().find(|&&(pu, _)| is_cut(pu)) {
            return Some((pu, Arc::new(Requested::Unset)));
        }
        if only.is_none() && self.journal.pins_within(usable) {
            return None;
        }
        let (pu, original) = self
            .journal
            .pinning_of_orphan(&self.procfs, process, stat, (*seen).as_ref()?)?;
        (only == Some(pu) || is_cut(pu)).then(|| (pu, Arc::new(original.clone())))
    }

    /// Finds the PUs that an unpinned task may be moved to. Its mask is `mask`, and it can run on `usable` now.
    pub(super) fn set_allowed(
        &self,
        process: i32,
        thread: i32,
        mask: &Requested,
        usable: &CpuMask,
        reading: &mut TaskReading,
    ) {
        let allowed: PuSet = usable.to_set().intersection(self.options.topology.allowed_pus());
        reading.left_alone = if reading.left_alone == Some(LeftAlone::RealTime) {
            Some(LeftAlone::RealTime)
        } else if self.is_own_choice(process, thread, mask) {
            Some(LeftAlone::OwnMask)
        } else if allowed.len() < 2 {
            Some(LeftAlone::OnePu)
        } else {
            None
        };
        reading.allowed = Arc::new(allowed);
    }

    /// Whether a thread's mask was set separately, and differs from the mask of its process's first thread. A mask that
    /// the creator of the process has set (taskset, a batch system) applies to all threads.
    fn is_own_choice(&self, process: i32, thread: i32, mask: &Requested) -> bool {
        if thread == process || *mask == Requested::Unset {
            return false;
        }
        let first = match self.table.find_thread(process) {
            Some(first) => Some(Requested::clone(&first.original)),
            None => Requested::read(process, &self.cpusets).ok(),
        };
        first.is_some_and(|first| first != *mask)
    }

    /// Removes the PUs that the cpuset of a process no longer allows from the PUs that its tasks may be moved to. Only
    /// pinned tasks need that: the kernel has changed the masks of the others.
    fn look_at_cpuset(&mut self, process: i32) {
        let placed: Vec<(u64, Arc<Requested>)> = self
            .table
            .tasks_of(process)
            .filter(|task| task.pinned.is_some())
            .map(|task| (task.id.serial, Arc::clone(&task.original)))
            .collect();
        if placed.is_empty() {
            return;
        }
        let whole = self.cpusets.now(process);
        for (serial, original) in placed {
            let allowed = original.among(&whole).to_set();
            let allowed = allowed.intersection(self.options.topology.allowed_pus());
            if let Some(reading) = self.readings.get_mut(&serial)
                && *reading.allowed != allowed
            {
                reading.allowed = Arc::new(allowed);
            }
        }
    }

    fn has_ended(&self, task: &Task) -> bool {
        let reading = self.readings.get(&task.id.serial);
        let stat = self.procfs.stat(task.id.process, task.id.thread);
        stat.is_none_or(|stat| reading.is_none_or(|reading| reading.start != stat.start))
    }

    /// Removes the tasks that had already ended at the last search: their children have been found by now.
    pub(super) fn forget_ended(&mut self, at: Duration) {
        for thread in std::mem::take(&mut self.ended) {
            self.forget(thread, at);
        }
    }

    fn forget(&mut self, thread: i32, at: Duration) {
        let Some(task) = self.table.end(thread) else { return };
        self.statistics.ended += 1;
        self.readings.remove(&task.id.serial);
        if !self.table.has_process(task.id.process) {
            self.processes.remove(&task.id.process);
        }
        self.was_pinned(&task, task.noted, at);
    }

    /// Remembers for a while that a task was pinned, and then removes `noted` from the journal.
    pub(super) fn was_pinned(&mut self, task: &Task, noted: Option<Thread>, at: Duration) {
        if let Some(pu) = task.pinned {
            self.former_pins.push(FormerPin {
                process: task.id.process,
                thread: task.id.thread,
                pu,
                original: Arc::clone(&task.original),
                noted,
                until: at + INHERITED_WITHIN,
            });
        }
    }
}
