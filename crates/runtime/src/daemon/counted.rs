//! Rates from the processor's counters.

use super::Rates;
use pinfold_core::{HostSample, LeftAlone, Metric, PuId, PuSet, TaskId, TaskStatus, Topology};
use pinfold_policy::sam::{Observer, TaskRates};
use std::collections::HashMap;
use std::sync::Arc;

/// The rates of tasks by the counters of an event set.
#[derive(Clone, Debug)]
pub struct Counted {
    /// How counts become rates.
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
                .map_or_else(Arc::default, |&(pu, status)| allowed_pus(pu, status))
        })
    }
}

/// The PUs that a task may be moved to. A task that is left alone has only its current PU.
pub(super) fn allowed_pus(pu: Option<PuId>, status: &TaskStatus) -> Arc<PuSet> {
    match (status.left_alone, pu) {
        (Some(LeftAlone::OwnMask | LeftAlone::Forbidden | LeftAlone::OnePu | LeftAlone::RealTime), Some(pu)) => {
            Arc::new([pu].into_iter().collect())
        }
        _ => Arc::clone(&status.allowed),
    }
}
