//! Recordings through spaces of configurations on simulated machines, into one data set.
//!
//! 1. `plan`: machines, programs and spaces become jobs, each with a key of everything that its result depends on.
//! 2. `journal`: the results of a sweep that is not over; a later run of the same plan reads them back.
//! 3. `workers`: the jobs that are left, on several threads.
//! 4. `data_set`: the one writer of data sets (docs/formats.md), of sweeps and of samples.
//!
//! `spaces` is the registry of what `--space` takes: a space is a file in that folder and a line in `SPACES`.

pub mod data_set;
mod journal;
mod parquet_table;
mod plan;
pub mod spaces;
mod workers;

pub use journal::{Exact, Found, Journal, Key, Outcome, Row};
pub use plan::{Job, Machine, Plan, Program};
pub use spaces::Spaces;
pub use workers::{End, Listener, run};
