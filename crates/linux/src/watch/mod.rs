//! All tasks of the machine, or those that were selected: met when they are born, read while they work, moved, and given back
//! what they had. Nobody is traced, and no program notices.
//!
//! 1. **Meeting** (`new_tasks`, `task_list`): whoever was born since the last look is found by the numbers that the kernel gave out,
//!    and once a second by listing `/proc`. The kernel's own threads and ourselves are left out.
//! 2. **Reading** (`reading`): the processor time of a task that works is read each time; of one that has slept for a second,
//!    once a second. Counters are opened for those that work, so that thousands of sleepers cost next to nothing.
//! 3. **Placing** (`placing`): a task is held (pidfd and start time), its mask is compared with what we know of it, the change
//!    is noted in the journal, and then made. A mask that the task or somebody else has set is never overwritten.
//! 4. **The end**: what the journal says is undone, as its guard or `pinfold reset` would do it (`journal`).
//!
//! A child inherits its creator's mask, and gets back what its creator had before it runs (`forks`). Where that cannot be
//! done it does so as soon as it is met, which is an interval later at most; one whose creator has ended by then is
//! recognised by the rule of `journal/orphans.rs`.
//!
//! Known limits. A task that lives for less than an interval is never seen.

mod cpuset;
mod forks;
mod new_tasks;
mod placing;
mod reading;
mod selection;
mod task_list;

pub use forks::{ForkEvents, ForksError};
pub use selection::{Absent, Selection};

use crate::affinity::CpuMask;
use crate::counters::Plan;
use crate::journal::{Directory, Journal, JournalError, RolledBack, Thread};
use crate::procfs::Procfs;
use crate::service::Signals;
use crate::tasks::TaskTable;
use cpuset::Cpusets;
use forks::Forks;
use new_tasks::NewTaskSearch;
use pinfold_core::{Children, Host, HostNote, HostNoteCode, HostSample, Metric, Placed, PuId, TaskId, Topology, Wake};
use reading::Reading;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use task_list::Process;

/// What has happened since the watching began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Tasks that were found.
    pub found: u64,
    /// Tasks that have ended.
    pub ended: u64,
    /// New tasks that were born with a mask of ours, and got back what their creators had.
    pub freed: u64,
    /// Masks that somebody else changed after us.
    pub changed_by_others: u64,
    /// Tasks that we may not move.
    pub not_movable: u64,
    /// Tasks whose counters could not be opened.
    pub not_counted: u64,
}

/// What a watcher needs.
pub struct Watching {
    /// The machine, with the PUs that we may use.
    pub topology: Topology,
    /// Whom to watch.
    pub selection: Selection,
    /// What to count of each task; `None` for its processor time alone.
    pub plan: Option<Plan>,
    /// A task that has slept for so long gets back what it had before it was placed.
    pub release_after: Duration,
}

/// The tasks of this machine.
pub struct Watcher {
    watching: Watching,
    procfs: Procfs,
    cpusets: Cpusets,
    signals: Signals,
    began: Instant,
    new_tasks: NewTaskSearch,
    table: TaskTable,
    readings: BTreeMap<u64, Reading>,
    processes: HashMap<i32, Process>,
    /// Processes that are never watched: the kernel's and our own.
    never_watched: HashSet<i32>,
    /// Processes that are not among those that were selected.
    unselected: HashSet<i32>,
    /// Tasks that were found to have ended, and whose children may have to be met yet.
    ended: Vec<i32>,
    /// Where tasks were pinned until a moment ago: a newcomer may have inherited it.
    former_pins: Vec<FormerPin>,
    /// Frees children at their birth, where that can be done.
    forks: Option<Forks>,
    journal: Journal,
    statistics: Statistics,
    notes: Vec<HostNote>,
    /// What was said already.
    reported: BTreeSet<HostNoteCode>,
}

/// A pinning that is no more.
#[derive(Clone, Debug)]
struct FormerPin {
    process: i32,
    thread: i32,
    pu: PuId,
    original: Arc<CpuMask>,
    /// As what it stays in the journal until then: whoever was born with the mask is found by that.
    noted: Option<Thread>,
    until: Duration,
}

impl Watcher {
    /// Begins to watch, with a journal of its own in `directory` and a guard. To be called before there are other threads.
    pub fn new(watching: Watching, directory: &Directory, signals: Signals) -> Result<Self, JournalError> {
        Ok(Self {
            watching,
            procfs: Procfs::default(),
            cpusets: Cpusets::default(),
            signals,
            began: Instant::now(),
            new_tasks: NewTaskSearch::default(),
            table: TaskTable::default(),
            readings: BTreeMap::new(),
            processes: HashMap::new(),
            never_watched: HashSet::new(),
            unselected: HashSet::new(),
            ended: vec![],
            former_pins: vec![],
            forks: None,
            journal: Journal::begin(directory)?,
            statistics: Statistics::default(),
            notes: vec![],
            reported: BTreeSet::new(),
        })
    }

    /// From now on children of pinned tasks get back what their creator had before they run, and not when they are met. To
    /// be called when nothing is pinned yet.
    pub fn free_children_at_birth(&mut self, events: ForkEvents) -> Result<(), ForksError> {
        self.forks = Some(Forks::start(events)?);
        Ok(())
    }

    /// Whether they do.
    pub fn frees_at_birth(&self) -> bool {
        self.forks.as_ref().is_some_and(Forks::cover_all)
    }

    /// When a child of a pinned task gets the mask that its creator had.
    pub fn children(&self) -> Children {
        if self.frees_at_birth() {
            Children::AtBirth
        } else {
            Children::WhenMet
        }
    }

    /// What has happened so far.
    pub fn statistics(&self) -> Statistics {
        let at_birth = self.forks.as_ref().map_or(0, Forks::freed);
        Statistics {
            freed: self.statistics.freed + at_birth,
            ..self.statistics
        }
    }

    /// The task of a thread that is watched.
    pub fn task_of(&self, thread: i32) -> Option<TaskId> {
        self.table.of_thread(thread).map(|task| task.id)
    }

    /// Watches others from now on, or counts something else. Tasks that are no longer watched get back what they had.
    pub fn reconfigure(&mut self, selection: Selection, plan: Option<Plan>, release_after: Duration) -> RolledBack {
        let rolled_back = self.end();
        self.table = TaskTable::default();
        self.readings.clear();
        self.processes.clear();
        self.unselected.clear();
        self.ended.clear();
        self.new_tasks.list_all();
        self.watching.selection = selection;
        self.watching.plan = plan;
        self.watching.release_after = release_after;
        rolled_back
    }

    /// Gives everything back; what was done, and what could not be.
    pub fn end(&mut self) -> RolledBack {
        let rolled_back = self.journal.give_back_masks(&self.procfs, !self.frees_at_birth());
        self.former_pins.clear();
        if let Some(forks) = &self.forks {
            forks.clear();
        }
        for serial in self.table.serials() {
            if let Some(task) = self.table.get_mut(serial) {
                task.pinned = None;
                task.noted = None;
            }
        }
        rolled_back
    }

    fn note(&mut self, code: HostNoteCode, text: String) {
        self.notes.push(HostNote { code, text });
    }

    /// Says something once.
    fn note_once(&mut self, code: HostNoteCode, text: impl FnOnce() -> String) {
        if self.reported.insert(code) {
            self.note(code, text());
        }
    }
}

/// However this ends, a panic included, everything is given back.
impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Host for Watcher {
    fn topology(&self) -> &Topology {
        &self.watching.topology
    }

    fn metrics(&self) -> &[Metric] {
        self.watching.plan.as_ref().map_or(&[], Plan::metrics)
    }

    fn observe(&mut self) -> HostSample {
        let at = self.now();
        self.add_new_tasks(at);
        self.forget_ended(at);
        self.read_all(at)
    }

    fn place(&mut self, task: TaskId, pu: PuId) -> Placed {
        self.pin(task, pu)
    }

    fn release(&mut self, task: TaskId) -> Placed {
        self.unpin(task)
    }

    fn take_notes(&mut self) -> Vec<HostNote> {
        std::mem::take(&mut self.notes)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wait(&mut self, until: Duration) -> Wake {
        let duration = until.saturating_sub(self.now());
        self.signals.wait(duration)
    }
}
