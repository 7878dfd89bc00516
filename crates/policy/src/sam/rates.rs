//! The mapper's input: rates of each task per unhalted cycle over the last interval.

use pinfold_core::{PuId, PuSet, TaskId};
use std::sync::Arc;

/// The rates of one task in the last interval. A rate is a count divided by the task's unhalted cycles, as in section
/// 3.2 of the paper. `None` if it is not available; that never causes a move.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRates {
    /// Which task.
    pub id: TaskId,
    /// The PU on which it runs.
    pub pu: PuId,
    /// Its mask. Tasks with the same mask can share one set.
    pub allowed: Arc<PuSet>,
    /// Its running time as a share of the interval, 0 to 1.
    pub busy: f64,
    /// Coherence events between domains: `C^inter`.
    pub inter: Option<f64>,
    /// Coherence events within its domain: `C^intra`.
    pub intra: Option<f64>,
    /// Accesses to another node's memory: `R`.
    pub remote: Option<f64>,
    /// Last-level-cache misses: `M`.
    pub memory: Option<f64>,
    /// The task's progress: instructions, or its part of the bytes that its process reads and writes, or of the calls of
    /// a function. `busy` times this is its progress in the interval.
    pub progress: Option<f64>,
    /// The group of tasks that share data, possibly of several processes; `None` if unknown.
    pub group: Option<u32>,
    /// Lines from memory. The mapper does not use them.
    pub reads: Option<Reads>,
}

/// Lines that memory sent to the core, for loads, stores and prefetches. A count divided by the task's unhalted cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reads {
    /// By the memory of the core's own node.
    pub local: f64,
    /// By another node's memory.
    pub remote: f64,
}
