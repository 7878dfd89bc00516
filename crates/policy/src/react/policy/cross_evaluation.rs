//! Where the regions want their pages at different places: each is timed with the pages of each (section 6.2 of the paper).

use super::{React, Step, note};
use crate::react::plan::Plan;
use crate::react::timing::Measured;
use pinfold_core::{Finding, RegionCode, Sample};
use std::collections::BTreeMap;

impl React {
    /// Pages go to one of the places, and regions to their own configurations.
    pub(super) fn try_own(&mut self, place: usize, sample: &Sample) {
        self.plan = Plan {
            base: Some(self.places[place].clone()),
            regions: self
                .regions
                .iter()
                .map(|(&id, region)| {
                    (
                        id,
                        region.wanted.as_ref().map(|(configuration, ..)| configuration.clone()),
                    )
                })
                .collect(),
        };
        self.change(Step::Own(place), sample);
    }

    /// The pages stay, and all regions go to the configuration that wants them there.
    pub(super) fn try_shared(&mut self, place: usize, sample: &Sample) {
        self.plan = Plan::of_all(self.regions.keys().copied(), &self.places[place]);
        self.change(Step::Shared(place), sample);
    }

    /// Every conflicting place has been tried: the best for the whole program stays.
    pub(super) fn choose_places(&mut self, sample: &Sample, findings: &mut Vec<Finding>) {
        let time = |place: usize| -> f64 {
            let regions = self.regions.values();
            regions
                .map(|region| {
                    let best = better(region.own[place].as_ref(), region.shared[place].as_ref());
                    region.baseline.profile.executions
                        * best.map_or(region.baseline.seconds(), |(best, _)| best.seconds())
                })
                .sum()
        };
        let before: f64 = self
            .regions
            .values()
            .map(|region| region.baseline.profile.seconds)
            .sum();
        let times: Vec<f64> = (0..self.places.len()).map(time).collect();
        let best = (0..times.len())
            .min_by(|&one, &other| times[one].total_cmp(&times[other]))
            .unwrap_or(0);
        let kept = self.places[best].clone();
        let shown: Vec<String> = self
            .places
            .iter()
            .zip(&times)
            .map(|(place, time)| format!("{:.3} with the pages of {place}", time / before))
            .collect();
        findings.push(note(format!(
            "With each region in the better configuration, all of them take these times of the unpinned ones: {}. The pages of \
             the least stay.",
            shown.join("; ")
        )));
        let mut plan = Plan {
            base: Some(kept.clone()),
            regions: BTreeMap::new(),
        };
        for (&id, region) in &mut self.regions {
            let wanted = region.wanted.clone();
            let shared =
                better(region.own[best].as_ref(), region.shared[best].as_ref()).is_none_or(|(_, shared)| shared);
            let configuration = match wanted {
                Some((configuration, code, why)) if !shared || configuration == kept => {
                    region.choice = (code, why);
                    configuration
                }
                _ => {
                    let why = format!("with the pages that stay it is faster in {kept} than in its own");
                    region.choice = (RegionCode::Shared, why);
                    kept.clone()
                }
            };
            plan.regions.insert(id, Some(configuration));
        }
        self.plan = plan;
        self.change(Step::Result { again: false }, sample);
    }
}

/// The faster of what was measured, and whether that is the second.
fn better<'a>(own: Option<&'a Measured>, shared: Option<&'a Measured>) -> Option<(&'a Measured, bool)> {
    match (own, shared) {
        (Some(own), Some(shared)) if shared.seconds() < own.seconds() => Some((shared, true)),
        (Some(own), _) => Some((own, false)),
        (None, Some(shared)) => Some((shared, true)),
        (None, None) => None,
    }
}
