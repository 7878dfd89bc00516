//! Codes of reasons: what a program that reads JSON branches on. The text beside a code is for people, and may change.
//!
//! A code that this pinfold does not know is read as `Unknown`: an older pinfold wrote none, and a later one may write more.

use serde::{Deserialize, Serialize};

/// Why a metric was chosen, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricCode {
    /// The user named it.
    AskedFor,
    /// It is the nearest to the program's own progress that counts.
    NearestToProgress,
    /// The user named it, and the machine has none of that name.
    NotThere,
    /// The user named it, and it counted nothing.
    AskedForCountedNothing,
    /// The user named it, and it could not be read.
    AskedForNotReadable,
    /// The machine has no source of counts.
    NoSource,
    /// No source counted anything.
    NothingCounted,
    /// Any other.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Where candidates come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidatesCode {
    /// The user's schedule.
    Schedule,
    /// The topology, beside threads that are left to the operating system.
    Topology,
    /// On this topology no pinning differs from another, so threads are left to the operating system.
    NoDifference,
    /// An affinity hint that the user named.
    Hint,
    /// The behaviour database knows the program.
    KnownProgram,
    /// The program is not known, and is sampled.
    Sample,
    /// A learned rule asks for the second candidate.
    Rules,
    /// The same hint, for another number of threads.
    ThreadsChanged,
    /// What ran until the program ended, before any search.
    UntilTheEnd,
    /// Any other.
    #[default]
    #[serde(other)]
    Unknown,
}

/// When the program ended, where that was before the policy had finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedCode {
    /// Before a metric was chosen.
    BeforeMetric,
    /// During the search.
    DuringSearch,
    /// Before a sample was complete.
    DuringSample,
    /// Before a move that rules asked for was checked.
    BeforeCheck,
    /// Any other.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What a note is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteCode {
    /// What the machine could not observe or do.
    Machine,
    /// The threads of the program do not run.
    Idle,
    /// There are more threads than PUs.
    MoreThreadsThanPus,
    /// Threads begin and end all the time.
    ThreadsChange,
    /// No rate could be measured, and the first candidate is kept.
    NothingMeasured,
    /// The search begins again, because the rate fell.
    SearchAgain,
    /// A move that rules asked for did not help, and was rolled back.
    RolledBack,
    /// The thresholds of SAM.
    Thresholds,
    /// SAM moves no thread.
    NoMoves,
    /// SAM's activities that could be had of no task.
    ActivitiesMissing,
    /// Any other.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What the machine did not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// A task stays on the PUs where it was.
    Task,
    /// Pages stay where they are.
    Pages,
    /// Prefetchers stay as they are.
    Prefetchers,
    /// Any other.
    #[default]
    #[serde(other)]
    Unknown,
}
