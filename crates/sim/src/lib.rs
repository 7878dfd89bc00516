//! Simulated machines. A modelled machine runs a recording and shows the counters that a real machine would show. A
//! scripted machine has given rates and tests the loop and the policies. A table machine replays times that were
//! measured before.
//!
//! - [`model`] describes a machine; [`window`] simulates a region of interest of a program on it in detail;
//! - [`RecordedProgram`] makes a program of a recording;
//! - `timeline` advances the repetitions of one program, or of several side by side, at the rates of windows;
//! - [`sweep`] simulates a program in many configurations, one at a time;
//! - [`sampled`] estimates the same from simulations of a few pieces of the program;
//! - [`table`] has programs whose times were measured in many configurations;
//! - [`thresholds`] has the microbenchmarks of SAM;
//! - [`SimulatedMachine`] shows all this as a `Machine`, under the names of [`EventSet`].

mod events;
mod kernel;
mod machine;
pub mod microbenchmarks;
pub mod misses;
pub mod model;
mod noise;
mod program;
mod recorded;
pub mod sampled;
mod script;
mod scripted;
pub mod sweep;
pub mod table;
pub mod thresholds;
mod timeline;
pub mod window;

pub use events::{CACHES, EventDefinition, EventSet, MetricDefinition, READS};
pub use kernel::{Kernel, NoNumaBalancing, UnknownKernel};
pub use machine::{
    EndSwitch, MUCH_UNRECORDED_WAIT, NamedProgram, ProgramProgress, RECORD_REGIONS, Repeat, RunSettings,
    SimulatedMachine,
};
pub use program::SimulatedProgram;
pub use recorded::{Coverage, ProgramCode, RecordedProgram};
pub use script::{Script, ScriptError};
pub use scripted::Scripted;
pub use timeline::{Counter, Energy, NumaBalancingCounts, WindowStore};
