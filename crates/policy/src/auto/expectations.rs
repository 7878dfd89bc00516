//! What a belief says of the candidates of one search: which trial is worth most, and what it may lose.
//!
//! Each candidate is a point of the belief. Trials compare two candidates in turns, and change what is believed of all
//! others. A source that forecasts a gain counts as a trial with a large error. The posterior is made again from all
//! trials when candidates are added, because it takes less than a millisecond.
//!
//! The budget does not limit the choice: it is checked before each window. So a trial that is worth its cost may begin,
//! and its windows wait.

use super::candidates::{Candidates, UNPINNED};
use super::placement::Placement;
use crate::belief::{Account, Belief, Cost, Next, Point, Posterior, Trial, View, next};
use crate::comparison::turns::Gain;
use pinfold_core::{BelievedTrial, PageMapping, Pinning, Topology, Tried};
use std::sync::Arc;
use std::time::Duration;

/// The variance of a forecast gain, as a logarithm: it may be wrong by a fifth. Assumed.
const OF_FORECAST: f64 = 0.04;

/// A program is expected to run on for as long as it has run, and for this time at least. So in its first seconds
/// trials are worth their cost; the budget limits what they may lose. Assumed.
const RUNS_ON: Duration = Duration::from_secs(60);

/// No trial is more accurate than this, as a variance.
const LEAST_VARIANCE: f64 = 1e-6;

/// What makes candidates points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) topology: &'a Topology,
    pub(super) threads: usize,
    /// By rank: the last PUs of the unpinned program; `None` if they are not known.
    pub(super) unpinned: Option<&'a Pinning>,
}

/// The shares of time that a candidate is expected to save and to lose, over the best one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prospect {
    pub(super) saves: f64,
    pub(super) loses: f64,
}

/// The belief about the candidates of one search.
#[derive(Debug)]
pub(super) struct Expectations {
    belief: Arc<Belief>,
    /// `None` before there are candidates.
    posterior: Option<Posterior>,
    /// The forecasts of sources.
    forecasts: Vec<Trial>,
    /// The trials that are over, one for each pair of candidates.
    trials: Vec<Trial>,
}

impl Expectations {
    /// Before any candidate.
    pub(super) fn new(belief: Arc<Belief>) -> Self {
        Self {
            belief,
            posterior: None,
            forecasts: vec![],
            trials: vec![],
        }
    }

    /// The same belief, for another list of candidates.
    pub(super) fn restarted(&self) -> Self {
        Self::new(Arc::clone(&self.belief))
    }

    /// Takes candidates and forecasts into the belief that were added since.
    pub(super) fn update(&mut self, candidates: &Candidates, frame: Frame<'_>) {
        let forecasts = candidates.iter().skip(1).filter(|one| one.expected.is_some()).count();
        if (self.number(), self.forecasts.len()) == (candidates.number(), forecasts) {
            return;
        }
        let points = candidates.iter().map(|one| frame.point(&one.placement)).collect();
        let prior = self.belief.over(points, frame.topology.name());
        self.posterior = Some(Posterior::new(Arc::new(prior)));
        let forecast = |(of, gain): (usize, f64)| Trial {
            of,
            against: Some(UNPINNED),
            log: -gain,
            variance: OF_FORECAST,
        };
        let expected = candidates.iter().map(|one| one.expected).enumerate().skip(1);
        let expected = expected.filter_map(|(of, gain)| Some((of, gain?)));
        self.forecasts = expected.map(forecast).collect();
        self.condition();
    }

    /// Conditions the prior on all forecasts and trials.
    fn condition(&mut self) {
        let Some(posterior) = &mut self.posterior else { return };
        *posterior = posterior.before_trials();
        for &trial in self.forecasts.iter().chain(&self.trials) {
            // What says nothing teaches nothing.
            let _ = posterior.learn(trial);
        }
    }

    /// The number of candidates in the belief.
    fn number(&self) -> usize {
        self.posterior
            .as_ref()
            .map_or(0, |posterior| posterior.prior().points().len())
    }

    /// Learns that B has this gain over A. All pairs of a trial that goes on count once. Returns what was believed
    /// before and after it.
    pub(super) fn learn(&mut self, a: usize, b: usize, gain: Gain) -> Option<BelievedTrial> {
        let is_same = |trial: &Trial| (trial.against, trial.of) == (Some(a), b);
        let before = self.trials.len();
        self.trials.retain(|trial| !is_same(trial));
        if self.trials.len() < before {
            self.condition();
        }
        let trial = Trial {
            of: b,
            against: Some(a),
            log: -gain.log,
            variance: gain.error.powi(2).max(LEAST_VARIANCE),
        };
        let posterior = self.posterior.as_mut()?;
        let lesson = posterior.learn(trial).ok()?;
        self.trials.push(trial);
        Some(lesson.finding(Tried::Candidate {
            candidate: b,
            with: (a != UNPINNED).then_some(a),
        }))
    }

    /// The candidate whose trial is worth most in a program of the age `at`; `None` if no trial is worth its cost.
    /// `noise` is the variance of a trial. `cost` is `None` for a candidate that is not tried.
    pub(super) fn next(
        &self,
        best: usize,
        noise: Option<f64>,
        at: Duration,
        cost: impl Fn(usize) -> Option<Cost>,
    ) -> Option<usize> {
        let view = View {
            posterior: self.posterior.as_ref()?,
            share: 1.0,
            best,
            against: Some(best),
            noise: noise.unwrap_or(self.belief.noise),
        };
        let account = Account {
            horizon: at.max(RUNS_ON).as_secs_f64(),
            may_lose: f64::INFINITY,
        };
        match next(&[view], cost, account) {
            Next::Try(of, _) => Some(of),
            Next::Wait { .. } | Next::Enough(_) => None,
        }
    }

    /// What a candidate is expected to save and to lose; `None` if it is not in the belief yet.
    pub(super) fn prospect(&self, of: usize, best: usize) -> Option<Prospect> {
        let posterior = self.posterior.as_ref().filter(|_| of.max(best) < self.number())?;
        let over_best = posterior.between(of, best).spread(posterior.spread());
        Some(Prospect {
            saves: over_best.saves(),
            loses: over_best.loses(),
        })
    }
}

impl Frame<'_> {
    /// The point of a placement. Unpinned threads are where they were last seen, and else on all cores.
    fn point(&self, placement: &Placement) -> Point {
        let pages = placement.pages.unwrap_or(PageMapping::FirstTouch);
        let of = |pinning: &Pinning| Point::of(pinning, pages, None, self.topology);
        let within = || Pinning::new(placement.within.as_ref()?.iter().take(self.threads).collect());
        let pinned = placement.pinning.as_ref().and_then(of);
        let unpinned = || of(&within().or_else(|| self.unpinned.cloned())?);
        pinned.or_else(unpinned).unwrap_or(Point::everywhere(pages))
    }
}

#[cfg(test)]
mod tests {
    use super::super::proposals::Proposal;
    use super::*;
    use crate::synthetic::synthetic;
    use pinfold_core::{ProposerCode, PuId};
    use serde_json::json;

    const AT: Duration = Duration::from_secs(5);

    const COST: Cost = Cost {
        measuring: 0.3,
        moving: 0.0,
    };

    fn machine() -> Topology {
        synthetic("package:2 numa:1 l3:1 core:4 pu:1")
    }

    fn frame(topology: &Topology) -> Frame<'_> {
        Frame {
            topology,
            threads: 4,
            unpinned: None,
        }
    }

    /// The unpinned program, and four threads on these PUs with these forecasts.
    fn candidates(all: &[([u32; 4], Option<f64>)]) -> Candidates {
        let mut candidates = Candidates::new(Placement::default());
        for &(pus, gain) in all {
            let proposal = Proposal {
                placement: Placement::pinned(Pinning::new(pus.map(PuId).to_vec()).unwrap()),
                by: ProposerCode::Topology,
                gain,
                why: String::new(),
            };
            candidates.propose(proposal, &mut vec![]);
        }
        candidates
    }

    const ONE_NODE: [u32; 4] = [0, 1, 2, 3];
    const OTHER_NODE: [u32; 4] = [4, 5, 6, 7];
    const BOTH: [u32; 4] = [0, 1, 4, 5];

    /// What is known of these candidates before any trial.
    fn expecting(belief: Belief, candidates: &Candidates) -> Expectations {
        let mut expectations = Expectations::new(Arc::new(belief));
        expectations.update(candidates, frame(&machine()));
        expectations
    }

    fn next(expectations: &Expectations, tried: &[usize]) -> Option<usize> {
        let cost = |one: usize| (one != UNPINNED && !tried.contains(&one)).then_some(COST);
        expectations.next(UNPINNED, None, AT, cost)
    }

    const SLOWER: Gain = Gain { log: -0.5, error: 0.01 };

    #[test]
    fn who_knows_nothing_tries_one_after_the_other_and_a_forecast_first() {
        let all = candidates(&[(BOTH, None), (ONE_NODE, None), (OTHER_NODE, Some(0.3))]);
        let mut expectations = expecting(Belief::ignorant(), &all);
        assert_eq!(next(&expectations, &[]), Some(3));
        expectations.learn(UNPINNED, 3, SLOWER);
        assert_eq!(next(&expectations, &[3]), Some(1));
        expectations.learn(UNPINNED, 1, SLOWER);
        assert_eq!(next(&expectations, &[3, 1]), Some(2));
    }

    /// Four of eight cores. Where one is faster on one node, others are.
    fn by_nodes() -> Belief {
        let place = |nodes: f64| {
            json!({
                "threads": 0.5, "cores": 0.5, "nodes": nodes, "llcs": nodes,
                "thread_map": "compact", "page_map": "first_touch", "prefetch": "0000",
            })
        };
        let length = json!(1.0);
        let text = json!({
            "pinfold": "belief",
            "version": 1,
            "origin": {"simulated": true, "machines": ["another"], "programs": ["a", "b", "c"], "rows": 6, "learner": "by hand"},
            "points": [place(1.0), place(0.5)],
            "mean": [0.0, 0.0],
            "factors": [[0.0], [0.4]],
            "residual": [1e-4, 1e-4],
            "kernel": {
                "weight": 0.0,
                "variance": 0.0,
                "lengths": {
                    "threads": length, "cores": length, "nodes": length, "llcs": length,
                    "thread_map": length, "page_map": length, "prefetch": length,
                },
            },
            "noise": 1e-4,
            "doubt": {"machine": 0.0},
        });
        text.to_string().parse().unwrap()
    }

    #[test]
    fn a_placement_that_is_slower_says_that_similar_ones_are() {
        let all = candidates(&[(ONE_NODE, None), (OTHER_NODE, None)]);
        let mut expectations = expecting(by_nodes(), &all);
        assert_eq!(next(&expectations, &[]), Some(1));
        let before = expectations.prospect(2, UNPINNED).unwrap();
        expectations.learn(UNPINNED, 1, SLOWER);
        let after = expectations.prospect(2, UNPINNED).unwrap();
        assert!(
            after.loses > 2.0 * before.loses && after.saves < 0.1 * before.saves,
            "{before:?} {after:?}"
        );
        assert_eq!(next(&expectations, &[1]), None);
    }

    #[test]
    fn a_candidate_that_is_added_later_is_judged_by_the_trials_before() {
        let mut all = candidates(&[(ONE_NODE, None)]);
        let mut expectations = expecting(by_nodes(), &all);
        expectations.learn(UNPINNED, 1, SLOWER);
        assert_eq!(expectations.prospect(2, UNPINNED), None);
        let more = candidates(&[(OTHER_NODE, None)])[1].placement.clone();
        let proposal = Proposal {
            placement: more,
            by: ProposerCode::Topology,
            gain: None,
            why: String::new(),
        };
        all.propose(proposal, &mut vec![]);
        expectations.update(&all, frame(&machine()));
        assert!(expectations.prospect(2, UNPINNED).unwrap().loses > 0.3);
    }

    #[test]
    fn the_pairs_of_a_trial_that_goes_on_count_once() {
        let all = candidates(&[(ONE_NODE, None)]);
        let (mut once, mut twice) = (expecting(by_nodes(), &all), expecting(by_nodes(), &all));
        let open = Gain { log: -0.5, error: 0.2 };
        twice.learn(UNPINNED, 1, open);
        let found = twice.learn(UNPINNED, 1, open).unwrap();
        assert_eq!(once.learn(UNPINNED, 1, open).as_ref(), Some(&found));
        assert_eq!(once.prospect(1, UNPINNED), twice.prospect(1, UNPINNED));
        let only = Tried::Candidate {
            candidate: 1,
            with: None,
        };
        assert_eq!(found.tried, only);
        assert!((found.measured - 0.5f64.exp()).abs() < 1e-9, "{found}");
    }
}
