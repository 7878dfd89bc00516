//! Pages: who proposes to move them, and what that may cost.
//!
//! How long pages take to move is not known before. The machine knows or estimates it, and refuses moves that take
//! longer than the policy allows (`Configuration::mapping_within`). The allowed time grows with the program's run time.
//!
//! - With an expected gain, of a source or of the belief, it is a share of the time that this gain would have saved so
//!   far. It stays below what a program may lose at its start, because the program can end right after its pages have
//!   moved.
//! - Without one it is so short that the move there and back does no harm.
//! - A refused move is requested again when the program has run for long enough, or for twice as long if the machine
//!   does not say how long the move takes.

use super::candidates::{Candidates, State, UNPINNED};
use super::placement::Placement;
use super::proposals::Proposal;
use super::search::Search;
use super::trial::SCREENED;
use crate::belief::Cost;
use pinfold_core::{Applied, Finding, PageMapping, ProposerCode, RefusalCode};
use std::time::Duration;

/// The share of the program's run time that moving pages may take without an expected gain.
const BLIND: f64 = 0.004;

/// The share that moving pages may take of the time that the expected gain would have saved so far.
const OF_GAIN: f64 = 0.25;

/// The largest share of the run time, whatever is expected: with the losses of trials it stays within 3 % of 10 s.
const MOST: f64 = 0.025;

/// Refused pages are requested again when the program has run for 1.05 times as long, at the earliest.
const LATER: f64 = 1.05;

/// Interleaving is not proposed if the busiest node's memory is known to carry less than this share of its bandwidth,
/// with the reads of prefetchers. The misses of a program that goes through its memory show a tenth of that.
const IDLE: f64 = 0.05;

/// The proposals for pages that are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Left {
    /// Placements of the topology with the pages of the best candidate, and its pages interleaved.
    #[default]
    All,
    /// The pages of the best candidate interleaved.
    Interleaving,
    /// None: the search is settled.
    Nothing,
}

/// The proposals for pages, and how long pages took to move.
#[derive(Debug, Default)]
pub(super) struct Pages {
    left: Left,
    /// How long the last move to a mapping took; `None` if there was none, so that no pages have to move back.
    mapped_in: Option<Duration>,
    /// How long pages took the last time to follow threads.
    followed_in: Duration,
}

impl Pages {
    /// A list of candidates begins, or another candidate is the best one: all proposals are left.
    pub(super) fn restart(&mut self) {
        self.left = Left::All;
    }

    /// The choice is given: nothing is proposed.
    pub(super) fn settle(&mut self) {
        self.left = Left::Nothing;
    }

    /// Whether pages were moved to a mapping, so that other placements move them back.
    pub(super) fn are_mapped(&self) -> bool {
        self.mapped_in.is_some()
    }

    /// How long pages take to move to the mapping of a candidate: as long as the last time, or else the allowed time.
    /// A candidate without a mapping moves back what was moved, and nothing otherwise.
    fn mapping_takes(&self, candidates: &Candidates, candidate: usize, at: Duration) -> Duration {
        self.mapped_in.unwrap_or_else(|| {
            let has_mapping = candidates[candidate].placement.pages.is_some();
            let allowed = mapping_within(candidates, candidate, at).filter(|_| has_mapping);
            allowed.unwrap_or_default()
        })
    }

    /// How long pages take to move if the program goes to a candidate.
    pub(super) fn moving_takes(&self, candidates: &Candidates, candidate: usize, at: Duration) -> Duration {
        if candidates[candidate].placement.pages == candidates.running_placement().pages {
            Duration::ZERO
        } else {
            self.mapping_takes(candidates, candidate, at)
        }
    }

    /// What a window of a candidate costs that lasts for `length` with the time to settle: the time that is lost
    /// because pages move there and back, and the rest.
    pub(super) fn cost(
        &self,
        candidates: &Candidates,
        candidate: usize,
        at: Duration,
        length: Duration,
    ) -> (Duration, Duration) {
        if candidates[candidate].placement.pages != candidates.running_placement().pages {
            let takes = self.mapping_takes(candidates, candidate, at);
            // The way to the unpinned program and back is lost. The way to a proposal is limited by its expected gain.
            let lost = if candidate == UNPINNED {
                takes * 2
            } else {
                Duration::ZERO
            };
            (lost, length.saturating_sub(takes))
        } else if candidate == candidates.running() {
            (Duration::ZERO, length)
        } else {
            // Pages that follow threads to the candidate go back with them.
            (self.followed_in * 2, length)
        }
    }

    /// What a trial of a candidate costs whose windows last for `window` each, with the time to settle. Pages move there
    /// once, and back if it is not faster.
    pub(super) fn cost_of_trial(
        &self,
        candidates: &Candidates,
        candidate: usize,
        at: Duration,
        window: Duration,
    ) -> Cost {
        let moving = if candidates[candidate].placement.pages == candidates.best_placement().pages {
            self.followed_in
        } else {
            self.mapping_takes(candidates, candidate, at)
        };
        Cost {
            measuring: window.as_secs_f64() * SCREENED as f64,
            moving: 2.0 * moving.as_secs_f64(),
        }
    }

    /// Notes how the machine moved pages. Returns whether it refused the candidate that runs, or its pages: its trial is
    /// then dropped.
    pub(super) fn note(&mut self, applied: &Applied, at: Duration, search: &mut Search) -> bool {
        let has_mapping = search.candidates().running_placement().pages.is_some();
        if let Some(moves) = &applied.pages {
            // Otherwise they followed their threads.
            let are_mapped = has_mapping || self.are_mapped();
            if are_mapped {
                self.mapped_in = Some(moves.lasted);
            } else {
                self.followed_in = moves.lasted;
            }
            search.spend_moving(moves.lasted, are_mapped);
        }
        if search.candidates().is_best_running() {
            return false;
        }
        let refused = |code| applied.refused.iter().find(|refusal| refusal.code == code);
        let state = if refused(RefusalCode::Unmeasured).is_some() {
            State::Out
        } else if !has_mapping {
            return false;
        } else if let Some(refusal) = refused(RefusalCode::PagesTooLong) {
            State::Later(requested_again(search.candidates(), at, refusal.takes))
        } else if refused(RefusalCode::Pages).is_some() {
            State::Out
        } else {
            return false;
        };
        search.refuse(state);
        true
    }

    /// Proposes `placements` with the pages of the best candidate, if these were moved.
    pub(super) fn propose_with_pages(
        &mut self,
        search: &mut Search,
        placements: impl FnOnce() -> Vec<Proposal>,
        findings: &mut Vec<Finding>,
    ) {
        let pages = search.candidates().best_placement().pages;
        if pages.is_none() || self.left != Left::All {
            return;
        }
        self.left = Left::Interleaving;
        for one in placements() {
            let proposal = Proposal {
                placement: one.placement.with_pages(pages),
                gain: None,
                ..one
            };
            search.propose(proposal, findings);
        }
    }

    /// Proposes to interleave the pages of the best candidate. `load` is the busiest node's share of its bandwidth, if
    /// it is known. Returns whether the proposal is new.
    pub(super) fn propose_interleaving(
        &self,
        search: &mut Search,
        load: Option<f64>,
        findings: &mut Vec<Finding>,
    ) -> bool {
        let best = search.candidates().best_placement().clone();
        if self.left == Left::Nothing || best.pages.is_some() || is_idle(load) {
            return false;
        }
        let before = search.candidates().number();
        search.propose(interleaved(best), findings) == before
    }
}

/// Whether the memories are known to be idle. `load` is the busiest node's share of its bandwidth, if it is known.
pub(super) fn is_idle(load: Option<f64>) -> bool {
    load.is_some_and(|load| load < IDLE)
}

/// The proposal to interleave the pages of a placement.
pub(super) fn interleaved(placement: Placement) -> Proposal {
    Proposal {
        placement: placement.with_pages(Some(PageMapping::Interleave)),
        by: ProposerCode::Topology,
        gain: None,
        why: "its pages may be on too few nodes".to_owned(),
    }
}

/// The longest time that pages may take to move to the mapping of a candidate; `None` for no limit.
pub(super) fn mapping_within(candidates: &Candidates, candidate: usize, at: Duration) -> Option<Duration> {
    (candidate != candidates.best()).then(|| at.mul_f64(allowed_share(candidates, candidate)))
}

/// The share of the program's run time that moving pages to the mapping of a candidate may take.
fn allowed_share(candidates: &Candidates, candidate: usize) -> f64 {
    (OF_GAIN * candidates[candidate].saved_share()).clamp(BLIND, MOST)
}

/// The longest time that pages may take to follow threads, which settle for `settles`. On the way to a trial it is at
/// most half of what may be lost, because the pages have to go back.
pub(super) fn following_within(search: &Search, settles: Duration, at: Duration) -> Duration {
    if search.candidates().is_best_running() {
        settles
    } else {
        settles.min(search.trials().budget_left(at) / 2)
    }
}

/// When refused pages of the candidate that runs are requested again: once they may take `takes`, or when the program
/// has run for twice as long if the machine does not say how long the move takes.
fn requested_again(candidates: &Candidates, at: Duration, takes: Option<Duration>) -> Duration {
    let Some(takes) = takes else { return at * 2 };
    let after = takes.as_secs_f64() / allowed_share(candidates, candidates.running());
    let after = Duration::try_from_secs_f64(after).unwrap_or(Duration::MAX);
    after.max(at.mul_f64(LATER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::turns::Gain;
    use pinfold_core::{Pinning, PuId};

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Threads on these PUs, with the gain that is known and the one that is expected.
    type Row<'a> = (&'a [u32], Option<PageMapping>, Option<f64>, Option<f64>);

    /// The unpinned program and these candidates. The last one runs.
    fn candidates(rows: &[Row<'_>]) -> Candidates {
        let mut candidates = Candidates::new(Placement::default());
        for &(pus, pages, gain, expected) in rows {
            let placement = Placement {
                pinning: Pinning::new(pus.iter().copied().map(PuId).collect()),
                pages,
                ..Placement::default()
            };
            let proposal = Proposal {
                placement,
                by: ProposerCode::Topology,
                gain: expected.map(f64::exp_m1),
                why: String::new(),
            };
            let position = candidates.propose(proposal, &mut vec![]);
            candidates.set_gain(position, gain.map(|log| Gain { log, error: 0.01 }));
            candidates.run(position);
        }
        candidates
    }

    const INTERLEAVED: Option<PageMapping> = Some(PageMapping::Interleave);

    #[test]
    fn pages_that_were_not_moved_cost_nothing_on_the_way_to_the_unpinned_program() {
        // The program began with a mapping, as the user wanted, and the unpinned program is expected to be faster.
        let mut wanted = candidates(&[(&[], INTERLEAVED, None, None)]);
        wanted.set_best(1);
        wanted.expect(|one| if one == UNPINNED { 0.5 } else { 0.0 });
        let cost = |pages: &Pages| pages.cost(&wanted, UNPINNED, seconds(10.0), seconds(1.0));
        let mut pages = Pages::default();
        assert_eq!(cost(&pages), (Duration::ZERO, seconds(1.0)));
        assert_eq!(pages.moving_takes(&wanted, UNPINNED, seconds(10.0)), Duration::ZERO);
        pages.mapped_in = Some(seconds(0.25));
        assert_eq!(cost(&pages), (seconds(0.5), seconds(0.75)));
    }

    #[test]
    fn refused_pages_are_requested_again_once_they_may_take_so_long() {
        // Without an expected gain: 0.4 % of the time.
        let blind = candidates(&[(&[], INTERLEAVED, None, None)]);
        assert_eq!(mapping_within(&blind, 1, seconds(5.0)), Some(seconds(0.02)));
        let again = requested_again(&blind, seconds(5.0), Some(seconds(0.04)));
        assert_eq!(mapping_within(&blind, 1, again), Some(seconds(0.04)));
        let expected = candidates(&[(&[], INTERLEAVED, None, Some(1.0))]);
        let again = requested_again(&expected, seconds(4.0), Some(seconds(0.11)));
        assert!(
            (again.as_secs_f64() - 4.4).abs() < 1e-9,
            "2.5 % of it are 0.11 s: {again:?}"
        );
        // Never at once, and twice as late if the machine does not say how long it takes.
        assert!(requested_again(&expected, seconds(4.0), Some(Duration::ZERO)) > seconds(4.1));
        assert_eq!(requested_again(&expected, seconds(4.0), None), seconds(8.0));
        requested_again(&expected, seconds(4.0), Some(Duration::MAX));
    }
}
