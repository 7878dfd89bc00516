//! The rates that make sharing and memory a bottleneck, as SAM measures them (Srikanthan, Dwarkadas and Shen, USENIX
//! ATC 2015, sections 2.1 and 2.2).
//!
//! - **Coherence**: the rate of coherence events of a thread that gains more than 5 % under the same last-level cache
//!   as the thread that it shares data with. It is read from the curve of figure 1, along the logarithm of the rate.
//! - **Memory of a package**: 20 % below the count when all its cores copy memory. The paper takes the curve of low
//!   locality because it is the lower one, so that every program that saturates memory is found. pinfold takes the
//!   lower of the two curves: if prefetched lines do not count as misses, this is the curve of high locality.
//! - **Memory of a task**: the package's, divided by its cores. **Remote**: the same as coherence, because both fetch a
//!   line across the same link. The paper has no microbenchmark for these two.
//!
//! The points of the curves are simulated (`simulated`) or measured (`points`, with `formula` for the counted events).
//! `curves` computes the thresholds of both kinds in the same way, and `origin` distinguishes the kinds wherever they
//! are shown.

mod chart;
mod crossing;
mod curves;
mod file;
mod formula;
mod origin;
mod points;
mod simulated;

pub use chart::{Chart, Line, svg};
pub use curves::{Copied, CopyPoint, Curves, Figure, SharingPoint, ThresholdError};
pub use file::{Clock, FileError, parse, text};
pub use formula::Formula;
pub use origin::{MeasuredOrigin, Origin, cpu_list};
pub use points::{copied, shared};
pub use simulated::{SimulationError, simulate};
