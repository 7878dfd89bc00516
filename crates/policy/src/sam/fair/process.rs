//! The progress of one process, and how much of it the moves cost or gain.
//!
//! Progress is the number of instructions per interval of all tasks of the process, relative to one instruction per
//! cycle, the bytes that they read and write, or the calls of a function. A window is the mean of some intervals in one arrangement.

use crate::comparison::turns::{ALPHA, Gain, NEGLIGIBLE, Noise, Turns, Window};

/// A task or process that uses less of a PU does no work that placement could change. Assumed.
pub(super) const WORKS: f64 = 0.05;

/// The loss that a process tolerates, as a logarithm.
const TOLERATED: f64 = 0.01;

/// A loss in a single window counts from this on, while the noise of the process is unknown. Assumed.
const UNKNOWN_NOISE: f64 = 0.03;

/// The counts of a window: with this many instructions, rounding is negligible.
const MANY: f64 = 1e9;

/// A step is alarming if a process makes this much less progress than before the moves. Assumed: more than cold caches
/// cost.
const ALARMING: f64 = 0.15;

/// This number of alarming steps in a row is an alarm. Assumed.
const ALARMS: usize = 2;

/// An unpinned process has lost progress after this number of low windows in a row. Assumed: a second.
const LOWER: usize = 3;

/// Sums over intervals.
#[derive(Debug, Default)]
struct Sum {
    progress: f64,
    /// The processor time, in intervals.
    busy: f64,
    intervals: u64,
}

impl Sum {
    fn add(&mut self, progress: f64, busy: f64) {
        self.progress += progress;
        self.busy += busy;
        self.intervals += 1;
    }

    /// The mean as a window. `None` for fewer intervals than `least`, or if the process did no work.
    fn window(&self, least: u64) -> Option<Window> {
        let share = 1.0 / self.intervals.max(1) as f64;
        let works = self.intervals >= least && self.busy * share >= WORKS;
        works.then(|| Window::new(Some(self.progress * share), MANY)).flatten()
    }
}

/// The steps since moves began.
#[derive(Debug, Default)]
struct Steps {
    /// Progress and processor time of the unfinished step.
    unfinished: (f64, f64),
    /// The progress of the last steps.
    last: [f64; ALARMS],
    /// How many of the last steps in a row were alarming.
    alarms: usize,
}

/// What the operating system achieved after moves were given up.
#[derive(Debug, Default)]
struct Unpinned {
    /// The last window of the comparison without the moves.
    window: Option<Window>,
    /// How many windows in a row since then were much lower.
    lower: usize,
}

/// One process.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// The unfinished window.
    sum: Sum,
    /// The last complete window in this arrangement. `None` if the process did no work.
    window: Option<Window>,
    /// Whether it was ever measured for a step.
    is_known: bool,
    /// Whether the mapper may no longer move it.
    is_barred: bool,
    /// The last window before the moves.
    before: Option<Window>,
    /// Whether the progress had another unit in that window.
    has_other_unit: bool,
    steps: Steps,
    unpinned: Unpinned,
    /// The first half of a pair.
    first: Option<Window>,
    noise: Noise,
    /// The pairs of a comparison: without the moves, and with them.
    turns: Turns,
    /// The last interval that listed it.
    listed: u64,
}

impl Process {
    /// Adds an interval to the unfinished window. `progress` is `None` if that of a task is unknown. `step` is the
    /// length of a step.
    pub(super) fn observe(&mut self, now: u64, progress: Option<f64>, busy: f64, step: u64) {
        self.listed = now;
        if let Some(progress) = progress {
            self.sum.add(progress, busy);
            self.is_known |= self.sum.intervals >= step;
        }
    }

    /// Its progress has another unit from now on: nothing that was measured compares with it. Moves that were made have
    /// to be compared all the same.
    pub(super) fn forget_progress(&mut self) {
        *self = Self {
            has_other_unit: true,
            is_known: self.is_known,
            is_barred: self.is_barred,
            listed: self.listed,
            ..Self::default()
        };
    }

    /// The last interval that listed it.
    pub(super) fn listed(&self) -> u64 {
        self.listed
    }

    /// Whether it was ever measured for a step.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether it worked in the last complete window.
    pub(super) fn works(&self) -> bool {
        self.window.is_some()
    }

    /// Whether the mapper may no longer move it.
    pub(super) fn is_barred(&self) -> bool {
        self.is_barred
    }

    /// The mapper may move it, or no longer.
    pub(super) fn bar(&mut self, is_barred: bool) {
        self.is_barred = is_barred;
    }

    /// Ends the window, which has `length` intervals.
    pub(super) fn complete(&mut self, length: u64) {
        let window = self.sum.window(length);
        if let (Some(before), Some(now)) = (self.window, window) {
            self.noise.learn_alike(&[before, now]);
        }
        let low = self
            .unpinned
            .window
            .map(|unpinned| unpinned.log + self.alarming_change());
        let is_low = window.zip(low).is_some_and(|(window, low)| window.log < low);
        self.unpinned.lower = if is_low { self.unpinned.lower + 1 } else { 0 };
        self.window = window;
        self.sum = Sum::default();
    }

    /// The arrangement has changed: the window begins again.
    pub(super) fn restart(&mut self) {
        self.window = None;
        self.unpinned.lower = 0;
        self.sum = Sum::default();
    }

    /// Moves begin. Without a complete window before them, the intervals so far count if they are a step at least: each
    /// further interval without moves would be lost if the moves help.
    pub(super) fn note_moves(&mut self, step: u64) {
        self.before = self.window.or_else(|| self.sum.window(step));
        self.has_other_unit = false;
        self.forget_steps();
    }

    /// Forgets the steps since moves began.
    pub(super) fn forget_steps(&mut self) {
        self.steps = Steps::default();
    }

    /// Adds an interval to the steps since moves began. `share`: one by the intervals of a step. `ends`: a step ends.
    /// Returns whether the last steps are an alarm.
    pub(super) fn observe_step(&mut self, progress: Option<f64>, busy: f64, share: f64, ends: bool) -> bool {
        let (Some(before), Some(progress)) = (self.before, progress) else {
            self.forget_steps();
            return false;
        };
        self.steps.unfinished.0 += share * progress;
        self.steps.unfinished.1 += share * busy;
        if !ends {
            return false;
        }
        let (now, busy) = std::mem::take(&mut self.steps.unfinished);
        self.steps.last.rotate_left(1);
        self.steps.last[ALARMS - 1] = now;
        let low = (before.log + self.alarming_change()).exp();
        let is_low = busy >= WORKS && now < low;
        self.steps.alarms = if is_low { self.steps.alarms + 1 } else { 0 };
        self.steps.alarms >= ALARMS
    }

    /// The last steps since moves began are a window.
    pub(super) fn end_early(&mut self) {
        let is_complete = self.steps.last.iter().all(|&progress| progress > 0.0);
        let mean = self.steps.last.iter().sum::<f64>() / ALARMS as f64;
        self.window = Window::new(is_complete.then_some(mean), MANY);
        self.sum = Sum::default();
    }

    /// The logarithm of its progress after the moves over its progress before.
    pub(super) fn change(&self) -> Option<f64> {
        Some(self.window?.log - self.before?.log)
    }

    /// Whether it may have lost progress by the moves. Nothing is known of that if the unit has changed since.
    pub(super) fn may_have_lost(&self) -> bool {
        let noise = self.noise.deviation().map_or(UNKNOWN_NOISE, |one| 2.0 * one);
        let change = self.change();
        self.has_other_unit || change.is_some_and(|change| change < -noise.max(TOLERATED))
    }

    /// Whether it makes clearly less progress than when moves were given up: the operating system has placed tasks
    /// differently since, or the program does something else.
    pub(super) fn has_lost_unpinned(&self) -> bool {
        self.unpinned.lower >= LOWER
    }

    /// Forgets what the operating system achieved.
    pub(super) fn forget_unpinned(&mut self) {
        self.unpinned.window = None;
    }

    /// A comparison begins. `with_first`: the windows before and after the moves are its first pair.
    pub(super) fn begin_turns(&mut self, with_first: bool) {
        self.turns = Turns::default();
        self.first = None;
        if let (true, Some(before), Some(window)) = (with_first, self.before, self.window) {
            self.turns.add(before, window);
        }
    }

    /// The last window is the first half of a pair.
    pub(super) fn begin_pair(&mut self) {
        self.first = self.window;
    }

    /// The last window is the second half of a pair. `pinned`: the moves are in force.
    pub(super) fn end_pair(&mut self, pinned: bool) {
        if let (Some(first), Some(second)) = (self.first.take(), self.window) {
            let (without, with) = if pinned { (first, second) } else { (second, first) };
            self.unpinned.window = Some(without);
            self.turns.add(without, with);
        }
    }

    /// The gain by the moves. `None` if it was not measured in both arrangements.
    pub(super) fn gain(&self) -> Option<Gain> {
        self.turns.gain(&self.noise)
    }

    /// Whether it makes more progress with the moves, with this chance of an error.
    pub(super) fn gains(&self, chance: f64) -> bool {
        self.turns.is_above(&self.noise, NEGLIGIBLE, chance)
    }

    /// Whether it loses no more than it tolerates.
    pub(super) fn is_safe(&self) -> bool {
        self.turns.is_above(&self.noise, -TOLERATED, ALPHA)
    }

    /// Whether it gains nothing that counts.
    pub(super) fn is_without_gain(&self) -> bool {
        self.turns.is_below(&self.noise, NEGLIGIBLE, ALPHA)
    }

    /// Whether it makes less progress with the moves, with this chance of an error.
    pub(super) fn is_slower(&self, gain: Gain, chance: f64) -> bool {
        gain.log < -TOLERATED && self.turns.is_below(&self.noise, 0.0, chance)
    }

    /// The logarithm of an alarming loss.
    fn alarming_change(&self) -> f64 {
        let noise = self.noise.deviation().unwrap_or(0.0);
        (1.0 - ALARMING.max(4.0 * noise).min(0.99)).ln()
    }
}
