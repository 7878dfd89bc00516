//! What the journal of a sweep within one run keeps: each measurement when it is over, and what the next start of the
//! same command needs to use it.

use super::space::WithinConfiguration;
use crate::joined::CodePlace;
use crate::journal::{Exact, Kept, Key};
use crate::measured::MachineState;
use pinfold_core::{RegionCounts, RegionId, content_hash};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What measurements depend on, apart from the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithinIdentity {
    /// The hash of the machine's topology, or of a simulated machine's model.
    pub machine: String,
    /// The identity of the binary or of the recording.
    pub program: String,
    /// The program and its arguments.
    pub command: String,
    /// What else the times depend on: the working directory, and the variables that decide about threads.
    pub context: Vec<String>,
}

impl WithinIdentity {
    /// What differs in another one, in words; `None` if they are the same.
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        if self.machine != other.machine {
            Some("another machine")
        } else if self.program != other.program {
            Some("another program, or another build of it")
        } else if self.command != other.command {
            Some("other arguments of the program")
        } else {
            (self.context != other.context).then_some("another working directory, or other variables about threads")
        }
    }

    /// The identity of a configuration's measurements, in a program with this number of threads. `metric` belongs to a
    /// program that is measured as a whole.
    pub fn key(&self, threads: usize, metric: Option<&str>, configuration: &WithinConfiguration) -> Key {
        // The columns of the layout follow from the pinning and the machine.
        let columns = &configuration.columns;
        let (number, pinning) = (columns.num_threads, &columns.pinning);
        let (pages, prefetch) = (&columns.page_map, &columns.prefetch);
        self.hash(&format!("{threads} {metric:?} {number} {pinning:?} {pages} {prefetch}"))
    }

    /// The keys of these configurations, in their order.
    pub fn keys(&self, threads: usize, metric: Option<&str>, configurations: &[WithinConfiguration]) -> Vec<Key> {
        configurations
            .iter()
            .map(|one| self.key(threads, metric, one))
            .collect()
    }

    /// The identity of records about the program.
    pub fn own_key(&self) -> Key {
        self.hash("")
    }

    fn hash(&self, of: &str) -> Key {
        let Self {
            machine,
            program,
            command,
            context,
        } = self;
        Key(content_hash(
            format!("within 1 {machine} {program} {command:?} {context:?} {of}").as_bytes(),
        ))
    }
}

/// What was measured, recognisable in every run of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WithinSubject {
    /// The whole program.
    Program,
    /// A region of a recording, whose address is the same in all its runs.
    Region(RegionId),
    /// The code of a region, whose address differs between runs.
    Code(CodePlace),
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithinTurn {
    /// The run of the program: one start of the command.
    pub session: u64,
    /// What was measured.
    pub subject: WithinSubject,
    /// The region's address in this run; `None` for the whole program.
    pub region: Option<RegionId>,
    /// The middle of the measurement, in seconds since the run began.
    pub at: Exact,
    /// Executions of the region, or units of the program's metric.
    pub units: Exact,
    /// The time of these, in seconds.
    pub seconds: Exact,
    /// What was counted meanwhile.
    pub counts: Option<RegionCounts>,
}

/// A run of the program whose measurement has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithinBegin {
    /// The run.
    pub session: u64,
    /// What was measured.
    pub identity: WithinIdentity,
    /// The number of threads that the configurations are for.
    pub threads: usize,
    /// The metric of a program that is measured as a whole.
    pub metric: Option<String>,
}

/// A run of the program that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithinEnd {
    /// The run.
    pub session: u64,
    /// How long the program ran, in seconds.
    pub lasted: Exact,
    /// Whether it ended by itself, and not by a signal.
    pub by_itself: bool,
    /// The machine meanwhile.
    pub state: MachineState,
}

/// Everything is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithinComplete {
    /// The number of threads that the configurations are for.
    pub threads: usize,
    /// The metric of a program that is measured as a whole.
    pub metric: Option<String>,
    /// The number of configurations, of those that were measured, and of those that were to the wanted interval.
    pub configurations: usize,
    /// See `configurations`.
    pub measured: usize,
    /// See `configurations`.
    pub precise: usize,
    /// How long the last run was measured, in seconds.
    pub lasted: f64,
    /// The largest time over the smallest of the drift, minus one.
    pub drift: f64,
    /// By configuration: why it was left out.
    pub left_out: BTreeMap<usize, String>,
}

/// A record of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WithinRecord {
    /// The measurement of a run has begun.
    Begin(WithinBegin),
    /// A measurement.
    Turn(WithinTurn),
    /// The program does not let pinfold change this of a region, which was found out after measurements of it.
    Keeps {
        /// The region.
        subject: WithinSubject,
        /// The number of threads of its team.
        threads: bool,
        /// The PUs of its threads.
        places: bool,
    },
    /// The run is over.
    End(WithinEnd),
    /// Everything is measured. The key is a hash of all configurations and of the options that decide what is enough.
    Complete(WithinComplete),
}

impl Kept for WithinRecord {
    const MAGIC: &'static [u8] = b"pinfold sweep within runs 1\n";
}
