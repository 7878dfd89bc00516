//! What the mapper takes as much, and which of its abilities beyond the paper are used.

use serde::{Deserialize, Serialize};

/// What share of its time a task loses to an event that comes as often as its threshold: the paper's definition of a
/// threshold (section 2.1, "a degradation of >5%").
pub(super) const LOSS_AT_THRESHOLD: f64 = 0.05;

/// From which share of the threshold on traffic is faint, and below nothing. Where threads wait for each other, each
/// waits for all that the slowest has lost, and what is counted shows only a part of what sharing costs.
pub(super) const FAINT: f64 = 0.125;

/// From which rates on a bottleneck is one (section 2 of the paper). All are events per unhalted cycle: of one task,
/// but for `package_memory`. `pinfold calibrate` measures them; a TOML file has these keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Where the numbers come from, for people.
    #[serde(default)]
    pub source: String,
    /// `C_T`: coherence events of a task, per unhalted cycle; the same for those within a package and those between
    /// packages.
    pub coherence: f64,
    /// `R_T`: accesses of a task to another node's memory, per unhalted cycle.
    pub remote: f64,
    /// `M_T` of a task: its last-level-cache misses per unhalted cycle, from which on it is memory-intensive.
    pub memory: f64,
    /// The last-level-cache misses of all tasks of a package together, per cycle, from which on its memory is
    /// saturated. The paper has one symbol, `M_T`, for this and for the one above.
    pub package_memory: f64,
}

/// A threshold that is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the threshold `{name}` is {value}; it must be a rate above zero, in events per unhalted cycle")]
pub struct ThresholdsError {
    name: &'static str,
    value: f64,
}

impl Thresholds {
    /// Those that the paper measured on two E5-2660 v2 of 2.2 GHz: 2.5e-4 coherence events (section 2.1) and 0.034 LLC
    /// misses of a package (section 2.2) a cycle. It names no number for the other two. Assumed are: for remote
    /// accesses that of coherence events, since both fetch a line across the same link; for a task's memory a tenth of
    /// the package's, its fair share of ten cores.
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

    /// Whether each is a rate.
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

/// What the mapper does beyond the paper. Each can be switched off by itself; `PAPER` has none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, and experiments turn them one by one"
)]
pub struct MapperOptions {
    /// A task that was moved stays for some intervals, and longer each time that it comes back to where it was.
    pub hysteresis: bool,
    /// A move must be expected to gain more than it costs.
    pub cost_gain: bool,
    /// A move for coherence that did not turn traffic between domains into traffic within one, or after which the tasks
    /// got less done, is undone and not tried again.
    pub validation: bool,
    /// Tasks of a process are taken to share with each other, until it is seen which of them do.
    pub learn_groups: bool,
    /// Tasks of a process with less coherence traffic than the threshold, but not much less, are brought together for a
    /// trial, where there is room for all of them; they stay if they get more done so. Needs
    /// `validation` and `learn_groups`.
    pub faint_sharers: bool,
    /// Memory-intensive tasks are spread over memories that are busy and not yet saturated, for a trial, and stay if
    /// they get more done so. Needs `validation`.
    pub faint_contention: bool,
    /// A task with remote accesses goes back to where its memory was seen to be local, whoever moved it.
    pub learn_homes: bool,
}

impl MapperOptions {
    /// Nothing beyond the paper.
    pub const PAPER: Self = Self {
        hysteresis: false,
        cost_gain: false,
        validation: false,
        learn_groups: false,
        faint_sharers: false,
        faint_contention: false,
        learn_homes: false,
    };
}

impl MapperOptions {
    /// Whether all is there that trying faint sharers needs.
    pub(super) fn tries_faint_sharers(self) -> bool {
        self.faint_sharers && self.validation && self.learn_groups
    }

    /// Whether all is there that trying to spread memory-intensive tasks needs.
    pub(super) fn tries_faint_contention(self) -> bool {
        self.faint_contention && self.validation
    }
}

impl Default for MapperOptions {
    fn default() -> Self {
        Self {
            hysteresis: true,
            cost_gain: true,
            validation: true,
            learn_groups: true,
            faint_sharers: true,
            faint_contention: true,
            learn_homes: true,
        }
    }
}
