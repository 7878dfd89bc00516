//! The steps of the policy, and the length of its windows.
//!
//! A step is a window, or the time before it while threads, pages and caches settle.
//! The length of a window follows from the rate: each window should have `COUNTS` counts.

use super::options::AutoTimes;
use super::placement::Placement;
use std::time::Duration;

/// The counts that a window should have: its rate is then known to one percent.
pub(super) const COUNTS: f64 = 40.0;

/// The most repetitions of a window while threads start or end.
const REPEATS: u32 = 5;

/// Threads may settle for this share of the program's run time, beyond the shortest time. So more pages may follow
/// their threads in a program that has run for longer.
const SETTLE: f64 = 0.002;

/// The unpinned program settles for this multiple of the time, because the operating system leaves threads for a while
/// where they were pinned.
const UNPINNED_SETTLES: u32 = 3;

/// Windows after the choice last at least this many times the shortest window.
const WATCHED: u32 = 5;

/// The window that identifies a phase lasts at least this many times the shortest window.
const IDENTIFIED: u32 = 10;

/// Why a window is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The rate and its noise before a search.
    Baseline,
    /// A candidate is compared with another one.
    Trial,
    /// The best candidate runs until the budget allows the next trial.
    Waiting,
    /// The choice is watched.
    Watching,
    /// The rate has changed. The rates of all metrics identify the phase.
    Signature,
}

impl Purpose {
    /// Whether the window belongs to a search or to the watch after it, and not to a baseline or a signature.
    pub(super) fn is_search_or_watch(self) -> bool {
        !matches!(self, Self::Baseline | Self::Signature)
    }
}

/// A step of the policy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Threads, pages and caches settle before a window.
    Settling(Purpose),
    /// A window is measured.
    Measuring(Purpose),
}

/// What the policy does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A window begins now.
    Measure(Purpose),
    /// A window begins when threads, pages and caches have settled.
    Settle(Purpose),
    /// The next trial begins, or the current one goes on. Without a trial the search ends.
    Try,
    /// The choice is watched.
    Watch,
}

/// The current step and the length of windows.
#[derive(Debug)]
pub(super) struct Windows {
    times: AutoTimes,
    length: Duration,
    step: Step,
    /// The repetitions of the window.
    repeats: u32,
}

impl Windows {
    /// The shortest windows.
    pub(super) fn new(times: AutoTimes) -> Self {
        Self {
            times,
            length: times.shortest,
            step: Step::Measuring(Purpose::Baseline),
            repeats: 0,
        }
    }

    /// The metric is read at this interval: a window has at least two readings.
    pub(super) fn fit(&mut self, reading: Duration) {
        self.length = self.times.shortest.max(reading * 2).min(self.times.longest);
    }

    /// Doubles the length if the last window had a rate and too few counts.
    pub(super) fn adapt(&mut self, rate: Option<f64>, counts: f64) {
        if counts < COUNTS / 2.0 && rate.is_some() {
            self.length = (self.length * 2).min(self.times.longest);
        }
    }

    /// The length of a window of the search.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// The time from one rate line to the next.
    pub(super) fn line(&self) -> Duration {
        self.times.line
    }

    /// The current step.
    pub(super) fn step(&self) -> Step {
        self.step
    }

    /// Begins a window. Returns its length.
    pub(super) fn measure(&mut self, purpose: Purpose) -> Duration {
        self.step = Step::Measuring(purpose);
        match purpose {
            Purpose::Watching | Purpose::Waiting => self.length.max(self.times.shortest * WATCHED),
            Purpose::Signature => self.length.max(self.times.shortest * IDENTIFIED),
            Purpose::Baseline | Purpose::Trial => self.length,
        }
    }

    /// Lets a placement settle at `at`. Returns for how long.
    pub(super) fn settle(&mut self, purpose: Purpose, placement: &Placement, at: Duration) -> Duration {
        self.step = Step::Settling(purpose);
        self.placement_settles(placement, at)
    }

    /// Whether a window is repeated after threads started or ended in it.
    pub(super) fn repeats(&mut self) -> bool {
        let repeats = self.repeats < REPEATS;
        self.repeats += u32::from(repeats);
        repeats
    }

    /// The window has ended, so the next one may be repeated again.
    pub(super) fn end(&mut self) {
        self.repeats = 0;
    }

    /// How long pinned threads and their caches settle.
    pub(super) fn settles(&self, at: Duration) -> Duration {
        self.times.settle.max(at.mul_f64(SETTLE))
    }

    /// How long threads and caches settle in a placement.
    pub(super) fn placement_settles(&self, placement: &Placement, at: Duration) -> Duration {
        let settles = self.settles(at);
        match placement.pinning {
            Some(_) => settles,
            None => settles * UNPINNED_SETTLES,
        }
    }
}
