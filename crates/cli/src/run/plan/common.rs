//! The options that all policies take: times, the metric, schedules and skipped threads.

use super::super::policies::Common;
use super::super::{Arguments, schedule};
use anyhow::{Context, Result};
use pinfold_core::Topology;
use pinfold_policy::{Candidates, MetricRequest, Skip, Times};
use std::env;
use std::time::Duration;

/// The options that all policies have in common, checked.
pub(super) fn common(
    arguments: &Arguments,
    topology: &Topology,
    metric: MetricRequest,
    initialise: Option<Duration>,
) -> Result<Common> {
    let mut times = Times::new(Some(arguments.times.probe), arguments.times.warm_up, initialise);
    times.interval = arguments.times.interval.min(arguments.times.probe);
    times.check()?;
    let schedules = if !arguments.search.schedule.is_empty() {
        schedule::from_lists(&arguments.search.schedule, topology, arguments.search.threads)?
    } else if let Some(value) = env::var_os("SCHEDULE").filter(|value| !value.is_empty()) {
        schedule::from_variable(&value.to_string_lossy(), topology)?
    } else {
        vec![]
    };
    if !schedules.is_empty() {
        Candidates::Schedule(schedules.clone()).check(topology)?;
    }
    let skip = arguments.limits.skip.as_deref().map(str::parse::<Skip>);
    Ok(Common {
        times,
        metric,
        skip: skip.transpose().context("--skip")?.unwrap_or_default(),
        threads: arguments.search.threads,
        schedules,
    })
}
