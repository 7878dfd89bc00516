//! The regions that matter, and their times in the baseline and in each profiled configuration.
//!
//! Units: regions that are too short for a change of configuration run as the region that takes most of the time. They
//! and this region are one unit, and every other region is one.

use super::percent;
use crate::react::model::{ModelConfiguration, Profile};
use crate::react::timing::{Measured, Timing};
use pinfold_core::RegionId;
use std::collections::BTreeMap;
use std::time::Duration;

/// A region with a smaller share of the time in all regions does not matter.
const LEAST_SHARE: f64 = 0.01;

/// The least number of executions of a region in a step.
const EXECUTIONS: f64 = 5.0;

/// The least number of readings of a region in a step. From six readings on the noise is known (`statistics::level`).
const READINGS: usize = 6;

/// A trial may end early after this number of readings of each region.
const FEW_READINGS: usize = READINGS / 2;

/// A region whose executions are shorter does not change its configuration: a change costs up to 10 us (`make bench`),
/// and in ten times that it can gain little more.
const SHORTEST: f64 = 100e-6;

/// The results of one region.
#[derive(Debug)]
struct Region {
    share: f64,
    baseline: Measured,
    /// By profiled configuration.
    profiled: Vec<Option<Measured>>,
}

/// The regions, and the profiled configurations.
#[derive(Debug)]
pub(super) struct Profiles {
    /// The configurations of the model, or those that a belief has chosen so far.
    configurations: Vec<ModelConfiguration>,
    regions: BTreeMap<RegionId, Region>,
}

impl Profiles {
    /// Nothing is measured yet. The model profiles regions in these configurations.
    pub(super) fn new(configurations: Vec<ModelConfiguration>) -> Self {
        Self {
            configurations,
            regions: BTreeMap::new(),
        }
    }

    /// Whether the regions that matter were timed often enough for a baseline.
    pub(super) fn is_baseline_complete(timing: &Timing) -> bool {
        let all = shares(timing);
        let mut matter = all.iter().filter(|(_, share)| **share >= LEAST_SHARE);
        !all.is_empty() && matter.all(|(&id, _)| is_enough(timing, id))
    }

    /// Takes the baseline. Returns whether there are regions to profile.
    pub(super) fn take_baseline(&mut self, timing: &Timing) -> bool {
        for (id, share) in shares(timing) {
            let measured = timing
                .measured(id)
                .filter(|measured| share >= LEAST_SHARE && measured.profile.executions >= EXECUTIONS);
            if let Some(baseline) = measured {
                let profiled = vec![];
                self.regions.insert(
                    id,
                    Region {
                        share,
                        baseline,
                        profiled,
                    },
                );
            }
        }
        !self.regions.is_empty()
    }

    /// The longest time between two executions of a region in the baseline, which lasted `lasts`.
    pub(super) fn longest_execution(&self, lasts: Duration) -> Duration {
        let regions = self.regions.values();
        let seconds = regions.map(|region| lasts.as_secs_f64() / region.baseline.profile.executions);
        Duration::from_secs_f64(seconds.fold(0.0, f64::max))
    }

    /// Whether each region was timed often enough.
    pub(super) fn is_complete(&self, timing: &Timing) -> bool {
        self.ids().all(|id| is_enough(timing, id))
    }

    /// Takes the times in the next configuration.
    pub(super) fn record(&mut self, timing: &Timing) {
        for (&id, region) in &mut self.regions {
            region.profiled.push(timing.measured(id));
        }
    }

    /// The regions, in the order of their numbers.
    pub(super) fn ids(&self) -> impl Iterator<Item = RegionId> {
        self.regions.keys().copied()
    }

    /// The regions, those that take most of the time first.
    pub(super) fn ordered(&self) -> Vec<RegionId> {
        let mut all: Vec<RegionId> = self.ids().collect();
        all.sort_by(|one, other| self.share(*other).total_cmp(&self.share(*one)));
        all
    }

    /// A region's share of the time in all regions during the baseline.
    pub(super) fn share(&self, id: RegionId) -> f64 {
        self.regions[&id].share
    }

    /// A region in the baseline.
    pub(super) fn baseline(&self, id: RegionId) -> &Measured {
        &self.regions[&id].baseline
    }

    /// What was counted of a region in each configuration.
    pub(super) fn counted(&self, id: RegionId) -> Vec<Option<Profile>> {
        let profiled = self.regions[&id].profiled.iter();
        profiled.map(|measured| Some(measured.as_ref()?.profile)).collect()
    }

    /// The configurations.
    pub(super) fn configurations(&self) -> &[ModelConfiguration] {
        &self.configurations
    }

    /// The regions and their configurations in words.
    pub(super) fn text(&self) -> (String, String, String) {
        let all: f64 = self.regions.values().map(|region| region.share).sum();
        let region = |id: &RegionId| {
            let seconds = self.baseline(*id).seconds();
            format!("region {id} {}, {seconds:.3e} s each", percent(self.share(*id)))
        };
        let regions: Vec<String> = self.ordered().iter().map(region).collect();
        let configurations: Vec<String> = self.configurations.iter().map(ToString::to_string).collect();
        (percent(all), regions.join("; "), configurations.join(", and under "))
    }

    /// The time of all regions in the baseline, and the time of as many executions that take `after` seconds each. A
    /// region without such a time counts as in the baseline.
    pub(super) fn times(&self, after: impl Fn(RegionId) -> Option<f64>) -> (f64, f64) {
        self.regions.iter().fold((0.0, 0.0), |(before, all), (&id, region)| {
            let Profile {
                executions, seconds, ..
            } = region.baseline.profile;
            let now = after(id).map_or(seconds, |after| executions * after);
            (before + seconds, all + now)
        })
    }

    /// The units, those that take most of the time first. First comes the one with the short regions.
    pub(super) fn units(&self) -> Vec<Vec<RegionId>> {
        let is_short = |id: &RegionId| self.baseline(*id).seconds() < SHORTEST;
        let order = self.ordered();
        let Some(&leader) = order.iter().find(|id| !is_short(id)).or(order.first()) else {
            return vec![];
        };
        let (short, long): (Vec<RegionId>, Vec<RegionId>) =
            order.into_iter().filter(|&id| id != leader).partition(is_short);
        let together = [leader].into_iter().chain(short).collect();
        [together]
            .into_iter()
            .chain(long.into_iter().map(|id| vec![id]))
            .collect()
    }

    /// The position of the fastest configuration of a region.
    pub(super) fn fastest(&self, id: RegionId) -> Option<usize> {
        let profiled = self.regions[&id].profiled.iter();
        least(profiled.map(|measured| Some(measured.as_ref()?.seconds()))).map(|(number, _)| number)
    }

    /// The position of the fastest configuration of these regions together, and their time in it, in seconds: for as
    /// many executions as in the baseline.
    pub(super) fn fastest_together(&self, unit: &[RegionId]) -> Option<(usize, f64)> {
        let seconds = |number: usize, id: RegionId| {
            let region = &self.regions[&id];
            let profiled = region.profiled.get(number)?.as_ref()?;
            Some(profiled.seconds() * region.baseline.profile.executions)
        };
        let together = |number| unit.iter().map(|&id| seconds(number, id)).sum();
        least((0..self.configurations.len()).map(together))
    }

    /// Adds a configuration, which is profiled next.
    pub(super) fn add(&mut self, configuration: ModelConfiguration) {
        self.configurations.push(configuration);
    }

    /// The seconds of one execution of a region in a configuration; `None` if it was not profiled there.
    pub(super) fn seconds_in(&self, id: RegionId, configuration: &ModelConfiguration) -> Option<f64> {
        let number = self.configurations.iter().position(|one| one == configuration)?;
        Some(self.regions[&id].profiled.get(number)?.as_ref()?.seconds())
    }

    /// How much of a step has been measured; `None` before there are a few readings of each region.
    pub(super) fn progress(&self, timing: &Timing) -> Option<Progress> {
        let mut progress = Progress {
            share: 1.0,
            seconds: BTreeMap::new(),
        };
        for id in self.ids() {
            let readings = timing.readings(id);
            let profile = timing.profile(id).filter(|_| readings >= FEW_READINGS)?;
            let share = (readings as f64 / READINGS as f64).min(profile.executions / EXECUTIONS);
            progress.share = progress.share.min(share);
            progress.seconds.insert(id, profile.seconds / profile.executions);
        }
        Some(progress)
    }
}

/// A part of a step.
pub(super) struct Progress {
    /// The share of the readings and executions that the step needs.
    pub(super) share: f64,
    /// By region: the seconds of one execution so far.
    pub(super) seconds: BTreeMap<RegionId, f64>,
}

/// Whether a region was timed often enough.
fn is_enough(timing: &Timing, id: RegionId) -> bool {
    let profile = timing.profile(id);
    profile.is_some_and(|profile| profile.executions >= EXECUTIONS) && timing.readings(id) >= READINGS
}

/// Each region's share of the time in regions.
fn shares(timing: &Timing) -> BTreeMap<RegionId, f64> {
    let seconds: BTreeMap<RegionId, f64> = timing
        .regions()
        .filter_map(|id| Some((id, timing.profile(id)?.seconds)))
        .collect();
    let all: f64 = seconds.values().sum();
    seconds.into_iter().map(|(id, seconds)| (id, seconds / all)).collect()
}

/// The position of the least time, and the time; `None` without any.
fn least(times: impl Iterator<Item = Option<f64>>) -> Option<(usize, f64)> {
    let known = times.enumerate().filter_map(|(number, time)| Some((number, time?)));
    known.min_by(|one, other| one.1.total_cmp(&other.1))
}
