//! A function whose calls show the progress of a program: found while the program runs, not named by the user.
//!
//! 1. A machine samples the stacks of the working threads for a second. `candidates` gives the functions that take a
//!    considerable part of the time of many of them, with all that they call.
//! 2. Samples do not show how often a function is called. So the machine counts the calls of each candidate, the
//!    outermost first, and stops to count one that `is_too_hot`.
//! 3. The remaining ones are counted together for a second, in windows. `choose` takes the steadiest one that many
//!    threads call neither too seldom nor too often, and whose counting costs little (`trial`).
//!
//! This module decides and reads nothing. The kernel's part is in `pinfold_linux::functions`.

mod stacks;
mod trial;

pub use stacks::{Candidate, Stack, candidates};
pub use trial::{Calls, Chosen, Counted, MOST_CALLS, Rejected, choose, is_too_hot};

use crate::TaskId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// What a policy asks of a machine that can find functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionRequest {
    /// Look for one.
    Search {
        /// The working tasks.
        tasks: BTreeSet<TaskId>,
        /// The identity (`FoundFunction::identity`) of the function of an earlier run. It is taken if it still
        /// qualifies, even if another one is steadier.
        preferred: Option<String>,
    },
    /// Stop to look, and to count what was found: another metric decides.
    Stop,
}

/// How far a machine is with the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum FunctionSearch {
    /// Nothing was requested, or the machine cannot find functions.
    #[default]
    NotBegun,
    /// It looks.
    Running,
    /// This one is counted.
    Found(FoundFunction),
    /// There is none.
    Nothing {
        /// Why: a clause without a full stop.
        why: String,
        /// Whether a later search may find one.
        may_change: bool,
    },
}

/// A function that was found, as it was when it was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundFunction {
    /// Its name as a user writes it, or its address where the file names no function there.
    pub name: String,
    /// The name of the file with its code, without folders.
    pub file: String,
    /// Calls per second, of all threads.
    pub calls_per_second: f64,
    /// How many threads called it.
    pub threads: usize,
    /// The coefficient of variation of the calls in windows of a tenth of a second.
    pub spread: f64,
    /// The share of the threads' processor time that the counting of its calls takes.
    pub cost: f64,
}

impl FoundFunction {
    /// What tells it from another function in another run: rates of two functions do not compare.
    pub fn identity(&self) -> String {
        format!("function:{} of {}", self.name, self.file)
    }
}

impl fmt::Display for FoundFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.calls_per_second;
        let digits = usize::from(calls < 100.0);
        let threads = match self.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        write!(
            f,
            "{} of {}, {calls:.digits$} calls/s by {threads}",
            self.name, self.file
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_found_function_is_named_with_its_file_rate_and_threads() {
        let mut found = FoundFunction {
            name: "encode_block".to_owned(),
            file: "libfoo.so".to_owned(),
            calls_per_second: 420.4,
            threads: 4,
            spread: 0.02,
            cost: 0.0004,
        };
        assert_eq!(found.to_string(), "encode_block of libfoo.so, 420 calls/s by 4 threads");
        assert_eq!(found.identity(), "function:encode_block of libfoo.so");
        (found.calls_per_second, found.threads) = (20.0, 1);
        assert_eq!(found.to_string(), "encode_block of libfoo.so, 20.0 calls/s by 1 thread");
    }
}
