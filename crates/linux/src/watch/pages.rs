//! Moves the pages of processes to the nodes of their tasks, or interleaves them, and moves them back. A separate
//! thread does this.
//!
//! 1. Near their tasks: if all working tasks of a process are on one node, all its pages belong there. Otherwise a page
//!    belongs to the node whose tasks access it most. Accesses are sampled once, only by the processor's memory events:
//!    the other source, page faults, would stop the program.
//!    Interleaved: on all nodes of the main memory in turn.
//! 2. If copying would take longer than `PageLimits::within`, all pages stay.
//! 3. The old node of each moved page is recorded. When the process is not followed any more, its pages return.
//! 4. The process is held by a pidfd, so that another process with its number is never changed.
//!
//! When the daemon ends, pages stay: a page's node is not a constraint, and the tasks still run beside it.

use crate::held::Held;
use crate::memory::{
    Accesses, Areas, Calls, Goal, Limits, SampleBy, SampledMachine, Sampling, StopReason, System, Target, move_pages,
    move_pages_patiently, page_size,
};
use pinfold_core::memory::{
    ASSUMED_COPY_RATE, MemoryArea, Origins, PageMoves, SAMPLED_BEFORE, Selection, Spread, Turns, check_cost,
};
use pinfold_core::{NodeId, NodeSet, ProcessGoal, ProcessPages, Reason, RefusalCode, size_text};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The longest sleep between two checks for the end.
const GLANCE: Duration = Duration::from_millis(50);

/// The limits of page migration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageLimits {
    /// The largest average copy rate, in bytes per second.
    pub rate: f64,
    /// The longest time for the pages of a process.
    pub within: Duration,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            rate: ASSUMED_COPY_RATE,
            within: Duration::from_secs(1),
        }
    }
}

/// The nodes of the tasks of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskNodes {
    /// The nodes of its pinned tasks, by kernel thread id.
    pub(super) pinned: BTreeMap<i32, NodeId>,
    /// All nodes with working tasks, pinned or not.
    pub(super) nodes: NodeSet,
}

/// The nodes with memory.
#[derive(Clone, Copy)]
pub(super) struct MemoryNodes {
    /// All nodes with memory of any kind.
    pub(super) all: NodeSet,
    /// The nodes of the main memory.
    pub(super) main: NodeSet,
}

/// The processes whose pages follow, and the thread that moves them.
pub(super) struct FollowedPages {
    limits: PageLimits,
    memory: MemoryNodes,
    /// For each process with requested moves, the goal and the pinned tasks at that time.
    sent: BTreeMap<i32, (ProcessGoal, BTreeMap<i32, NodeId>)>,
    under_way: usize,
    /// The thread, which the first job starts.
    worker: Option<Worker>,
}

struct Worker {
    /// `None` once no more jobs will come.
    jobs: Option<Sender<Job>>,
    results: Receiver<ProcessPages>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

enum Job {
    Bring {
        process: i32,
        held: Held,
        goal: ProcessGoal,
        places: TaskNodes,
        limits: PageLimits,
    },
    TakeBack {
        process: i32,
        limits: PageLimits,
    },
}

impl FollowedPages {
    pub(super) fn new(limits: PageLimits, memory: MemoryNodes) -> Self {
        Self {
            limits,
            memory,
            sent: BTreeMap::new(),
            under_way: 0,
            worker: None,
        }
    }

    /// Changes the limits.
    pub(super) fn limit(&mut self, limits: PageLimits) {
        self.limits = limits;
    }

    /// Whether the moves of a process to this goal were already requested for its current pinnings, if these matter.
    pub(super) fn are_sent(&self, process: i32, goal: ProcessGoal, places: &TaskNodes) -> bool {
        self.sent.get(&process).is_some_and(|(sent, pinned)| {
            *sent == goal && (goal == ProcessGoal::Interleave || *pinned == places.pinned)
        })
    }

    /// Requests the moves of a process's pages to this goal.
    pub(super) fn bring(&mut self, process: i32, held: Held, goal: ProcessGoal, places: TaskNodes) {
        self.sent.insert(process, (goal, places.pinned.clone()));
        let limits = self.limits;
        self.send(Job::Bring {
            process,
            held,
            goal,
            places,
            limits,
        });
    }

    /// Requests the moves back for all processes except `followed`.
    pub(super) fn take_back_others(&mut self, followed: &BTreeMap<i32, ProcessGoal>) {
        let dropped: Vec<i32> = self
            .sent
            .keys()
            .copied()
            .filter(|process| !followed.contains_key(process))
            .collect();
        for process in dropped {
            self.sent.remove(&process);
            let limits = self.limits;
            self.send(Job::TakeBack { process, limits });
        }
    }

    pub(super) fn are_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// The results of moves since the last call.
    pub(super) fn take(&mut self) -> Vec<ProcessPages> {
        let Some(worker) = &self.worker else { return vec![] };
        let mut done = vec![];
        loop {
            match worker.results.try_recv() {
                Ok(pages) => {
                    self.under_way = self.under_way.saturating_sub(1);
                    done.push(pages);
                }
                Err(TryRecvError::Empty) => return done,
                Err(TryRecvError::Disconnected) => {
                    // The thread has panicked, which was reported. No job is under way any more.
                    self.under_way = 0;
                    return done;
                }
            }
        }
    }

    fn send(&mut self, job: Job) {
        let memory = self.memory;
        let worker = self.worker.get_or_insert_with(|| Worker::start(memory));
        if worker.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok()) {
            self.under_way += 1;
        }
    }
}

impl Worker {
    fn start(memory: MemoryNodes) -> Self {
        let (jobs, received) = channel();
        let (done, results) = channel();
        let stops = Arc::new(AtomicBool::new(false));
        let mut mover = PageMover {
            system: System::default(),
            page_size: page_size(),
            memory,
            stops: Arc::clone(&stops),
            processes: BTreeMap::new(),
        };
        let thread = thread::spawn(move || {
            for job in received {
                if done.send(mover.work(job)).is_err() {
                    return;
                }
            }
        });
        Self {
            jobs: Some(jobs),
            results,
            stops,
            thread: Some(thread),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

/// A process whose pages were moved or will be moved.
struct MovedProcess {
    held: Held,
    /// The pages' original places.
    origins: Origins,
    /// The pages' current goal.
    goal: Option<Goal>,
    accesses: Option<Accesses>,
}

/// The worker's part.
struct PageMover {
    system: System,
    page_size: u64,
    memory: MemoryNodes,
    stops: Arc<AtomicBool>,
    processes: BTreeMap<i32, MovedProcess>,
}

impl PageMover {
    fn work(&mut self, job: Job) -> ProcessPages {
        self.processes.retain(|_, process| process.held.lives());
        match job {
            Job::Bring {
                process,
                held,
                goal,
                places,
                limits,
            } => {
                let mut followed = self.processes.remove(&process).unwrap_or_else(|| MovedProcess {
                    held,
                    origins: Origins::default(),
                    goal: None,
                    accesses: None,
                });
                let result = self.bring(process, &mut followed, goal, &places, limits);
                self.processes.insert(process, followed);
                ProcessPages { process, result }
            }
            Job::TakeBack { process, limits } => {
                let result = match self.processes.get(&process) {
                    Some(followed) => self.take_back(process, followed, limits),
                    None => Ok(PageMoves::towards(PageMoves::BACK)),
                };
                if let Some(followed) = self.processes.get_mut(&process) {
                    // The accesses stay known, because they belong to threads at any place.
                    followed.origins = Origins::default();
                    followed.goal = None;
                }
                ProcessPages { process, result }
            }
        }
    }

    fn bring(
        &self,
        number: i32,
        process: &mut MovedProcess,
        towards: ProcessGoal,
        places: &TaskNodes,
        limits: PageLimits,
    ) -> Result<PageMoves, Reason<RefusalCode>> {
        let target = HeldProcess {
            number,
            held: &process.held,
            stops: &self.stops,
        };
        let areas = self.areas(&target)?;
        if !MemoryArea::are_touched_first(&areas) {
            return Err(stay("it has chosen its own memory policy"));
        }
        let policy = MemoryArea::process_policy(&areas);
        let movable = areas.iter().filter(|area| Selection::default().is_all(area, policy));
        let (goal, bytes) = match (towards, places.nodes.only()) {
            (ProcessGoal::Interleave, _) => self.interleaved(movable.map(MemoryArea::resident_bytes).sum())?,
            (ProcessGoal::Tasks, Some(node)) if self.memory.all.contains(node) => {
                let elsewhere = |area: &MemoryArea| area.resident_bytes() - area.resident.get(&node).unwrap_or(&0);
                (Goal::ByAddress(Spread::On(node)), movable.map(elsewhere).sum())
            }
            (ProcessGoal::Tasks, Some(node)) => {
                return Err(stay(format!("its tasks are on NUMA node {node}, which has no memory")));
            }
            (ProcessGoal::Tasks, None) if places.nodes.is_empty() => {
                return Err(stay("the NUMA node of its tasks is not known"));
            }
            (ProcessGoal::Tasks, None) => {
                let accesses = match &mut process.accesses {
                    Some(known) => known,
                    unknown => unknown.insert(sampled(&target, &areas)?),
                };
                let node_of = |thread: u32| places.pinned.get(&thread.cast_signed()).copied();
                let places = accesses.profile.place_by_locality(&self.memory.all, node_of);
                (Goal::ByAccesses(places), movable.map(MemoryArea::resident_bytes).sum())
            }
        };
        let rate = limits.rate.min(ASSUMED_COPY_RATE);
        if let Err(too_long) = check_cost(bytes, rate, Some(limits.within)) {
            return Err(Reason::new(
                RefusalCode::PagesTooLong,
                format!(
                    "its pages stay where they are: copying {} would take about {:.1} s",
                    size_text(bytes),
                    too_long.takes.as_secs_f64()
                ),
            ));
        }
        let goal = &mut process.origins.noting(process.goal.insert(goal));
        let mut moves = PageMoves::towards(towards.to_string());
        let limits = self.move_limits(limits);
        move_pages(
            &mut self.calls(&target),
            &areas,
            goal,
            limits,
            &mut moves,
            &mut |_, _| {},
        );
        Ok(moves)
    }

    /// The goal of pages on all nodes of the main memory in turn, and an estimate of the bytes that have to move: one
    /// node's share of the bytes is already in place.
    fn interleaved(&self, bytes: u64) -> Result<(Goal, u64), Reason<RefusalCode>> {
        let turns = Turns::even(&self.memory.main).ok_or_else(|| stay("no NUMA node has memory"))?;
        let elsewhere = bytes - bytes / self.memory.main.len() as u64;
        Ok((Goal::ByAddress(Spread::InTurn(turns)), elsewhere))
    }

    fn take_back(
        &self,
        number: i32,
        process: &MovedProcess,
        limits: PageLimits,
    ) -> Result<PageMoves, Reason<RefusalCode>> {
        let mut moves = PageMoves::towards(PageMoves::BACK);
        let Some(goal) = process.goal.as_ref().filter(|_| !process.origins.is_empty()) else {
            return Ok(moves);
        };
        let target = HeldProcess {
            number,
            held: &process.held,
            stops: &self.stops,
        };
        let areas = self.areas(&target)?;
        let goal = &mut process.origins.back(goal);
        let limits = self.move_limits(limits);
        move_pages_patiently(
            &mut self.calls(&target),
            &areas,
            goal,
            limits,
            &mut moves,
            &mut |_, _| {},
        );
        Ok(moves)
    }

    fn calls<'a>(&self, target: &'a HeldProcess<'_>) -> Calls<'a> {
        Calls::new(target, self.system.procfs(), self.page_size)
    }

    fn move_limits(&self, limits: PageLimits) -> Limits {
        Limits {
            selection: Selection::default(),
            rate: Some(limits.rate),
            page_size: self.page_size,
        }
    }

    fn areas(&self, target: &HeldProcess<'_>) -> Result<Vec<MemoryArea>, Reason<RefusalCode>> {
        let areas = Areas::read_held(target, self.system.procfs(), self.page_size).map_err(stay)?;
        areas.map(Into::into).map_err(stay)
    }
}

/// Samples which threads access which pages.
fn sampled(target: &HeldProcess<'_>, areas: &[MemoryArea]) -> Result<Accesses, Reason<RefusalCode>> {
    let sampling = Sampling {
        by: SampleBy::MemoryEvents,
        lasts: SAMPLED_BEFORE,
        ..Sampling::default()
    };
    let sampled = SampledMachine::here().sample(&[(target, areas)], sampling);
    let mut sampled = sampled.map_err(|error| {
        stay(format!(
            "its tasks are on several NUMA nodes, and their accesses to its pages are not known: {error}"
        ))
    })?;
    match sampled.pop() {
        Some(Ok(accesses)) => Ok(accesses),
        Some(Err(error)) => Err(stay(error)),
        None => Err(stay("its accesses were not sampled")),
    }
}

/// A reason why pages stay.
fn stay(why: impl std::fmt::Display) -> Reason<RefusalCode> {
    Reason::new(RefusalCode::Pages, format!("its pages stay where they are: {why}"))
}

/// A process that is held until the worker has to stop.
struct HeldProcess<'a> {
    number: i32,
    held: &'a Held,
    stops: &'a AtomicBool,
}

impl HeldProcess<'_> {
    fn look(&self) -> Result<(), StopReason> {
        if self.stops.load(Ordering::Relaxed) {
            Err(StopReason::Interrupted)
        } else if self.held.lives() {
            Ok(())
        } else {
            Err(StopReason::Ended)
        }
    }
}

impl Target for HeldProcess<'_> {
    fn process(&self) -> i32 {
        self.number
    }

    fn held(&self, act: &mut dyn FnMut(i32)) -> Result<(), StopReason> {
        self.look()?;
        act(self.number);
        Ok(())
    }

    fn pause(&self, duration: Duration) -> Result<(), StopReason> {
        let until = Instant::now() + duration;
        loop {
            self.look()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(GLANCE));
        }
    }
}
