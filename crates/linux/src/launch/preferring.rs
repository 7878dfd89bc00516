//! A program whose threads prefer CPUs instead of being pinned: a scheduler in the kernel has their preferences, and no
//! mask is written.
//!
//! 1. The program's first thread asks for the scheduler before its first instruction: it gets the policy `SCHED_EXT`,
//!    which its children inherit. Without such a scheduler the kernel treats that policy as `SCHED_NORMAL`.
//! 2. A thread prefers what shares a cache with the PU on which it would be pinned. A thread without a PU prefers the
//!    CPUs to which unpinned threads would be limited.
//! 3. A thread of pinfold calls the scheduler, so that it knows that pinfold lives.
//! 4. If the scheduler ends before the program, nothing has to be rolled back. Threads are pinned from then on, or run
//!    unpinned.
//!
//! Nothing depends on whether a mask can be rolled back: first threads have preferences at once, because their masks do
//! not change, and so do the threads of processes that pinfold has let go of.

use pinfold_core::{PuId, PuSet};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// A running scheduler that knows where threads prefer to run.
pub trait Scheduler: Send {
    /// From now on a thread prefers the caches of these PUs, or with `None` no cache.
    ///
    /// # Errors
    /// If the thread has ended, or the kernel refuses.
    fn prefer(&mut self, thread: i32, pus: Option<&PuSet>) -> io::Result<()>;

    /// Tells it that pinfold lives.
    ///
    /// # Errors
    /// Why it has ended.
    fn call(&mut self) -> Result<(), String>;
}

/// A scheduler for the program's threads.
pub struct Preferring {
    /// The scheduler.
    pub scheduler: Box<dyn Scheduler>,
    /// The longest time between two calls.
    pub called: Duration,
    /// Whether threads are pinned if the scheduler ends.
    pub masks_after: bool,
}

/// How the program's tasks are placed.
pub(super) enum Means {
    /// By their masks.
    Masks,
    Preferences(Preferences),
    /// The scheduler has ended, for this reason.
    Nothing(String),
}

impl Means {
    pub(super) fn new(preferring: Option<Preferring>) -> Self {
        preferring.map_or(Self::Masks, |preferring| {
            Self::Preferences(Preferences {
                scheduler: Arc::new(Mutex::new(preferring.scheduler)),
                called: preferring.called,
                masks_after: preferring.masks_after,
                within: None,
                preferred: BTreeMap::new(),
            })
        })
    }

    pub(super) fn are_masks(&self) -> bool {
        matches!(self, Self::Masks)
    }

    /// Lets unpinned tasks prefer these PUs; `None` removes that. `usable` are the PUs that the program may use.
    ///
    /// # Errors
    /// Fails with the reason if no PU is left, or if there is no scheduler any more.
    pub(super) fn limit(&mut self, within: Option<&PuSet>, usable: &PuSet) -> Result<(), String> {
        match (self, within) {
            (Self::Preferences(preferences), Some(within)) => {
                let pus = usable.intersection(within);
                if pus.is_empty() {
                    return Err(format!(
                        "unpinned threads prefer no CPU: none of the CPUs {within} is among those that the program may use, \
                         {usable}"
                    ));
                }
                preferences.within = Some(pus);
            }
            (Self::Preferences(preferences), None) => preferences.within = None,
            (Self::Nothing(reason), Some(_)) => return Err(ended(reason)),
            (Self::Nothing(_) | Self::Masks, _) => {}
        }
        Ok(())
    }

    /// The scheduler, and the longest time between two calls.
    pub(super) fn scheduler(&self) -> Option<(Weak<Shared>, Duration)> {
        match self {
            Self::Preferences(preferences) => Some((Arc::downgrade(&preferences.scheduler), preferences.called)),
            Self::Masks | Self::Nothing(_) => None,
        }
    }

    /// The PU that a task was given, if it has a preference for it.
    pub(super) fn pu(&self, serial: u64) -> Option<PuId> {
        match self {
            Self::Preferences(preferences) => preferences.preferred.get(&serial)?.pu,
            Self::Masks | Self::Nothing(_) => None,
        }
    }

    /// Forgets a task that has ended.
    pub(super) fn forget(&mut self, serial: u64) {
        if let Self::Preferences(preferences) = self {
            preferences.preferred.remove(&serial);
        }
    }
}

/// Why nothing is placed any more.
pub(super) fn ended(reason: &str) -> String {
    format!("the scheduler has ended: {reason}")
}

/// What a task prefers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Preferred {
    pus: PuSet,
    /// The PU that the task was given; `None` if it has only a limit.
    pu: Option<PuId>,
}

/// A scheduler that the thread has, too, that calls it.
pub(super) type Shared = Mutex<Box<dyn Scheduler>>;

/// The preferences of the program's tasks.
pub(super) struct Preferences {
    scheduler: Arc<Shared>,
    called: Duration,
    pub(super) masks_after: bool,
    /// What unpinned tasks prefer.
    pub(super) within: Option<PuSet>,
    /// By serial.
    preferred: BTreeMap<u64, Preferred>,
}

impl Preferences {
    /// Lets a task prefer the PU that it was given, or else what unpinned tasks prefer. Returns whether that was new.
    ///
    /// # Errors
    /// If the thread has ended, or the kernel refuses. The task has its earlier preference then.
    pub(super) fn set(&mut self, serial: u64, thread: i32, pu: Option<PuId>) -> io::Result<bool> {
        let only = |pu| PuSet::from_iter([pu]);
        let pus = pu.map(only).or_else(|| self.within.clone());
        let wanted = pus.map(|pus| Preferred { pus, pu });
        if self.preferred.get(&serial) == wanted.as_ref() {
            return Ok(false);
        }
        let pus = wanted.as_ref().map(|wanted| &wanted.pus);
        lock(&self.scheduler).prefer(thread, pus)?;
        match wanted {
            Some(wanted) => self.preferred.insert(serial, wanted),
            None => self.preferred.remove(&serial),
        };
        Ok(true)
    }
}

/// Calls a scheduler until it ends or nobody has it any more. The first call is at once. Returns why it has ended.
///
/// This takes no lock of the program, which may be held for long while many threads start.
pub(super) fn call(scheduler: &Weak<Shared>, called: Duration) -> Option<String> {
    while let Some(scheduler) = scheduler.upgrade() {
        let done = lock(&scheduler).call();
        // The program ends it.
        drop(scheduler);
        if let Err(reason) = done {
            return Some(reason);
        }
        std::thread::sleep(called);
    }
    None
}

fn lock(scheduler: &Shared) -> MutexGuard<'_, Box<dyn Scheduler>> {
    scheduler.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scheduler that ends at a call.
    struct Ending {
        calls: usize,
    }

    impl Scheduler for Ending {
        fn prefer(&mut self, _: i32, _: Option<&PuSet>) -> io::Result<()> {
            Ok(())
        }

        fn call(&mut self) -> Result<(), String> {
            self.calls -= 1;
            if self.calls == 0 {
                Err("the end".to_owned())
            } else {
                Ok(())
            }
        }
    }

    fn shared(calls: usize) -> Arc<Shared> {
        Arc::new(Mutex::new(Box::new(Ending { calls })))
    }

    #[test]
    fn a_scheduler_is_called_until_it_ends() {
        let scheduler = shared(3);
        let reason = call(&Arc::downgrade(&scheduler), Duration::ZERO);
        assert_eq!(reason.as_deref(), Some("the end"));
    }

    #[test]
    fn a_scheduler_that_nobody_has_is_not_called() {
        let nobodys = Arc::downgrade(&shared(1));
        assert_eq!(call(&nobodys, Duration::ZERO), None);
    }
}
