//! The share of the program's run time that trials may cost.
//!
//! A trial in a slower placement than the best one loses time: its length times one minus the ratio of the two rates.
//! The sum of these losses stays within a share of the time that the program has run. So a program that ends soon loses
//! little, and one that runs for hours can be searched for longer. How long it will run is not known. The rule assumes
//! that it runs for as long again.
//!
//! The limits follow from the most that a program may lose: 3 % of 10 s, and 1 % of a minute and more.

use pinfold_core::ProposerCode;
use std::collections::BTreeMap;
use std::time::Duration;

/// The share of the run time that may be lost at first.
const EARLY: f64 = 0.025;
/// Later: seconds, and a share of the run time.
const FIXED: f64 = 0.2;
const LATE: f64 = 0.006;

/// A program that is faster than unpinned has saved time. This share of it may be lost in addition, up to a number of
/// seconds: another placement may be faster still.
const OF_SAVED: f64 = 0.1;
const MOST_OF_SAVED: f64 = 2.0;

/// The assumed rate of a placement over the best one, before others of its proposer were measured.
const UNKNOWN: f64 = 0.85;

/// The losses of a program's trials.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    lost: f64,
    saved: f64,
}

impl Budget {
    /// The seconds that may be lost until `at`.
    fn limit(at: Duration) -> f64 {
        let at = at.as_secs_f64();
        (EARLY * at).min(FIXED + LATE * at)
    }

    /// Whether a trial of this length may begin at `at`. `moving` is lost in any case, because pages move there and
    /// back. `ratio` is the expected rate over the best one.
    pub(super) fn affords(self, at: Duration, moving: Duration, length: Duration, ratio: f64) -> bool {
        moving.as_secs_f64() + loss(length, ratio) <= self.left(at).as_secs_f64()
    }

    /// The time that may be lost at `at` in addition to the losses so far.
    pub(crate) fn left(self, at: Duration) -> Duration {
        let may = Self::limit(at) + (OF_SAVED * self.saved).min(MOST_OF_SAVED);
        Duration::from_secs_f64((may - self.lost).max(0.0))
    }

    /// The program has run for this long. `ratio` is its rate over the unpinned program's.
    pub(super) fn save(&mut self, length: Duration, ratio: f64) {
        self.saved += loss(length, ratio.recip());
    }

    /// A trial of this length is over. `ratio` is its rate over the best one.
    pub(crate) fn spend(&mut self, length: Duration, ratio: f64) {
        self.lost += loss(length, ratio);
    }

    /// The seconds that were lost.
    pub(super) fn lost(self) -> f64 {
        self.lost
    }
}

/// By proposer: the results of its candidates in one search. The next candidate is expected to be like them.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(BTreeMap<ProposerCode, Record>);

impl Records {
    /// A candidate of this proposer had this rate over the best one.
    pub(super) fn add(&mut self, by: ProposerCode, ratio: f64) {
        self.0.entry(by).or_default().add(ratio);
    }

    /// The expected rate of this proposer's next candidate over the best one.
    pub(super) fn expected(&self, by: ProposerCode) -> f64 {
        self.0.get(&by).copied().unwrap_or_default().expected()
    }
}

/// The rates of a proposer's candidates over the best one, each at most 1, and `UNKNOWN` once.
#[derive(Clone, Copy, Debug)]
struct Record {
    sum: f64,
    number: f64,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            sum: UNKNOWN,
            number: 1.0,
        }
    }
}

impl Record {
    fn add(&mut self, ratio: f64) {
        self.sum += ratio.min(1.0);
        self.number += 1.0;
    }

    fn expected(self) -> f64 {
        self.sum / self.number
    }
}

fn loss(length: Duration, ratio: f64) -> f64 {
    length.as_secs_f64() * (1.0 - ratio).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn the_limit_is_within_three_percent_of_ten_seconds_and_one_of_a_minute() {
        for (at, share) in [(3.0, 0.03), (10.0, 0.03), (60.0, 0.01), (600.0, 0.01), (3600.0, 0.01)] {
            assert!(Budget::limit(seconds(at)) <= share * at, "{at}");
        }
    }

    #[test]
    fn a_bad_placement_is_tried_again_only_when_the_program_has_run_for_longer() {
        let mut budget = Budget::default();
        assert!(budget.affords(seconds(4.0), Duration::ZERO, seconds(0.3), UNKNOWN));
        budget.spend(seconds(0.3), 0.5);
        assert!(!budget.affords(seconds(4.0), Duration::ZERO, seconds(0.3), 0.5));
        assert!(budget.affords(seconds(30.0), Duration::ZERO, seconds(0.3), 0.5));
    }

    #[test]
    fn moving_there_and_back_is_lost_however_fast_the_placement_is() {
        let budget = Budget::default();
        assert_eq!(budget.left(seconds(4.0)), seconds(0.1));
        assert!(budget.affords(seconds(4.0), seconds(0.1), seconds(0.3), 1.2));
        assert!(!budget.affords(seconds(4.0), seconds(0.11), seconds(0.3), 1.2));
    }

    #[test]
    fn nothing_is_left_after_losses_above_the_limit() {
        let mut budget = Budget::default();
        budget.spend(seconds(10.0), 0.5);
        assert_eq!(budget.left(seconds(4.0)), Duration::ZERO);
    }

    #[test]
    fn a_placement_as_fast_as_the_best_costs_nothing() {
        let mut budget = Budget::default();
        budget.spend(seconds(100.0), 1.2);
        assert!(budget.affords(seconds(1.0), Duration::ZERO, seconds(100.0), 1.0));
    }

    #[test]
    fn a_proposer_of_slow_placements_is_expected_to_propose_another() {
        let mut record = Record::default();
        assert!((record.expected() - UNKNOWN).abs() < 1e-12);
        record.add(0.25);
        assert!((record.expected() - 0.55).abs() < 1e-12);
        record.add(2.0);
        assert!(
            (record.expected() - 0.7).abs() < 1e-12,
            "a fast one costs nothing, and pays for no slow one"
        );
    }

    #[test]
    fn a_share_of_the_saved_time_may_be_lost() {
        let mut budget = Budget::default();
        budget.spend(seconds(1.0), 0.0);
        assert!(!budget.affords(seconds(60.0), Duration::ZERO, seconds(2.0), UNKNOWN));
        budget.save(seconds(20.0), 2.0);
        assert!(budget.affords(seconds(60.0), Duration::ZERO, seconds(2.0), UNKNOWN));
        budget.save(seconds(1e6), 2.0);
        assert!(!budget.affords(seconds(60.0), Duration::ZERO, seconds(20.0), UNKNOWN));
        budget.save(seconds(1e6), 0.5);
        assert!(!budget.affords(seconds(60.0), Duration::ZERO, seconds(20.0), UNKNOWN));
    }

    proptest! {
        #[test]
        fn the_losses_of_trials_that_go_as_expected_stay_within_the_limit(
            trials in proptest::collection::vec((0.1f64..60.0, 0.05f64..2.0, 0.3f64..1.2), 1..60),
        ) {
            let mut budget = Budget::default();
            let mut at = Duration::ZERO;
            for (pause, length, ratio) in trials {
                at += seconds(pause);
                if budget.affords(at, Duration::ZERO, seconds(length), ratio) {
                    at += seconds(length);
                    budget.spend(seconds(length), ratio);
                }
                prop_assert!(budget.lost() <= Budget::limit(at) + 1e-9);
            }
        }
    }
}
