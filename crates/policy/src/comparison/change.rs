//! Whether the program's rate has changed: its phase is another one.
//!
//! The windows after a choice give the level and its spread, as long as they look alike. Two sums follow them (Page,
//! "Continuous Inspection Schemes", 1954): one adds how far each is above the level, one how far it is below it, in
//! standard deviations and less `SLACK`; neither falls below zero. A sum above `LIMIT` is a change. A single window,
//! such as a checkpoint, adds at most `MOST`, so at least three are needed. Shifts below `SLACK` standard deviations
//! are never found: where the rate scatters that much, they are not worth a search.

/// The windows from which the level is learned at first, and at most.
const LEARNED: usize = 8;
const MOST_LEARNED: usize = 64;
/// The least standard deviation: changes below a few percent are no phases.
const LEAST: f64 = 0.01;
const SLACK: f64 = 1.0;
const LIMIT: f64 = 8.0;
const MOST: f64 = 4.0;

/// The windows since the last choice.
#[derive(Clone, Debug)]
pub(crate) struct ChangePoint {
    learned: Vec<f64>,
    up: f64,
    down: f64,
    /// How many times as much evidence is needed as at first.
    patience: f64,
}

impl ChangePoint {
    /// Begins to learn a level. With a `patience` above one, more windows are needed for a change.
    pub(crate) fn new(patience: f64) -> Self {
        Self {
            learned: vec![],
            up: 0.0,
            down: 0.0,
            patience,
        }
    }

    /// The next window's logarithm of the rate; whether the rate has changed.
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
        self.up = (self.up + far - SLACK).max(0.0);
        self.down = (self.down - far - SLACK).max(0.0);
        let sum = self.up.max(self.down);
        // A window that may belong to a change teaches nothing of the level before it.
        if sum <= 0.5 * LIMIT && self.learned.len() < MOST_LEARNED {
            self.learned.push(log);
        }
        sum > LIMIT * self.patience
    }

    /// Whether the level is known.
    pub(crate) fn is_learned(&self) -> bool {
        self.learned.len() >= LEARNED
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
}
