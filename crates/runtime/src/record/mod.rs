//! The record of a run: one set of types, which `pinfold run --json` writes and `pinfold explain` reads.
//!
//! `RecordBuilder` makes a record of the events of a run. `RunDocument` is the file: the record, and additions of the
//! command line and the simulator. `explanation` puts it into words.

mod builder;
mod by_policy;
mod document;
mod explanation;
mod gain;
mod policy_kind;
mod replay;
mod shortened;
mod timeline;

pub use builder::RecordBuilder;
pub use by_policy::PolicyRecord;
pub use document::{NumaBalancing, ReadError, RunDocument, SimulatedProgram, Simulation};
pub use gain::Gain;
pub use policy_kind::{DecidesOn, PolicyKind};
pub use replay::Replay;
pub use shortened::LeftOut;
pub use timeline::{
    MetricSeries, NodeSeries, NodeTraffic, TaskPlaces, TimedConfiguration, Timeline, every_second_point,
};

use crate::MetricRate;
use pinfold_core::function::FoundFunction;
use pinfold_core::hint::AffinityHint;
use pinfold_core::memory::{PageMoves, Profiled, Sampled};
use pinfold_core::{
    BelievedTrial, CandidatesCode, ChoiceCode, ComparedCode, EndedCode, ForecastCode, MachineKind, MappingComparison,
    MetricCode, NoteCode, Observed, OwnFinding, PageMapping, Pinning, ProgramGain, ProposerCode, PuSet, Refusal,
    RegionChoice, RegionId, SampleCode, Scope, StrategyForecast, TaskMove,
};
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};

/// A whole run. Times are in seconds since the program began, rates in the metric's unit per second. Keys that an older
/// pinfold did not write are read as unknown or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The machine's name.
    pub machine: String,
    /// Whether the program did not really run: then nothing here was measured in this run.
    pub simulated: bool,
    /// Where the values come from; unknown in older files, which `kind` reads.
    pub machine_kind: MachineKind,
    /// The policy's name.
    pub policy: String,
    /// The metric that decided; `None` when no source counted anything.
    pub metric: Option<MetricRecord>,
    /// The reason for that metric, or for none. Its keys are beside the others, as the keys of all groups below are.
    #[serde(flatten)]
    pub metric_reason: MetricReason,
    /// The last search.
    #[serde(flatten)]
    pub search: Search,
    /// The searches before the last, the first one first.
    pub earlier_searches: Vec<Search>,
    /// The rate lines.
    pub rates: Vec<RateLine>,
    /// Further messages to the user.
    pub notes: Vec<TimedNote>,
    /// The changes that the machine refused, each reason once.
    pub refused: Vec<Refusal>,
    /// What only some policies record.
    #[serde(flatten)]
    pub by_policy: PolicyRecord,
    /// What happened to pages.
    #[serde(flatten)]
    pub pages: PageRecord,
    /// The program and its end.
    #[serde(flatten)]
    pub program: ProgramRecord,
    /// The course of the run; `None` if it was not recorded.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "on_one_line")]
    pub timeline: Option<Timeline>,
}

impl Record {
    /// Where the values come from. Before there were tables, a program ran or was simulated.
    pub fn kind(&self) -> MachineKind {
        match (self.machine_kind, self.simulated) {
            (MachineKind::Unknown, true) => MachineKind::Simulated,
            (MachineKind::Unknown, false) => MachineKind::Live,
            (kind, _) => kind,
        }
    }
}

/// Long lists of numbers, which would otherwise have a line for each.
#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
fn on_one_line<S: Serializer>(timeline: &Option<Timeline>, serializer: S) -> Result<S::Ok, S::Error> {
    let line = serde_json::value::to_raw_value(timeline).map_err(S::Error::custom)?;
    line.serialize(serializer)
}

/// Why a metric decided, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricReason {
    /// For programs.
    pub metric_code: Option<MetricCode>,
    /// The same in words.
    pub metric_why: Option<String>,
}

/// Who proposed a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// When.
    pub at: f64,
    /// The search, from 0: its position among the earlier searches, or their number for the last one.
    pub search: usize,
    /// Position among that search's candidates, from 0.
    pub candidate: usize,
    /// Who, for programs.
    #[serde(default)]
    pub by: ProposerCode,
    /// The mapping of its pages; `None` leaves them alone.
    pub pages: Option<PageMapping>,
    /// The expected rate over the unpinned program's, minus one; `None` if nothing was forecast.
    pub gain: Option<f64>,
    /// Why it may be faster, in words.
    pub why: String,
}

/// Two candidates that were compared in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// When the comparison ended.
    pub at: f64,
    /// The search, as in a proposal.
    pub search: usize,
    /// Position among that search's candidates, from 0.
    pub candidate: usize,
    /// Position of the other one.
    pub with: usize,
    /// Its rate over the other's, minus one; `None` if nothing could be measured.
    pub gain: Option<f64>,
    /// The standard error of the gain.
    pub error: Option<f64>,
    /// The number of turns.
    pub turns: usize,
    /// The result, for programs.
    #[serde(default)]
    pub code: ComparedCode,
}

/// What was believed of a trial before and after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedBelief {
    /// When the trial ended.
    pub at: f64,
    /// The search, as in a proposal.
    pub search: usize,
    /// The trial.
    #[serde(flatten)]
    pub trial: BelievedTrial,
}

/// What a placement model forecast of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// When.
    pub at: f64,
    /// What the model saw of the program and the machine.
    pub observed: Vec<Observed>,
    /// The strategies, the current one first; empty if the model gave no answer.
    pub strategies: Vec<StrategyForecast>,
    /// What followed from it, for programs.
    #[serde(default)]
    pub code: ForecastCode,
    /// The same in words.
    pub why: String,
}

/// The configurations of a program's parallel regions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regions {
    /// When they were chosen.
    pub at: f64,
    /// The mapping of the pages since then; `None` if they were left alone.
    pub pages: Option<PageMapping>,
    /// The former time of all regions over their time in the configurations, minus one.
    pub gain: Option<f64>,
    /// The gain of the whole program in the configurations. Without a gain they were not kept.
    #[serde(default)]
    pub program: Option<ProgramGain>,
    /// The regions, those that take most of the time first.
    pub choices: Vec<RegionChoice>,
}

impl Regions {
    /// How many regions have a configuration.
    pub fn kept(&self) -> usize {
        self.choices
            .iter()
            .filter(|choice| choice.pus.is_some() || choice.threads.is_some())
            .count()
    }

    /// What the whole program gains.
    pub fn program_gain(&self) -> Option<Gain> {
        self.program.map(|program| Gain {
            ratio: 1.0 + program.gain,
            error: Some(program.error),
        })
    }
}

/// What happened to pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageRecord {
    /// The result of each migration of pages.
    pub page_moves: Vec<TimedMoves>,
    /// The result of each sampling of accesses.
    pub page_samples: Vec<TimedSamples>,
    /// The result of each matching of a recording with the program.
    pub page_profiles: Vec<TimedProfile>,
}

/// The program and its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramRecord {
    /// The search that the end of the program interrupted.
    pub ended_early: Option<EndedEarly>,
    /// The number of tasks that the program had, threads and processes together.
    pub tasks: u64,
    /// How long the program ran, or was attached to; `None` during the run.
    pub ran: Option<f64>,
    /// The exit status of the program, or 128 plus the number of the signal; `None` while it runs, also after the run
    /// of an attached program.
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
    /// The function whose calls are counted; `None` for another metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<FoundFunction>,
}

impl MetricRecord {
    /// The name, and the function that was found.
    pub fn described(&self) -> String {
        match &self.function {
            Some(function) => format!("{} ({function})", self.name),
            None => self.name.clone(),
        }
    }

    /// What rates of two runs must have in common to compare: the metric, and the function that was found.
    pub fn identity(&self) -> String {
        let function = self.function.as_ref().map(FoundFunction::identity);
        function.unwrap_or_else(|| self.name.clone())
    }
}

/// One search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    /// How many tasks had ranks; `None` before it is known.
    pub threads: Option<usize>,
    /// The source of the candidates, for programs.
    pub candidates_code: Option<CandidatesCode>,
    /// The same in words.
    pub candidates_why: Option<String>,
    /// The candidates, in the planned order.
    pub candidates: Vec<Candidate>,
    /// The choice; `None` when there was none.
    pub chosen: Option<Chosen>,
}

/// One candidate and its rate. What was not measured is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The PU of each rank; `None` for unpinned threads.
    pub pus: Option<Pinning>,
    /// The PUs that unpinned threads may use; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<PuSet>,
    /// The mapping that pages were moved by; absent if they were left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageMapping>,
    /// The parallel regions that have a placement of their own; absent for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<CandidateRegion>,
    /// The average rate.
    pub rate: Option<f64>,
    /// Coefficient of variation of the readings.
    pub spread: Option<f64>,
    /// The standard error of the average rate; `None` after too few readings, and in older files.
    #[serde(default)]
    pub error: Option<f64>,
    /// How long it was measured.
    pub measured: Option<f64>,
    /// Whether it was dropped early, because it had lost.
    #[serde(default)]
    pub dropped: bool,
    /// Why its threads ran unpinned when it was applied last; absent if they were pinned. Its rates then belong to
    /// unpinned threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_pinned: Option<String>,
    /// The rates of all metrics during that time; empty before it was measured.
    #[serde(default)]
    pub metrics: Vec<MetricRate>,
}

/// A parallel region with another placement than the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateRegion {
    /// The region.
    pub region: RegionId,
    /// The PU of each thread of its team; `None` for unpinned threads.
    pub pus: Option<Pinning>,
}

/// The pinning that was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// Position among the candidates, from 0.
    pub candidate: usize,
    /// The PU of each rank; `None` for unpinned threads, also where the candidate could not be applied.
    pub pus: Option<Pinning>,
    /// The PUs that unpinned threads may use; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<PuSet>,
    /// Its rate.
    pub rate: Option<f64>,
    /// Coefficient of variation of its readings.
    pub spread: Option<f64>,
    /// Its rate over the first candidate's, minus one.
    pub gain_over_first: Option<f64>,
    /// Its rate over the worst candidate's, minus one.
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
    /// The average since the previous line.
    pub rate: Option<f64>,
    /// Coefficient of variation of the readings.
    pub spread: Option<f64>,
    /// The rates of all metrics during that time.
    #[serde(default)]
    pub metrics: Vec<MetricRate>,
}

/// A message to the user.
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

/// The result of a migration of pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedMoves {
    /// When it ended.
    pub at: f64,
    /// The result.
    #[serde(flatten)]
    pub moves: PageMoves,
}

/// A move of a single task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedMove {
    /// When.
    pub at: f64,
    /// The move.
    #[serde(flatten)]
    pub moved: TaskMove,
}

/// A comparison of the moves with the unpinned program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedComparison {
    /// When it ended.
    pub at: f64,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: MappingComparison,
}

/// A finding that only one policy has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedFinding {
    /// When.
    pub at: f64,
    /// The finding.
    #[serde(flatten)]
    pub finding: OwnFinding,
}

/// An observation of the program in the placement of an affinity hint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HintSample {
    /// When it ended.
    pub at: f64,
    /// The hint; `None` for unpinned threads.
    pub hint: Option<AffinityHint>,
    /// The PU of each rank, or its last known PU; `None` if unknown.
    pub pus: Option<Pinning>,
    /// How many tasks had ranks.
    pub threads: usize,
    /// For how long, in seconds.
    pub lasted: f64,
    /// The rate of the metric that decides.
    pub rate: Option<f64>,
    /// Every metric.
    pub observed: Vec<Observed>,
    /// The hint of the rules; `None` if no rule was evaluated.
    pub says: Option<AffinityHint>,
    /// What the rules made of it, for programs.
    #[serde(default)]
    pub code: SampleCode,
    /// The rule that gave it, and the values in its conditions.
    pub why: String,
}

/// The result of sampling accesses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedSamples {
    /// When it ended.
    pub at: f64,
    /// The result.
    #[serde(flatten)]
    pub sampled: Sampled,
}

/// The result of matching a recording with the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedProfile {
    /// When it ended.
    pub at: f64,
    /// The result.
    #[serde(flatten)]
    pub profiled: Profiled,
}

/// A search that the end of the program interrupted.
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
