//! Changes masks and restores them.

use super::Watcher;
use crate::affinity::CpuMask;
use crate::held::Held;
use crate::journal::{Target, Thread};
use crate::procfs::ThreadStat;
use crate::requested::{Requested, Return, Seen, Standing};
use crate::tasks::{Verdict, decide};
use pinfold_core::{HostNoteCode, LeftAlone, Placed, PuId, Reason, StayCode, TaskId};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Why a task of another user is not moved.
const NOT_PERMITTED: &str = "pinfold has no permission to move it";

fn refused(code: StayCode, why: impl Into<String>) -> Placed {
    Placed::Refused(Reason::new(code, why))
}

impl Watcher {
    /// Pins a task on `pu`, unless its mask is not the known one.
    pub(super) fn pin(&mut self, id: TaskId, pu: PuId) -> Placed {
        let Some(stat) = self.held(id) else {
            return Placed::Gone;
        };
        if stat.is_real_time
            && let Some(reading) = self.readings.get_mut(&id.serial)
        {
            reading.left_alone = Some(LeftAlone::RealTime);
        }
        let Ok(current) = CpuMask::of_thread(id.thread) else {
            return Placed::Gone;
        };
        if let Some(reason) = self.not_to_be_touched(id, &current) {
            return Placed::Refused(reason);
        }
        // The mask is read again just before it is replaced.
        let is_pinned = self
            .table
            .of_thread(id.thread)
            .is_some_and(|task| task.pinned.is_some());
        let requested = if is_pinned {
            None
        } else {
            self.requested(id.thread, &current)
        };
        let Some(task) = self.table.get_mut(id.serial) else {
            return Placed::Gone;
        };
        if let Some(requested) = requested {
            task.original = Arc::new(requested);
        }
        match decide(task, &current, Some(pu), || Seen::once(id.thread, &self.cpusets).ok()) {
            Verdict::Keep | Verdict::Restore(_) => Placed::Done,
            Verdict::Refuse(reason) => Placed::Refused(reason),
            Verdict::Pin(pu) => {
                let thread = Thread {
                    process: id.process,
                    thread: id.thread,
                    start: stat.start,
                };
                let original = Requested::clone(&task.original);
                let noted = self
                    .journal
                    .note_pinning(&self.procfs, thread, original, task.pinned, pu);
                if let Err(error) = noted {
                    return refused(
                        StayCode::JournalNotWritten,
                        format!("the journal cannot be written: {error}"),
                    );
                }
                if let Some(forks) = &self.forks {
                    forks.enter(pu, id.thread, &task.original);
                }
                match CpuMask::single(pu).give_to(id.thread) {
                    Ok(()) => self.pinned(id, pu, thread),
                    Err(error) => self.not_pinned(id, pu, thread, &error),
                }
            }
        }
    }

    /// Restores the original mask of a task.
    pub(super) fn unpin(&mut self, id: TaskId) -> Placed {
        if self.table.get_mut(id.serial).is_none_or(|task| task.pinned.is_none()) {
            return Placed::Done;
        }
        if self.held(id).is_none() {
            return Placed::Gone;
        }
        let Ok(current) = CpuMask::of_thread(id.thread) else {
            return Placed::Gone;
        };
        let at = self.began.elapsed();
        let Some(task) = self.table.get_mut(id.serial) else {
            return Placed::Gone;
        };
        if current.only() != task.pinned {
            self.lost_pin(id, at);
            return Placed::Done;
        }
        let original = Arc::clone(&task.original);
        self.give_back(id, &original, at)
    }

    /// Restores a mask of a pinned task, which ends its pinning. The journal keeps a mask that cannot be in force yet.
    fn give_back(&mut self, id: TaskId, mask: &Requested, at: Duration) -> Placed {
        match mask.give_back(id.thread, &self.cpusets) {
            Ok(meanwhile) => {
                let noted = meanwhile.and_then(|meanwhile| {
                    let noted = self.table.get_mut(id.serial)?.noted.take()?;
                    Some((noted, meanwhile))
                });
                if let Some((noted, meanwhile)) = noted {
                    self.journal.note_waiting(noted, mask, meanwhile);
                }
                self.forget_pinning(id, at);
                self.has_mask(id, mask.clone());
                Placed::Done
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Placed::Gone,
            Err(error) => refused(
                StayCode::KernelRefused,
                format!("its PUs {mask} cannot be restored: {error}"),
            ),
        }
    }

    /// Handles a pinned task whose mask is not its PU any more. If a cpuset or hotplug has removed the PU, the pinning
    /// is only hidden and would return with the PU, so the task gets its original mask. Otherwise another program has
    /// set the mask.
    pub(super) fn lost_pin(&mut self, id: TaskId, at: Duration) {
        let task = self.table.get_mut(id.serial);
        let Some((pinned, original)) = task.and_then(|task| Some((task.pinned?, Arc::clone(&task.original)))) else {
            return;
        };
        let is_clear = |seen: &Seen| seen.standing(&[pinned]) != Standing::Foreign;
        let Ok(seen) = Seen::settled(id.thread, &self.cpusets, is_clear) else {
            return;
        };
        let standing = seen.standing(&[pinned]);
        match (standing, seen.to_return(&[pinned], &original)) {
            // The pinning has returned meanwhile.
            (Standing::InForce, _) => return,
            (_, Return::Mask(to)) => {
                self.give_back(id, &to, at);
            }
            _ => {
                self.forget_pinning(id, at);
                self.has_mask(id, seen.requested());
            }
        }
        let name = self.readings.get(&id.serial).map_or("", |reading| &reading.name);
        let set = seen.mask.to_set();
        let (code, text) = match standing {
            Standing::Foreign => (
                HostNoteCode::MaskTakenOver,
                format!("{id} ({name}) runs on {set}, which pinfold did not set: it is left alone"),
            ),
            Standing::Cut => (
                HostNoteCode::MaskReset,
                format!("{id} ({name}) is not pinned any more: its cpuset or hotplug has removed PU {pinned}"),
            ),
            Standing::InForce | Standing::Gone => (
                HostNoteCode::MaskReset,
                format!(
                    "{id} ({name}) may run on {set} again, all that its cpuset allows: its mask was changed after it was \
                     placed"
                ),
            ),
        };
        self.note(code, text);
        if standing != Standing::Cut {
            self.statistics.changed_by_others += 1;
        }
        if standing == Standing::Foreign
            && let Some(reading) = self.readings.get_mut(&id.serial)
        {
            reading.taken_over = true;
            reading.left_alone = Some(LeftAlone::OwnMask);
        }
    }

    /// Records the mask of a task that is not pinned.
    pub(super) fn has_mask(&mut self, id: TaskId, mask: Requested) {
        let Ok(usable) = CpuMask::of_thread(id.thread) else {
            return;
        };
        if let Some(mut reading) = self.readings.remove(&id.serial) {
            if !reading.taken_over || mask == Requested::Nobody {
                reading.taken_over = false;
                self.set_allowed(id.process, id.thread, &mask, &usable, &mut reading);
            }
            reading.usable = usable;
            self.readings.insert(id.serial, reading);
        }
        if let Some(task) = self.table.get_mut(id.serial) {
            task.original = Arc::new(mask);
        }
    }

    /// The requested mask of a task that can run on `usable`. `None` if the task has ended.
    pub(super) fn requested(&self, thread: i32, usable: &CpuMask) -> Option<Requested> {
        // This shortcut is for thousands of tasks.
        if usable.is_superset(self.cpusets.possible()) {
            return Some(Requested::Nobody);
        }
        Requested::of(thread, &self.cpusets).ok()
    }

    /// The state of a task. Its process is held, and its start time shows that the number still names this task.
    pub(super) fn held(&mut self, id: TaskId) -> Option<ThreadStat> {
        let start = self.readings.get(&id.serial)?.start;
        let process = self.processes.get_mut(&id.process)?;
        if process.held.is_none() {
            process.held = Held::new(id.process);
        }
        let lives = process.held.as_ref().is_some_and(Held::lives);
        let stat = self.procfs.stat(id.process, id.thread).filter(|_| lives)?;
        (stat.start == start && !matches!(stat.state, 'Z' | 'X')).then_some(stat)
    }

    /// Why the mask of a task may not be changed. `None` if it may.
    fn not_to_be_touched(&mut self, id: TaskId, current: &CpuMask) -> Option<Reason<StayCode>> {
        let task = self.table.get_mut(id.serial)?.clone();
        if task.pinned.is_some() {
            if current.only() == task.pinned {
                return None;
            }
            self.lost_pin(id, self.began.elapsed());
        } else if self.readings.get(&id.serial)?.usable != *current {
            // The mask has changed since the last observation. The next one finds the cause.
            let why = format!("its mask has just become {}", current.to_set());
            return Some(Reason::new(StayCode::MaskChanged, why));
        }
        Some(match self.readings.get(&id.serial)?.left_alone? {
            LeftAlone::OwnMask => {
                let why = format!("the task or another program has set its PUs, {}", current.to_set());
                Reason::new(StayCode::OwnMask, why)
            }
            LeftAlone::Forbidden => Reason::new(StayCode::Forbidden, NOT_PERMITTED),
            LeftAlone::OnePu => Reason::new(StayCode::OnePu, "it may run on one PU only"),
            LeftAlone::RealTime => Reason::new(StayCode::RealTime, "it has real-time priority"),
        })
    }

    fn pinned(&mut self, id: TaskId, pu: PuId, thread: Thread) -> Placed {
        let at = self.began.elapsed();
        if let Some(task) = self.table.get_mut(id.serial) {
            let before = task.clone();
            task.pinned = Some(pu);
            task.noted = Some(thread);
            self.was_pinned(&before, None, at);
        }
        // The journal's entry that was to be removed is valid again.
        for former in self
            .former_pins
            .iter_mut()
            .filter(|former| former.noted == Some(thread))
        {
            former.noted = None;
        }
        if let Some(reading) = self.readings.get_mut(&id.serial) {
            reading.last_pu = Some(pu);
        }
        Placed::Done
    }

    fn not_pinned(&mut self, id: TaskId, pu: PuId, thread: Thread, error: &io::Error) -> Placed {
        let task = self.table.get_mut(id.serial);
        let pinned = task.and_then(|task| task.pinned);
        if pinned.is_none() {
            self.journal.rolled_back(Target::Mask(thread));
        }
        if let Some(forks) = self.forks.as_ref().filter(|_| pinned != Some(pu)) {
            forks.leave(pu, id.thread);
        }
        match error.raw_os_error() {
            Some(libc::ESRCH) => Placed::Gone,
            Some(libc::EPERM) => {
                self.statistics.not_movable += 1;
                if let Some(reading) = self.readings.get_mut(&id.serial) {
                    reading.left_alone = Some(LeftAlone::Forbidden);
                }
                self.note_once(HostNoteCode::NotMovable, || {
                    format!(
                        "{id} may not be moved, and others may not be either: it belongs to another user, and pinfold \
                         lacks CAP_SYS_NICE; run the daemon as root, with the unit that comes with it, or name only \
                         your own processes"
                    )
                });
                refused(StayCode::Forbidden, NOT_PERMITTED)
            }
            Some(libc::EINVAL) => {
                let whole = self.cpusets.now(id.process).to_set();
                if let Some(reading) = self.readings.get_mut(&id.serial) {
                    let mut allowed = reading.allowed.intersection(&whole);
                    allowed = allowed.difference(&[pu].into_iter().collect());
                    reading.allowed = Arc::new(allowed);
                }
                refused(
                    StayCode::PuNotAllowed,
                    format!("PU {pu} is offline, or its cpuset does not allow it any more"),
                )
            }
            _ => refused(
                StayCode::KernelRefused,
                format!("it cannot be pinned on PU {pu}: {error}"),
            ),
        }
    }

    fn forget_pinning(&mut self, id: TaskId, at: Duration) {
        if let Some(task) = self.table.get_mut(id.serial) {
            let before = task.clone();
            task.pinned = None;
            let noted = task.noted.take();
            self.was_pinned(&before, noted, at);
        }
    }
}
