//! Conflicts: regions want their pages at different places. Each region is timed with the pages of each (section 6.2 of
//! react's paper).

use super::forecasting::{AllWanted, Wanted};
use super::note;
use super::profiles::Profiles;
use super::verification::{Choice, Choices};
use crate::react::model::ModelConfiguration;
use crate::react::plan::Plan;
use crate::react::timing::{Measured, Timing};
use pinfold_core::{Finding, RegionCode, RegionId, Topology};
use std::collections::BTreeMap;

/// The times of the regions with the pages at one place.
#[derive(Debug)]
struct Pages {
    /// The configuration that wants the pages here.
    configuration: ModelConfiguration,
    /// Times of regions in their own configuration, and in this one.
    own: BTreeMap<RegionId, Measured>,
    shared: BTreeMap<RegionId, Measured>,
}

impl Pages {
    /// The faster one of a region's times, and whether that is in the shared configuration.
    fn better(&self, id: RegionId) -> Option<(&Measured, bool)> {
        match (self.own.get(&id), self.shared.get(&id)) {
            (Some(own), Some(shared)) if shared.seconds() < own.seconds() => Some((shared, true)),
            (Some(own), _) => Some((own, false)),
            (None, Some(shared)) => Some((shared, true)),
            (None, None) => None,
        }
    }
}

/// The configurations of the regions, and the places of their pages.
#[derive(Debug, Default)]
pub(super) struct CrossEvaluation {
    wanted: AllWanted,
    places: Vec<Pages>,
}

impl CrossEvaluation {
    /// Regions want these configurations. Those that take most of the time come first.
    pub(super) fn new(wanted: AllWanted, profiles: &Profiles) -> Self {
        let mut places: Vec<Pages> = vec![];
        for id in profiles.ordered() {
            let Some(Wanted { configuration, .. }) = wanted.get(&id) else {
                continue;
            };
            let mut known = places.iter();
            if !known.any(|place| place.configuration.shares_pages_with(configuration)) {
                places.push(Pages {
                    configuration: configuration.clone(),
                    own: BTreeMap::new(),
                    shared: BTreeMap::new(),
                });
            }
        }
        Self { wanted, places }
    }

    /// The number of places. Several are a conflict.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    /// The conflict in words.
    pub(super) fn conflict(&self, topology: &Topology) -> Finding {
        let place = |place: &Pages| {
            let configuration = &place.configuration;
            format!("{} ({} threads)", configuration.pages(topology), configuration.threads)
        };
        let wanted: Vec<String> = self.places.iter().map(place).collect();
        note(format!(
            "The regions want their pages at different places: {}. Pages cannot move at every border, so each region is timed \
             with the pages of each.",
            wanted.join(", ")
        ))
    }

    /// Pages are at one of the places, and each region has its own configuration.
    pub(super) fn own(&self, place: usize, profiles: &Profiles) -> Plan {
        let own = |id: RegionId| Some(self.wanted.get(&id)?.configuration.clone());
        Plan {
            base: Some(self.places[place].configuration.clone()),
            regions: profiles.ids().map(|id| (id, own(id))).collect(),
        }
    }

    /// Pages are at one of the places, and all regions have the configuration that wants them there.
    pub(super) fn shared(&self, place: usize, profiles: &Profiles) -> Plan {
        Plan::uniform(profiles.ids(), &self.places[place].configuration)
    }

    /// Takes the times of regions in their own configurations.
    pub(super) fn record_own(&mut self, place: usize, timing: &Timing) {
        self.places[place].own = timing.all_measured();
    }

    /// Takes the times of regions in the shared configuration.
    pub(super) fn record_shared(&mut self, place: usize, timing: &Timing) {
        self.places[place].shared = timing.all_measured();
    }

    /// The reasons for the configurations that regions want.
    pub(super) fn reasons(&self) -> Choices {
        let choice = |wanted: &Wanted| Choice::new(wanted.code, wanted.why.clone());
        self.wanted.iter().map(|(&id, wanted)| (id, choice(wanted))).collect()
    }

    /// Chooses the places with the least time of all regions, and for each region the faster configuration there.
    pub(super) fn choose(&self, profiles: &Profiles, findings: &mut Vec<Finding>) -> (Plan, Choices) {
        let time = |place: &Pages| -> f64 {
            let times = profiles.ids().map(|id| {
                let baseline = profiles.baseline(id);
                let best = place.better(id);
                baseline.profile.executions * best.map_or(baseline.seconds(), |(best, _)| best.seconds())
            });
            times.sum()
        };
        let before: f64 = profiles.ids().map(|id| profiles.baseline(id).profile.seconds).sum();
        let times: Vec<f64> = self.places.iter().map(time).collect();
        let best = (0..times.len())
            .min_by(|&one, &other| times[one].total_cmp(&times[other]))
            .unwrap_or(0);
        let best = &self.places[best];
        let shown: Vec<String> = self
            .places
            .iter()
            .zip(&times)
            .map(|(place, time)| format!("{:.3} with the pages of {}", time / before, place.configuration))
            .collect();
        findings.push(note(format!(
            "With each region in the better configuration, all of them take these times of the unpinned ones: {}. The pages of \
             the least stay.",
            shown.join("; ")
        )));
        let kept = &best.configuration;
        let (mut regions, mut choices) = (BTreeMap::new(), Choices::new());
        for id in profiles.ids() {
            let is_shared = best.better(id).is_none_or(|(_, is_shared)| is_shared);
            let (configuration, choice) = match self.wanted.get(&id) {
                Some(wanted) if !is_shared || wanted.configuration == *kept => {
                    let choice = Choice::new(wanted.code, wanted.why.clone());
                    (&wanted.configuration, choice)
                }
                _ => {
                    let why = format!("with the pages that stay it is faster in {kept} than in its own");
                    (kept, Choice::new(RegionCode::Shared, why))
                }
            };
            regions.insert(id, Some(configuration.clone()));
            choices.insert(id, choice);
        }
        let base = Some(kept.clone());
        (Plan { base, regions }, choices)
    }
}
