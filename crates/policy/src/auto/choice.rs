//! The choice of a search: whether it was made, its report, and its confirmation.

use super::candidates::{Candidates, UNPINNED};
use super::options::Near;
use crate::comparison::turns::Gain;
use crate::findings::chosen;
use pinfold_core::{ChoiceCode, EndedCode, Finding, ProposerCode};
use std::time::Duration;

/// A choice is not confirmed before the program has run for this long.
const CONFIRM_AFTER: Duration = Duration::from_secs(60);

/// The best candidate once nothing is left to try.
#[derive(Debug, Default)]
pub(super) struct Choice {
    is_made: bool,
    /// The candidate that was reported last as the choice.
    reported: Option<usize>,
    /// When the choice is compared with the unpinned program again.
    confirm_at: Duration,
}

impl Choice {
    /// The choice of the next search, which is open.
    pub(super) fn reopened(&self) -> Self {
        Self {
            confirm_at: self.confirm_at,
            ..Self::default()
        }
    }

    /// Whether the choice is made.
    pub(super) fn is_made(&self) -> bool {
        self.is_made
    }

    /// Makes the choice. Returns whether it was open.
    pub(super) fn make(&mut self) -> bool {
        !std::mem::replace(&mut self.is_made, true)
    }

    /// Another candidate is the best one, so the choice is open.
    pub(super) fn open(&mut self) {
        self.is_made = false;
    }

    /// The next confirmation comes when the program has run for twice as long as at `at`.
    pub(super) fn confirm_later(&mut self, at: Duration) {
        self.confirm_at = (at * 2).max(CONFIRM_AFTER);
    }

    /// Whether the choice is compared with the unpinned program again.
    pub(super) fn is_time_to_confirm(&self, at: Duration) -> bool {
        self.is_made && at >= self.confirm_at
    }

    /// Reports a candidate that is chosen for a reason other than this search.
    pub(super) fn report_given(
        &mut self,
        candidate: usize,
        gain: Option<f64>,
        code: ChoiceCode,
        why: &str,
        findings: &mut Vec<Finding>,
    ) {
        findings.push(chosen(candidate, gain, code, why));
        self.reported = Some(candidate);
    }

    /// Reports the best candidate, unless it was reported last. `insensitive` is a model's reason why placement does
    /// not matter. Returns whether it was reported.
    pub(super) fn report(
        &mut self,
        candidates: &Candidates,
        insensitive: Option<&str>,
        near: Option<&Near>,
        findings: &mut Vec<Finding>,
    ) -> bool {
        let best = candidates.best();
        if self.reported.replace(best) == Some(best) {
            return false;
        }
        let (code, why) = match (insensitive, best) {
            (Some(why), UNPINNED) => (ChoiceCode::Insensitive, why.to_owned()),
            (None, UNPINNED) => match near.and_then(|near| gain_over_requested(candidates, near)) {
                Some(why) => (ChoiceCode::FasterInTurns, why),
                None => (
                    ChoiceCode::NoPinningBetter,
                    "nothing that was proposed was faster than the unpinned program beyond the noise".to_owned(),
                ),
            },
            _ if candidates.is_best_requested() => (
                ChoiceCode::Requested,
                format!(
                    "the user asked for it, and nothing was faster. {}",
                    best_so_far(candidates)
                ),
            ),
            _ => (ChoiceCode::FasterInTurns, best_so_far(candidates)),
        };
        let gain = candidates.best_gain();
        findings.push(chosen(best, gain.map(|gain| gain.log.exp_m1()), code, &why));
        true
    }

    /// The finding of a program that ended before the choice, after trials had cost it `lost` seconds; `None` after the
    /// choice.
    pub(super) fn ended_early(&self, candidates: &Candidates, lost: f64) -> Option<Finding> {
        if self.is_made {
            return None;
        }
        let why = if lost < 0.0005 {
            "The program ended before the search did; no trial had slowed it down.".to_owned()
        } else {
            format!("The program ended before the search did; trials had cost it about {lost:.2} s.")
        };
        Some(Finding::EndedEarly {
            best: Some(candidates.best()),
            rate: candidates[candidates.best()].rate,
            code: EndedCode::DuringSearch,
            why: format!("{why} {}", best_so_far(candidates)),
        })
    }
}

/// How much faster the unpinned program is than near the device, as a sentence; `None` if it is not faster.
fn gain_over_requested(candidates: &Candidates, near: &Near) -> Option<String> {
    let requested = candidates.iter().find(|one| one.by == ProposerCode::User)?;
    let gain = requested.gain?.inverse();
    let (times, error) = gain.times();
    (gain.log > 0.0).then(|| {
        format!(
            "The operating system's placement on the whole machine is {times:.2} ± {error:.2} times as fast as near {}.",
            near.what
        )
    })
}

/// The result for the best candidate, as a sentence.
fn best_so_far(candidates: &Candidates) -> String {
    match candidates.best_gain().map(Gain::times) {
        None if candidates.is_best_requested() => {
            "The operating system's placement on the whole machine was not measured.".to_owned()
        }
        None => "Nothing was faster than the unpinned program.".to_owned(),
        Some((times, error)) => format!("The program runs {times:.2} ± {error:.2} times as fast as unpinned."),
    }
}
