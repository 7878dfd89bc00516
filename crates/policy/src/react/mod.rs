//! `react`: threads, pages and prefetchers of each parallel region, from two profiles (Sánchez Barrera, Black-Schaffer,
//! Casas, Moretó, Stupnikova and Popov, "Modeling and Optimizing NUMA Effects and Prefetching with Machine Learning",
//! ICS 2020, section 6).
//!
//! `file` reads models, which the Python package learns. `model` forecasts a configuration from `counters`, and `words`
//! prints a model. `policy` is the online method: it times regions with `timing`, and requests a `plan` of the machine.
//! A `chooser` is a model, or a belief that plans trials in a `space` of configurations.

mod chooser;
mod counters;
mod file;
mod model;
mod plan;
mod policy;
mod space;
mod timing;
mod words;

pub use chooser::Chooser;
pub use file::ReactModelError;
pub use model::{ModelConfiguration, ModelFeature, ReactModel, Score, UnsuitableMachine};
pub use policy::{React, ReactOptions};
