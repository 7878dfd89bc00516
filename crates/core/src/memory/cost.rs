//! Whether moving pages after their threads is worth its cost.
//!
//! The gain of a move is not known in advance, but its cost is: during the copying the program loses memory bandwidth
//! and takes faults. The rule: **pages follow their threads when they can be copied within the warm-up**, which each
//! candidate of a search gets, at the last measured rate of copying or at an assumed one. So each candidate is measured
//! with its pages where they would be if it were chosen, and none is measured while its pages move. If it would take
//! longer, pages stay, and this is reported.
//!
//! Known limits: a program that runs for hours would gain from moves that take longer than a warm-up. Then the user
//! gives a longer warm-up or `--page-map local`, to which the rule does not apply.

use crate::size_text;
use std::time::Duration;

/// The rate of copying in bytes per second before one is measured. Assumed: Linux copies small pages with one thread
/// and one call per thousand pages or so. Goglin and Furmento ("Enabling High-Performance Memory Migration for
/// Multithreaded Applications on Linux", IPDPS workshops 2009) measured some 600 MB/s, and memory has become faster
/// since.
pub const ASSUMED_COPY_RATE: f64 = (1u64 << 30) as f64;

/// How long accesses are sampled before the pages of a process follow whose threads are on several nodes. Assumed: at
/// the default period of memory events these are some ten thousand samples.
pub const SAMPLED_BEFORE: Duration = Duration::from_secs(1);

/// Moving pages after their threads takes too long.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{} stay where they are: to bring them after their threads would take about {:.1} s, and the warm-up (--warm-up) is {:.1} \
     s; --page-map local moves them without a limit",
    size_text(*bytes), takes.as_secs_f64(), within.as_secs_f64()
)]
pub struct TooLong {
    /// The bytes to move.
    pub bytes: u64,
    /// The time that this would take.
    pub takes: Duration,
    /// The longest time that it may take.
    pub within: Duration,
}

/// Applies the rule to `bytes` that are copied at `rate` bytes per second; without a limit pages always follow.
pub fn check_cost(bytes: u64, rate: f64, within: Option<Duration>) -> Result<(), TooLong> {
    let takes = Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX);
    match within {
        Some(within) if takes > within => Err(TooLong { bytes, takes, within }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_that_take_longer_than_the_warm_up_stay_and_the_error_has_the_time() {
        let error = check_cost(4 << 30, ASSUMED_COPY_RATE, Some(Duration::from_secs(3))).unwrap_err();
        assert_eq!(error.takes, Duration::from_secs(4));
        let text = error.to_string();
        assert!(
            text.contains("4 GiB") && text.contains("4.0 s") && text.contains("--warm-up"),
            "{text}"
        );
    }

    #[test]
    fn a_rate_of_zero_takes_too_long() {
        assert!(check_cost(1, 0.0, Some(Duration::from_secs(1))).is_err());
        assert!(check_cost(1, 0.0, None).is_ok());
    }

    proptest! {
        #[test]
        fn what_follows_at_a_rate_follows_at_a_higher_one_and_where_it_is_less(
            bytes in 0u64..1 << 42, rate in 1e6f64..1e11, seconds in 0u64..100,
        ) {
            let within = Some(Duration::from_secs(seconds));
            if check_cost(bytes, rate, within).is_ok() {
                prop_assert!(check_cost(bytes, rate * 2.0, within).is_ok());
                prop_assert!(check_cost(bytes / 2, rate, within).is_ok());
            }
        }
    }
}
