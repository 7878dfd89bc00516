//! The behaviour database: the observed behaviour of programs, the affinity hints that they got, and their effect
//! (Moore and Childers, "Automatic Generation of Program Affinity Policies Using Machine Learning", CC 2012, section 2
//! and figure 3).
//!
//! The database is one `SQLite` file in WAL mode. Several pinfolds write at the same time, in short transactions, and a
//! kill loses at most the open transaction. A damaged file is renamed, and a new one is made. A file of a later
//! pinfold, and a file of another program, is not changed.
//!
//! 1. `program`: the identity of programs and machines.
//! 2. `lock`: the lock that permits renaming the file.
//! 3. `schema`: opening and making the file.
//! 4. `store`: writing and reading.
//! 5. `learner`: what a run of the policy `hints` reads and adds.
//! 6. `placements`: what a run of the policy `auto` reads and adds.
//! 7. `runs`: whole runs of programs, for `auto`.
//! 8. `adopt`: programs of this machine under an older identity.
//! 9. `samples`: the samples as a data set.

mod adopt;
mod learner;
mod lock;
mod placements;
mod program;
mod runs;
pub mod samples;
mod schema;
mod store;

pub use learner::{Afterwards, LearnedRules, Learner};
pub use placements::{PlacementLearner, PlacementRow};
pub use program::{MachineKey, ProgramKey, shape};
pub use runs::{BegunRun, EndedRun, HistoryRow, RunRow};
pub use schema::{Opened, StoreError};
pub use store::{Choice, Forgotten, Growth, KnownHint, ObservedRow, SampleRow, Store, StoredProgram, hint_text};
