//! The daemon's state: the document that the daemon writes and `pinfold top` reads, by the same types
//! (docs/formats/daemon.md).

use super::ProgressBy;
use crate::TimedComparison;
use crate::shown::to_be_shown;
use pinfold_core::container::{self, Qos, Runtime};
use pinfold_core::function::FoundFunction;
use pinfold_core::{
    Activity, Children, Excess, LeftAlone, MappingCode, MoveReason, ObjectKind, OutcomeCode, PlacedBy, ProgressCode,
    Reason, StayCode, Topology,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything, as of one reading of the tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The version of the format: `State::VERSION`.
    pub version: u32,
    /// The version of pinfold.
    pub pinfold: String,
    /// The daemon's process.
    pub process: u32,
    /// Since it began, in seconds.
    pub at: f64,
    /// How the daemon works; the keys are beside the others.
    #[serde(flatten)]
    pub settings: Settings,
    /// The machine's shape.
    pub machine: MachineState,
    /// The tasks that work, by process and thread.
    pub tasks: Vec<Task>,
    /// Whether the mapper's moves are withdrawn, for a turn of a comparison or because they did not help.
    #[serde(default)]
    pub withdrawn: bool,
    /// The processes whose pages are on the nodes of their tasks, or interleaved, or on the way there. Without such
    /// processes there is no key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<i32>,
    /// What the progress of processes is measured by, if the daemon had to choose. Without such processes there is no
    /// key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<Progress>,
    /// The last comparison of the moves with the unpinned machine; no key before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<TimedComparison>,
    /// What the scheduler in the kernel did; no key without one, and before it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerState>,
    /// The containers of watched tasks, the first found first. Without containers there is no key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerTotals>,
    /// Counts.
    pub totals: Totals,
}

/// How the daemon works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The time between two readings, in seconds.
    pub interval: f64,
    /// The source of the rates.
    pub metric: String,
    /// Whether the rates are assumed and not measured.
    pub assumed: bool,
    /// Whether moves are reported and not made.
    pub dry_run: bool,
    /// When children of pinned tasks get the mask that their creator had.
    pub children: Children,
    /// How tasks are placed.
    #[serde(default)]
    pub with: PlacedBy,
    /// The rates above which tasks are moved.
    pub thresholds: Thresholds,
}

/// The rates above which tasks are moved, in the unit of the rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Of coherence.
    pub coherence: f64,
    /// Of accesses to other nodes' memory.
    pub remote: f64,
    /// Of one task's demand for memory bandwidth.
    pub memory: f64,
    /// A threshold for the demand of a whole package for memory bandwidth.
    pub package_memory: f64,
}

/// The text is not a state, or has a version that this pinfold cannot read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It is not JSON.
    #[error("the answer is no JSON: {0}")]
    NoJson(serde_json::Error),
    /// It is JSON without the version of a state.
    #[error("the answer has no version: it is not a daemon's state, or an older pinfold wrote it; restart the daemon")]
    NoVersion,
    /// Another pinfold wrote it, in a format that is not known here.
    #[error(
        "the daemon's state has version {version} of the format, and this pinfold reads version {known}: use pinfold {writer}, \
         which the daemon is, or restart the daemon",
        known = State::VERSION
    )]
    OtherVersion {
        /// The version of the format.
        version: u64,
        /// The version of the daemon's pinfold.
        writer: String,
    },
    /// A key is missing, or has a value that none can have.
    #[error("the daemon's state is damaged: {0}")]
    Malformed(serde_json::Error),
}

impl State {
    /// The version of the format that this pinfold writes and reads.
    pub const VERSION: u32 = 1;

    /// Reads the daemon's answer. Its strings can be shown: each is one line, without control characters.
    ///
    /// # Errors
    ///
    /// It is not a state, or it has another version.
    pub fn read(text: &str) -> Result<Self, StateError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(StateError::NoJson)?;
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        let version = version.ok_or(StateError::NoVersion)?;
        if version != u64::from(Self::VERSION) {
            let writer = value.get("pinfold").and_then(serde_json::Value::as_str);
            return Err(StateError::OtherVersion {
                version,
                writer: writer.unwrap_or("of that version").to_owned(),
            });
        }
        serde_json::from_value(to_be_shown(value)).map_err(StateError::Malformed)
    }
}

/// The parts of the machine's topology that are drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineState {
    /// Its name.
    pub name: String,
    /// Its packages. A machine without packages counts as one package.
    pub packages: Vec<Package>,
}

/// A package, or a machine without packages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Package {
    /// The operating system's index.
    pub index: Option<u32>,
    /// NUMA nodes whose PUs are all in it.
    pub nodes: Vec<u32>,
    /// Its cores. Without cores each PU counts as one.
    pub cores: Vec<Core>,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Core {
    /// The operating system's index.
    pub index: Option<u32>,
    /// Its PUs that may be used.
    pub pus: Vec<u32>,
}

/// A task that works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its process.
    pub process: i32,
    /// Its thread.
    pub thread: i32,
    /// Its name.
    pub name: String,
    /// The PU of its last run.
    pub pu: Option<u32>,
    /// Where the daemon has pinned it.
    pub pinned: Option<u32>,
    /// Its mask, as a CPU list.
    pub allowed: String,
    /// Why it is not moved; `None` if it may be moved.
    pub left_alone: Option<LeftAlone>,
    /// Its processor time as a share of the last interval, from 0 to 1.
    pub busy: Option<f64>,
    /// Rates by activity; `None` for one that is missing.
    pub rates: BTreeMap<Activity, Option<f64>>,
    /// Its last move.
    pub last_move: Option<LastMove>,
    /// The container of its process. Without a container there is no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Where its time went, as the scheduler in the kernel counts it. Without such a scheduler there is no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<ScheduledTask>,
}

/// Where the time of a task went since the scheduler started, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScheduledTask {
    /// The share of its run time in the last second that was in a domain that it prefers; `None` if it prefers none, or
    /// did not run.
    pub preferred_share: Option<f64>,
    /// How long it ran.
    pub ran: f64,
    /// How long it ran while it preferred some domains.
    pub preferring: f64,
    /// How long it ran in a domain that it preferred then.
    pub preferred: f64,
    /// How long it waited for a CPU.
    pub waited: f64,
    /// The longest time that it waited.
    pub longest_wait: f64,
    /// How often it changed its domain.
    pub migrations: u64,
}

/// What the scheduler in the kernel did since it started. The times are those of tasks that the daemon has placed, with
/// those that have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulerState {
    /// How often a CPU took a task from the queue of another domain, because the task had waited for too long.
    pub taken_elsewhere: u64,
    /// How often a task waited for more than 10 ms while a CPU that it may run on was idle for more than that.
    pub waited_beside_idle: u64,
    /// How long tasks ran while they preferred some domains.
    pub preferring_seconds: f64,
    /// How long they ran in a domain that they preferred then.
    pub preferred_seconds: f64,
    /// How long they waited for a CPU.
    pub waited_seconds: f64,
    /// The longest time that one of them waited, in seconds.
    pub longest_wait: f64,
    /// How often they changed their domain.
    pub migrations: u64,
    /// The tasks that wake each other most often, the most often first.
    pub pairs: Vec<WakingPair>,
    /// How many pairs there are, with those that are not listed.
    pub pairs_found: u64,
}

impl SchedulerState {
    /// The share of the run time with a preference that was in a preferred domain; `None` without such run time.
    pub fn preferred_share(&self) -> Option<f64> {
        (self.preferring_seconds > 0.0).then(|| self.preferred_seconds / self.preferring_seconds)
    }
}

/// Two threads that wake each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WakingPair {
    /// The threads, the lower number first.
    pub threads: (i32, i32),
    /// The wake-ups in a second, both directions together.
    pub per_second: f64,
}

/// A container. What is not known has no key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// The program that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Its id: 64 hexadecimal digits, or the name in LXC and systemd-nspawn.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name of its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The namespace of its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The UID of its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The class of service of its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// The name in few characters: the pod's name, then the container's, or the first digits of its id if it has no
    /// name.
    pub text: String,
}

impl From<&container::Container> for Container {
    fn from(one: &container::Container) -> Self {
        let pod = one.pod.as_ref();
        Self {
            runtime: one.runtime,
            id: one.id.clone(),
            name: one.name.clone(),
            pod: pod.and_then(|pod| pod.name.clone()),
            namespace: pod.and_then(|pod| pod.namespace.clone()),
            pod_uid: pod.map(|pod| pod.uid.clone()),
            qos: pod.map(|pod| pod.qos),
            text: one.text(),
        }
    }
}

/// A container of watched tasks, with their counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerTotals {
    /// Which container; the keys are beside the others.
    #[serde(flatten)]
    pub container: Container,
    /// Its watched tasks.
    pub watched: u64,
    /// Those that are pinned by the daemon.
    pub pinned: u64,
    /// Moves of its tasks that were made.
    pub moves: u64,
    /// The processor time that its tasks used while they were watched.
    pub processor_seconds: f64,
}

/// What the progress of a process is measured by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The process.
    pub process: i32,
    /// By what.
    pub by: ProgressCode,
    /// The function whose calls are its progress. Without one there is no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<FoundFunction>,
    /// Why no function shows its progress. Without a search there is no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Progress {
    pub(super) fn new(process: i32, by: &ProgressBy) -> Self {
        let (function, why) = match by {
            ProgressBy::Bytes => (None, None),
            ProgressBy::Function(function) => (Some(function.clone()), None),
            ProgressBy::Nothing { why } => (None, why.clone()),
        };
        Self {
            process,
            by: by.code(),
            function,
            why,
        }
    }
}

/// Why and when a task was moved last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastMove {
    /// In the daemon's time, in seconds.
    pub at: f64,
    /// The PU before the move.
    pub from: u32,
    /// The requested PU.
    pub to: u32,
    /// Why it was to move.
    pub reason: MoveReason,
    /// Whether it only made room for another task.
    pub makes_room: bool,
    /// The rate that caused it; `None`, and no keys, if no rate did.
    #[serde(flatten)]
    pub excess: Option<Excess>,
    /// What became of the move.
    pub outcome: OutcomeCode,
    /// Why the task stays; `None` unless the move was refused.
    pub refused: Option<Reason<StayCode>>,
}

/// Counts since the daemon began, and of now. The keys of all groups are beside each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Tasks now.
    #[serde(flatten)]
    pub present: Present,
    /// Moves by reason and outcome.
    pub moves: Vec<Moves>,
    /// Comparisons of the moves with the unpinned machine, by outcome.
    #[serde(default)]
    pub comparisons: Vec<Comparisons>,
    /// Pages that were moved.
    #[serde(default)]
    pub pages: PageTotals,
    /// Intervals.
    #[serde(flatten)]
    pub intervals: Intervals,
    /// Tasks since the daemon began.
    #[serde(flatten)]
    pub tasks: TaskTotals,
    /// The daemon itself.
    #[serde(flatten)]
    pub daemon: DaemonTotals,
}

/// Tasks now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Present {
    /// Tasks that are watched.
    pub watched: u64,
    /// Tasks that work.
    pub working: u64,
    /// Working tasks that are pinned by the daemon.
    pub pinned: u64,
    /// Working tasks that are not moved, by reason.
    pub left_alone: BTreeMap<LeftAlone, u64>,
}

/// Intervals since the daemon began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// How often the tasks were read.
    pub intervals: u64,
    /// How often nothing was decided, because the time since the previous reading was too long or too short.
    pub intervals_skipped: u64,
    /// Time from the start of readings to the end of the last move.
    pub work_seconds: f64,
}

/// Tasks since the daemon began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskTotals {
    /// Tasks that were found.
    pub met: u64,
    /// Tasks that have ended.
    pub ended: u64,
    /// New tasks that inherited a mask of the daemon's and got back their creator's own.
    pub freed: u64,
    /// Masks that another program changed after the daemon.
    pub changed_by_others: u64,
    /// Tasks whose counters could not be opened.
    pub not_counted: u64,
    /// Tasks that the daemon may not move.
    pub not_movable: u64,
}

/// The daemon itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DaemonTotals {
    /// Its processor time.
    pub processor_seconds: Option<f64>,
    /// Lines of the log that could not be written.
    pub log_lines_lost: u64,
    /// How often the configuration was read again.
    pub reloads: u64,
    /// How often the configuration was wrong and the old one stayed.
    pub reloads_refused: u64,
}

/// The number of moves with one reason and one outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moves {
    /// Why the tasks were to move.
    pub reason: MoveReason,
    /// What became of the moves.
    pub outcome: OutcomeCode,
    /// How many.
    pub count: u64,
}

/// The number of comparisons with one outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparisons {
    /// What became of the moves.
    pub outcome: MappingCode,
    /// How many.
    pub count: u64,
}

/// Pages that were moved, and went back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageTotals {
    /// How often pages of a process were moved or went back.
    pub moves: u64,
    /// How often they were to move and stayed.
    pub refused: u64,
    /// Pages.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The time that it took.
    pub seconds: f64,
}

impl MachineState {
    /// The packages, cores and PUs of a topology.
    pub fn new(topology: &Topology) -> Self {
        let mut packages: Vec<_> = topology
            .objects_of(ObjectKind::Package)
            .map(|(_, object)| object)
            .collect();
        if packages.is_empty() {
            packages.push(topology.object(topology.root()));
        }
        let packages = packages.into_iter().map(|package| {
            let nodes = topology.nodes().iter();
            let within = nodes.filter(|node| !node.pus.is_empty() && node.pus.is_subset(&package.pus));
            let mut cores: Vec<Core> = topology
                .objects_of(ObjectKind::Core)
                .filter(|(_, core)| core.pus.is_subset(&package.pus))
                .map(|(_, core)| Core {
                    index: core.os_index,
                    pus: core
                        .pus
                        .intersection(topology.allowed_pus())
                        .iter()
                        .map(|pu| pu.0)
                        .collect(),
                })
                .collect();
            if cores.is_empty() {
                let pus = package.pus.intersection(topology.allowed_pus());
                cores = pus
                    .iter()
                    .map(|pu| Core {
                        index: None,
                        pus: vec![pu.0],
                    })
                    .collect();
            }
            Package {
                index: package.os_index,
                nodes: within.map(|node| node.id.0).collect(),
                cores,
            }
        });
        Self {
            name: topology.name().to_owned(),
            packages: packages.collect(),
        }
    }

    /// The position of the package that contains a PU.
    pub fn package_of(&self, pu: u32) -> Option<usize> {
        let has = |package: &Package| package.cores.iter().any(|core| core.pus.contains(&pu));
        self.packages.iter().position(has)
    }
}

impl Package {
    /// The name of the package: its number, or `machine`.
    pub fn label(&self) -> String {
        self.index
            .map_or_else(|| "machine".to_owned(), |index| index.to_string())
    }
}
