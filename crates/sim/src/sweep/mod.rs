//! Spaces of configurations, and the simulation of one program in one configuration. `pinfold sweep` repeats it for
//! each.
//!
//! - A [`Point`] is one configuration with its names in data sets. [`space`] has the named spaces, and [`SpaceFile`]
//!   those that a user writes.
//! - [`evaluate`] simulates a program at one point and returns plain data, for the whole program and for each region;
//!   [`evaluate_sampled`] simulates pieces of it.
//! - [`ics20`] is the space that also varies the number of threads.
//! - [`likwid_values`] are the counters of LIKWID that this space's paper learns from.
//! - [`Metrics`] says what a data set shows of it, under the names of the machine's own events.

mod evaluate;
pub mod ics20;
mod likwid;
mod metrics;
mod point;
mod repetitions;
pub mod space;
mod space_file;
mod thread_map;

pub use evaluate::{Evaluation, Part, evaluate, evaluate_sampled};
pub use likwid::{likwid_columns, likwid_values};
pub use metrics::{MetricColumn, Metrics};
pub use point::{PAGE_MAPS, Point, page_map_name};
pub use space_file::{SpaceError, SpaceFile};
pub use thread_map::map_threads;
