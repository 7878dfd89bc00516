//! Tasks with preferences instead of masks: see `launch::preferring`.

use super::Program;
use crate::affinity::CpuMask;
use crate::launch::preferring::{Means, Preferring, ended};
use crate::scheduling::{self, RealTime};
use crate::tasks::{Task, Verdict};
use pinfold_core::{PuId, PuSet, TaskId};
use std::time::Duration;

impl Program {
    /// Lets the program's tasks have preferences. `within`: what unpinned tasks prefer from the start.
    ///
    /// # Errors
    /// Fails with the reason if the program may use none of the PUs `within`.
    pub(in crate::launch) fn with_preferences(
        mut self,
        preferring: Preferring,
        within: Option<&PuSet>,
    ) -> Result<Self, String> {
        self.means = Means::new(Some(preferring));
        self.means.limit(within, self.limit.pus())?;
        Ok(self)
    }

    /// Makes a thread of the program ask for the scheduler. Threads that it creates ask as well.
    pub(super) fn ask_for_scheduler(&mut self, thread: i32) {
        if !matches!(self.means, Means::Preferences(_)) {
            return;
        }
        if let Err(error) = scheduling::ask_for_extension(thread)
            && error.raw_os_error() != Some(libc::ESRCH)
        {
            self.scheduler_ended(&format!("the program's threads cannot ask for it: {error}"));
        }
    }

    /// Gives the program's tasks back to the kernel's own scheduler.
    pub(super) fn leave_scheduler(&self) {
        for task in self.table.iter() {
            scheduling::leave_extension(task.id.thread);
        }
    }

    /// Tells the scheduler that pinfold lives. Returns the longest time until the next call; `None` if there is no
    /// scheduler, or none any more.
    pub(in crate::launch) fn call_scheduler(&mut self) -> Option<Duration> {
        let Means::Preferences(preferences) = &mut self.means else {
            return None;
        };
        match preferences.preferring.scheduler.call() {
            Ok(()) => Some(preferences.preferring.called),
            Err(reason) => {
                self.scheduler_ended(&reason);
                None
            }
        }
    }

    /// The scheduler has ended: tasks are pinned from now on, or not placed any more.
    fn scheduler_ended(&mut self, reason: &str) {
        let Means::Preferences(preferences) = &mut self.means else {
            return;
        };
        let within = preferences.within.take();
        let (then, means) = if preferences.preferring.masks_after {
            ("threads are pinned from now on", Means::Masks)
        } else {
            ("threads run unpinned from now on", Means::Nothing(reason.to_owned()))
        };
        self.means = means;
        self.leave_scheduler();
        self.notes.push(format!(
            "The scheduler has ended ({reason}), and the kernel's own one is back: {then}."
        ));
        if self.means.are_masks()
            && let Err(why) = self.limit_to(within.as_ref())
        {
            self.notes.push(format!("{why}."));
        }
        self.place_all();
    }

    /// Gives one task the preference for `wanted`, or that of unpinned tasks. Returns its id if that was new. `current`
    /// has the PUs that it can run on: a task that has chosen others keeps them, and that is reported.
    pub(super) fn prefer(
        &mut self,
        task: &Task,
        current: &CpuMask,
        wanted: Option<PuId>,
        real_time: Option<RealTime>,
    ) -> Option<TaskId> {
        let (serial, allowed) = (task.id.serial, wanted.is_none_or(|pu| current.contains(pu)));
        let done = match &mut self.means {
            Means::Preferences(preferences) => preferences.set(serial, task.id.thread, wanted.filter(|_| allowed)),
            Means::Nothing(reason) => {
                let why = ended(reason);
                if wanted.is_some() {
                    self.refuse(serial, why);
                }
                return None;
            }
            Means::Masks => return None,
        };
        match done {
            Ok(_) if !allowed => {
                let why = format!(
                    "its PUs are {}: the task itself or another program has set them",
                    current.to_set()
                );
                self.refuse(serial, why);
                None
            }
            Ok(is_new) => {
                if let Some(real_time) = real_time {
                    return self.leave_alone(serial, task, Verdict::Keep, real_time);
                }
                self.table.get_mut(serial)?.refused = None;
                is_new.then_some(task.id)
            }
            Err(error) => {
                self.refuse_unless_gone(serial, &error, || {
                    format!("the scheduler refuses its preference: {error}")
                });
                None
            }
        }
    }
}
