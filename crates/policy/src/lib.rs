//! To be written.

pub mod candidates;
