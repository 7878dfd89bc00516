//! Runs of a program on this machine as a sweep. Everything here is pure: the command line runs the program.
//!
//! 1. `plan`: the configurations, the references, and the keys.
//! 2. `course`: which configuration runs next. Rounds are made of `blocks`. `estimate` and `drift` say which medians
//!    are certain enough.
//! 3. `run`: a run as the journal keeps it, with the `state` of the machine.
//! 4. `runs`: all runs become a data set, or the file of a shard. `merge`: the runs of all shards. `notes`: what the user
//!    should know.

mod blocks;
mod course;
mod drift;
mod estimate;
mod merge;
mod notes;
mod plan;
mod run;
mod runs;
mod state;

pub use course::{Course, Extent};
pub use drift::{Drift, TimedRun};
pub use estimate::{TimeEstimate, typical_deviation};
pub use merge::{is_shard_of_runs, merge_runs};
pub use notes::notes;
pub use plan::{MeasuredJob, MeasuredMachine, MeasuredPlan, MeasuredProgram};
pub use run::{MeasuredRun, RunEnd};
pub use runs::{Runs, Sheet};
pub use state::{MachineState, joint};
