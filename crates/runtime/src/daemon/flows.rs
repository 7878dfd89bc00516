//! The progress of processes by the bytes that they read and write, for machines without counters.
//!
//! The bytes of a process are its progress while the process itself sets the pace (`pinfold_policy::sets_pace`), and
//! while they come in many steps. Otherwise its progress is unknown, and not zero. This is decided after some
//! intervals. Until then the tasks stay where they are, so that moves have something to be compared with.

use pinfold_core::statistics::effective_steps;
use pinfold_core::{HostSample, Topology};
use std::collections::{BTreeMap, HashMap};

/// The weight of an interval falls by this factor with each later one: the last two seconds count, of intervals of a
/// tenth.
const DECAY: f64 = 0.95;

/// Fewer equal steps than these in the last seconds do not show progress from one interval to the next.
const STEPS: f64 = 10.0;

/// The number of intervals until it is decided whether bytes show the progress of a process.
const UNDECIDED: u32 = 20;

/// What the bytes of a process show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Progress {
    /// It is too early to say.
    Undecided,
    /// Its progress: bytes a second.
    Bytes(f64),
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
}

impl Flow {
    fn add(&mut self, grown: f64) {
        self.sum = self.sum * DECAY + grown;
        self.squares = self.squares * DECAY * DECAY + grown * grown;
        self.intervals = self.intervals.saturating_add(1);
    }

    /// The number of equal steps that would vary as much.
    fn steps(&self) -> f64 {
        effective_steps(self.sum, self.squares)
    }
}

impl Flows {
    /// What the bytes of each process show between two samples. A process whose bytes are not counted is missing.
    pub(super) fn progress(
        &mut self,
        topology: &Topology,
        before: &HostSample,
        now: &HostSample,
    ) -> BTreeMap<i32, Progress> {
        let time = now.sample.at.saturating_sub(before.sample.at).as_secs_f64();
        self.processes.retain(|process, _| now.bytes.contains_key(process));
        let paces = paces(before, now, time);
        let pus = topology.allowed_pus().len();
        let mut progress = BTreeMap::new();
        for (&process, &bytes) in &now.bytes {
            let Some(grown) = before.bytes.get(&process).and_then(|before| bytes.checked_sub(*before)) else {
                continue;
            };
            let flow = self.processes.entry(process).or_default();
            flow.add(grown as f64);
            let (busiest, total) = paces.get(&process).copied().unwrap_or_default();
            let is_progress = flow.steps() >= STEPS && time > 0.0 && pinfold_policy::sets_pace(busiest, total, pus);
            let shown = match (flow.intervals < UNDECIDED, is_progress) {
                (true, _) => Progress::Undecided,
                (false, true) => Progress::Bytes(grown as f64 / time),
                (false, false) => Progress::Unknown,
            };
            progress.insert(process, shown);
        }
        progress
    }
}

/// By process: the share of the time that its busiest task ran or waited for a PU, and the sum over its tasks.
fn paces(before: &HostSample, now: &HostSample, time: f64) -> BTreeMap<i32, (f64, f64)> {
    let earlier: HashMap<_, _> = before
        .sample
        .tasks
        .iter()
        .map(|task| (task.id, task.run_delay))
        .collect();
    let mut paces: BTreeMap<i32, (f64, f64)> = BTreeMap::new();
    for (task, status) in now.sample.tasks.iter().zip(&now.statuses) {
        let delay = || {
            let before = earlier.get(&task.id).copied().flatten()?;
            Some(task.run_delay?.checked_sub(before)?.as_secs_f64() / time)
        };
        let busy = status.busy.unwrap_or(0.0) + delay().unwrap_or(0.0);
        let (busiest, total) = paces.entry(task.id.process).or_default();
        *busiest = busiest.max(busy);
        *total += busy;
    }
    paces
}
