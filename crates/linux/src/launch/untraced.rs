//! Tasks of the program that ptrace does not report: the kernel's threads for an `io_uring` ring or for vhost, and
//! tasks that the program creates in `CLONE_UNTRACED` mode.
//!
//! Such a task inherits its creator's mask. If pinfold has pinned the creator, this mask is a single PU. The task is
//! neither ranked nor measured, so it is treated like a helper: it gets the mask of its creator without the pinning.
//!
//! 1. Each pinning is recorded (`pinned`): tasks that its process creates from then on may have that mask.
//! 2. A search tries the task numbers that the kernel has assigned since the last search. A task gets the original mask
//!    of the pinned task if it is not followed, its mask is the PU of such a pinning, it started after the pinning, and
//!    it has never run on another PU. The same pinning is recorded for a process that is found in this way, because it
//!    may have created others before.
//! 3. A pinning that has ended counts until all tasks that were created before its end are in `/proc`.
//! 4. There are searches as well while unpinned tasks are limited (`limit`). When the limit changes, the found tasks
//!    get it.
//!
//! A search costs one read of `loadavg`, and a system call for each number. Searches take less than a hundredth of the
//! time.
//!
//! Limits: a task runs on its creator's PU until the next search. A task that has chosen exactly that PU itself (a ring
//! with `IORING_SETUP_SQ_AFF`) counts as one that has inherited it. If the kernel does not report migrations, the same
//! holds for a task that has chosen the PU of another thread.

use super::limit::Limit;
use crate::affinity::CpuMask;
use crate::cpuset::Cpusets;
use crate::new_tasks::{NewTaskSearch, NewTasks};
use crate::procfs::{Kinship, Procfs, ticks_since_boot};
use crate::requested::{Requested, Seen};
use crate::tasks::TaskTable;
use pinfold_core::PuId;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time between two searches.
const LOOKING: Duration = Duration::from_millis(100);

/// The time between two searches is this many times the duration of a search.
const SPACING: u32 = 100;

/// This is longer than the kernel takes from copying a creator's mask to showing the new task in `/proc`, even on a
/// busy machine.
const BEING_MADE: Duration = Duration::from_secs(1);

/// The tasks of a program that are not followed.
#[derive(Debug, Default)]
pub(super) struct Untraced {
    search: NewTaskSearch,
    /// For each process, the pinnings whose masks a new task may have inherited.
    pinnings: BTreeMap<i32, BTreeMap<PuId, Pinning>>,
    /// Processes that are not followed, with their start times.
    processes: BTreeMap<i32, u64>,
    /// The time of the next search. `None` while no mask of pinfold's can be inherited.
    due: Option<Instant>,
}

/// A pinning of a task.
#[derive(Clone, Debug)]
struct Pinning {
    /// The original mask of the task.
    original: Arc<Requested>,
    /// Its start, in clock ticks since boot.
    since: u64,
    /// The time when it can no longer be inherited. `None` while a task is pinned there.
    until: Option<Instant>,
}

impl Untraced {
    /// Records that a task of `process` with this original mask is pinned on `pu`.
    pub(super) fn pinned(&mut self, process: i32, pu: PuId, original: &Arc<Requested>) {
        let pinnings = self.pinnings.entry(process).or_default();
        let pinning = pinnings.entry(pu).or_insert_with(|| Pinning {
            original: Arc::clone(original),
            // Without a clock no task is excluded.
            since: ticks_since_boot().unwrap_or(0),
            until: None,
        });
        pinning.until = None;
        if !Arc::ptr_eq(&pinning.original, original) {
            pinning.original = Arc::clone(original);
        }
    }

    /// Starts the searches. Call it before a mask is set that a new task may inherit.
    pub(super) fn look_soon(&mut self, procfs: &Procfs) {
        if self.due.is_none() {
            // Existing tasks have inherited nothing.
            let _ = self.search.since_last_number(procfs);
            self.due = Some(Instant::now() + LOOKING);
        }
    }

    /// The time of the next search.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Gives new tasks the unpinned masks of their creators. Returns the failures. `pinned` has the PUs that tasks of
    /// each process are now pinned on.
    pub(super) fn look(
        &mut self,
        cpusets: &Cpusets,
        table: &TaskTable,
        limit: &Limit,
        pinned: &HashSet<(i32, PuId)>,
    ) -> Vec<String> {
        let began = Instant::now();
        let mut problems = vec![];
        match self.search.since_last_number(cpusets.procfs()) {
            NewTasks::None => {}
            NewTasks::Among(numbers) => {
                for number in numbers.filter(|&number| table.of_thread(number).is_none()) {
                    problems.extend(self.release(number, cpusets, table, limit));
                }
            }
            NewTasks::Anywhere => problems = self.release_all(cpusets, table, limit),
        }
        self.forget_former(pinned, began);
        self.due = (!self.pinnings.is_empty() || limit.is_limited())
            .then(|| Instant::now() + LOOKING.max(began.elapsed().saturating_mul(SPACING)));
        problems
    }

    /// Changes the mask of unpinned tasks from `before` to `present`: tasks with the old mask get the new one.
    pub(super) fn limit(
        &mut self,
        cpusets: &Cpusets,
        table: &TaskTable,
        before: &Arc<Requested>,
        present: &Arc<Requested>,
    ) {
        let procfs = cpusets.procfs();
        for pinning in self.pinnings.values_mut().flat_map(BTreeMap::values_mut) {
            if pinning.original == *before {
                pinning.original = Arc::clone(present);
            }
        }
        let start = |process| procfs.stat(process, process).map(|stat| stat.start);
        self.processes.retain(|&process, begun| start(process) == Some(*begun));
        let families = self.processes.keys().flat_map(|&process| procfs.family(process));
        let processes: BTreeSet<i32> = table.processes().chain(families).collect();
        for process in processes {
            for thread in procfs.threads(process) {
                let has_it = || Seen::once(thread, cpusets).is_ok_and(|seen| before.explains(&seen));
                if table.of_thread(thread).is_none() && has_it() {
                    // A thread that has ended keeps no mask.
                    let _ = present.give_to(thread, cpusets);
                }
            }
        }
        self.look_soon(procfs);
    }

    /// Releases all tasks that processes with pinnings, or with a limit, have created.
    fn release_all(&mut self, cpusets: &Cpusets, table: &TaskTable, limit: &Limit) -> Vec<String> {
        let procfs = cpusets.procfs();
        let limited = table.processes().filter(|_| limit.is_limited());
        let mut processes: Vec<i32> = self.pinnings.keys().copied().chain(limited).collect();
        let mut seen: BTreeSet<i32> = processes.iter().copied().collect();
        let mut problems = vec![];
        while let Some(process) = processes.pop() {
            for thread in procfs.threads(process) {
                if table.of_thread(thread).is_none() {
                    problems.extend(self.release(thread, cpusets, table, limit));
                }
                let children = procfs.children(process, thread);
                let children = children.into_iter().filter(|&child| !table.has_process(child));
                processes.extend(children.filter(|&child| seen.insert(child)));
            }
        }
        problems
    }

    /// Gives a task that was created with one of pinfold's masks the unpinned mask of its creator. Returns why that
    /// failed.
    fn release(&mut self, number: i32, cpusets: &Cpusets, table: &TaskTable, limit: &Limit) -> Option<String> {
        let procfs = cpusets.procfs();
        let mask = CpuMask::of_thread(number).ok()?;
        let inherited = mask
            .only()
            .filter(|pu| self.pinnings.values().any(|pinnings| pinnings.contains_key(pu)));
        let is_limit = limit.has_set(&mask);
        if inherited.is_none() && !is_limit {
            return None;
        }
        let kin = procfs.kinship(number)?;
        let stat = procfs.stat(kin.process, number)?;
        // A task that was created with a one-PU mask has never left that PU.
        let stayed = procfs
            .migrations(kin.process, number)
            .is_none_or(|migrations| migrations == 0);
        let inherited = inherited.filter(|_| stayed);
        let pinning = inherited.and_then(|pu| self.pinning_of(kin, pu, stat.start)).cloned();
        let home = match &pinning {
            Some(pinning) => &pinning.original,
            None if is_limit && self.knows(kin, table) => limit.present(),
            None => return None,
        };
        if !table.has_process(kin.process) {
            let start = procfs.stat(kin.process, kin.process)?.start;
            self.processes.insert(kin.process, start);
            if let (Some(pinning), Some(pu)) = (&pinning, inherited) {
                let until = Some(Instant::now() + BEING_MADE);
                let pinning = Pinning {
                    until,
                    ..pinning.clone()
                };
                self.pinnings
                    .entry(kin.process)
                    .or_default()
                    .entry(pu)
                    .or_insert(pinning);
            }
        }
        if matches!(&**home, Requested::Cpus(cpus) if *cpus == mask) {
            return None;
        }
        let error = home.give_to(number, cpusets).err()?;
        (error.raw_os_error() != Some(libc::ESRCH)).then(|| {
            format!(
                "Thread {number} ({}) of process {} stays on CPUs {}, the mask of its creator: {error}.",
                stat.name,
                kin.process,
                mask.to_set()
            )
        })
    }

    /// The pinning on `pu` that a task with the start time `start` may have inherited.
    fn pinning_of(&self, kin: Kinship, pu: PuId, start: u64) -> Option<&Pinning> {
        let of = |creator| {
            self.pinnings
                .get(&creator)?
                .get(&pu)
                .filter(|pinning| pinning.since <= start)
        };
        of(kin.process).or_else(|| of(kin.parent))
    }

    /// Whether a task belongs to the program.
    fn knows(&self, kin: Kinship, table: &TaskTable) -> bool {
        let is_ours = |process| table.has_process(process) || self.processes.contains_key(&process);
        is_ours(kin.process) || is_ours(kin.parent)
    }

    /// Removes the pinnings that have ended, once no task that is still unknown can have inherited them.
    fn forget_former(&mut self, pinned: &HashSet<(i32, PuId)>, looked: Instant) {
        self.pinnings.retain(|&process, pinnings| {
            pinnings.retain(|&pu, pinning| {
                if pinned.contains(&(process, pu)) {
                    return true;
                }
                looked < *pinning.until.get_or_insert(looked + BEING_MADE)
            });
            !pinnings.is_empty()
        });
    }
}
