//! The births of threads in a process, and the limit above which there are too many for `ptrace`.
//!
//! Each birth stops the creator and the new thread. That costs more than the birth itself, and the kernel checks all
//! traced threads for each stop. So a process that creates more than `BURST` threads at a rate above `RATE` per second
//! is polled instead. A team of OpenMP threads stays traced on the largest machines.

use std::time::Instant;

/// The number of births at once, or in addition to `RATE`.
const BURST: f64 = 2048.0;

/// The births per second that are traced without a time limit. They cost some percent of one PU.
const RATE: f64 = 100.0;

/// The births of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Births {
    /// The births in excess of the rate, and the time of the last one.
    beyond: f64,
    last: Option<Instant>,
}

impl Births {
    /// Counts a birth. Returns whether there are too many.
    pub(crate) fn count(&mut self, now: Instant) -> bool {
        let elapsed = self
            .last
            .replace(now)
            .map_or(0.0, |last| now.duration_since(last).as_secs_f64());
        self.beyond = (self.beyond - elapsed * RATE).max(0.0) + 1.0;
        self.beyond > BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The number of births at this interval before there are too many. `None` if there are not too many within `most`.
    fn births_until_too_many(distance: Duration, most: u32) -> Option<u32> {
        let begin = Instant::now();
        let mut births = Births::default();
        (1..=most).find(|&number| births.count(begin + distance * number))
    }

    #[test]
    fn a_team_on_the_largest_machines_is_not_too_much_and_thousands_at_once_are() {
        assert_eq!(births_until_too_many(Duration::ZERO, 10_000), Some(2049));
    }

    #[test]
    fn births_at_the_rate_are_never_too_many_and_those_at_twice_the_rate_are_after_a_while() {
        assert_eq!(births_until_too_many(Duration::from_millis(10), 100_000), None);
        assert!(births_until_too_many(Duration::from_millis(5), 10_000).is_some_and(|number| number > 4000));
    }
}
