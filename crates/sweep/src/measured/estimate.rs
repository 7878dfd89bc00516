//! The median of a configuration's times, its spread, and how certain it is.
//!
//! From six runs on, the interval of the median is the one between two of the ordered times (Conover, "Practical
//! Nonparametric Statistics", section 3.2): no distribution is assumed. Fewer times have no such interval of 95 %. Then
//! it is Student's, with a variance that is moderated by the typical one of the other configurations (Smyth, "Linear
//! models and empirical Bayes methods", 2004): two or three runs that happen to agree say little about the noise of the
//! machine, and all the others say much.

use pinfold_core::measurement::Median;
use pinfold_core::statistics::{DEVIATION_OVER_MAD, Estimate, half_width};

/// From this number on, the smallest and the largest time enclose the median with 95 %: `1 - 2 / 2^n`.
const ENOUGH: usize = 6;

/// The typical deviation counts as this many runs of the configuration itself.
const PRIOR: f64 = 4.0;

/// The standard error of the median of normal numbers over that of their mean.
const MEDIAN: f64 = 1.2533;

/// What is known of the time of one configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeEstimate {
    /// The median, in seconds.
    pub time: f64,
    /// The robust relative standard deviation of a run: 1.4826 times the median of the absolute deviations, over the
    /// median. `None` for a single run.
    pub spread: Option<f64>,
    /// Half the width of the 95 % interval of the median, over the median. `None` if nothing says how much runs vary.
    pub error: Option<f64>,
}

impl TimeEstimate {
    /// The estimate from these times; `None` without any. `typical` is the `typical_deviation` of all configurations.
    pub fn of(times: &[f64], typical: Option<f64>) -> Option<Self> {
        let time = Median::of(times.iter().copied())?.value;
        let deviations = times.iter().map(|one| (one - time).abs());
        let spread = (times.len() > 1).then(|| Median::of(deviations)).flatten();
        let half = if times.len() >= ENOUGH {
            Some(half_of_ranks(times))
        } else {
            half_of_few(times, typical.map(|typical| typical * time))
        };
        Some(Self {
            time,
            spread: spread.map(|median| DEVIATION_OVER_MAD * median.value / time),
            error: half.map(|half| half / time),
        })
    }
}

/// The median over configurations of the relative standard deviation of their runs; `None` without a configuration with
/// two runs.
pub fn typical_deviation<'a>(configurations: impl IntoIterator<Item = &'a [f64]>) -> Option<f64> {
    let deviation = |times: &[f64]| {
        let mean = Estimate::from_independent(times)?;
        let variance = mean.variance * times.len() as f64;
        // The median of a sample's variance is below the true one: by this factor (Wilson and Hilferty, "The distribution
        // of chi-square", 1931).
        let median = (1.0 - 2.0 / (9.0 * mean.degrees_of_freedom)).powi(3);
        Some((variance / median).sqrt() / mean.value)
    };
    Some(Median::of(configurations.into_iter().filter_map(deviation))?.value)
}

/// Half the distance of the two times whose ranks enclose the median with at least 95 %.
fn half_of_ranks(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let from_end = ranks_outside(sorted.len());
    (sorted[sorted.len() - 1 - from_end] - sorted[from_end]) / 2.0
}

/// How many of the smallest, and of the largest, of `number` values are outside the interval: the most that leave each
/// tail of the binomial distribution with probability 1/2 at most 2.5 %.
fn ranks_outside(number: usize) -> usize {
    const TAIL: f64 = 0.025;
    let number = number as f64;
    // By logarithms, because 2^-n underflows for many runs.
    let mut logarithm = -number * std::f64::consts::LN_2;
    let (mut tail, mut outside) = (0.0, 0);
    loop {
        tail += logarithm.exp();
        if tail > TAIL {
            return usize::saturating_sub(outside, 1);
        }
        outside += 1;
        logarithm += ((number + 1.0 - outside as f64) / outside as f64).ln();
    }
}

/// The same for fewer than six times; `typical` is the typical standard deviation of a run, in seconds.
fn half_of_few(times: &[f64], typical: Option<f64>) -> Option<f64> {
    let number = times.len() as f64;
    let own = Estimate::from_independent(times);
    let (own_variance, own_freedom) = own.map_or((0.0, 0.0), |mean| (mean.variance * number, mean.degrees_of_freedom));
    let (prior_variance, prior_freedom) = typical.map_or((0.0, 0.0), |typical| (typical * typical, PRIOR));
    let freedom = own_freedom + prior_freedom;
    if freedom == 0.0 {
        return None;
    }
    let variance = (own_freedom * own_variance + prior_freedom * prior_variance) / freedom;
    // The median of one or two values is their mean.
    let factor = if times.len() > 2 { MEDIAN } else { 1.0 };
    Some(
        factor
            * half_width(&Estimate {
                value: 0.0,
                variance: variance / number,
                degrees_of_freedom: freedom,
            }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::random::Random;
    use proptest::prelude::*;

    #[test]
    fn the_ranks_are_those_of_the_published_table() {
        // Conover, table A3 for p = 1/2: the smallest number of values outside on each side, at 95 %.
        for (number, outside) in [(6, 0), (8, 0), (9, 1), (12, 2), (15, 3), (20, 5), (25, 7)] {
            assert_eq!(ranks_outside(number), outside, "{number}");
        }
        // For many: n/2 less 1.96 times the standard deviation sqrt(n)/2.
        assert!((466..=470).contains(&ranks_outside(1000)));
    }

    #[test]
    fn a_single_run_has_a_time_and_no_spread_and_is_as_uncertain_as_the_others() {
        let alone = TimeEstimate::of(&[2.0], None).unwrap();
        assert_eq!((alone.time, alone.spread, alone.error), (2.0, None, None));
        let among = TimeEstimate::of(&[2.0], Some(0.01)).unwrap();
        // The quantile of four degrees of freedom is 2.776.
        assert!((among.error.unwrap() - 0.02776).abs() < 1e-4);
        assert_eq!(TimeEstimate::of(&[], Some(0.1)), None);
    }

    #[test]
    fn two_equal_runs_are_not_certain_if_the_others_vary() {
        let error = |typical| TimeEstimate::of(&[1.0, 1.0], typical).unwrap().error.unwrap();
        assert!(error(None).abs() < 1e-12);
        assert!(error(Some(0.05)) > 0.05);
    }

    /// The share of `trials` estimates whose interval has the true median.
    fn coverage(runs: usize, deviation: f64, trials: u64) -> f64 {
        let mut random = Random::new(7);
        let mut covers = || {
            let mut times = || -> Vec<f64> { (0..runs).map(|_| 1.0 + deviation * random.normal()).collect() };
            let others: Vec<Vec<f64>> = (0..9).map(|_| times()).collect();
            let times = times();
            let typical = typical_deviation(others.iter().map(Vec::as_slice));
            let estimate = TimeEstimate::of(&times, typical).unwrap();
            (estimate.time - 1.0).abs() <= estimate.error.unwrap() * estimate.time
        };
        (0..trials).filter(|_| covers()).count() as f64 / trials as f64
    }

    #[test]
    fn the_interval_has_the_true_median_nineteen_times_of_twenty() {
        for runs in [2, 3, 5, 6, 9, 20] {
            let share = coverage(runs, 0.02, 2000);
            assert!((0.93..=1.0).contains(&share), "{runs} runs: {share}");
        }
    }

    proptest! {
        #[test]
        fn seconds_and_milliseconds_have_the_same_relative_errors(
            times in proptest::collection::vec(0.5f64..2.0, 1..30), typical in proptest::option::of(0.001f64..0.2)
        ) {
            let one = TimeEstimate::of(&times, typical).unwrap();
            let scaled: Vec<f64> = times.iter().map(|time| time * 1000.0).collect();
            let other = TimeEstimate::of(&scaled, typical).unwrap();
            prop_assert!((other.time / one.time - 1000.0).abs() < 1e-6);
            let same = |one: Option<f64>, other: Option<f64>| match (one, other) {
                (Some(one), Some(other)) => (one - other).abs() < 1e-9,
                (one, other) => one == other,
            };
            prop_assert!(same(one.spread, other.spread));
            prop_assert!(same(one.error, other.error));
        }

        #[test]
        fn the_order_of_runs_does_not_matter(times in proptest::collection::vec(0.5f64..2.0, 1..20)) {
            let mut reversed = times.clone();
            reversed.reverse();
            let (one, other) = (TimeEstimate::of(&times, None), TimeEstimate::of(&reversed, None));
            prop_assert_eq!(one.map(|one| one.time), other.map(|other| other.time));
        }
    }
}
