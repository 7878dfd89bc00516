//! Decodes a program's instructions, and computes their cycles on a microarchitecture.
//!
//! A recording holds the program's code, and for each access its instruction and the number of instructions before it.
//! The crate works in three steps:
//!
//! 1. [`Code`] decodes the instructions, and finds those between two accesses (`program`).
//! 2. [`Steps`] numbers the paths from one access to the next, and keeps a sample of the accesses (`steps`).
//! 3. [`Timing`] executes the sample on a model of the core (`core`) with the latencies and ports of a
//!    [`Microarchitecture`]. For each step it finds the cycles if all accesses hit the L1 cache, and the loads that the
//!    address of the step's access depends on (`timing`).
//!
//! Pure: this crate reads no file and no clock.

mod class;
mod core;
mod instruction;
mod microarchitecture;
mod predictor;
mod program;
mod steps;
mod timing;

pub use class::Class;
pub use microarchitecture::{Microarchitecture, MicroarchitectureError};
pub use program::Code;
pub use steps::{Cursor, Learner, Steps};
pub use timing::{Dependence, StepTiming, Timing};
