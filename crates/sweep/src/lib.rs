//! Simulates recordings in spaces of configurations on simulated machines, and makes one data set of the results.
//!
//! 1. `plan`: machines, programs and spaces become jobs. The key of a job is a hash of everything that its result
//!    depends on. If the number of threads is a part of a configuration, `joined` finds the recordings that belong to
//!    one program.
//! 2. `journal`: the results of an unfinished sweep. A later run of the same plan reads them back.
//! 3. `workers`: run the remaining jobs on several threads.
//! 4. `rows`: the data set of the outcomes. `subject` has the common columns of a job, `regions` the completeness of
//!    regions.
//! 5. `shard`: a part of the jobs, its file, and the data set of all parts.
//! 6. `notes`: warnings for the user about the plan and the results.
//!
//! `measured` measures by whole runs, and `within` while a program runs once.
//!
//! `spaces` has the values of `--space`. Its configurations depend on a topology only, of a simulated machine or of the
//! machine at hand.

mod joined;
mod journal;
pub mod measured;
mod notes;
mod placements;
mod plan;
mod regions;
mod rows;
pub mod shard;
pub mod spaces;
mod subject;
pub mod within;
mod workers;

pub use joined::CodePlace;
pub use journal::{Exact, Journal, JournalContent, Kept, Key, Outcome, OutcomeRow};
pub use notes::{outcome_notes, plan_notes};
pub use plan::{Extent, Job, Plan, SweptMachine, SweptProgram};
pub use rows::data_set;
pub use shard::Shard;
pub use spaces::{Point, SPACES, Selection, SpaceMachine, Spaces};
pub use workers::{End, run};
