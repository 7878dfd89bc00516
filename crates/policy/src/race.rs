//! When a candidate has lost, so that it need not be given its full time (`--search racing`).
//!
//! A candidate's readings are compared with those of the best candidate so far by Welch's one-sided test:
//!
//! 1. The first look is taken at `FEWEST` readings, each further look when there are a quarter more.
//! 2. The `k`-th look is held to the level `ALPHA * 6 / (pi^2 k^2)`. These levels add up to `ALPHA` over all looks,
//!    so that the chance of dropping a candidate that is as good as the best is at most `ALPHA`, however often one
//!    looks (the union bound).
//! 3. While the candidate warms up, its rate still rises. Only the later half of the readings is used, and what is
//!    tested is where they are heading: the straight line through them, carried on for `w / 3`. The user says with
//!    `w` that warming up is over after it; an exponential recovery is over (to 95 %) after three of its time
//!    constants, so its time constant is at most `w / 3`, and what it still gains is at most its slope times its time
//!    constant. A slope that is not known well makes the outlook uncertain, and the test waits.
//!
//! A candidate that cannot be told from the best keeps its full time, and so does one that wins.
//!
//! Limits: the level holds for readings that are about normal and AR(1) (`statistics`). A program whose phases differ
//! more than its pinnings fools this test as it fools the paper's comparison, and here it does so sooner.

use crate::statistics::{self, Estimate, Reading};
use std::time::Duration;

/// The chance of dropping a candidate that is in truth as good as the best: 99 % confidence.
const ALPHA: f64 = 0.01;

/// With fewer readings the autocorrelation cannot be estimated.
const FEWEST: usize = 8;

/// The race of one candidate against the best so far.
#[derive(Debug, Default)]
pub(crate) struct Race {
    /// Without an estimate of the best there is nothing to lose against.
    best: Option<Estimate>,
    looks: u32,
    next_look: usize,
}

impl Race {
    /// A race against the candidate whose probe gave these readings.
    pub(crate) fn against(best: &[Reading]) -> Self {
        Self {
            best: statistics::level(best),
            ..Self::default()
        }
    }

    /// Whether there is a best to lose against.
    pub(crate) fn is_on(&self) -> bool {
        self.best.is_some()
    }

    /// The candidate's warm-up is over and its readings begin anew; the looks that were taken still count.
    pub(crate) fn warmed_up(&mut self) {
        self.next_look = 0;
    }

    /// Whether the candidate whose probe gave `readings` so far has lost.
    pub(crate) fn lost(&mut self, readings: &[Reading]) -> bool {
        self.look(readings.len()) && self.tells(statistics::level(readings))
    }

    /// The same while it warms up for `warm_up`: the readings that show that it has lost, if it has.
    pub(crate) fn lost_in_warm_up<'a>(&mut self, readings: &'a [Reading], warm_up: Duration) -> Option<&'a [Reading]> {
        let later = &readings[readings.len() / 2..];
        let time_constant = warm_up.as_secs_f64() / 3.0;
        (self.look(later.len()) && self.tells(statistics::outlook(later, time_constant))).then_some(later)
    }

    /// Whether it is time for a look at so many readings, and if so takes note of it.
    fn look(&mut self, readings: usize) -> bool {
        if readings < self.next_look.max(FEWEST) {
            return false;
        }
        self.looks += 1;
        self.next_look = readings + readings.div_ceil(4);
        true
    }

    fn tells(&self, candidate: Option<Estimate>) -> bool {
        let level = ALPHA * 6.0 / (std::f64::consts::PI * f64::from(self.looks)).powi(2);
        match (candidate, self.best) {
            (Some(candidate), Some(best)) => statistics::chance_of_not_lower(&candidate, &best) < level,
            _ => false,
        }
    }
}
