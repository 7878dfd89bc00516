//! Simulates recordings in spaces of configurations on simulated machines, and writes one data set.
//!
//! 1. `plan`: machines, programs and spaces become jobs. Each job has a key of everything on which its result depends.
//!    Where the number of threads is a part of a configuration, `joined` finds the recordings that are of one program.
//! 2. `journal`: the results of an unfinished sweep. A later run of the same plan reads them back.
//! 3. `workers`: run the remaining jobs on several threads.
//! 4. `shard`: a part of the jobs, its file, and the data set of all parts.
//! 5. `data_set`: the only writer of data sets (docs/formats/data-sets.md), of sweeps and of samples.
//!
//! `spaces` is the registry of the values of `--space`: a space is a file in that folder and a line in `SPACES`.

pub mod data_set;
mod joined;
mod journal;
mod parquet_table;
mod plan;
pub mod shard;
pub mod spaces;
mod workers;

pub use journal::{Exact, Found, Journal, Key, Outcome, Row};
pub use plan::{Extent, Job, Machine, Plan, Program};
pub use shard::Shard;
pub use spaces::Spaces;
pub use workers::{End, Listener, run};
