//! A program alone and under policies, compared by the times of several runs.
//!
//! 1. [`Turns`] says which variant runs next: A B C A B C. If the machine becomes slower or faster during the
//!    comparison, this affects all variants.
//! 2. [`Comparison`] keeps the runs. [`Summary`] has the statistics of one variant, and [`Relative`] compares two.
//! 3. [`table`] is the result for people, [`Document`] for programs, and [`export`] for spreadsheets and documents.
//!
//! Pure: this crate starts no process and reads no clock. The `clippy.toml` beside its manifest enforces this. `pinfold
//! compare` runs the program.

mod choice;
mod comparison;
mod document;
pub mod export;
mod notes;
mod relative;
mod summary;
pub mod table;
mod turns;

pub use choice::{Choice, Choices};
pub use comparison::{Comparison, FinishedRun, LeftOut, Role, Simulated, Variant};
pub use document::Document;
pub use relative::{Difference, Relative};
pub use summary::Summary;
pub use turns::{Extent, Turn, Turns};
