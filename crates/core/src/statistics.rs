//! Estimates of rates from readings, with their uncertainty.
//!
//! Consecutive readings are correlated: a slow phase of a program lasts longer than one reading. If they were treated
//! as independent, all differences would seem certain. So their first-order autocorrelation is estimated, and their
//! number is reduced to the number of independent readings with the same information.
//!
//! Limits: one autocorrelation describes the whole process, which is assumed to be AR(1). A process with a period of
//! many readings is not AR(1).

/// The standard deviation of normal numbers over the median of their absolute deviations.
pub const DEVIATION_OVER_MAD: f64 = 1.4826;

/// The rate between two consecutive samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// When the second of the samples was taken, in seconds.
    pub at: f64,
    /// The metric's unit per second.
    pub rate: f64,
}

/// An estimated rate with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimated value.
    pub value: f64,
    /// The variance of `value`.
    pub variance: f64,
    /// The degrees of freedom of `variance`.
    pub degrees_of_freedom: f64,
}

impl Estimate {
    /// The mean of values that do not depend on each other, such as the times of several runs; `None` for fewer than
    /// two.
    pub fn from_independent(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let (number, value) = (values.len() as f64, mean(values.iter().copied()));
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        Some(Self {
            value,
            variance: squares / ((number - 1.0) * number),
            degrees_of_freedom: number - 1.0,
        })
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let number = values.len() as f64;
    values.sum::<f64>() / number
}

/// The sample standard deviation over the mean; `None` for fewer than two readings and for a mean of zero.
pub fn coefficient_of_variation(readings: &[Reading]) -> Option<f64> {
    if readings.len() < 2 {
        return None;
    }
    let mean = mean(readings.iter().map(|reading| reading.rate));
    if mean == 0.0 {
        return None;
    }
    let squares: f64 = readings.iter().map(|reading| (reading.rate - mean).powi(2)).sum();
    Some((squares / (readings.len() - 1) as f64).sqrt() / mean)
}

/// The effective number of these values, from their deviations from the mean or the trend: `n (1 - rho) / (1 + rho)`
/// for an AR(1) process (Bayley and Hammersley, "The Effective Number of Independent Observations in an Autocorrelated
/// Time Series", 1946). `rho` is corrected for the bias of its estimate, about `-(1 + 4 rho) / n` (Marriott and Pope,
/// "Bias in the Estimation of Autocorrelations", 1954). A negative `rho` counts as zero, because alternation adds no
/// certainty. `None` for fewer than five values.
fn effective_number(deviations: &[f64]) -> Option<f64> {
    let number = deviations.len() as f64;
    if deviations.len() < 5 {
        return None;
    }
    let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    if squares == 0.0 {
        return Some(number);
    }
    let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let rho = ((products / squares + 1.0 / number) / (1.0 - 4.0 / number)).clamp(0.0, 1.0);
    Some(number * (1.0 - rho) / (1.0 + rho))
}

/// The mean of the readings. `None` when there are too few of them, or too few independent ones.
pub fn level(readings: &[Reading]) -> Option<Estimate> {
    let value = mean(readings.iter().map(|reading| reading.rate));
    let deviations: Vec<f64> = readings.iter().map(|reading| reading.rate - value).collect();
    let independent = effective_number(&deviations)?;
    let degrees_of_freedom = independent - 1.0;
    if degrees_of_freedom < 1.0 {
        return None;
    }
    // sigma^2 is the sum of squares over n - n / independent, and the mean's variance is sigma^2 / independent.
    let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    Some(Estimate {
        value,
        variance: squares / (readings.len() as f64 * degrees_of_freedom),
        degrees_of_freedom,
    })
}

/// The extrapolation of the readings: their level at the last one, plus `horizon` seconds of the slope of the straight
/// line through them if that rises. A falling slope is not extrapolated. `None` as for `level`.
pub fn outlook(readings: &[Reading], horizon: f64) -> Option<Estimate> {
    let number = readings.len() as f64;
    let last = readings.last()?.at;
    let middle = mean(readings.iter().map(|reading| reading.at));
    let height = mean(readings.iter().map(|reading| reading.rate));
    let times: f64 = readings.iter().map(|reading| (reading.at - middle).powi(2)).sum();
    if times == 0.0 {
        return None;
    }
    let slope: f64 = readings
        .iter()
        .map(|reading| (reading.at - middle) * (reading.rate - height))
        .sum::<f64>()
        / times;
    let residuals: Vec<f64> = readings
        .iter()
        .map(|reading| reading.rate - height - slope * (reading.at - middle))
        .collect();
    let independent = effective_number(&residuals)?;
    let degrees_of_freedom = independent - 2.0;
    if degrees_of_freedom < 1.0 {
        return None;
    }
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let variance = squares * independent / (number * degrees_of_freedom);
    let ahead = last + horizon - middle;
    Some(Estimate {
        value: height + slope.max(0.0) * ahead,
        // Height and slope of a least-squares line are uncorrelated at the middle of its times.
        variance: variance / independent + ahead * ahead * variance / times * (number / independent),
        degrees_of_freedom,
    })
}

/// The probability of this difference or a larger one if `low` were in truth not below `high`: the p-value of Welch's
/// one-sided test, with the degrees of freedom of Welch and Satterthwaite.
pub fn chance_of_not_lower(low: &Estimate, high: &Estimate) -> f64 {
    let variance = low.variance + high.variance;
    let difference = high.value - low.value;
    if variance == 0.0 {
        return if difference > 0.0 { 0.0 } else { 1.0 };
    }
    let degrees_of_freedom = variance.powi(2)
        / (low.variance.powi(2) / low.degrees_of_freedom + high.variance.powi(2) / high.degrees_of_freedom);
    upper_tail_of_t(difference / variance.sqrt(), degrees_of_freedom)
}

/// The probability of this difference or a larger one, in either direction, if both were in truth equal: the p-value of
/// Welch's two-sided test.
pub fn chance_of_equal(one: &Estimate, other: &Estimate) -> f64 {
    let smaller = chance_of_not_lower(one, other).min(chance_of_not_lower(other, one));
    (2.0 * smaller).min(1.0)
}

/// The probability that the true value is above the estimate by more than `error`.
pub fn chance_of_error(estimate: &Estimate, error: f64) -> f64 {
    if estimate.variance == 0.0 {
        return 0.0;
    }
    upper_tail_of_t(error / estimate.variance.sqrt(), estimate.degrees_of_freedom)
}

/// Half the width of the interval around the estimate that has the true value with a probability of 95 %.
pub fn half_width(estimate: &Estimate) -> f64 {
    const ABOVE: f64 = 0.025;
    // The quantile of Student's t with one degree of freedom, the largest, is 12.7.
    const MOST: f64 = 16.0;
    let deviation = estimate.variance.sqrt();
    let (mut below, mut above) = (0.0, MOST);
    // Each step halves the interval; these leave less than the precision of a double.
    for _ in 0..60 {
        let middle = 0.5 * (below + above);
        if upper_tail_of_t(middle, estimate.degrees_of_freedom) > ABOVE {
            below = middle;
        } else {
            above = middle;
        }
    }
    above * deviation
}

/// The probability that Student's t with these degrees of freedom exceeds `t`. It is related to the regularised
/// incomplete beta function: `P(T > t) = I_x(v/2, 1/2) / 2` with `x = v / (v + t^2)` for `t >= 0` (Abramowitz and
/// Stegun, 26.7.1).
fn upper_tail_of_t(t: f64, degrees_of_freedom: f64) -> f64 {
    let x = degrees_of_freedom / (degrees_of_freedom + t * t);
    let tail = 0.5 * incomplete_beta(x, 0.5 * degrees_of_freedom, 0.5);
    if t >= 0.0 { tail } else { 1.0 - tail }
}

/// The regularised incomplete beta function `I_x(a, b)` by its continued fraction (DLMF 8.17.22), which converges
/// fast for `x` below `(a + 1) / (a + b + 2)`; above, by the symmetry `I_x(a, b) = 1 - I_{1-x}(b, a)`.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    front / continued_fraction(x, a, b)
}

/// `1 + d_1 / (1 + d_2 / (1 + …))` of DLMF 8.17.22, evaluated from the front by Lentz's method.
#[expect(clippy::many_single_char_names, reason = "the names of the formula")]
fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    // A denominator of zero is replaced by this, as the method prescribes.
    const TINY: f64 = 1e-300;
    // Convergence takes about sqrt(max(a, b)) steps; a probe has thousands of readings at most.
    const STEPS: u32 = 500;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut fraction, mut c, mut d) = (1.0, 1.0, 0.0);
    for step in 1..=STEPS {
        let m = f64::from(step / 2);
        let coefficient = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / guard(1.0 + coefficient * d);
        c = guard(1.0 + coefficient / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    fraction
}

/// The logarithm of the gamma function for `x > 0`, by Stirling's series (DLMF 5.11.1). The recurrence `gamma(x + 1) =
/// x gamma(x)` first raises the argument to where five terms are exact to double precision.
fn ln_gamma(x: f64) -> f64 {
    const LARGE_ENOUGH: f64 = 15.0;
    let mut z = x;
    let mut product = 1.0;
    while z < LARGE_ENOUGH {
        product *= z;
        z += 1.0;
    }
    let inverse_square = 1.0 / (z * z);
    let series = 1.0 / 12.0
        - inverse_square
            * (1.0 / 360.0
                - inverse_square * (1.0 / 1260.0 - inverse_square * (1.0 / 1680.0 - inverse_square / 1188.0)));
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * std::f64::consts::PI).ln() + series / z - product.ln()
}

/// The number of equal steps whose total varies as much as that of steps with this sum and this sum of squares: Kish's
/// effective sample size, `sum^2 / squares`. Zero without a step.
pub fn effective_steps(sum: f64, squares: f64) -> f64 {
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn readings(rates: &[f64]) -> Vec<Reading> {
        let times = (1u32..).map(f64::from);
        rates
            .iter()
            .zip(times)
            .map(|(&rate, at)| Reading { at, rate })
            .collect()
    }

    /// Numbers that look normal enough for these tests: sums of twelve uniform ones, from a congruential generator
    /// with the constants of Knuth's MMIX.
    fn normal(state: &mut u64) -> f64 {
        let mut uniform = || {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (*state >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }

    /// An AR(1) process around `mean` with standard deviation 1.
    fn process(number: usize, mean: f64, rho: f64, state: &mut u64) -> Vec<Reading> {
        let mut value = normal(state);
        let rates: Vec<f64> = (0..number)
            .map(|_| {
                value = rho * value + (1.0 - rho * rho).sqrt() * normal(state);
                mean + value
            })
            .collect();
        readings(&rates)
    }

    #[test]
    fn the_tail_of_students_t_agrees_with_the_published_table() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: upper critical values of Student's t.
        for (degrees_of_freedom, tail, critical) in [
            (1.0, 0.10, 3.078),
            (1.0, 0.01, 31.821),
            (2.0, 0.05, 2.920),
            (5.0, 0.05, 2.015),
            (5.0, 0.01, 3.365),
            (10.0, 0.025, 2.228),
            (10.0, 0.001, 4.144),
            (30.0, 0.01, 2.457),
            (100.0, 0.01, 2.364),
            (100.0, 0.001, 3.174),
        ] {
            let found = upper_tail_of_t(critical, degrees_of_freedom);
            assert!(
                (found / tail - 1.0).abs() < 2e-3,
                "t = {critical}, {degrees_of_freedom}: {found}"
            );
        }
    }

    #[test]
    fn the_tail_has_its_closed_forms_for_one_and_two_degrees_of_freedom() {
        for t in [0.0, 0.3, 1.0, 5.0, 200.0] {
            let cauchy = 0.5 - f64::atan(t) / std::f64::consts::PI;
            assert!((upper_tail_of_t(t, 1.0) - cauchy).abs() < 1e-12, "{t}");
            let two = 0.5 - t / (2.0 * (2.0 + t * t).sqrt());
            assert!((upper_tail_of_t(t, 2.0) - two).abs() < 1e-12, "{t}");
        }
    }

    #[test]
    fn the_logarithm_of_gamma_is_that_of_the_factorials_and_of_the_half() {
        let mut factorial = 1.0f64;
        for number in 1..30 {
            assert!((ln_gamma(f64::from(number)) - factorial.ln()).abs() < 1e-12, "{number}");
            factorial *= f64::from(number);
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn both_tails_add_up_to_one_and_fall_with_t(t in 0.0f64..50.0, degrees_of_freedom in 1.0f64..500.0) {
            let upper = upper_tail_of_t(t, degrees_of_freedom);
            prop_assert!((0.0..=0.5).contains(&upper));
            prop_assert!((upper + upper_tail_of_t(-t, degrees_of_freedom) - 1.0).abs() < 1e-12);
            prop_assert!(upper_tail_of_t(t + 0.1, degrees_of_freedom) <= upper);
        }
    }

    #[test]
    fn welchs_test_agrees_with_a_worked_example() {
        // Two samples without autocorrelation, means 10 and 12, variances of the means 0.5 and 0.25 with 4 and 9
        // degrees of freedom: t = 2 / sqrt(0.75) = 2.3094, Welch and Satterthwaite give 0.75^2 / (0.25/4 + 0.0625/9) =
        // 8.1.
        let low = Estimate {
            value: 10.0,
            variance: 0.5,
            degrees_of_freedom: 4.0,
        };
        let high = Estimate {
            value: 12.0,
            variance: 0.25,
            degrees_of_freedom: 9.0,
        };
        let expected = upper_tail_of_t(2.0 / 0.75f64.sqrt(), 8.1);
        assert!((chance_of_not_lower(&low, &high) - expected).abs() < 1e-12);
        assert!((chance_of_not_lower(&high, &low) - (1.0 - expected)).abs() < 1e-12);
    }

    #[test]
    fn the_two_sided_test_of_independent_values_agrees_with_a_worked_example() {
        // Means 3 and 6, variances of the means 2.5 / 5 and 10 / 5, with 4 degrees of freedom each: t = 3 / sqrt(2.5),
        // and 2.5^2 / (0.25/4 + 4/4) = 5.88 degrees of freedom.
        let one = Estimate::from_independent(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let other = Estimate::from_independent(&[2.0, 4.0, 6.0, 8.0, 10.0]).unwrap();
        let expected = 2.0 * upper_tail_of_t(3.0 / 2.5f64.sqrt(), 6.25 / 1.0625);
        assert!((chance_of_equal(&one, &other) - expected).abs() < 1e-12);
        assert!((chance_of_equal(&other, &one) - expected).abs() < 1e-12);
        assert!((chance_of_equal(&one, &one) - 1.0).abs() < 1e-12);
        assert_eq!(Estimate::from_independent(&[1.0]), None);
    }

    #[test]
    fn equal_values_without_noise_are_equal_and_others_are_not() {
        let exact = |value: f64| Estimate::from_independent(&[value, value]).unwrap();
        assert!((chance_of_equal(&exact(1.0), &exact(1.0)) - 1.0).abs() < 1e-12);
        assert!(chance_of_equal(&exact(1.0), &exact(2.0)) < 1e-12);
    }

    #[test]
    fn the_half_width_is_the_quantile_of_the_published_table_times_the_standard_error() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, for 0.025.
        for (degrees_of_freedom, critical) in [(1.0, 12.706), (2.0, 4.303), (9.0, 2.262), (100.0, 1.984)] {
            let found = half_width(&Estimate {
                value: 5.0,
                variance: 4.0,
                degrees_of_freedom,
            });
            assert!(
                (found / (2.0 * critical) - 1.0).abs() < 5e-4,
                "{degrees_of_freedom}: {found}"
            );
        }
    }

    #[test]
    fn the_spread_is_the_sample_standard_deviation_over_the_mean() {
        let spread = coefficient_of_variation(&readings(&[9.0, 10.0, 11.0])).unwrap();
        assert!((spread - 0.1).abs() < 1e-12);
        assert_eq!(coefficient_of_variation(&readings(&[9.0])), None);
        assert_eq!(coefficient_of_variation(&readings(&[0.0, 0.0])), None);
    }

    #[test]
    fn too_few_readings_give_no_estimate() {
        assert_eq!(level(&readings(&[1.0, 2.0, 3.0, 4.0])), None);
        assert_eq!(outlook(&[], 1.0), None);
    }

    #[test]
    fn readings_on_a_straight_line_are_carried_on_with_its_slope_but_not_downwards() {
        let rising = outlook(&readings(&[10.0, 11.0, 12.0, 13.0, 14.0, 15.0]), 4.0).unwrap();
        assert!((rising.value - 19.0).abs() < 1e-9, "{rising:?}");
        let falling = outlook(&readings(&[15.0, 14.0, 13.0, 12.0, 11.0, 10.0]), 4.0).unwrap();
        assert!((falling.value - 12.5).abs() < 1e-9, "{falling:?}");
    }

    /// The share of 4000 trials that find a difference between two equal processes at 1 %.
    fn false_alarms(rho: f64, number: usize) -> usize {
        let mut state = 1;
        let mut alarm = || {
            let one = level(&process(number, 100.0, rho, &mut state));
            let other = level(&process(number, 100.0, rho, &mut state));
            matches!((one, other), (Some(one), Some(other)) if chance_of_not_lower(&one, &other) < 0.01)
        };
        (0..4000).filter(|_| alarm()).count()
    }

    #[test]
    fn the_test_keeps_its_level_for_readings_that_resemble_their_neighbours() {
        for (rho, number) in [(0.0, 10), (0.0, 100), (0.5, 20), (0.5, 100), (0.8, 100), (0.9, 300)] {
            let alarms = false_alarms(rho, number);
            assert!(alarms <= 60, "rho {rho}, {number} readings: {alarms} in 4000 at 1 %");
        }
    }

    #[test]
    fn the_test_sees_a_difference_that_is_there() {
        let mut state = 7;
        let low = level(&process(100, 100.0, 0.5, &mut state)).unwrap();
        let high = level(&process(100, 102.0, 0.5, &mut state)).unwrap();
        assert!(chance_of_not_lower(&low, &high) < 0.01);
        assert!(chance_of_not_lower(&high, &low) > 0.99);
    }
}
