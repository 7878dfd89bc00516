//! One run of the program in one configuration, as the journal keeps it.

use super::state::MachineState;
use crate::journal::{Exact, Kept};
use serde::{Deserialize, Serialize};

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRun {
    /// The sweep that made it: one start of the command.
    pub session: u64,
    /// When it began, in seconds since the epoch.
    pub at: Exact,
    /// How it ended.
    pub end: RunEnd,
    /// Whether its time counts. A run that failed or was disturbed, and was repeated, does not.
    pub counts: bool,
    /// What disturbed it, in words.
    pub disturbed: Option<String>,
    /// The most tasks that had a rank; `None` if it is not known.
    pub threads: Option<usize>,
    /// The state of the machine.
    pub state: MachineState,
    /// Each metric that was counted: name, unit, and value.
    pub metrics: Vec<(String, String, Exact)>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunEnd {
    /// The program did its work in these seconds.
    Done {
        /// From the start of the program to its end.
        seconds: Exact,
    },
    /// It did not, for this reason.
    Failed {
        /// In words.
        why: String,
    },
}

impl MeasuredRun {
    /// Its time in seconds; `None` if it failed.
    pub fn seconds(&self) -> Option<f64> {
        match self.end {
            RunEnd::Done { seconds } => Some(seconds.0),
            RunEnd::Failed { .. } => None,
        }
    }
}

impl Kept for MeasuredRun {
    const MAGIC: &'static [u8] = b"pinfold sweep of runs 1\n";
}
