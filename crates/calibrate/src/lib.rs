//! Turns measurements of a machine into its model and into the thresholds of SAM's mapper.
//!
//! - `model`: a machine model from the figures of `pinfold_core::measurement`, each number with its source.
//! - `thresholds`: curves of two microbenchmarks, simulated or measured, and their thresholds.
//! - `activities`: the events of a processor for SAM's activities, and the thresholds of a model.
//! - `peaks_of_model`: the bandwidth and latency limits of a machine, for placement models.
//! - `Places`: the PUs for the microbenchmarks of thresholds.
//!
//! Pure: this crate reads no clock and does no input or output. The `clippy.toml` beside its manifest enforces this.

pub mod activities;
mod json;
pub mod model;
mod peaks;
mod places;
pub mod thresholds;

pub use json::calibration as calibration_json;
pub use peaks::peaks_of_model;
pub use places::{Places, PlacesError};
