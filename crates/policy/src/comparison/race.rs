//! Decides when a candidate has lost, so that it does not get its full time (`--search racing`).
//!
//! A race has two rounds. In the first, each candidate in turn is pinned just long enough to be compared: it is
//! screened. A candidate that has not lost against the best one goes to the second round, the best candidate first.
//! There it is probed as in autopin's paper: it warms up for `w` and is measured for `t`, unless it loses before. So
//! all candidates but the best one cost little, independent of the position of the best one in the list. A candidate
//! that is not distinguishable from the best one keeps its full time.
//!
//! Welch's one-sided test compares a candidate's readings with the readings of the best one so far:
//!
//! 1. The first look is taken at `FEWEST` readings, each further look when there are a quarter more.
//! 2. The `k`-th look has the level `ALPHA * 6 / (pi^2 k^2)`. These levels sum to `ALPHA` over all looks. So the
//!    probability of dropping a candidate that is as good as the other is at most `ALPHA` for any number of looks (the
//!    union bound). At the end of the screening round the candidates share the level.
//! 3. The rate of a candidate still rises while it warms up. So the test takes the later half of the readings, and
//!    extrapolates the straight line through them by `w / 3`: this is the candidate's outlook. The user's `w` is the
//!    time after which warming up is over. An exponential recovery is over (to 95 %) after three time constants, so its
//!    time constant is at most `w / 3`, and its remaining gain is at most its slope times its time constant. An
//!    uncertain slope makes the outlook uncertain, and the test waits. The best candidate's rate has no outlook.
//! 4. A screening ends when the candidate has lost, when its outlook is known to `KNOWN`, or after `w`.
//!
//! Limits: the level holds for readings that are about normal and AR(1) (`statistics`). If the phases of a program
//! differ more than its pinnings, this test errs as a whole probe does, and earlier.

use pinfold_core::statistics::{self, Estimate, Reading};
use std::time::Duration;

/// The probability of dropping a candidate that is as good as the best: 99 % confidence.
const ALPHA: f64 = 0.01;

/// With fewer readings the autocorrelation cannot be estimated.
const FEWEST: usize = 8;

/// A screening ends when the candidate's outlook is known to this share of itself, with the same confidence. The second
/// round decides between candidates that differ by less.
const KNOWN: f64 = 0.05;

/// The race of one candidate against the best so far.
#[derive(Debug, Default)]
pub(crate) struct Race {
    /// `None` if the best one has no estimate; then no candidate can lose.
    best: Option<Estimate>,
    looks: u32,
    next_look: usize,
}

/// The result of a look during a screening or a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Look {
    /// The readings are not sufficient.
    Open,
    /// The candidate has lost.
    Lost,
    /// Its outlook is known.
    Known,
}

/// The outlook of a candidate whose warm-up takes `warm_up` in all, and the readings that it is taken from.
pub(crate) fn outlook(readings: &[Reading], warm_up: Duration) -> (&[Reading], Option<Estimate>) {
    let later = &readings[readings.len() / 2..];
    let time_constant = warm_up.as_secs_f64() / 3.0;
    (later, statistics::outlook(later, time_constant))
}

/// Whether a candidate with this outlook has lost at the end of the screening round. `best` are the readings of the
/// best of `candidates`.
pub(crate) fn lost_screening(outlook: &Estimate, best: &[Reading], candidates: usize) -> bool {
    let level = ALPHA / candidates as f64;
    statistics::level(best).is_some_and(|best| statistics::chance_of_not_lower(outlook, &best) < level)
}

impl Race {
    /// A race against the candidate with these readings, of its probe or its screening.
    pub(crate) fn against(best: &[Reading]) -> Self {
        Self {
            best: statistics::level(best),
            ..Self::default()
        }
    }

    /// Whether there is a best candidate to compare with.
    pub(crate) fn is_on(&self) -> bool {
        self.best.is_some()
    }

    /// The candidate's warm-up is over and its readings begin again. Earlier looks still count.
    pub(crate) fn warmed_up(&mut self) {
        self.next_look = 0;
    }

    /// Whether the candidate whose probe gave `readings` so far has lost.
    pub(crate) fn lost(&mut self, readings: &[Reading]) -> bool {
        self.is_time(readings.len()) && statistics::level(readings).is_some_and(|level| self.has_lost(&level))
    }

    /// The result of the readings since the candidate was pinned. Its warm-up takes `warm_up` in all.
    pub(crate) fn look(&mut self, readings: &[Reading], warm_up: Duration) -> Look {
        if !self.is_time(readings.len() / 2) {
            return Look::Open;
        }
        match outlook(readings, warm_up).1 {
            Some(outlook) if self.has_lost(&outlook) => Look::Lost,
            Some(outlook) if statistics::chance_of_error(&outlook, KNOWN * outlook.value) < ALPHA => Look::Known,
            _ => Look::Open,
        }
    }

    /// Whether a look is due at this number of readings; if so, counts it.
    fn is_time(&mut self, readings: usize) -> bool {
        if readings < self.next_look.max(FEWEST) {
            return false;
        }
        self.looks += 1;
        self.next_look = readings + readings.div_ceil(4);
        true
    }

    fn has_lost(&self, candidate: &Estimate) -> bool {
        let level = ALPHA * 6.0 / (std::f64::consts::PI * f64::from(self.looks)).powi(2);
        self.best
            .is_some_and(|best| statistics::chance_of_not_lower(candidate, &best) < level)
    }
}
