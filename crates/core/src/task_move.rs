//! Moves of single tasks, and the activities that cause them.

use crate::code::codes;
use crate::{PuId, TaskId};
use serde::{Deserialize, Serialize};
use std::fmt;

codes! {
    /// The four activities by which SAM categorises tasks (Srikanthan, Dwarkadas and Shen, ATC 2015, section 3.1), with
    /// the names that `[[metric]]` of events/*.toml has.
    pub enum Activity for "moves.activity" {
        /// Coherence between packages (last-level-cache domains).
        InterPackageCoherence = "inter_package_coherence",
        /// Coherence within a package (last-level-cache domain).
        IntraPackageCoherence = "intra_package_coherence",
        /// Accesses to another node's memory.
        RemoteDram = "remote_dram",
        /// Demand for memory bandwidth.
        MemoryBandwidth = "memory_bandwidth",
    }

    /// Why SAM's mapper moves a task.
    pub enum MoveReason for "moves.reason" {
        /// It shares data with tasks of another domain, and goes to them.
        Coherence = "coherence",
        /// It uses another node's memory, and goes back there.
        RemoteMemory = "remote_memory",
        /// Its package's memory is saturated, and another's is not.
        Bandwidth = "bandwidth",
        /// It was moved for coherence, and that did not help.
        RollBack = "undo",
        /// It stays, and is pinned to its PU: others were brought to it, and all make more progress.
        Keep = "keep",
        /// The mapper's moves are compared with the unpinned machine: it goes back to its former PU, or returns from
        /// there.
        Comparison = "comparison",
        /// An earlier run of its program was fastest so, and these PUs were idle.
        Known = "known",
    }

    /// What became of the moves of SAM's mapper when they were compared with the unpinned machine.
    pub enum MappingCode for "mapping_comparisons.outcome" {
        /// They stay: a process makes more progress with them, and none makes less.
        Kept = "kept",
        /// No task is pinned any more: a process makes less progress with them.
        Slower = "slower",
        /// No task is pinned any more: no process makes more progress with them.
        NoGain = "no_gain",
    }
}

impl Activity {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::InterPackageCoherence,
        Self::IntraPackageCoherence,
        Self::RemoteDram,
        Self::MemoryBandwidth,
    ];
}

/// One task that goes elsewhere. A swap is two of these, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskMove {
    /// Which task.
    pub task: TaskId,
    /// Its current PU.
    pub from: PuId,
    /// Its next PU; the same as `from` for `Keep`.
    pub to: PuId,
    /// Why.
    pub reason: MoveReason,
    /// Whether the task only makes room for `swapped_with`, whose activity is the reason.
    pub makes_room: bool,
    /// Whether it is a reluctant move of the paper: a memory-intensive task leaves the node that has its memory.
    pub reluctant: bool,
    /// The rate that caused it; `None`, and no keys, if no rate did (`Known`).
    #[serde(flatten)]
    pub excess: Option<Excess>,
    /// The task that comes to `from`.
    pub swapped_with: Option<TaskId>,
}

/// A rate above its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// What was too much.
    pub activity: Activity,
    /// How much it was, per unhalted cycle: of the task (of `swapped_with`, for one that makes room), or of its node
    /// for `Bandwidth`.
    pub value: f64,
    /// What it was compared with.
    pub threshold: f64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value, threshold) = (self.activity.name(), self.value, self.threshold);
        write!(f, "{name} {value:.2e} a cycle (threshold {threshold:.2e})")
    }
}

impl TaskMove {
    /// Whether the task stays on its PU, and is pinned to it.
    pub fn stays(&self) -> bool {
        self.from == self.to
    }
}

/// The moves of SAM's mapper were compared with the unpinned machine, in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MappingComparison {
    /// What becomes of the moves.
    pub outcome: MappingCode,
    /// The number of turns: in each, the machine was measured with the moves and without.
    pub turns: usize,
    /// What the moves mean to each process that was measured.
    pub processes: Vec<ProcessGain>,
    /// The processes whose pages were moved where their tasks are, in the turns with the moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<i32>,
    /// For how long no task is pinned now, in seconds; `None` if the moves stay.
    pub pause: Option<f64>,
}

/// What moves mean to a process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessGain {
    /// Which process.
    pub process: i32,
    /// Its progress with the moves over that without, minus one.
    pub gain: f64,
    /// The standard error of the gain.
    pub error: f64,
}

impl MappingComparison {
    /// The process with the least gain.
    pub fn slowest(&self) -> Option<&ProcessGain> {
        let processes = self.processes.iter();
        processes.min_by(|one, other| one.gain.total_cmp(&other.gain))
    }
}

impl fmt::Display for MappingComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The most processes that are named.
        const NAMED: usize = 3;
        let mut processes: Vec<&ProcessGain> = self.processes.iter().collect();
        processes.sort_by(|one, other| one.gain.total_cmp(&other.gain));
        let gains: Vec<String> = processes
            .iter()
            .take(NAMED)
            .map(|one| format!("process {} {:.3} ± {:.3}", one.process, 1.0 + one.gain, one.error))
            .collect();
        let slowest = if processes.len() > NAMED {
            ", of the slowest"
        } else {
            ""
        };
        let then = match self.outcome {
            MappingCode::Kept => "they stay",
            MappingCode::Slower => "they do harm",
            MappingCode::NoGain => "they help none",
        };
        let pages = match &self.followed[..] {
            [] => String::new(),
            [one] => format!(" and the pages of process {one}"),
            several => format!(" and the pages of {} processes", several.len()),
        };
        write!(
            f,
            "progress with the moves{pages} over that without, in {} turns{slowest}: {}; {then}",
            self.turns,
            gains.join(", ")
        )?;
        self.pause
            .map_or(Ok(()), |pause| write!(f, ", and nothing is pinned for {pause:.0} s"))
    }
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Coherence => "coherence",
            Self::RemoteMemory => "remote memory",
            Self::Bandwidth => "memory bandwidth",
            Self::RollBack => "rolled back",
            Self::Keep => "kept",
            Self::Comparison => "comparison",
            Self::Known => "known program",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_names_the_slowest_processes_and_what_follows() {
        let gain = |process, gain| ProcessGain {
            process,
            gain,
            error: 0.002,
        };
        let mut comparison = MappingComparison {
            outcome: MappingCode::Slower,
            turns: 2,
            followed: vec![],
            processes: vec![gain(1, 0.5), gain(2, -0.25), gain(3, 0.0), gain(4, 0.1)],
            pause: Some(61.4),
        };
        assert_eq!(
            comparison.to_string(),
            "progress with the moves over that without, in 2 turns, of the slowest: process 2 0.750 ± 0.002, process 3 \
             1.000 ± 0.002, process 4 1.100 ± 0.002; they do harm, and nothing is pinned for 61 s"
        );
        assert_eq!(comparison.slowest().map(|one| one.process), Some(2));
        comparison.processes.truncate(1);
        (comparison.outcome, comparison.pause) = (MappingCode::Kept, None);
        assert_eq!(
            comparison.to_string(),
            "progress with the moves over that without, in 2 turns: process 1 1.500 ± 0.002; they stay"
        );
        for (followed, pages) in [(vec![1], "process 1"), (vec![1, 3], "2 processes")] {
            comparison.followed = followed;
            let text = comparison.to_string();
            let begin = format!("progress with the moves and the pages of {pages} over that without, in");
            assert!(text.starts_with(&begin), "{text}");
        }
    }
}
