//! What a policy answers to a sample.

use crate::hint::AffinityHint;
use crate::{
    CandidatesCode, ChoiceCode, Configuration, EndedCode, MetricCode, NoteCode, Pinning, SampleCode, TaskMove,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What to do now, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The configuration to apply; `None` leaves everything as it is.
    pub configuration: Option<Configuration>,
    /// How long to let the program run before the next observation.
    pub wait: Duration,
    /// What the policy found out, for the user and the record.
    pub findings: Vec<Finding>,
}

/// What was observed of one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The metric.
    pub name: String,
    /// The unit of the value.
    pub unit: String,
    /// By thread and second where each task counts for itself, by second where the program does; `None` where it could not
    /// be had.
    pub value: Option<f64>,
}

/// One thing that a policy found out. Rates are in the metric's unit per second; `spread` is the sample standard
/// deviation of the rates of the readings within one probe, divided by their mean (the coefficient of variation), and
/// `None` where a probe had fewer than two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// The program is given time to initialise itself; nothing is compared yet.
    Initialising {
        /// How long.
        lasts: Duration,
    },
    /// The metric that decides from now on.
    MetricChosen {
        /// Its name; `None` when no source counted anything.
        metric: Option<String>,
        /// Why this one, for programs.
        code: MetricCode,
        /// Why this one, in words.
        why: String,
    },
    /// The working tasks are known and so the candidates are.
    CandidatesChosen {
        /// How many tasks have ranks.
        threads: usize,
        /// The pinnings that will be tried, in this order; `None` leaves every thread to the operating system.
        pinnings: Vec<Option<Pinning>>,
        /// Where they come from, for programs.
        code: CandidatesCode,
        /// Where they come from, in words.
        why: String,
    },
    /// A candidate has been applied and is looked at shortly, to see whether it is worth a probe.
    Screening {
        /// Position in the list of candidates.
        candidate: usize,
        /// How long at most.
        lasts: Duration,
    },
    /// A candidate has been applied and warms up.
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
    /// A candidate's probe has ended, or the program has during the probe.
    Probed {
        /// Position in the list of candidates.
        candidate: usize,
        /// The average rate, `r_avg` of the paper; `None` when it could not be measured.
        rate: Option<f64>,
        /// Coefficient of variation of the readings.
        spread: Option<f64>,
        /// Over how long. Warming up is excluded, unless the candidate was dropped while it warmed up; its rate is then
        /// that which it was heading for.
        measured: Duration,
        /// Whether the probe ended early because the candidate had lost.
        dropped: bool,
    },
    /// The search has ended and the best candidate is applied.
    Chosen {
        /// Position in the list of candidates.
        candidate: usize,
        /// Its rate over that of the first candidate, minus one.
        gain_over_first: Option<f64>,
        /// Its rate over that of the worst candidate, minus one.
        gain_over_worst: Option<f64>,
        /// Why this one, for programs.
        code: ChoiceCode,
        /// Why this one, in words.
        why: String,
    },
    /// The rate under the chosen pinning, every `t`.
    Rate {
        /// Average rate since the line before; `None` when it could not be measured.
        rate: Option<f64>,
        /// Coefficient of variation of the readings.
        spread: Option<f64>,
    },
    /// The rate fell and stayed down; the search begins again.
    SearchAgain {
        /// The rate at which the pinning was chosen.
        chosen_at: f64,
        /// The rate now.
        now: f64,
    },
    /// The program ended before the search did.
    EndedEarly {
        /// The best of the candidates that were probed; `None` when there is none yet.
        best: Option<usize>,
        /// Its rate.
        rate: Option<f64>,
        /// When it ended, for programs.
        code: EndedCode,
        /// What the program was stopped short of, as a whole sentence.
        why: String,
    },
    /// What the program did for a while, in a placement.
    Sampled {
        /// The affinity hint that gave the placement; `None` where threads were left to the operating system.
        hint: Option<AffinityHint>,
        /// Where the ranks were: their pinning, or of threads that were left to the operating system the PUs on which they were
        /// last seen; `None` where that is not known.
        pus: Option<Pinning>,
        /// How many tasks had ranks.
        threads: usize,
        /// For how long.
        lasts: Duration,
        /// The rate of the metric that decides.
        rate: Option<f64>,
        /// Every metric.
        observed: Vec<Observed>,
        /// The hint that learned rules ask for; `None` where none were asked.
        says: Option<AffinityHint>,
        /// What the rules made of it, for programs.
        code: SampleCode,
        /// Which rule said so, and the values that made it; empty where none were asked.
        why: String,
    },
    /// A task goes elsewhere by itself, as SAM moves them.
    Moved(TaskMove),
    /// Something that a user should know.
    Note {
        /// What it is about, for programs.
        code: NoteCode,
        /// A whole sentence.
        text: String,
    },
}
