//! The simulation of one program in one configuration. `pinfold sweep` repeats it for each configuration of its spaces.
//!
//! - [`evaluate`] simulates a program in a configuration and returns plain data, for the whole program and for each
//!   region; [`evaluate_sampled`] simulates pieces of it.
//! - [`likwid_values`] are the counters of LIKWID that the paper of the space `ics20` learns from.
//! - [`Metrics`] says what a data set shows of it, under the names of the machine's own events.

mod evaluate;
mod likwid;
mod metrics;
mod repetitions;

pub use evaluate::{Evaluation, RegionFigures, evaluate, evaluate_sampled};
pub use likwid::{likwid_columns, likwid_values};
pub use metrics::Metrics;
