//! The door to a machine on which many programs run, none of them ours: what a daemon sees and changes.
//!
//! `Machine` is about one program, whose threads have ranks and whose whole configuration is applied at once. A daemon sees
//! tasks of many programs come and go, and moves one or the other. What both share is plain data: topology, metrics, samples.

use crate::code::codes;
use crate::{HostNoteCode, Metric, PuId, PuSet, Reason, Sample, StayCode, TaskId, Topology};
use std::sync::Arc;
use std::time::Duration;

/// A machine, and those of its tasks that are watched. It owns the clock, so that the loop can be tested on one that is
/// made up.
pub trait Host {
    /// The machine's shape, with the PUs that we may use.
    fn topology(&self) -> &Topology;

    /// What is counted of each task, in the order of the counts in a sample.
    fn metrics(&self) -> &[Metric];

    /// Looks for tasks that have come and gone, and reads those that work.
    fn observe(&mut self) -> HostSample;

    /// Pins a task. It goes back to where it may run without us when it is released.
    fn place(&mut self, task: TaskId, pu: PuId) -> Placed;

    /// Lets a task run again wherever it could before it was placed.
    fn release(&mut self, task: TaskId) -> Placed;

    /// Whole sentences that an administrator should read; each is given once.
    fn take_notes(&mut self) -> Vec<HostNote>;

    /// The time since the watching began. It never runs backwards, whatever becomes of the time of day.
    fn now(&self) -> Duration;

    /// Waits until `until`, in the time of `now`, or until something is wanted of us.
    fn wait(&mut self, until: Duration) -> Wake;
}

/// One reading of the watched tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSample {
    /// The tasks that have worked since the sample before or a little longer ago. What sleeps is watched and not in it.
    pub sample: Sample,
    /// Where each task of the sample may be, in the same order.
    pub statuses: Vec<TaskStatus>,
    /// How many tasks are watched, those that sleep included.
    pub watched: usize,
}

/// Where a task may be and is.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatus {
    /// Where it may run without us; never left.
    pub allowed: Arc<PuSet>,
    /// Where we have pinned it.
    pub pinned: Option<PuId>,
    /// Why it is not to be moved; `None` where it may be.
    pub left_alone: Option<LeftAlone>,
    /// How much of the stretch since the sample before it worked, from 0 to 1; `None` where that is not known.
    pub busy: Option<f64>,
}

codes! {
    /// Why a task is not moved.
    pub enum LeftAlone for "tasks.left_alone" {
        /// It has set its own mask, or somebody else has after us.
        OwnMask = "own_mask",
        /// We may not move it.
        Forbidden = "forbidden",
        /// It may run on one PU only.
        OnePu = "one_pu",
        /// It has real-time priority: whoever gave it that has decided where and when it runs.
        RealTime = "real_time",
    }
}

/// What an administrator should read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNote {
    /// What it is about, for programs.
    pub code: HostNoteCode,
    /// A whole sentence.
    pub text: String,
}

/// What became of a task that was to be placed or released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It is as was wanted.
    Done,
    /// It has ended.
    Gone,
    /// It is not, for this reason.
    Refused(Reason<StayCode>),
}

/// Why `Host::wait` came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time has come.
    Elapsed,
    /// The configuration is to be read again.
    Reload,
    /// It is to end; the signal that said so.
    Stop(i32),
}
