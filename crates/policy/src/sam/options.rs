//! The thresholds of the mapper, and the switches for its abilities beyond the paper.

use serde::{Deserialize, Serialize};

/// Traffic above this share of the threshold is faint traffic. Less counts as none. Threads that wait for each other
/// all wait for the slowest one, so counts show only a part of the cost of sharing. Assumed: eight threads that wait
/// for each other can lose eight times as much as one of them.
pub(super) const FAINT: f64 = 0.125;

/// The least rates of a bottleneck: a task loses more than 5 % of its time (section 2.1 of the paper). All are
/// events per unhalted cycle: of one task, except for `package_memory`. `pinfold calibrate` measures them; a TOML file
/// has these keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// The source of the numbers, as text.
    #[serde(default)]
    pub source: String,
    /// `C_T`: coherence events of a task, per unhalted cycle; the same for those within a package and those between
    /// packages.
    pub coherence: f64,
    /// `R_T`: accesses of a task to another node's memory, per unhalted cycle.
    pub remote: f64,
    /// `M_T` of a task: a task with more last-level-cache misses per unhalted cycle is memory-intensive.
    pub memory: f64,
    /// `M_T` of a package: if all its tasks together have more last-level-cache misses per cycle, its memory is
    /// saturated. The paper has one symbol for this threshold and the one above.
    pub package_memory: f64,
}

/// A threshold is not a rate above zero.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the threshold `{name}` is {value}; it must be a rate above zero, in events per unhalted cycle")]
pub struct ThresholdsError {
    name: &'static str,
    value: f64,
}

impl Thresholds {
    /// The paper's, of two E5-2660 v2 with 2.2 GHz: 2.5e-4 coherence events (section 2.1) and 0.034 LLC misses of a
    /// package (section 2.2) per cycle. It has no number for the other two. For remote accesses the threshold of
    /// coherence events is assumed, since both fetch a line across the same link. For a task's memory a tenth of the
    /// package's is assumed, its fair share among ten cores.
    pub fn paper() -> Self {
        Self {
            source: "Srikanthan, Dwarkadas and Shen (USENIX ATC 2015), sections 2.1 and 2.2; remote and memory assumed"
                .to_owned(),
            coherence: 2.5e-4,
            remote: 2.5e-4,
            memory: 0.0034,
            package_memory: 0.034,
        }
    }

    /// The same, with faint coherence traffic above its threshold.
    pub(crate) fn faint(&self) -> Self {
        Self {
            coherence: FAINT * self.coherence,
            ..self.clone()
        }
    }

    /// Whether each threshold is a rate.
    pub fn check(&self) -> Result<(), ThresholdsError> {
        let all = [
            ("coherence", self.coherence),
            ("remote", self.remote),
            ("memory", self.memory),
            ("package_memory", self.package_memory),
        ];
        match all.into_iter().find(|&(_, value)| !(value.is_finite() && value > 0.0)) {
            Some((name, value)) => Err(ThresholdsError { name, value }),
            None => Ok(()),
        }
    }
}

/// The mapper's abilities beyond the paper. Each can be switched off; `PAPER` has none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, and experiments turn them one by one"
)]
pub struct MapperOptions {
    /// A task that was moved stays for some intervals, and longer each time that it returns. A task that goes back to
    /// its memory takes the place of no other task whose memory is there.
    pub hysteresis: bool,
    /// A move for coherence is rolled back and not tried again if it did not turn traffic between domains into traffic
    /// within one, or if the tasks made less progress after it.
    pub validation: bool,
    /// Tasks of a process are assumed to share data with each other, until it is known which of them do.
    pub learn_groups: bool,
    /// Tasks of a process with a little less coherence traffic than the threshold are gathered for a trial, if a domain
    /// has room for all of them. They stay if they make more progress. Needs `validation` and `learn_groups`.
    pub faint_sharers: bool,
    /// A task with remote accesses goes back to where its memory was seen to be local, also if Linux moved it.
    pub learn_homes: bool,
    /// All moves are compared with the unpinned machine, in turns. They stay only if a process makes more progress with
    /// them, and none makes less.
    pub comparison: bool,
    /// The pages of processes that make less progress because their tasks were moved to another node move there, too,
    /// before the moves are given up. Needs `comparison`.
    pub pages: bool,
    /// A process whose program is known from earlier runs goes to its fastest placement, if no other process works on
    /// these cores. Needs `comparison`.
    pub known: bool,
}

impl MapperOptions {
    /// Nothing beyond the paper.
    pub const PAPER: Self = Self {
        hysteresis: false,
        validation: false,
        learn_groups: false,
        faint_sharers: false,
        learn_homes: false,
        comparison: false,
        pages: false,
        known: false,
    };
}

impl MapperOptions {
    /// Whether the abilities that faint sharers need are on.
    pub(super) fn tries_faint_sharers(self) -> bool {
        self.faint_sharers && self.validation && self.learn_groups
    }
}

impl Default for MapperOptions {
    fn default() -> Self {
        Self {
            hysteresis: true,
            validation: true,
            learn_groups: true,
            faint_sharers: true,
            learn_homes: true,
            comparison: true,
            pages: true,
            known: true,
        }
    }
}
