//! What `react` wants of each region: the forecast of the model, or the fastest profile.

use super::{BEATEN, FEW_READINGS, MOVING, React, note};
use crate::react::model::ModelConfiguration;
use crate::react::neighbours::{MOST_NEIGHBOURS, neighbours, sizes};
use crate::react::timing::Timing;
use pinfold_core::{Finding, RegionCode, RegionId, Sample, Topology};

/// A region whose executions are shorter does not change its configuration: a change costs up to 10 us (`make bench`), and
/// in ten times that it can gain little more.
const SHORTEST: f64 = 100e-6;

impl React {
    /// All profiles are there.
    pub(super) fn forecast(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        for id in self.ordered() {
            let model = &self.options.model;
            let Some(region) = self.regions.get_mut(&id) else {
                continue;
            };
            let profiled = region
                .profiled
                .iter()
                .map(|measured| Some(measured.as_ref()?.seconds()));
            let fastest = least(profiled).map(|(number, _)| number);
            let wanted = match model.forecast(&region.profiles) {
                Some(Ok((number, why))) => {
                    let configuration = model.configurations[number].clone();
                    let why = match why.as_str() {
                        "" => "the model has this configuration for every region".to_owned(),
                        why => format!("{why}, for which the model has {configuration}"),
                    };
                    Some((configuration, RegionCode::Forecast, why))
                }
                Some(Err(counter)) => fastest.map(|number| {
                    let configuration = self.profiles[number].clone();
                    let why = format!("{counter} is not counted here, and {configuration} is the fastest profile");
                    (configuration, RegionCode::FasterProfile, why)
                }),
                None => fastest.map(|number| {
                    let why = format!("it is the fastest of the {} profiles", self.profiles.len());
                    (self.profiles[number].clone(), RegionCode::FasterProfile, why)
                }),
            };
            if let Some((configuration, _, why)) = &wanted {
                findings.push(note(format!("Region {id}: {configuration}. Why: {why}.")));
            }
            region.wanted = wanted;
        }
        self.merge(findings);
        for id in self.ordered() {
            let Some((configuration, ..)) = &self.regions[&id].wanted else {
                continue;
            };
            if !self.places.iter().any(|place| place.shares_pages_with(configuration)) {
                self.places.push(configuration.clone());
            }
        }
        let places = self.places.len();
        for region in self.regions.values_mut() {
            region.own = vec![None; places];
            region.shared = vec![None; places];
        }
        if places == 0 {
            self.roll_back("no region could be profiled", sample, findings);
            return;
        }
        if places > 1 {
            let wanted: Vec<String> = self
                .places
                .iter()
                .map(|place| format!("{} ({} threads)", place.pages(topology), place.threads))
                .collect();
            findings.push(note(format!(
                "The regions want their pages at different places: {}. Pages cannot move at every border, so each region is timed \
                 with the pages of each.",
                wanted.join(", ")
            )));
        }
        self.try_own(0, sample);
    }

    /// Regions that are too short for a change get the configuration of the one that takes most of the time. In a race that
    /// region gets the profile in which it and they together were fastest.
    fn merge(&mut self, findings: &mut Vec<Finding>) {
        let Some(together) = self.units().into_iter().next() else {
            return;
        };
        let leader = together[0];
        if self.options.model.tree.is_none() {
            self.race_together(&together, findings);
        }
        let Some((configuration, ..)) = self.regions[&leader].wanted.clone() else {
            return;
        };
        for id in together.into_iter().skip(1) {
            let Some(region) = self.regions.get_mut(&id) else {
                continue;
            };
            let differs = region
                .wanted
                .as_ref()
                .is_none_or(|(wanted, ..)| *wanted != configuration);
            if differs {
                let why = format!(
                    "an execution takes {:.3e} s, which is too short for a change of configuration, so it runs as region {leader}",
                    region.baseline.seconds()
                );
                findings.push(note(format!("Region {id}: {why}.")));
                region.wanted = Some((configuration.clone(), RegionCode::Merged, why));
            }
        }
    }

    /// The regions that have one configuration together, those that take most of the time first. First come the region that
    /// the short ones follow and these; every other one is alone.
    fn units(&self) -> Vec<Vec<RegionId>> {
        let is_short = |id: &RegionId| self.regions[id].baseline.seconds() < SHORTEST;
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

    /// The profile in which these regions took the least time together, and this time, in seconds: for as many executions as
    /// in the baseline.
    pub(super) fn fastest_together(&self, unit: &[RegionId]) -> Option<(usize, f64)> {
        least((0..self.profiles.len()).map(|number| {
            self.together(unit, |id| {
                Some(self.regions[&id].profiled.get(number)?.as_ref()?.seconds())
            })
        }))
    }

    /// The time of these regions for as many executions as in the baseline, in seconds, where one execution takes `seconds`;
    /// `None` where one was not measured.
    fn together(&self, unit: &[RegionId], seconds: impl Fn(RegionId) -> Option<f64>) -> Option<f64> {
        let executions = |id| self.regions[&id].baseline.profile.executions;
        unit.iter().map(|&id| Some(seconds(id)? * executions(id))).sum()
    }

    /// Whether all regions are much slower now than in their fastest profile.
    pub(super) fn is_beaten(&self, timing: &Timing) -> bool {
        self.units().iter().all(|unit| {
            let now = self.together(unit, |id| {
                let now = timing.profile(id).filter(|_| timing.readings(id) >= FEW_READINGS)?;
                Some(now.seconds / now.executions)
            });
            let fastest = self.fastest_together(unit);
            now.zip(fastest)
                .is_some_and(|(now, (_, fastest))| now > BEATEN * fastest)
        })
    }

    /// What a race tries next: a neighbour of the fastest profile that was not tried. Regions that take most of the time come
    /// first, and the others see each configuration, too.
    pub(super) fn untried_neighbour(&self, topology: &Topology) -> Option<ModelConfiguration> {
        let model = &self.options.model;
        if model.tree.is_some() || self.profiles.len() >= model.profiles.len() + MOST_NEIGHBOURS {
            return None;
        }
        let known = model.profiles.iter().chain([&model.baseline]);
        let mut sizes = sizes(topology, known.map(|one| (one.threads, one.nodes)));
        sizes.retain(|&(threads, _)| threads <= self.working_tasks.number());
        // Where prefetchers cannot be set, configurations that differ in them alone are the same.
        let is_new = |one: &ModelConfiguration| {
            let mut tried = self.profiles.iter();
            !tried.any(|known| {
                let prefetch = if self.reach.sets_prefetchers {
                    known.prefetch
                } else {
                    one.prefetch
                };
                ModelConfiguration {
                    prefetch,
                    ..known.clone()
                } == *one
            })
        };
        let may_move_pages = self.moved_pages <= self.now.mul_f64(MOVING);
        self.units().iter().find_map(|unit| {
            let fastest = &self.profiles[self.fastest_together(unit)?.0];
            let mut near = neighbours(fastest, &sizes, topology).into_iter();
            near.find(|one| is_new(one) && (may_move_pages || one.shares_pages_with(fastest)))
        })
    }

    /// The first of these regions gets the profile in which all of them took the least time.
    fn race_together(&mut self, together: &[RegionId], findings: &mut Vec<Finding>) {
        let Some((fastest, _)) = self.fastest_together(together) else {
            return;
        };
        let configuration = self.profiles[fastest].clone();
        let (leader, others) = (together[0], together.len() - 1);
        let Some(region) = self.regions.get_mut(&leader) else {
            return;
        };
        let alone = region.wanted.as_ref().map(|(wanted, ..)| wanted);
        if alone.is_some_and(|alone| *alone != configuration) {
            let why = format!(
                "it is the profile in which this region and {others} that are too short for a change are the fastest together"
            );
            findings.push(note(format!("Region {leader}: {configuration}. Why: {why}.")));
            region.wanted = Some((configuration, RegionCode::FasterProfile, why));
        }
    }
}

/// The position of the least time, and the time; `None` without any.
fn least(times: impl Iterator<Item = Option<f64>>) -> Option<(usize, f64)> {
    let known = times.enumerate().filter_map(|(number, time)| Some((number, time?)));
    known.min_by(|one, other| one.1.total_cmp(&other.1))
}
