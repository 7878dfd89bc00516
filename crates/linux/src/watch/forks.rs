//! Gives children of pinned tasks their creators' original masks before they run.
//!
//! A child inherits its creator's mask. A runtime that reads the mask to learn the number of PUs chooses its number of
//! threads once. So a change of the mask when the child is found is too late.
//!
//! 1. For each PU one thread of pinfold's runs only on this PU, with real-time priority. It waits for the kernel's
//!    records of forks on this PU (a perf event).
//! 2. When a task that is pinned on the PU forks, the child also has to run there. The waiting thread runs before both.
//!    It looks for the creator among the tasks that are or recently were pinned on this PU, and gives the child the
//!    creator's original mask.
//! 3. The event is on only while a task is pinned on the PU, so that forks on other PUs cost nothing.
//!
//! A child may also be a thread. Tasks with real-time priority could run before the waiting thread, but they are never
//! pinned.
//!
//! If records of a PU were lost, the PU is not covered (`Forks::covers`) until all tasks have been listed: then all
//! earlier children are known and were recognised when they were found.
//!
//! Limits: a PU that was taken offline is not covered any more.

use crate::affinity::CpuMask;
use crate::cpuset::Cpusets;
use crate::perf_event::{self, Watched};
use crate::pfm::sys;
use crate::requested::Requested;
use crate::ring::{Record, Ring};
use arc_swap::ArcSwap;
use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};
use pinfold_core::{PuId, PuSet};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// The lowest real-time priority. It precedes all tasks without one.
const PRIORITY: i32 = 1;

/// The size of a buffer in bytes. A record has 40 bytes, and is read at once.
const BUFFER: usize = 8 * 4096;

/// The stack size of a thread with shallow calls, in bytes.
const STACK: usize = 128 * 1024;

/// Why forks cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum ForksError {
    /// The kernel refuses the event.
    #[error("forks on PU {0} cannot be watched: {1}; it needs CAP_PERFMON, and perf_event_open(2) to be allowed")]
    Event(PuId, Errno),
    /// A thread may not have real-time priority.
    #[error(
        "no thread can have real-time priority on PU {0}: {1}; it needs CAP_SYS_NICE, and a unit without RestrictRealtime"
    )]
    Priority(PuId, io::Error),
    /// There are too many threads.
    #[error("cannot start a thread for PU {0}: {1}")]
    Thread(PuId, io::Error),
}

/// The pinned tasks of a PU, by thread, each with its original mask.
type Creators = HashMap<i32, Arc<Requested>>;

/// The data that the thread on a PU shares with the daemon.
#[derive(Debug)]
struct Shared {
    pu: PuId,
    event: OwnedFd,
    creators: ArcSwap<Creators>,
    cpusets: Cpusets,
    coverage: Coverage,
    freed: AtomicU64,
}

/// Whether each child of a PU has been handled.
#[derive(Debug, Default)]
struct Coverage {
    /// The number of losses of records.
    losses: AtomicU64,
    /// The number of losses before the last list of all tasks.
    listed: AtomicU64,
    /// Whether the PU has lost its event.
    ended: AtomicBool,
}

impl Coverage {
    fn covers(&self) -> bool {
        !self.has_ended() && self.losses() == self.listed.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }
}

/// PUs that are not covered.
#[derive(Debug, Default)]
pub(super) struct Uncovered {
    /// PUs whose records were lost, with the number of losses.
    pub(super) lost: BTreeMap<PuId, u64>,
    /// PUs that have lost their event.
    pub(super) ended: PuSet,
}

/// The watch on one PU.
#[derive(Debug)]
struct PuWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Its thread ends when this is closed.
    stop: Option<File>,
}

/// The watches on all PUs that tasks may be pinned on.
#[derive(Debug)]
pub(super) struct Forks(BTreeMap<PuId, PuWatch>);

/// The opened events of forks. They do not count yet.
///
/// Some distributions let only `CAP_SYS_ADMIN` open them (`perf_event_paranoid` 3), and the daemon drops that
/// capability.
pub struct ForkEvents(Vec<(PuId, OwnedFd, Ring)>);

impl ForkEvents {
    /// Opens the events of these PUs.
    pub fn open(pus: &PuSet) -> Result<Self, ForksError> {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        let page = page.and_then(|page| usize::try_from(page).ok()).unwrap_or(4096);
        let open = |pu: PuId| {
            let mut attributes = perf_event::software(sys::PERF_COUNT_SW_DUMMY, false);
            attributes.set_task(1);
            attributes.set_disabled(1);
            // Each record wakes the thread: `wakeup_events` would count samples only.
            attributes.set_watermark(1);
            attributes.__bindgen_anon_2.wakeup_watermark = 1;
            let cpu = i32::try_from(pu.0).unwrap_or(i32::MAX);
            let event = perf_event::open(&attributes, Watched::Cpu(cpu), None)?;
            let ring = Ring::map(&event, page, BUFFER)?;
            Ok((pu, event, ring))
        };
        let opened = pus
            .iter()
            .map(|pu| open(pu).map_err(|error| ForksError::Event(pu, error)));
        opened.collect::<Result<_, _>>().map(Self)
    }
}

impl Forks {
    /// Starts to wait for forks.
    pub(super) fn start(events: ForkEvents) -> Result<Self, ForksError> {
        let start = |(pu, event, ring)| Ok((pu, PuWatch::start(pu, event, ring)?));
        events.0.into_iter().map(start).collect::<Result<_, _>>().map(Self)
    }

    /// Records that a thread is about to be pinned on a PU.
    pub(super) fn enter(&self, pu: PuId, thread: i32, original: &Arc<Requested>) {
        self.change(pu, |creators| drop(creators.insert(thread, Arc::clone(original))));
    }

    /// Removes a thread from a PU, because its children there have been found.
    pub(super) fn leave(&self, pu: PuId, thread: i32) {
        self.change(pu, |creators| drop(creators.remove(&thread)));
    }

    /// Records that no task is pinned any more.
    pub(super) fn clear(&self) {
        for &pu in self.0.keys() {
            self.change(pu, Creators::clear);
        }
    }

    fn change(&self, pu: PuId, change: impl FnOnce(&mut Creators)) {
        let Some(PuWatch { shared, .. }) = self.0.get(&pu) else {
            return;
        };
        let before = shared.creators.load();
        let mut creators = Creators::clone(&before);
        change(&mut creators);
        let (was_on, is_on) = (!before.is_empty(), !creators.is_empty());
        shared.creators.store(Arc::new(creators));
        if was_on != is_on && perf_event::set_counting(&shared.event, is_on).is_err() {
            shared.coverage.ended.store(true, Ordering::Relaxed);
        }
    }

    /// Whether each child that was created with the mask of this PU since the start has got its creator's original
    /// mask.
    pub(super) fn covers(&self, pu: PuId) -> bool {
        let watch = self.0.get(&pu);
        watch.is_some_and(|watch| watch.shared.coverage.covers())
    }

    /// The PUs that are not covered now.
    pub(super) fn uncovered(&self) -> Uncovered {
        let mut uncovered = Uncovered::default();
        for (&pu, PuWatch { shared, .. }) in &self.0 {
            let coverage = &shared.coverage;
            if coverage.has_ended() {
                uncovered.ended.insert(pu);
            } else if !coverage.covers() {
                uncovered.lost.insert(pu, coverage.losses());
            }
        }
        uncovered
    }

    /// Records that all tasks were listed after these losses.
    pub(super) fn all_were_listed(&self, lost: &BTreeMap<PuId, u64>) {
        for (pu, &losses) in lost {
            if let Some(watch) = self.0.get(pu) {
                watch.shared.coverage.listed.store(losses, Ordering::Relaxed);
            }
        }
    }

    /// Whether all PUs are covered.
    pub(super) fn cover_all(&self) -> bool {
        self.0.keys().all(|&pu| self.covers(pu))
    }

    /// The number of children that have got their creators' original masks.
    pub(super) fn freed(&self) -> u64 {
        self.0
            .values()
            .map(|watch| watch.shared.freed.load(Ordering::Relaxed))
            .sum()
    }
}

impl PuWatch {
    fn start(pu: PuId, event: OwnedFd, ring: Ring) -> Result<Self, ForksError> {
        let shared = Arc::new(Shared {
            pu,
            event,
            creators: ArcSwap::default(),
            cpusets: Cpusets::default(),
            coverage: Coverage::default(),
            freed: AtomicU64::new(0),
        });
        let (stopped, stop) = nix::unistd::pipe().map_err(|error| ForksError::Event(pu, error))?;
        let (ready, is_ready) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let run = move || {
            let prepared = run_ahead_on(pu);
            let go_on = prepared.is_ok();
            if ready.send(prepared).is_ok() && go_on {
                of_thread.free_children(ring, &stopped);
            }
        };
        let thread = thread::Builder::new()
            .name("pinfold-forks".to_owned())
            .stack_size(STACK)
            .spawn(run)
            .map_err(|error| ForksError::Thread(pu, error))?;
        let watch = Self {
            shared,
            thread: Some(thread),
            stop: Some(stop.into()),
        };
        match is_ready.recv() {
            Ok(Ok(())) => Ok(watch),
            Ok(Err(error)) => Err(ForksError::Priority(pu, error)),
            Err(_) => Err(ForksError::Thread(pu, io::Error::other("it ended at once"))),
        }
    }
}

impl Drop for PuWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes the calling thread run only on `pu`, before all tasks without real-time priority.
fn run_ahead_on(pu: PuId) -> io::Result<()> {
    CpuMask::single(pu).give_to(0)?;
    let parameters = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: the kernel reads the parameters, which live until the call has returned.
    let result = unsafe {
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters)
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

impl Shared {
    /// Restores masks of children until `stopped` is closed at the other end.
    fn free_children(&self, mut ring: Ring, stopped: &OwnedFd) {
        loop {
            let wait = |descriptor| libc::pollfd {
                fd: descriptor,
                events: libc::POLLIN,
                revents: 0,
            };
            let mut polled = [wait(self.event.as_raw_fd()), wait(stopped.as_raw_fd())];
            // SAFETY: the call reads and writes the two elements.
            unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
            ring.drain(|record| self.take(record));
            if polled[1].revents != 0 {
                return;
            }
            if polled[0].revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                self.coverage.ended.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    fn take(&self, record: Record) {
        match record {
            Record::Fork { thread, creator } => {
                let creators = self.creators.load();
                // A child has another mask if its creator has pinned it elsewhere, or if it started before its creator
                // was pinned.
                if let Some(original) = creators.get(&creator)
                    && CpuMask::of_thread(thread).is_ok_and(|mask| mask.only() == Some(self.pu))
                    && original.give_to(thread, &self.cpusets).is_ok()
                {
                    self.freed.fetch_add(1, Ordering::Relaxed);
                }
            }
            Record::Lost(_) => {
                self.coverage.losses.fetch_add(1, Ordering::Relaxed);
            }
            Record::Sample(_) | Record::Throttled => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PU 3, with a descriptor that is not an event.
    fn forks() -> Forks {
        let shared = Arc::new(Shared {
            pu: PuId(3),
            event: File::open("/dev/null").unwrap().into(),
            creators: ArcSwap::default(),
            cpusets: Cpusets::default(),
            coverage: Coverage::default(),
            freed: AtomicU64::new(0),
        });
        let watch = PuWatch {
            shared,
            thread: None,
            stop: None,
        };
        Forks(BTreeMap::from([(PuId(3), watch)]))
    }

    #[test]
    fn a_pu_is_covered_again_when_all_tasks_have_been_listed_since_the_last_loss() {
        let forks = forks();
        let lose = || forks.0[&PuId(3)].shared.take(Record::Lost(1));
        assert!(forks.cover_all());
        lose();
        assert!(!forks.cover_all());
        let lost = forks.uncovered().lost;
        // Records are lost while tasks are listed.
        lose();
        forks.all_were_listed(&lost);
        assert!(!forks.cover_all());
        forks.all_were_listed(&forks.uncovered().lost);
        assert!(forks.cover_all());
        assert!(forks.uncovered().lost.is_empty());
    }

    #[test]
    fn a_pu_without_an_event_stays_uncovered() {
        let forks = forks();
        forks.0[&PuId(3)].shared.coverage.ended.store(true, Ordering::Relaxed);
        let uncovered = forks.uncovered();
        assert!(uncovered.lost.is_empty());
        assert_eq!(uncovered.ended.to_string(), "3");
        forks.all_were_listed(&BTreeMap::from([(PuId(3), 0)]));
        assert!(!forks.cover_all());
    }
}
