//! Spaces of configurations, and one program in one of them: what `pinfold sweep` does again and again.
//!
//! - A [`Point`] is one configuration with the names by which data sets know it; [`space`] has the spaces that have
//!   names, [`SpaceFile`] those that a user writes.
//! - [`evaluate`] simulates a program at one point and gives plain data, of the whole program and of each region.
//! - [`Metrics`] says what of it a data set shows, under the names of the machine's own events.

mod evaluate;
mod metrics;
mod point;
mod repetitions;
pub mod space;
mod space_file;

pub use evaluate::{Evaluation, Part, evaluate};
pub use metrics::{MetricColumn, Metrics};
pub use point::{PAGE_MAPS, Point, ThreadMap, page_map_name};
pub use space_file::{SpaceError, SpaceFile};
