//! How often two tasks wake each other: rates of pairs, from the totals that a scheduler in the kernel counts.

use pinfold_core::{Scheduled, WakeCounts};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The time in which an earlier rate loses half of its weight.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// A pair with fewer wake-ups in a second is forgotten.
const LEAST: f64 = 0.02;

/// The smoothed rates of pairs. Both directions count together.
#[derive(Clone, Debug, Default)]
pub(super) struct PairRates {
    before: Option<(Duration, WakeCounts)>,
    rates: BTreeMap<(i32, i32), f64>,
}

impl PairRates {
    /// The wake-ups of each pair in a second, by two threads, the lower number first.
    pub(super) fn rates(&self) -> &BTreeMap<(i32, i32), f64> {
        &self.rates
    }

    /// Whether there was a reading.
    pub(super) fn is_read(&self) -> bool {
        self.before.is_some()
    }

    /// Takes a new reading.
    pub(super) fn read(&mut self, now: &Scheduled) {
        let earlier = self.before.replace((now.at, now.wakeups.clone()));
        let Some((at, earlier)) = earlier else { return };
        let elapsed = now.at.saturating_sub(at).as_secs_f64();
        if elapsed <= 0.0 {
            return;
        }
        let kept = 0.5_f64.powf(elapsed / HALF_LIFE.as_secs_f64());
        self.rates.values_mut().for_each(|rate| *rate *= kept);
        for (&(waker, wakee), &count) in &now.wakeups {
            let before = earlier.get(&(waker, wakee)).copied().unwrap_or(0);
            // The kernel's table drops old pairs and counts them from zero when they are seen again.
            let grown = count.checked_sub(before).unwrap_or(count) as f64;
            if grown > 0.0 {
                let pair = (waker.min(wakee), waker.max(wakee));
                *self.rates.entry(pair).or_default() += (1.0 - kept) * grown / elapsed;
            }
        }
        self.rates.retain(|_, rate| *rate >= LEAST);
    }

    /// By thread: the other threads and the wake-ups with them in a second, of these threads only.
    pub(super) fn partners(&self, threads: &BTreeSet<i32>) -> BTreeMap<i32, Vec<(i32, f64)>> {
        let mut partners: BTreeMap<i32, Vec<(i32, f64)>> = BTreeMap::new();
        for (&(one, other), &rate) in &self.rates {
            if threads.contains(&one) && threads.contains(&other) {
                partners.entry(one).or_default().push((other, rate));
                partners.entry(other).or_default().push((one, rate));
            }
        }
        partners
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::daemon) fn totals(seconds: u64, counts: &[(i32, i32, u64)]) -> Scheduled {
        Scheduled {
            at: Duration::from_secs(seconds),
            wakeups: counts
                .iter()
                .map(|&(waker, wakee, count)| ((waker, wakee), count))
                .collect(),
            ..Scheduled::default()
        }
    }

    /// The pairs after ten seconds with these wake-ups in each second.
    pub(in crate::daemon) fn steady(each: &[(i32, i32, u64)]) -> PairRates {
        let mut pairs = PairRates::default();
        for second in 0..=10 {
            let so_far: Vec<_> = each
                .iter()
                .map(|&(one, other, rate)| (one, other, second * rate))
                .collect();
            pairs.read(&totals(second, &so_far));
        }
        pairs
    }

    #[test]
    fn a_steady_rate_is_found_and_both_directions_count() {
        let rate = steady(&[(1, 2, 300), (2, 1, 100)]).rates()[&(1, 2)];
        assert!((rate - 400.0).abs() < 1.0, "{rate}");
    }

    #[test]
    fn a_rate_halves_in_a_second_and_is_forgotten() {
        let mut pairs = steady(&[(1, 2, 1000)]);
        pairs.read(&totals(11, &[(1, 2, 10_000)]));
        assert!((pairs.rates()[&(1, 2)] - 500.0).abs() < 1.0);
        pairs.read(&totals(60, &[(1, 2, 10_000)]));
        assert!(pairs.rates().is_empty());
    }

    #[test]
    fn a_count_that_began_anew_is_no_fall() {
        let mut pairs = steady(&[(1, 2, 1000)]);
        pairs.read(&totals(11, &[(1, 2, 1000)]));
        assert!((pairs.rates()[&(1, 2)] - 1000.0).abs() < 1.0);
    }
}
