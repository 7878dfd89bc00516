//! The progress of each process in windows of some intervals, and what two arrangements of the machine mean to it.
//!
//! Progress is the number of instructions, of all tasks of a process, per interval. A window is the mean of some intervals
//! in one arrangement.

use super::memory::throughput;
use super::rates::TaskRates;
use crate::comparison::turns::{ALPHA, Gain, NEGLIGIBLE, Noise, Turns, Window};
use pinfold_core::{MappingCode, ProcessGain};
use std::collections::{BTreeMap, BTreeSet};

/// Who uses less of a PU does no work that placement could change. Assumed.
pub(super) const WORKS: f64 = 0.05;

/// A process may make this much less progress than unpinned.
const TOLERATED: f64 = 0.01;

/// A loss in a single window is noise, up to this where the noise of the process is not known yet. Assumed.
const UNKNOWN_NOISE: f64 = 0.03;

/// The counts of a window: with this many instructions, rounding is negligible.
const MANY: f64 = 1e9;

/// The fewest and the most pairs of windows before a verdict.
const PAIRS: std::ops::RangeInclusive<usize> = 2..=6;

/// A process that makes this much less progress than before the moves, in a step, is in trouble: assumed, and more than
/// what the first moments in cold caches cost.
const ALARMING: f64 = 0.15;

/// For this number of steps one after the other it must be so. Assumed.
const ALARMS: usize = 2;

/// Unpinned processes have lost if this number of windows one after the other say so. Assumed: a second.
const LOWER: usize = 3;

/// A process that is not listed for this number of steps is forgotten. Assumed: a minute of the paper's 100 ms.
pub(super) const FORGOTTEN: u64 = 600;

#[derive(Debug, Default)]
struct Process {
    /// Of the present window: progress, processor time, and the number of intervals in which both were known.
    progress: f64,
    busy: f64,
    intervals: u64,
    /// The last complete window of the present arrangement; `None` where the process did no work.
    window: Option<Window>,
    /// Whether it was ever measured for a step.
    is_known: bool,
    /// The last window before the present moves.
    before: Option<Window>,
    /// After the present moves: progress and processor time of the present step of `Processes::step` intervals, the
    /// progress of the last steps, and how many of the last ones were alarming.
    present: (f64, f64),
    lately: [f64; ALARMS],
    alarms: usize,
    /// The last window without the moves that were given up, and how many windows since then were much lower.
    unpinned: Option<Window>,
    lower: usize,
    /// The first half of a pair.
    first: Option<Window>,
    noise: Noise,
    /// Unpinned and with the mapper's moves.
    turns: Turns,
    /// The last interval in which it was listed.
    listed: u64,
}

/// All processes.
#[derive(Debug)]
pub(super) struct Processes {
    all: BTreeMap<i32, Process>,
    /// The number of intervals of a step, and of a window.
    step: u64,
    window: u64,
    /// The intervals of the present step after moves.
    stepped: u64,
}

impl Processes {
    /// None yet. Windows and steps have these numbers of intervals.
    pub(super) fn new(window: u64, step: u64) -> Self {
        Self {
            all: BTreeMap::new(),
            step,
            window,
            stepped: 0,
        }
    }

    /// Adds an interval to the present window.
    pub(super) fn observe(&mut self, now: u64, sums: &Sums) {
        for (&id, &(progress, busy)) in sums {
            let process = self.all.entry(id).or_default();
            process.listed = now;
            if let Some(progress) = progress {
                process.progress += progress;
                process.busy += busy;
                process.intervals += 1;
                process.is_known |= process.intervals >= self.step;
            }
        }
        let forgotten = FORGOTTEN * self.step;
        self.all.retain(|_, process| now < process.listed + forgotten);
    }

    /// Ends the present window of each process, and begins the next one.
    pub(super) fn complete(&mut self) {
        for process in self.all.values_mut() {
            let window = process.measured(self.window);
            if let (Some(before), Some(now)) = (process.window, window) {
                process.noise.learn_alike(&[before, now]);
            }
            let low = process.unpinned.map(|unpinned| unpinned.log + process.lowered());
            let is_low = window.zip(low).is_some_and(|(window, low)| window.log < low);
            process.lower = if is_low { process.lower + 1 } else { 0 };
            process.window = window;
            process.clear();
        }
    }

    /// The arrangement has changed: the present window begins again.
    pub(super) fn restart(&mut self) {
        for process in self.all.values_mut() {
            process.window = None;
            process.lower = 0;
            process.clear();
        }
    }

    /// Whether the progress of this process was ever measured, for a step at least.
    pub(super) fn is_known(&self, process: i32) -> bool {
        self.all.get(&process).is_some_and(|process| process.is_known)
    }

    /// The processes that worked in the last complete window, in ascending order.
    pub(super) fn working(&self) -> impl Iterator<Item = i32> {
        let working = self.all.iter().filter(|(_, process)| process.window.is_some());
        working.map(|(&id, _)| id)
    }

    /// Moves begin: the last complete windows are those before them. Of a process without one it is what was measured so
    /// far, for a step at least: with moves that help, each interval before them is lost.
    pub(super) fn note_moves(&mut self) {
        self.stepped = 0;
        for process in self.all.values_mut() {
            process.before = process.window.or_else(|| process.measured(self.step));
            process.forget_steps();
        }
    }

    /// The mean of the changes of progress by the present moves, as logarithms; `None` where nothing was measured.
    pub(super) fn mean_change(&self) -> Option<f64> {
        let changes: Vec<f64> = self.all.values().filter_map(Process::change).collect();
        mean(&changes)
    }

    /// An interval after moves, whether it belongs to a window or not. Whether a process has clearly made less progress in
    /// the last steps.
    pub(super) fn is_alarming(&mut self, sums: &Sums) -> bool {
        self.stepped += 1;
        let ends = self.stepped.is_multiple_of(self.step);
        let mut alarming = false;
        for (id, process) in &mut self.all {
            let (Some(before), Some(&(Some(now), busy))) = (process.before, sums.get(id)) else {
                process.forget_steps();
                continue;
            };
            let share = 1.0 / self.step as f64;
            process.present.0 += share * now;
            process.present.1 += share * busy;
            if !ends {
                continue;
            }
            let (now, busy) = std::mem::take(&mut process.present);
            process.lately.rotate_left(1);
            process.lately[ALARMS - 1] = now;
            let low = (before.log + process.lowered()).exp();
            let is_low = busy >= WORKS && now < low;
            process.alarms = if is_low { process.alarms + 1 } else { 0 };
            alarming |= process.alarms >= ALARMS;
        }
        alarming
    }

    /// The last steps after moves are a window.
    pub(super) fn end_early(&mut self) {
        for process in self.all.values_mut() {
            let known = process.lately.iter().all(|&progress| progress > 0.0);
            let mean = process.lately.iter().sum::<f64>() / ALARMS as f64;
            process.window = Window::new(known.then_some(mean), MANY);
            process.clear();
        }
    }

    /// Whether a process may have lost by the present moves.
    pub(super) fn may_have_lost(&self) -> bool {
        self.all.values().any(|process| {
            let noise = process.noise.deviation().map_or(UNKNOWN_NOISE, |one| 2.0 * one);
            let change = process.change();
            change.is_some_and(|change| change < -noise.max(TOLERATED))
        })
    }

    /// A comparison begins. `with_first`: the windows before and after the present moves are its first pair.
    pub(super) fn begin_turns(&mut self, with_first: bool) {
        for process in self.all.values_mut() {
            process.turns = Turns::default();
            process.first = None;
            if let (true, Some(before), Some(window)) = (with_first, process.before, process.window) {
                process.turns.add(before, window);
            }
        }
    }

    /// The moves stay: how the operating system places tasks is of no interest.
    pub(super) fn forget_unpinned(&mut self) {
        for process in self.all.values_mut() {
            process.unpinned = None;
        }
    }

    /// Whether a process makes clearly less progress than in the last window without moves: the operating system has placed
    /// tasks differently since, or the processes do something else.
    pub(super) fn have_unpinned_lost(&self) -> bool {
        self.all.values().any(|process| process.lower >= LOWER)
    }

    /// The last complete windows are the first halves of pairs.
    pub(super) fn begin_pair(&mut self) {
        for process in self.all.values_mut() {
            process.first = process.window;
        }
    }

    /// The last complete windows are the second halves. `pinned`: with the mapper's moves.
    pub(super) fn end_pair(&mut self, pinned: bool) {
        for process in self.all.values_mut() {
            if let (Some(first), Some(second)) = (process.first.take(), process.window) {
                let (without, with) = if pinned { (first, second) } else { (second, first) };
                process.unpinned = Some(without);
                process.turns.add(without, with);
            }
        }
    }

    /// The mean of the gains by the mapper's moves, and the least, as logarithms; `None` where nothing was measured.
    pub(super) fn gains(&self) -> Option<(f64, f64)> {
        let gains: Vec<f64> = self.compared().map(|(_, _, gain)| gain.log).collect();
        let least = gains.iter().copied().min_by(f64::total_cmp)?;
        Some((mean(&gains)?, least))
    }

    /// The gain of each process, by its number.
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

    /// What this number of pairs says of the mapper's moves; `None` where more of them may tell.
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
        let mut all_the_same = true;
        for (_, process, _) in self.compared() {
            gains |= process.turns.is_above(&process.noise, NEGLIGIBLE, chance);
            all_safe &= process.turns.is_above(&process.noise, -TOLERATED, ALPHA);
            all_the_same &= process.turns.is_below(&process.noise, NEGLIGIBLE, ALPHA);
        }
        match (gains, pairs < *PAIRS.end()) {
            (true, waits) => (all_safe || !waits).then_some(MappingCode::Kept),
            (false, waits) => (all_the_same || !waits).then_some(MappingCode::NoGain),
        }
    }

    /// The processes that make less progress with the mapper's moves.
    pub(super) fn slower(&self) -> BTreeSet<i32> {
        let chance = self.chance();
        let slower = self
            .compared()
            .filter(|(_, process, gain)| gain.log < -TOLERATED && process.turns.is_below(&process.noise, 0.0, chance));
        slower.map(|(id, ..)| id).collect()
    }

    /// The chance of an error for a process, so that it is `ALPHA` for all of them.
    fn chance(&self) -> f64 {
        ALPHA / self.compared().count().max(1) as f64
    }

    /// The processes that were measured both ways.
    fn compared(&self) -> impl Iterator<Item = (i32, &Process, Gain)> {
        self.all.iter().filter_map(|(&id, process)| {
            let gain = process.turns.gain(&process.noise)?;
            Some((id, process, gain))
        })
    }
}

/// By process: the progress in an interval, which is `None` where that of a task is not known, and the processor time.
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

impl Process {
    fn forget_steps(&mut self) {
        (self.present, self.lately, self.alarms) = ((0.0, 0.0), [0.0; ALARMS], 0);
    }

    /// The logarithm of clearly less progress over that before.
    fn lowered(&self) -> f64 {
        let noise = self.noise.deviation().unwrap_or(0.0);
        (1.0 - ALARMING.max(4.0 * noise).min(0.99)).ln()
    }

    /// The present window, if it has this number of intervals at least; `None` where the process did no work in it.
    fn measured(&self, least: u64) -> Option<Window> {
        let share = 1.0 / self.intervals.max(1) as f64;
        let works = self.intervals >= least && self.busy * share >= WORKS;
        works.then(|| Window::new(Some(self.progress * share), MANY)).flatten()
    }

    fn clear(&mut self) {
        (self.progress, self.busy, self.intervals) = (0.0, 0.0, 0);
    }

    /// The logarithm of its progress after the present moves over that before.
    fn change(&self) -> Option<f64> {
        Some(self.window?.log - self.before?.log)
    }
}
