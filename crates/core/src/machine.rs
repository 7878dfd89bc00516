//! The interface to a machine, real or simulated.

use crate::function::FunctionRequest;
use crate::{Applied, Configuration, MachineKind, Metric, NodeId, Sample, Topology};
use std::collections::BTreeMap;
use std::time::Duration;

/// A machine that runs one program. It owns the clock: policies and the loop read no other, so a simulated run is
/// deterministic and takes no time.
pub trait Machine {
    /// The topology, with the PUs and nodes that the program may use.
    fn topology(&self) -> &Topology;

    /// Where the values of this machine come from.
    fn kind(&self) -> MachineKind;

    /// The metrics that `observe` counts, in the order of the counts in a sample, the most reliable first.
    fn metrics(&self) -> &[Metric];

    /// Reads all values once. A value that is not available is missing, never zero.
    fn observe(&mut self) -> Sample;

    /// Notes for the user about values that are not available, as whole sentences; each note is returned once.
    fn take_notes(&mut self) -> Vec<String> {
        vec![]
    }

    /// The program's memory on each NUMA node, in bytes; a node that is missing has none of it. `None` if this is not
    /// known, or where reading it again so soon would cost too much.
    fn memory_by_node(&mut self) -> Option<BTreeMap<NodeId, u64>> {
        None
    }

    /// Bytes that the memory of each NUMA node has read and written since the program began, the traffic of all programs
    /// together. `None` if this is not known.
    fn memory_traffic(&mut self) -> Option<BTreeMap<NodeId, f64>> {
        None
    }

    /// Applies `configuration` to existing and future tasks, and reports the changes.
    fn apply(&mut self, configuration: &Configuration) -> Applied;

    /// Handles a request about a function that shows progress. `Sample::function` has the result. A machine that cannot
    /// find functions ignores it.
    fn look_for_function(&mut self, _request: &FunctionRequest) {}

    /// Lets go of a program that continues: rolls back all changes, and reports them. The machine cannot be used
    /// afterwards.
    fn let_go(&mut self) -> Applied {
        Applied::default()
    }

    /// The time since the program began, or since pinfold attached to it.
    fn now(&self) -> Duration;

    /// Lets the program run for `duration`, or until it ends or the user interrupts pinfold.
    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError>;
}

impl MachineKind {
    /// Whether the program really runs.
    pub fn is_live(self) -> bool {
        self == Self::Live
    }

    /// What became of a program that did not really run, as a word beside its result; `None` for one that did.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Live | Self::Unknown => None,
            Self::Simulated => Some("simulated"),
            Self::Table => Some("replayed"),
        }
    }
}

/// Why `Machine::wait` came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The time has passed.
    Elapsed,
    /// The program has ended with this exit status: its own, or 128 and the number of the signal that killed it.
    Ended(i32),
    /// The user ends the run of a program that runs on.
    Left,
}

/// The machine can no longer be observed or changed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub String);
