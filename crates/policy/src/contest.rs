//! The candidates of one search and how they did.

use crate::meter::Measurement;
use crate::statistics::Reading;
use pinfold_core::{Finding, Pinning};
use std::collections::VecDeque;

/// How a candidate did.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) measurement: Measurement,
    /// It had lost before its time was up.
    pub(crate) dropped: bool,
    /// For how many tasks the machine refused it, so that it is not this pinning that was measured.
    pub(crate) refused: usize,
}

/// One search: which candidates there are, which are still to be probed and what the others gave.
#[derive(Debug)]
pub(crate) struct Contest {
    pub(crate) pinnings: Vec<Pinning>,
    /// The number of working tasks for which the candidates were made.
    pub(crate) threads: usize,
    outcomes: Vec<Option<Outcome>>,
    waiting: VecDeque<usize>,
}

impl Contest {
    pub(crate) fn new(pinnings: Vec<Pinning>, threads: usize) -> Self {
        Self {
            outcomes: vec![None; pinnings.len()],
            waiting: (0..pinnings.len()).collect(),
            pinnings,
            threads,
        }
    }

    /// The same candidates once more, this one first.
    pub(crate) fn again(&mut self, first: usize) {
        self.outcomes.fill(None);
        self.waiting = (0..self.pinnings.len())
            .filter(|&candidate| candidate != first)
            .collect();
        self.waiting.push_front(first);
    }

    /// The next candidate to probe.
    pub(crate) fn next(&mut self) -> Option<usize> {
        self.waiting.pop_front()
    }

    /// Keeps how a candidate did.
    pub(crate) fn record(&mut self, candidate: usize, outcome: Outcome) {
        self.outcomes[candidate] = Some(outcome);
    }

    /// How many candidates have a rate.
    pub(crate) fn measured(&self) -> usize {
        self.rates().count()
    }

    fn rates(&self) -> impl Iterator<Item = f64> {
        self.outcomes
            .iter()
            .flatten()
            .filter_map(|outcome| outcome.measurement.rate)
    }

    /// How this candidate did.
    pub(crate) fn measurement(&self, candidate: usize) -> Option<&Measurement> {
        Some(&self.outcomes[candidate].as_ref()?.measurement)
    }

    /// The readings of this candidate's probe.
    pub(crate) fn readings(&self, candidate: usize) -> &[Reading] {
        self.measurement(candidate)
            .map_or(&[], |measurement| &measurement.readings)
    }

    /// The best candidate that was not dropped and its rate. One that the machine refused for fewer tasks comes
    /// before one with a higher rate, for the rate of a pinning that was not made is not its own. Of equals the first
    /// in the list is taken.
    pub(crate) fn best(&self) -> Option<(usize, f64)> {
        let kept = |candidate: usize| {
            let outcome = self.outcomes[candidate].as_ref().filter(|outcome| !outcome.dropped)?;
            Some((candidate, outcome.refused, outcome.measurement.rate?))
        };
        // `min_by` gives the first of equals.
        (0..self.pinnings.len())
            .filter_map(kept)
            .min_by(|one, other| one.1.cmp(&other.1).then(other.2.total_cmp(&one.2)))
            .map(|(candidate, _, rate)| (candidate, rate))
    }

    /// The finding that ends the search with this candidate of this rate.
    pub(crate) fn chosen(&self, candidate: usize, rate: f64) -> Finding {
        let gain_over = |other: f64| (other > 0.0).then(|| rate / other - 1.0);
        Finding::Chosen {
            candidate,
            gain_over_first: self.measurement(0).and_then(|first| gain_over(first.rate?)),
            gain_over_worst: self.rates().min_by(f64::total_cmp).and_then(gain_over),
        }
    }
}
