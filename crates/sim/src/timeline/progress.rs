//! How far one program has come.

use super::counter::Counter;
use super::windows::{ProgramRates, Repetition};

/// How far a program has come, and what its threads have counted.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// Repetitions, with the part that is done of the present one.
    pub(crate) repetitions: f64,
    /// How much of a repetition is still cold.
    pub(crate) cold_left: f64,
    /// For how many seconds pages are still being moved.
    pause_left: f64,
    /// For how many seconds they have been or will be.
    pub(crate) paused: f64,
    /// By thread of the program.
    pub(crate) counts: Vec<[f64; Counter::NUMBER]>,
}

impl Progress {
    /// Of a program that has not begun.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            repetitions: 0.0,
            cold_left: 1.0,
            pause_left: 0.0,
            paused: 0.0,
            counts: vec![[0.0; Counter::NUMBER]; threads],
        }
    }

    /// The program stands still for `seconds` seconds.
    pub(crate) fn pause(&mut self, seconds: f64) {
        self.pause_left += seconds;
        self.paused += seconds;
    }

    /// Whether it stands still.
    pub(crate) fn stands_still(&self) -> bool {
        self.pause_left > 0.0
    }

    /// Whether the repetition that is going on is a cold one.
    pub(crate) fn is_cold(&self) -> bool {
        self.cold_left > 0.0
    }

    /// In how many seconds it goes on at another rate, or has done `end` repetitions, if it has not yet.
    pub(crate) fn changes_in(&self, rates: &ProgramRates, end: f64) -> f64 {
        if self.stands_still() {
            return self.pause_left;
        }
        let (repetition, work) = self.stretch(rates, end);
        work * repetition.seconds
    }

    /// At which rates it goes on, and how many repetitions until that changes.
    fn stretch<'a>(&self, rates: &'a ProgramRates, end: f64) -> (&'a Repetition, f64) {
        let left = if self.repetitions < end {
            end - self.repetitions
        } else {
            f64::INFINITY
        };
        if self.is_cold() {
            (&rates.cold, self.cold_left.min(left))
        } else {
            (&rates.warm, left)
        }
    }

    /// Goes on for `seconds`, no longer than `changes_in` says.
    pub(crate) fn go_on(&mut self, seconds: f64, rates: &ProgramRates, end: f64) {
        if self.stands_still() {
            self.pause_left = (self.pause_left - seconds).max(0.0);
            return;
        }
        let (repetition, work) = self.stretch(rates, end);
        let done = if seconds >= work * repetition.seconds {
            work
        } else {
            seconds / repetition.seconds
        };
        // A sum of parts may come out below the whole by rounding; a step to the end ends there.
        let ends = self.repetitions < end && done >= end - self.repetitions;
        self.repetitions = if ends { end } else { self.repetitions + done };
        self.cold_left = (self.cold_left - done).max(0.0);
        for (counts, growth) in self.counts.iter_mut().zip(&repetition.counts) {
            for (count, growth) in counts.iter_mut().zip(growth) {
                *count += growth * done;
            }
        }
    }
}
