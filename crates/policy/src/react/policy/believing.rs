//! The trials that a belief plans. Each region has a belief about all configurations.
//!
//! All regions run in one configuration during a trial, because pages belong to the program. Its times are compared
//! with the baseline, which is unpinned. Trials may lose the same share of the run time as trials of the default
//! policy. While no trial is affordable, the program runs in the best configuration so far.

use super::profiles::{Profiles, Progress};
use crate::auto::budget::Budget;
use crate::belief::{Account, Belief, Cost, Next, Partial, Point, Posterior, Trial, View, is_hopeless, next};
use crate::react::model::ModelConfiguration;
use crate::react::plan::{Plan, Requests};
use crate::react::space::space;
use crate::react::timing::{Measured, Timing};
use pinfold_core::{BelievedTrial, PageMapping, Pinning, Prefetchers, RegionId, Topology, Tried};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The search is over when no trial is worth its cost in a program that runs for as long again, and for this time at
/// least. Before, it waits until the program is older. An assumption: who asks for this policy has a program that runs
/// for a minute.
const SEARCHED_FOR: Duration = Duration::from_secs(60);

/// While it waits, it asks again when the program is older by this factor.
const OLDER: f64 = 1.05;

/// The belief about each region, and the losses of trials.
#[derive(Debug)]
pub(super) struct Believing {
    /// By position in the beliefs; the unpinned program comes after them.
    configurations: Vec<ModelConfiguration>,
    regions: BTreeMap<RegionId, Posterior>,
    /// The variance of a trial of usual length.
    noise: f64,
    budget: Budget,
    /// The length of the last step.
    step: Duration,
    /// The next trial is not affordable before.
    asks_at: Duration,
}

/// The next step.
#[derive(Debug)]
pub(super) enum Wanted {
    /// A trial of this configuration.
    Trial(ModelConfiguration),
    /// The program runs in this plan for another step, because no trial is affordable yet, or none was made.
    Wait(Plan),
    /// No trial is worth its cost, and some were made.
    Enough,
}

impl Believing {
    /// The regions were timed in the unpinned program, which ran on these PUs. `working` threads are there.
    pub(super) fn begin(
        belief: &Belief,
        profiles: &Profiles,
        topology: &Topology,
        working: usize,
        home: Option<&Pinning>,
    ) -> Self {
        let mut configurations = vec![];
        let mut points = vec![];
        for configuration in space(topology, working) {
            let prefetch = Some(configuration.prefetch);
            let point = configuration
                .pinning(topology)
                .and_then(|pinning| Point::of(&pinning, configuration.page_map, prefetch, topology));
            if let Some(point) = point.filter(|point| !points.contains(point)) {
                points.push(point);
                configurations.push(configuration);
            }
        }
        let first = Pinning::new(topology.allowed_pus().iter().take(working.max(1)).collect());
        let unpinned = home.cloned().into_iter().chain(first);
        let unpinned = unpinned.map(|pus| Point::of(&pus, PageMapping::FirstTouch, None, topology));
        points.extend(unpinned.flatten().next());
        let prior = Arc::new(belief.over(points, topology.name()));
        Self {
            configurations,
            regions: profiles.ids().map(|id| (id, Posterior::new(prior.clone()))).collect(),
            noise: belief.noise,
            budget: Budget::default(),
            step: Duration::ZERO,
            asks_at: Duration::ZERO,
        }
    }

    /// The position of the unpinned program.
    fn unpinned(&self) -> usize {
        self.configurations.len()
    }

    /// The view of each region, with its share of the time.
    fn views(&self, profiles: &Profiles) -> Vec<(RegionId, View<'_>)> {
        let view = |(&id, posterior): (&RegionId, _)| {
            let view = View {
                posterior,
                share: profiles.share(id),
                best: Posterior::best(posterior).unwrap_or(self.unpinned()),
                against: Some(self.unpinned()),
                noise: self.noise,
            };
            (id, view)
        };
        self.regions.iter().map(view).collect()
    }

    /// A step has lasted for this time.
    pub(super) fn note_step(&mut self, lasted: Duration) {
        self.step = lasted;
    }

    /// Pages have moved for this time.
    pub(super) fn note_moving(&mut self, lasted: Duration) {
        self.budget.spend(lasted, 0.0);
    }

    /// The next step at `at`, and the reason in words. The program runs in the plan `running`.
    pub(super) fn wanted(
        &mut self,
        profiles: &Profiles,
        running: &Plan,
        requests: &Requests,
        at: Duration,
    ) -> (Wanted, Option<String>) {
        if at < self.asks_at {
            return (Wanted::Wait(best_plan(profiles)), None);
        }
        let account = Account {
            horizon: at.as_secs_f64(),
            may_lose: self.budget.left(at).as_secs_f64(),
        };
        let cost = |of: usize| {
            let configuration = self.configurations.get(of)?;
            // A region that could not be timed there would not be timed there again.
            let mut tried = profiles.configurations().iter();
            let was_tried = tried.any(|one| in_effect(one, requests) == *configuration);
            let can_be_set = in_effect(configuration, requests) == *configuration;
            let stay = running
                .base
                .as_ref()
                .is_some_and(|base| base.shares_pages_with(configuration));
            let moving = if stay {
                Duration::ZERO
            } else {
                2 * requests.moved_pages()
            };
            (can_be_set && !was_tried).then_some(Cost {
                measuring: self.step.as_secs_f64(),
                moving: moving.as_secs_f64(),
            })
        };
        let views: Vec<View<'_>> = self.views(profiles).into_iter().map(|(_, view)| view).collect();
        let Some(first) = views.first() else {
            return (Wanted::Enough, None);
        };
        let chosen = next(&views, cost, account);
        let why = chosen.in_words(first.posterior.prior());
        let is_over = || {
            let horizon = at.max(SEARCHED_FOR).as_secs_f64();
            let none = matches!(next(&views, cost, Account { horizon, ..account }), Next::Enough(_));
            none && !profiles.configurations().is_empty()
        };
        match chosen {
            Next::Try(of, _) => (Wanted::Trial(self.configurations[of].clone()), Some(why)),
            Next::Enough(_) if is_over() => (Wanted::Enough, Some(why)),
            Next::Enough(_) | Next::Wait { .. } => {
                self.asks_at = at.mul_f64(OLDER);
                (Wanted::Wait(best_plan(profiles)), None)
            }
        }
    }

    /// The regions were timed in the configuration at this position of the profiles. Returns what was believed of each
    /// before and after.
    pub(super) fn learn(
        &mut self,
        profiles: &Profiles,
        number: usize,
        timing: &Timing,
        requests: &Requests,
    ) -> Vec<BelievedTrial> {
        let configuration = in_effect(&profiles.configurations()[number], requests);
        let (before, now) = profiles.times(|id| timing.measured(id).as_ref().map(Measured::seconds));
        let best = profiles
            .fastest_together(&profiles.ordered())
            .map_or(before, |(_, best)| best.min(before));
        self.budget.spend(timing.lasts(), best / now);
        let (unpinned, noise) = (self.unpinned(), self.noise);
        let Some(of) = self.configurations.iter().position(|one| *one == configuration) else {
            return vec![];
        };
        let mut learned = vec![];
        for (&id, posterior) in &mut self.regions {
            let Some(measured) = timing.measured(id) else { continue };
            let baseline = profiles.baseline(id);
            let trial = Trial {
                of,
                against: Some(unpinned),
                log: (measured.seconds() / baseline.seconds()).ln(),
                variance: noise + relative_variance(&measured, noise) + relative_variance(baseline, noise),
            };
            // A time that cannot be compared teaches nothing.
            if let Ok(lesson) = posterior.learn(trial) {
                learned.push(lesson.finding(Tried::Region {
                    region: id,
                    configuration: posterior.prior().points()[of].to_string(),
                }));
            }
        }
        learned
    }

    /// Whether the rest of a trial would lose more than it may save.
    pub(super) fn is_hopeless(&self, profiles: &Profiles, number: usize, timing: &Timing, at: Duration) -> bool {
        let configuration = &profiles.configurations()[number];
        let Some(of) = self.configurations.iter().position(|one| one == configuration) else {
            return false;
        };
        let Some(Progress { share, seconds }) = profiles.progress(timing) else {
            return false;
        };
        let mut partials = vec![];
        for (id, view) in self.views(profiles) {
            let best = match self.configurations.get(view.best) {
                None => Some(profiles.baseline(id).seconds()),
                Some(best) => profiles.seconds_in(id, best),
            };
            let Some(best) = best else { return false };
            let partial = Partial {
                log: (seconds[&id] / best).ln(),
                variance: (self.noise + relative_variance(profiles.baseline(id), self.noise)) / share,
            };
            partials.push((view, partial));
        }
        let account = Account {
            horizon: at.as_secs_f64(),
            may_lose: 0.0,
        };
        let rest = self.step.mul_f64(1.0 - share).as_secs_f64();
        is_hopeless(&partials, of, rest, account)
    }
}

/// The variance of the logarithm of a time. With too few readings it is the variance of a usual trial.
fn relative_variance(measured: &Measured, usual: f64) -> f64 {
    measured.relative_variance().unwrap_or(usual)
}

/// The configuration as the machine sets it: all prefetchers are on if it cannot set them.
fn in_effect(configuration: &ModelConfiguration, requests: &Requests) -> ModelConfiguration {
    ModelConfiguration {
        prefetch: if requests.sets_prefetchers() {
            configuration.prefetch
        } else {
            Prefetchers::ALL
        },
        ..configuration.clone()
    }
}

/// All regions in their fastest configuration together. Unpinned, if none was faster than the baseline.
fn best_plan(profiles: &Profiles) -> Plan {
    let (before, _) = profiles.times(|_| None);
    match profiles.fastest_together(&profiles.ordered()) {
        Some((number, time)) if time < before => Plan::uniform(profiles.ids(), &profiles.configurations()[number]),
        _ => Plan::default(),
    }
}
