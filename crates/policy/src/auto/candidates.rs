//! The placements of a search.

use super::placement::Placement;
use crate::comparison::turns::{Gain, Turns};
use pinfold_core::ProposerCode;
use std::time::Duration;

/// The unpinned program's position among the candidates.
pub(super) const UNPINNED: usize = 0;

/// What became of a candidate.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It was not tried.
    Waiting,
    /// It was tried, and the noise is larger than the difference from the candidate at `against`.
    Open { turns: Turns, against: usize },
    /// It is tried at this time, and not before: moving its pages would have taken too long for a program that had run for
    /// so short a time, or the program was idle.
    Later(Duration),
    /// It is, or was, the best.
    Best,
    /// It is not tried any more.
    Out,
}

/// A placement to try.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) place: Placement,
    /// Who proposed it; nobody, the unpinned program.
    pub(super) by: ProposerCode,
    pub(super) state: State,
    /// The gain over the unpinned program that somebody expects, as a logarithm; `None` where nothing is forecast.
    pub(super) expected: Option<f64>,
    /// The gain over the unpinned program; `None` before it is known.
    pub(super) gain: Option<Gain>,
    /// Whether it was faster than the unpinned program, or than a candidate that was.
    pub(super) confirmed: bool,
    /// The rate when it was last measured.
    pub(super) rate: Option<f64>,
}

impl Candidate {
    pub(super) fn new(place: Placement) -> Self {
        Self {
            place,
            by: ProposerCode::default(),
            state: State::Waiting,
            expected: None,
            gain: None,
            confirmed: false,
            rate: None,
        }
    }

    /// The gain over the unpinned program, or else what somebody expects, as a logarithm; `None` where neither is known.
    pub(super) fn over_unpinned(&self) -> Option<f64> {
        self.gain.map(|gain| gain.log).or(self.expected)
    }
}
