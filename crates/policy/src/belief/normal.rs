//! The normal distribution, and the expected change of a time whose logarithm is normal.

use std::f64::consts::TAU;

/// Beyond this number of standard deviations a chance counts as none: it is below 1e-15.
const FAR: f64 = 8.0;

/// The density of the standard normal distribution.
fn density(at: f64) -> f64 {
    (-0.5 * at * at).exp() / TAU.sqrt()
}

/// The chance that a standard normal number is at most `at`. The error is below 7.5e-8 (Abramowitz and Stegun, Handbook
/// of Mathematical Functions, 1964, formula 26.2.17).
pub(super) fn chance_below(at: f64) -> f64 {
    const SCALE: f64 = 0.231_641_9;
    const POWERS: [f64; 5] = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let t = 1.0 / (1.0 + SCALE * at.abs());
    let above = density(at) * t * POWERS.iter().rev().fold(0.0, |sum, power| sum * t + power);
    if at < 0.0 { above } else { 1.0 - above }
}

/// The expected share of a time that is saved where its logarithm changes by a normal number: the mean of `1 - exp(d)`
/// over all `d` below zero, with zero for the others.
///
/// The share that is expected to be lost, relative to the new time, is the same with `-mean`.
pub(super) fn saved_share(mean: f64, variance: f64) -> f64 {
    let deviation = variance.max(0.0).sqrt();
    if mean > FAR * deviation {
        return 0.0;
    }
    if deviation == 0.0 {
        return -mean.exp_m1();
    }
    let chance = chance_below(-mean / deviation);
    let remaining = (mean + 0.5 * variance).exp() * chance_below(-mean / deviation - deviation);
    // What remains of a time is at most all of it, which rounding may miss. For a variance of hundreds it is nothing
    // times infinity, and the limit of that is nothing.
    chance - remaining.max(0.0).min(chance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chances_are_those_of_the_tables() {
        for (at, chance) in [
            (0.0, 0.5),
            (1.0, 0.841_344_7),
            (-1.0, 0.158_655_3),
            (1.96, 0.975_002_1),
            (-3.0, 0.001_349_9),
        ] {
            assert!((chance_below(at) - chance).abs() < 1e-7, "{at}");
        }
    }

    #[test]
    fn what_is_certain_saves_its_own_share_or_nothing() {
        assert!((saved_share(-1.0, 0.0) - (1.0 - (-1f64).exp())).abs() < 1e-12);
        assert_eq!(saved_share(0.3, 0.0).to_bits(), 0f64.to_bits());
        assert_eq!(saved_share(3.0, 0.01).to_bits(), 0f64.to_bits());
    }

    /// The mean of `1 - exp(d)` over negative `d`, in small steps.
    fn summed(mean: f64, variance: f64) -> f64 {
        let (steps, deviation) = (40_000u32, variance.sqrt());
        let width = 20.0 * deviation / f64::from(steps);
        let middle = |step: u32| -10.0 * deviation + (f64::from(step) + 0.5) * width;
        let share = |d: f64| if d < 0.0 { -d.exp_m1() } else { 0.0 };
        (0..steps)
            .map(|step| share(mean + middle(step)) * density(middle(step) / deviation) / deviation * width)
            .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_saved_share_is_the_mean_over_all_changes(mean in -3.0f64..3.0, variance in 1e-4f64..4.0) {
            prop_assert!((saved_share(mean, variance) - summed(mean, variance)).abs() < 1e-5);
        }

        #[test]
        fn the_saved_share_is_a_share_for_any_numbers(mean in -1e3f64..1e3, variance in 0.0f64..1e6) {
            let share = saved_share(mean, variance);
            prop_assert!((0.0..=1.0).contains(&share), "{share}");
        }

        #[test]
        fn more_doubt_about_the_same_mean_saves_no_less_where_it_is_not_faster(
            mean in 0.0f64..2.0, variance in 1e-3f64..1.0, more in 1.0f64..4.0,
        ) {
            prop_assert!(saved_share(mean, more * variance) >= saved_share(mean, variance) - 1e-6);
        }
    }
}
