//! The loop of a run, for any policy on any machine; the record of a run; and the daemon's loop, on any `Host`.
//!
//! This crate uses machines and policies through the traits `Machine`, `Host` and `Policy` only.

pub mod daemon;
mod record;
mod recorder;
mod run;
mod shown;
mod totals;

pub use record::{
    Candidate, CandidateRegion, Chosen, Comparison, DecidesOn, EndedEarly, Gain, HintSample, LeftOut, MetricReason,
    MetricRecord, MetricSeries, NodeSeries, NodeTraffic, NumaBalancing, PageRecord, PolicyKind, PolicyRecord,
    ProgramRecord, Proposal, RateLine, ReadError, Record, RecordBuilder, Replay, RunDocument, Search, SimulatedProgram,
    Simulation, TaskPlaces, TimedBelief, TimedComparison, TimedConfiguration, TimedFinding, TimedMove, TimedMoves,
    TimedNote, TimedProfile, TimedSamples, Timeline, every_second_point,
};
pub use recorder::Recorder;
pub use run::run;
pub use shown::to_be_shown;
pub use totals::{MetricRate, Totals};
