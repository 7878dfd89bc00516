//! The followed program: its living tasks, their PUs, and their counts.
//!
//! All this happens while the program is locked. A thread is reaped under the same lock. So during the lock a thread id
//! in the table names no other thread.
//!
//! When a task starts, before its first instruction:
//!
//! 1. It is added to the table and takes a rank.
//! 2. It is pinned to its rank's PU, unless it is the first thread of a process: see `LinuxMachine`.
//! 3. Its counters are opened.

mod polled;
mod preferred;

use super::Ranked;
use super::counting::Counting;
use super::limit::Limit;
use super::preferring::Means;
use super::prefetching::Prefetching;
use super::seize::SeizedTask;
use super::task_reader::TaskReader;
use super::untraced::Untraced;
use crate::affinity::CpuMask;
use crate::functions::SearchRequest;
use crate::journal::{Journal, Target, Thread};
use crate::region_code::{RegionCode, RegionCodes};
use crate::regions::{self, RegionTable};
use crate::requested::{MaskReader, ObservedMask, Requested, Restoration};
use crate::scheduling::{RealTime, RealTimeNotes};
use crate::tasks::{Task, TaskOrigin, TaskTable, Verdict, decide};
use pinfold_core::function::FunctionRequest;
use pinfold_core::{
    Applied, Configuration, Metric, Pinning, Prefetchers, PuId, PuSet, Refusal, RefusalCode, RegionId, Sample, TaskId,
    TaskSample,
};
use polled::Polled;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time after which the mask of a new task is read again. A runtime that resets the masks of its threads does so
/// within their first microseconds. This time is long enough even on a busy machine.
const SETTLING: Duration = Duration::from_millis(100);

/// Masks of tasks that settle within this time are read together, so that many births wake this process rarely.
const TOGETHER: Duration = Duration::from_millis(10);

/// The time between two readings of all masks for new tasks is at least this many times the duration of a reading.
const REST: u32 = 19;

/// The interval between two readings of all tasks' masks by observations.
const VERIFICATION: Duration = Duration::from_secs(1);

pub(crate) struct Program {
    table: TaskTable,
    counting: Counting,
    reader: TaskReader,
    untraced: Untraced,
    real_time_notes: RealTimeNotes,
    /// The journal, if changes would outlive pinfold.
    journal: Option<Journal>,
    prefetching: Prefetching,
    /// The parallel regions, if the agent places their threads.
    regions: Option<RegionTable>,
    /// The code of the regions; `None` if nobody asks for it.
    region_codes: Option<RegionCodes>,
    /// The processes that are followed without `ptrace`.
    polled: Polled,
    /// The mask of unpinned tasks.
    limit: Limit,
    /// How tasks are placed.
    means: Means,
    masks: MaskReader,
    /// The places of tasks in the last configuration.
    configuration: Configuration,
    /// The time that a process's first thread keeps its original mask while it is alone.
    grace: Duration,
    /// Tasks that never get a rank, by serial.
    skipped: BTreeSet<u64>,
    /// Threads that stopped before their creator's event.
    unannounced: HashSet<i32>,
    /// Threads that are known to have ended, although the kernel has not reported their end.
    known_dead: HashSet<i32>,
    /// Tasks that ended since the last sample.
    ended: Vec<TaskSample>,
    /// Refusals since the last configuration was applied.
    refusals: Vec<Refusal>,
    notes: Vec<String>,
    /// The times of the next reading of new tasks' masks, by serial.
    verifications: BTreeSet<(Instant, u64)>,
    last_verification: Instant,
    /// The duration of the last reading of all masks.
    verification_took: Duration,
}

impl Program {
    pub(crate) fn new(
        limit: Limit,
        initial: Option<Pinning>,
        grace: Duration,
        skipped: BTreeSet<u64>,
        counting: Counting,
        journal: Option<Journal>,
        regions: Option<RegionTable>,
    ) -> Self {
        Self {
            table: TaskTable::default(),
            counting,
            reader: TaskReader::default(),
            untraced: Untraced::default(),
            real_time_notes: RealTimeNotes::default(),
            journal,
            regions,
            region_codes: None,
            prefetching: Prefetching::new(limit.pus().iter().collect()),
            polled: Polled::default(),
            limit,
            means: Means::Masks,
            masks: MaskReader::default(),
            configuration: Configuration {
                pinning: initial,
                ..Configuration::default()
            },
            grace: grace.max(SETTLING),
            skipped,
            unannounced: HashSet::new(),
            known_dead: HashSet::new(),
            ended: vec![],
            refusals: vec![],
            notes: vec![],
            verifications: BTreeSet::new(),
            last_verification: Instant::now(),
            verification_took: Duration::ZERO,
        }
    }

    /// The metrics that are counted.
    pub(crate) fn metrics(&self) -> &[Metric] {
        self.counting.metrics()
    }

    /// The number of tasks that have started.
    pub(crate) fn tasks_started(&self) -> u64 {
        self.table.added()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The living threads.
    pub(crate) fn threads(&self) -> Vec<i32> {
        self.table.iter().map(|task| task.id.thread).collect()
    }

    /// The processes with living threads.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.table.processes().collect()
    }

    pub(crate) fn has_process(&self, process: i32) -> bool {
        self.table.has_process(process)
    }

    pub(crate) fn has_thread(&self, thread: i32) -> bool {
        self.table.find_thread(thread).is_some()
    }

    /// The process of a living thread.
    pub(crate) fn process_of(&self, thread: i32) -> Option<i32> {
        self.table.find_thread(thread).map(|task| task.id.process)
    }

    /// Takes the notes for the user. Each is returned once.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.regions.iter_mut().flat_map(RegionTable::take_notes));
        notes
    }

    /// Adds the first task: the program was executed.
    pub(crate) fn first_task(&mut self, process: i32) {
        self.ask_for_scheduler(process);
        let origin = TaskOrigin::first(Requested::clone(self.limit.present()));
        self.add_task(process, process, origin, Instant::now());
    }

    /// Adds a task that ran before pinfold attached to it. Its current mask is its original one.
    pub(super) fn adopt(&mut self, task: SeizedTask) {
        let now = Instant::now();
        let since = now.checked_sub(task.age).unwrap_or(now);
        self.add_task(task.process, task.thread, TaskOrigin::first(task.mask), since);
        if let Some(why) = task.polled {
            self.poll(task.process, task.process, why);
        }
    }

    /// Adds a task of a program that another process has forked for pinfold. It has that process's mask.
    pub(super) fn adopt_new(&mut self, mut task: SeizedTask) {
        let present = self.limit.present();
        let has_more = |cpus: &CpuMask| match &task.mask {
            Requested::Unset => true,
            Requested::Cpus(own) => own != cpus && own.is_superset(cpus),
        };
        if let Requested::Cpus(cpus) = &**present
            && has_more(cpus)
            && present.apply_to(task.thread, self.masks.cpusets()).is_ok()
        {
            task.mask = Requested::clone(present);
        }
        self.ask_for_scheduler(task.thread);
        self.adopt(task);
    }

    /// Handles the kernel's report that `creator` has created `thread`.
    pub(crate) fn announced(&mut self, creator: i32, thread: i32) {
        // The two events come in either order. The new thread may even have ended before its creator's event.
        if self.unannounced.remove(&thread) || self.has_thread(thread) {
            return;
        }
        let Some(creator) = self.process_of(creator) else {
            return;
        };
        let process = if is_thread_of(creator, thread) { creator } else { thread };
        self.add_new_task(creator, process, thread);
    }

    /// Handles the stop of a thread that may be new, before its first instruction.
    pub(crate) fn stopped_at_start(&mut self, thread: i32) {
        if self.has_thread(thread) {
            return;
        }
        let (creator, process) = match self.reader.procfs().kinship(thread) {
            Some(kin) if kin.process == thread => (kin.parent, thread),
            Some(kin) => (kin.process, kin.process),
            // The thread was already killed, or /proc cannot be read. Its creator's event will report it.
            None => return,
        };
        self.unannounced.insert(thread);
        self.add_new_task(creator, process, thread);
    }

    fn add_new_task(&mut self, creator: i32, process: i32, thread: i32) {
        let origin = self.origin(creator, thread);
        self.add_task(process, thread, origin, Instant::now());
    }

    /// The origin of `thread`. `process` has created it.
    fn origin(&mut self, process: i32, thread: i32) -> TaskOrigin {
        let present = Arc::clone(self.limit.present());
        // A thread that has ended has no mask.
        let ended = || TaskOrigin::first(Requested::clone(&present));
        let Ok(usable) = CpuMask::read(thread) else {
            return ended();
        };
        if self.limit.former().is_some()
            && let Some(seen) = self.seen(process, thread, &usable)
            && self.limit.is_former(&seen)
            && present.apply_to(thread, self.masks.cpusets()).is_ok()
        {
            // The task was created before the limit changed.
            return ended();
        }
        let by_agent = self.pinned_by_agent(&usable).is_some();
        let masks = &mut self.masks;
        let look = || masks.read(process, thread, &usable, true).ok();
        let origin = self.table.origin_of_new_task(process, &usable, by_agent, look);
        origin.unwrap_or_else(ended)
    }

    /// The mask of a thread that can run on `usable`. `None` if the thread has ended.
    fn seen(&mut self, process: i32, thread: i32, usable: &CpuMask) -> Option<ObservedMask> {
        self.masks.read(process, thread, usable, false).ok()
    }

    /// Limits unpinned tasks to these PUs. `None` removes the limit. Pinned tasks stay, and return to the new limit
    /// later. Returns the tasks whose mask has changed.
    fn limit_to(&mut self, within: Option<&PuSet>) -> Result<Vec<TaskId>, String> {
        if !self.means.are_masks() {
            return self.means.limit(within, self.limit.pus()).map(|()| vec![]);
        }
        let before = Arc::clone(self.limit.present());
        if !self.limit.set(within)? {
            return Ok(vec![]);
        }
        self.untraced
            .limit(self.masks.cpusets(), &self.table, &before, self.limit.present());
        let mut moved = vec![];
        for serial in self.table.serials() {
            let Some(task) = self.table.get_mut(serial).filter(|task| *task.original == *before) else {
                continue;
            };
            task.original = Arc::clone(self.limit.present());
            let (id, is_pinned) = (task.id, task.pinned.is_some());
            // A thread that has ended has no mask, and a thread that has changed its mask keeps it. The kernel does not
            // limit a task with a deadline.
            let usable = CpuMask::read(id.thread).unwrap_or_default();
            let mut seen = || self.masks.read(id.process, id.thread, &usable, false);
            if is_pinned
                || RealTime::read(id.thread) == Some(RealTime::Deadline)
                || seen().is_ok_and(|seen| !before.explains(&seen))
            {
                continue;
            }
            match self.limit.present().apply_to(id.thread, self.masks.cpusets()) {
                Ok(()) => moved.push(id),
                Err(error) => {
                    self.refuse_unless_gone(serial, &error, || format!("it cannot be limited to some PUs: {error}"));
                }
            }
        }
        Ok(moved)
    }

    /// The PU of a mask that the agent may have set, or that a thread has inherited from a thread with such a mask.
    fn pinned_by_agent(&self, mask: &CpuMask) -> Option<PuId> {
        let regions = self.regions.as_ref()?;
        mask.only().filter(|&pu| regions.may_have_pinned(pu))
    }

    /// Adds a task that started at `since`.
    fn add_task(&mut self, process: i32, thread: i32, origin: TaskOrigin, since: Instant) {
        if let Some(pu) = origin.pinned {
            self.untraced.pinned(process, pu, &origin.original);
        }
        if origin.pinned.is_some() || self.limit.is_limited() {
            self.untraced.look_soon(self.reader.procfs());
        }
        let skipped = &self.skipped;
        let id = self.table.add(process, thread, origin, |serial| {
            skipped.contains(&serial) || RealTime::read(thread).is_some()
        });
        if thread == process {
            self.note_alone(process, since);
        } else if let Some(first) = self.table.not_alone(process) {
            self.place(first);
        }
        if thread != process {
            self.count_birth(process);
        }
        self.place(id.serial);
        if self.configuration.pins() {
            self.verify_at(Instant::now() + SETTLING, id.serial);
        }
        if let Some(note) = self.counting.open(id) {
            self.notes.push(note);
        }
    }

    fn note_alone(&mut self, process: i32, since: Instant) {
        let first = self.table.find_thread(process).map(|task| task.id.serial);
        if let (Some(first), Some(process)) = (first, self.table.process_mut(process)) {
            process.alone_since = Some(since);
            if let Some(over) = since.checked_add(self.grace) {
                self.verify_at(over, first);
            }
        }
    }

    /// Whether a task is its process's first thread and may still read the number of PUs. Then it must not be pinned.
    fn may_ask(&self, id: TaskId) -> bool {
        self.table.alone_since(id).is_some_and(|since| {
            // LLVM's runtime reads it when the program first uses OpenMP, which may be late in the run.
            since.elapsed() < self.grace || self.reader.procfs().has_mapped(id.process, &["/libomp", "/libiomp"])
        })
    }

    fn verify_at(&mut self, at: Instant, serial: u64) {
        self.verifications.insert((at, serial));
    }

    /// Handles the exec of a process. `former` is the previous id of the thread that executed the new program.
    ///
    /// A first thread stays the same task, and its runtime reads the number of PUs again. Another thread takes the
    /// place and the id of the first one, and all other threads of the process end. The kernel does not report the end
    /// of the first one. Then the remaining thread is a new task.
    pub(crate) fn executed(&mut self, process: i32, former: i32) {
        if former == process {
            self.note_alone(process, Instant::now());
            if let Some(serial) = self.table.find_thread(process).map(|task| task.id.serial) {
                self.take_from_agent(serial, process);
                self.place(serial);
            }
            return;
        }
        let origin = self.origin(process, process);
        for thread in [former, process] {
            // The values in /proc already belong to the new task.
            if let Some(task) = self.table.end(thread) {
                let counts = self.counting.task(task.id, false);
                self.ended.push(TaskSample {
                    id: task.id,
                    name: task.name.clone(),
                    alive: false,
                    cpu_time: task.times.map(|times| times.used),
                    run_delay: task.times.and_then(|times| times.run_delay),
                    last_pu: None,
                    counts,
                });
                self.forget(&task);
            }
        }
        self.known_dead.remove(&process);
        self.add_task(process, process, origin, Instant::now());
    }

    /// If the agent may have pinned a thread, records that as a pinning of this process, so that `place` can restore
    /// the mask.
    fn take_from_agent(&mut self, serial: u64, thread: i32) {
        let pu = CpuMask::read(thread).ok().and_then(|mask| self.pinned_by_agent(&mask));
        if let (Some(pu), Some(task)) = (pu, self.table.get_mut(serial)) {
            task.pinned = Some(pu);
        }
    }

    /// Removes a thread that is about to be reaped or has ended, and keeps its last reading.
    pub(crate) fn end(&mut self, thread: i32) {
        let Some(task) = self.table.end(thread) else {
            if !self.known_dead.remove(&thread) {
                // It was killed before its first instruction. Its creator's event may still come.
                self.unannounced.insert(thread);
            }
            return;
        };
        let reading = self.reading(&task, false);
        self.ended.push(reading);
        self.forget(&task);
    }

    fn forget(&mut self, task: &Task) {
        self.close(task);
        self.rolled_back(task.noted);
    }

    /// Closes the counters and files of a task.
    fn close(&mut self, task: &Task) {
        self.counting.close(task.id);
        self.means.forget(task.id.serial);
        self.reader.forget(task.id);
    }

    /// Removes a task's record from the journal: the task was rolled back, or has ended.
    fn rolled_back(&mut self, noted: Option<Thread>) {
        if let (Some(journal), Some(thread)) = (&mut self.journal, noted) {
            journal.rolled_back(Target::Mask(thread));
        }
    }

    /// Records in the journal, if there is one, that a task is about to be pinned on `pu`, or is pinned there since its
    /// creation. Returns an error if the record cannot be written: such a task is not pinned. `None` for a task that
    /// has ended.
    fn note_pin(&mut self, serial: u64, pu: PuId) -> Option<Result<(), String>> {
        let task = self.table.get_mut(serial)?;
        let Some(journal) = &mut self.journal else {
            return Some(Ok(()));
        };
        let TaskId { process, thread, .. } = task.id;
        let start = match task.noted {
            Some(noted) => noted.start,
            None => self.reader.procfs().stat(process, thread)?.start,
        };
        let thread = Thread { process, thread, start };
        let original = Requested::clone(&task.original);
        if let Err(error) = journal.note_pinning(self.reader.procfs(), thread, original, task.pinned, pu) {
            return Some(Err(format!("the journal cannot be written: {error}")));
        }
        task.noted = Some(thread);
        Some(Ok(()))
    }

    /// Reads one task, including the values that can no longer be read after another thread's exec ends it.
    fn reading(&mut self, task: &Task, alive: bool) -> TaskSample {
        let (stat, times) = self.reader.read(task.id, !alive);
        if let (Some(task), Some(stat)) = (self.table.get_mut(task.id.serial), &stat) {
            task.name.clone_from(&stat.name);
            task.times = times;
        }
        let times = times.or(task.times);
        TaskSample {
            id: task.id,
            name: stat
                .as_ref()
                .map_or_else(|| task.name.clone(), |stat| stat.name.clone()),
            alive: alive && stat.as_ref().is_none_or(|stat| !matches!(stat.state, 'Z' | 'X')),
            cpu_time: times.map(|times| times.used),
            run_delay: times.and_then(|times| times.run_delay),
            last_pu: stat.and_then(|stat| stat.last_pu),
            counts: self.counting.task(task.id, alive),
        }
    }

    /// Reads all values.
    pub(crate) fn observe(&mut self, at: Duration) -> Sample {
        if let Some(journal) = &mut self.journal {
            journal.keep_file();
        }
        self.verify_if_due();
        let live: Vec<Task> = self.table.iter().cloned().collect();
        let mut tasks = std::mem::take(&mut self.ended);
        for task in live {
            let reading = self.reading(&task, true);
            if !reading.alive {
                // The thread has ended and is not reaped yet. A first thread that ends before its process stays in this
                // state while the process lives.
                self.strike_out(&task);
            }
            tasks.push(reading);
        }
        tasks.sort_by_key(|task| task.id);
        let regions = self.regions.as_ref().map(RegionTable::samples).unwrap_or_default();
        if let Some(codes) = &mut self.region_codes {
            codes.see(
                self.reader.procfs(),
                &self.table.processes().collect::<Vec<i32>>(),
                &regions,
            );
        }
        Sample {
            at,
            tasks,
            program: self.counting.program(),
            regions,
            machine: None,
            function: self.counting.function_search(),
        }
    }

    /// Lists the metric `function`, and looks for one when that is requested.
    pub(crate) fn find_functions(&mut self) {
        self.counting.find_functions(self.reader.procfs().clone());
    }

    /// Looks up the code of parallel regions from now on.
    pub(crate) fn find_region_code(&mut self) {
        self.region_codes = Some(RegionCodes::default());
    }

    /// The code of a region that has run.
    pub(crate) fn code_of_region(&self, id: RegionId) -> Option<RegionCode> {
        self.region_codes.as_ref()?.place(id)
    }

    /// The code of the regions that have run.
    pub(crate) fn region_code(&self) -> BTreeMap<RegionId, RegionCode> {
        self.region_codes.as_ref().map(RegionCodes::places).unwrap_or_default()
    }

    /// Handles a request about a function that shows progress.
    pub(crate) fn look_for_function(&mut self, request: &FunctionRequest) {
        match request {
            FunctionRequest::Search { tasks, preferred } => {
                let mut all: Vec<&Task> = self.table.iter().collect();
                all.sort_by_key(|task| Reverse(task.times.map(|times| times.used)));
                let (working, others) = all.iter().map(|task| task.id).partition(|id| tasks.contains(id));
                self.counting.search_function(SearchRequest {
                    working,
                    others,
                    preferred: preferred.clone(),
                });
            }
            FunctionRequest::Stop => self.counting.stop_function(),
        }
    }

    /// Applies `configuration`. If it has regions, the agent places the threads instead of this process.
    pub(crate) fn apply(&mut self, configuration: &Configuration) -> Applied {
        let (prefetchers, mut by_region) = regions::prefetchers(configuration);
        self.configuration.clone_from(configuration);
        match &mut self.regions {
            Some(table) => {
                if !configuration.regions.is_empty() {
                    self.untraced.look_soon(self.reader.procfs());
                }
                table.plan(configuration);
                if !configuration.regions.is_empty() {
                    self.configuration.pinning = None;
                }
            }
            None => by_region = configuration.refused_regions(),
        }
        self.configuration.regions.clear();
        let limited = self.limit_to(configuration.within.as_ref());
        let (skipped, left_alone) = (&self.skipped, &self.configuration.left_alone);
        self.table.number_again(|id| {
            skipped.contains(&id.serial) || left_alone.contains(&id) || RealTime::read(id.thread).is_some()
        });
        let placed = self.place_all();
        let mut refused = std::mem::take(&mut self.refusals);
        let mut moved = limited.unwrap_or_else(|why| {
            refused.push(Refusal::for_machine(RefusalCode::Limit, why));
            vec![]
        });
        moved.extend(placed);
        moved.sort_unstable();
        moved.dedup();
        refused.extend(by_region);
        let prefetchers = self.apply_prefetchers(prefetchers);
        refused.extend(
            prefetchers
                .into_iter()
                .map(|why| Refusal::for_machine(RefusalCode::Prefetchers, why)),
        );
        Applied {
            moved,
            refused,
            pages: None,
            sampled: None,
            profiled: vec![],
            instead: None,
        }
    }

    /// Why no task with a rank is pinned, if each of them has refused its PU.
    pub(crate) fn all_refuse(&self) -> Option<String> {
        let ranked = self
            .table
            .iter()
            .filter(|task| self.table.rank(task.id.serial).is_some());
        let reasons: Option<Vec<&String>> = ranked
            .map(|task| task.refused.as_ref().filter(|_| task.pinned.is_none()))
            .collect();
        Some((*reasons?.first()?).clone())
    }

    /// The living tasks with ranks, the oldest first, with their ranks and the PUs that they are pinned on or were given.
    pub(crate) fn ranked(&self) -> Vec<Ranked> {
        let tasks = self.table.iter();
        tasks
            .filter_map(|task| {
                let serial = task.id.serial;
                Some((task.id, self.table.rank(serial)?, task.pinned.or(self.means.pu(serial))))
            })
            .collect()
    }

    /// Adds a note for the user.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Applies a prefetcher setting, or with `None` restores the original one. Returns the problems.
    pub(crate) fn apply_prefetchers(&mut self, wanted: Option<Prefetchers>) -> Vec<String> {
        self.prefetching.apply(wanted, self.journal.as_mut())
    }

    /// Makes the current pinnings stay after the end of this process.
    pub(crate) fn keep_pinned(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.keep();
        }
    }

    /// Restores the original mask of each task, and stops pinning.
    pub(crate) fn release(&mut self) {
        self.release_polled();
        self.apply(&Configuration::default());
        // The agent would unpin its threads itself at their next region, but that may never start.
        let tasks: Vec<TaskId> = self.table.iter().map(|task| task.id).collect();
        for task in tasks {
            self.take_from_agent(task.serial, task.thread);
            self.place(task.serial);
        }
        self.leave_scheduler();
        self.look_for_untraced();
    }

    /// Finds tasks that are not followed and have inherited a mask of pinfold's. They get the original masks of their
    /// creators.
    pub(crate) fn look_for_untraced(&mut self) {
        let Self {
            table,
            regions,
            untraced,
            ..
        } = self;
        if untraced.due().is_none() {
            return;
        }
        let mut pinned: HashSet<(i32, PuId)> = table
            .iter()
            .filter_map(|task| Some((task.id.process, task.pinned?)))
            .collect();
        let by_agent = regions.as_ref().and_then(RegionTable::pinned);
        for &pu in by_agent.into_iter().flatten() {
            for process in table.processes() {
                if let Some(oldest) = table.tasks_of(process).next() {
                    untraced.pinned(process, pu, &oldest.original);
                    pinned.insert((process, pu));
                }
            }
        }
        let problems = untraced.look(self.masks.cpusets(), table, &self.limit, &pinned);
        self.notes.extend(problems);
    }

    /// Rolls back all changes of tasks that are not followed any more, from the journal, as its guard would. Returns
    /// the changes that could not be rolled back or are left alone.
    pub(crate) fn roll_back(&mut self) -> Vec<String> {
        self.configuration = Configuration::default();
        let mut problems = self.apply_prefetchers(None);
        if let Some(journal) = &mut self.journal {
            problems.extend(journal.roll_back_masks(self.reader.procfs(), true).problems());
        }
        self.look_for_untraced();
        problems
    }

    /// Restores the original mask of one task.
    pub(crate) fn release_thread(&mut self, thread: i32) {
        self.configuration = Configuration::default();
        if let Some(serial) = self.table.find_thread(thread).map(|task| task.id.serial) {
            self.place(serial);
        }
        self.look_for_untraced();
    }

    /// Removes first threads that have ended before their process: the kernel reports their end only with the end of
    /// the process.
    pub(crate) fn strike_out_dead_leaders(&mut self) {
        let is_leader = |task: &&Task| task.id.thread == task.id.process;
        let leaders: Vec<Task> = self.table.iter().filter(is_leader).cloned().collect();
        for task in leaders {
            let stat = self.reader.procfs().stat(task.id.process, task.id.thread);
            if stat.is_some_and(|stat| matches!(stat.state, 'Z' | 'X')) {
                let reading = self.reading(&task, false);
                self.ended.push(reading);
                self.strike_out(&task);
            }
        }
    }

    /// Removes a task whose end the kernel has not reported yet.
    fn strike_out(&mut self, task: &Task) {
        self.table.end(task.id.thread);
        self.known_dead.insert(task.id.thread);
        self.forget(task);
    }

    /// Removes a thread that is no longer followed. It continues, so the journal keeps its changes that were not rolled
    /// back.
    pub(crate) fn detached(&mut self, thread: i32) {
        if let Some(task) = self.table.end(thread) {
            self.close(&task);
        }
    }

    /// The time when the masks of started tasks should be checked again.
    pub(crate) fn next_verification(&self) -> Option<Instant> {
        let verification = self.verifications.first().map(|&(at, _)| at);
        let others = self.untraced.due().into_iter().chain(self.next_reading());
        verification.into_iter().chain(others).min()
    }

    /// Reads the masks of all tasks again, if new tasks should have settled or a second has passed since the last time.
    /// If a reading of all takes long, only the masks of new tasks are read. First reads the polled processes, if they
    /// are due.
    pub(crate) fn verify_if_due(&mut self) {
        self.read_polled_if_due();
        let now = Instant::now();
        if self.untraced.due().is_some_and(|due| due <= now) {
            self.look_for_untraced();
        }
        let later = self.verifications.split_off(&(now + TOGETHER, 0));
        let settled = std::mem::replace(&mut self.verifications, later);
        if !self.configuration.pins() {
            return;
        }
        let since = now.duration_since(self.last_verification);
        if since >= VERIFICATION || !settled.is_empty() && since >= self.verification_took * REST {
            self.last_verification = now;
            self.place_all();
            self.verification_took = now.elapsed();
        } else {
            for (_, serial) in settled {
                self.place(serial);
            }
        }
    }

    fn place_all(&mut self) -> Vec<TaskId> {
        let serials = self.table.serials();
        serials.into_iter().filter_map(|serial| self.place(serial)).collect()
    }

    /// Applies the configuration to one task. Returns its id if that changed its mask.
    fn place(&mut self, serial: u64) -> Option<TaskId> {
        let rank = self.table.rank(serial);
        let task = self.table.get_mut(serial)?.clone();
        let thread = task.id.thread;
        let real_time = RealTime::read(thread).filter(|_| self.configuration.pins());
        let may_be_placed =
            || !self.means.are_masks() || (!self.may_ask(task.id) && self.may_be_pinned(task.id.process));
        let wanted = self
            .configuration
            .pu_of(task.id, rank)
            .filter(|_| real_time.is_none() && may_be_placed());
        if !self.is_same(task.id.process, thread) {
            return None;
        }
        // A thread that has ended has no mask.
        let current = CpuMask::read(thread).ok()?;
        if !self.means.are_masks() {
            return self.prefer(&task, &current, wanted, real_time);
        }
        let mut seen = None;
        let verdict = decide(&task, &current, wanted, || {
            // Without a wanted PU no later decision follows about this mask.
            let settled = wanted.is_none();
            seen = self.masks.read(task.id.process, thread, &current, settled).ok();
            seen.clone()
        });
        self.forget_with_kernel(&task, seen.as_ref());
        if let Some(real_time) = real_time {
            return self.leave_alone(serial, &task, verdict, real_time);
        }
        match verdict {
            Verdict::Keep => {
                // The task may have inherited the pinning, so the journal must have it as well.
                if let Some(pu) = wanted.filter(|_| task.pinned == wanted && task.noted.is_none())
                    && let Err(why) = self.note_pin(serial, pu)?
                {
                    self.refuse(serial, why);
                    return None;
                }
                self.table.get_mut(serial)?.refused = None;
                None
            }
            Verdict::Pin(pu) => self.pin(serial, thread, pu),
            Verdict::Restore(to) => self.restore(serial, &task, &to),
            Verdict::Refuse(reason) => {
                self.refuse(serial, reason.why);
                None
            }
        }
    }

    /// Unpins a task with real-time priority or a deadline, and reports it. Returns its id if that changed its mask.
    fn leave_alone(&mut self, serial: u64, task: &Task, verdict: Verdict, real_time: RealTime) -> Option<TaskId> {
        let moved = if let Verdict::Restore(to) = verdict {
            self.restore(serial, task, &to)
        } else {
            // The agent may have restored the mask before the task got the policy.
            self.forget_pinning(serial);
            None
        };
        let why = format!("it has {real_time}");
        if self.configuration.tasks.contains_key(&task.id) {
            self.refuse(serial, why);
        } else if !self.skipped.contains(&serial) && !self.configuration.left_alone.contains(&task.id) {
            let stat = self.reader.procfs().stat(task.id.process, task.id.thread);
            let name = stat.map(|stat| stat.name).unwrap_or_default();
            self.notes.extend(self.real_time_notes.note(task.id, &name, real_time));
        }
        moved
    }

    /// Pins one task. Returns its id if that succeeded.
    fn pin(&mut self, serial: u64, thread: i32, pu: PuId) -> Option<TaskId> {
        if let Err(why) = self.note_pin(serial, pu)? {
            self.refuse(serial, why);
            return None;
        }
        self.untraced.look_soon(self.reader.procfs());
        let result = CpuMask::single(pu).apply_to(thread);
        let task = self.table.get_mut(serial)?;
        let Err(error) = result else {
            task.set_pinned(Some(pu));
            task.refused = None;
            self.untraced.pinned(task.id.process, pu, &task.original);
            return Some(task.id);
        };
        if task.pinned.is_none() {
            let noted = task.noted.take();
            self.rolled_back(noted);
        }
        self.refuse_unless_gone(serial, &error, || match error.raw_os_error() {
            Some(libc::EINVAL) => format!("PU {pu} is offline, or its cpuset does not allow it any more"),
            _ => format!("it cannot be pinned on PU {pu}: {error}"),
        });
        None
    }

    /// Some kernels forget a task's mask. Then the original mask is forgotten here as well.
    fn forget_with_kernel(&mut self, task: &Task, seen: Option<&ObservedMask>) {
        if let (Some(pinned), Some(seen)) = (task.pinned, seen)
            && let Restoration::Mask(to) = seen.restoration(&[pinned], &task.original)
            && to != *task.original
            && let Some(task) = self.table.get_mut(task.id.serial)
        {
            task.original = Arc::new(to);
        }
    }

    /// Restores the original mask `to` of one pinned task. Returns its id if that succeeded. The journal keeps a mask
    /// that cannot be in force yet.
    fn restore(&mut self, serial: u64, task: &Task, to: &Requested) -> Option<TaskId> {
        let meanwhile = match to.restore(task.id.thread, self.masks.cpusets()) {
            Ok(meanwhile) => meanwhile,
            Err(error) => {
                self.refuse_unless_gone(serial, &error, || format!("its PUs {to} cannot be restored: {error}"));
                return None;
            }
        };
        let restored = self.table.get_mut(serial)?;
        restored.set_pinned(None);
        let noted = restored.noted.take();
        match (meanwhile, noted, &mut self.journal) {
            (Some(meanwhile), Some(thread), Some(journal)) => journal.note_waiting(thread, to, meanwhile),
            _ => self.rolled_back(noted),
        }
        Some(task.id)
    }

    /// Records that a task is not pinned any more.
    fn forget_pinning(&mut self, serial: u64) {
        if let Some(task) = self.table.get_mut(serial) {
            task.set_pinned(None);
            let noted = task.noted.take();
            self.rolled_back(noted);
        }
    }

    fn refuse_unless_gone(&mut self, serial: u64, error: &io::Error, why: impl FnOnce() -> String) {
        if error.raw_os_error() != Some(libc::ESRCH) {
            self.refuse(serial, why());
        }
    }

    /// Records why a task is not on the requested PU, if the reason is new.
    fn refuse(&mut self, serial: u64, why: String) {
        let Some(task) = self.table.get_mut(serial) else {
            return;
        };
        if task.refused.as_ref() != Some(&why) {
            task.refused = Some(why.clone());
            let task = task.id;
            self.refusals.push(Refusal::for_task(task, why));
        }
    }
}

/// Whether a living thread belongs to `process`, tested with signal 0.
fn is_thread_of(process: i32, thread: i32) -> bool {
    // SAFETY: signal 0 is never delivered.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}
