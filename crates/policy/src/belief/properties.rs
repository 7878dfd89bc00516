//! Properties of any belief: conditioning one trial after the other is the same as solving for all of them at once.

use super::examples::{LENGTHS, belief, point};
use super::kernel::{Kernel, Lengths};
use super::point::Point;
use super::posterior::{Posterior, Trial};
use super::prior::{Belief, Prior};
use pinfold_core::{PageMapping, ThreadMap};
use proptest::prelude::*;
use std::sync::Arc;

const PAGES: [PageMapping; 3] = [PageMapping::Locality, PageMapping::Balance, PageMapping::Interleave];

fn any_point() -> impl Strategy<Value = Point> {
    let shares = (1u32..=16, 1u32..=16, 1u32..=2);
    (shares, any::<bool>(), 0usize..PAGES.len(), 0u8..16).prop_map(|((cores, nodes, siblings), scatter, pages, off)| {
        let cores = f64::from(cores) / 16.0;
        Point {
            threads: cores * f64::from(siblings),
            cores,
            nodes: f64::from(nodes) / 16.0,
            thread_map: if scatter {
                ThreadMap::Scatter
            } else {
                ThreadMap::Compact
            },
            page_map: PAGES[pages],
            prefetch: format!("{off:04b}").parse().unwrap(),
            ..point(1.0)
        }
    })
}

fn any_lengths() -> impl Strategy<Value = Lengths> {
    (0.2f64..4.0, 0.2f64..4.0, 0.2f64..4.0).prop_map(|(shares, maps, prefetch)| Lengths {
        threads: shares,
        cores: shares,
        nodes: shares,
        thread_map: maps,
        page_map: maps,
        prefetch,
        ..LENGTHS
    })
}

/// A point with its mean, its two factors and its residual.
fn listed() -> impl Strategy<Value = (Point, f64, [f64; 2], f64)> {
    (any_point(), -1.5f64..1.0, [-0.8f64..0.8, -0.8f64..0.8], 0.0f64..0.1)
}

fn any_belief() -> impl Strategy<Value = Belief> {
    let kernel = (0.0f64..=1.0, 0.0f64..1.0, any_lengths());
    (proptest::collection::vec(listed(), 1..12), kernel).prop_map(|(listed, (weight, variance, lengths))| Belief {
        points: listed.iter().map(|one| one.0.clone()).collect(),
        mean: listed.iter().map(|one| one.1).collect(),
        factors: listed.iter().map(|one| one.2.to_vec()).collect(),
        residual: listed.iter().map(|one| one.3).collect(),
        kernel: Kernel {
            weight,
            variance,
            lengths,
        },
        ..belief()
    })
}

fn different(points: Vec<Point>) -> Vec<Point> {
    let mut kept: Vec<Point> = vec![];
    for point in points {
        if !kept.contains(&point) {
            kept.push(point);
        }
    }
    kept
}

/// A belief about at least two configurations. Some are listed, and some are not.
pub(super) fn any_prior() -> impl Strategy<Value = Arc<Prior>> {
    (any_belief(), proptest::collection::vec(any_point(), 2..10)).prop_filter_map(
        "two configurations",
        |(belief, more)| {
            let points = different(belief.points.iter().cloned().chain(more).collect());
            (points.len() > 1).then(|| Arc::new(belief.over(points, "new")))
        },
    )
}

/// Trials of configurations, some against another one; positions count modulo the number of configurations.
pub(super) fn any_trials() -> impl Strategy<Value = Vec<(usize, Option<usize>, f64, f64)>> {
    let trial = (0usize..64, proptest::option::of(1usize..64), -2.0f64..2.0, 1e-4f64..0.1);
    proptest::collection::vec(trial, 1..25)
}

pub(super) fn among(trials: Vec<(usize, Option<usize>, f64, f64)>, number: usize) -> Vec<Trial> {
    let trial = |(of, apart, log, variance): (usize, Option<usize>, f64, f64)| Trial {
        of: of % number,
        // From 1 to the number minus 1 further, so never the same.
        against: apart.map(|apart| (of + 1 + apart % (number - 1)) % number),
        log,
        variance,
    };
    trials.into_iter().map(trial).collect()
}

/// Solves `matrix x = right` by elimination with the largest pivot.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let number = right.len();
    for step in 0..number {
        let pivot = (step..number).max_by(|&one, &other| matrix[one][step].abs().total_cmp(&matrix[other][step].abs()));
        let pivot = pivot.unwrap();
        matrix.swap(step, pivot);
        right.swap(step, pivot);
        let from = matrix[step].clone();
        for below in step + 1..number {
            let factor = matrix[below][step] / from[step];
            for (left, from) in matrix[below].iter_mut().zip(&from) {
                *left -= factor * from;
            }
            right[below] -= factor * right[step];
        }
    }
    for step in (0..number).rev() {
        let known: f64 = (step + 1..number)
            .map(|column| matrix[step][column] * right[column])
            .sum();
        right[step] = (right[step] - known) / matrix[step][step];
    }
    right
}

/// By trial: its covariance with a configuration.
fn with_trials(prior: &Prior, trials: &[Trial], one: usize) -> Vec<f64> {
    let other = |trial: &Trial| trial.against.map_or(0.0, |other| prior.covariance(other, one));
    trials
        .iter()
        .map(|trial| prior.covariance(trial.of, one) - other(trial))
        .collect()
}

/// The mean and the covariances of all configurations after all trials, from the dense matrices.
fn dense(prior: &Prior, trials: &[Trial]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let number = prior.points().len();
    let by_point: Vec<Vec<f64>> = (0..number).map(|one| with_trials(prior, trials, one)).collect();
    let of_trial = |values: &dyn Fn(usize) -> f64, trial: &Trial| values(trial.of) - trial.against.map_or(0.0, values);
    let matrix: Vec<Vec<f64>> = trials
        .iter()
        .enumerate()
        .map(|(row, one)| {
            let entry = |(column, trial): (usize, &Trial)| {
                let noise = if row == column { one.variance } else { 0.0 };
                of_trial(&|point| by_point[point][row], trial) + noise
            };
            trials.iter().enumerate().map(entry).collect()
        })
        .collect();
    let surprises = trials
        .iter()
        .map(|trial| trial.log - of_trial(&|point| prior.mean()[point], trial));
    let weights = solve(matrix.clone(), surprises.collect());
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    let mean = (0..number)
        .map(|one| prior.mean()[one] + dot(&by_point[one], &weights))
        .collect();
    let covariances = (0..number)
        .map(|one| {
            let solved = solve(matrix.clone(), by_point[one].clone());
            (0..number)
                .map(|other| prior.covariance(one, other) - dot(&by_point[other], &solved))
                .collect()
        })
        .collect();
    (mean, covariances)
}

pub(super) fn conditioned(prior: &Arc<Prior>, trials: &[Trial]) -> Posterior {
    let mut posterior = Posterior::new(prior.clone());
    for &trial in trials {
        posterior.learn(trial).unwrap();
    }
    posterior
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-7 * (1.0 + one.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn trials_one_after_the_other_are_a_dense_solve(prior in any_prior(), trials in any_trials()) {
        let trials = among(trials, prior.points().len());
        let posterior = conditioned(&prior, &trials);
        let (mean, covariances) = dense(&prior, &trials);
        for one in 0..prior.points().len() {
            prop_assert!(near(posterior.believed(one).mean, mean[one]), "{} {}", posterior.believed(one).mean, mean[one]);
            prop_assert!(near(posterior.believed(one).variance, covariances[one][one]));
            for (other, covariance) in posterior.covariances(one).into_iter().enumerate() {
                prop_assert!(near(covariance, covariances[one][other]));
                let between = covariances[one][one] + covariances[other][other] - 2.0 * covariances[one][other];
                prop_assert!(near(posterior.between(one, other).variance, between));
            }
        }
    }

    #[test]
    fn the_order_of_trials_does_not_matter(prior in any_prior(), trials in any_trials()) {
        let mut trials = among(trials, prior.points().len());
        let one = conditioned(&prior, &trials);
        trials.reverse();
        let other = conditioned(&prior, &trials);
        for point in 0..prior.points().len() {
            prop_assert!(near(one.believed(point).mean, other.believed(point).mean));
            prop_assert!(near(one.believed(point).variance, other.believed(point).variance));
        }
    }

    #[test]
    fn a_trial_leaves_no_configuration_less_certain(prior in any_prior(), trials in any_trials()) {
        let mut posterior = Posterior::new(prior.clone());
        for trial in among(trials, prior.points().len()) {
            let before = posterior.clone();
            let lesson = posterior.learn(trial).unwrap();
            prop_assert!(lesson.after.variance <= lesson.before.variance + 1e-9);
            prop_assert!(lesson.after.variance <= trial.variance + 1e-9, "no worse than the trial alone");
            for one in 0..prior.points().len() {
                prop_assert!(posterior.believed(one).variance <= before.believed(one).variance);
            }
        }
    }

    #[test]
    fn a_sum_over_configurations_has_no_negative_variance(
        prior in any_prior(), weights in proptest::collection::vec(-1.0f64..1.0, 32),
    ) {
        let all = 0..prior.points().len();
        let rows = all.clone().map(|one| {
            let covariances = prior.covariances(one);
            weights[one] * all.clone().map(|other| weights[other] * covariances[other]).sum::<f64>()
        });
        prop_assert!(rows.sum::<f64>() >= -1e-9);
    }

    #[test]
    fn a_mean_is_between_the_listed_ones_and_a_listed_one_is_its_own(belief in any_belief(), point in any_point()) {
        let (least, greatest) = belief.mean.iter().fold((f64::MAX, f64::MIN), |(least, greatest), &mean| {
            (least.min(mean), greatest.max(mean))
        });
        let mean = belief.over(vec![point], "new").mean()[0];
        prop_assert!(mean >= least - 1e-9 && mean <= greatest + 1e-9);
        for (number, point) in belief.points.iter().enumerate() {
            if belief.points.iter().filter(|other| *other == point).count() == 1 {
                let prior = belief.over(vec![point.clone()], "new");
                prop_assert!((prior.mean()[0] - belief.mean[number]).abs() < 1e-6);
            }
        }
    }
}
