//! What `react` wants of each region: the forecast of the model, or the faster profile.

use super::{React, note};
use crate::react::model::ModelConfiguration;
use crate::react::timing::Measured;
use pinfold_core::{Finding, RegionCode, Sample, Topology};

/// A region whose executions are shorter does not change its configuration: a change costs up to 10 us (`make bench`), and
/// in ten times that it can gain little more.
const SHORTEST: f64 = 100e-6;

impl React {
    /// Both profiles are there.
    pub(super) fn forecast(&mut self, topology: &Topology, sample: &Sample, findings: &mut Vec<Finding>) {
        for id in self.ordered() {
            let model = &self.options.model;
            let Some(region) = self.regions.get_mut(&id) else {
                continue;
            };
            let wanted = match model.forecast(&region.profiles) {
                Ok((number, why)) => {
                    let configuration = model.configurations[number].clone();
                    let why = match why.as_str() {
                        "" => "the model has this configuration for every region".to_owned(),
                        why => format!("{why}, for which the model has {configuration}"),
                    };
                    Some((configuration, RegionCode::Forecast, why))
                }
                Err(counter) => faster(&model.profiles, &region.profiled).map(|number| {
                    let configuration = model.profiles[number].clone();
                    let why = format!("{counter} is not counted here, and {configuration} is the faster profile");
                    (configuration, RegionCode::FasterProfile, why)
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

    /// Regions that are too short for a change get the configuration of the one that takes most of the time.
    fn merge(&mut self, findings: &mut Vec<Finding>) {
        let order = self.ordered();
        let long = order.iter().find(|id| self.regions[id].baseline.seconds() >= SHORTEST);
        let Some(leader) = long.or(order.first()).copied() else {
            return;
        };
        let Some((configuration, ..)) = self.regions[&leader].wanted.clone() else {
            return;
        };
        for id in order.into_iter().filter(|&id| id != leader) {
            let Some(region) = self.regions.get_mut(&id) else {
                continue;
            };
            let short = region.baseline.seconds() < SHORTEST;
            let differs = region
                .wanted
                .as_ref()
                .is_none_or(|(wanted, ..)| *wanted != configuration);
            if short && differs {
                let why = format!(
                    "an execution takes {:.3e} s, which is too short for a change of configuration, so it runs as region {leader}",
                    region.baseline.seconds()
                );
                findings.push(note(format!("Region {id}: {why}.")));
                region.wanted = Some((configuration.clone(), RegionCode::Merged, why));
            }
        }
    }
}

/// The position of the profile in which the region was faster; `None` without any.
fn faster(profiles: &[ModelConfiguration], profiled: &[Option<Measured>]) -> Option<usize> {
    let measured = (0..profiles.len()).filter_map(|number| Some((number, profiled[number].as_ref()?.seconds())));
    measured
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(number, _)| number)
}
