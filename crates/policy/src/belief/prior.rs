//! The belief about any configurations before a trial.

use super::kernel::{Kernel, Lengths, Place};
use super::point::Point;
use crate::rules::Trained;
use pinfold_core::PageMapping;

/// The least chance of the interpolation that a configuration is not a listed one. It only keeps the weight of a listed
/// one finite.
const LEAST_APART: f64 = 1e-12;

/// A belief that was learned: the logarithms of the times of configurations over the time in the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Belief {
    /// The training data.
    pub origin: Trained,
    /// The configurations that it lists.
    pub points: Vec<Point>,
    /// By point: the mean.
    pub(super) mean: Vec<f64>,
    /// By point: its row of factors. All rows are of one length.
    pub(super) factors: Vec<Vec<f64>>,
    /// By point: the variance that the factors leave.
    pub(super) residual: Vec<f64>,
    /// How alike configurations are.
    pub kernel: Kernel,
    /// The variance of a trial of usual length.
    pub noise: f64,
    /// The variance that a machine adds which is not among the training machines.
    pub(super) doubt: f64,
}

/// The variance of a configuration of which nothing is known: a fifth more or less. Assumed.
const IGNORANCE: f64 = 0.04;

impl Belief {
    /// The belief of who knows nothing: each configuration may be faster or slower than any other, and the time in one
    /// says nothing of the time in a similar one.
    pub fn ignorant() -> Self {
        let length = 1.0;
        Self {
            origin: Trained {
                simulated: None,
                machines: vec![],
                programs: vec![],
                rows: 0,
                learner: "nothing was learned".to_owned(),
                measured_rows: None,
                simulated_rows: None,
            },
            points: vec![Point::everywhere(PageMapping::FirstTouch)],
            mean: vec![0.0],
            factors: vec![vec![]],
            residual: vec![IGNORANCE],
            kernel: Kernel {
                weight: 0.0,
                variance: 0.0,
                lengths: Lengths {
                    threads: length,
                    cores: length,
                    nodes: length,
                    llcs: Some(length),
                    thread_map: length,
                    page_map: length,
                    prefetch: length,
                },
            },
            noise: 1e-4,
            doubt: 0.0,
        }
    }

    /// Whether it was learned from rows of this machine.
    pub fn knows(&self, machine: &str) -> bool {
        self.origin.machines.iter().any(|known| known == machine)
    }

    /// What it says of these configurations on this machine. They are different ones: two equal ones would have a
    /// residual each.
    ///
    /// A configuration that is listed has its own mean, factors and residual. Any other one has a mean of them over all
    /// listed ones, weighted by how alike they are; the less alike the nearest of them is, the larger its variance.
    pub fn over(&self, points: Vec<Point>, machine: &str) -> Prior {
        let knows_llcs = points.iter().chain(&self.points).all(|point| point.llcs.is_some());
        let kernel = Kernel {
            lengths: if knows_llcs {
                self.kernel.lengths
            } else {
                self.kernel.lengths.without_llcs()
            },
            ..self.kernel
        };
        let listed: Vec<Place> = self.points.iter().map(|point| kernel.lengths.place(point)).collect();
        let of_factors = 1.0 - kernel.weight;
        let rank = self.factors.first().map_or(0, Vec::len);
        let mut prior = Prior {
            places: points.iter().map(|point| kernel.lengths.place(point)).collect(),
            points,
            mean: vec![],
            factors: vec![],
            rank,
            own: vec![],
            amplitude: kernel.weight * kernel.variance + if self.knows(machine) { 0.0 } else { self.doubt },
        };
        for place in &prior.places {
            let (weights, nearest) = weights(place, &listed);
            let mixed =
                |of: &dyn Fn(usize) -> f64| weights.iter().map(|&(point, weight)| weight * of(point)).sum::<f64>();
            prior.mean.push(mixed(&|point| self.mean[point]));
            let row = (0..rank).map(|factor| of_factors.sqrt() * mixed(&|point| self.factors[point][factor]));
            prior.factors.extend(row);
            let left = mixed(&|point| self.residual[point]) + (1.0 - nearest) * kernel.variance;
            prior.own.push(of_factors * left);
        }
        prior
    }
}

/// The weights of the listed places for a place, which sum up to 1, and how alike the nearest of them is. Weights that
/// do not matter are left out.
///
/// A weight is in proportion to `k / (1 - k)` for the similarity `k`: a listed place itself gets all of the weight, and
/// no place jumps.
fn weights(place: &Place, listed: &[Place]) -> (Vec<(usize, f64)>, f64) {
    let apart: Vec<f64> = listed.iter().map(|other| 0.5 * place.squared_distance(other)).collect();
    let least = apart.iter().copied().fold(f64::INFINITY, f64::min);
    let weight = |apart: f64| (least - apart).exp() / (-(-apart).exp_m1()).max(LEAST_APART);
    let raw: Vec<f64> = apart.iter().map(|&apart| weight(apart)).collect();
    let sum: f64 = raw.iter().sum();
    let shares = raw.into_iter().map(|weight| weight / sum).enumerate();
    (
        shares.filter(|&(_, share)| share > f64::EPSILON).collect(),
        (-least).exp(),
    )
}

/// A normal belief about some configurations, before any trial.
///
/// Its covariance is a sum of positive semidefinite matrices: factors times their transpose, a diagonal, and the
/// kernel.
#[derive(Clone, Debug)]
pub struct Prior {
    points: Vec<Point>,
    places: Vec<Place>,
    mean: Vec<f64>,
    /// Row by row, `rank` numbers each, with their share of the covariance.
    factors: Vec<f64>,
    rank: usize,
    /// By configuration: the variance that it shares with no other one.
    own: Vec<f64>,
    /// The variance of the kernel.
    amplitude: f64,
}

impl Prior {
    /// The configurations.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// By configuration: the mean of the logarithm of its time over the time in the baseline.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    fn row(&self, of: usize) -> &[f64] {
        &self.factors[of * self.rank..][..self.rank]
    }

    /// The covariance of two configurations.
    pub fn covariance(&self, one: usize, other: usize) -> f64 {
        let shared: f64 = self
            .row(one)
            .iter()
            .zip(self.row(other))
            .map(|(one, other)| one * other)
            .sum();
        let own = if one == other { self.own[one] } else { 0.0 };
        shared + own + self.amplitude * self.places[one].similarity(&self.places[other])
    }

    /// The covariances of one configuration with each.
    pub fn covariances(&self, with: usize) -> Vec<f64> {
        (0..self.points.len())
            .map(|other| self.covariance(with, other))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{belief, point};

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn a_listed_configuration_has_its_own_mean_factors_and_residual() {
        let belief = belief();
        let prior = belief.over(belief.points.clone(), "known");
        assert!(
            prior
                .mean()
                .iter()
                .zip(&belief.mean)
                .all(|(&one, &other)| near(one, other))
        );
        // 0.75 of the factors and residuals, and 0.25 of the kernel with a variance of 0.4.
        assert!(near(prior.covariance(0, 0), 0.75 * (0.2 * 0.2 + 0.01) + 0.1));
        assert!(near(prior.covariance(1, 1), 0.75 * (0.4 * 0.4 + 0.02) + 0.1));
        // Half of threads, cores and nodes: three choices that are one length apart.
        assert!(near(
            prior.covariance(0, 1),
            0.75 * (0.2 * -0.4) + 0.1 * (-1.5f64).exp()
        ));
    }

    #[test]
    fn a_configuration_between_two_is_between_them() {
        let belief = belief();
        let between = belief.over(vec![point(0.5f64.sqrt())], "known");
        // As far from the one as from the other, so both count half; each has 3/8 of a squared length.
        assert!(near(between.mean()[0], 0.5 * (0.0 - 0.5)));
        let far = 1.0 - (-0.375f64).exp();
        let factor: f64 = 0.5 * (0.2 - 0.4);
        let expected = 0.75 * (factor.powi(2) + 0.015 + far * 0.4) + 0.1;
        assert!(near(between.covariance(0, 0), expected));
    }

    #[test]
    fn a_configuration_far_from_all_is_known_least() {
        let belief = belief();
        let far = belief.over(vec![point(1e-6)], "known");
        assert!(near(far.mean()[0], -0.5), "the nearest one counts");
        assert!(near(far.covariance(0, 0), 0.75 * (0.16 + 0.02 + 0.4) + 0.1));
    }

    #[test]
    fn another_machine_adds_its_doubt() {
        let belief = belief();
        let [known, other] = ["known", "new"].map(|machine| belief.over(belief.points.clone(), machine));
        assert!(near(other.covariance(0, 0), known.covariance(0, 0) + 0.05));
        assert!(near(
            other.covariance(0, 1),
            known.covariance(0, 1) + 0.05 * (-1.5f64).exp()
        ));
        assert_eq!(other.mean(), known.mean());
    }
}
