//! The drift of a program's speed while it is measured: input that becomes harder, a processor that becomes hotter,
//! load of other programs that comes and goes.
//!
//! A measurement is modelled as `log time = configuration + drift(at) + noise`. The drift is a broken line over the time
//! of the survey. Its heights are fitted by least squares after the mean of each configuration has been taken from both
//! sides (the within transformation of fixed effects; Wooldridge, "Econometric Analysis of Cross Section and Panel
//! Data", section 10.5). So only differences between measurements of the same configuration count, and a configuration
//! that was measured in a slow part of the program does not look slow. A small penalty on bends keeps the line straight
//! where no configuration was measured twice. Measurements that fit badly count less (Huber, "Robust Estimation of a
//! Location Parameter", 1964), because a disturbance is no drift.

use pinfold_core::measurement::Median;
use std::collections::BTreeMap;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    /// The configuration.
    pub(super) cell: usize,
    /// When, in seconds.
    pub(super) at: f64,
    /// The logarithm of the time.
    pub(super) log: f64,
}

/// Measurements for each knot of the line, and the most knots.
const PER_KNOT: usize = 5;
const MOST_KNOTS: usize = 16;

/// The weight of bends, over the mean weight of a knot's measurements.
const STIFFNESS: f64 = 0.05;

/// Huber's constant: 95 % as efficient as least squares for normal noise.
const HUBER: f64 = 1.345;

/// The number of times that weights are computed again.
const ROUNDS: usize = 5;

/// The drift as a broken line.
#[derive(Debug, Default)]
pub(super) struct Drift {
    first: f64,
    /// The time between two knots.
    step: f64,
    heights: Vec<f64>,
}

impl Drift {
    /// The drift of these measurements. It is zero on average, and everywhere if no configuration was measured twice.
    pub(super) fn of(measurements: &[Timed]) -> Self {
        let mut cells: BTreeMap<usize, Vec<Timed>> = BTreeMap::new();
        for &one in measurements {
            cells.entry(one.cell).or_default().push(one);
        }
        cells.retain(|_, turns| turns.len() > 1);
        let repeated: usize = cells.values().map(Vec::len).sum();
        let times = || cells.values().flatten().map(|one| one.at);
        let (first, last) = (times().fold(f64::MAX, f64::min), times().fold(f64::MIN, f64::max));
        // Each repeated configuration has one mean, which is not a part of the drift.
        let free = repeated - cells.len();
        if free < 2 || last <= first {
            return Self::default();
        }
        let knots = (free / PER_KNOT).clamp(2, MOST_KNOTS);
        let mut drift = Self {
            first,
            step: (last - first) / (knots - 1) as f64,
            heights: vec![0.0; knots],
        };
        let mut deviation = f64::INFINITY;
        for _ in 0..ROUNDS {
            let weight = |residual: f64| (HUBER * deviation / residual.abs()).min(1.0);
            drift.heights = drift.fitted(&cells, weight);
            deviation = 1.4826 * median(drift.residuals(&cells));
            if deviation < 1e-12 {
                break;
            }
        }
        let all = measurements.len() as f64;
        let mean = measurements.iter().map(|one| drift.at(one.at)).sum::<f64>() / all;
        for height in &mut drift.heights {
            *height -= mean;
        }
        drift
    }

    /// The drift at a time, as a logarithm.
    pub(super) fn at(&self, at: f64) -> f64 {
        self.shares(at).map(|(knot, share)| share * self.heights[knot]).sum()
    }

    /// The number of fitted values. The level of the line is none.
    pub(super) fn parameters(&self) -> usize {
        self.heights.len().saturating_sub(1)
    }

    /// The highest time over the lowest, minus one.
    pub(super) fn range(&self) -> f64 {
        let highest = self.heights.iter().copied().fold(0.0, f64::max);
        let lowest = self.heights.iter().copied().fold(0.0, f64::min);
        (highest - lowest).exp_m1()
    }

    /// The knots beside a time, with their shares. Before the first knot and after the last the line is level.
    fn shares(&self, at: f64) -> impl Iterator<Item = (usize, f64)> + use<> {
        let last = self.heights.len().saturating_sub(1);
        let place = ((at - self.first) / self.step).clamp(0.0, last as f64);
        let left = place.floor();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small number from 0 on, or NaN without a knot"
        )]
        let knot = left as usize;
        let shares = [(knot, 1.0 - (place - left)), (knot + 1, place - left)];
        let known = self.heights.len();
        shares.into_iter().filter(move |&(knot, _)| knot < known)
    }

    /// The residuals of all repeated measurements, as absolute values.
    fn residuals(&self, cells: &BTreeMap<usize, Vec<Timed>>) -> Vec<f64> {
        let of_cell = |turns: &Vec<Timed>| {
            let rests: Vec<f64> = turns.iter().map(|one| one.log - self.at(one.at)).collect();
            let middle = median(rests.iter().copied());
            rests
                .into_iter()
                .map(move |rest| (rest - middle).abs())
                .collect::<Vec<f64>>()
        };
        cells.values().flat_map(of_cell).collect()
    }

    /// The heights of the knots that fit best. `weight` is of a measurement's residual under the present heights.
    fn fitted(&self, cells: &BTreeMap<usize, Vec<Timed>>, weight: impl Fn(f64) -> f64) -> Vec<f64> {
        let knots = self.heights.len();
        let mut matrix = vec![vec![0.0; knots]; knots];
        let mut side = vec![0.0; knots];
        for turns in cells.values() {
            let rests: Vec<f64> = turns.iter().map(|one| one.log - self.at(one.at)).collect();
            let middle = median(rests.iter().copied());
            let weights: Vec<f64> = rests.iter().map(|rest| weight(rest - middle)).collect();
            let rows: Vec<Vec<f64>> = turns
                .iter()
                .map(|one| {
                    let mut row = vec![0.0; knots];
                    for (knot, share) in self.shares(one.at) {
                        row[knot] += share;
                    }
                    row
                })
                .collect();
            let all: f64 = weights.iter().sum();
            let mean = |value: &dyn Fn(usize) -> f64| {
                (0..turns.len()).map(|turn| weights[turn] * value(turn)).sum::<f64>() / all
            };
            let log = mean(&|turn| turns[turn].log);
            let row: Vec<f64> = (0..knots).map(|knot| mean(&|turn| rows[turn][knot])).collect();
            for (turn, one) in turns.iter().enumerate() {
                let centred: Vec<f64> = (0..knots).map(|knot| rows[turn][knot] - row[knot]).collect();
                for (line, left) in matrix.iter_mut().zip(&centred) {
                    for (cell, right) in line.iter_mut().zip(&centred) {
                        *cell += weights[turn] * left * right;
                    }
                }
                for (cell, left) in side.iter_mut().zip(&centred) {
                    *cell += weights[turn] * left * (one.log - log);
                }
            }
        }
        let mean = (0..knots).map(|knot| matrix[knot][knot]).sum::<f64>() / knots as f64;
        for middle in 1..knots.saturating_sub(1) {
            let bend = [(middle - 1, 1.0), (middle, -2.0), (middle + 1, 1.0)];
            for (line, left) in bend {
                for (column, right) in bend {
                    matrix[line][column] += STIFFNESS * mean * left * right;
                }
            }
        }
        // The level of the line is free.
        for (knot, line) in matrix.iter_mut().enumerate() {
            line[knot] += 1e-9 * mean.max(f64::MIN_POSITIVE);
        }
        solved(matrix, side)
    }
}

/// The median; 0 without a value.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Median::of(values).map_or(0.0, |median| median.value)
}

/// The solution of `matrix * x = side` for a positive definite matrix, by Gaussian elimination.
fn solved(mut matrix: Vec<Vec<f64>>, mut side: Vec<f64>) -> Vec<f64> {
    let size = side.len();
    for pivot in 0..size {
        let (above, below) = matrix.split_at_mut(pivot + 1);
        let row = &above[pivot];
        for (line, lower) in (pivot + 1..).zip(below) {
            let factor = lower[pivot] / row[pivot];
            for (value, of_pivot) in lower.iter_mut().zip(row) {
                *value -= factor * of_pivot;
            }
            side[line] -= factor * side[pivot];
        }
    }
    for pivot in (0..size).rev() {
        let known: f64 = (pivot + 1..size)
            .map(|column| matrix[pivot][column] * side[column])
            .sum();
        side[pivot] = (side[pivot] - known) / matrix[pivot][pivot];
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::random::Random;
    use proptest::prelude::*;

    /// Rounds of configurations in random order, one measurement a second.
    fn rounds(
        cells: usize,
        rounds: usize,
        seed: u64,
        mut log: impl FnMut(usize, f64, &mut Random) -> f64,
    ) -> Vec<Timed> {
        let mut random = Random::new(seed);
        let mut order: Vec<usize> = (0..cells).collect();
        let mut measurements = vec![];
        for _ in 0..rounds {
            random.shuffle(&mut order);
            for &cell in &order {
                let at = measurements.len() as f64;
                measurements.push(Timed {
                    cell,
                    at,
                    log: log(cell, at, &mut random),
                });
            }
        }
        measurements
    }

    #[test]
    fn without_a_repetition_there_is_no_drift() {
        let drift = Drift::of(&rounds(5, 1, 1, |cell, at, _| cell as f64 + at));
        assert!(
            drift.at(0.0).abs() < f64::EPSILON && drift.range().abs() < f64::EPSILON,
            "{drift:?}"
        );
        assert!(Drift::of(&[]).range().abs() < f64::EPSILON);
    }

    #[test]
    fn a_steady_drift_is_found_exactly() {
        let drift = Drift::of(&rounds(6, 4, 3, |cell, at, _| 0.1 * cell as f64 + 0.02 * at));
        for at in [0.0, 5.0, 11.0, 23.0] {
            assert!(
                (drift.at(at) - drift.at(0.0) - 0.02 * at).abs() < 1e-6,
                "{at}: {}",
                drift.at(at)
            );
        }
    }

    #[test]
    fn a_disturbed_measurement_is_no_drift() {
        let drift = Drift::of(&rounds(8, 5, 3, |_, at, random| {
            let disturbed = if (17.0..19.0).contains(&at) { 1.5 } else { 0.0 };
            disturbed + 0.002 * random.normal()
        }));
        assert!(drift.range() < 0.02, "{}", drift.range());
    }

    proptest! {
        #[test]
        fn a_smooth_drift_is_found_whatever_the_configurations_are(
            seed in any::<u64>(),
            number in 4usize..12,
            depth in 0.0f64..0.3,
        ) {
            let logs: Vec<f64> = (0..number).map(|cell| (cell * 7 % 5) as f64).collect();
            let length = (number * 6) as f64;
            let true_drift = |at: f64| depth * (at / length * 3.0).sin();
            let measured = rounds(number, 6, seed, |cell, at, random| logs[cell] + true_drift(at) + 0.003 * random.normal());
            let drift = Drift::of(&measured);
            let level = measured.iter().map(|one| true_drift(one.at)).sum::<f64>() / measured.len() as f64;
            let errors = measured.iter().map(|one| (drift.at(one.at) - (true_drift(one.at) - level)).powi(2));
            let error = (errors.sum::<f64>() / measured.len() as f64).sqrt();
            prop_assert!(error < 0.004 + 0.12 * depth, "{error} of {depth}");
        }

        #[test]
        fn any_measurements_have_a_drift_that_is_a_number(
            measured in proptest::collection::vec((0usize..5, 0.0f64..10.0, -5.0f64..5.0), 0..40),
        ) {
            let measured: Vec<Timed> = measured.into_iter().map(|(cell, at, log)| Timed { cell, at, log }).collect();
            let drift = Drift::of(&measured);
            prop_assert!(measured.iter().all(|one| drift.at(one.at).is_finite()), "{drift:?}");
        }
    }
}
