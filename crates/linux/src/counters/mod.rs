//! Counts per task: hardware and software events, and probes on functions, through `perf_event_open(2)`.
//!
//! 1. `Plan::new` resolves each request to arguments for the kernel: libpfm4 resolves an event's name, and the symbol
//!    table a function's name.
//! 2. It opens each on the calling thread, so that an error is reported before the program starts.
//! 3. It arranges them in groups. The kernel schedules a group as a whole, and one `read(2)` reads it. An event joins
//!    the previous group if the kernel accepts that, and otherwise starts a new one. Software events and uprobes never
//!    wait for hardware, so they have separate groups.
//! 4. `Plan::open` opens the same groups for one thread of the program; `TaskCounters::read` reads them.
//!
//! Hardware events count user space unless their name has another modifier (`:k`): the kernel's work for a thread is
//! not progress of the program. Software events happen in the kernel, so both are counted if that is permitted.
//!
//! Known limits: counters of a package (uncore, RAPL) do not count for a task and are refused. Each event of each task
//! takes a file descriptor. A reader of `Count` scales the counts of a multiplexed group.

mod error;
mod event;
mod group;
pub mod listing;
mod source;

pub use error::CounterError;
pub(crate) use error::forbidden;

pub use event::parse_uprobe;
pub(crate) use source::Permission;

use crate::pfm::{self, Attribute, AttributeKind, Pmu};
use error::Refused;
use group::Group;
use pinfold_core::{Count, Metric};
use source::Source;
use std::hint;
use std::path::{Path, PathBuf};

/// A request to count an event for each task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// An event by libpfm4's name, which includes perf's generic ones: `instructions`, `page-faults`,
    /// `INSTRUCTION_RETIRED`, `ivb_ep::MEM_LOAD_UOPS_LLC_MISS_RETIRED:REMOTE_DRAM`; `:u` and `:k` count user space or
    /// the kernel only.
    Event(String),
    /// The number of calls of a function.
    Uprobe {
        /// Its name, mangled or demangled.
        symbol: String,
        /// The ELF binary or library that contains it.
        binary: PathBuf,
    },
}

impl Request {
    /// The name of its metric: `event:NAME`, `uprobe:SYMBOL`.
    pub fn metric_name(&self) -> String {
        match self {
            Self::Event(name) => format!("event:{name}"),
            Self::Uprobe { symbol, .. } => format!("uprobe:{symbol}"),
        }
    }
}

/// The counters of each task: resolved and tried once, before the program starts.
pub struct Plan {
    /// The root of the file system with /proc and /sys.
    root: PathBuf,
    sources: Vec<Source>,
    metrics: Vec<Metric>,
    /// Positions in `sources`, by group, the leader first.
    groups: Vec<Vec<usize>>,
}

/// The open counters of one task.
pub struct TaskCounters {
    groups: Vec<Group>,
    metrics: usize,
}

/// Whether a request can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The request can be counted.
    Available,
    /// This machine does not have the event.
    Absent {
        /// The reason, and the alternatives.
        why: String,
    },
    /// This machine has the event, but pinfold may not count it.
    Forbidden {
        /// The obstacle, and the remedy.
        why: String,
    },
}

impl Plan {
    /// Resolves the requests and opens each on the calling thread.
    pub fn new(requests: &[Request]) -> Result<Self, CounterError> {
        Self::with_root(Path::new("/"), requests)
    }

    /// As `new`, with /proc and /sys below `root`.
    fn with_root(root: &Path, requests: &[Request]) -> Result<Self, CounterError> {
        let sources = requests
            .iter()
            .map(|request| event::admitted(event::resolve(root, request)?, root))
            .collect::<Result<Vec<_>, _>>()?;
        let groups = group::arrange(&sources).map_err(|refused| error::explain(root, refused))?;
        Ok(Self {
            root: root.to_owned(),
            metrics: sources.iter().map(|source| source.metric.clone()).collect(),
            sources,
            groups,
        })
    }

    /// The metrics, in the order of the requests.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// Opens the counters of one thread (its kernel id; 0 is the calling thread). They start to count, for this thread
    /// only: the threads that it creates need separate counters.
    pub fn open(&self, thread: i32) -> Result<TaskCounters, CounterError> {
        let groups = self
            .groups
            .iter()
            .map(|members| Group::open(&self.sources, members, thread))
            .collect::<Result<_, Refused<'_>>>()
            .map_err(|refused| error::explain(&self.root, refused))?;
        Ok(TaskCounters {
            groups,
            metrics: self.metrics.len(),
        })
    }
}

impl TaskCounters {
    /// The totals, one per metric of the plan and in its order. `None` for a count that is not available. A task that
    /// has ended keeps its last totals.
    pub fn read(&mut self) -> Vec<Option<Count>> {
        let mut counts = vec![None; self.metrics];
        for group in &mut self.groups {
            group.read_into(&mut counts);
        }
        counts
    }
}

/// Whether this machine counts hardware events. Tests it with instructions of the calling thread.
pub fn hardware_counters() -> Availability {
    let counted = Plan::new(&[Request::Event("instructions".to_owned())]).and_then(|plan| {
        let mut counters = plan.open(0)?;
        for turn in 0..10_000 {
            hint::black_box(turn);
        }
        Ok(counters.read()[0])
    });
    match counted {
        // Some virtual machines open the counter and never count.
        Ok(Some(count)) if count.value == 0 && !count.running.is_zero() => Availability::Absent {
            why: "this machine opens the counter of `instructions` but never counts, as some virtual machines do"
                .to_owned(),
        },
        Ok(_) => Availability::Available,
        Err(error) => error.into(),
    }
}

/// Whether `event` of `pmu` can be counted for the calling thread. An event that needs a unit mask is tried with its
/// first one.
pub fn availability(pmu: &Pmu, event: &pfm::Event) -> Availability {
    let name = format!("{}::{}", pmu.name, event.name);
    let is_unit_mask = |attribute: &&Attribute| attribute.kind == AttributeKind::UnitMask;
    let first_unit_mask = event.attributes.iter().find(is_unit_mask);
    let with_unit_mask = first_unit_mask.map(|attribute| format!("{name}:{}", attribute.name));
    match (Plan::new(&[Request::Event(name)]), with_unit_mask) {
        (Ok(_), _) => Availability::Available,
        (Err(CounterError::UnknownAttribute { .. }), Some(name)) => match Plan::new(&[Request::Event(name)]) {
            Ok(_) => Availability::Available,
            Err(error) => error.into(),
        },
        (Err(error), _) => error.into(),
    }
}

/// The events whose names are nearest to `name`, at most three. They are events of present PMUs, or of all PMUs if none
/// of those is similar.
pub fn nearest_events(name: &str) -> Result<Vec<String>, CounterError> {
    Ok(event::nearest_events(pfm::library()?, |pmu| pmu.present, name))
}

impl From<CounterError> for Availability {
    fn from(error: CounterError) -> Self {
        let why = error.to_string();
        match error {
            CounterError::Forbidden { .. } => Self::Forbidden { why },
            _ => Self::Absent { why },
        }
    }
}

#[cfg(test)]
mod tests;
