//! The comparison of one variant with the program alone.

use pinfold_core::statistics::{self, Estimate};

/// The judgement of the difference of two mean times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The variant is significantly faster.
    Faster,
    /// The variant is significantly slower.
    Slower,
    /// The difference is not significant. With this many more runs of each it would be, if they scattered as these do.
    TooFewRuns(usize),
    /// The difference is not significant, and many more runs would be needed to show one of this size.
    WithinNoise,
    /// The significance is not known, because one of the two has fewer than two runs.
    Unknown,
}

/// The significance level: a difference is significant if its p-value is lower. The policies use the same level
/// (`pinfold_policy::comparison`).
const LEVEL: f64 = 0.01;

/// The usual number of runs of each variant. Up to here, or up to twice the runs that were made, more runs are advised.
const USUAL_RUNS: usize = 10;

/// The mean time of the program alone over the mean time of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relative {
    /// The ratio. It is 2 if the variant takes half the time.
    pub ratio: f64,
    /// The standard error of the ratio; `None` if one of the two has fewer than two runs.
    pub standard_error: Option<f64>,
    /// The p-value of Welch's two-sided test; `None` if one of the two has fewer than two runs.
    pub p_value: Option<f64>,
    /// How many more runs of each make the difference significant, if they scatter as these do; `None` if it is
    /// significant, or if that would take many more.
    pub more_runs: Option<usize>,
}

/// How many more runs of each make the difference significant. `fewest` is the smaller of both numbers of runs.
fn more_runs(variant: Estimate, alone: Estimate, fewest: usize) -> Option<usize> {
    let most = (2 * fewest).max(USUAL_RUNS);
    let p_value = |more: usize| {
        let [variant, alone] = [variant, alone].map(|estimate| with_more_runs(estimate, more as f64));
        statistics::chance_of_equal(&variant, &alone)
    };
    let is_enough = |more: &usize| p_value(*more) < LEVEL;
    (0..=most.saturating_sub(fewest))
        .find(is_enough)
        .filter(|more| *more > 0)
}

/// The mean of more runs with the same mean and the same deviation.
fn with_more_runs(mean: Estimate, more: f64) -> Estimate {
    // `from_independent` has one degree of freedom less than runs.
    let runs = mean.degrees_of_freedom + 1.0;
    Estimate {
        variance: mean.variance * runs / (runs + more),
        degrees_of_freedom: mean.degrees_of_freedom + more,
        ..mean
    }
}

impl Relative {
    /// Compares the times of the program alone with the times of a variant. `None` if one of the two has no runs or
    /// took no time.
    pub fn of(variant: &[f64], alone: &[f64]) -> Option<Self> {
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let (mean_variant, mean_alone) = (mean(variant), mean(alone));
        let estimates = Estimate::from_independent(variant).zip(Estimate::from_independent(alone));
        let ratio = mean_alone / mean_variant;
        // Errors of both means are propagated to first order.
        let error = |(variant, alone): (Estimate, Estimate)| {
            let share = |estimate: Estimate| estimate.variance / estimate.value.powi(2);
            ratio * (share(variant) + share(alone)).sqrt()
        };
        (ratio.is_finite() && mean_alone > 0.0).then(|| Self {
            ratio,
            standard_error: estimates.map(error),
            p_value: estimates.map(|(variant, alone)| statistics::chance_of_equal(&variant, &alone)),
            more_runs: estimates.and_then(|(one, other)| more_runs(one, other, variant.len().min(alone.len()))),
        })
    }

    /// Judges the difference.
    pub fn difference(&self) -> Difference {
        match self.p_value {
            None => Difference::Unknown,
            Some(p) if p >= LEVEL => self.more_runs.map_or(Difference::WithinNoise, Difference::TooFewRuns),
            Some(_) if self.ratio > 1.0 => Difference::Faster,
            Some(_) => Difference::Slower,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_the_time_is_twice_as_fast() {
        let half = Relative::of(&[1.0, 1.01, 0.99], &[2.0, 2.02, 1.98]).unwrap();
        assert!((half.ratio - 2.0).abs() < 1e-12);
        // Both means have a standard error of 0.577 %.
        assert!((half.standard_error.unwrap() - 2.0 * 0.005_773_5 * 2.0f64.sqrt()).abs() < 1e-6);
        assert_eq!(half.difference(), Difference::Faster);
    }

    #[test]
    fn noise_is_no_difference_and_a_single_run_says_nothing() {
        let noise = Relative::of(&[1.0, 1.2, 0.9], &[1.1, 0.9, 1.2]).unwrap();
        assert_eq!(noise.difference(), Difference::WithinNoise);
        let single = Relative::of(&[1.0], &[2.0, 2.1]).unwrap();
        assert_eq!((single.standard_error, single.p_value), (None, None));
        assert_eq!(single.difference(), Difference::Unknown);
        assert_eq!(Relative::of(&[], &[1.0]), None);
        assert_eq!(Relative::of(&[0.0], &[1.0]), None);
    }

    #[test]
    fn a_threefold_difference_of_two_runs_is_no_noise_and_more_runs_tell() {
        let (variant, alone) = ([1.0, 1.2], [3.0, 3.6]);
        let threefold = Relative::of(&variant, &alone).unwrap();
        assert!(threefold.p_value.unwrap() >= LEVEL, "two runs do not tell");
        let Difference::TooFewRuns(more) = threefold.difference() else {
            panic!("{:?}", threefold.difference())
        };
        assert_eq!(more, 1);
        // With the same times once more the difference is significant.
        let repeated = |runs: usize, times: [f64; 2]| -> Vec<f64> { (0..runs).map(|run| times[run % 2]).collect() };
        let told = Relative::of(&repeated(4, variant), &repeated(4, alone)).unwrap();
        assert_eq!(told.difference(), Difference::Faster);
    }

    #[test]
    fn a_difference_that_would_take_many_runs_is_within_noise() {
        let one: Vec<f64> = (0..10).map(|run| 1.0 + f64::from(run % 2) * 0.5).collect();
        let other: Vec<f64> = one.iter().map(|time| time + 0.05).collect();
        let relative = Relative::of(&one, &other).unwrap();
        assert_eq!(
            (relative.difference(), relative.more_runs),
            (Difference::WithinNoise, None)
        );
    }

    proptest! {
        #[test]
        fn faster_one_way_is_slower_the_other_way(
            one in prop::collection::vec(0.5f64..2.0, 2..8), other in prop::collection::vec(0.5f64..2.0, 2..8),
        ) {
            let there = Relative::of(&one, &other).unwrap();
            let back = Relative::of(&other, &one).unwrap();
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            prop_assert_eq!(there.difference() == Difference::Faster, back.difference() == Difference::Slower);
        }
    }
}
