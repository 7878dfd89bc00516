//! Which trial is worth its cost.
//!
//! Both sides are seconds of the program. A trial may show a faster configuration. It then saves a share of the time
//! that the program is expected to run on. A trial loses the time while pages move, and a share of the time that it
//! measures, because its configuration may be slower than the best one. Both shares are means over the belief
//! (`normal::saved_share`). Savings count only the part of the variance that the trial resolves, so a configuration
//! that was measured well is not tried again.
//!
//! The trial with most savings per second of its length is next, among those that save more than they lose. If none
//! does, the search is over. The caller's budget limits the losses. A trial that is expected to save much may exceed it
//! by `BEYOND_BUDGET` of the savings: so a program that may run several times as fast does not wait until its budget has
//! grown.

use super::normal::saved_share;
use super::posterior::{Believed, Posterior};

/// A trial may lose this share of its expected savings beyond the budget. An assumption, which is not learned.
pub const BEYOND_BUDGET: f64 = 0.25;

/// A program, or one of its regions, in the search.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What is believed of it.
    pub posterior: &'a Posterior,
    /// Its share of the program's time; 1 for the whole program.
    pub share: f64,
    /// The configuration that it would keep.
    pub best: usize,
    /// Its next trial is compared with this configuration; `None`: with the baseline before.
    pub against: Option<usize>,
    /// The variance of the trial.
    pub noise: f64,
}

/// The cost of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The seconds that the program runs in the configuration.
    pub measuring: f64,
    /// The seconds that pages move there, and back.
    pub moving: f64,
}

/// The time of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// The seconds that it is expected to run on.
    pub horizon: f64,
    /// The seconds that trials may lose now. Below zero if they have lost more.
    pub may_lose: f64,
}

/// The worth of a trial, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// What it is expected to save.
    pub saves: f64,
    /// What it is expected to lose.
    pub loses: f64,
    /// How long it lasts.
    pub lasts: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Try this configuration.
    Try(usize, Worth),
    /// Nothing yet: the trial of this configuration is worth most, and exceeds the budget by some seconds.
    Wait {
        /// The configuration.
        of: usize,
        /// The worth of its trial.
        worth: Worth,
        /// The seconds above the budget.
        lacks: f64,
    },
    /// No trial is worth its cost. The most that a trial was expected to save, if one is possible at all.
    Enough(Option<(usize, Worth)>),
}

/// What a part of a trial has measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partial {
    /// The logarithm of the time over the time in the best configuration.
    pub log: f64,
    /// Its variance.
    pub variance: f64,
}

impl Worth {
    fn is_worth_it(&self) -> bool {
        self.saves > self.loses
    }

    fn per_second(&self) -> f64 {
        self.saves / self.lasts
    }

    /// The seconds above what may be lost. Not above zero if the trial may begin.
    fn lacks(&self, account: Account) -> f64 {
        self.loses - BEYOND_BUDGET * self.saves - account.may_lose
    }
}

/// What a trial of each configuration would show for one view.
struct Prospects {
    /// By configuration: its time over the best one's.
    over_best: Vec<Believed>,
    /// By configuration: how much of that variance the trial decides.
    decided: Vec<f64>,
}

impl Prospects {
    fn of(view: &View<'_>) -> Self {
        let View {
            posterior,
            best,
            against,
            noise,
            ..
        } = *view;
        let with_best = posterior.covariances(best);
        let with_other = against.map(|other| posterior.covariances(other));
        let of_best = posterior.believed(best);
        let one = |(one, &covariance): (usize, &f64)| {
            let alone = posterior.believed(one);
            let over_best = Believed {
                mean: alone.mean - of_best.mean,
                variance: (alone.variance + of_best.variance - 2.0 * covariance).max(0.0),
            };
            // The covariance of `over_best` with the measured quantity, and the variance of this quantity.
            let (mut shared, mut measured) = (alone.variance - covariance, alone.variance);
            if let (Some(with_other), Some(other)) = (&with_other, against) {
                shared += with_best[other] - with_other[one];
                measured = (measured + posterior.believed(other).variance - 2.0 * with_other[one]).max(0.0);
            }
            (over_best, shared * shared / (measured + noise))
        };
        let (over_best, decided) = with_best.iter().enumerate().map(one).unzip();
        Self { over_best, decided }
    }
}

/// The most worthwhile trial, for one program or for regions whose pages move together.
///
/// All views have the same configurations. `cost` is `None` for a configuration that cannot be tried now. A view's best
/// configuration has nothing to show for it.
pub fn next(views: &[View<'_>], cost: impl Fn(usize) -> Option<Cost>, account: Account) -> Next {
    let prospects: Vec<Prospects> = views.iter().map(Prospects::of).collect();
    let number = views.first().map_or(0, |view| view.posterior.prior().points().len());
    let worth = |one: usize| {
        let cost = cost(one)?;
        let mut worth = Worth {
            saves: 0.0,
            loses: cost.moving,
            lasts: cost.measuring + cost.moving,
        };
        for (view, prospects) in views.iter().zip(&prospects).filter(|(view, _)| view.best != one) {
            let spread = view.posterior.spread();
            let over_best = prospects.over_best[one].spread(spread);
            let decided = spread * prospects.decided[one];
            worth.saves += view.share * account.horizon * saved_share(over_best.mean, decided);
            worth.loses += view.share * cost.measuring * over_best.loses();
        }
        Some((one, worth))
    };
    let all: Vec<(usize, Worth)> = (0..number).filter_map(worth).collect();
    let most = |among: &mut dyn Iterator<Item = &(usize, Worth)>| {
        among.copied().reduce(
            |first, other| match first.1.per_second().total_cmp(&other.1.per_second()) {
                std::cmp::Ordering::Less => other,
                _ => first,
            },
        )
    };
    let worthwhile = || all.iter().filter(|(_, worth)| worth.is_worth_it());
    if let Some((of, worth)) = most(&mut worthwhile().filter(|(_, worth)| worth.lacks(account) <= 0.0)) {
        return Next::Try(of, worth);
    }
    match most(&mut worthwhile()) {
        Some((of, worth)) => Next::Wait {
            of,
            worth,
            lacks: worth.lacks(account),
        },
        None => Next::Enough(most(&mut all.iter())),
    }
}

/// Whether a trial that is under way may end: the rest of it, which lasts `rest` seconds, would lose more than it is
/// expected to save, now that a part of it is measured. A part that says nothing leaves the belief as it is.
pub fn is_hopeless(measured: &[(View<'_>, Partial)], of: usize, rest: f64, account: Account) -> bool {
    let (saves, loses) = measured.iter().fold((0.0, 0.0), |(saves, loses), (view, partial)| {
        let over_best = view.posterior.between(of, view.best).spread(view.posterior.spread());
        let over_best = over_best.updated(*partial);
        (
            saves + view.share * account.horizon * over_best.saves(),
            loses + view.share * rest * over_best.loses(),
        )
    });
    saves < loses
}

impl Believed {
    /// The share of time that is expected to be saved where this is the time over another one.
    pub fn saves(self) -> f64 {
        saved_share(self.mean, self.variance)
    }

    /// The share of time that is expected to be lost there.
    pub fn loses(self) -> f64 {
        saved_share(-self.mean, self.variance)
    }

    /// The same with a larger variance (`Posterior::spread`).
    pub fn spread(self, spread: f64) -> Self {
        Self {
            variance: self.variance * spread,
            ..self
        }
    }

    /// The belief after a measurement of the same thing.
    fn updated(self, partial: Partial) -> Self {
        let says_something = partial.log.is_finite() && partial.variance.is_finite() && partial.variance > 0.0;
        if !says_something {
            return self;
        }
        let weight = self.variance / (self.variance + partial.variance);
        Self {
            mean: self.mean + weight * (partial.log - self.mean),
            variance: self.variance * (1.0 - weight),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{COST, account, first_is_baseline, of, trial, view};
    use super::super::posterior::Trial;
    use super::super::properties::{among, any_prior, any_trials, conditioned};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_configuration_with_the_most_to_save_is_tried_first() {
        // The second one is known to be as fast as the first, and the third may be much faster.
        let posterior = first_is_baseline(&of(&[(0.0, 0.0), (0.0, 0.01), (-0.1, 1.0)]));
        let Next::Try(2, worth) = next(&[view(&posterior)], |_| Some(COST), account(10.0)) else {
            panic!("the third one is worth a trial");
        };
        assert!(worth.saves > 2.5 && worth.loses < 0.12, "{worth:?}");
        assert!((worth.lasts - (COST.measuring + COST.moving)).abs() < 1e-12);
    }

    #[test]
    fn a_short_trial_comes_before_a_long_one_that_saves_a_little_more() {
        let posterior = first_is_baseline(&of(&[(0.0, 0.0), (-0.3, 0.1), (-0.35, 0.1)]));
        let cost = |one: usize| {
            let measuring = if one == 2 { 3.0 } else { 0.3 };
            Some(Cost { measuring, moving: 0.0 })
        };
        assert!(matches!(
            next(&[view(&posterior)], cost, account(100.0)),
            Next::Try(1, _)
        ));
    }

    #[test]
    fn the_search_is_over_when_no_trial_saves_more_than_it_loses() {
        let posterior = first_is_baseline(&of(&[(0.0, 0.0), (0.5, 0.01), (0.02, 0.0001)]));
        assert!(matches!(
            next(&[view(&posterior)], |_| Some(COST), account(10.0)),
            Next::Enough(Some(_))
        ));
        // What saves two percent is worth a trial only if the program runs on for long enough.
        let close = first_is_baseline(&of(&[(0.0, 0.0), (0.0, 0.0004)]));
        let after = |seconds: f64| next(&[view(&close)], |_| Some(COST), account(seconds));
        assert!(matches!(after(1.0), Next::Enough(_)));
        assert!(matches!(after(100.0), Next::Try(1, _)));
    }

    #[test]
    fn what_cannot_be_tried_is_no_trial() {
        let posterior = first_is_baseline(&of(&[(0.0, 0.0), (-1.0, 1.0)]));
        assert_eq!(next(&[view(&posterior)], |_| None, account(10.0)), Next::Enough(None));
        assert_eq!(next(&[], |_| Some(COST), account(10.0)), Next::Enough(None));
    }

    #[test]
    fn a_small_gain_waits_for_the_budget_and_a_large_one_does_not() {
        let waits = |mean, variance, may_lose| {
            let posterior = first_is_baseline(&of(&[(0.0, 0.0), (mean, variance)]));
            let account = Account { horizon: 1.0, may_lose };
            match next(&[view(&posterior)], |_| Some(COST), account) {
                Next::Wait { lacks, .. } => Some(lacks),
                Next::Try(..) => None,
                Next::Enough(_) => panic!("a trial is worth it"),
            }
        };
        // It saves at most a tenth of a second, and its pages alone take 0.05 s; 0.025 s may be lost.
        let lacks = waits(-0.1, 0.01, 0.025).expect("it waits");
        assert!(lacks > 0.0 && lacks < 0.05, "{lacks}");
        assert_eq!(waits(-0.1, 0.01, 0.025 + lacks + 1e-9), None);
        // Eleven times as fast is within two standard deviations.
        assert_eq!(waits(-0.8, 0.64, 0.025), None);
    }

    #[test]
    fn a_program_that_may_be_eleven_times_as_fast_is_not_left_waiting() {
        let posterior = first_is_baseline(&of(&[(0.0, 0.0), (-0.5, 1.0)]));
        let account = Account {
            horizon: 1.0,
            may_lose: 0.025,
        };
        assert!(matches!(
            next(&[view(&posterior)], |_| Some(COST), account),
            Next::Try(1, _)
        ));
    }

    #[test]
    fn a_configuration_that_was_measured_well_is_not_tried_again() {
        let mut posterior = first_is_baseline(&of(&[(0.0, 0.0), (-0.1, 0.5), (0.1, 0.5)]));
        for _ in 0..3 {
            posterior.learn(trial(1, 0.02)).unwrap();
        }
        assert!(matches!(
            next(&[view(&posterior)], |_| Some(COST), account(10.0)),
            Next::Try(2, _)
        ));
    }

    #[test]
    fn a_program_that_surprises_is_searched_further() {
        // Programs were never faster in the third one. This one is five standard deviations from what was expected of it.
        let next_after = |log: f64| {
            let mut posterior = first_is_baseline(&of(&[(0.0, 0.0), (0.1, 0.01), (0.25, 0.01)]));
            posterior.learn(trial(1, log)).unwrap();
            (
                posterior.spread(),
                next(&[view(&posterior)], |_| Some(COST), account(10.0)),
            )
        };
        let (spread, after) = next_after(0.1);
        assert!(
            (spread - 1.0).abs() < 1e-12 && matches!(after, Next::Enough(_)),
            "{spread} {after:?}"
        );
        let (spread, after) = next_after(0.6);
        assert!(spread > 4.0 && matches!(after, Next::Try(2, _)), "{spread} {after:?}");
    }

    #[test]
    fn regions_share_a_trial_by_their_time() {
        let one = first_is_baseline(&of(&[(0.0, 0.0), (-0.5, 0.1), (0.3, 0.1)]));
        let other = first_is_baseline(&of(&[(0.0, 0.0), (0.3, 0.1), (-0.5, 0.1)]));
        let chosen = |share: f64| {
            let views = [
                View { share, ..view(&one) },
                View {
                    share: 1.0 - share,
                    ..view(&other)
                },
            ];
            match next(&views, |_| Some(COST), account(10.0)) {
                Next::Try(one, _) => one,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((chosen(0.8), chosen(0.2)), (1, 2));
    }

    #[test]
    fn a_trial_ends_early_if_its_first_part_excludes_it() {
        let posterior = first_is_baseline(&of(&[(0.0, 0.0), (-0.1, 0.25)]));
        let hopeless =
            |log, variance| is_hopeless(&[(view(&posterior), Partial { log, variance })], 1, 0.2, account(10.0));
        assert!(hopeless(0.7, 0.01), "twice as slow, and measured well");
        assert!(!hopeless(0.7, 1.0), "measured badly");
        assert!(!hopeless(-0.1, 0.01), "faster");
        assert!(!hopeless(f64::NAN, 0.01), "not known");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_trial_decides_the_variance_that_it_takes_away(
            prior in any_prior(), trials in any_trials(), of in 0usize..64, apart in 1usize..64, alone in any::<bool>(),
        ) {
            let number = prior.points().len();
            let mut posterior = conditioned(&prior, &among(trials, number));
            let (of, best) = (of % number, posterior.best().unwrap());
            let other = (of + 1 + apart % (number - 1)) % number;
            let against = (!alone).then_some(other);
            let decided = Prospects::of(&View { best, against, noise: 0.01, ..view(&posterior) }).decided[of];
            let before = posterior.between(of, best).variance;
            posterior.learn(Trial { of, against, log: 0.3, variance: 0.01 }).unwrap();
            let after = posterior.between(of, best).variance;
            prop_assert!((before - after - decided).abs() < 1e-7, "{before} {after} {decided}");
        }

        #[test]
        fn no_trial_is_worth_it_that_moves_pages_for_longer_than_the_program_runs_on(
            prior in any_prior(), trials in any_trials(), seconds in 0.1f64..100.0,
        ) {
            let posterior = conditioned(&prior, &among(trials, prior.points().len()));
            let view = View { best: posterior.best().unwrap(), ..view(&posterior) };
            let cost = |_| Some(Cost { measuring: 0.1, moving: seconds });
            let is_enough = matches!(next(&[view], cost, account(seconds)), Next::Enough(Some(_)));
            prop_assert!(is_enough);
        }
    }
}
