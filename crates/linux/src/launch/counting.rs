//! The counts of the program: the counters of each task, and the program's own reports.
//!
//! If a counter cannot be opened, its value is missing, and a note reports that. The run never ends for it.

use crate::channel::Channel;
use crate::counters::{Plan, TaskCounters};
use pinfold_core::{Count, Metric, TaskId};
use std::collections::HashMap;

/// The sources of counts, and the open counters.
pub(crate) struct Counting {
    plan: Option<Plan>,
    channel: Option<Channel>,
    metrics: Vec<Metric>,
    open: HashMap<u64, TaskCounters>,
    /// Whether a failure to open a task's counters was already reported.
    noted: bool,
}

/// The number of the channel's metrics. They precede the plan's metrics.
fn of_channel(channel: Option<&Channel>) -> usize {
    channel.map_or(0, |_| Channel::metrics().len())
}

impl Counting {
    pub(crate) fn new(plan: Option<Plan>, channel: Option<Channel>) -> Self {
        let reported = channel.iter().flat_map(|_| Channel::metrics());
        let counted = plan.iter().flat_map(|plan| plan.metrics().iter().cloned());
        Self {
            metrics: reported.chain(counted).collect(),
            plan,
            channel,
            open: HashMap::new(),
            noted: false,
        }
    }

    /// The metrics, the program's own reports first.
    pub(crate) fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// Opens the counters of a task. The first failure is reported.
    pub(crate) fn open(&mut self, task: TaskId) -> Option<String> {
        match self.plan.as_ref()?.open(task.thread) {
            Ok(counters) => {
                self.open.insert(task.serial, counters);
                None
            }
            Err(error) => (!std::mem::replace(&mut self.noted, true))
                .then(|| format!("{task} is not counted, and others may not be either: {error}")),
        }
    }

    /// Closes the counters of a task.
    pub(crate) fn close(&mut self, task: TaskId) {
        self.open.remove(&task.serial);
    }

    /// The counts of a task, one per metric.
    pub(crate) fn task(&mut self, task: TaskId) -> Vec<Option<Count>> {
        let mut counts = vec![None; of_channel(self.channel.as_ref())];
        match self.open.get_mut(&task.serial) {
            Some(counters) => counts.extend(counters.read()),
            None => counts.resize(self.metrics.len(), None),
        }
        counts
    }

    /// The counts of the program, one per metric.
    pub(crate) fn program(&self) -> Vec<Option<Count>> {
        let mut counts = vec![];
        if let Some(channel) = &self.channel {
            counts.extend(channel.totals().counts().map(|total| total.map(Count::exact)));
        }
        counts.resize(self.metrics.len(), None);
        counts
    }
}
