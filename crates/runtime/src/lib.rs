//! The loop that every policy runs in, on every machine, and the record that it leaves; and the daemon's loop, on any `Host`.
//!
//! Nothing here knows which machine or which policy it has: only the traits `Machine`, `Host` and `Policy`.

pub mod daemon;
mod record;
mod recorder;
mod run;
mod totals;

pub use record::{
    Candidate, Chosen, EndedEarly, HintSample, MetricRecord, RateLine, ReadError, Record, RecordBuilder, RunDocument,
    Search, SimulatedProgram, Simulation, TimedMove, TimedMoves, TimedNote, TimedProfile, TimedSamples,
};
pub use recorder::Recorder;
pub use run::run;
pub use totals::{MetricRate, Totals};
