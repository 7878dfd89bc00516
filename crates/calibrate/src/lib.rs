//! From measurements of a machine to what other commands use: its model, and the thresholds of SAM's mapper.
//!
//! - `model`: a machine model from the figures of `pinfold_core::measurement`, each number with its source.
//! - `thresholds`: curves of two microbenchmarks, simulated or measured, and the thresholds that follow from them.
//! - `activities`: which events of a processor count SAM's activities, and the thresholds of a model.
//! - `Places`: on which PUs the microbenchmarks of thresholds run.
//!
//! Pure: no input or output happens here, and no clock is read; `clippy.toml` beside this crate's manifest enforces it.

pub mod activities;
mod json;
pub mod model;
mod places;
pub mod thresholds;

pub use json::calibration as calibration_json;
pub use places::{Places, PlacesError};
