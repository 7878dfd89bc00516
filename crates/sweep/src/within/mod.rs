//! Sweeps within one run: the configurations of a space for a program that runs, and the data set of what was measured.
//!
//! - `space`: the configurations with their columns;
//! - `rows`: the data set.

mod rows;
mod space;

pub use pinfold_dataset::MachineState;
pub use rows::{MeasuredPart, WithinProgram, within_data_set};
pub use space::{WithinConfiguration, WithinSelection, WithinSpace};
