//! How a table of measurements was replayed.

use pinfold_core::Replayed;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::path::PathBuf;

/// How a table of measurements was replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The file of the table.
    pub table: PathBuf,
    /// The machine in it.
    pub machine: String,
    /// The region of the command line; `None` for all of the program.
    pub region: Option<String>,
    /// The value of `--repeat`: `auto` or a number.
    pub repeat: String,
    /// The seed of the noise.
    pub seed: u64,
    /// The relative standard deviation of the time of an execution, if the command line gives it.
    pub noise: Option<f64>,
    /// What was replayed.
    #[serde(flatten)]
    pub replayed: Replayed,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replayed {
            repetitions,
            requests,
            refused,
            alike,
            paused,
            ..
        } = &self.replayed;
        write!(
            f,
            "replayed from {}: {repetitions} repetitions (--repeat {}), {requests} requests, {refused} of them refused in part \
             or whole, {alike} measured on other CPUs alike, {paused:.3} s for moves, seed {}",
            self.table.display(),
            self.repeat,
            self.seed
        )
    }
}

impl Replay {
    /// What the times are, and what of the policy's requests the table had, as lines.
    pub(super) fn explain(&self, text: &mut String) {
        let Replayed {
            unpinned,
            unpinned_source,
            requests,
            refused,
            alike,
            simulated_times,
            ..
        } = &self.replayed;
        let were = if *simulated_times { "simulated" } else { "measured" };
        let _ = writeln!(
            text,
            "The times are those of the table {}, {were} on {}. Unpinned: {unpinned} ({unpinned_source}).",
            self.table.display(),
            self.machine
        );
        let _ = writeln!(
            text,
            "Of {requests} requests of the policy, the table lacked {refused} in part or whole; {alike} have the times of other \
             CPUs in the same layout."
        );
    }
}
