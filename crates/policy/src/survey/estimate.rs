//! From the measurements of a subject to the time in each configuration, with its uncertainty.
//!
//! The time is the median of the measurements, from each of which the drift has been taken. Its standard error is
//! `sqrt(pi / 2) s / sqrt(n)`, the asymptotic one for normal noise. A few measurements know their own scatter badly, so
//! `s` is moderated: the scatter of all configurations counts as `PRIOR` further degrees of freedom (Smyth, "Linear
//! Models and Empirical Bayes Methods for Assessing Differential Expression in Microarray Experiments", 2004, section
//! 4.1).

use super::drift::{Drift, Timed, median};
use super::results::Turn;
use pinfold_core::statistics::{DEVIATION_OVER_MAD, Estimate, half_width};
use std::collections::BTreeMap;

/// The weight of the common scatter, in degrees of freedom.
const PRIOR: f64 = 4.0;

/// From this number of measurements on, their own scatter is taken from the median absolute deviation, which one
/// disturbed measurement does not change.
const ROBUST: usize = 5;

/// A configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) seconds: f64,
    pub(super) error: Option<f64>,
    pub(super) spread: Option<f64>,
    pub(super) measurements: usize,
}

/// All configurations of a subject, and its drift.
#[derive(Debug)]
pub(super) struct Estimated {
    pub(super) cells: BTreeMap<usize, Cell>,
    pub(super) drift: f64,
}

/// The times of a subject's configurations. All runs of the program that have measured it are linked (`sessions`).
pub(super) fn estimate(turns: &[Turn]) -> Estimated {
    let timed: Vec<Timed> = turns
        .iter()
        .map(|turn| Timed {
            cell: turn.configuration,
            session: turn.session,
            at: turn.at.as_secs_f64(),
            log: (turn.seconds / turn.units).ln(),
        })
        .collect();
    let drift = Drift::of(&timed);
    let mut cells: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for one in &timed {
        cells.entry(one.cell).or_default().push(one.log - drift.at(one));
    }
    // The fitted drift has taken a part of the scatter with it.
    let free = (timed.len() - cells.len()) as f64;
    let taken = (free / (free - drift.parameters() as f64).max(1.0)).max(1.0);
    let common = taken * common_variance(cells.values());
    let cell = |logs: &Vec<f64>| {
        let number = logs.len() as f64;
        let freedom = number - 1.0;
        let middle = median(logs.iter().copied());
        let several = (logs.len() > 1).then(|| {
            let variance = (PRIOR * common + freedom * taken * own_variance(logs, middle)) / (PRIOR + freedom);
            let error = half_width(&Estimate {
                value: middle,
                variance: std::f64::consts::FRAC_PI_2 * variance / number,
                degrees_of_freedom: PRIOR + freedom,
            });
            (error, DEVIATION_OVER_MAD * deviation(logs, middle))
        });
        let (error, spread) = several.unzip();
        Cell {
            seconds: middle.exp(),
            error,
            spread,
            measurements: logs.len(),
        }
    };
    Estimated {
        cells: cells.iter().map(|(&number, logs)| (number, cell(logs))).collect(),
        drift: drift.range(),
    }
}

/// The median absolute deviation.
fn deviation(logs: &[f64], middle: f64) -> f64 {
    median(logs.iter().map(|log| (log - middle).abs()))
}

/// The variance of one configuration's measurements.
fn own_variance(logs: &[f64], middle: f64) -> f64 {
    if logs.len() >= ROBUST {
        return (DEVIATION_OVER_MAD * deviation(logs, middle)).powi(2);
    }
    let number = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / number;
    logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (number - 1.0)
}

/// The variance of all configurations together, robust against disturbed measurements.
fn common_variance<'a>(cells: impl Iterator<Item = &'a Vec<f64>>) -> f64 {
    let mut residuals = vec![];
    for logs in cells.filter(|logs| logs.len() > 1) {
        let middle = median(logs.iter().copied());
        let mut its: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
        its.sort_by(f64::total_cmp);
        // The median's own residual is zero, or nearly, and says nothing.
        residuals.extend(&its[1..]);
    }
    (DEVIATION_OVER_MAD * median(residuals)).powi(2)
}

#[cfg(test)]
mod tests {
    use super::super::results::{Subject, THIS_RUN};
    use super::*;
    use pinfold_core::random::Random;
    use std::time::Duration;

    fn turn(configuration: usize, at: f64, seconds: f64) -> Turn {
        Turn {
            subject: Subject::Program,
            configuration,
            session: THIS_RUN,
            at: Duration::from_secs_f64(at),
            units: 10.0,
            seconds: 10.0 * seconds,
            counts: None,
        }
    }

    #[test]
    fn one_measurement_has_a_time_and_no_error() {
        let cell = estimate(&[turn(3, 1.0, 0.5)]).cells[&3];
        assert!((cell.seconds - 0.5).abs() < 1e-12, "{cell:?}");
        assert_eq!((cell.error, cell.spread, cell.measurements), (None, None, 1));
    }

    #[test]
    fn a_disturbed_measurement_changes_neither_the_time_nor_the_others_intervals_much() {
        let mut random = Random::new(4);
        let mut turns = vec![];
        for round in 0..8 {
            for configuration in 0..6 {
                let disturbed = if (round, configuration) == (3, 2) { 3.0 } else { 1.0 };
                let seconds = 0.1 * (1.0 + configuration as f64) * disturbed * (0.01 * random.normal()).exp();
                turns.push(turn(configuration, turns.len() as f64, seconds));
            }
        }
        let estimated = estimate(&turns);
        for (&configuration, cell) in &estimated.cells {
            let wanted = 0.1 * (1.0 + configuration as f64);
            assert!((cell.seconds / wanted - 1.0).abs() < 0.02, "{configuration}: {cell:?}");
            assert!(cell.error < Some(0.03), "{configuration}: {cell:?}");
        }
    }

    #[test]
    fn intervals_hold_the_true_time_in_95_of_100_cases() {
        for measurements in [3usize, 6, 12] {
            let (mut held, mut all) = (0.0, 0.0);
            for seed in 0..200 {
                let mut random = Random::new(seed);
                let mut turns = vec![];
                for _ in 0..measurements {
                    for configuration in 0..8 {
                        turns.push(turn(configuration, turns.len() as f64, (0.02 * random.normal()).exp()));
                    }
                }
                for cell in estimate(&turns).cells.values() {
                    all += 1.0;
                    held += f64::from(u8::from((cell.seconds - 1.0).abs() <= cell.error.unwrap()));
                }
            }
            assert!((0.92..=0.985).contains(&(held / all)), "{measurements}: {}", held / all);
        }
    }
}
