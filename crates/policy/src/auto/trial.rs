//! The trial of one candidate against another.

use super::step::COUNTS;
use crate::comparison::turns::{Noise, Turns, Window};
use std::collections::VecDeque;
use std::time::Duration;

/// The rate of B over that of A in the first pair, below which its second window ends early: far below what noise makes.
const HOPELESS: f64 = 0.7;

/// A trial goes on, and is not left open, where its gain is above this multiple of its standard error.
const PROMISING: f64 = 2.0;

/// B is compared with A in turns.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) turns: Turns,
    /// How many windows in a row are measured in one placement: the more expensive a change, the more.
    block: usize,
    /// The windows of the first half of the present block of pairs that have no other yet, and whether it is complete.
    firsts: VecDeque<Window>,
    is_half: bool,
    /// The expected gain of B over A, as a logarithm, before there is a pair.
    prior: Option<f64>,
    /// How long pages have moved for this trial.
    pub(super) moving: Duration,
    /// How many windows one after the other measured nothing.
    pub(super) voids: u32,
    /// The pairs after which the trial is left open.
    pub(super) most: usize,
    /// The rates of B.
    rates: Vec<f64>,
    /// For how long B was measured.
    pub(super) measured: Duration,
}

impl Trial {
    pub(super) fn new(a: usize, b: usize, turns: Turns, most: usize) -> Self {
        Self {
            a,
            b,
            turns,
            block: 1,
            firsts: VecDeque::new(),
            is_half: false,
            prior: None,
            moving: Duration::ZERO,
            voids: 0,
            most,
            rates: vec![],
            measured: Duration::ZERO,
        }
    }

    /// The same trial, which measures this many windows in a row before it changes the placement.
    pub(super) fn in_blocks_of(mut self, windows: usize) -> Self {
        self.block = windows;
        self
    }

    /// The same trial, with a gain of B over A that is expected, as a logarithm.
    pub(super) fn expecting(mut self, gain: Option<f64>) -> Self {
        self.prior = gain;
        self
    }

    /// Whether the present block begins with B.
    fn is_reversed(&self) -> bool {
        (self.turns.number() / self.block) % 2 == 1
    }

    /// Whether a change of placement now would come before the present half of a block of several windows is complete.
    pub(super) fn is_in_block(&self) -> bool {
        self.block > 1 && (self.is_half || !self.firsts.is_empty())
    }

    /// The candidate whose window is next.
    pub(super) fn due(&self) -> usize {
        if self.is_reversed() == self.is_half {
            self.a
        } else {
            self.b
        }
    }

    /// A window that A had right before that of B is as good as its own.
    pub(super) fn offer(&mut self, candidate: usize, window: Window) {
        if candidate == self.a && !self.is_reversed() && self.turns.number().is_multiple_of(self.block) {
            if self.firsts.len() == self.block {
                self.firsts.pop_front();
            }
            self.firsts.push_back(window);
            self.is_half = self.firsts.len() == self.block;
        }
    }

    /// Whether B is so much slower than A in what was measured of its first window that the rest tells nothing new.
    pub(super) fn is_hopeless(&self, so_far: Window) -> bool {
        let is_first = self.turns.number() == 0 && self.is_half;
        let first = self.firsts.front().filter(|_| is_first && so_far.counts >= COUNTS);
        first.is_some_and(|first| (so_far.log - first.log).exp() < HOPELESS)
    }

    /// Whether B looks faster than A, though it is not known yet.
    pub(super) fn is_promising(&self, noise: &Noise) -> bool {
        self.turns
            .gain(noise)
            .is_some_and(|gain| gain.log > PROMISING * gain.error)
    }

    /// The window of the candidate that was due. Returns the difference of the pair, once it is complete.
    pub(super) fn add(&mut self, window: Window) -> Option<f64> {
        let due = self.due();
        if due == self.b {
            self.rates.push(window.log.exp());
        }
        if !self.is_half {
            self.firsts.push_back(window);
            self.is_half = self.firsts.len() == self.block;
            return None;
        }
        let first = self.firsts.pop_front()?;
        self.is_half = !self.firsts.is_empty();
        let (a, b) = if due == self.b {
            (first, window)
        } else {
            (window, first)
        };
        self.turns.add(a, b);
        Some(b.log - a.log)
    }

    /// The mean rate of B.
    pub(super) fn rate(&self) -> Option<f64> {
        let number = self.rates.len();
        (number > 0).then(|| self.rates.iter().sum::<f64>() / number as f64)
    }

    /// The expected rate of the candidate that is due over that of the faster of both; `None` where nothing is known
    /// before the first pair.
    pub(super) fn expected(&self, noise: &Noise) -> Option<f64> {
        let gain = self.turns.gain(noise).map(|gain| gain.log).or(self.prior)?;
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
    fn a_first_window_ends_early_where_b_is_far_slower() {
        let mut trial = Trial::new(0, 1, Turns::default(), 8);
        assert!(
            !trial.is_hopeless(window(0.5f64.ln())),
            "nothing was measured of the other one"
        );
        trial.add(window(0.0));
        assert!(trial.is_hopeless(window(0.5f64.ln())));
        assert!(!trial.is_hopeless(window(0.8f64.ln())));
        let few = Window {
            log: 0.5f64.ln(),
            counts: 3.0,
        };
        assert!(!trial.is_hopeless(few));
        trial.add(window(0.9f64.ln()));
        trial.add(window(0.9f64.ln()));
        assert!(!trial.is_hopeless(window(0.5f64.ln())), "it is A's window");
    }

    #[test]
    fn in_blocks_a_placement_changes_once_in_a_block() {
        let mut trial = Trial::new(3, 7, Turns::default(), 8).in_blocks_of(3);
        let mut order = vec![];
        let mut gains = vec![];
        for place in 0..12 {
            order.push(trial.due());
            let log = if trial.due() == 7 { 0.5 } else { 0.0 };
            gains.extend(trial.add(window(f64::from(place) * 0.01 + log)));
        }
        assert_eq!(order, [3, 3, 3, 7, 7, 7, 7, 7, 7, 3, 3, 3]);
        let mean = gains.iter().sum::<f64>() / 6.0;
        assert!((mean - 0.5).abs() < 1e-12, "a steady drift cancels out: {gains:?}");
    }

    #[test]
    fn the_last_windows_before_a_trial_are_a_half_of_its_first_block() {
        let mut trial = Trial::new(0, 1, Turns::default(), 8).in_blocks_of(2);
        for log in [9.0, 1.0, 2.0] {
            trial.offer(0, window(log));
        }
        assert_eq!(trial.due(), 1);
        assert!((trial.add(window(1.5)).unwrap() - 0.5).abs() < 1e-12);
        assert!((trial.add(window(2.5)).unwrap() - 0.5).abs() < 1e-12);
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
