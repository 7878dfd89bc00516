//! What tells who shares with whom: the processor's counters, or an assumption.

use super::config::{Config, MetricName};
use anyhow::{Context, Result, bail};
use pinfold_linux::counters::{Availability, Plan, Request, hardware_counters};
use pinfold_linux::pfm::{self, PmuKind};
use pinfold_policy::sam::{Activity, ActivityEvents, MapperEvents, Observer};
use pinfold_runtime::daemon::{Counted, Rates, Sharing};
use pinfold_sim::EventSet;

/// What is counted, and what is made of it.
pub(super) struct Sources {
    pub(super) plan: Option<Plan>,
    pub(super) rates: Box<dyn Rates>,
}

/// What can be done where nothing is counted.
const REMEDY: &str = "`--metric sharing` does without, and takes threads of a process to share; `--metric event:NAME --threshold N` \
                      weighs that by an event of the kernel, such as context-switches";

impl Sources {
    /// What the configuration wants.
    pub(super) fn of(config: &Config) -> Result<Self> {
        match &config.metric {
            MetricName::Counters => match hardware_counters() {
                Availability::Available => Self::of_counters(),
                Availability::Absent { why } | Availability::Forbidden { why } => {
                    bail!("there are no counters to tell who shares data with whom: {why}. {REMEDY}")
                }
            },
            MetricName::Sharing => Ok(Self {
                plan: None,
                rates: Box::new(Sharing::default()),
            }),
            MetricName::Event(name) => Ok(Self {
                plan: Some(Plan::new(&[Request::Event(name.clone())])?),
                rates: Box::new(Sharing { event: Some(0) }),
            }),
        }
    }

    /// The event set of this processor.
    fn of_counters() -> Result<Self> {
        let pmus = pfm::library()?.pmus();
        let present = || pmus.iter().filter(|pmu| pmu.present && pmu.kind == PmuKind::Core);
        let set = present().find_map(|pmu| EventSet::of_pmu(&pmu.name));
        let Some((set, events)) = set.and_then(|set| Some((set.clone(), mapper_events(&set)?))) else {
            let names: Vec<&str> = present().map(|pmu| pmu.description.as_str()).collect();
            bail!(
                "nobody has said which events of this processor ({}) tell who shares data with whom. {REMEDY}",
                names.join(", ")
            )
        };
        // What is counted at the same time stands together, and what has counters of its own first: a plan fills groups in
        // the order of the requests.
        let mut names: Vec<&str> = events.all();
        let groups = set.groups();
        let group_of = |name: &str| groups.iter().position(|group| group.contains(&name));
        names.sort_by_key(|name| group_of(name).map_or(0, |group| group + 1));
        let requests: Vec<Request> = names.iter().map(|&name| Request::Event(name.to_owned())).collect();
        let plan = Plan::new(&requests)?;
        let observer = Observer::new(&events, plan.metrics()).context("the event set")?;
        Ok(Self {
            plan: Some(plan),
            rates: Box::new(Counted { observer }),
        })
    }
}

/// The events of a set from which the mapper's rates are made; `None` where the set does not say.
fn mapper_events(set: &EventSet) -> Option<MapperEvents> {
    let one = |name: &str| set.metric(name).and_then(|metric| metric.add.first().cloned());
    let activities = Activity::ALL.into_iter().filter_map(|activity| {
        let metric = set.metric(activity.name())?;
        Some(ActivityEvents {
            activity,
            add: metric.add.clone(),
            subtract: metric.subtract.clone(),
        })
    });
    Some(MapperEvents {
        cycles: one("cycles")?,
        instructions: one("instructions"),
        activities: activities.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_processor_has_all_four_activities() {
        let set = EventSet::of_pmu("ivb_ep").unwrap();
        let events = mapper_events(&set).unwrap();
        assert_eq!(events.activities.len(), Activity::ALL.len());
        assert!(events.all().contains(&events.cycles.as_str()));
    }

    #[test]
    fn a_set_without_metrics_says_nothing() {
        let set = EventSet::all().into_iter().find(|set| set.metrics.is_empty()).unwrap();
        assert!(mapper_events(&set).is_none());
    }
}
