//! Pictures for people, drawn into text: a topology as lines, and the daemon's state as a frame of a terminal.
//!
//! Pure: the caller reads what is drawn, and prints it.

pub mod daemon;
pub mod topology;
