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

use super::{Phase, Shared};
use pinfold_core::{PuId, PuSet};
use std::collections::BTreeMap;
use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

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
                preferring,
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

/// The preferences of the program's tasks.
pub(super) struct Preferences {
    pub(super) preferring: Preferring,
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
        self.preferring.scheduler.prefer(thread, pus)?;
        match wanted {
            Some(wanted) => self.preferred.insert(serial, wanted),
            None => self.preferred.remove(&serial),
        };
        Ok(true)
    }
}

/// Calls the scheduler until it has ended, or the program is not followed any more. The first call is at once.
pub(super) fn call(shared: &Shared) {
    let mut state = shared.lock();
    while let Some(called) = state.program.call_scheduler() {
        let next = Instant::now() + called;
        loop {
            if matches!(state.phase, Phase::Over(_) | Phase::Failed(_)) {
                return;
            }
            let rest = next.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            state = shared
                .changed
                .wait_timeout(state, rest)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
