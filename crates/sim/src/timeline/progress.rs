//! The progress of one program.

use super::counter::Counter;
use super::regions::RegionGrowth;
use super::windows::{ProgramRates, Repetition};

use std::collections::BTreeMap;

/// The progress of a program, and the counts of its threads.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// Completed repetitions, with the completed part of the current one.
    pub(crate) repetitions: f64,
    /// The part of a repetition that is still cold.
    pub(crate) cold_left: f64,
    /// How long the program still stands still, in seconds.
    pause_left: f64,
    /// How long pages have been moving or will be, in seconds.
    pub(crate) paused: f64,
    /// By thread of the program.
    pub(crate) counts: Vec<[f64; Counter::NUMBER]>,
    /// By region: its counts.
    pub(crate) regions: BTreeMap<u64, RegionGrowth>,
}

impl Progress {
    /// The progress of a program that has not begun.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            repetitions: 0.0,
            cold_left: 1.0,
            pause_left: 0.0,
            paused: 0.0,
            counts: vec![[0.0; Counter::NUMBER]; threads],
            regions: BTreeMap::new(),
        }
    }

    /// Pauses the program for `seconds` seconds, while its pages move.
    pub(crate) fn pause(&mut self, seconds: f64) {
        self.interrupt(seconds);
        self.paused += seconds;
    }

    /// Pauses the program for `seconds` seconds.
    pub(crate) fn interrupt(&mut self, seconds: f64) {
        self.pause_left += seconds;
    }

    /// Whether the program is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause_left > 0.0
    }

    /// Whether the current repetition is a cold one.
    pub(crate) fn is_cold(&self) -> bool {
        self.cold_left > 0.0
    }

    /// The seconds until the program changes its rate, or has done `end` repetitions.
    pub(crate) fn changes_in(&self, rates: &ProgramRates, end: f64) -> f64 {
        if self.is_paused() {
            return self.pause_left;
        }
        let (repetition, work) = self.current_rates(rates, end);
        work * repetition.seconds
    }

    /// Its current rates, and the number of repetitions until they change.
    fn current_rates<'a>(&self, rates: &'a ProgramRates, end: f64) -> (&'a Repetition, f64) {
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

    /// Advances by `seconds`, at most as many as `changes_in` says.
    pub(crate) fn advance(&mut self, seconds: f64, rates: &ProgramRates, end: f64) {
        if self.is_paused() {
            self.pause_left = (self.pause_left - seconds).max(0.0);
            return;
        }
        let (repetition, work) = self.current_rates(rates, end);
        let done = if seconds >= work * repetition.seconds {
            work
        } else {
            seconds / repetition.seconds
        };
        // Rounding can make a sum of parts less than the whole. A step to the end ends there.
        let ends = self.repetitions < end && done >= end - self.repetitions;
        self.repetitions = if ends { end } else { self.repetitions + done };
        self.cold_left = (self.cold_left - done).max(0.0);
        for (&region, growth) in &repetition.regions {
            let counted = self.regions.entry(region).or_default();
            *counted = counted.plus(done, growth);
        }
        for (counts, growth) in self.counts.iter_mut().zip(&repetition.counts) {
            for (count, growth) in counts.iter_mut().zip(growth) {
                *count += growth * done;
            }
        }
    }
}
