//! What a scheduler in the kernel did with the tasks that the daemon has placed, for the state.

use super::pair_rates::PairRates;
use super::state::{ScheduledTask, SchedulerState, WakingPair};
use pinfold_core::{Scheduled, TaskTimes, WakeCounts};
use std::collections::BTreeMap;

/// The most pairs in a state, those that wake each other most often.
const MOST_PAIRS: usize = 100;

/// Pairs with fewer wake-ups in a second are not in a state.
const LEAST_SHOWN: f64 = 1.0;

/// The counts of the scheduler so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Scheduling {
    last: Option<Scheduled>,
    /// By thread: what was added between the last two readings.
    added: BTreeMap<i32, TaskTimes>,
    /// Of all tasks that were placed, with those that have ended.
    total: TaskTimes,
    pairs: PairRates,
}

impl Scheduling {
    /// Takes a new reading.
    pub(super) fn read(&mut self, now: &Scheduled) {
        self.pairs.read(now);
        let earlier = self.last.take().unwrap_or_default();
        let added = now.times.iter().map(|(thread, times)| {
            let before = earlier.times.get(thread).copied().unwrap_or_default();
            (*thread, times.since(&before))
        });
        self.added = added.collect();
        for (thread, added) in &self.added {
            let times = &now.times[thread];
            if times.preferring.is_zero() {
                continue;
            }
            self.total.ran += added.ran;
            self.total.preferring += added.preferring;
            self.total.preferred += added.preferred;
            self.total.waited += added.waited;
            self.total.longest_wait = self.total.longest_wait.max(times.longest_wait);
            self.total.migrations += added.migrations;
        }
        self.last = Some(Scheduled {
            times: now.times.clone(),
            // `pairs` keeps them.
            wakeups: WakeCounts::new(),
            ..*now
        });
    }

    /// Where the time of a thread went; `None` if that is not known.
    pub(super) fn task(&self, thread: i32) -> Option<ScheduledTask> {
        let times = self.last.as_ref()?.times.get(&thread)?;
        Some(ScheduledTask {
            preferred_share: self.added.get(&thread).and_then(TaskTimes::preferred_share),
            ran: times.ran.as_secs_f64(),
            preferring: times.preferring.as_secs_f64(),
            preferred: times.preferred.as_secs_f64(),
            waited: times.waited.as_secs_f64(),
            longest_wait: times.longest_wait.as_secs_f64(),
            migrations: times.migrations,
        })
    }

    /// What the scheduler did; `None` without a reading.
    pub(super) fn state(&self) -> Option<SchedulerState> {
        let last = self.last.as_ref()?;
        let rates = self.pairs.rates().iter().filter(|(_, rate)| **rate >= LEAST_SHOWN);
        let mut pairs: Vec<WakingPair> = rates
            .map(|(&threads, &per_second)| WakingPair { threads, per_second })
            .collect();
        pairs.sort_by(|one, other| other.per_second.total_cmp(&one.per_second));
        let of = pairs.len();
        pairs.truncate(MOST_PAIRS);
        Some(SchedulerState {
            taken_elsewhere: last.taken_elsewhere,
            waited_beside_idle: last.waited_beside_idle,
            preferring_seconds: self.total.preferring.as_secs_f64(),
            preferred_seconds: self.total.preferred.as_secs_f64(),
            waited_seconds: self.total.waited.as_secs_f64(),
            longest_wait: self.total.longest_wait.as_secs_f64(),
            migrations: self.total.migrations,
            pairs,
            pairs_found: of as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair_rates::tests::totals;
    use super::*;
    use std::time::Duration;

    /// A reading of threads. Each has a number, milliseconds with a preference, and milliseconds in a preferred domain.
    fn reading(seconds: u64, times: &[(i32, u64, u64)]) -> Scheduled {
        let time = |&(thread, preferring, preferred): &(i32, u64, u64)| {
            let times = TaskTimes {
                ran: Duration::from_millis(preferring + 100),
                preferring: Duration::from_millis(preferring),
                preferred: Duration::from_millis(preferred),
                ..TaskTimes::default()
            };
            (thread, times)
        };
        Scheduled {
            at: Duration::from_secs(seconds),
            times: times.iter().map(time).collect(),
            ..Scheduled::default()
        }
    }

    #[test]
    fn the_share_of_a_task_is_of_the_last_second_and_the_total_keeps_ended_tasks() {
        let mut scheduling = Scheduling::default();
        scheduling.read(&reading(1, &[(7, 1000, 200), (8, 0, 0)]));
        scheduling.read(&reading(2, &[(7, 2000, 1100), (8, 0, 0), (9, 500, 500)]));
        assert_eq!(scheduling.task(7).unwrap().preferred_share, Some(0.9));
        assert_eq!(scheduling.task(8).unwrap().preferred_share, None);
        assert_eq!(scheduling.task(5), None);
        scheduling.read(&reading(3, &[(9, 1000, 1000)]));
        let state = scheduling.state().unwrap();
        assert!((state.preferring_seconds - 3.0).abs() < 1e-9, "{state:?}");
        assert!((state.preferred_seconds - 2.1).abs() < 1e-9, "{state:?}");
    }

    #[test]
    fn the_pairs_that_wake_each_other_most_often_are_in_the_state() {
        let mut scheduling = Scheduling::default();
        for second in 0..=10 {
            let pairs = (1..=150_i32).map(|one| (one, 1000 + one, second * 10 * u64::from(one.unsigned_abs())));
            scheduling.read(&totals(second, &pairs.collect::<Vec<_>>()));
        }
        let state = scheduling.state().unwrap();
        assert_eq!((state.pairs.len() as u64, state.pairs_found), (MOST_PAIRS as u64, 150));
        assert_eq!(state.pairs[0].threads, (150, 1150));
    }
}
