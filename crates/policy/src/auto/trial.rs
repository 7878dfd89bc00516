//! Candidates, and the trial of one against another.

use super::turns::{Gain, Noise, Turns, Window};
use pinfold_core::Pinning;

/// The PUs of the ranks; `None` for the unpinned program. Pages are left where they are.
pub(super) type Place = Option<Pinning>;

/// What became of a candidate.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It was not tried.
    Waiting,
    /// It was tried, and the noise is larger than the difference from the candidate at `against`.
    Open { turns: Turns, against: usize },
    /// It is, or was, the best.
    Best,
    /// It is not tried any more.
    Out,
}

/// A placement to try.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) place: Place,
    pub(super) state: State,
    /// The gain over the unpinned program; `None` before it is known.
    pub(super) gain: Option<Gain>,
    /// Whether the gain was measured against the unpinned program itself.
    pub(super) confirmed: bool,
    /// The rate when it was last measured.
    pub(super) rate: Option<f64>,
}

impl Candidate {
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
            state: State::Waiting,
            gain: None,
            confirmed: false,
            rate: None,
        }
    }
}

/// B is compared with A in turns.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) turns: Turns,
    /// The first window of the present pair.
    first: Option<Window>,
    /// How many windows one after the other measured nothing.
    pub(super) voids: u32,
    /// The pairs after which the trial is left open.
    pub(super) most: usize,
    /// The rates of B.
    rates: Vec<f64>,
}

impl Trial {
    pub(super) fn new(a: usize, b: usize, turns: Turns, most: usize) -> Self {
        Self {
            a,
            b,
            turns,
            first: None,
            voids: 0,
            most,
            rates: vec![],
        }
    }

    /// The candidate whose window is next.
    pub(super) fn due(&self) -> usize {
        if self.turns.is_reversed() == self.first.is_none() {
            self.b
        } else {
            self.a
        }
    }

    /// A window that A had right before that of B is as good as its own.
    pub(super) fn offer(&mut self, candidate: usize, window: Window) {
        if candidate == self.a && !self.turns.is_reversed() {
            self.first = Some(window);
        }
    }

    /// The window of the candidate that was due. Returns the difference of the pair, once it is complete.
    pub(super) fn add(&mut self, window: Window) -> Option<f64> {
        let due = self.due();
        if due == self.b {
            self.rates.push(window.log.exp());
        }
        let Some(first) = self.first.take() else {
            self.first = Some(window);
            return None;
        };
        let (a, b) = if due == self.b {
            (first, window)
        } else {
            (window, first)
        };
        self.turns.add(a, b);
        Some(b.log - a.log)
    }

    /// The mean rate of B, and in how many windows.
    pub(super) fn rate(&self) -> (Option<f64>, usize) {
        let number = self.rates.len();
        let mean = (number > 0).then(|| self.rates.iter().sum::<f64>() / number as f64);
        (mean, number)
    }

    /// The expected rate of the candidate that is due over that of the faster of both; `None` before the first pair.
    pub(super) fn expected(&self, noise: &Noise) -> Option<f64> {
        let gain = self.turns.gain(noise)?.log;
        let over = if self.due() == self.b { gain } else { -gain };
        Some(over.min(0.0).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(log: f64) -> Window {
        Window { log, counts: 1e6 }
    }

    #[test]
    fn every_second_pair_is_reversed() {
        let mut trial = Trial::new(3, 7, Turns::default(), 8);
        let mut order = vec![];
        for _ in 0..8 {
            order.push(trial.due());
            trial.add(window(if trial.due() == 7 { 0.2 } else { 0.1 }));
        }
        assert_eq!(order, [3, 7, 7, 3, 3, 7, 7, 3]);
        assert_eq!(trial.turns.number(), 4);
    }

    #[test]
    fn the_difference_is_that_of_b_over_a_in_both_orders() {
        let mut trial = Trial::new(0, 1, Turns::default(), 8);
        assert_eq!(trial.add(window(1.0)), None);
        assert!((trial.add(window(1.5)).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(trial.due(), 1);
        trial.add(window(1.5));
        assert!((trial.add(window(1.0)).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_window_of_a_right_before_is_taken_and_one_of_b_is_not() {
        let mut trial = Trial::new(0, 1, Turns::default(), 8);
        trial.offer(1, window(9.0));
        assert_eq!(trial.due(), 0);
        trial.offer(0, window(1.0));
        assert_eq!(trial.due(), 1);
        assert!((trial.add(window(1.5)).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_slower_of_both_is_expected_to_cost_and_the_faster_is_not() {
        let mut trial = Trial::new(0, 1, Turns::default(), 8);
        let mut noise = Noise::default();
        noise.learn_alike(&[window(0.0), window(0.01)]);
        assert_eq!(trial.expected(&noise), None);
        trial.add(window(0.0));
        trial.add(window(0.5f64.ln()));
        assert_eq!(trial.due(), 1);
        assert!((trial.expected(&noise).unwrap() - 0.5).abs() < 1e-12);
        trial.add(window(0.5f64.ln()));
        assert_eq!(trial.due(), 0);
        assert!((trial.expected(&noise).unwrap() - 1.0).abs() < 1e-12);
    }
}
