//! A policy's answer to a sample.

use crate::function::{FoundFunction, FunctionRequest};
use crate::hint::AffinityHint;
use crate::{
    BelievedTrial, CandidatesCode, ChoiceCode, ComparedCode, Configuration, EndedCode, ForecastCode, MappingComparison,
    MetricCode, NoteCode, OwnFinding, PageMapping, Pinning, Prefetchers, ProposerCode, PuSet, RegionCode,
    RegionConfiguration, RegionId, SampleCode, TaskMove, ThreadMap,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What to do now, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The configuration to apply; `None` for no change.
    pub configuration: Option<Configuration>,
    /// How long to let the program run before the next observation.
    pub wait: Duration,
    /// The policy's findings, for the user and the record.
    pub findings: Vec<Finding>,
    /// What the machine shall do about a function that shows progress; `None` for no change.
    pub function: Option<FunctionRequest>,
}

/// The value of one metric in a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The metric.
    pub name: String,
    /// The unit of the value.
    pub unit: String,
    /// Per thread and second where each task has a count, per second where the program has one; `None` if it is not
    /// available.
    pub value: Option<f64>,
}

/// What a model forecasts for a program in a strategy of placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrategyForecast {
    /// Where the threads are.
    pub threads: ThreadMap,
    /// Where the pages are.
    pub pages: PageMapping,
    /// The time divided by the time in the current strategy.
    pub time_ratio: f64,
    /// The lower end of the interval that contains it for nine programs in ten; `None` if unknown.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// The configuration of one parallel region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionChoice {
    /// The region.
    pub region: RegionId,
    /// Its share of the time of all regions, unpinned.
    pub share: f64,
    /// Seconds of one execution, unpinned; `None` if it was not measured.
    pub before: Option<f64>,
    /// Seconds of one execution as it runs now; `None` if it was not measured.
    pub after: Option<f64>,
    /// The number of threads of its team; `None` for the program's own.
    pub threads: Option<usize>,
    /// The PUs of its threads; `None` for unpinned threads.
    pub pus: Option<Pinning>,
    /// The prefetchers that are on while it runs; `None` for the whole program's setting.
    pub prefetch: Option<Prefetchers>,
    /// Why, as a code.
    #[serde(default)]
    pub code: RegionCode,
    /// Why, as text.
    pub why: String,
}

/// The whole program with configured parallel regions, compared in turns with the program as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramGain {
    /// Its rate over that before, minus one.
    pub gain: f64,
    /// The standard error of the gain.
    pub error: f64,
}

/// One finding of a policy. Rates are in the metric's unit per second. `spread` is the coefficient of variation: the
/// sample standard deviation of the rates of the readings within one probe, divided by their mean. It is `None` for
/// fewer than two readings.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// No placement differs from another on this machine, so nothing is measured.
    NothingToGain {
        /// What of the machine makes all placements alike, as a clause.
        why: String,
    },
    /// The initialisation of the program begins; nothing is compared yet.
    Initialising {
        /// How long.
        lasts: Duration,
    },
    /// The metric that decides from now on.
    MetricChosen {
        /// Its name; `None` when no source counted anything.
        metric: Option<String>,
        /// Why this one, as a code.
        code: MetricCode,
        /// Why this one, as text.
        why: String,
        /// The function whose calls are counted, if the metric is `function`.
        function: Option<FoundFunction>,
    },
    /// The working tasks are known, and so are the candidates.
    CandidatesChosen {
        /// How many tasks have ranks.
        threads: usize,
        /// The candidates, in this order; `None` is the unpinned program.
        pinnings: Vec<Option<Pinning>>,
        /// Their source, as a code.
        code: CandidatesCode,
        /// Their source, as text.
        why: String,
    },
    /// A candidate is added to the list: somebody expects something of it.
    Proposed {
        /// Its pinning; `None` for the unpinned program.
        pus: Option<Pinning>,
        /// The PUs of unpinned threads; `None` for all.
        within: Option<PuSet>,
        /// The mapping of its pages; `None` leaves them alone.
        pages: Option<PageMapping>,
        /// The parallel regions that have a placement of their own; empty for none.
        regions: BTreeMap<RegionId, RegionConfiguration>,
        /// Who proposes it.
        by: ProposerCode,
        /// Its expected rate over the unpinned program's, minus one; `None` if nothing is forecast.
        gain: Option<f64>,
        /// Why it may be faster, as text.
        why: String,
    },
    /// Two candidates were compared in turns.
    Compared {
        /// Position in the list of candidates.
        candidate: usize,
        /// Position of the one that it was compared with.
        with: usize,
        /// Its rate over the other's, minus one; `None` if nothing could be measured.
        gain: Option<f64>,
        /// The standard error of the gain.
        error: Option<f64>,
        /// The number of turns: in each, both were measured.
        turns: usize,
        /// Its mean rate in these turns.
        rate: Option<f64>,
        /// For how long it was measured.
        measured: Duration,
        /// The result, as a code.
        code: ComparedCode,
    },
    /// What a belief expected of a trial, and what it learned from it.
    Believed(BelievedTrial),
    /// A candidate was applied, and its screening begins.
    Screening {
        /// Position in the list of candidates.
        candidate: usize,
        /// How long at most.
        lasts: Duration,
    },
    /// A candidate was applied and warms up.
    WarmingUp {
        /// Position in the list of candidates.
        candidate: usize,
        /// How long.
        lasts: Duration,
    },
    /// A candidate's probe begins.
    Probing {
        /// Position in the list of candidates.
        candidate: usize,
        /// How long.
        lasts: Duration,
    },
    /// A candidate's probe has ended, or the program ended during the probe.
    Probed {
        /// Position in the list of candidates.
        candidate: usize,
        /// The average rate, `r_avg` of the paper; `None` when it could not be measured.
        rate: Option<f64>,
        /// Coefficient of variation of the readings.
        spread: Option<f64>,
        /// The standard error of the rate; `None` if there are too few readings to know it.
        error: Option<f64>,
        /// The duration of the measurement. The warm-up is excluded, unless the candidate was dropped during it; its
        /// rate is then an extrapolation.
        measured: Duration,
        /// Whether the probe ended early because the candidate had lost.
        dropped: bool,
    },
    /// The search has ended and the best candidate is applied.
    Chosen {
        /// Position in the list of candidates.
        candidate: usize,
        /// Its rate over the first candidate's, minus one.
        gain_over_first: Option<f64>,
        /// Its rate over the worst candidate's, minus one.
        gain_over_worst: Option<f64>,
        /// Why this one, as a code.
        code: ChoiceCode,
        /// Why this one, as text.
        why: String,
    },
    /// The rate under the chosen pinning, every `t`.
    Rate {
        /// Average rate since the line before; `None` when it could not be measured.
        rate: Option<f64>,
        /// Coefficient of variation of the readings.
        spread: Option<f64>,
    },
    /// The rate fell and stays low; the search begins again.
    SearchAgain {
        /// The pinning's rate when it was chosen.
        chosen_at: f64,
        /// The rate now.
        now: f64,
    },
    /// The program ended before the search did.
    EndedEarly {
        /// The best probed candidate; `None` before the first probe.
        best: Option<usize>,
        /// Its rate.
        rate: Option<f64>,
        /// The phase of the search when the program ended, as a code.
        code: EndedCode,
        /// What the program's end prevented, as a whole sentence.
        why: String,
    },
    /// The behaviour of the program for a while, in one placement.
    Sampled {
        /// The affinity hint of the placement; `None` for the unpinned program.
        hint: Option<AffinityHint>,
        /// The PUs of the ranks: their pinning, or for an unpinned program the PUs on which they were last seen; `None`
        /// where these are not known.
        pus: Option<Pinning>,
        /// How many tasks had ranks.
        threads: usize,
        /// For how long.
        lasts: Duration,
        /// The rate of the metric that decides.
        rate: Option<f64>,
        /// Every metric.
        observed: Vec<Observed>,
        /// The hint that learned rules chose; `None` without rules.
        says: Option<AffinityHint>,
        /// The result of the rules, as a code.
        code: SampleCode,
        /// The rule that fired and its values; empty without rules.
        why: String,
    },
    /// A model forecasts the program in each strategy of placement.
    Forecast {
        /// What the model sees of the program and the machine. Units are meanings.
        observed: Vec<Observed>,
        /// The strategies, the current one first; empty if the model gives no answer.
        strategies: Vec<StrategyForecast>,
        /// What follows from it, as a code.
        code: ForecastCode,
        /// What follows from it, as text.
        why: String,
    },
    /// Each region has its configuration from now on. A region without a kept one is unpinned.
    RegionsChosen {
        /// Where the pages are; `None` if pages were left alone.
        pages: Option<PageMapping>,
        /// The former time of all regions over their time in the configurations, minus one; `None` if it was not
        /// measured.
        gain: Option<f64>,
        /// What the whole program gains; `None` if that was not measured.
        program: Option<ProgramGain>,
        /// The regions, those that take most of the time first.
        regions: Vec<RegionChoice>,
    },
    /// SAM moves one task.
    Moved(TaskMove),
    /// SAM's moves were compared with the unpinned program.
    MappingCompared(MappingComparison),
    /// A finding that only one policy has.
    Own(OwnFinding),
    /// A note for the user.
    Note {
        /// Its subject, as a code.
        code: NoteCode,
        /// A whole sentence.
        text: String,
    },
}
