//! The trial of one candidate against another: pairs of windows, one right after the other, until the test decides or
//! there are enough pairs.

use super::step::COUNTS;
use crate::comparison::turns::{Gain, Noise, Turns, Verdict, Window};
use pinfold_core::{ComparedCode, Finding};
use std::collections::VecDeque;
use std::time::Duration;

/// A trial is left open after this many pairs.
pub(super) const SCREENED: usize = 4;

/// A trial that was left open, or that looks promising, is given up after this many pairs.
pub(super) const MOST_PAIRS: usize = 16;

/// A trial ends after this many windows in a row without a count.
const VOIDS: u32 = 3;

/// The second window of the first pair ends early if the rate of B is below this multiple of A's. Noise does not
/// explain such a difference.
const HOPELESS: f64 = 0.7;

/// A trial goes on beyond `SCREENED` if its gain is above this multiple of its standard error.
const PROMISING: f64 = 2.0;

/// B is compared with A.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    a: usize,
    b: usize,
    turns: Turns,
    /// The windows in a row that are measured in one placement: more if a change of placement moves pages.
    block: usize,
    /// The windows of the first half of a block that have no partner yet.
    firsts: VecDeque<Window>,
    /// Whether the first half of the block is complete.
    is_half: bool,
    /// The time that pages have moved in this trial.
    moving: Duration,
    /// The windows in a row without a count.
    voids: u32,
    /// The trial is left open or given up after this many pairs.
    most: usize,
    /// The rates of B.
    rates: Vec<f64>,
    /// The time that B was measured.
    measured: Duration,
}

impl Trial {
    /// A trial of B against A that begins with these pairs.
    pub(super) fn new(a: usize, b: usize, turns: Turns, most: usize) -> Self {
        Self {
            a,
            b,
            turns,
            block: 1,
            firsts: VecDeque::new(),
            is_half: false,
            moving: Duration::ZERO,
            voids: 0,
            most,
            rates: vec![],
            measured: Duration::ZERO,
        }
    }

    /// The same trial, with this many windows in a row before it changes the placement.
    pub(super) fn in_blocks_of(mut self, windows: usize) -> Self {
        self.block = windows;
        self
    }

    /// The candidate on the other side.
    pub(super) fn a(&self) -> usize {
        self.a
    }

    /// The candidate that is tried.
    pub(super) fn b(&self) -> usize {
        self.b
    }

    /// The pairs so far.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The time that pages have moved in this trial.
    pub(super) fn moving(&self) -> Duration {
        self.moving
    }

    /// Whether the trial is left open and not given up if its pairs do not decide.
    pub(super) fn is_screening(&self) -> bool {
        self.most < MOST_PAIRS
    }

    /// Whether the block begins with B.
    fn is_reversed(&self) -> bool {
        (self.turns.number() / self.block) % 2 == 1
    }

    /// Whether a block of several windows is under way.
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

    /// Whether a pair, or a block of several, is complete, and the next one was not begun.
    pub(super) fn is_between_pairs(&self) -> bool {
        self.turns.number() > 0 && !self.is_half && self.firsts.is_empty()
    }

    /// The share of the pairs of a short trial that are left, one pair at least.
    pub(super) fn left(&self) -> f64 {
        SCREENED.saturating_sub(self.turns.number()).max(1) as f64 / SCREENED as f64
    }

    /// Takes a window that A had right before the trial as its first one.
    pub(super) fn offer(&mut self, candidate: usize, window: Window) {
        if candidate == self.a && !self.is_reversed() && self.turns.number().is_multiple_of(self.block) {
            if self.firsts.len() == self.block {
                self.firsts.pop_front();
            }
            self.firsts.push_back(window);
            self.is_half = self.firsts.len() == self.block;
        }
    }

    /// Whether B was so much slower than A in its first window so far that the rest of the window tells nothing new.
    pub(super) fn is_hopeless(&self, so_far: Window) -> bool {
        let is_first = self.turns.number() == 0 && self.is_half;
        let first = self.firsts.front().filter(|_| is_first && so_far.counts >= COUNTS);
        first.is_some_and(|first| (so_far.log - first.log).exp() < HOPELESS)
    }

    /// Whether B looks faster than A before the test decides.
    pub(super) fn is_promising(&self, noise: &Noise) -> bool {
        self.turns
            .gain(noise)
            .is_some_and(|gain| gain.log > PROMISING * gain.error)
    }

    /// Pages have moved for this trial.
    pub(super) fn move_pages(&mut self, lasted: Duration) {
        self.moving += lasted;
    }

    /// Adds a window without a count. Returns whether the trial ends.
    pub(super) fn add_void(&mut self) -> bool {
        self.voids += 1;
        self.voids >= VOIDS
    }

    /// Adds the window of the candidate that was due, which was `measured` for so long. Returns the difference of the
    /// pair if it is complete.
    pub(super) fn add_measured(&mut self, window: Window, measured: Duration) -> Option<f64> {
        self.voids = 0;
        if self.due() == self.b {
            self.measured += measured;
        }
        self.add(window)
    }

    fn add(&mut self, window: Window) -> Option<f64> {
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

    /// Tests the pairs so far. Returns the result if the trial is over.
    pub(super) fn look(&mut self, noise: &Noise) -> Option<ComparedCode> {
        let verdict = self.turns.look(noise);
        if verdict == Verdict::Open && self.most == SCREENED && self.is_promising(noise) {
            // To come back to it later costs more than to go on.
            self.most = MOST_PAIRS;
        }
        match verdict {
            Verdict::Faster => Some(ComparedCode::Faster),
            Verdict::NotFaster => Some(ComparedCode::NotFaster),
            Verdict::Open if self.turns.number() >= self.most => Some(ComparedCode::NotKnown),
            Verdict::Open => None,
        }
    }

    /// The finding at the end of the trial, with this gain of B over A.
    pub(super) fn finding(&self, gain: Option<Gain>, code: ComparedCode) -> Finding {
        let (times, error) = gain.map(Gain::times).unzip();
        Finding::Compared {
            candidate: self.b,
            with: self.a,
            gain: times.map(|times| times - 1.0),
            error,
            turns: self.turns.number(),
            rate: self.rate(),
            measured: self.measured,
            code,
        }
    }

    /// The mean rate of B.
    pub(super) fn rate(&self) -> Option<f64> {
        let number = self.rates.len();
        (number > 0).then(|| self.rates.iter().sum::<f64>() / number as f64)
    }

    /// The expected rate of the candidate that is due over the rate of the faster one; `None` before the first pair.
    pub(super) fn expected(&self, noise: &Noise) -> Option<f64> {
        let gain = self.turns.gain(noise).map(|gain| gain.log)?;
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
