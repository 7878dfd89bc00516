//! A run, two runs, or the log of a daemon, as one HTML page; a machine as a picture.
//!
//! The page needs nothing but itself: no network, no font, no library. Its policy for contents (CSP) allows the one
//! style and the one script of this crate by their hashes, and nothing else. Each drawing has a table with the same
//! contents. Without the script the page shows the last moment.
//!
//! Pure: the caller reads the record and writes the result.

mod chart;
mod course;
pub mod daemon;
mod decisions;
mod layout;
mod machine;
mod nodes;
mod numbers;
mod occupancy;
pub mod picture;
mod run;
mod shell;
mod timeline;
mod words;

pub use run::{Additions, Ceilings, Exchanges, NamedRun, page as run, pair_page as two_runs};
