//! Tasks with preferences instead of masks: see `launch::preferring`.

use super::Program;
use crate::affinity::CpuMask;
use crate::launch::preferring::{Means, Preferring, Shared, ended};
use crate::scheduling::{self, RealTime};
use crate::tasks::{Task, Verdict};
use pinfold_core::{PuId, PuSet, TaskId};
use std::sync::Weak;
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

    /// The scheduler that must be called, and the longest time between two calls.
    pub(in crate::launch) fn scheduler(&self) -> Option<(Weak<Shared>, Duration)> {
        self.means.scheduler()
    }

    /// The scheduler has ended: tasks are pinned from now on, or not placed any more.
    pub(in crate::launch) fn scheduler_ended(&mut self, reason: &str) {
        let Means::Preferences(preferences) = &mut self.means else {
            return;
        };
        let within = preferences.within.take();
        let (then, means) = if preferences.masks_after {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::counting::{Counted, Counting};
    use crate::launch::limit::Limit;
    use crate::launch::preferring::Scheduler;
    use crate::requested::Requested;
    use crate::tasks::TaskOrigin;
    use pinfold_core::{Configuration, Pinning};
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::thread::JoinHandle;
    use std::time::Instant;

    /// A scheduler that records its calls.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<ToldState>>);

    #[derive(Default)]
    struct ToldState {
        preferred: BTreeMap<i32, PuSet>,
        times: usize,
    }

    impl Scheduler for Told {
        fn prefer(&mut self, thread: i32, pus: Option<&PuSet>) -> io::Result<()> {
            let mut told = self.0.lock().unwrap();
            told.times += 1;
            match pus {
                Some(pus) => told.preferred.insert(thread, pus.clone()),
                None => told.preferred.remove(&thread),
            };
            Ok(())
        }

        fn call(&mut self) -> Result<(), String> {
            Ok(())
        }
    }

    impl Told {
        fn preferred(&self, thread: i32) -> Option<PuSet> {
            self.0.lock().unwrap().preferred.get(&thread).cloned()
        }
    }

    /// A thread that lives until this is dropped.
    struct Living {
        thread: i32,
        end: Option<Sender<()>>,
        handle: Option<JoinHandle<()>>,
    }

    impl Living {
        fn new() -> Self {
            let ((end, wait), (say, hear)) = (channel::<()>(), channel());
            let handle = std::thread::spawn(move || {
                // SAFETY: a plain system call.
                say.send(unsafe { libc::gettid() }).unwrap();
                let _ = wait.recv();
            });
            Self {
                thread: hear.recv().unwrap(),
                end: Some(end),
                handle: Some(handle),
            }
        }

        fn mask(&self) -> CpuMask {
            CpuMask::read(self.thread).unwrap()
        }
    }

    impl Drop for Living {
        fn drop(&mut self) {
            self.end.take();
            self.handle.take().map(JoinHandle::join);
        }
    }

    /// The first PU of this process, and a program with preferences that starts on it and has this thread.
    fn on_the_first_pu(told: &Told, thread: i32, masks_after: bool) -> (PuId, Program) {
        let usable = CpuMask::read(0).unwrap();
        let pu = usable.pus().next().unwrap();
        let program = Program::new(
            Limit::none(Requested::Unset, usable.to_set()),
            Pinning::new(vec![pu]),
            Duration::from_secs(3600),
            [].into(),
            Counting::new(Counted::default()),
            None,
            None,
        );
        let preferring = Preferring {
            scheduler: Box::new(told.clone()),
            called: Duration::from_secs(1),
            masks_after,
        };
        let mut program = program.with_preferences(preferring, None).unwrap();
        let process = std::process::id().cast_signed();
        program.add_task(process, thread, TaskOrigin::first(Requested::Unset), Instant::now());
        (pu, program)
    }

    #[test]
    fn a_thread_prefers_the_pu_of_its_rank_and_keeps_its_mask() {
        let (told, living) = (Told::default(), Living::new());
        let before = living.mask();
        let (pu, mut program) = on_the_first_pu(&told, living.thread, false);
        assert_eq!(told.preferred(living.thread), Some(PuSet::from_iter([pu])));
        assert_eq!(
            program.ranked().iter().map(|ranked| ranked.2).collect::<Vec<_>>(),
            [Some(pu)]
        );
        assert_eq!(program.apply(&Configuration::default()).moved.len(), 1);
        assert_eq!(told.preferred(living.thread), None);
        assert_eq!(living.mask(), before);
    }

    #[test]
    fn the_scheduler_is_told_once_of_what_does_not_change() {
        let (told, living) = (Told::default(), Living::new());
        let (pu, mut program) = on_the_first_pu(&told, living.thread, false);
        let configuration = Configuration {
            pinning: Pinning::new(vec![pu]),
            ..Configuration::default()
        };
        assert!(program.apply(&configuration).moved.is_empty());
        assert_eq!(told.0.lock().unwrap().times, 1);
    }

    #[test]
    fn unpinned_threads_prefer_the_cpus_that_would_limit_them() {
        let (told, living) = (Told::default(), Living::new());
        let (pu, mut program) = on_the_first_pu(&told, living.thread, false);
        let within = |pus: PuSet| Configuration {
            within: Some(pus),
            ..Configuration::default()
        };
        let usable = living.mask().to_set();
        program.apply(&within(usable.clone()));
        assert_eq!(told.preferred(living.thread), Some(usable));
        let applied = program.apply(&within(PuSet::from_iter([PuId(pu.0 + 4000)])));
        assert!(
            applied.refused[0].why.contains("prefer no CPU"),
            "{:?}",
            applied.refused
        );
        assert_eq!(
            program.ranked().iter().map(|ranked| ranked.2).collect::<Vec<_>>(),
            [None]
        );
    }

    #[test]
    fn a_thread_that_may_not_run_on_its_pu_has_no_preference_and_that_is_reported() {
        let (told, living) = (Told::default(), Living::new());
        let (_, mut program) = on_the_first_pu(&told, living.thread, false);
        let elsewhere = Configuration {
            pinning: Pinning::new(vec![PuId(4000)]),
            ..Configuration::default()
        };
        let applied = program.apply(&elsewhere);
        assert_eq!(told.preferred(living.thread), None);
        assert!(
            applied.refused[0].why.contains("another program has set them"),
            "{:?}",
            applied.refused
        );
        assert!(program.all_refuse().is_some());
    }

    #[test]
    fn after_the_scheduler_threads_run_unpinned_or_are_pinned() {
        for masks_after in [false, true] {
            let (told, living) = (Told::default(), Living::new());
            let before = living.mask();
            let (pu, mut program) = on_the_first_pu(&told, living.thread, masks_after);
            program.scheduler_ended("the watchdog");
            assert!(program.scheduler().is_none());
            let notes = program.take_notes();
            let then = if masks_after { "are pinned" } else { "run unpinned" };
            assert!(
                notes[0].contains("the watchdog") && notes[0].contains(then),
                "{notes:?}"
            );
            let expected = if masks_after {
                CpuMask::single(pu)
            } else {
                before.clone()
            };
            assert_eq!(living.mask(), expected);
            assert_eq!(program.all_refuse().is_some(), !masks_after);
            program.apply(&Configuration::default());
            assert_eq!(living.mask(), before);
        }
    }
}
