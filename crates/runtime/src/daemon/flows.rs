//! The progress of processes by the bytes that they read and write, for machines without counters.
//!
//! The bytes of a process are its progress while the process itself sets the pace (`pinfold_policy::sets_pace`), and
//! while they come in many steps. Otherwise its progress is unknown, and not zero. This is decided after some
//! intervals. Until then the tasks stay where they are, so that moves have something to be compared with.

use pinfold_core::statistics::effective_steps;
use pinfold_core::{HostSample, Topology};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The weight of an interval falls by this factor with each later one: the last two seconds count, of intervals of a
/// tenth.
const DECAY: f64 = 0.95;

/// Fewer equal steps than these in the last seconds do not show progress from one interval to the next.
const STEPS: f64 = 10.0;

/// Bytes that do not grow for this time show no progress any more: the process has read its input.
const QUIET: Duration = Duration::from_secs(1);

/// The number of intervals until it is decided whether bytes show the progress of a process.
const UNDECIDED: u32 = 20;

/// What the bytes of a process show, or the calls of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Progress {
    /// It is too early to say.
    Undecided,
    /// Its progress, in bytes or calls a second.
    Rate(f64),
    /// Nothing.
    Unknown,
}

/// The flows of all processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    processes: BTreeMap<i32, Flow>,
}

/// The growth of one process's bytes in the last intervals, and the sum of the squares.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    sum: f64,
    squares: f64,
    intervals: u32,
    /// When the bytes last grew.
    grew: Duration,
}

impl Flow {
    fn add(&mut self, grown: f64, now: Duration) {
        if grown > 0.0 {
            self.grew = now;
        }
        self.sum = self.sum * DECAY + grown;
        self.squares = self.squares * DECAY * DECAY + grown * grown;
        self.intervals = self.intervals.saturating_add(1);
    }

    /// Whether the bytes come in many steps, and still come.
    fn is_steady(&self, now: Duration) -> bool {
        effective_steps(self.sum, self.squares) >= STEPS && now.saturating_sub(self.grew) < QUIET
    }
}

impl Flows {
    /// What the bytes of each process show between two samples. A process whose bytes are not counted is missing.
    pub(super) fn progress(&mut self, before: &HostSample, now: &HostSample, paces: &Paces) -> BTreeMap<i32, Progress> {
        let at = now.sample.at;
        let time = at.saturating_sub(before.sample.at).as_secs_f64();
        self.processes.retain(|process, _| now.bytes.contains_key(process));
        let mut progress = BTreeMap::new();
        for (&process, &bytes) in &now.bytes {
            let Some(grown) = before.bytes.get(&process).and_then(|before| bytes.checked_sub(*before)) else {
                progress.insert(process, Progress::Undecided);
                continue;
            };
            let flow = self.processes.entry(process).or_default();
            flow.add(grown as f64, at);
            let is_progress = flow.is_steady(at) && time > 0.0 && paces.are_own(process);
            let shown = match (flow.intervals < UNDECIDED, is_progress) {
                (true, _) => Progress::Undecided,
                (false, true) => Progress::Rate(grown as f64 / time),
                (false, false) => Progress::Unknown,
            };
            progress.insert(process, shown);
        }
        progress
    }
}

/// Which processes set the pace of their progress.
pub(super) struct Paces {
    /// By process: the share of the time that its busiest task ran or waited for a PU, and the sum over its tasks.
    shares: BTreeMap<i32, (f64, f64)>,
    pus: usize,
}

impl Paces {
    pub(super) fn new(topology: &Topology, before: &HostSample, now: &HostSample) -> Self {
        let time = now.sample.at.saturating_sub(before.sample.at).as_secs_f64();
        let earlier = before.sample.tasks.iter().map(|task| (task.id, task.run_delay));
        let earlier: HashMap<_, _> = earlier.collect();
        let mut shares: BTreeMap<i32, (f64, f64)> = BTreeMap::new();
        for (task, status) in now.sample.tasks.iter().zip(&now.statuses) {
            let delay = || {
                let before = earlier.get(&task.id).copied().flatten()?;
                Some(task.run_delay?.checked_sub(before)?.as_secs_f64() / time)
            };
            let busy = status.busy.unwrap_or(0.0) + delay().unwrap_or(0.0);
            let (busiest, total) = shares.entry(task.id.process).or_default();
            *busiest = busiest.max(busy);
            *total += busy;
        }
        Self {
            shares,
            pus: topology.allowed_pus().len(),
        }
    }

    /// Whether a process sets the pace itself.
    pub(super) fn are_own(&self, process: i32) -> bool {
        let (busiest, total) = self.shares.get(&process).copied().unwrap_or_default();
        pinfold_policy::sets_pace(busiest, total, self.pus)
    }
}
