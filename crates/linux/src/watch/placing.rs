//! Changes masks and restores them.

use super::Watcher;
use crate::affinity::CpuMask;
use crate::held::Held;
use crate::journal::{Target, Thread};
use crate::procfs::ThreadStat;
use crate::tasks::Verdict;
use crate::tasks::decide;
use pinfold_core::{HostNoteCode, LeftAlone, Placed, PuId, Reason, StayCode, TaskId};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Why a task stays that belongs to another user.
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
        let Some(task) = self.table.get_mut(id.serial) else {
            return Placed::Gone;
        };
        match decide(task, &current, Some(pu)) {
            Verdict::Keep | Verdict::Restore => Placed::Done,
            Verdict::Refuse(reason) => Placed::Refused(reason),
            Verdict::Pin(pu) => {
                let thread = Thread {
                    process: id.process,
                    thread: id.thread,
                    start: stat.start,
                };
                let original = CpuMask::clone(&task.original);
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
            self.taken_over(id, current, at);
            return Placed::Done;
        }
        let original = Arc::clone(&task.original);
        match original.give_to(id.thread) {
            Ok(()) => {
                self.forget_pinning(id, at);
                Placed::Done
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Placed::Gone,
            Err(error) => refused(
                StayCode::KernelRefused,
                format!("its PUs {} cannot be restored: {error}", original.to_set()),
            ),
        }
    }

    /// The mask of a pinned task has changed: another program has set it.
    pub(super) fn taken_over(&mut self, id: TaskId, current: CpuMask, at: Duration) {
        self.statistics.changed_by_others += 1;
        self.forget_pinning(id, at);
        // A mask with all PUs of the cpuset is no choice: it is what remains after a change of the cpuset.
        let free = self.is_whole_cpuset(id.process, &current);
        let Some(mut reading) = self.readings.remove(&id.serial) else {
            return;
        };
        self.set_allowed(id.process, id.thread, &current, &mut reading);
        let set = current.to_set();
        if free {
            let text = format!(
                "{id} ({}) may run on {set} again, all that its cpuset allows: its mask was changed after it was placed",
                reading.name
            );
            self.note(HostNoteCode::MaskReset, text);
        } else {
            reading.taken_over = true;
            reading.left_alone = Some(LeftAlone::OwnMask);
            let name = &reading.name;
            let text = format!("{id} ({name}) runs on {set} now, which pinfold did not set: it is left alone");
            self.note(HostNoteCode::MaskTakenOver, text);
        }
        self.readings.insert(id.serial, reading);
        if let Some(task) = self.table.get_mut(id.serial) {
            task.original = Arc::new(current);
        }
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

    /// Why the mask of a task may not be changed, if so.
    fn not_to_be_touched(&mut self, id: TaskId, current: &CpuMask) -> Option<Reason<StayCode>> {
        let task = self.table.get_mut(id.serial)?.clone();
        if task.pinned.is_some() {
            if current.only() == task.pinned {
                return None;
            }
            self.taken_over(id, current.clone(), self.began.elapsed());
        } else if *task.original != *current {
            // It has changed since the last look; the next look finds the cause.
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
                        "{id} may not be moved, and there may be others: it belongs to another user, and pinfold lacks \
                         CAP_SYS_NICE; run the daemon as root, with the unit that comes with it, or name only your own \
                         processes"
                    )
                });
                refused(StayCode::Forbidden, NOT_PERMITTED)
            }
            Some(libc::EINVAL) => {
                let whole = self.cpusets.of(&self.procfs, id.process);
                if let (Some(whole), Some(reading)) = (whole, self.readings.get_mut(&id.serial)) {
                    let mut allowed = reading.allowed.intersection(&whole.to_set());
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
