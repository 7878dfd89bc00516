//! Two placements in turns: A B, B A, A B, …
//!
//! The rate of a program drifts while it runs. So two placements are never compared by measurements from different
//! times, but by pairs of windows, one right after the other. The difference of a pair is the difference of the
//! logarithms of its rates. Every second pair is reversed, so that a steady drift cancels out.
//!
//! 1. The variance of a difference is pooled over all comparisons of a phase (`Noise`): it belongs to the program and
//!    the metric more than to the placements. Windows of one placement, two by two, give its first estimate.
//! 2. A count is a whole number, so a window of `n` counts knows its rate to `0.41 / n`. The variance is at least as
//!    large as this error.
//! 3. After each pair B is tested against A by Student's t. The `k`-th look has the level `ALPHA * 6 / (pi^2 k^2)`;
//!    these sum to `ALPHA` over all looks, many looks find no more wrong gains than one (union bound).
//! 4. B is faster if its gain is above zero, from the second pair on. It is not faster if its gain is below
//!    `NEGLIGIBLE`.

use pinfold_core::ProgramGain;
use pinfold_core::statistics::{Estimate, chance_of_error};
use serde::{Deserialize, Serialize};

/// The probability of a wrong verdict.
pub(crate) const ALPHA: f64 = 0.005;

/// A gain below this is not looked for: 0.3 %.
pub(crate) const NEGLIGIBLE: f64 = 0.003;

/// The standard deviation of a window's whole number of counts.
const ROUNDING: f64 = 0.41;

/// No program is assumed to be steadier than this from one window to the next.
const STEADIEST: f64 = 0.001;

/// The fewest pairs before something is said to be faster: the first half of a change in the program's speed looks like
/// a gain in one pair.
const FEWEST: usize = 2;

/// What a window measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// The natural logarithm of the rate.
    pub(crate) log: f64,
    /// The counts.
    pub(crate) counts: f64,
}

impl Window {
    /// A window with this rate; `None` if nothing was counted.
    pub(crate) fn new(rate: Option<f64>, counts: f64) -> Option<Self> {
        let rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0)?;
        Some(Self {
            log: rate.ln(),
            counts: counts.max(1.0),
        })
    }
}

/// How much the difference of two windows varies, from all comparisons of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noise {
    squares: f64,
    degrees_of_freedom: f64,
}

impl Noise {
    /// Windows of one placement, in the order of time: the differences of neighbours are noise.
    pub(crate) fn learn_alike(&mut self, windows: &[Window]) {
        for pair in windows.chunks_exact(2) {
            self.squares += (pair[1].log - pair[0].log).powi(2);
            self.degrees_of_freedom += 1.0;
        }
    }

    /// The differences of a comparison: their deviations from the mean are noise.
    fn learn(&mut self, differences: &[f64]) {
        let of = Self::of(differences);
        self.squares += of.squares;
        self.degrees_of_freedom += of.degrees_of_freedom;
    }

    /// Forgets the differences of a comparison that goes on: they count with the comparison.
    fn forget(&mut self, differences: &[f64]) {
        let of = Self::of(differences);
        self.squares = (self.squares - of.squares).max(0.0);
        self.degrees_of_freedom = (self.degrees_of_freedom - of.degrees_of_freedom).max(0.0);
    }

    fn of(differences: &[f64]) -> Self {
        let mean = mean(differences);
        Self {
            squares: differences.iter().map(|one| (one - mean).powi(2)).sum(),
            degrees_of_freedom: (differences.len() as f64 - 1.0).max(0.0),
        }
    }

    /// The standard deviation of a difference; `None` before anything is known.
    pub(crate) fn deviation(&self) -> Option<f64> {
        (self.degrees_of_freedom > 0.0).then(|| (self.squares / self.degrees_of_freedom).sqrt().max(STEADIEST))
    }
}

/// The result of a comparison so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More pairs may tell.
    Open,
    /// B is faster.
    Faster,
    /// B is not faster, or by less than is worth a search.
    NotFaster,
}

/// The gain of B over A, as logarithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gain {
    pub(crate) log: f64,
    /// Its standard error.
    pub(crate) error: f64,
}

impl Gain {
    /// The gain of C over A, from this gain of B over A and the `other` gain of C over B.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            log: self.log + other.log,
            error: self.error.hypot(other.error),
        }
    }

    /// The gain of A over B.
    pub(crate) fn inverse(self) -> Self {
        Self { log: -self.log, ..self }
    }

    /// The gain of a program that was A and is B, as a finding has it.
    pub(crate) fn of_program(self) -> ProgramGain {
        let (times, error) = self.times();
        ProgramGain {
            gain: times - 1.0,
            error,
        }
    }

    /// How many times as fast, and the standard error of that.
    pub(crate) fn times(self) -> (f64, f64) {
        let times = self.log.exp();
        (times, times * self.error)
    }
}

/// Pairs of windows of two placements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turns {
    differences: Vec<f64>,
    /// The sum of the variances that follow from whole counts.
    rounding: f64,
    looks: u32,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Whether the true value is above a limit, with at most this chance of an error.
fn is_above(estimate: &Estimate, limit: f64, chance: f64) -> bool {
    chance_of_error(estimate, estimate.value - limit) < chance
}

fn is_below(estimate: &Estimate, limit: f64, chance: f64) -> bool {
    chance_of_error(estimate, limit - estimate.value) < chance
}

impl Turns {
    /// The number of pairs.
    pub(crate) fn number(&self) -> usize {
        self.differences.len()
    }

    /// A pair is complete.
    pub(crate) fn add(&mut self, a: Window, b: Window) {
        self.differences.push(b.log - a.log);
        self.rounding += (ROUNDING / a.counts).powi(2) + (ROUNDING / b.counts).powi(2);
    }

    /// The gain of B, with what `noise` knows of other comparisons; `None` without a pair, and where the noise is not
    /// known at all.
    fn estimate(&self, noise: &Noise) -> Option<Estimate> {
        if self.differences.is_empty() {
            return None;
        }
        let mut pooled = *noise;
        pooled.learn(&self.differences);
        let number = self.differences.len() as f64;
        let variance = pooled.deviation()?.powi(2).max(self.rounding / number);
        Some(Estimate {
            value: mean(&self.differences),
            variance: variance / number,
            degrees_of_freedom: pooled.degrees_of_freedom,
        })
    }

    /// The gain of B so far.
    pub(crate) fn gain(&self, noise: &Noise) -> Option<Gain> {
        let estimate = self.estimate(noise)?;
        Some(Gain {
            log: estimate.value,
            error: estimate.variance.sqrt(),
        })
    }

    /// Looks at the pairs.
    pub(crate) fn look(&mut self, noise: &Noise) -> Verdict {
        self.look_among(noise, 1.0)
    }

    /// Looks at the pairs. B is one of `number` placements that are compared with A, and the level holds for all of
    /// them together.
    pub(crate) fn look_among(&mut self, noise: &Noise, number: f64) -> Verdict {
        let Some(estimate) = self.estimate(noise) else {
            return Verdict::Open;
        };
        self.looks += 1;
        let level = ALPHA / number * 6.0 / (std::f64::consts::PI * f64::from(self.looks)).powi(2);
        if self.number() >= FEWEST && is_above(&estimate, 0.0, level) {
            Verdict::Faster
        } else if is_below(&estimate, NEGLIGIBLE, level) {
            Verdict::NotFaster
        } else {
            Verdict::Open
        }
    }

    /// Whether the gain of B is above this logarithm, with at most this chance of an error.
    pub(crate) fn is_above(&self, noise: &Noise, limit: f64, chance: f64) -> bool {
        self.estimate(noise)
            .is_some_and(|estimate| is_above(&estimate, limit, chance))
    }

    /// Whether it is below.
    pub(crate) fn is_below(&self, noise: &Noise, limit: f64, chance: f64) -> bool {
        self.estimate(noise)
            .is_some_and(|estimate| is_below(&estimate, limit, chance))
    }

    /// A comparison that was over goes on.
    pub(crate) fn reopen(&self, noise: &mut Noise) {
        if !self.differences.is_empty() {
            noise.forget(&self.differences);
        }
    }

    /// The comparison is over: its differences are known to all others of the phase.
    pub(crate) fn end(&self, noise: &mut Noise) {
        if !self.differences.is_empty() {
            noise.learn(&self.differences);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::random::Random;

    fn window(log: f64) -> Window {
        Window { log, counts: 1e6 }
    }

    /// The verdict on B, which is faster by `gain`, after at most `pairs`. The program drifts by `drift` from window to
    /// window.
    fn verdict(gain: f64, noise: f64, drift: f64, pairs: usize, random: &mut Random) -> Verdict {
        let mut time = 0.0;
        let mut next = |gain: f64, random: &mut Random| {
            time += 1.0;
            window(drift * time + gain + noise * random.normal())
        };
        let mut known = Noise::default();
        let alike: Vec<Window> = (0..6).map(|_| next(0.0, random)).collect();
        known.learn_alike(&alike);
        let mut turns = Turns::default();
        for _ in 0..pairs {
            let (a, b) = if turns.number() % 2 == 1 {
                let b = next(gain, random);
                (next(0.0, random), b)
            } else {
                let a = next(0.0, random);
                (a, next(gain, random))
            };
            turns.add(a, b);
            let verdict = turns.look(&known);
            if verdict != Verdict::Open {
                return verdict;
            }
        }
        Verdict::Open
    }

    fn share(wanted: Verdict, gain: f64, noise: f64, drift: f64) -> f64 {
        let mut random = Random::new(11);
        let trials = 1000;
        let found = (0..trials)
            .filter(|_| verdict(gain, noise, drift, 12, &mut random) == wanted)
            .count();
        found as f64 / f64::from(trials)
    }

    #[test]
    fn what_is_as_fast_is_hardly_ever_said_to_be_faster() {
        for noise in [0.002, 0.02, 0.2] {
            let wrong = share(Verdict::Faster, 0.0, noise, 0.0);
            assert!(wrong <= 0.01, "noise {noise}: {wrong}");
        }
    }

    #[test]
    fn a_gain_of_five_times_the_noise_is_seen_and_a_loss_is_dropped() {
        assert!(share(Verdict::Faster, 0.05, 0.01, 0.0) > 0.99);
        assert!(share(Verdict::NotFaster, -0.05, 0.01, 0.0) > 0.99);
    }

    #[test]
    fn a_steady_drift_is_no_gain() {
        let wrong = share(Verdict::Faster, 0.0, 0.005, 0.01);
        assert!(wrong <= 0.01, "{wrong}");
    }

    #[test]
    fn few_counts_are_not_taken_for_certain() {
        let mut known = Noise::default();
        known.learn_alike(&[window(0.0); 6]);
        let few = |log| Window { log, counts: 4.0 };
        let mut turns = Turns::default();
        for _ in 0..3 {
            turns.add(few(4f64.ln()), few(5f64.ln()));
        }
        assert_eq!(turns.look(&known), Verdict::Open);
    }

    #[test]
    fn a_comparison_that_goes_on_counts_once() {
        let mut noise = Noise::default();
        noise.learn_alike(&[0.0, 0.02, 0.0, -0.01].map(window));
        let mut turns = Turns::default();
        for log in [0.1, 0.13, 0.08] {
            turns.add(window(0.0), window(log));
        }
        let before = turns.gain(&noise).unwrap();
        let mut later = noise;
        turns.end(&mut later);
        turns.reopen(&mut later);
        let after = turns.gain(&later).unwrap();
        assert!((after.error - before.error).abs() < 1e-12, "{before:?} {after:?}");
    }

    #[test]
    fn one_pair_can_lose_but_not_win() {
        let mut known = Noise::default();
        known.learn_alike(&[0.0, 0.001, 0.0, -0.001, 0.0, 0.001].map(window));
        let mut turns = Turns::default();
        turns.add(window(0.0), window(0.7));
        assert_eq!(turns.look(&known), Verdict::Open);
        let mut turns = Turns::default();
        turns.add(window(0.0), window(-0.7));
        assert_eq!(turns.look(&known), Verdict::NotFaster);
    }

    #[test]
    fn a_window_in_which_nothing_was_counted_measures_nothing() {
        assert_eq!(Window::new(Some(0.0), 0.0), None);
        assert_eq!(Window::new(None, 5.0), None);
        assert_eq!(Window::new(Some(f64::NAN), 5.0), None);
    }

    #[test]
    fn gains_one_after_the_other_multiply_and_their_errors_add_as_squares() {
        let one = Gain {
            log: 1.2f64.ln(),
            error: 0.03,
        };
        let other = Gain {
            log: 1.1f64.ln(),
            error: 0.04,
        };
        let (times, error) = one.and(other).times();
        assert!((times - 1.32).abs() < 1e-12 && (error - 1.32 * 0.05).abs() < 1e-12);
    }
}
