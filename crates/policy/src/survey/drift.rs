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
//!
//! Each run of the program has a line of its own. The configurations that were measured in several runs fix the levels
//! of these lines: a run on another day may be faster as a whole.

use pinfold_core::measurement::Median;
use pinfold_core::statistics::DEVIATION_OVER_MAD;
use std::collections::BTreeMap;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    /// The configuration.
    pub(super) cell: usize,
    /// The run of the program.
    pub(super) session: u64,
    /// When in this run, in seconds.
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

/// The drift as a broken line for each run of the program.
#[derive(Debug, Default)]
pub(super) struct Drift {
    lines: BTreeMap<u64, Line>,
    /// The heights of all knots.
    heights: Vec<f64>,
}

/// The knots of one run.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The position of its first height, and the number of its heights.
    knot: usize,
    knots: usize,
    /// The time of the first knot.
    first: f64,
    /// The time between two knots.
    step: f64,
}

impl Drift {
    /// The drift of these measurements. It is zero on average, and everywhere if no configuration was measured twice.
    pub(super) fn of(measurements: &[Timed]) -> Self {
        let mut cells: BTreeMap<usize, Vec<Timed>> = BTreeMap::new();
        for &one in measurements {
            cells.entry(one.cell).or_default().push(one);
        }
        cells.retain(|_, turns| turns.len() > 1);
        let Some(mut drift) = Self::level(&cells) else {
            return Self::default();
        };
        let mut deviation = f64::INFINITY;
        for _ in 0..ROUNDS {
            let weight = |residual: f64| (HUBER * deviation / residual.abs()).min(1.0);
            drift.heights = drift.fitted(&cells, weight);
            deviation = DEVIATION_OVER_MAD * median(drift.residuals(&cells));
            if deviation < 1e-12 {
                break;
            }
        }
        let all = measurements.len() as f64;
        let mean = measurements.iter().map(|one| drift.at(one)).sum::<f64>() / all;
        for height in &mut drift.heights {
            *height -= mean;
        }
        drift
    }

    /// Lines of height zero for these repeated measurements; `None` if there are too few of them.
    fn level(cells: &BTreeMap<usize, Vec<Timed>>) -> Option<Self> {
        // By run: the time of the first and the last measurement, and the number of measurements without the means of
        // the configurations, which are not a part of the drift.
        let mut runs: BTreeMap<u64, (f64, f64, f64)> = BTreeMap::new();
        for turns in cells.values() {
            for one in turns {
                let (first, last, free) = runs.entry(one.session).or_insert((f64::MAX, f64::MIN, 0.0));
                *first = first.min(one.at);
                *last = last.max(one.at);
                *free += 1.0 - (turns.len() as f64).recip();
            }
        }
        let mut drift = Self::default();
        let is_single = runs.len() == 1;
        for (session, (first, last, free)) in runs {
            // A run among several has a level of its own even if nothing is known of its drift.
            let bends = last > first && free >= if is_single { 1.5 } else { PER_KNOT as f64 };
            if is_single && !bends {
                return None;
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of measurements"
            )]
            let free = free.round() as usize;
            let knots = if bends {
                (free / PER_KNOT).clamp(2, MOST_KNOTS)
            } else {
                1
            };
            let line = Line {
                knot: drift.heights.len(),
                knots,
                first,
                step: (last - first).max(f64::MIN_POSITIVE) / (knots - 1).max(1) as f64,
            };
            drift.lines.insert(session, line);
            drift.heights.resize(line.knot + knots, 0.0);
        }
        (!drift.lines.is_empty()).then_some(drift)
    }

    /// The drift at a measurement, as a logarithm.
    pub(super) fn at(&self, one: &Timed) -> f64 {
        self.shares(one).map(|(knot, share)| share * self.heights[knot]).sum()
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

    /// The knots beside a measurement, with their shares. Before the first knot of its run and after the last the line is
    /// level.
    fn shares(&self, one: &Timed) -> impl Iterator<Item = (usize, f64)> + use<> {
        let shares = self.lines.get(&one.session).map(|line| {
            let last = line.knots - 1;
            let place = ((one.at - line.first) / line.step).clamp(0.0, last as f64);
            let left = place.floor();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small number from 0 on"
            )]
            let knot = left as usize;
            let shares = [(knot, 1.0 - (place - left)), (knot + 1, place - left)];
            let line = *line;
            let known = shares.into_iter().filter(move |&(knot, _)| knot < line.knots);
            known.map(move |(knot, share)| (line.knot + knot, share))
        });
        shares.into_iter().flatten()
    }

    /// The residuals of all repeated measurements, as absolute values.
    fn residuals(&self, cells: &BTreeMap<usize, Vec<Timed>>) -> Vec<f64> {
        let of_cell = |turns: &Vec<Timed>| {
            let rests: Vec<f64> = turns.iter().map(|one| one.log - self.at(one)).collect();
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
            let rests: Vec<f64> = turns.iter().map(|one| one.log - self.at(one)).collect();
            let middle = median(rests.iter().copied());
            let weights: Vec<f64> = rests.iter().map(|rest| weight(rest - middle)).collect();
            let rows: Vec<Vec<f64>> = turns
                .iter()
                .map(|one| {
                    let mut row = vec![0.0; knots];
                    for (knot, share) in self.shares(one) {
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
        let inner = |line: &Line| line.knot + 1..(line.knot + line.knots).saturating_sub(1);
        for middle in self.lines.values().flat_map(inner) {
            let bend = [(middle - 1, 1.0), (middle, -2.0), (middle + 1, 1.0)];
            for (line, left) in bend {
                for (column, right) in bend {
                    matrix[line][column] += STIFFNESS * mean * left * right;
                }
            }
        }
        // The level of all lines together is free.
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
                    session: 0,
                    at,
                    log: log(cell, at, &mut random),
                });
            }
        }
        measurements
    }

    fn at(drift: &Drift, at: f64) -> f64 {
        drift.at(&Timed {
            cell: 0,
            session: 0,
            at,
            log: 0.0,
        })
    }

    #[test]
    fn without_a_repetition_there_is_no_drift() {
        let drift = Drift::of(&rounds(5, 1, 1, |cell, at, _| cell as f64 + at));
        assert!(
            at(&drift, 0.0).abs() < f64::EPSILON && drift.range().abs() < f64::EPSILON,
            "{drift:?}"
        );
        assert!(Drift::of(&[]).range().abs() < f64::EPSILON);
    }

    #[test]
    fn a_steady_drift_is_found_exactly() {
        let drift = Drift::of(&rounds(6, 4, 3, |cell, at, _| 0.1 * cell as f64 + 0.02 * at));
        for when in [0.0, 5.0, 11.0, 23.0] {
            assert!(
                (at(&drift, when) - at(&drift, 0.0) - 0.02 * when).abs() < 1e-6,
                "{when}: {}",
                at(&drift, when)
            );
        }
    }

    #[test]
    fn a_run_that_is_slower_as_a_whole_has_a_level_of_its_own_and_a_drift_of_its_own() {
        let mut all = rounds(6, 4, 3, |cell, at, _| 0.1 * cell as f64 + 0.02 * at);
        // On another day everything takes twice as long, and nothing drifts. One configuration was not measured then.
        let slower = rounds(6, 3, 4, |cell, _, _| 0.1 * cell as f64 + std::f64::consts::LN_2);
        let on_another_day = slower.into_iter().filter(|one| one.cell != 3);
        all.extend(on_another_day.map(|one| Timed { session: 7, ..one }));
        let drift = Drift::of(&all);
        let left: Vec<f64> = all
            .iter()
            .map(|one| one.log - 0.1 * one.cell as f64 - drift.at(one))
            .collect();
        assert!(left.iter().all(|rest| (rest - left[0]).abs() < 1e-6), "{left:?}");
    }

    #[test]
    fn a_single_measurement_of_another_run_is_brought_to_the_level_of_the_first_one() {
        let mut all = rounds(4, 3, 3, |cell, _, _| cell as f64);
        let other = |cell, log| Timed {
            cell,
            session: 7,
            at: 3.0,
            log,
        };
        all.extend([other(0, 0.5), other(9, 9.5)]);
        let drift = Drift::of(&all);
        let last = &all[all.len() - 1];
        assert!(
            (last.log - drift.at(last) - (9.0 - at(&drift, 0.0))).abs() < 0.2,
            "{drift:?}"
        );
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
            let errors = measured.iter().map(|one| (drift.at(one) - (true_drift(one.at) - level)).powi(2));
            let error = (errors.sum::<f64>() / measured.len() as f64).sqrt();
            prop_assert!(error < 0.004 + 0.12 * depth, "{error} of {depth}");
        }

        #[test]
        fn any_measurements_have_a_drift_that_is_a_number(
            measured in proptest::collection::vec((0usize..5, 0u64..3, 0.0f64..10.0, -5.0f64..5.0), 0..40),
        ) {
            let one = |(cell, session, at, log)| Timed { cell, session, at, log };
            let measured: Vec<Timed> = measured.into_iter().map(one).collect();
            let drift = Drift::of(&measured);
            prop_assert!(measured.iter().all(|one| drift.at(one).is_finite()), "{drift:?}");
        }
    }
}
