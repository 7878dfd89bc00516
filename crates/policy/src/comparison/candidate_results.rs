//! The candidates of one search and their results.

use crate::comparison::race;
use crate::program::meter::Measurement;
use pinfold_core::statistics::{Estimate, Reading};
use pinfold_core::{ChoiceCode, Finding, Pinning};
use std::collections::VecDeque;

/// A pinning is preferred to the unpinned program when it gains at least this share. Rates usually scatter by less from
/// one probe to the next, and the readings within a probe do not show that scatter.
const WORTH: f64 = 0.01;

/// The result of a candidate.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) measurement: Measurement,
    /// It lost before the end of its probe.
    pub(crate) dropped: bool,
}

/// One search: its candidates, the ones that are still to be probed, and the results of the others.
#[derive(Debug)]
pub(crate) struct CandidateResults {
    /// `None` is the unpinned program.
    pinnings: Vec<Option<Pinning>>,
    /// The candidates were made for this number of working tasks.
    threads: usize,
    outcomes: Vec<Option<Outcome>>,
    waiting: VecDeque<usize>,
    /// The results of the screening round of a race; see `race`.
    screenings: Vec<Option<Screening>>,
    waiting_for_screening: VecDeque<usize>,
}

/// The result of a screening.
#[derive(Clone, Debug)]
pub(crate) struct Screening {
    /// The readings that the outlook is taken from.
    readings: Vec<Reading>,
    /// The extrapolated rate; `None` for too few readings.
    outlook: Option<Estimate>,
}

impl Screening {
    pub(crate) fn new(readings: Vec<Reading>, outlook: Option<Estimate>) -> Self {
        Self { readings, outlook }
    }

    /// The measurement of a candidate that lost in the screening round.
    pub(crate) fn measurement(&self) -> Measurement {
        Measurement::from_readings(self.readings.clone(), self.outlook.map(|outlook| outlook.value))
    }
}

impl CandidateResults {
    pub(crate) fn new(pinnings: Vec<Option<Pinning>>, threads: usize) -> Self {
        Self {
            outcomes: vec![None; pinnings.len()],
            waiting: (0..pinnings.len()).collect(),
            screenings: vec![None; pinnings.len()],
            waiting_for_screening: VecDeque::new(),
            pinnings,
            threads,
        }
    }

    /// The candidates.
    pub(crate) fn pinnings(&self) -> &[Option<Pinning>] {
        &self.pinnings
    }

    /// The number of working tasks when the candidates were made.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Searches among the same candidates once more, this one first.
    pub(crate) fn again(&mut self, first: usize) {
        self.outcomes.fill(None);
        self.waiting = (0..self.pinnings.len())
            .filter(|&candidate| candidate != first)
            .collect();
        self.waiting.push_front(first);
    }

    /// Screens all candidates first, in the order of their probes.
    pub(crate) fn race(&mut self) {
        self.screenings.fill(None);
        self.waiting_for_screening = std::mem::take(&mut self.waiting);
    }

    /// The next candidate to screen.
    pub(crate) fn next_screening(&mut self) -> Option<usize> {
        self.waiting_for_screening.pop_front()
    }

    /// Records the result of a screening.
    pub(crate) fn record_screening(&mut self, candidate: usize, screening: Screening) {
        self.screenings[candidate] = Some(screening);
    }

    /// The screened candidate with the highest outlook so far, and that outlook.
    pub(crate) fn best_screened(&self) -> Option<(usize, f64)> {
        let screened = self.screenings.iter().enumerate();
        screened
            .filter_map(|(candidate, screening)| Some((candidate, screening.as_ref()?.outlook?.value)))
            .min_by(|one, other| other.1.total_cmp(&one.1))
    }

    /// The readings of this candidate's screening.
    pub(crate) fn screened(&self, candidate: usize) -> &[Reading] {
        let screening = self.screenings[candidate].as_ref();
        screening.map_or(&[], |screening| &screening.readings)
    }

    /// Ends the screening round. Returns the candidates that lost; the others wait to be probed, the best outlook
    /// first. A candidate without an outlook may be the best and comes first.
    pub(crate) fn end_screening(&mut self) -> Vec<(usize, Screening)> {
        let screenings = std::mem::replace(&mut self.screenings, vec![None; self.pinnings.len()]);
        let number = screenings.len();
        let mut run: Vec<(usize, Screening)> = screenings
            .into_iter()
            .enumerate()
            .filter_map(|(candidate, screening)| Some((candidate, screening?)))
            .collect();
        let outlook = |screening: &Screening| screening.outlook.map_or(f64::INFINITY, |outlook| outlook.value);
        run.sort_by(|one, other| outlook(&other.1).total_cmp(&outlook(&one.1)));
        let best = run
            .iter()
            .find(|(_, screening)| screening.outlook.is_some())
            .map(|(_, screening)| screening.readings.clone());
        let has_lost = |screening: &Screening| match (&screening.outlook, &best) {
            (Some(outlook), Some(best)) => race::lost_screening(outlook, best, number),
            _ => false,
        };
        let (lost, left): (Vec<_>, Vec<_>) = run.into_iter().partition(|(_, screening)| has_lost(screening));
        self.waiting = left.into_iter().map(|(candidate, _)| candidate).collect();
        lost
    }

    /// The next candidate to probe.
    pub(crate) fn next(&mut self) -> Option<usize> {
        self.waiting.pop_front()
    }

    /// Records the result of a candidate.
    pub(crate) fn record(&mut self, candidate: usize, outcome: Outcome) {
        self.outcomes[candidate] = Some(outcome);
    }

    /// The number of candidates with a rate.
    pub(crate) fn measured(&self) -> usize {
        self.rates().count()
    }

    fn rates(&self) -> impl Iterator<Item = f64> {
        self.outcomes
            .iter()
            .flatten()
            .filter_map(|outcome| outcome.measurement.rate)
    }

    /// The measurement of this candidate.
    pub(crate) fn measurement(&self, candidate: usize) -> Option<&Measurement> {
        Some(&self.outcomes[candidate].as_ref()?.measurement)
    }

    /// The readings of this candidate's probe.
    pub(crate) fn readings(&self, candidate: usize) -> &[Reading] {
        self.measurement(candidate)
            .map_or(&[], |measurement| &measurement.readings)
    }

    /// The best candidate that was not dropped, and its rate; the first in the list wins a tie.
    pub(crate) fn best(&self) -> Option<(usize, f64)> {
        let kept = |candidate: usize| {
            let outcome = self.outcomes[candidate].as_ref().filter(|outcome| !outcome.dropped)?;
            Some((candidate, outcome.measurement.rate?))
        };
        // `min_by` gives the first of equals.
        (0..self.pinnings.len())
            .filter_map(kept)
            .min_by(|one, other| other.1.total_cmp(&one.1))
    }

    /// The choice of the search: the best candidate. If the first candidate is the unpinned program, a pinning must be
    /// significantly better, and by `WORTH`, or else nothing is pinned.
    pub(crate) fn choice(&self) -> Option<usize> {
        let (best, _) = self.best()?;
        let is_better = |first: &Outcome, best: &Outcome| {
            let rates = first.measurement.rate.zip(best.measurement.rate);
            let gains = rates.is_some_and(|(first, best)| best >= first * (1.0 + WORTH));
            gains && (first.dropped || first.measurement.is_lower_than(&best.measurement))
        };
        let unpinned_first = self.pinnings.first().is_some_and(Option::is_none);
        let keeps = !unpinned_first
            || match (&self.outcomes[0], &self.outcomes[best]) {
                (Some(first), Some(best)) => is_better(first, best),
                _ => false,
            };
        Some(if keeps { best } else { 0 })
    }

    /// The finding that ends the search with this candidate.
    pub(crate) fn chosen(&self, candidate: usize) -> Finding {
        let rate = self.measurement(candidate).and_then(|measurement| measurement.rate);
        let gain_over = |other: f64| rate.filter(|_| other > 0.0).map(|rate| rate / other - 1.0);
        let (code, why) = self.reason(candidate);
        Finding::Chosen {
            candidate,
            gain_over_first: self.measurement(0).and_then(|first| gain_over(first.rate?)),
            gain_over_worst: self
                .rates()
                .min_by(f64::total_cmp)
                .filter(|_| self.measured() > 1)
                .and_then(gain_over),
            code,
            why: why.to_owned(),
        }
    }

    /// Why the search ends with this candidate: the code, and the text.
    fn reason(&self, candidate: usize) -> (ChoiceCode, &'static str) {
        if candidate == 0 && self.pinnings.len() > 1 && self.pinnings[0].is_none() {
            let why = "no pinning had a higher rate than unpinned threads beyond the noise";
            return (ChoiceCode::NoPinningBetter, why);
        }
        (
            ChoiceCode::HighestRate,
            "its rate was the highest of those that were measured",
        )
    }
}
