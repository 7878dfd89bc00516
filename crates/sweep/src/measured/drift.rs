//! The drift of the machine in the course of a sweep: a factor that all configurations have in common at one time.
//!
//! The logarithm of a time is the level of its configuration, plus the drift at that time, plus noise.
//!
//! 1. Between two sessions the machine may have changed at once, or it is another computer. The configurations that run
//!    in several sessions give the level of each session: levels of configurations and of sessions are medians of what
//!    the others leave, in turns.
//! 2. The level of a configuration is the median of its runs without the drift, which is zero at first. The residual of
//!    a run is its distance from that level. A configuration with a single run has none. The unpinned program and the
//!    baseline run in every block, so there are residuals from the first blocks on.
//! 3. The drift at a run is the median of the nearest residuals in time, of the same session. The median keeps steps, and
//!    single disturbed runs do not move it. At both ends of a session, where the nearest are on one side, it follows their
//!    slope (Theil, "A rank-invariant method of linear and polynomial regression analysis", 1950).
//! 4. These steps are repeated until nothing changes much.
//!
//! The drift is removed only if it is there: neighbouring residuals must resemble each other more than the same residuals
//! in random orders do (the ratio of von Neumann, "Distribution of the ratio of the mean square successive difference to
//! the variance", 1941, with a permutation test). Otherwise the noise of a few runs would be added to all times.
//!
//! Limit: what happens within the nearest residuals, such as a change in each second run, is noise.

use pinfold_core::measurement::Median;
use pinfold_core::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// The drift at a run is the median of this many residuals: before it, at it, and after it.
const NEAREST: usize = 9;

/// Levels and drift are estimated this often in turns. They converge geometrically.
const TURNS: usize = 6;

/// With fewer residuals no drift is looked for.
const FEWEST: usize = 10;

/// Random orders of the residuals, and how many of them may have a lower ratio: 1 %.
const ORDERS: usize = 299;
const LOWER: usize = 2;

/// A run as the drift sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedRun {
    /// The configuration's position.
    pub job: usize,
    /// The session: one start of the sweep on one computer.
    pub session: u64,
    /// When it began, in seconds.
    pub at: f64,
    /// Its time in seconds.
    pub time: f64,
}

/// The drift of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// By run: the time divided by this is without drift. All are 1 if no drift was found.
    pub factors: Vec<f64>,
    /// The largest factor over the smallest, minus one; 0 without drift.
    pub size: f64,
    /// The last factors over the first ones, minus one: below zero if runs became faster.
    pub trend: f64,
}

impl Drift {
    /// The drift of these runs.
    pub fn of(runs: &[TimedRun]) -> Self {
        let none = || Self {
            factors: vec![1.0; runs.len()],
            size: 0.0,
            trend: 0.0,
        };
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by(|&one, &other| {
            let key = |run: usize| (runs[run].session, runs[run].at);
            key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal)
        });
        let repeated = repeated(runs);
        if repeated.iter().filter(|&&has| has).count() < FEWEST {
            return none();
        }
        let logarithms: Vec<f64> = runs.iter().map(|run| run.time.ln()).collect();
        let mut drift = vec![0.0; runs.len()];
        let first = residuals(runs, &logarithms, &drift);
        let in_order: Vec<f64> = order
            .iter()
            .copied()
            .filter(|&run| repeated[run])
            .map(|run| first[run])
            .collect();
        if !is_ordered(&in_order) {
            return none();
        }
        let levels = session_levels(runs, &logarithms);
        let logarithms: Vec<f64> = logarithms.iter().zip(&levels).map(|(one, level)| one - level).collect();
        for _ in 0..TURNS {
            let residuals = residuals(runs, &logarithms, &drift);
            drift = smooth(runs, &order, &repeated, &residuals);
        }
        let drift: Vec<f64> = drift.iter().zip(&levels).map(|(one, level)| one + level).collect();
        let Some(middle) = Median::of(drift.iter().copied()) else {
            return none();
        };
        let factors: Vec<f64> = drift.iter().map(|one| (one - middle.value).exp()).collect();
        let in_time: Vec<f64> = by_time(runs, &order).map(|run| factors[run]).collect();
        let (least, most) = factors.iter().fold((f64::INFINITY, 0.0f64), |(least, most), &factor| {
            (least.min(factor), most.max(factor))
        });
        Self {
            size: most / least - 1.0,
            trend: trend(&in_time),
            factors,
        }
    }
}

/// By run: whether its configuration has another one.
fn repeated(runs: &[TimedRun]) -> Vec<bool> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for run in runs {
        *counts.entry(run.job).or_default() += 1;
    }
    runs.iter().map(|run| counts[&run.job] > 1).collect()
}

/// By run: the level of its session.
fn session_levels(runs: &[TimedRun], logarithms: &[f64]) -> Vec<f64> {
    let mut sessions: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for run in runs {
        sessions.entry(run.job).or_default().insert(run.session);
    }
    let shared: Vec<usize> = (0..runs.len())
        .filter(|&run| sessions[&runs[run].job].len() > 1)
        .collect();
    let mut levels: BTreeMap<u64, f64> = BTreeMap::new();
    let level = |levels: &BTreeMap<u64, f64>, run: usize| levels.get(&runs[run].session).copied().unwrap_or(0.0);
    for _ in 0..TURNS {
        let of_jobs = medians(
            shared
                .iter()
                .map(|&run| (runs[run].job, logarithms[run] - level(&levels, run))),
        );
        levels = medians(
            shared
                .iter()
                .map(|&run| (runs[run].session, logarithms[run] - of_jobs[&runs[run].job])),
        );
    }
    (0..runs.len()).map(|run| level(&levels, run)).collect()
}

/// The median of the values of each key.
fn medians<K: Ord>(values: impl Iterator<Item = (K, f64)>) -> BTreeMap<K, f64> {
    let mut by_key: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    for (key, value) in values {
        by_key.entry(key).or_default().push(value);
    }
    let median = |values: Vec<f64>| Median::of(values).map_or(0.0, |median| median.value);
    by_key.into_iter().map(|(key, values)| (key, median(values))).collect()
}

/// By run: its distance from the level of its configuration.
fn residuals(runs: &[TimedRun], logarithms: &[f64], drift: &[f64]) -> Vec<f64> {
    let values = runs.iter().zip(logarithms).zip(drift);
    let levels = medians(values.map(|((run, logarithm), drift)| (run.job, logarithm - drift)));
    let runs = runs.iter().zip(logarithms);
    runs.map(|(run, logarithm)| logarithm - levels[&run.job]).collect()
}

/// By run: the median of the nearest residuals of its session. `order` has the runs by session and time.
fn smooth(runs: &[TimedRun], order: &[usize], repeated: &[bool], residuals: &[f64]) -> Vec<f64> {
    let mut drift = vec![0.0; runs.len()];
    for session in order.chunk_by(|&one, &other| runs[one].session == runs[other].session) {
        let known: Vec<usize> = session.iter().copied().filter(|&run| repeated[run]).collect();
        for &run in session {
            let at = known.partition_point(|&other| runs[other].at < runs[run].at);
            let width = NEAREST.min(known.len());
            let from = at.saturating_sub(NEAREST / 2).min(known.len() - width);
            let nearest = &known[from..from + width];
            let median = |value: &dyn Fn(usize) -> f64| {
                Median::of(nearest.iter().map(|&other| value(other))).map_or(0.0, |median| median.value)
            };
            let ahead = runs[run].at - median(&|other| runs[other].at);
            let (least, most) = nearest
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &other| {
                    (residuals[other].min(least), residuals[other].max(most))
                });
            let there = median(&|other| residuals[other]) + ahead * slope(runs, nearest, residuals);
            // The slope of noise leads nowhere.
            drift[run] = if least <= most { there.clamp(least, most) } else { 0.0 };
        }
    }
    drift
}

/// The median of the slopes between all pairs of residuals.
fn slope(runs: &[TimedRun], nearest: &[usize], residuals: &[f64]) -> f64 {
    let pairs = nearest.iter().enumerate();
    let slopes = pairs.flat_map(|(place, &one)| {
        let later = nearest[place + 1..].iter();
        later.map(move |&other| (residuals[other] - residuals[one]) / (runs[other].at - runs[one].at))
    });
    Median::of(slopes.filter(|slope| slope.is_finite())).map_or(0.0, |median| median.value)
}

/// The runs by time, over all sessions.
fn by_time<'a>(runs: &'a [TimedRun], order: &[usize]) -> impl Iterator<Item = usize> + use<'a> {
    let mut order = order.to_vec();
    order.sort_by(|&one, &other| runs[one].at.total_cmp(&runs[other].at));
    order.into_iter()
}

/// The mean of the last quarter over the mean of the first one, minus one.
fn trend(factors: &[f64]) -> f64 {
    let quarter = factors.len().div_ceil(4);
    let mean = |factors: &[f64]| factors.iter().sum::<f64>() / factors.len() as f64;
    mean(&factors[factors.len() - quarter..]) / mean(&factors[..quarter]) - 1.0
}

/// Whether neighbouring residuals resemble each other more than in random orders.
fn is_ordered(residuals: &[f64]) -> bool {
    let steps = |residuals: &[f64]| -> f64 { residuals.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum() };
    let found = steps(residuals);
    // The seed is fixed, so that the same runs give the same answer.
    let mut random = Random::new(0);
    let mut shuffled = residuals.to_vec();
    let mut lower = 0;
    for _ in 0..ORDERS {
        for last in (1..shuffled.len()).rev() {
            shuffled.swap(last, random.below(last + 1));
        }
        lower += usize::from(steps(&shuffled) <= found);
    }
    lower <= LOWER
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs of `jobs` configurations in `rounds` rounds of random order. `drift` gives the factor at a share of the
    /// sweep; configuration `n` takes `n + 1` seconds.
    fn sweep(jobs: usize, rounds: usize, noise: f64, seed: u64, drift: impl Fn(f64) -> f64) -> Vec<TimedRun> {
        let mut random = Random::new(seed);
        let mut runs = vec![];
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..jobs).collect();
            for last in (1..jobs).rev() {
                order.swap(last, random.below(last + 1));
            }
            for (place, job) in order.into_iter().enumerate() {
                let number = round * jobs + place;
                let factor = drift(number as f64 / (rounds * jobs) as f64);
                runs.push(TimedRun {
                    job,
                    session: 1,
                    at: number as f64,
                    time: (job + 1) as f64 * factor * (1.0 + noise * random.normal()),
                });
            }
        }
        runs
    }

    /// The largest relative distance of corrected times from the true ones, up to a common factor.
    fn worst(runs: &[TimedRun], drift: &Drift) -> f64 {
        let ratios: Vec<f64> = runs
            .iter()
            .zip(&drift.factors)
            .map(|(run, factor)| run.time / factor / (run.job + 1) as f64)
            .collect();
        let middle = Median::of(ratios.iter().copied()).unwrap().value;
        ratios
            .iter()
            .map(|ratio| (ratio / middle - 1.0).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn a_machine_that_becomes_slower_does_not_change_the_ratios_of_configurations() {
        let runs = sweep(6, 8, 0.0, 1, |share| 1.0 + 0.3 * share);
        let drift = Drift::of(&runs);
        assert!((0.2..0.35).contains(&drift.size), "{}", drift.size);
        assert!(drift.trend > 0.15, "{}", drift.trend);
        assert!(worst(&runs, &drift) < 0.05, "{}", worst(&runs, &drift));
    }

    #[test]
    fn a_step_is_kept_sharp_by_the_median() {
        let runs = sweep(5, 10, 0.001, 3, |share| if share < 0.5 { 1.0 } else { 1.2 });
        let drift = Drift::of(&runs);
        assert!((0.18..0.23).contains(&drift.size), "{}", drift.size);
        let wrong = runs
            .iter()
            .zip(&drift.factors)
            .filter(|(run, factor)| (run.time / *factor / (run.job + 1) as f64 / 1.095 - 1.0).abs() > 0.11);
        assert!(wrong.count() <= 4);
    }

    #[test]
    fn runs_that_become_faster_have_a_falling_trend() {
        let runs = sweep(4, 8, 0.002, 5, |share| 1.0 + 0.5 * (-5.0 * share).exp());
        assert!(Drift::of(&runs).trend < -0.1);
    }

    #[test]
    fn another_session_is_another_level() {
        let mut runs = sweep(5, 8, 0.002, 9, |_| 1.0);
        for run in &mut runs[20..] {
            run.session = 2;
            run.time *= 1.5;
        }
        let drift = Drift::of(&runs);
        assert!((drift.size - 0.5).abs() < 0.02, "{}", drift.size);
        assert!(worst(&runs, &drift) < 0.02);
    }

    #[test]
    fn noise_alone_is_left_alone_nearly_always() {
        let found = (0..200).filter(|&seed| Drift::of(&sweep(6, 5, 0.03, seed, |_| 1.0)).size > 0.0);
        let found = found.count();
        assert!(found <= 8, "{found} of 200");
    }

    #[test]
    fn single_runs_of_configurations_are_corrected_by_the_references() {
        // Configurations 0 and 1 run in every block of six, the others once.
        let mut runs = vec![];
        for block in 0..10 {
            for (place, job) in [0, 2 + 4 * block, 3 + 4 * block, 1, 4 + 4 * block, 5 + 4 * block]
                .into_iter()
                .enumerate()
            {
                let at = (6 * block + place) as f64;
                let time = (job + 1) as f64 * (1.0 + 0.01 * at);
                runs.push(TimedRun {
                    job,
                    session: 1,
                    at,
                    time,
                });
            }
        }
        let drift = Drift::of(&runs);
        assert!(worst(&runs, &drift) < 0.12, "{}", worst(&runs, &drift));
        assert!(drift.size > 0.35, "{}", drift.size);
    }

    proptest! {
        #[test]
        fn a_run_has_a_factor_that_does_not_depend_on_the_unit(
            jobs in 1usize..6, rounds in 0usize..6, seed in 0u64..1000, slope in -0.5f64..1.0
        ) {
            let runs = sweep(jobs, rounds, 0.01, seed, |share| 1.0 + slope * share);
            let drift = Drift::of(&runs);
            prop_assert_eq!(drift.factors.len(), runs.len());
            prop_assert!(drift.factors.iter().all(|factor| factor.is_finite() && *factor > 0.0));
            let scaled: Vec<TimedRun> = runs.iter().map(|run| TimedRun { time: run.time * 1024.0, ..*run }).collect();
            let other = Drift::of(&scaled);
            for (one, other) in drift.factors.iter().zip(&other.factors) {
                prop_assert!((one - other).abs() < 1e-6);
            }
        }
    }
}
