//! The record of a run: one set of types, which `pinfold run --json` writes and `pinfold explain` reads.
//!
//! `RecordBuilder` makes a record of the events of a run. `RunDocument` is the file: the record, and what the command line and
//! the simulator add. `explanation` puts it into words.

mod builder;
mod document;
mod explanation;

pub use builder::RecordBuilder;
pub use document::{ReadError, RunDocument, SimulatedProgram, Simulation};

use crate::MetricRate;
use pinfold_core::hint::AffinityHint;
use pinfold_core::memory::{PageMoves, Profiled, Sampled};
use pinfold_core::{
    CandidatesCode, ChoiceCode, EndedCode, MetricCode, NoteCode, Observed, Pinning, Refusal, SampleCode, Scope,
    TaskMove,
};
use serde::{Deserialize, Serialize};

/// A whole run. Times are in seconds since the program began, rates in the metric's unit per second. Keys that an older
/// pinfold did not write are read as unknown or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The machine's name.
    pub machine: String,
    /// Whether it was simulated: then nothing here was measured.
    pub simulated: bool,
    /// The policy's name.
    pub policy: String,
    /// The metric that decided; `None` when no source counted anything.
    pub metric: Option<MetricRecord>,
    /// Why that metric, or why none, for programs.
    pub metric_code: Option<MetricCode>,
    /// The same in words.
    pub metric_why: Option<String>,
    /// The last search; its fields stand beside the others.
    #[serde(flatten)]
    pub search: Search,
    /// The searches before the last, the first one first.
    pub earlier_searches: Vec<Search>,
    /// The rate lines.
    pub rates: Vec<RateLine>,
    /// What the user was told besides.
    pub notes: Vec<TimedNote>,
    /// What the machine refused, each reason once.
    pub refused: Vec<Refusal>,
    /// What came of moving pages, each time that some were to be moved.
    pub page_moves: Vec<TimedMoves>,
    /// What was observed for a learned policy, and what it said; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<HintSample>,
    /// The tasks that were moved by themselves, each time; absent where no policy does that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<TimedMove>,
    /// What came of sampling accesses, each time that this was done.
    pub page_samples: Vec<TimedSamples>,
    /// What came of bringing a recording's accesses to the program, each time that this was done.
    pub page_profiles: Vec<TimedProfile>,
    /// What the program's end cut short.
    pub ended_early: Option<EndedEarly>,
    /// How many tasks the program has had, threads and processes together.
    pub tasks: u64,
    /// How long the program ran; `None` while it does.
    pub ran: Option<f64>,
    /// How the program ended: its exit status, or 128 and the number of the signal; `None` while it runs.
    pub exit_status: Option<i32>,
}

/// The metric that decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricRecord {
    /// The name that `--metric` takes.
    pub name: String,
    /// What one count is.
    pub unit: String,
    /// Whether a rate is the average of the working tasks or the program's.
    pub scope: Scope,
}

/// One search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    /// How many tasks had ranks; `None` before it is known.
    pub threads: Option<usize>,
    /// Where the candidates came from, for programs.
    pub candidates_code: Option<CandidatesCode>,
    /// The same in words.
    pub candidates_why: Option<String>,
    /// What was tried or was to be tried.
    pub candidates: Vec<Candidate>,
    /// The choice; `None` when there was none.
    pub chosen: Option<Chosen>,
}

/// One pinning and how it did. What was not measured is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The PUs by rank; `None` for threads that are left to the operating system.
    pub pus: Option<Pinning>,
    /// The average rate.
    pub rate: Option<f64>,
    /// Coefficient of variation of the readings.
    pub spread: Option<f64>,
    /// For how long it was measured.
    pub measured: Option<f64>,
    /// Whether it was dropped before its time was up, because it had lost.
    #[serde(default)]
    pub dropped: bool,
    /// What every metric did meanwhile, the one that decides among them; empty before it was measured.
    #[serde(default)]
    pub metrics: Vec<MetricRate>,
}

/// The pinning that was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// Position among the candidates, from 0.
    pub candidate: usize,
    /// The PUs by rank; `None` for threads that are left to the operating system.
    pub pus: Option<Pinning>,
    /// Its rate.
    pub rate: Option<f64>,
    /// Coefficient of variation of its readings.
    pub spread: Option<f64>,
    /// Its rate over that of the first candidate, minus one.
    pub gain_over_first: Option<f64>,
    /// Its rate over that of the worst candidate, minus one.
    pub gain_over_worst: Option<f64>,
    /// When it was chosen.
    pub at: f64,
    /// Why, for programs.
    #[serde(default)]
    pub code: ChoiceCode,
    /// The same in words; `None` in records of version 1.
    #[serde(default)]
    pub why: Option<String>,
}

/// The rate after the choice, at the end of one `t`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLine {
    /// When.
    pub at: f64,
    /// The average since the line before.
    pub rate: Option<f64>,
    /// Coefficient of variation of the readings.
    pub spread: Option<f64>,
    /// What every metric did meanwhile.
    #[serde(default)]
    pub metrics: Vec<MetricRate>,
}

/// Something that the user was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedNote {
    /// When.
    pub at: f64,
    /// What it is about, for programs.
    #[serde(default)]
    pub code: NoteCode,
    /// A whole sentence.
    pub text: String,
}

/// What came of moving pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedMoves {
    /// When it was done.
    pub at: f64,
    /// What came of it.
    #[serde(flatten)]
    pub moves: PageMoves,
}

/// One task that was moved by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedMove {
    /// When.
    pub at: f64,
    /// From where to where, and why.
    #[serde(flatten)]
    pub moved: TaskMove,
}

/// What was observed of the program in the placement of an affinity hint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HintSample {
    /// When it ended.
    pub at: f64,
    /// The hint; `None` where threads were left to the operating system.
    pub hint: Option<AffinityHint>,
    /// Where the ranks were, or were last seen; `None` where that is not known.
    pub pus: Option<Pinning>,
    /// How many tasks had ranks.
    pub threads: usize,
    /// For how long, in seconds.
    pub lasted: f64,
    /// The rate of the metric that decides.
    pub rate: Option<f64>,
    /// Every metric.
    pub observed: Vec<Observed>,
    /// The hint that the rules asked for; `None` where none were asked.
    pub says: Option<AffinityHint>,
    /// What the rules made of it, for programs.
    #[serde(default)]
    pub code: SampleCode,
    /// Which rule said so, and the values that made it.
    pub why: String,
}

/// What came of sampling accesses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedSamples {
    /// When it was done.
    pub at: f64,
    /// What came of it.
    #[serde(flatten)]
    pub sampled: Sampled,
}

/// What came of bringing a recording's accesses to the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedProfile {
    /// When it was done.
    pub at: f64,
    /// What came of it.
    #[serde(flatten)]
    pub profiled: Profiled,
}

/// What the end of the program cut short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedEarly {
    /// The best candidate so far.
    pub best: Option<usize>,
    /// Its rate.
    pub rate: Option<f64>,
    /// When it ended, for programs.
    #[serde(default)]
    pub code: EndedCode,
    /// A whole sentence.
    pub why: String,
}
