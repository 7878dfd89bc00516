//! The configuration that each region would get alone: the forecast of the model, or the fastest profile.

use super::note;
use super::profiles::Profiles;
use crate::react::model::{ModelConfiguration, ReactModel};
use pinfold_core::{Finding, RegionCode, RegionId};
use std::collections::BTreeMap;

/// The configuration of a region, and the reason for it.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) configuration: ModelConfiguration,
    pub(super) code: RegionCode,
    pub(super) why: String,
}

/// By region: its configuration. A region that was not profiled in time has none.
pub(super) type AllWanted = BTreeMap<RegionId, Wanted>;

/// Forecasts a configuration for each region from its profiles. Without a `model` it is the fastest profile.
pub(super) fn forecast(profiles: &Profiles, model: Option<&ReactModel>, findings: &mut Vec<Finding>) -> AllWanted {
    let mut all = AllWanted::new();
    for id in profiles.ordered() {
        let fastest = profiles.fastest(id).map(|number| &profiles.configurations()[number]);
        let faster_profile = |configuration: &ModelConfiguration, why| Wanted {
            configuration: configuration.clone(),
            code: RegionCode::FasterProfile,
            why,
        };
        let wanted = match model.map(|model| (model, model.forecast(&profiles.counted(id)))) {
            Some((model, Ok((number, why)))) => {
                let configuration = model.configurations[number].clone();
                let why = match why.as_str() {
                    "" => "the model has this configuration for every region".to_owned(),
                    why => format!("{why}, for which the model has {configuration}"),
                };
                Some(Wanted {
                    configuration,
                    code: RegionCode::Forecast,
                    why,
                })
            }
            Some((_, Err(counter))) => fastest.map(|fastest| {
                let why = format!("{counter} is not counted here, and {fastest} is the fastest profile");
                faster_profile(fastest, why)
            }),
            None => fastest.map(|fastest| {
                let number = profiles.configurations().len();
                faster_profile(fastest, format!("it is the fastest of the {number} profiles"))
            }),
        };
        if let Some(wanted) = wanted {
            let Wanted { configuration, why, .. } = &wanted;
            findings.push(note(format!("Region {id}: {configuration}. Why: {why}.")));
            all.insert(id, wanted);
        }
    }
    if let Some(unit) = profiles.units().first() {
        if model.is_none() {
            choose_together(profiles, unit, &mut all, findings);
        }
        merge(profiles, unit, &mut all, findings);
    }
    all
}

/// Gives the first region of the unit the fastest profile of all its regions together.
fn choose_together(profiles: &Profiles, unit: &[RegionId], all: &mut AllWanted, findings: &mut Vec<Finding>) {
    let Some((fastest, _)) = profiles.fastest_together(unit) else {
        return;
    };
    let configuration = &profiles.configurations()[fastest];
    let (leader, others) = (unit[0], unit.len() - 1);
    if let Some(wanted) = all.get_mut(&leader)
        && wanted.configuration != *configuration
    {
        let why = format!(
            "it is the profile in which this region and {others} that are too short for a change are the fastest together"
        );
        findings.push(note(format!("Region {leader}: {configuration}. Why: {why}.")));
        *wanted = Wanted {
            configuration: configuration.clone(),
            code: RegionCode::FasterProfile,
            why,
        };
    }
}

/// Gives the other regions of the unit, which are too short for a change, the configuration of its first.
fn merge(profiles: &Profiles, unit: &[RegionId], all: &mut AllWanted, findings: &mut Vec<Finding>) {
    let leader = unit[0];
    let Some(Wanted { configuration, .. }) = all.get(&leader).cloned() else {
        return;
    };
    for &id in &unit[1..] {
        if all.get(&id).is_some_and(|wanted| wanted.configuration == configuration) {
            continue;
        }
        let why = format!(
            "an execution takes {:.3e} s, which is too short for a change of configuration, so it runs as region {leader}",
            profiles.baseline(id).seconds()
        );
        findings.push(note(format!("Region {id}: {why}.")));
        let wanted = Wanted {
            configuration: configuration.clone(),
            code: RegionCode::Merged,
            why,
        };
        all.insert(id, wanted);
    }
}
