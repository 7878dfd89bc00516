//! Pages: who proposes to move them, and what that may cost.
//!
//! How long pages take to move is not known before: the machine knows, or estimates it, and refuses what takes longer
//! than the policy allows (`Configuration::mapping_within`). What is allowed grows with the time that the program has
//! run. Where a gain is forecast, it is a share of what that gain would have saved so far, and at most what a program may
//! lose in its beginning, because a program can end right after its pages have moved. Otherwise it is so little that
//! moving there and back is lost without harm. What was refused is tried again when the program has run for so long that
//! it may take what the machine said, or for twice as long where it said nothing.

use super::candidates::{State, UNPINNED};
use super::placement::Placement;
use super::policy::Auto;
use super::trial::Trial;
use pinfold_core::memory::main_memory;
use pinfold_core::{Applied, Finding, PageMapping, ProposerCode, PuSet, RefusalCode, Sample, Topology};
use std::time::Duration;

/// The share of the program's time that moving pages may take where nobody forecasts a gain.
const BLIND: f64 = 0.004;

/// The share that moving pages may take of the time that a forecast gain would have saved so far.
const OF_GAIN: f64 = 0.25;

/// The share that it may take at most, whatever is forecast: with the losses of trials it stays within 3 % of 10 s.
const MOST: f64 = 0.025;

/// Refused pages are requested again when the program has run for 1.05 times as long, at the earliest.
const LATER: f64 = 1.05;

/// Interleaving is not proposed where the busiest node's memory is known to carry less than this share of what it can, with
/// what prefetchers read: of a program that goes through its memory misses show a tenth of that.
const IDLE: f64 = 0.05;

/// What is still proposed for pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OfPages {
    /// Placements with the pages of the best one, and to interleave its pages.
    #[default]
    All,
    /// To interleave its pages.
    Interleaving,
    /// The search is settled.
    Nothing,
}

impl Auto {
    /// The longest time that pages may take to move to where a candidate wants them; `None` for no limit.
    pub(super) fn moving_within(&self, candidate: usize, at: Duration) -> Option<Duration> {
        (candidate != self.search.best).then(|| at.mul_f64(self.moving_share(candidate)))
    }

    /// The share of the program's time that moving pages to where a candidate wants them may take.
    fn moving_share(&self, candidate: usize) -> f64 {
        match self.search.candidates[candidate].over_unpinned() {
            Some(gain) if gain > 0.0 => (OF_GAIN * (1.0 - (-gain).exp())).clamp(BLIND, MOST),
            _ => BLIND,
        }
    }

    /// How long pages take to move to where a candidate wants them: as long as the last time, or at most as long as they
    /// may.
    pub(super) fn moving_takes(&self, candidate: usize, at: Duration) -> Duration {
        let may = || self.moving_within(candidate, at).unwrap_or_default();
        self.moved_in.unwrap_or_else(may)
    }

    /// The longest time that pages may take to follow threads: as long as these settle, and on the way to a trial at most
    /// half of what may be lost, because the pages have to go back.
    pub(super) fn following_within(&self, at: Duration) -> Duration {
        let settles = self.settles(at);
        if self.present == self.search.best {
            settles
        } else {
            settles.min(self.budget.left(at) / 2)
        }
    }

    /// When refused pages of the present candidate are requested again: once they may take what the machine said, or when
    /// the program has run for twice as long, if it said nothing.
    fn retried(&self, at: Duration, takes: Option<Duration>) -> Duration {
        let Some(takes) = takes else { return at * 2 };
        let after = takes.as_secs_f64() / self.moving_share(self.present);
        let after = Duration::try_from_secs_f64(after).unwrap_or(Duration::MAX);
        after.max(at.mul_f64(LATER))
    }

    /// Whether a window of a candidate that is not the best one, after it has settled, may be lost.
    pub(super) fn affords(&self, candidate: usize, at: Duration, length: Duration, expected: f64) -> bool {
        let are_mapped = self.search.candidates[candidate].place.pages != self.place().pages;
        if are_mapped {
            let takes = self.moving_takes(candidate, at);
            // To the unpinned program and back: the time is known, and is lost. That of a proposal is limited by what it
            // may gain.
            let moving = if candidate == UNPINNED {
                takes * 2
            } else {
                Duration::ZERO
            };
            return self.budget.affords(at, moving, length.saturating_sub(takes), expected);
        }
        // Going back before the trial is over would cost more than to finish it.
        let is_in_block = candidate == self.present && self.search.trial.as_ref().is_some_and(Trial::is_in_block);
        // Pages that follow threads to the candidate go back with them.
        let moving = if candidate == self.present {
            Duration::ZERO
        } else {
            self.followed_in * 2
        };
        is_in_block || self.is_sure_of_regions(candidate) || self.budget.affords(at, moving, length, expected)
    }

    /// The machine has moved pages, or refused to.
    pub(super) fn pages_moved(
        &mut self,
        topology: &Topology,
        sample: &Sample,
        applied: &Applied,
        findings: &mut Vec<Finding>,
    ) {
        let has_pages = self.place().pages.is_some();
        if let Some(moves) = &applied.pages {
            // Otherwise they followed their threads.
            let are_mapped = has_pages || self.has_moved_pages;
            if are_mapped {
                self.has_moved_pages = true;
                self.moved_in = Some(moves.lasted);
            } else {
                self.followed_in = moves.lasted;
            }
            match &mut self.search.trial {
                Some(trial) if are_mapped => trial.moving += moves.lasted,
                _ => self.budget.spend(moves.lasted, 0.0),
            }
        }
        if !has_pages || self.present == self.search.best {
            return;
        }
        let refused = |code| applied.refused.iter().find(|refusal| refusal.code == code);
        let state = if let Some(refusal) = refused(RefusalCode::PagesTooLong) {
            State::Later(self.retried(sample.at, refusal.takes))
        } else if refused(RefusalCode::Pages).is_some() {
            State::Out
        } else {
            return;
        };
        self.search.candidates[self.present].state = state;
        self.search.trial = None;
        self.next(topology, sample, findings);
    }

    /// Proposes the placements of the topology with the pages of the best one, where these were moved.
    pub(super) fn propose_with_pages(&mut self, topology: &Topology, findings: &mut Vec<Finding>) {
        let Some(pages) = self.search.candidates[self.search.best].place.pages else {
            return;
        };
        if self.search.of_pages != OfPages::All {
            return;
        }
        self.search.of_pages = OfPages::Interleaving;
        for one in self.of_topology(topology) {
            let place = Placement {
                pages: Some(pages),
                ..one.place
            };
            self.propose(place, one.by, None, one.why, findings);
        }
    }

    /// The gain that a candidate promises over the unpinned program, as a logarithm. That of one whose pages stay, where
    /// those of the best one were moved, is forecast from the same threads with the pages of the best one: without these
    /// it loses what the best one would. If all of its threads are on one node, where its pages may be, nothing is
    /// forecast.
    pub(super) fn promise(&self, topology: &Topology, candidate: usize) -> Option<f64> {
        let one = &self.search.candidates[candidate];
        if one.expected.is_some() {
            return one.expected;
        }
        let best = &self.search.candidates[self.search.best];
        if one.place.pages.is_some() || best.place.pages.is_none() {
            return None;
        }
        let pinning = one.place.pinning.as_ref()?;
        let is_on_one_node = |pus: &PuSet| pinning.pus().iter().all(|&pu| pus.contains(pu));
        if topology.nodes().iter().any(|node| is_on_one_node(&node.pus)) {
            return None;
        }
        let gain_of = |pages, place: &Placement| {
            let place = Placement { pages, ..place.clone() };
            Some(self.search.gain_of(self.search.position(&place)?)?.log)
        };
        let of_pages = gain_of(best.place.pages, &best.place)? - gain_of(None, &best.place)?;
        Some(gain_of(best.place.pages, &one.place)? - of_pages)
    }

    /// Proposes to interleave the pages of the best one. Returns whether that is new.
    pub(super) fn propose_interleaving(&mut self, topology: &Topology, findings: &mut Vec<Finding>) -> bool {
        let best = self.search.candidates[self.search.best].place.clone();
        let is_idle = self.search.load.is_some_and(|load| load < IDLE);
        if self.search.of_pages == OfPages::Nothing || best.pages.is_some() || is_idle || !self.may_interleave(topology)
        {
            return false;
        }
        let before = self.search.candidates.len();
        let place = Placement {
            pages: Some(PageMapping::Interleave),
            ..best
        };
        let why = "its pages may be on too few nodes".to_owned();
        self.propose(place, ProposerCode::Topology, None, why, findings) == before
    }

    /// Whether pages can be spread over nodes at all.
    pub(super) fn may_interleave(&self, topology: &Topology) -> bool {
        let is_sensitive = self.search.insensitive.is_none();
        is_sensitive && self.options.moves_pages && main_memory(topology).len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::AutoOptions;
    use super::super::candidates::Candidate;
    use super::*;
    use crate::comparison::turns::Gain;
    use crate::synthetic::synthetic;
    use pinfold_core::{NodeId, NumaNode, Pinning, PuId, TopologyBuilder};

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn candidate(pus: &[u32], pages: Option<PageMapping>, gain: Option<f64>) -> Candidate {
        let place = Placement {
            pinning: Pinning::new(pus.iter().copied().map(PuId).collect()),
            pages,
            ..Placement::default()
        };
        Candidate {
            gain: gain.map(|log| Gain { log, error: 0.01 }),
            ..Candidate::new(place)
        }
    }

    /// A policy with these candidates besides the unpinned program. The last one is the present one.
    fn policy(candidates: Vec<Candidate>) -> Auto {
        let mut policy = Auto::new(AutoOptions::default());
        policy.search.candidates.extend(candidates);
        policy.present = policy.search.candidates.len() - 1;
        policy
    }

    const INTERLEAVED: Option<PageMapping> = Some(PageMapping::Interleave);

    #[test]
    fn refused_pages_are_asked_for_again_once_they_may_take_so_long() {
        let mut policy = policy(vec![candidate(&[], INTERLEAVED, None)]);
        // Nobody forecasts a gain: 0.4 % of the time.
        assert_eq!(policy.moving_within(1, seconds(5.0)), Some(seconds(0.02)));
        let again = policy.retried(seconds(5.0), Some(seconds(0.04)));
        assert_eq!(policy.moving_within(1, again), Some(seconds(0.04)));
        policy.search.candidates[1].expected = Some(1.0);
        let again = policy.retried(seconds(4.0), Some(seconds(0.11)));
        assert!(
            (again.as_secs_f64() - 4.4).abs() < 1e-9,
            "2.5 % of it are 0.11 s: {again:?}"
        );
        // Never at once, and twice as late where the machine does not say how long it would take.
        assert!(policy.retried(seconds(4.0), Some(Duration::ZERO)) > seconds(4.1));
        assert_eq!(policy.retried(seconds(4.0), None), seconds(8.0));
        policy.retried(seconds(4.0), Some(Duration::MAX));
    }

    #[test]
    fn pages_are_not_interleaved_onto_the_memory_of_a_gpu() {
        let machine = |subtype: Option<&str>| {
            let mut builder = TopologyBuilder::new("one node and another");
            let root = builder.root();
            for pu in 0..2 {
                builder.pu(root, PuId(pu));
            }
            for (id, pus, subtype) in [(0, "0", None), (1, "1", subtype)] {
                builder.node(NumaNode {
                    id: NodeId(id),
                    attached_to: root,
                    pus: pus.parse().unwrap(),
                    memory: Some(1 << 30),
                    subtype: subtype.map(str::to_owned),
                });
            }
            builder.build_all().unwrap()
        };
        let policy = Auto::new(AutoOptions {
            moves_pages: true,
            ..AutoOptions::default()
        });
        assert!(policy.may_interleave(&machine(None)));
        assert!(!policy.may_interleave(&machine(Some("GPUMemory"))));
    }

    #[test]
    fn threads_without_the_pages_of_the_best_one_are_forecast_to_lose_what_these_gained() {
        let topology = synthetic("package:2 numa:1 core:4 pu:1");
        let mut policy = policy(vec![
            candidate(&[], INTERLEAVED, Some(0.5)),
            candidate(&[0, 4], INTERLEAVED, Some(0.6)),
            candidate(&[0, 4], None, None),
            candidate(&[1, 5], None, None),
            candidate(&[0, 1], INTERLEAVED, Some(0.1)),
            candidate(&[0, 1], None, None),
        ]);
        assert_eq!(
            policy.promise(&topology, 3),
            None,
            "the best one has the pages that it began with"
        );
        policy.search.best = 1;
        assert!((policy.promise(&topology, 3).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(
            policy.promise(&topology, 4),
            None,
            "these threads were not tried with them"
        );
        assert_eq!(
            policy.promise(&topology, 6),
            None,
            "all of its pages can be beside its threads"
        );
        assert_eq!(policy.promise(&topology, 2), None, "it has the pages of the best one");
        policy.search.candidates[3].expected = Some(0.3);
        assert_eq!(policy.promise(&topology, 3), Some(0.3));
    }
}
