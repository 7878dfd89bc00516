//! Text for people: topologies and findings as lines, recordings and machine models as tables, and the daemon's state
//! as a frame of a terminal.
//!
//! Pure: the caller reads the data, and prints the text.

pub mod daemon;
pub mod findings;
pub mod model;
pub mod recording;
pub mod run_summary;
pub mod topology;
