//! The one door to a machine, real or simulated.

use crate::{Applied, Configuration, Metric, Sample, Topology};
use std::time::Duration;

/// A machine on which one program runs. It owns the clock: policies and the loop never read another, so a simulated
/// run is deterministic and takes no time.
pub trait Machine {
    /// The machine's shape, with the PUs and nodes that the program may use.
    fn topology(&self) -> &Topology;

    /// Whether what this machine shows was computed and not measured.
    fn simulated(&self) -> bool;

    /// What `observe` counts, in the order of the counts in a sample, the most trustworthy first.
    fn metrics(&self) -> &[Metric];

    /// Reads everything once. A value that could not be had is missing, never zero.
    fn observe(&mut self) -> Sample;

    /// Whole sentences that a user should read about what could not be had; each is given once.
    fn take_notes(&mut self) -> Vec<String> {
        vec![]
    }

    /// Makes `configuration` so, for the tasks there are and those to come, and says what was really done.
    fn apply(&mut self, configuration: &Configuration) -> Applied;

    /// The time since the program began.
    fn now(&self) -> Duration;

    /// Lets the program run for `duration`, or until it ends or the user wants an end.
    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError>;
}

/// Why `Machine::wait` came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The time has passed.
    Elapsed,
    /// The program has ended with this exit status: its own, or 128 and the number of the signal that killed it.
    Ended(i32),
}

/// The machine can no longer be observed or changed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub String);
