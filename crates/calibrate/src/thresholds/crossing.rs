//! Finds the rate where a curve of gains reaches a substantial gain. Pure.
//!
//! A measured gain is not exact, but the true gain cannot fall while the rate grows. So neighbours that contradict this
//! are replaced by their mean before the crossing is computed.

/// A substantial gain (section 2.1).
pub(super) const GAIN: f64 = 0.05;
/// The rate must grow by at least this factor over the curve. Threads that share all the time do so hundreds of times
/// as often as threads that hardly share.
const GROWTH: f64 = 10.0;

/// The crossing of `GAIN`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Crossing {
    /// At this rate.
    At(f64),
    /// The gain is always less.
    Never,
    /// The gain is always more.
    Always,
    /// The rate does not grow with sharing, or nothing was counted: the events do not show sharing.
    Unrelated,
}

/// The rate where the gain reaches `GAIN`, from pairs of a rate and a gain, by interpolation along the logarithm of the
/// rate.
pub(super) fn crossing(points: impl Iterator<Item = (f64, f64)>) -> Crossing {
    let points: Vec<(f64, f64)> = points.collect();
    let least = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.0).fold(0.0, f64::max);
    if most <= GROWTH * least {
        return Crossing::Unrelated;
    }
    let (rates, gains): (Vec<f64>, Vec<f64>) = by_rate(points.into_iter()).into_iter().unzip();
    let gains = ascending(&gains);
    if gains[0] >= GAIN {
        return Crossing::Always;
    }
    let Some(after) = gains.iter().position(|&gain| gain >= GAIN) else {
        return Crossing::Never;
    };
    let before = after - 1;
    let share = (GAIN - gains[before]) / (gains[after] - gains[before]);
    let (low, high) = (rates[before].ln(), rates[after].ln());
    Crossing::At((low + share * (high - low)).exp())
}

/// The points with counts, in ascending order of the rate. The others have no position on a logarithmic axis.
pub(super) fn by_rate(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut counted: Vec<(f64, f64)> = points.filter(|&(rate, _)| rate > 0.0).collect();
    counted.sort_by(|one, other| one.0.total_cmp(&other.0));
    counted
}

/// The non-decreasing values that are nearest to these in the sum of squares: decreasing neighbours get their mean
/// (pool adjacent violators; Ayer and others, "An empirical distribution function for sampling with incomplete
/// information", 1955).
fn ascending(values: &[f64]) -> Vec<f64> {
    // Sum and number of each pool.
    let mut pools: Vec<(f64, usize)> = vec![];
    let mean = |pool: (f64, usize)| pool.0 / pool.1 as f64;
    for &value in values {
        let mut pool = (value, 1);
        while let Some(&last) = pools.last().filter(|&&last| mean(last) > mean(pool)) {
            pool = (pool.0 + last.0, pool.1 + last.1);
            pools.pop();
        }
        pools.push(pool);
    }
    pools
        .into_iter()
        .flat_map(|pool| std::iter::repeat_n(mean(pool), pool.1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RISING: [(f64, f64); 4] = [(1e-5, 0.0), (1e-4, 0.02), (1e-2, 0.08), (2e-2, 0.2)];

    fn rate(points: &[(f64, f64)]) -> f64 {
        match crossing(points.iter().copied()) {
            Crossing::At(rate) => rate,
            other => panic!("{other:?} of {points:?}"),
        }
    }

    #[test]
    fn the_threshold_is_where_the_curve_passes_five_percent() {
        let threshold = rate(&RISING);
        assert!((threshold / 1e-3 - 1.0).abs() < 1e-9, "{threshold}");
    }

    #[test]
    fn the_order_of_the_points_does_not_matter() {
        let turned = crossing(RISING.into_iter().rev());
        assert_eq!(turned, crossing(RISING.into_iter()));
    }

    #[test]
    fn a_curve_that_does_not_pass_it_has_no_crossing() {
        let of = |pairs: &[(f64, f64)]| crossing(pairs.iter().copied());
        assert_eq!(of(&[(1e-5, 0.0), (1e-4, 0.02), (1e-3, 0.04)]), Crossing::Never);
        assert_eq!(of(&[(1e-5, 0.06), (1e-4, 0.08), (1e-3, 0.2)]), Crossing::Always);
    }

    #[test]
    fn rates_that_do_not_grow_with_sharing_do_not_show_it() {
        let of = |pairs: &[(f64, f64)]| crossing(pairs.iter().copied());
        assert_eq!(of(&[(0.0, 0.0), (0.0, 0.3)]), Crossing::Unrelated);
        assert_eq!(of(&[(1e-7, 0.0), (3e-7, 0.02), (2e-7, 0.9)]), Crossing::Unrelated);
        assert_eq!(of(&[]), Crossing::Unrelated);
    }

    #[test]
    fn one_disturbed_point_is_no_crossing() {
        let disturbed = [
            (1e-6, 0.0),
            (1e-5, 0.07),
            (2e-5, 0.01),
            (3e-5, 0.0),
            (1e-3, 0.04),
            (1e-2, 0.2),
        ];
        let threshold = rate(&disturbed);
        assert!(1e-3 < threshold && threshold < 1e-2, "{threshold}");
    }

    #[test]
    fn neighbours_that_fall_get_their_mean() {
        assert_eq!(ascending(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        assert_eq!(ascending(&[1.0, 4.0, 2.0, 3.0, 9.0]), [1.0, 3.0, 3.0, 3.0, 9.0]);
        assert_eq!(ascending(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        assert_eq!(ascending(&[]), [0.0; 0]);
    }
}
