//! Rates from the processor's counters.

use super::Rates;
use pinfold_core::{HostSample, LeftAlone, Metric, PuId, PuSet, TaskId, TaskStatus, Topology};
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
        let tasks = now.sample.tasks.iter().zip(&now.statuses);
        let places: HashMap<TaskId, (Option<PuId>, &TaskStatus)> =
            tasks.map(|(task, status)| (task.id, (task.last_pu, status))).collect();
        self.observer.rates(&before.sample, &now.sample, |id| {
            places
                .get(&id)
                .map_or_else(Arc::default, |&(pu, status)| may_be(pu, status))
        })
    }
}

/// Where a task may be moved to: where it is, where it is to be left alone.
pub(super) fn may_be(pu: Option<PuId>, status: &TaskStatus) -> Arc<PuSet> {
    match (status.left_alone, pu) {
        (Some(LeftAlone::OwnMask | LeftAlone::Forbidden | LeftAlone::OnePu | LeftAlone::RealTime), Some(pu)) => {
            Arc::new([pu].into_iter().collect())
        }
        _ => Arc::clone(&status.allowed),
    }
}
