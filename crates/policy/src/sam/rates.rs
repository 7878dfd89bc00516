//! What the mapper is told of each task: rates per unhalted cycle over the last interval.

use pinfold_core::{PuId, PuSet, TaskId};
use std::sync::Arc;

/// What was observed of one task in the last interval. A rate is a count divided by the task's unhalted cycles, as in section
/// 3.2 of the paper, and `None` where it could not be had: that never causes a move.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRates {
    /// Which task.
    pub id: TaskId,
    /// Where it runs.
    pub pu: PuId,
    /// Where it may run. Tasks with the same mask can share one set.
    pub allowed: Arc<PuSet>,
    /// For which share of the interval it ran, 0 to 1.
    pub busy: f64,
    /// Coherence events between domains: `C^inter`.
    pub inter: Option<f64>,
    /// Coherence events within its domain: `C^intra`.
    pub intra: Option<f64>,
    /// Accesses to another node's memory: `R`.
    pub remote: Option<f64>,
    /// Last-level-cache misses: `M`.
    pub memory: Option<f64>,
    /// Instructions: what the task gets done. Only validation looks at it.
    pub instructions: Option<f64>,
}

/// The four activities by which tasks are categorised (section 3.1), with the names that `[[metric]]` of events/*.toml has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Coherence between packages (last-level-cache domains).
    InterPackageCoherence,
    /// Coherence within a package (last-level-cache domain).
    IntraPackageCoherence,
    /// Accesses to another node's memory.
    RemoteDram,
    /// Demand for memory bandwidth.
    MemoryBandwidth,
}

impl Activity {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::InterPackageCoherence,
        Self::IntraPackageCoherence,
        Self::RemoteDram,
        Self::MemoryBandwidth,
    ];

    /// The name in event sets, JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::InterPackageCoherence => "inter_package_coherence",
            Self::IntraPackageCoherence => "intra_package_coherence",
            Self::RemoteDram => "remote_dram",
            Self::MemoryBandwidth => "memory_bandwidth",
        }
    }
}

/// Why a task is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It shares data with tasks of another domain, and goes to them.
    Coherence,
    /// It uses another node's memory, and goes back there.
    RemoteMemory,
    /// Its package's memory is saturated, and another's is not.
    Bandwidth,
    /// It was moved for coherence, and that did not help.
    Undo,
}

/// One task that goes elsewhere. A swap is two of these, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Move {
    /// Which task.
    pub task: TaskId,
    /// Where it runs.
    pub from: PuId,
    /// Where it is to run.
    pub to: PuId,
    /// Why.
    pub reason: Reason,
    /// Whether the task only makes room for `swapped_with`, whose activity is the reason.
    pub makes_room: bool,
    /// Whether it is a reluctant move of the paper: a memory-intensive task leaves the node that has its memory.
    pub reluctant: bool,
    /// What was too much.
    pub activity: Activity,
    /// How much it was, per unhalted cycle: of the task (of `swapped_with`, for one that makes room), or of its node for
    /// `Bandwidth`.
    pub value: f64,
    /// What it was compared with.
    pub threshold: f64,
    /// The task that comes to `from`.
    pub swapped_with: Option<TaskId>,
}
