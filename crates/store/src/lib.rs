//! The behaviour database: what was observed of programs, which affinity hint they were given, and what came of it (Moore and
//! Childers, "Automatic Generation of Program Affinity Policies Using Machine Learning", CC 2012, section 2 and figure 3).
//!
//! One `SQLite` file, in WAL mode: several pinfolds write at once, each in short transactions, and a kill at any moment loses at
//! most what was about to be written. A file that is damaged is set aside, and a new one begun; one of a newer pinfold and one
//! that is not pinfold's are left as they are.
//!
//! 1. `program`: what makes two runs runs of the same program.
//! 2. `lock`: who may rename the file.
//! 3. `schema`: opening and making the file.
//! 4. `store`: what is written and read.
//! 5. `learner`: what a run of the policy `hints` adds and takes.
//! 6. `samples`: the samples as a data set.

mod learner;
mod lock;
mod program;
pub mod samples;
mod schema;
mod store;

pub use learner::{Afterwards, LearnedRules, Learner};
pub use program::{Machine, ProgramKey, shape};
pub use schema::{Opened, StoreError};
pub use store::{Choice, Forgotten, Growth, KnownHint, ObservedRow, Program, SampleRow, Store, hint_text};
