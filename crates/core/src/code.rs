//! Codes of reasons, for programs that read JSON. The text beside a code is for people, and may change.
//!
//! `codes!` defines an enumeration of codes. `CODE_SETS` lists all of them, and a test compares the list with
//! docs/formats/codes.md. A set that can grow has `Unknown`: a record of an older pinfold has no code, and one of a
//! later pinfold may have another code. Both are read as `Unknown`. A set without it grows with the version of its
//! file.

use crate::container::{Qos, Runtime};
use crate::memory::{LeftCode, Mismatch};
use crate::{Activity, LeftAlone, MappingCode, MoveReason, ProgressCode};
use serde::{Deserialize, Serialize};

/// The codes that one key of JSON can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSet {
    /// The key, as docs/formats/codes.md names it.
    pub key: &'static str,
    /// The codes, in the order of the enumeration.
    pub codes: &'static [&'static str],
}

/// Every set of codes.
pub const CODE_SETS: &[CodeSet] = &[
    MetricCode::SET,
    CandidatesCode::SET,
    ProposerCode::SET,
    ComparedCode::SET,
    ChoiceCode::SET,
    SampleCode::SET,
    ForecastCode::SET,
    RegionCode::SET,
    EndedCode::SET,
    NoteCode::SET,
    MachineKind::SET,
    RefusalCode::SET,
    BrokenOffCode::SET,
    LeftCode::SET,
    Mismatch::SET,
    MoveReason::SET,
    MappingCode::SET,
    Activity::SET,
    LeftAlone::SET,
    ProgressCode::SET,
    OutcomeCode::SET,
    StayCode::SET,
    HostNoteCode::SET,
    Children::SET,
    PlacedBy::SET,
    Runtime::SET,
    Qos::SET,
];

/// A reason in JSON: an object of both keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ReadReason<Code>", bound(deserialize = "Code: Default + Deserialize<'de>"))]
pub struct Reason<Code> {
    /// For programs.
    pub code: Code,
    /// For people.
    pub why: String,
}

impl<Code> Reason<Code> {
    /// A reason with this text.
    pub fn new(code: Code, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

/// A reason as it is read. Before there were codes it was a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum ReadReason<Code> {
    Coded { code: Code, why: String },
    Text(String),
}

impl<Code: Default> From<ReadReason<Code>> for Reason<Code> {
    fn from(read: ReadReason<Code>) -> Self {
        match read {
            ReadReason::Coded { code, why } => Self { code, why },
            ReadReason::Text(why) => Self::new(Code::default(), why),
        }
    }
}

/// Defines enumerations of codes: `Variant = "code"`. The string after `for` is the key that has the code.
macro_rules! codes {
    ($(
        $(#[$about:meta])*
        pub enum $name:ident for $key:literal { $($(#[$doc:meta])* $variant:ident = $code:literal,)+ }
    )+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $code)] $variant,)+
        }

        impl $name {
            pub(crate) const SET: $crate::code::CodeSet = $crate::code::CodeSet { key: $key, codes: &[$($code),+] };

            /// The code in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }
        }
    )+};
}
pub(crate) use codes;

codes! {
    /// Why a metric was chosen, or none was.
    #[derive(Default)]
    pub enum MetricCode for "metric_code" {
        /// The user named it.
        AskedFor = "asked_for",
        /// Of the metrics that count, it is the nearest to the program's own progress.
        NearestToProgress = "nearest_to_progress",
        /// The user named it, and the machine has none of that name.
        NotThere = "not_there",
        /// The user named it, and it counted nothing.
        AskedForCountedNothing = "asked_for_counted_nothing",
        /// The user named it, and it could not be read.
        AskedForNotReadable = "asked_for_not_readable",
        /// The machine has no source of counts.
        NoSource = "no_source",
        /// No source counted anything.
        NothingCounted = "nothing_counted",
        /// Nothing was counted in earlier runs, which are compared as wholes.
        EarlierRuns = "earlier_runs",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// The source of the candidates.
    #[derive(Default)]
    pub enum CandidatesCode for "candidates_code" {
        /// The user's schedule.
        Schedule = "schedule",
        /// The topology, and the unpinned program.
        Topology = "topology",
        /// On this topology no pinning differs from another, so the program stays unpinned.
        NoDifference = "no_difference",
        /// An affinity hint that the user named.
        Hint = "hint",
        /// Another placement that the user named.
        Placement = "placement",
        /// The behaviour database knows the program.
        KnownProgram = "known_program",
        /// The threads that work did so before, or as many did.
        KnownThreads = "known_threads",
        /// Other threads work, and too many searches have begun within an hour.
        SearchLimit = "search_limit",
        /// The program is unknown, and is sampled.
        Sample = "sample",
        /// A learned rule chose the second candidate.
        Rules = "rules",
        /// A model forecasts that the others may be faster than the first.
        Forecast = "forecast",
        /// The same hint, for another number of threads.
        ThreadsChanged = "threads_changed",
        /// The unpinned program; the others are proposed one by one.
        Proposals = "proposals",
        /// The program ended before a search.
        UntilTheEnd = "until_the_end",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// Who proposed a candidate.
    #[derive(Default)]
    pub enum ProposerCode for "proposals.by" {
        /// The behaviour database: an earlier run of this program.
        Known = "known",
        /// The behaviour database: an earlier run of another build of this program.
        OtherBuild = "other_build",
        /// A model of placement.
        Classify = "classify",
        /// Learned rules for affinity hints.
        Hints = "hints",
        /// SAM's view: threads share data.
        Sharing = "sharing",
        /// SAM's view: threads need memory bandwidth.
        Contention = "contention",
        /// The times of parallel regions in the tried configurations: each region gets its fastest one.
        Regions = "regions",
        /// The topology: one of the placements that differ most.
        Topology = "topology",
        /// The neighbourhood of the best one so far.
        Neighbour = "neighbour",
        /// The best one of the phase before.
        Phase = "phase",
        /// The user, who named a device that the program shall be near.
        User = "user",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// The result of comparing two candidates in turns.
    #[derive(Default)]
    pub enum ComparedCode for "comparisons.code" {
        /// It is faster by more than the noise.
        Faster = "faster",
        /// Its gain is below the smallest one that is worth looking for.
        NotFaster = "not_faster",
        /// The noise is larger than the difference.
        NotKnown = "not_known",
        /// The machine refused it, or nothing was counted with it.
        NotMeasured = "not_measured",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// Why a region has its configuration.
    #[derive(Default)]
    pub enum RegionCode for "regions.code" {
        /// A model forecast it, and the region is faster than unpinned.
        Forecast = "forecast",
        /// It is the faster one of the two profiled configurations, because the model said nothing.
        FasterProfile = "faster_profile",
        /// It is the configuration of the region whose pages were kept, and this region is faster with it.
        Shared = "shared",
        /// It is the configuration of the region with the largest share of the time. Executions are too short for a
        /// change.
        Merged = "merged",
        /// It is not faster than unpinned itself, but all regions together are slower with it unpinned.
        Together = "together",
        /// It is one profiled configuration for all regions. Together they are faster with it than with their own
        /// choices.
        Uniform = "uniform",
        /// It was fastest there of all that was tried for the whole program.
        FastestTried = "fastest_tried",
        /// It runs where the rest of the program is.
        Program = "program",
        /// Nothing was faster than unpinned.
        NotFaster = "not_faster",
        /// It was not executed often enough to be measured.
        Rare = "rare",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// When the program ended, if that was before the end of the search.
    #[derive(Default)]
    pub enum EndedCode for "ended_early.code" {
        /// Before a metric was chosen.
        BeforeMetric = "before_metric",
        /// During the search.
        DuringSearch = "during_search",
        /// Before a sample was complete.
        DuringSample = "during_sample",
        /// Before a move that rules chose was verified.
        BeforeCheck = "before_check",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// The subject of a note.
    #[derive(Default)]
    pub enum NoteCode for "notes.code" {
        /// Something that the machine could not observe or do.
        Machine = "machine",
        /// The program's threads are idle.
        Idle = "idle",
        /// A function is looked for whose calls show the program's progress.
        LooksForFunction = "looks_for_function",
        /// There are more threads than PUs.
        MoreThreadsThanPus = "more_threads_than_pus",
        /// Threads begin and end all the time.
        ThreadsChange = "threads_change",
        /// No rate could be measured, and the first candidate is kept.
        NothingMeasured = "nothing_measured",
        /// The search begins again, because the rate fell.
        SearchAgain = "search_again",
        /// A move that rules chose did not help, and was rolled back.
        RolledBack = "rolled_back",
        /// The thresholds of SAM.
        Thresholds = "thresholds",
        /// SAM moves no thread.
        NoMoves = "no_moves",
        /// SAM's activities that were not available for any task.
        ActivitiesMissing = "activities_missing",
        /// The program has another phase.
        Phase = "phase",
        /// Other threads work than before, so that threads are pinned again.
        Threads = "threads",
        /// How the configurations of parallel regions are found, or why they are not.
        Regions = "regions",
        /// The run took longer than expected in its area, and was unpinned.
        Stopped = "stopped",
        /// A policy in another process has chosen.
        PolicyIsDone = "policy_is_done",
        /// A policy in another process has failed, and the program is unpinned.
        PolicyFailed = "policy_failed",
        /// What a sweep within one run measures, or why it does not.
        Sweep = "sweep",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// Where the values of a machine come from.
    #[derive(Default)]
    pub enum MachineKind for "machine_kind" {
        /// The program really ran, and was measured.
        Live = "live",
        /// A model or a script computes them.
        Simulated = "simulated",
        /// They were measured before, and are replayed from a table.
        Table = "table",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// What the machine did not change.
    #[derive(Default)]
    pub enum RefusalCode for "refused.code" {
        /// A task stays on the PUs where it was.
        Task = "task",
        /// Pages stay where they are.
        Pages = "pages",
        /// Pages stay where they are, because moving them would take longer than the policy allows.
        PagesTooLong = "pages_too_long",
        /// Prefetchers stay as they are.
        Prefetchers = "prefetchers",
        /// Parallel regions are not configured one by one, or not with this number of threads.
        Regions = "regions",
        /// Threads are not pinned, because another run of pinfold has pinned its program to one of the PUs.
        Claimed = "claimed",
        /// Unpinned threads are not limited to some PUs.
        Limit = "limit",
        /// The table of measurements does not have the configuration, so threads are not pinned.
        Unmeasured = "unmeasured",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// Why the candidate was kept.
    #[derive(Default)]
    pub enum ChoiceCode for "chosen.code" {
        /// Its rate was the highest of those that were measured.
        HighestRate = "highest_rate",
        /// No pinning was faster than unpinned by more than the noise.
        NoPinningBetter = "no_pinning_better",
        /// The behaviour database knows the program.
        KnownProgram = "known_program",
        /// The rules chose the placement that the program had while it was sampled.
        SamplePlacement = "sample_placement",
        /// The rate with the rules' hint was not worse.
        HintKept = "hint_kept",
        /// The rules' hint was kept without a second sample.
        HintNotVerified = "hint_not_verified",
        /// The rate with the rules' hint was not better, and the move was rolled back.
        HintRolledBack = "hint_rolled_back",
        /// The number of working threads changed; the hint is the same.
        ThreadsChanged = "threads_changed",
        /// The rate with the default strategy was higher than unpinned, and no other strategy was tried.
        DefaultStrategy = "default_strategy",
        /// It was faster than the unpinned program, in turns with it.
        FasterInTurns = "faster_in_turns",
        /// The user asked for it, and nothing was faster.
        Requested = "requested",
        /// A model is sure that placement does not matter to the program.
        Insensitive = "insensitive",
        /// The phase of the program is one that was searched before.
        KnownPhase = "known_phase",
        /// It was best for the threads that work, or for as many, before.
        KnownThreads = "known_threads",
        /// Other threads work, and too many searches have begun within an hour.
        SearchLimit = "search_limit",
        /// The rate with a strategy was higher than unpinned by more than the noise.
        StrategyKept = "strategy_kept",
        /// The rate with no strategy was higher than unpinned, and nothing is pinned any more.
        StrategyRolledBack = "strategy_rolled_back",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// The result of the rules for a sample.
    #[derive(Default)]
    pub enum SampleCode for "samples.code" {
        /// A rule holds.
        Rule = "rule",
        /// No rule holds, and the default applies.
        DefaultRule = "default_rule",
        /// There are no rules.
        NoRules = "no_rules",
        /// The sample is kept for the behaviour database, and the rules were not evaluated.
        NotEvaluated = "not_evaluated",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// What follows from a model's forecast.
    #[derive(Default)]
    pub enum ForecastCode for "forecast.code" {
        /// The program takes about as long in any strategy.
        Insensitive = "insensitive",
        /// The default is the fastest strategy.
        DefaultIsBest = "default_is_best",
        /// Another strategy is the fastest.
        Strategy = "strategy",
        /// Several strategies may be the fastest.
        Unsure = "unsure",
        /// A figure that the model needs is not known.
        NotKnown = "not_known",
        /// The machine is unlike those that the model was learned from.
        OtherMachine = "other_machine",
        /// There is no model.
        NoModel = "no_model",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// Why a migration of pages ended early.
    #[derive(Default)]
    pub enum BrokenOffCode for "page_moves.broken_off.code" {
        /// The program has ended.
        Ended = "ended",
        /// The user interrupted pinfold.
        Interrupted = "interrupted",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// What became of a move that the daemon decided.
    pub enum OutcomeCode for "last_move.outcome" {
        /// The task is there.
        Made = "made",
        /// The daemon moves nothing, because the user wants a dry run.
        Shown = "shown",
        /// The task has ended.
        Gone = "gone",
        /// The task stays where it is.
        Refused = "refused",
        /// The task stays or went back, because its partner in the swap stays.
        PartnerStays = "partner_stays",
    }

    /// Why a task that the daemon wants to move stays.
    #[derive(Default)]
    pub enum StayCode for "last_move.refused.code" {
        /// The task or another program chose its mask.
        OwnMask = "own_mask",
        /// pinfold has no permission to move it.
        Forbidden = "forbidden",
        /// It may run on one PU only.
        OnePu = "one_pu",
        /// It has real-time priority.
        RealTime = "real_time",
        /// Its mask changed since pinfold read or set it.
        MaskChanged = "mask_changed",
        /// The PU is not in the task's original mask, is offline, or is outside the cpuset.
        PuNotAllowed = "pu_not_allowed",
        /// The journal cannot be written.
        JournalNotWritten = "journal_not_written",
        /// The kernel refused the call for another reason.
        KernelRefused = "kernel_refused",
        /// Any other.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }

    /// What a note of the daemon's log is about.
    pub enum HostNoteCode for "note.code" {
        /// Another program set the mask of a pinned task, and the task is left alone.
        MaskTakenOver = "mask_taken_over",
        /// A pinned task has all PUs of its cpuset again.
        MaskReset = "mask_reset",
        /// The daemon has no permission to move a task.
        NotMovable = "not_movable",
        /// The daemon has no permission to count a task.
        CountersForbidden = "counters_forbidden",
        /// The counters of a task could not be opened for another reason.
        NotCounted = "not_counted",
        /// Children of pinned tasks get their mask when they are found, and not before they run.
        ChildrenWhenMet = "children_when_met",
        /// The behaviour database cannot be read, so that no program is known from earlier runs.
        NothingKnown = "nothing_known",
        /// Programs of this machine are known again, which an older pinfold had learned under another identity of it.
        KnownAgain = "known_again",
        /// Functions cannot be probed, so that their calls show no progress.
        NoFunctions = "no_functions",
        /// Tasks are pinned, because the kernel cannot run the scheduler in which they have preferences.
        NoScheduler = "no_scheduler",
        /// The scheduler in which tasks have preferences has ended.
        SchedulerEnded = "scheduler_ended",
    }

    /// How tasks are placed.
    #[derive(Default)]
    pub enum PlacedBy for "with" {
        /// It sets their masks.
        #[default]
        Masks = "masks",
        /// A scheduler in the kernel knows where they prefer to run.
        Scx = "scx",
    }

    /// When a child of a pinned task gets the mask that its creator had.
    #[derive(Default)]
    pub enum Children for "children" {
        /// Before it runs.
        AtBirth = "at_birth",
        /// When it is found, at most one interval later.
        #[default]
        WhenMet = "when_met",
    }
}
