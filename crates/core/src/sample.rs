//! An observation at one time. A value that is not available is `None`, never zero.

use crate::function::FunctionSearch;
use crate::{PuId, RegionCounts, RegionSample, TaskId};
use std::time::Duration;

/// One reading of a program. Counts are totals since the task or the program began, so that any two samples give a
/// rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The machine's clock when it was taken, since the start of the run.
    pub at: Duration,
    /// The living tasks, and those that ended since the last sample, in the order of their creation.
    pub tasks: Vec<TaskSample>,
    /// One count per metric of the machine, in the order of `Machine::metrics`; `None` for a metric that each task
    /// counts for itself and for one that could not be read.
    pub program: Vec<Option<Count>>,
    /// The parallel regions that have ended at least once, in the order of their identities; empty where regions are
    /// not told apart.
    pub regions: Vec<RegionSample>,
    /// What the whole machine counted since a point in time before the first sample; `None` if that is not measured.
    pub machine: Option<RegionCounts>,
    /// How far the machine is with the search for a function that shows progress.
    pub function: FunctionSearch,
}

/// The observation of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSample {
    /// Which task.
    pub id: TaskId,
    /// The thread's name (`comm`).
    pub name: String,
    /// Whether it was alive when the sample was taken.
    pub alive: bool,
    /// The processor time that it has used, user and system together.
    pub cpu_time: Option<Duration>,
    /// The time that it was ready to run and waited for a PU.
    pub run_delay: Option<Duration>,
    /// The PU that it last ran on, at most a second ago.
    pub last_pu: Option<PuId>,
    /// One count per metric of the machine, in the order of `Machine::metrics`.
    pub counts: Vec<Option<Count>>,
}

/// A total, with the times that scale it if its counter was multiplexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// What was counted while the counter ran.
    pub value: u64,
    /// How long the counter was enabled: `time_enabled` of `perf_event_open(2)`. If `running` is also zero, the source
    /// does not multiplex and always counts.
    pub enabled: Duration,
    /// How long it counted: `time_running` of `perf_event_open(2)`.
    pub running: Duration,
}

impl Count {
    /// A count from a source that is never multiplexed.
    pub fn exact(value: u64) -> Self {
        Self {
            value,
            enabled: Duration::ZERO,
            running: Duration::ZERO,
        }
    }

    /// Whether the counter ran for a part of its enabled time only, so that `since` estimates.
    pub fn multiplexed(&self) -> bool {
        self.running < self.enabled
    }

    /// The growth from `earlier` to this total, scaled by `enabled / running` over that time, as `perf stat` does.
    /// `None` when the counter was enabled but never ran in between, or when the totals run backwards: a missing
    /// measurement is not zero.
    pub fn since(&self, earlier: &Self) -> Option<f64> {
        let counted = self.value.checked_sub(earlier.value)? as f64;
        let enabled = self.enabled.checked_sub(earlier.enabled)?;
        let running = self.running.checked_sub(earlier.running)?;
        match (enabled.is_zero(), running.is_zero()) {
            (true, _) => Some(counted),
            (false, true) => None,
            (false, false) => Some(counted * (enabled.as_secs_f64() / running.as_secs_f64())),
        }
    }
}

impl Sample {
    /// The task with this id.
    pub fn task(&self, id: TaskId) -> Option<&TaskSample> {
        self.tasks.iter().find(|task| task.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(value: u64, enabled_ms: u64, running_ms: u64) -> Count {
        Count {
            value,
            enabled: Duration::from_millis(enabled_ms),
            running: Duration::from_millis(running_ms),
        }
    }

    #[test]
    fn a_multiplexed_count_is_scaled_over_the_stretch_between_the_samples() {
        let grown = count(300, 200, 150).since(&count(100, 100, 100)).unwrap();
        assert!((grown - 400.0).abs() < 1e-9, "{grown}");
    }

    #[test]
    fn a_counter_that_never_ran_gives_no_measurement() {
        assert_eq!(count(100, 200, 100).since(&count(100, 100, 100)), None);
    }

    #[test]
    fn a_counter_that_ran_and_saw_nothing_gives_zero() {
        assert_eq!(count(100, 200, 200).since(&count(100, 100, 100)), Some(0.0));
        assert_eq!(Count::exact(7).since(&Count::exact(7)), Some(0.0));
    }

    #[test]
    fn totals_that_run_backwards_give_no_measurement() {
        assert_eq!(Count::exact(3).since(&Count::exact(7)), None);
    }
}
