//! The comparison of one variant with the program alone.

use pinfold_core::statistics::{self, Estimate};

/// The judgement of the difference of two mean times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The variant is significantly faster.
    Faster,
    /// The variant is significantly slower.
    Slower,
    /// The difference is not significant.
    WithinNoise,
    /// The significance is not known, because one of the two has fewer than two runs.
    Unknown,
}

/// The significance level: a difference is significant if its p-value is lower. The policies use the same level
/// (`pinfold_policy::comparison`).
const LEVEL: f64 = 0.01;

/// The mean time of the program alone over the mean time of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relative {
    /// The ratio. It is 2 if the variant takes half the time.
    pub ratio: f64,
    /// The standard error of the ratio; `None` if one of the two has fewer than two runs.
    pub standard_error: Option<f64>,
    /// The p-value of Welch's two-sided test; `None` if one of the two has fewer than two runs.
    pub p_value: Option<f64>,
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
        })
    }

    /// Judges the difference.
    pub fn difference(&self) -> Difference {
        match self.p_value {
            None => Difference::Unknown,
            Some(p) if p >= LEVEL => Difference::WithinNoise,
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
