//! Sweeps within one run: the configurations of a space for a program that runs, and the data set of what was measured.
//!
//! - `space`: the configurations with their columns;
//! - `record`: what the journal keeps, and `history` what it has of earlier runs;
//! - `rows`: the data set.

mod history;
mod record;
mod rows;
mod space;

pub use history::History;
pub use pinfold_dataset::MachineState;
pub use record::{WithinBegin, WithinComplete, WithinEnd, WithinIdentity, WithinRecord, WithinSubject, WithinTurn};
pub use rows::{MeasuredPart, WithinProgram, within_data_set};
pub use space::{WithinConfiguration, WithinSelection, WithinSpace};
