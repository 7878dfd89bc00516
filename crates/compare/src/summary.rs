//! The statistics of the times of one variant.

use pinfold_core::measurement::Median;
use pinfold_core::statistics::Estimate;

/// The mean of some values, and their variation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; `None` for a single value.
    pub deviation: Option<f64>,
    /// The median.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// The summary of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let number = values.len() as f64;
        let deviation = |mean: Estimate| (mean.variance * number).sqrt();
        Some(Self {
            mean: values.iter().sum::<f64>() / number,
            deviation: Estimate::from_independent(values).map(deviation),
            median: Median::of(values.iter().copied())?.value,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_sample_standard_deviation() {
        let summary = Summary::of(&[3.0, 1.0, 2.0, 6.0]).unwrap();
        assert_eq!(
            (summary.mean, summary.median, summary.min, summary.max),
            (3.0, 2.5, 1.0, 6.0)
        );
        // The squares of the deviations are 0, 4, 1 and 9.
        assert!((summary.deviation.unwrap() - (14.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_single_value_has_no_deviation_and_no_values_have_no_summary() {
        assert_eq!(Summary::of(&[2.0]).unwrap().deviation, None);
        assert_eq!(Summary::of(&[]), None);
    }
}
