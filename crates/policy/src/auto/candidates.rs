//! The placements of one search: which of them is the best so far, and which one the program runs in.

use super::placement::Placement;
use super::proposals::Proposal;
use super::trial::SCREENED;
use crate::comparison::turns::{Gain, Noise, Turns};
use pinfold_core::{Finding, ProposerCode};
use std::ops::Index;
use std::time::Duration;

/// The position of the unpinned program.
pub(super) const UNPINNED: usize = 0;

/// How far the search has come with a candidate.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It was not tried.
    Waiting,
    /// It was tried, and the noise is larger than the difference from the candidate `against`.
    Open { turns: Turns, against: usize },
    /// It is tried at this time or later. Moving its pages would have taken too large a share of the program's run
    /// time, or the program was idle.
    Later(Duration),
    /// It is or was the best.
    Best,
    /// It is not tried any more.
    Out,
}

/// A placement to try. Only [`Candidates`] changes it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) placement: Placement,
    /// The proposer. The unpinned program has the default.
    pub(super) by: ProposerCode,
    pub(super) state: State,
    /// The expected gain over the unpinned program, as a logarithm; `None` without a forecast.
    pub(super) expected: Option<f64>,
    /// The share of the best candidate's time that the belief expects it to save.
    pub(super) saves: f64,
    /// The gain over the unpinned program; `None` before it is known.
    pub(super) gain: Option<Gain>,
    /// Whether it was faster than the unpinned program or than a confirmed candidate.
    pub(super) confirmed: bool,
    /// The rate when it was last measured.
    pub(super) rate: Option<f64>,
}

impl Candidate {
    fn new(placement: Placement) -> Self {
        Self {
            placement,
            by: ProposerCode::default(),
            state: State::Waiting,
            expected: None,
            saves: 0.0,
            gain: None,
            confirmed: false,
            rate: None,
        }
    }

    /// The share of the unpinned program's time that it saves, or else is expected to save.
    pub(super) fn saved_share(&self) -> f64 {
        let share = |log: f64| 1.0 - (-log).exp();
        match (self.gain, self.expected) {
            (Some(gain), _) => share(gain.log),
            (None, Some(expected)) => share(expected).max(self.saves),
            (None, None) => self.saves,
        }
    }

    /// Whether it waits for a trial.
    pub(super) fn is_untried(&self) -> bool {
        matches!(self.state, State::Waiting | State::Later(_))
    }

    /// Whether its first trial may begin at `at`.
    pub(super) fn is_due(&self, at: Duration) -> bool {
        match self.state {
            State::Waiting => true,
            State::Later(from) => at >= from,
            _ => false,
        }
    }
}

/// All candidates of a search. The first one is the unpinned program, except in a program that starts elsewhere: there
/// the first one is the placement of the start, until the first search lists its candidates.
#[derive(Debug)]
pub(super) struct Candidates {
    all: Vec<Candidate>,
    best: usize,
    running: usize,
}

impl Index<usize> for Candidates {
    type Output = Candidate;

    fn index(&self, candidate: usize) -> &Candidate {
        &self.all[candidate]
    }
}

impl Candidates {
    /// One placement: the program runs there.
    pub(super) fn new(first: Placement) -> Self {
        Self {
            all: vec![Candidate::new(first)],
            best: UNPINNED,
            running: UNPINNED,
        }
    }

    /// All candidates in the order of their positions.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Candidate> {
        self.all.iter()
    }

    /// The number of candidates.
    pub(super) fn number(&self) -> usize {
        self.all.len()
    }

    /// The best candidate so far.
    pub(super) fn best(&self) -> usize {
        self.best
    }

    /// The placement of the best candidate.
    pub(super) fn best_placement(&self) -> &Placement {
        &self.all[self.best].placement
    }

    /// The gain of the best candidate over the unpinned program; `None` for the unpinned program itself.
    pub(super) fn best_gain(&self) -> Option<Gain> {
        self.all[self.best].gain.filter(|_| self.best != UNPINNED)
    }

    /// The candidate whose placement the program has.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// The placement that the program has.
    pub(super) fn running_placement(&self) -> &Placement {
        &self.all[self.running].placement
    }

    /// Whether the program runs in the best placement.
    pub(super) fn is_best_running(&self) -> bool {
        self.running == self.best
    }

    /// Whether the best candidate is the one that the user wants.
    pub(super) fn is_best_requested(&self) -> bool {
        self.all[self.best].by == ProposerCode::User
    }

    /// The candidate with this placement.
    pub(super) fn position(&self, placement: &Placement) -> Option<usize> {
        self.all.iter().position(|one| one.placement == *placement)
    }

    /// The gain of a candidate over the unpinned program; zero for the unpinned program itself, `None` if it is not
    /// known.
    pub(super) fn gain(&self, candidate: usize) -> Option<Gain> {
        match candidate {
            UNPINNED => Some(Gain::default()),
            _ => self.all[candidate].gain,
        }
    }

    /// Whether the first trial of a candidate against the best one may begin at `at`.
    pub(super) fn is_due(&self, candidate: usize, at: Duration) -> bool {
        let may = match self.all[candidate].state {
            State::Open { against, .. } => against != self.best,
            _ => self.all[candidate].is_due(at),
        };
        candidate != self.best && candidate != UNPINNED && may
    }

    /// The candidate with the largest gain over the best one among those that were left open against it, with its
    /// pairs. A trial that was left open early counts with the gain that it may have.
    pub(super) fn most_promising_open(&self, noise: &Noise) -> Option<(usize, Turns)> {
        let open = self.all.iter().enumerate().filter_map(|(one, candidate)| {
            let State::Open { turns, against } = &candidate.state else {
                return None;
            };
            let gain = turns.gain(noise).filter(|_| *against == self.best)?;
            let is_early = turns.number() < SCREENED;
            let may_be = gain.log + if is_early { gain.error } else { 0.0 };
            Some((one, may_be, turns.clone()))
        });
        let promising = open.filter(|(_, gain, _)| *gain > 0.0);
        let first = promising.max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((first.0, first.2))
    }

    /// Adds a candidate. If its placement is in the list, it gets the forecast. Returns its position.
    pub(super) fn propose(&mut self, proposal: Proposal, findings: &mut Vec<Finding>) -> usize {
        let Proposal {
            placement,
            by,
            gain,
            why,
        } = proposal;
        let expected = gain.map(f64::ln_1p);
        if let Some(known) = self.position(&placement) {
            let candidate = &mut self.all[known];
            candidate.expected = candidate.expected.or(expected);
            return known;
        }
        findings.push(Finding::Proposed {
            pus: placement.pinning.clone(),
            within: placement.within.clone(),
            pages: placement.pages,
            regions: placement.regions.clone(),
            by,
            gain,
            why,
        });
        self.all.push(Candidate {
            by,
            expected,
            ..Candidate::new(placement)
        });
        self.all.len() - 1
    }

    /// The program runs in the placement of this candidate from now on.
    pub(super) fn run(&mut self, candidate: usize) {
        self.running = candidate;
    }

    /// This candidate is the best one.
    pub(super) fn set_best(&mut self, candidate: usize) {
        self.best = candidate;
    }

    /// Sets how far the search has come with a candidate.
    pub(super) fn set_state(&mut self, candidate: usize, state: State) {
        self.all[candidate].state = state;
    }

    /// Sets the share of the best candidate's time that each one is expected to save.
    pub(super) fn expect(&mut self, saves: impl Fn(usize) -> f64) {
        for (one, candidate) in self.all.iter_mut().enumerate() {
            candidate.saves = saves(one);
        }
    }

    /// Sets the gain of a candidate over the unpinned program.
    pub(super) fn set_gain(&mut self, candidate: usize, gain: Option<Gain>) {
        self.all[candidate].gain = gain;
    }

    /// Sets whether a candidate counts as faster than the unpinned program.
    pub(super) fn set_confirmed(&mut self, candidate: usize, confirmed: bool) {
        self.all[candidate].confirmed = confirmed;
    }

    /// Sets the rate of a candidate.
    pub(super) fn set_rate(&mut self, candidate: usize, rate: Option<f64>) {
        self.all[candidate].rate = rate;
    }

    /// Drops all candidates that were not tried and wait for nothing.
    pub(super) fn drop_waiting(&mut self) {
        for candidate in &mut self.all {
            if matches!(candidate.state, State::Waiting) {
                candidate.state = State::Out;
            }
        }
    }
}
