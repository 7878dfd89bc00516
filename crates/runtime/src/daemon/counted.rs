//! Rates from the processor's counters.

use super::Rates;
use pinfold_core::{HostSample, LeftAlone, Metric, PuId, PuSet, Standing, TaskId, Topology};
use pinfold_policy::sam::{Observer, TaskRates};
use std::collections::HashMap;
use std::sync::Arc;

/// What the counters of an event set tell of the tasks.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Which counts make which rates.
    pub observer: Observer,
}

impl Rates for Counted {
    fn rates(&mut self, _: &Topology, _: &[Metric], before: &HostSample, now: &HostSample) -> Vec<TaskRates> {
        let tasks = now.sample.tasks.iter().zip(&now.standings);
        let places: HashMap<TaskId, (Option<PuId>, &Standing)> = tasks
            .map(|(task, standing)| (task.id, (task.last_pu, standing)))
            .collect();
        self.observer.rates(&before.sample, &now.sample, |id| {
            places
                .get(&id)
                .map_or_else(Arc::default, |&(pu, standing)| may_be(pu, standing))
        })
    }
}

/// Where a task may be moved to: where it is, where it is to be left alone.
pub(super) fn may_be(pu: Option<PuId>, standing: &Standing) -> Arc<PuSet> {
    match (standing.left_alone, pu) {
        (Some(LeftAlone::OwnMask | LeftAlone::Forbidden | LeftAlone::OnePu | LeftAlone::RealTime), Some(pu)) => {
            Arc::new([pu].into_iter().collect())
        }
        _ => Arc::clone(&standing.allowed),
    }
}
