//! A machine with many programs that pinfold did not start: what a daemon reads and changes.
//!
//! `Machine` is about one program, whose threads have ranks and whose configuration is applied at once. A daemon
//! observes tasks of many programs that begin and end, and moves single tasks. Both share plain data: topology,
//! metrics, samples.

use crate::code::codes;
use crate::container::Container;
use crate::function::FunctionSearch;
use crate::memory::PageMoves;
use crate::scheduled::Scheduled;
use crate::{HostNoteCode, Metric, ProcessGoal, PuId, PuSet, Reason, RefusalCode, Sample, StayCode, TaskId, Topology};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A machine, and its watched tasks. It owns the clock, so that the loop can be tested on a fake machine.
pub trait Host {
    /// The topology, with the PUs that the daemon may use.
    fn topology(&self) -> &Topology;

    /// What is counted for each task, in the order of the counts in a sample.
    fn metrics(&self) -> &[Metric];

    /// Finds tasks that have begun and ended, and reads those that work.
    fn observe(&mut self) -> HostSample;

    /// Pins a task. `release` rolls the pinning back.
    fn place(&mut self, task: TaskId, pu: PuId) -> Placed;

    /// Restores the mask that a task had before it was placed.
    fn release(&mut self, task: TaskId) -> Placed;

    /// From now on the pages of these processes belong on the given nodes, and the pages of all others on their former
    /// nodes. They move while the daemon continues.
    fn follow(&mut self, processes: &BTreeMap<i32, ProcessGoal>);

    /// From now on a function of each of these processes is looked for and its calls are counted, and of no others. The
    /// host looks for one at a time. The tasks of each process are those that work, the busiest first. A search without
    /// a result is repeated when the process was left out once.
    fn count_functions(&mut self, processes: &BTreeMap<i32, Vec<TaskId>>);

    /// Whether pages are still under way.
    fn are_pages_under_way(&self) -> bool;

    /// What became of pages since the last call.
    fn take_page_moves(&mut self) -> Vec<ProcessPages>;

    /// Notes for an administrator; each note is returned once.
    fn take_notes(&mut self) -> Vec<HostNote>;

    /// The time since the daemon began. It is monotonic.
    fn now(&self) -> Duration;

    /// Waits until `until`, in the time of `now`, or until a signal arrives.
    fn wait(&mut self, until: Duration) -> Wake;
}

/// One reading of the watched tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSample {
    /// The tasks that worked since the last sample or a little earlier. A sleeping task is watched but is not in it.
    pub sample: Sample,
    /// The status of each task of the sample, in the same order.
    pub statuses: Vec<TaskStatus>,
    /// The bytes that each process of these tasks has read and written, and its children that have ended; missing where
    /// they are not counted.
    pub bytes: BTreeMap<i32, u64>,
    /// The functions of the processes that `Host::count_functions` named; `None` if the host finds no functions.
    pub functions: Option<BTreeMap<i32, ProcessFunction>>,
    /// What the scheduler in the kernel counted, once a second; `None` between, and without such a scheduler.
    pub scheduled: Option<Scheduled>,
    /// The number of watched tasks, including sleeping ones.
    pub watched: usize,
}

/// The function of a process whose calls show its progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFunction {
    /// How far the search is.
    pub search: FunctionSearch,
    /// The calls so far, once it is found.
    pub calls: Option<u64>,
}

/// The PUs of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatus {
    /// Its mask without pinfold. The daemon never moves it to another PU.
    pub allowed: Arc<PuSet>,
    /// The PU that the daemon has pinned it to.
    pub pinned: Option<PuId>,
    /// Why it is not moved; `None` if it may be moved.
    pub left_alone: Option<LeftAlone>,
    /// Its processor time as a share of the time since the last sample, from 0 to 1; `None` if unknown.
    pub busy: Option<f64>,
    /// The container that its process is in.
    pub container: Option<Arc<Container>>,
}

codes! {
    /// Why a task is not moved.
    pub enum LeftAlone for "tasks.left_alone" {
        /// It has set its own mask, or another program has.
        OwnMask = "own_mask",
        /// The daemon has no permission to move it.
        Forbidden = "forbidden",
        /// It may run on one PU only.
        OnePu = "one_pu",
        /// It has real-time priority: it was already decided where and when it runs.
        RealTime = "real_time",
    }
}

codes! {
    /// What the progress of a process is measured by.
    pub enum ProgressCode for "progress.by" {
        /// The bytes that it reads and writes.
        Bytes = "bytes",
        /// The calls of a function.
        Function = "function",
        /// Nothing.
        Nothing = "nothing",
    }
}

/// A note for an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNote {
    /// Its subject, as a code.
    pub code: HostNoteCode,
    /// A whole sentence.
    pub text: String,
}

/// The result of placing or releasing a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The task has the requested mask.
    Done,
    /// It has ended.
    Gone,
    /// The mask was not changed, for this reason.
    Refused(Reason<StayCode>),
}

/// The pages of a process that were to move.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessPages {
    /// Its number.
    pub process: i32,
    /// The moved pages, or why all pages stay.
    pub result: Result<PageMoves, Reason<RefusalCode>>,
}

/// Why `Host::wait` came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time has come.
    Elapsed,
    /// The configuration has to be read again.
    Reload,
    /// The daemon has to end, because of this signal.
    Stop(i32),
}
