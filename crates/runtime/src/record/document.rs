//! The file that `pinfold run --json` writes (docs/formats/run.md).

use super::{PolicyKind, Record, Replay};
use crate::shown::to_be_shown;
use pinfold_core::{PageMapping, PlacedBy, Prefetchers, PuId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The whole file. The oldest files have no version, and keys that they lack are missing. Version 1 has no codes for
/// the choice, for samples and for migrations that ended early; they are read as unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunDocument {
    /// The version of the format; `None` in files from before there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The version of pinfold that wrote it.
    pub pinfold: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The process that ran before and that pinfold attached to; absent where pinfold started the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached: Option<i32>,
    /// How threads were placed; absent where the program did not really run, and in older files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<PlacedBy>,
    /// The machine in one line.
    pub topology: String,
    /// The PUs that the run could use, as a CPU list.
    pub allowed_pus: String,
    /// The page mapping of the command line; `None` without one.
    pub page_map: Option<PageMapping>,
    /// The processor time of pinfold itself, in seconds; absent where the program did not really run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cpu_time: Option<f64>,
    /// How the program was simulated; `None` for a real run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulation>,
    /// How a table of measurements was replayed; `None` for any other run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// What happened.
    #[serde(flatten)]
    pub record: Record,
}

/// The text is not a record, or has a version that this pinfold cannot read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not JSON.
    #[error("this is no JSON: {0}")]
    NoJson(serde_json::Error),
    /// It is not an object with the keys that every record has.
    #[error("this is no record of a run: give a file that `pinfold run --json FILE` wrote")]
    NoRecord,
    /// A later pinfold wrote it, in a format that is not known here.
    #[error(
        "this record has version {version} of the format, and this pinfold reads versions up to {known}: read it with pinfold \
         {writer}, which wrote it, or a later one",
        known = RunDocument::VERSION
    )]
    Later {
        /// The version of the format.
        version: u64,
        /// The version of the pinfold that wrote it.
        writer: String,
    },
    /// A key has a value that none can have.
    #[error("this record is of another version of pinfold, or was changed: {0}")]
    Malformed(serde_json::Error),
}

impl RunDocument {
    /// The version of the format that this pinfold writes.
    pub const VERSION: u32 = 2;

    /// Reads a file's text. Its strings can be shown: each is one line, without control characters.
    ///
    /// # Errors
    ///
    /// It is not a record, or a later pinfold wrote it.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        Self::from_value(Self::value(text)?)
    }

    /// The text as JSON, if it is a record that this pinfold reads.
    pub(super) fn value(text: &str) -> Result<serde_json::Value, ReadError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(ReadError::NoJson)?;
        if value.get("policy").is_none() || value.get("candidates").is_none() {
            return Err(ReadError::NoRecord);
        }
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if let Some(version) = version.filter(|&version| version > u64::from(Self::VERSION)) {
            let writer = value.get("pinfold").and_then(serde_json::Value::as_str);
            return Err(ReadError::Later {
                version,
                writer: writer.unwrap_or("of that version").to_owned(),
            });
        }
        Ok(value)
    }

    pub(super) fn from_value(value: serde_json::Value) -> Result<Self, ReadError> {
        serde_json::from_value(to_be_shown(value)).map_err(ReadError::Malformed)
    }

    /// How often a program was repeated that did not really run; `None` for one that did.
    pub fn repetitions(&self) -> Option<f64> {
        let simulated = self.simulation.as_ref().map(|simulation| simulation.repetitions);
        let replayed = self.replay.as_ref().map(|replay| replay.replayed.repetitions as f64);
        simulated.or(replayed)
    }

    /// The reason for each decision of the run, as lines for a person.
    pub fn explanation(&self, policy: PolicyKind<'_>) -> String {
        super::explanation::explained(self, policy)
    }
}

/// How a program was simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// The model.
    pub model: String,
    /// The recording; `None` if it was not kept, or if there are several.
    pub recording: Option<PathBuf>,
    /// The value of `--repeat`: `auto` or a number.
    pub repeat: String,
    /// The number of executions of the recorded regions, of all programs together.
    pub repetitions: f64,
    /// The seed of the random choices.
    pub seed: u64,
    /// The standard deviation of a reading of a tenth of a second, as a share of it. 0 in records without it.
    #[serde(default)]
    pub noise: f64,
    /// The version of the simulated Linux, which placed unpinned threads. 6.1 in records without it.
    #[serde(default = "first_kernel")]
    pub kernel: String,
    /// What automatic NUMA balancing did; `None` if it was off, or the record is older than it.
    #[serde(default)]
    pub numa_balancing: Option<NumaBalancing>,
    /// The page mapping of the command line.
    pub page_map: Option<PageMapping>,
    /// The prefetchers that were on, if the command line names them.
    pub prefetch: Option<Prefetchers>,
    /// How many configurations were simulated in detail.
    pub windows: usize,
    /// How long programs were stopped because their pages moved or had hint faults, in seconds, summed over all
    /// programs.
    pub paused: f64,
    /// Each program.
    pub programs: Vec<SimulatedProgram>,
}

/// What the automatic NUMA balancing of a simulated Linux did. All are 0 where the programs' memory has a policy that
/// excludes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaBalancing {
    /// Scans of a process's memory, or of a part of it.
    pub scans: u64,
    /// Faults on pages that a scan had made inaccessible.
    pub hint_faults: u64,
    /// Pages that moved to another node.
    pub pages_moved: u64,
    /// Moves of tasks to the nodes that they prefer.
    pub tasks_moved: u64,
}

impl fmt::Display for NumaBalancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            " with automatic NUMA balancing ({} hint faults; it moved {} pages and {} tasks)",
            self.hint_faults, self.pages_moved, self.tasks_moved
        )
    }
}

/// The kernel of records that do not name one.
fn first_kernel() -> String {
    "6.1".to_owned()
}

/// One of the programs that ran side by side, or the only one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedProgram {
    /// The recording; `None` if it was not kept.
    pub recording: Option<PathBuf>,
    /// Its tasks' name.
    pub name: String,
    /// Its process.
    pub process: i32,
    /// How many tasks it has.
    pub tasks: usize,
    /// By rank: the task's PU at the end; `None` in an older file, or if the program had not begun.
    #[serde(default)]
    pub pus: Option<Vec<PuId>>,
    /// The number of executions of its recorded region.
    pub repetitions: f64,
    /// Repetitions in a second, over the whole run; `None` if no time passed.
    pub speed: Option<f64>,
    /// How long it was stopped because its pages moved or had hint faults, in seconds.
    pub paused: f64,
    /// The share of its threads' time, in the last configuration, spent waiting for events outside the recording;
    /// `None` if unknown, and in an older file.
    #[serde(default)]
    pub unrecorded_wait_share: Option<f64>,
    /// The counts of all its tasks, by event.
    pub events: BTreeMap<String, f64>,
}

impl Simulation {
    /// The kernel, and what its balancing did.
    fn linux(&self) -> String {
        let balancing = self.numa_balancing.as_ref().map(NumaBalancing::to_string);
        format!("Linux {}{}", self.kernel, balancing.unwrap_or_default())
    }

    /// One line for each of several programs.
    fn side_by_side(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "simulated on {}, side by side:", self.model)?;
        for program in &self.programs {
            let speed = program
                .speed
                .map_or_else(|| "not measured".to_owned(), |speed| format!("{speed:.1} /s"));
            writeln!(
                f,
                "  {:<16} {:>3} tasks  {:>10.0} times  {speed:>14}",
                program.name, program.tasks, program.repetitions
            )?;
        }
        write!(
            f,
            "  (--repeat {}), {} configurations in detail, {:.3} s for moving pages, seed {}, unpinned on a simulated {}",
            self.repeat,
            self.windows,
            self.paused,
            self.seed,
            self.linux()
        )
    }
}

impl fmt::Display for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.programs.len() > 1 {
            return self.side_by_side(f);
        }
        write!(
            f,
            "simulated on {}: what was recorded was done {:.0} times (--repeat {}), {} configurations in detail, {:.3} s \
             for moving pages, seed {}, unpinned on a simulated {}",
            self.model,
            self.repetitions,
            self.repeat,
            self.windows,
            self.paused,
            self.seed,
            self.linux()
        )
    }
}
