//! From samples of accesses to a profile of accesses.
//!
//! Pages are protected all at once, at the start of a *round*, and the first access to each is seen. So a page with a
//! thousand accesses in a round gives one sample, like a page with one access. The difference is the time of the first
//! access: the more often a page is accessed, the earlier it comes. A page's *exposure* is the time for which it was
//! protected before it was accessed, summed over all rounds; in a round without an access it is the whole round. The
//! number of samples divided by the exposure is the maximum-likelihood estimate of the rate of accesses that come at
//! random (Lawless, "Statistical Models and Methods for Lifetime Data", 2nd edition, section 4.1: exponential
//! lifetimes, censored). This rate times the duration of all rounds is the page's number of accesses. Accesses at equal
//! intervals are estimated at twice their number, for any interval, so that such pages are right relative to each
//! other.
//!
//! The threads' shares of a page are their shares of its samples: the probability of being first is proportional to the
//! rate.
//!
//! Known limits: a page that is accessed again sooner than the clock and the fault can resolve counts as accessed once
//! in `FINEST`. The time to enter and leave a fault counts as the program's time.

use super::AccessProfile;
use std::collections::HashMap;
use std::time::Duration;

/// The shortest resolved time between two accesses: about the duration of a page fault. Assumed, for natively running
/// machines of the last ten years.
const FINEST: Duration = Duration::from_micros(1);

/// Samples, round by round. Times are on any monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct SampledAccesses {
    /// When the round began; `None` between rounds.
    began: Option<Duration>,
    /// The accessed pages of the current round, with the time of each access.
    accessed: HashMap<u64, Duration>,
    /// The duration of all rounds.
    lasted: Duration,
    rounds: u64,
    pages: HashMap<u64, Page>,
}

#[derive(Clone, Debug)]
struct Page {
    bytes: u64,
    /// The time after its first accesses, in all rounds.
    unprotected: Duration,
    /// Threads and their samples, each thread once.
    threads: Vec<(u32, u64)>,
}

impl SampledAccesses {
    /// All pages are protected now.
    pub fn begin_round(&mut self, now: Duration) {
        self.end_round(now);
        self.began = Some(now);
    }

    /// A thread has accessed the page of `bytes` at `address`. `now` excludes the time that the thread spent in faults
    /// since the round began, so that the cost of the sampling does not count as time without accesses. Only the first
    /// access in a round counts. Returns whether it did.
    pub fn access(&mut self, thread: u32, address: u64, bytes: u64, now: Duration) -> bool {
        if self.began.is_none() || self.accessed.contains_key(&address) {
            return false;
        }
        self.accessed.insert(address, now);
        let page = self.pages.entry(address).or_insert_with(|| Page {
            bytes,
            unprotected: Duration::ZERO,
            threads: vec![],
        });
        match page.threads.iter_mut().find(|(known, _)| *known == thread) {
            Some((_, samples)) => *samples += 1,
            None => page.threads.push((thread, 1)),
        }
        true
    }

    /// Ends the round: later accesses do not count.
    pub fn end_round(&mut self, now: Duration) {
        let Some(began) = self.began.take() else { return };
        self.rounds += 1;
        self.lasted += now.saturating_sub(began);
        for (address, at) in self.accessed.drain() {
            if let Some(page) = self.pages.get_mut(&address) {
                page.unprotected += now.saturating_sub(at.max(began));
            }
        }
    }

    /// The number of rounds that have ended.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// The number of samples.
    pub fn samples(&self) -> u64 {
        let threads = self.pages.values().flat_map(|page| &page.threads);
        threads.map(|&(_, samples)| samples).sum()
    }

    /// The estimated number of accesses in the rounds that have ended; at least the number of samples.
    pub fn profile(&self) -> AccessProfile {
        let mut profile = AccessProfile::default();
        for (&address, page) in &self.pages {
            let samples: u64 = page.threads.iter().map(|&(_, samples)| samples).sum();
            let exposure = self.lasted.saturating_sub(page.unprotected);
            let exposure = exposure.max(FINEST.saturating_mul(u32::try_from(samples).unwrap_or(u32::MAX)));
            let (lasted, exposure) = (self.lasted.as_nanos(), exposure.as_nanos());
            for &(thread, samples) in &page.threads {
                let accesses = (u128::from(samples) * lasted + exposure / 2) / exposure;
                let accesses = u64::try_from(accesses).unwrap_or(u64::MAX).max(samples);
                profile.add(address, page.bytes, thread, accesses);
            }
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeId, NodeSet};

    const PAGE: u64 = 4096;

    fn microseconds(number: u64) -> Duration {
        Duration::from_micros(number)
    }

    /// A thousand rounds of 10 ms. Each page is accessed at its interval in microseconds, at another phase in each
    /// round.
    fn sampled(every: &[u64]) -> SampledAccesses {
        let mut samples = SampledAccesses::default();
        for round in 0..1000 {
            let begin = round * 10_000;
            samples.begin_round(microseconds(begin));
            for (page, &every) in (0..).zip(every) {
                // The multiples of the golden ratio are distributed evenly (Weyl).
                let phase = (round * 618_034 + page * 100_000) % 1_000_000;
                let at = phase * every / 1_000_000;
                if at < 10_000 {
                    samples.access(0, page * PAGE, PAGE, microseconds(begin + at));
                }
            }
            samples.end_round(microseconds(begin + 10_000));
        }
        samples
    }

    #[test]
    fn pages_that_are_accessed_in_every_round_are_distinguished_by_the_time_of_the_first_access() {
        let profile = sampled(&[500, 1000, 4000]).profile();
        let nodes: NodeSet = [0, 1].map(NodeId).into_iter().collect();
        // 4 : 2 : 0.5, so that the first page alone outweighs the two others.
        let places = profile.place_by_balance(&nodes);
        assert_eq!(places.node(0), Some(NodeId(0)));
        assert_eq!([PAGE, 2 * PAGE].map(|page| places.node(page)), [Some(NodeId(1)); 2]);
    }

    #[test]
    fn regular_accesses_are_estimated_at_twice_their_number() {
        for every in [100, 700, 5000] {
            let accesses = sampled(&[every]).profile().accesses() as f64;
            let there_were = 10_000_000.0 / every as f64;
            assert!((accesses / there_were - 2.0).abs() < 0.06, "{accesses} of {there_were}");
        }
    }

    #[test]
    fn a_page_that_is_accessed_less_than_once_a_round_has_about_its_number() {
        let accesses = sampled(&[100_000]).profile().accesses() as f64;
        // 100 accesses in 1000 rounds. Each access ends the exposure of its own round only.
        assert!((95.0..115.0).contains(&accesses), "{accesses}");
    }

    #[test]
    fn only_the_first_access_of_a_round_counts_and_none_between_rounds() {
        let mut samples = SampledAccesses::default();
        assert!(!samples.access(0, 0, PAGE, microseconds(1)));
        samples.begin_round(microseconds(10));
        assert!(samples.access(1, 0, PAGE, microseconds(12)));
        assert!(!samples.access(2, 0, PAGE, microseconds(13)));
        samples.end_round(microseconds(20));
        assert!(!samples.access(2, 0, PAGE, microseconds(21)));
        samples.begin_round(microseconds(30));
        assert!(samples.access(2, 0, PAGE, microseconds(32)));
        samples.end_round(microseconds(40));
        assert_eq!((samples.rounds(), samples.samples()), (2, 2));
        // Two samples in 4 of 20 microseconds: ten accesses, five by each thread.
        let mut expected = AccessProfile::default();
        expected.add(0, PAGE, 1, 5);
        expected.add(0, PAGE, 2, 5);
        assert_eq!(samples.profile(), expected);
    }

    #[test]
    fn what_is_accessed_at_once_counts_a_million_times_a_second_and_no_more() {
        let mut samples = SampledAccesses::default();
        samples.begin_round(microseconds(10));
        samples.access(0, 0, PAGE, microseconds(3));
        samples.end_round(microseconds(1_000_010));
        assert_eq!(samples.profile().accesses(), 1_000_000);
    }
}
