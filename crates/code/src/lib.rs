//! What a program's instructions do, and how many cycles they take on a microarchitecture.
//!
//! A recording holds the program's code, and for each access its instruction and the number of instructions before it.
//! From these:
//!
//! 1. [`Code`] decodes the instructions, and finds those between two accesses (`program`).
//! 2. [`Steps`] numbers the ways from one access to the next, and keeps a sample of the accesses (`steps`).
//! 3. [`Timing`] executes the sample on a model of the core (`core`) with the latencies and ports of a
//!    [`Microarchitecture`], and takes from it, for each step, its cycles where all accesses hit the first cache, and
//!    the loads from which the address of its access is computed (`timing`).
//!
//! This is pure: no file is read and no clock.

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
