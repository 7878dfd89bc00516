//! The tasks of the machine, or the selected ones: found after their creation, read while they work, and moved. At the
//! end all masks are restored. No program is traced.
//!
//! 1. **New tasks** (`crate::new_tasks`, `task_list`): tasks that started since the last search are found by the
//!    numbers that the kernel has assigned, and once a second by listing `/proc`. Kernel threads and pinfold itself are
//!    left out.
//! 2. **Reading** (`reading`): the processor time of a working task is read at each observation. A task that has slept
//!    for a second is read once a second. Counters are opened only for working tasks, so that thousands of sleeping
//!    tasks cost almost nothing.
//! 3. **Placing** (`placing`): a task is held (pidfd and start time), its mask is compared with the known one, and the
//!    change is written to the journal and then made. A mask that the task or another program has set is never
//!    overwritten.
//! 4. **Pages** (`pages`): a separate thread moves the pages of chosen processes to the nodes of their tasks, or
//!    interleaves them.
//! 5. **Functions** (`functions`): where nothing else shows the progress of a process, the calls of a function are
//!    counted.
//! 6. **The end**: the changes of the journal are rolled back, as the guard or `pinfold reset` does (`journal`).
//!
//! A process's control group shows its container (`containers`). A runtime moves the process there soon after its
//! start.
//!
//! A child inherits its creator's mask, and gets its creator's original mask before it runs (`forks`). If that is not
//! possible, it gets the mask when it is found, at most an interval later. If its creator has ended by then, the rule
//! of `journal/orphans.rs` recognises it.
//!
//! Known limits: a task that lives for less than an interval is never seen.

mod containers;
mod forks;
mod functions;
mod group;
mod pages;
mod placing;
mod reading;
mod selection;
mod task_list;

pub use containers::{Containers, WatchedContainer};
pub use forks::{ForkEvents, ForksError};
pub use group::{Group, NoGroup};
pub use pages::PageLimits;
pub use selection::{Absent, Selection};

use crate::counters::Plan;
use crate::cpuset::Cpusets;
use crate::functions::Probing;
use crate::held::Held;
use crate::journal::{Directory, Journal, JournalError, RolledBack, Thread};
use crate::new_tasks::NewTaskSearch;
use crate::procfs::Procfs;
use crate::requested::Requested;
use crate::service::Signals;
use crate::tasks::TaskTable;
use containers::{Tracked, TrackedContainers};
use forks::Forks;
use functions::WatchedFunctions;
use pages::{FollowedPages, TaskNodes};
use pinfold_core::memory::{main_memory, memory_nodes, node_of_pu};
use pinfold_core::{
    Children, Host, HostNote, HostNoteCode, HostSample, Metric, Placed, ProcessGoal, ProcessPages, PuId, TaskId,
    Topology, Wake,
};
use reading::TaskReading;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use task_list::WatchedProcess;

/// Counts since the start of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Tasks that were found.
    pub found: u64,
    /// Tasks that have ended.
    pub ended: u64,
    /// New tasks that had inherited a mask of pinfold's, and got their creators' original masks.
    pub freed: u64,
    /// Masks that another program changed after pinfold.
    pub changed_by_others: u64,
    /// Tasks that pinfold has no permission to move.
    pub not_movable: u64,
    /// Tasks whose counters could not be opened.
    pub not_counted: u64,
}

/// What is counted of tasks and processes.
#[derive(Default)]
pub struct Counts {
    /// The events to count for each task. `None` for its processor time only.
    pub plan: Option<Plan>,
    /// Whether the bytes are counted that each process reads and writes.
    pub io: bool,
    /// Whether functions are looked for, if they may be probed.
    pub functions: bool,
}

/// The parameters of a watcher.
pub struct WatcherOptions {
    /// The topology, with the usable PUs.
    pub topology: Topology,
    /// The tasks to watch.
    pub selection: Selection,
    /// What is counted.
    pub counts: Counts,
    /// The right to probe functions; `None` without it.
    pub probing: Option<Probing>,
    /// A task that has slept for this time gets its original mask back.
    pub release_after: Duration,
    /// The limits of page migration.
    pub pages: PageLimits,
}

/// The watched tasks of this machine.
pub struct Watcher {
    options: WatcherOptions,
    procfs: Procfs,
    cpusets: Cpusets,
    containers: Containers,
    tracked: TrackedContainers,
    signals: Signals,
    began: Instant,
    new_tasks: NewTaskSearch,
    table: TaskTable,
    readings: BTreeMap<u64, TaskReading>,
    processes: HashMap<i32, WatchedProcess>,
    /// Processes that are never watched: kernel threads and pinfold itself.
    never_watched: HashSet<i32>,
    /// Processes that are not selected.
    unselected: HashSet<i32>,
    /// Tasks that have ended, but whose children may not be found yet.
    ended: Vec<i32>,
    /// Pinnings that ended recently: a new task may have inherited their masks.
    former_pins: Vec<FormerPin>,
    /// Restores the masks of children at their creation, if that is possible.
    forks: Option<Forks>,
    journal: Journal,
    pages: FollowedPages,
    /// `None` if functions may not be probed.
    functions: Option<WatchedFunctions>,
    statistics: Statistics,
    notes: Vec<HostNote>,
    /// Whether records of forks were lost before the last observation.
    records_are_lost: bool,
    /// The kinds of notes that were already reported.
    reported: BTreeSet<HostNoteCode>,
}

/// A pinning that has ended.
#[derive(Clone, Debug)]
struct FormerPin {
    process: i32,
    thread: i32,
    pu: PuId,
    original: Arc<Requested>,
    /// Its entry in the journal until it is removed. Children with that mask are recognised by it.
    noted: Option<Thread>,
    until: Duration,
}

impl Watcher {
    /// Starts to watch, with a journal in `directory` and a guard. Call it before other threads are started.
    pub fn new(mut options: WatcherOptions, directory: &Directory, signals: Signals) -> Result<Self, JournalError> {
        let memory = pages::MemoryNodes {
            all: memory_nodes(&options.topology),
            main: main_memory(&options.topology),
        };
        let procfs = Procfs::default();
        let mut journal = Journal::create(directory)?;
        // Without a record no probe is defined.
        let probing = options.probing.take();
        let functions = probing.and_then(|probing| WatchedFunctions::new(&procfs, probing, &mut journal).ok());
        Ok(Self {
            pages: FollowedPages::new(options.pages, memory),
            functions,
            options,
            procfs,
            cpusets: Cpusets::default(),
            containers: Containers::default(),
            tracked: TrackedContainers::default(),
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
            journal,
            statistics: Statistics::default(),
            notes: vec![],
            records_are_lost: false,
            reported: BTreeSet::new(),
        })
    }

    /// Makes children of pinned tasks get their creators' original masks before they run instead of when they are
    /// found. Call it while no task is pinned.
    pub fn free_children_at_birth(&mut self, events: ForkEvents) -> Result<(), ForksError> {
        self.forks = Some(Forks::start(events)?);
        Ok(())
    }

    /// Whether functions may be probed.
    pub fn may_probe(&self) -> bool {
        self.functions.is_some()
    }

    /// Whether children get their masks before they run.
    pub fn frees_at_birth(&self) -> bool {
        self.forks.as_ref().is_some_and(Forks::cover_all)
    }

    /// The time when a child of a pinned task gets its creator's original mask.
    pub fn children(&self) -> Children {
        if self.frees_at_birth() {
            Children::AtBirth
        } else {
            Children::WhenMet
        }
    }

    /// The counts so far.
    pub fn statistics(&self) -> Statistics {
        let at_birth = self.forks.as_ref().map_or(0, Forks::freed);
        Statistics {
            freed: self.statistics.freed + at_birth,
            ..self.statistics
        }
    }

    /// The containers of watched tasks, in the order of discovery.
    pub fn containers(&self) -> Vec<WatchedContainer> {
        let mut counts: HashMap<*const Tracked, (u64, u64)> = HashMap::new();
        for (&number, process) in &self.processes {
            if let Some(container) = &process.container {
                let (tasks, pinned) = counts.entry(Arc::as_ptr(container)).or_default();
                for task in self.table.tasks_of(number) {
                    *tasks += 1;
                    *pinned += u64::from(task.pinned.is_some());
                }
            }
        }
        let watched = self.tracked.iter().filter_map(|tracked| {
            let &(tasks, pinned) = counts.get(&Arc::as_ptr(tracked))?;
            Some(WatchedContainer {
                container: Arc::clone(&tracked.container),
                tasks,
                pinned,
                processor_time: tracked.used(),
            })
        });
        watched.collect()
    }

    /// The watched task of a thread.
    pub fn task_of(&self, thread: i32) -> Option<TaskId> {
        self.table.find_thread(thread).map(|task| task.id)
    }

    /// Changes the selection, or the counted events. Tasks that are no longer watched get their original masks back.
    pub fn reconfigure(&mut self, selection: Selection, counts: Counts, release_after: Duration) -> RolledBack {
        let rolled_back = self.end();
        self.count_functions(&BTreeMap::new());
        self.table = TaskTable::default();
        self.readings.clear();
        self.processes.clear();
        self.tracked.forget_ended();
        self.unselected.clear();
        self.ended.clear();
        self.new_tasks.list_all();
        self.options.selection = selection;
        self.options.counts = counts;
        self.options.release_after = release_after;
        rolled_back
    }

    /// Changes the limits of page migration.
    pub fn limit_pages(&mut self, limits: PageLimits) {
        self.pages.limit(limits);
    }

    /// Restores all masks. Returns the calls and the failures.
    pub fn end(&mut self) -> RolledBack {
        let rolled_back = self.journal.roll_back_masks(&self.procfs, !self.frees_at_birth());
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

    /// The nodes of the tasks of a process that work or are pinned.
    fn places_of(&self, process: i32) -> TaskNodes {
        let mut places = TaskNodes::default();
        let at = self.now();
        for task in self.table.tasks_of(process) {
            let reading = self.readings.get(&task.id.serial).filter(|reading| !reading.sleeps(at));
            let pu = task.pinned.or_else(|| reading?.last_pu);
            let Some(node) = pu.and_then(|pu| node_of_pu(&self.options.topology, pu)) else {
                continue;
            };
            places.nodes.insert(node);
            if task.pinned.is_some() {
                places.pinned.insert(task.id.thread, node);
            }
        }
        places
    }

    fn note(&mut self, code: HostNoteCode, text: String) {
        self.notes.push(HostNote { code, text });
    }

    /// Reports a note once.
    fn note_once(&mut self, code: HostNoteCode, text: impl FnOnce() -> String) {
        if self.reported.insert(code) {
            self.note(code, text());
        }
    }
}

/// All masks are restored and all probes removed at the end, even after a panic.
impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
        if let Some(functions) = self.functions.take() {
            functions.end(&mut self.journal);
        }
    }
}

impl Host for Watcher {
    fn topology(&self) -> &Topology {
        &self.options.topology
    }

    fn metrics(&self) -> &[Metric] {
        self.options.counts.plan.as_ref().map_or(&[], Plan::metrics)
    }

    fn observe(&mut self) -> HostSample {
        let at = self.now();
        self.journal.keep_file();
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

    fn follow(&mut self, processes: &BTreeMap<i32, ProcessGoal>) {
        self.pages.take_back_others(processes);
        for (&process, &goal) in processes {
            let places = self.places_of(process);
            let Some(id) = self.table.tasks_of(process).map(|task| task.id).next() else {
                continue;
            };
            if self.pages.are_sent(process, goal, &places) {
                continue;
            }
            // The process is held first. If it then has the watched task, the number is still the watched process's.
            if let Some(held) = Held::new(process).filter(|_| self.held(id).is_some()) {
                self.pages.bring(process, held, goal, places);
            }
        }
    }

    fn count_functions(&mut self, processes: &BTreeMap<i32, Vec<TaskId>>) {
        if let Some(functions) = &mut self.functions {
            functions.count(processes, &self.table);
        }
    }

    fn are_pages_under_way(&self) -> bool {
        self.pages.are_under_way()
    }

    fn take_page_moves(&mut self) -> Vec<ProcessPages> {
        self.pages.take()
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
