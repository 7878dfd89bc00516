//! The processes of the machine, and the verdict on two arrangements of it.
//!
//! ```text
//!   windows with and without the moves        of all processes
//!   of one process  ->  gain +- error   ->    one is slower:  Slower
//!                                             one gains:      Kept, if the others are safe or pairs run out
//!                                             none gains:     NoGain, if that is certain or pairs run out
//! ```

use super::super::memory::throughput;
use super::super::rates::TaskRates;
use super::process::Process;
pub(super) use super::process::WORKS;
use crate::comparison::turns::{ALPHA, Gain};
use pinfold_core::{MappingCode, ProcessGain};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest and the most pairs of windows before a verdict.
const PAIRS: std::ops::RangeInclusive<usize> = 2..=6;

/// A process that is not listed for this number of steps is forgotten. Assumed: a minute of the paper's 100 ms.
pub(super) const FORGOTTEN: u64 = 600;

/// All processes.
#[derive(Debug)]
pub(super) struct Processes {
    all: BTreeMap<i32, Process>,
    /// The intervals of a window.
    window: u64,
    /// The intervals of a step.
    step: u64,
    /// The intervals since moves began.
    since_moves: u64,
}

impl Processes {
    /// No process yet. Windows and steps have these numbers of intervals.
    pub(super) fn new(window: u64, step: u64) -> Self {
        Self {
            all: BTreeMap::new(),
            window,
            step,
            since_moves: 0,
        }
    }

    /// Adds an interval to the window of each process.
    pub(super) fn observe(&mut self, now: u64, sums: &Sums) {
        for (&id, &(progress, busy)) in sums {
            self.all.entry(id).or_default().observe(now, progress, busy, self.step);
        }
        let forgotten = FORGOTTEN * self.step;
        self.all.retain(|_, process| now < process.listed() + forgotten);
    }

    /// Ends the window of each process, and begins the next one.
    pub(super) fn complete(&mut self) {
        for process in self.all.values_mut() {
            process.complete(self.window);
        }
    }

    /// The arrangement has changed: windows begin again.
    pub(super) fn restart(&mut self) {
        self.all.values_mut().for_each(Process::restart);
    }

    /// The progress of this process has another unit from now on.
    pub(super) fn forget_progress(&mut self, process: i32) {
        if let Some(process) = self.all.get_mut(&process) {
            process.forget_progress();
        }
    }

    /// Whether the progress of this process was ever measured, for a step at least.
    pub(super) fn is_known(&self, process: i32) -> bool {
        self.all.get(&process).is_some_and(Process::is_known)
    }

    /// Whether the mapper may no longer move this process.
    pub(super) fn is_barred(&self, process: i32) -> bool {
        self.all.get(&process).is_some_and(Process::is_barred)
    }

    /// Bars the moved processes that are slower with the moves. If only other processes are slower, no move is known to
    /// be the cause, and all processes may be moved again.
    pub(super) fn bar(&mut self, moved: &BTreeSet<i32>) {
        let slower = self.slower();
        if slower.is_empty() {
            return;
        }
        let culprits: BTreeSet<i32> = slower.intersection(moved).copied().collect();
        for (id, process) in &mut self.all {
            let is_barred = culprits.contains(id) || (!culprits.is_empty() && process.is_barred());
            process.bar(is_barred);
        }
    }

    /// The processes that worked in the last complete window, in ascending order.
    pub(super) fn working(&self) -> impl Iterator<Item = i32> {
        let working = self.all.iter().filter(|(_, process)| process.works());
        working.map(|(&id, _)| id)
    }

    /// Moves begin.
    pub(super) fn note_moves(&mut self) {
        self.since_moves = 0;
        for process in self.all.values_mut() {
            process.note_moves(self.step);
        }
    }

    /// The mean change of progress by the moves, as a logarithm. `None` if nothing was measured.
    pub(super) fn mean_change(&self) -> Option<f64> {
        let changes: Vec<f64> = self.all.values().filter_map(Process::change).collect();
        mean(&changes)
    }

    /// Adds an interval after moves, whether or not it belongs to a window. Returns whether a process made clearly less
    /// progress in the last steps.
    pub(super) fn is_alarming(&mut self, sums: &Sums) -> bool {
        self.since_moves += 1;
        let ends = self.since_moves.is_multiple_of(self.step);
        let share = 1.0 / self.step as f64;
        let mut alarming = false;
        for (id, process) in &mut self.all {
            let (progress, busy) = sums.get(id).copied().unwrap_or_default();
            alarming |= process.observe_step(progress, busy, share, ends);
        }
        alarming
    }

    /// The last steps since moves began are a window.
    pub(super) fn end_early(&mut self) {
        self.all.values_mut().for_each(Process::end_early);
    }

    /// Whether a process may have lost progress by the moves.
    pub(super) fn may_have_lost(&self) -> bool {
        self.all.values().any(Process::may_have_lost)
    }

    /// A comparison begins. `with_first`: the windows before and after the moves are its first pair.
    pub(super) fn begin_turns(&mut self, with_first: bool) {
        for process in self.all.values_mut() {
            process.begin_turns(with_first);
        }
    }

    /// The moves stay: what the operating system achieved no longer matters.
    pub(super) fn forget_unpinned(&mut self) {
        self.all.values_mut().for_each(Process::forget_unpinned);
    }

    /// Whether a process makes clearly less progress than when the moves were given up.
    pub(super) fn have_lost_unpinned(&self) -> bool {
        self.all.values().any(Process::has_lost_unpinned)
    }

    /// The last windows are the first halves of pairs.
    pub(super) fn begin_pair(&mut self) {
        self.all.values_mut().for_each(Process::begin_pair);
    }

    /// The last windows are the second halves of pairs. `pinned`: the moves are in force.
    pub(super) fn end_pair(&mut self, pinned: bool) {
        for process in self.all.values_mut() {
            process.end_pair(pinned);
        }
    }

    /// The mean gain by the moves, and the least one, as logarithms. `None` if nothing was measured.
    pub(super) fn gains(&self) -> Option<(f64, f64)> {
        let gains: Vec<f64> = self.compared().map(|(_, _, gain)| gain.log).collect();
        let least = gains.iter().copied().min_by(f64::total_cmp)?;
        Some((mean(&gains)?, least))
    }

    /// The gain of each process, in ascending order of their numbers.
    pub(super) fn gain_of_each(&self) -> Vec<ProcessGain> {
        self.compared()
            .map(|(process, _, gain)| {
                let (times, error) = gain.times();
                ProcessGain {
                    process,
                    gain: times - 1.0,
                    error,
                }
            })
            .collect()
    }

    /// The verdict on the moves after this number of pairs. `None` if more pairs may tell more.
    pub(super) fn verdict(&self, pairs: usize) -> Option<MappingCode> {
        if pairs < *PAIRS.start() {
            return None;
        }
        if !self.slower().is_empty() {
            return Some(MappingCode::Slower);
        }
        let chance = self.chance();
        let mut gains = false;
        let mut all_safe = true;
        let mut none_gains = true;
        for (_, process, _) in self.compared() {
            gains |= process.gains(chance);
            all_safe &= process.is_safe();
            none_gains &= process.is_without_gain();
        }
        match (gains, pairs < *PAIRS.end()) {
            (true, waits) => (all_safe || !waits).then_some(MappingCode::Kept),
            (false, waits) => (none_gains || !waits).then_some(MappingCode::NoGain),
        }
    }

    /// The processes that make less progress with the moves.
    pub(super) fn slower(&self) -> BTreeSet<i32> {
        let chance = self.chance();
        let slower = self
            .compared()
            .filter(|(_, process, gain)| process.is_slower(*gain, chance));
        slower.map(|(id, ..)| id).collect()
    }

    /// The chance of an error for one process. It is `ALPHA` for all of them together.
    fn chance(&self) -> f64 {
        ALPHA / self.compared().count().max(1) as f64
    }

    /// The processes that were measured in both arrangements.
    fn compared(&self) -> impl Iterator<Item = (i32, &Process, Gain)> {
        self.all
            .iter()
            .filter_map(|(&id, process)| Some((id, process, process.gain()?)))
    }
}

/// By process: the progress in an interval, and the processor time. The progress is `None` if that of a task is
/// unknown.
pub(super) type Sums = BTreeMap<i32, (Option<f64>, f64)>;

/// The sums of an interval.
pub(super) fn sums(tasks: &[TaskRates]) -> Sums {
    let mut sums = Sums::new();
    for task in tasks {
        let (progress, busy) = sums.entry(task.id.process).or_insert((Some(0.0), 0.0));
        let known = throughput(task).or_else(|| (task.busy == 0.0).then_some(0.0));
        *progress = progress.zip(known).map(|(sum, one)| sum + one);
        *busy += task.busy;
    }
    sums
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
