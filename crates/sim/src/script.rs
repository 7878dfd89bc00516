//! The script of a scripted machine: a TOML file with the rate of a program under each placement.
//!
//! ```
//! let script: pinfold_sim::Script = r#"
//!     topology = "synthetic:package:2 l3:1 core:2 pu:1"  # as --machine takes it
//!     threads = 2             # begin with the program; more in [[thread]]
//!     duration = 300.0        # seconds, or `work`: how many steps the program makes in all
//!     noise = 0.03            # relative standard deviation of the rate over a tenth of a second
//!     warm_up = 2.0           # time constant in seconds with which the rate recovers after threads were moved
//!
//!     [[phase]]
//!     start = 0.0
//!     rate = 100.0            # steps a second of each working thread, wherever it runs
//!     [[phase.pinning]]
//!     pus = "0,2"             # the PUs of the working threads in the order of their creation
//!     rate = 120.0
//! "#
//! .parse()
//! .unwrap();
//! assert_eq!(script.topology(), "synthetic:package:2 l3:1 core:2 pu:1");
//! ```

use pinfold_core::{Metric, MetricSource, ParsePuSetError, PuId, PuSet, Scope, sources};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

/// A parsed script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    topology: String,
    /// Tasks that begin with the program.
    pub(crate) threads: NonZeroU32,
    /// Serials of the tasks that use no processor time.
    #[serde(default)]
    pub(crate) helpers: Vec<u64>,
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) noise: Amount,
    /// First-order autocorrelation of the noise from one tenth of a second to the next.
    #[serde(default)]
    pub(crate) noise_correlation: Share,
    #[serde(default)]
    pub(crate) warm_up: Seconds,
    /// The share of the rate that is lost right after threads were moved.
    #[serde(default = "all")]
    pub(crate) cold: Share,
    pub(crate) duration: Option<Seconds>,
    pub(crate) work: Option<Amount>,
    #[serde(default)]
    pub(crate) exit_status: u8,
    /// PUs that no task can be moved to.
    #[serde(default)]
    pub(crate) refused: PuSet,
    #[serde(default, rename = "metric")]
    metrics: Option<Vec<ScriptMetric>>,
    #[serde(rename = "phase")]
    pub(crate) phases: Vec<Phase>,
    #[serde(default, rename = "thread")]
    pub(crate) later: Vec<Thread>,
}

/// A phase of the program, until the next one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phase {
    pub(crate) start: Seconds,
    /// Steps per second of each working thread if none of the pinnings applies.
    pub(crate) rate: Amount,
    /// Steps per second of each working thread that is not pinned; `rate` if it is absent.
    pub(crate) unpinned: Option<Amount>,
    /// The same for unpinned threads that are limited to some PUs; as `unpinned` if it is absent.
    pub(crate) limited: Option<Amount>,
    /// The factor on `unpinned` for each other working thread in the same last-level-cache domain.
    #[serde(default = "one")]
    pub(crate) llc_sharing: Amount,
    /// Whether all threads are idle.
    #[serde(default)]
    pub(crate) idle: bool,
    /// The share of time that a working thread runs; it sleeps for the rest.
    #[serde(default = "all")]
    pub(crate) busy: Share,
    #[serde(default, rename = "pinning")]
    pub(crate) pinnings: Vec<PinnedRate>,
}

/// The rate of one exact pinning.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinnedRate {
    /// The PUs of the working threads in the order of their creation. Further threads use the list again from its
    /// begin.
    pub(crate) pus: OrderedPus,
    pub(crate) rate: Amount,
}

/// A task that begins later, or ends before the program does. Serials continue after `threads` in the order of
/// `begins`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Thread {
    #[serde(default)]
    pub(crate) begins: Seconds,
    pub(crate) ends: Option<Seconds>,
    pub(crate) name: Option<String>,
    /// When it starts to use processor time.
    #[serde(default)]
    pub(crate) works_from: Seconds,
}

/// A metric. By default the machine has one, `scripted`, which counts each task's steps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptMetric {
    name: String,
    unit: String,
    source: &'static MetricSource,
    scope: Scope,
    /// Counts per step.
    #[serde(default = "one")]
    per_step: Amount,
    /// The time ranges when it cannot be read.
    #[serde(default)]
    missing: Vec<(Seconds, Seconds)>,
}

/// A metric and its relation to the program's steps.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) metric: Metric,
    pub(crate) per_step: f64,
    pub(crate) missing: Vec<(Duration, Duration)>,
}

/// The limit of a script's tasks, the same as for a recording's threads at one time.
const MOST_TASKS: u64 = 4096;

/// The limit of a time, in seconds: 30 years. It keeps sums of times in range.
const LONGEST: f64 = 1e9;

/// The limit of an amount. It keeps products and sums finite.
const GREATEST: f64 = 1e15;

/// A time from 0 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct Seconds(pub(crate) Duration);

/// A finite number from 0 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct Amount(pub(crate) f64);

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct Share(pub(crate) f64);

/// At least one PU, in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct OrderedPus(pub(crate) Vec<PuId>);

fn one() -> Amount {
    Amount(1.0)
}

fn all() -> Share {
    Share(1.0)
}

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        Some(value)
            .filter(|&seconds| seconds <= LONGEST)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .map(Self)
            .ok_or_else(|| format!("{value} is not a time: give seconds from 0 to {LONGEST}, such as 2.5"))
    }
}

impl TryFrom<f64> for Amount {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..=GREATEST).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!(
                "{value} is out of range: give a number from 0 to {GREATEST:e}, such as 120.0"
            ))
        }
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!(
                "{value} is not a share: give a number from 0 to 1, such as 0.5"
            ))
        }
    }
}

impl TryFrom<String> for OrderedPus {
    type Error = String;

    fn try_from(list: String) -> Result<Self, String> {
        match PuSet::parse_ordered(&list) {
            Ok(pus) if pus.is_empty() => Err("a pinning needs at least one PU, such as 0,2".to_owned()),
            Ok(pus) => Ok(Self(pus)),
            Err(error @ ParsePuSetError { .. }) => Err(error.to_string()),
        }
    }
}

/// Why a script is not valid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScriptError {
    /// It is not TOML, or a key is unknown, missing or has a wrong value.
    #[error("line {line}: {why}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The program would never end.
    #[error("the script says neither `duration` nor `work`, so the program would never end: give one of them")]
    Endless,
    /// Phases are missing or out of order.
    #[error(
        "the script's [[phase]] number {0}, counted from 1, does not begin after the one before: set the first `start` to 0, and each further one to a later time"
    )]
    Phases(usize),
    /// No phase at all.
    #[error("the script has no [[phase]]: give one with `start = 0.0` and a `rate`")]
    NoPhase,
    /// A thread that ends before it begins.
    #[error("the script's [[thread]] number {0}, counted from 1, ends before it begins")]
    Thread(usize),
    /// There are more tasks than allowed.
    #[error("the script has {0} tasks, `threads` and each [[thread]]: the limit is {MOST_TASKS}")]
    Tasks(u64),
    /// `helpers` names a task that does not exist.
    #[error("the script's `helpers` name task {serial}, but the tasks are 0 to {last}")]
    Helper {
        /// The serial in `helpers`.
        serial: u64,
        /// The last serial.
        last: u64,
    },
    /// A PU that the topology does not have.
    #[error("the script names PU {pu}, but its machine has {pus}")]
    Pu {
        /// The PU in the script.
        pu: PuId,
        /// The PUs of the machine.
        pus: PuSet,
    },
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut script: Self = toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            ScriptError::Syntax {
                line: 1 + before.map_or(0, |before| before.matches('\n').count()),
                why: error.message().trim().replace('\n', " "),
            }
        })?;
        script.check()?;
        script.later.sort_by_key(|thread| thread.begins);
        Ok(script)
    }
}

impl Script {
    /// The machine's shape, as `--machine` takes it. The caller makes a `Topology` of it.
    pub fn topology(&self) -> &str {
        &self.topology
    }

    /// Whether the script fits a machine with these PUs.
    pub(crate) fn check_pus(&self, pus: &PuSet) -> Result<(), ScriptError> {
        let in_phases = self.phases.iter().flat_map(|phase| &phase.pinnings);
        let mut named = in_phases
            .flat_map(|pinning| pinning.pus.0.iter().copied())
            .chain(self.refused.iter());
        match named.find(|&pu| !pus.contains(pu)) {
            Some(pu) => Err(ScriptError::Pu { pu, pus: pus.clone() }),
            None => Ok(()),
        }
    }

    /// What can be counted.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let Some(metrics) = &self.metrics else {
            return vec![Counter {
                metric: sources::SCRIPTED.metric(Scope::Task),
                per_step: 1.0,
                missing: vec![],
            }];
        };
        metrics
            .iter()
            .map(|metric| Counter {
                metric: Metric {
                    name: metric.name.clone(),
                    unit: metric.unit.clone(),
                    source: metric.source,
                    scope: metric.scope,
                },
                per_step: metric.per_step.0,
                missing: metric.missing.iter().map(|&(from, to)| (from.0, to.0)).collect(),
            })
            .collect()
    }

    fn check(&self) -> Result<(), ScriptError> {
        if self.duration.is_none() && self.work.is_none() {
            return Err(ScriptError::Endless);
        }
        match self.phases.first() {
            None => return Err(ScriptError::NoPhase),
            Some(first) if first.start != Seconds::default() => return Err(ScriptError::Phases(1)),
            Some(_) => {}
        }
        for (index, pair) in self.phases.windows(2).enumerate() {
            if pair[1].start <= pair[0].start {
                return Err(ScriptError::Phases(index + 2));
            }
        }
        if let Some(index) = self
            .later
            .iter()
            .position(|thread| thread.ends.is_some_and(|ends| ends <= thread.begins))
        {
            return Err(ScriptError::Thread(index + 1));
        }
        let tasks = u64::from(self.threads.get()) + self.later.len() as u64;
        if tasks > MOST_TASKS {
            return Err(ScriptError::Tasks(tasks));
        }
        let last = tasks - 1;
        match self.helpers.iter().find(|&&serial| serial > last) {
            Some(&serial) => Err(ScriptError::Helper { serial, last }),
            None => Ok(()),
        }
    }
}
