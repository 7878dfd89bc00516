//! Whether the rate has fallen since the choice and stays low: the paper's outlook (section 6), to "restart the
//! repinning process if the application's performance drops under a certain threshold".
//!
//! A rate line is low when it is below the rate of the choice by more than the threshold, and by more than the scatter
//! of the readings explains (Welch's test, 99 %). Only several low lines in a row mean a new phase of the program. A
//! single dip, such as a checkpoint, does not. A line without a rate is neither low nor high.
//!
//! A program that slows down steadily would be searched again and again. So after a search without gain, whose choice
//! is hardly better than the present rate of the one before, the next search needs twice as many low lines.

use crate::program::meter::Measurement;
use pinfold_core::statistics;

/// When to search again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watch {
    /// The share of the chosen rate by which the rate must fall, 0.1 for a tenth.
    pub fall: f64,
    /// The number of low rate lines in a row.
    pub lines: u32,
}

impl Default for Watch {
    /// A tenth for three lines: most pinnings that matter in the paper's section 5 differ by more.
    fn default() -> Self {
        Self { fall: 0.1, lines: 3 }
    }
}

/// A rate line is low only if the probability that its difference is scatter is below this.
const ALPHA: f64 = 0.01;

/// A search gained nothing if its choice is better than the one before by less than this: rates usually scatter by
/// more.
const GAIN: f64 = 0.01;

/// Watches one choice after another.
#[derive(Debug)]
pub(crate) struct Watcher {
    watch: Watch,
    reference: Option<Measurement>,
    low_lines: u32,
    lines_needed: u32,
}

impl Watcher {
    pub(crate) fn new(watch: Watch) -> Self {
        Self {
            watch,
            reference: None,
            low_lines: 0,
            lines_needed: watch.lines,
        }
    }

    /// Begins to watch a choice with this measurement. `before` is the rate that the same search measured of the
    /// previous choice.
    pub(crate) fn chosen(&mut self, reference: Option<Measurement>, before: Option<f64>) {
        let now = reference.as_ref().and_then(|reference| reference.rate);
        let in_vain = matches!((before, now), (Some(before), Some(now)) if now < before * (1.0 + GAIN));
        self.reference = reference;
        self.low_lines = 0;
        self.lines_needed = if in_vain {
            self.lines_needed.saturating_mul(2)
        } else {
            self.watch.lines
        };
    }

    /// The rate of the choice.
    pub(crate) fn chosen_at(&self) -> Option<f64> {
        self.reference.as_ref()?.rate
    }

    /// Processes a rate line; whether the rate has fallen and stays low.
    pub(crate) fn fell(&mut self, line: &Measurement) -> bool {
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
        if rate < chosen_at * (1.0 - self.watch.fall) && !is_scatter {
            self.low_lines += 1;
        } else {
            self.low_lines = 0;
        }
        self.low_lines >= self.lines_needed
    }
}
