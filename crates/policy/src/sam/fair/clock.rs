//! The number of decisions, and which intervals are measured.

use std::time::Duration;

/// A step is the paper's interval, or several shorter ones. All times of the comparison are in steps: the operating
/// system takes as long to place unpinned tasks with shorter intervals.
const STEP: Duration = Duration::from_millis(100);

/// The steps of a window. Assumed: three show how much they differ from each other.
pub(super) const WINDOW: u64 = 3;

/// The steps after a change that are not measured: pages and tasks still move, and caches are cold.
pub(super) const SETTLE: u64 = 2;

/// What an interval measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interval {
    /// Nothing: tasks settle after a change.
    Settling,
    /// A part of a window.
    InWindow,
    /// The last part of a window.
    EndsWindow,
}

/// Counts intervals.
#[derive(Debug)]
pub(super) struct Clock {
    interval: Duration,
    /// The intervals of a step.
    step: u64,
    /// The number of decisions.
    now: u64,
    /// The intervals since the last change of the arrangement.
    quiet: u64,
}

impl Clock {
    /// `interval` is the time between two decisions.
    pub(super) fn new(interval: Duration) -> Self {
        let step = STEP.as_nanos().checked_div(interval.as_nanos()).unwrap_or(1);
        let step = u64::try_from(step).unwrap_or(1).max(1);
        Self {
            interval,
            step,
            now: 0,
            quiet: step * SETTLE,
        }
    }

    /// The number of decisions.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// The number of intervals in this number of steps.
    pub(super) fn steps(&self, steps: u64) -> u64 {
        self.step * steps
    }

    /// The seconds of this number of intervals.
    pub(super) fn seconds(&self, intervals: f64) -> f64 {
        self.interval.as_secs_f64() * intervals
    }

    /// Begins the next decision.
    pub(super) fn advance(&mut self) {
        self.now += 1;
    }

    /// The arrangement has changed: tasks settle again.
    pub(super) fn restart(&mut self) {
        self.quiet = 0;
    }

    /// What this interval measures. `is_known`: whether the progress of a process is known. The first interval has no
    /// rates, and a window that began with it would measure nothing.
    pub(super) fn measure(&mut self, is_known: bool) -> Interval {
        self.quiet += u64::from(is_known);
        match self.quiet.saturating_sub(self.steps(SETTLE)) {
            0 => Interval::Settling,
            measured if measured.is_multiple_of(self.steps(WINDOW)) => Interval::EndsWindow,
            _ => Interval::InWindow,
        }
    }
}
