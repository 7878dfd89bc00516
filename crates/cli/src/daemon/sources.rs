//! The source of the rates of sharing between threads: the processor's counters, events of the kernel, or an
//! assumption.

use super::config::{Config, MetricName};
use crate::activities;
use anyhow::{Context, Result};
use pinfold_linux::counters::{Plan, Request};
use pinfold_linux::watch::Counts;
use pinfold_policy::sam::{MapperEvents, Observer};
use pinfold_runtime::daemon::{CounterRates, Rates, Sharing, Wakeups};

/// What is counted, and the rates that follow from it.
pub(super) struct Sources {
    pub(super) counts: Counts,
    pub(super) rates: Box<dyn Rates>,
}

impl Sources {
    /// The source that the configuration names.
    pub(super) fn of(config: &Config) -> Result<Self> {
        match &config.metric {
            MetricName::Counters => Self::counted(
                activities::here()
                    .context("`--metric sharing` does without counters, and takes threads of a process to share")?,
            ),
            MetricName::Activities(text) => Self::counted(activities::named(text)?),
            MetricName::Sharing(None) => Ok(Self {
                counts: without_counters(config, None),
                rates: Box::new(Sharing::equal()),
            }),
            MetricName::Wakeups => Ok(Self {
                counts: without_counters(config, None),
                rates: Box::new(Wakeups::default()),
            }),
            MetricName::Sharing(Some(event)) => Ok(Self {
                counts: without_counters(config, Some(Plan::new(&[Request::Event(event.clone())])?)),
                rates: Box::new(Sharing::weighed_by(0)),
            }),
        }
    }

    fn counted((events, requests): (MapperEvents, Vec<Request>)) -> Result<Self> {
        let plan = Plan::new(&requests)?;
        let observer = Observer::new(&events, plan.metrics())?;
        Ok(Self {
            counts: Counts {
                plan: Some(plan),
                ..Counts::default()
            },
            rates: Box::new(CounterRates { observer }),
        })
    }
}

/// What shows the progress of processes without a counter.
fn without_counters(config: &Config, plan: Option<Plan>) -> Counts {
    Counts {
        plan,
        io: true,
        functions: config.finds_functions(),
    }
}
