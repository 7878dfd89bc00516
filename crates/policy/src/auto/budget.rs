//! The share of the program's run time that trials may cost.
//!
//! A trial in a slower placement than the best one loses time: its length times one minus the ratio of the two rates.
//! The sum of these losses stays within a share of the time that the program has run. So a program that ends soon loses
//! little, and one that runs for hours can be searched for longer. How long it will run is not known. The rule assumes
//! that it runs for as long again.
//!
//! The limits follow from the most that a program may lose: 3 % of 10 s, and 1 % of a minute and more.

use crate::belief::BEYOND_BUDGET;
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
    /// back. `ratio` is the expected rate over the best one. `saves` are the seconds that the trial is expected to save:
    /// it may lose a share of them beyond the budget, so that a program that may run several times as fast does not wait
    /// until its budget has grown.
    pub(super) fn affords(self, at: Duration, moving: Duration, length: Duration, ratio: f64, saves: f64) -> bool {
        moving.as_secs_f64() + loss(length, ratio) <= self.left(at).as_secs_f64() + BEYOND_BUDGET * saves
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
        assert!(budget.affords(seconds(4.0), Duration::ZERO, seconds(0.3), 0.85, 0.0));
        budget.spend(seconds(0.3), 0.5);
        assert!(!budget.affords(seconds(4.0), Duration::ZERO, seconds(0.3), 0.5, 0.0));
        assert!(budget.affords(seconds(30.0), Duration::ZERO, seconds(0.3), 0.5, 0.0));
    }

    #[test]
    fn moving_there_and_back_is_lost_however_fast_the_placement_is() {
        let budget = Budget::default();
        assert_eq!(budget.left(seconds(4.0)), seconds(0.1));
        assert!(budget.affords(seconds(4.0), seconds(0.1), seconds(0.3), 1.2, 0.0));
        assert!(!budget.affords(seconds(4.0), seconds(0.11), seconds(0.3), 1.2, 0.0));
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
        assert!(budget.affords(seconds(1.0), Duration::ZERO, seconds(100.0), 1.0, 0.0));
    }

    #[test]
    fn a_trial_that_may_save_much_does_not_wait() {
        let budget = Budget::default();
        let affords = |saves| budget.affords(seconds(1.0), Duration::ZERO, seconds(0.3), 0.5, saves);
        assert!(!affords(0.0) && !affords(0.4) && affords(0.6));
    }

    #[test]
    fn a_share_of_the_saved_time_may_be_lost() {
        let mut budget = Budget::default();
        budget.spend(seconds(1.0), 0.0);
        assert!(!budget.affords(seconds(60.0), Duration::ZERO, seconds(2.0), 0.85, 0.0));
        budget.save(seconds(20.0), 2.0);
        assert!(budget.affords(seconds(60.0), Duration::ZERO, seconds(2.0), 0.85, 0.0));
        budget.save(seconds(1e6), 2.0);
        assert!(!budget.affords(seconds(60.0), Duration::ZERO, seconds(20.0), 0.85, 0.0));
        budget.save(seconds(1e6), 0.5);
        assert!(!budget.affords(seconds(60.0), Duration::ZERO, seconds(20.0), 0.85, 0.0));
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
                if budget.affords(at, Duration::ZERO, seconds(length), ratio, 0.0) {
                    at += seconds(length);
                    budget.spend(seconds(length), ratio);
                }
                prop_assert!(budget.lost() <= Budget::limit(at) + 1e-9);
            }
        }
    }
}
