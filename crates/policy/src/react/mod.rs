//! `react`: threads, pages and prefetchers of each parallel region, from two profiles (Sánchez Barrera, Black-Schaffer,
//! Casas, Moretó, Stupnikova and Popov, "Modeling and Optimizing NUMA Effects and Prefetching with Machine Learning", ICS
//! 2020, section 6).
//!
//! `file` reads models, which the Python package learns; `model` forecasts a configuration; `counters` are those that a
//! model may look at; `words` tells a model; `policy` is the online method, `neighbours` what it tries near the fastest
//! profile, `plan` what it requests of a machine, and `timing` how it times regions.

mod counters;
mod file;
mod model;
mod neighbours;
mod plan;
mod policy;
mod timing;
mod words;

pub use file::ReactModelError;
pub use model::{ModelConfiguration, ModelFeature, ReactModel, Score, UnsuitableMachine};
pub use neighbours::{MOST_NEIGHBOURS, Size, all_neighbours};
pub use policy::{React, ReactOptions};
