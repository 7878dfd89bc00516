//! What a scheduler in the kernel counts that pinfold has loaded.

use std::collections::BTreeMap;
use std::time::Duration;

/// By the threads that woke and were woken: how often.
pub type WakeCounts = BTreeMap<(i32, i32), u64>;

/// The counts of all tasks, as totals since the scheduler started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scheduled {
    /// When they were read, in the time of `Host::now`.
    pub at: Duration,
    /// By thread: where its time went. A thread that never preferred a domain and does not work may be missing.
    pub times: BTreeMap<i32, TaskTimes>,
    /// Who woke whom. Pairs of which little was seen may be missing.
    pub wakeups: WakeCounts,
    /// How often a CPU took a task from the queue of another domain, because the task had waited for too long.
    pub taken_elsewhere: u64,
    /// How often a task waited for more than 10 ms while a CPU that it may run on was idle for more than that.
    pub waited_beside_idle: u64,
}

/// Where the time of a task went since the scheduler started, or since the task began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTimes {
    /// How long it ran.
    pub ran: Duration,
    /// How long it ran while it preferred some domains.
    pub preferring: Duration,
    /// How long it ran in a domain that it preferred then.
    pub preferred: Duration,
    /// How long it waited for a CPU.
    pub waited: Duration,
    /// The longest time that it waited.
    pub longest_wait: Duration,
    /// How often it changed its domain.
    pub migrations: u64,
}

impl TaskTimes {
    /// What was added since `before`. Totals that are smaller than before belong to a new thread with the same number.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        if self.ran < before.ran || self.preferring < before.preferring {
            return *self;
        }
        Self {
            ran: self.ran.saturating_sub(before.ran),
            preferring: self.preferring.saturating_sub(before.preferring),
            preferred: self.preferred.saturating_sub(before.preferred),
            waited: self.waited.saturating_sub(before.waited),
            longest_wait: self.longest_wait,
            migrations: self.migrations.saturating_sub(before.migrations),
        }
    }

    /// The share of its run time that was in a domain that it preferred; `None` if it preferred none.
    pub fn preferred_share(&self) -> Option<f64> {
        let share = self.preferred.as_secs_f64() / self.preferring.as_secs_f64();
        (!self.preferring.is_zero()).then_some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(preferring: u64, preferred: u64) -> TaskTimes {
        TaskTimes {
            ran: Duration::from_millis(preferring + 10),
            preferring: Duration::from_millis(preferring),
            preferred: Duration::from_millis(preferred),
            ..TaskTimes::default()
        }
    }

    #[test]
    fn the_share_is_of_the_time_with_a_preference() {
        assert_eq!(times(0, 0).preferred_share(), None);
        assert_eq!(times(500, 375).preferred_share(), Some(0.75));
        assert_eq!(times(1500, 875).since(&times(500, 375)).preferred_share(), Some(0.5));
    }

    #[test]
    fn a_thread_whose_number_was_used_again_begins_anew() {
        assert_eq!(times(5, 5).since(&times(40, 30)), times(5, 5));
    }
}
