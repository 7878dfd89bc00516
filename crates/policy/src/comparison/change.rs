//! Whether the program's rate has changed, so that the chosen placement may no longer be the best one.
//!
//! Evidence adds up from window to window. It is enough at a limit, and a limit that is multiplied by `patience` after
//! searches without gain keeps a program that slows down steadily from being searched all the time. Two rules
//! count evidence:
//!
//! - [`ChangePoint`], the rule of `auto`, finds that the rate rises or falls. The windows after a choice give the level
//!   and its spread, as long as they look alike. Two sums follow them (Page, "Continuous Inspection Schemes", 1954):
//!   one adds how far each window is above the level, the other how far it is below, in standard deviations and less
//!   `SLACK`; neither falls below zero. A sum above `LIMIT` is a change. A single window, such as a checkpoint, adds at
//!   most `MOST`, so at least three are needed. Shifts below `SLACK` standard deviations are never found: a rate that
//!   scatters that much is not worth a search.
//! - [`Fall`], the rule of `autopin`, finds that the rate falls below the choice's rate and stays there. It is the
//!   outlook of autopin's paper (section 6), to "restart the repinning process if the application's performance drops
//!   under a certain threshold". A rate line is low if it is below the rate of the choice by more than the threshold,
//!   and by more than the scatter of the readings explains (Welch's test, 99 %). Only several low lines in a row are a
//!   change. A line without a rate is neither low nor high.
//!
//! The rules cannot be one with other numbers. `Fall` compares with the measurement of the choice by a share that the
//! user gives, so its first line counts and a rise never does. `ChangePoint` has no such measurement, because `auto`
//! compares placements in turns: it learns the level from the windows themselves, and takes no share.

use crate::program::meter::Measurement;
use pinfold_core::statistics;

/// The evidence of a rise and of a fall since the rate was last as expected.
#[derive(Clone, Debug)]
struct Evidence {
    rise: f64,
    fall: f64,
    /// How many times as much evidence is needed as at first.
    patience: f64,
}

impl Evidence {
    fn new(patience: f64) -> Self {
        Self {
            rise: 0.0,
            fall: 0.0,
            patience,
        }
    }

    /// Adds a window that is this far above the expected rate, less `slack`. Returns the larger evidence.
    fn add(&mut self, far: f64, slack: f64) -> f64 {
        self.rise = (self.rise + far - slack).max(0.0);
        self.fall = (self.fall - far - slack).max(0.0);
        self.rise.max(self.fall)
    }
}

/// The number of windows that give the level at first, and at most.
const LEARNED: usize = 8;
const MOST_LEARNED: usize = 64;
/// The least standard deviation: a change by less than a few percent is not a phase.
const LEAST: f64 = 0.01;
const SLACK: f64 = 1.0;
const LIMIT: f64 = 8.0;
const MOST: f64 = 4.0;

/// The windows since the last choice.
#[derive(Clone, Debug)]
pub(crate) struct ChangePoint {
    learned: Vec<f64>,
    evidence: Evidence,
}

impl ChangePoint {
    /// Begins to learn a level. With a `patience` above one, more windows are needed for a change.
    pub(crate) fn new(patience: f64) -> Self {
        Self {
            learned: vec![],
            evidence: Evidence::new(patience),
        }
    }

    /// Processes the next window's logarithm of the rate. Returns whether the rate has changed.
    pub(crate) fn has_changed(&mut self, log: f64) -> bool {
        if self.learned.len() < LEARNED {
            self.learned.push(log);
            return false;
        }
        let number = self.learned.len() as f64;
        let level = self.learned.iter().sum::<f64>() / number;
        let squares: f64 = self.learned.iter().map(|one| (one - level).powi(2)).sum();
        let deviation = (squares / (number - 1.0)).sqrt().max(LEAST);
        let far = ((log - level) / deviation).clamp(-MOST, MOST);
        let sum = self.evidence.add(far, SLACK);
        // A window that may belong to a change teaches nothing of the level before it.
        if sum <= 0.5 * LIMIT && self.learned.len() < MOST_LEARNED {
            self.learned.push(log);
        }
        sum > LIMIT * self.evidence.patience
    }

    /// Whether the level is known.
    pub(crate) fn is_learned(&self) -> bool {
        self.learned.len() >= LEARNED
    }
}

/// When to search again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watch {
    /// The fall of the rate, as a share of the chosen rate: 0.1 for a tenth.
    pub fall: f64,
    /// The number of low rate lines in a row.
    pub lines: u32,
}

impl Default for Watch {
    /// A tenth for three lines: most pinnings that matter in section 5 of autopin's paper differ by more.
    fn default() -> Self {
        Self { fall: 0.1, lines: 3 }
    }
}

/// A rate line is low only if the probability that its difference is scatter is below this.
const ALPHA: f64 = 0.01;

/// A search gained nothing if its choice is better than the previous choice by less than this: rates usually scatter
/// by more.
const GAIN: f64 = 0.01;

/// The rate lines since the last choice of a search.
#[derive(Debug)]
pub(crate) struct Fall {
    watch: Watch,
    /// The measurement of the choice.
    reference: Option<Measurement>,
    evidence: Evidence,
}

impl Fall {
    pub(crate) fn new(watch: Watch) -> Self {
        Self {
            watch,
            reference: None,
            evidence: Evidence::new(1.0),
        }
    }

    /// Begins to watch a choice with this measurement. `before` is the rate that the same search measured of the
    /// previous choice. After a search without gain, the next one needs twice as many low lines.
    pub(crate) fn chosen(&mut self, reference: Option<Measurement>, before: Option<f64>) {
        let now = reference.as_ref().and_then(|reference| reference.rate);
        let is_without_gain = matches!((before, now), (Some(before), Some(now)) if now < before * (1.0 + GAIN));
        self.reference = reference;
        self.evidence = Evidence::new(if is_without_gain {
            self.evidence.patience * 2.0
        } else {
            1.0
        });
    }

    /// The rate of the choice.
    pub(crate) fn chosen_at(&self) -> Option<f64> {
        self.reference.as_ref()?.rate
    }

    /// Processes a rate line. Returns whether the rate has fallen and stays low.
    pub(crate) fn has_fallen(&mut self, line: &Measurement) -> bool {
        let Some((reference, chosen_at)) = self.reference.as_ref().and_then(|one| Some((one, one.rate?))) else {
            return false;
        };
        let Some(rate) = line.rate else { return false };
        let is_scatter = match (
            statistics::level(&line.readings),
            statistics::level(&reference.readings),
        ) {
            (Some(now), Some(then)) => statistics::chance_of_not_lower(&now, &then) >= ALPHA,
            // Too few readings for a test: several low lines in a row are sufficient.
            _ => false,
        };
        let is_low = rate < chosen_at * (1.0 - self.watch.fall) && !is_scatter;
        if is_low {
            self.evidence.add(-1.0, 0.0);
        } else {
            self.evidence = Evidence::new(self.evidence.patience);
        }
        self.evidence.fall >= f64::from(self.watch.lines) * self.evidence.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::random::Random;

    fn noisy(random: &mut Random) -> f64 {
        0.02 * random.normal()
    }

    #[test]
    fn a_steady_rate_is_one_phase() {
        let mut random = Random::new(3);
        let mut alarms = 0;
        for _ in 0..50 {
            let mut change = ChangePoint::new(1.0);
            alarms += usize::from((0..600).any(|_| change.has_changed(noisy(&mut random))));
        }
        // The level itself is known to a third of the standard deviation only.
        assert!(alarms <= 5, "{alarms} of 50");
    }

    #[test]
    fn a_fall_and_a_rise_by_a_fifth_are_seen_within_a_few_windows() {
        for shift in [-0.2, 0.2] {
            let mut random = Random::new(5);
            let mut change = ChangePoint::new(1.0);
            assert!((0..60).all(|_| !change.has_changed(noisy(&mut random))));
            let windows = (1..20).find(|_| change.has_changed(shift + noisy(&mut random)));
            assert!(windows.is_some_and(|windows| (3..=6).contains(&windows)), "{windows:?}");
        }
    }

    #[test]
    fn a_single_slow_window_is_no_phase() {
        let mut random = Random::new(7);
        let mut change = ChangePoint::new(1.0);
        let changed = (0..300).any(|window| {
            let dip = if window % 50 == 49 { -1.5 } else { 0.0 };
            change.has_changed(dip + noisy(&mut random))
        });
        assert!(!changed);
    }

    #[test]
    fn with_patience_a_change_needs_more_windows() {
        let after = |patience| {
            let mut change = ChangePoint::new(patience);
            (0..8).for_each(|_| assert!(!change.has_changed(0.0)));
            (1..100).find(|_| change.has_changed(0.5)).unwrap()
        };
        assert!(after(4.0) > 2 * after(1.0));
    }

    fn line(rate: f64) -> Measurement {
        Measurement {
            rate: Some(rate),
            ..Measurement::default()
        }
    }

    /// The number of lines at this rate after which it has fallen from 1.
    fn lines(fall: &mut Fall, rate: f64) -> Option<usize> {
        (1..20).find(|_| fall.has_fallen(&line(rate)))
    }

    #[test]
    fn a_rate_has_fallen_after_as_many_low_lines_in_a_row_as_the_user_wants() {
        let mut fall = Fall::new(Watch::default());
        fall.chosen(Some(line(1.0)), None);
        assert_eq!(lines(&mut fall, 0.95), None);
        assert!((0..2).all(|_| !fall.has_fallen(&line(0.8))));
        assert!(
            !fall.has_fallen(&line(1.2)),
            "a line that is not low begins the count again"
        );
        assert!(!fall.has_fallen(&Measurement::default()));
        assert_eq!(lines(&mut fall, 0.8), Some(3));
    }

    #[test]
    fn after_each_search_without_gain_twice_as_many_low_lines_are_needed() {
        let mut fall = Fall::new(Watch::default());
        for (before, needed) in [(None, 3), (Some(1.0), 6), (Some(1.0), 12), (Some(0.9), 3)] {
            fall.chosen(Some(line(1.0)), before);
            assert_eq!(lines(&mut fall, 0.8), Some(needed));
        }
    }
}
