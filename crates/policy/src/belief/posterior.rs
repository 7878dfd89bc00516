//! A belief after trials.
//!
//! A trial measures a linear function of the normal belief, with noise: the logarithm of one time, or the difference of
//! two. With the prior covariance K, trials A and their noise N, the belief after them has
//!
//! ```text
//! L L' = A K A' + N,   V = L^-1 A K,   covariance = K - V' V,   mean = m + V' L^-1 (y - A m)
//! ```
//!
//! Each trial adds a row to L (an incremental Cholesky factorisation) and a row to V. Only V is kept, because L's new
//! row follows from the columns of V that the trial names. The diagonal of L is at least the root of the noise, so it
//! never vanishes. A trial costs the number of configurations times the number of trials before it.

use super::prior::Prior;
use std::sync::Arc;

/// The logarithm of a time, as a normal number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Believed {
    /// The mean of the logarithm.
    pub mean: f64,
    /// Its variance.
    pub variance: f64,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The position of the configuration.
    pub of: usize,
    /// It was compared with this configuration in turns; `None`: with the baseline before.
    pub against: Option<usize>,
    /// The logarithm of its time over the time of the other one, or over the time in the baseline.
    pub log: f64,
    /// The variance of `log`.
    pub variance: f64,
}

/// A trial that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum TrialError {
    /// The belief does not have the configuration.
    #[error("configuration {0} is not among the {1} of this belief")]
    Unknown(usize, usize),
    /// A configuration was compared with itself.
    #[error("configuration {0} was compared with itself")]
    Itself(usize),
    /// The ratio of the times is not known.
    #[error("the logarithm of the times is {0}, and must be a number")]
    Log(f64),
    /// The noise is not known.
    #[error("the variance of the trial is {0}, and must be a number above 0")]
    Variance(f64),
}

/// What was believed of a trial before it, and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lesson {
    /// The trial.
    pub trial: Trial,
    /// What `trial.log` was expected to be, without noise.
    pub before: Believed,
    /// The same after the trial.
    pub after: Believed,
}

/// The degrees of freedom of the Student-t process that gives the spread. Assumed.
const FREEDOM: f64 = 4.0;

/// A belief about configurations, conditioned on trials.
#[derive(Clone, Debug)]
pub struct Posterior {
    prior: Arc<Prior>,
    mean: Vec<f64>,
    variance: Vec<f64>,
    /// By trial: its row of V, with a number for each configuration.
    rows: Vec<Vec<f64>>,
    tried: Vec<bool>,
    /// The sum of the squares of what trials measured beside what was expected, in standard deviations.
    surprises: f64,
}

impl Posterior {
    /// Before any trial.
    pub fn new(prior: Arc<Prior>) -> Self {
        let number = prior.points().len();
        Self {
            mean: prior.mean().to_vec(),
            variance: (0..number).map(|one| prior.covariance(one, one)).collect(),
            rows: vec![],
            tried: vec![false; number],
            surprises: 0.0,
            prior,
        }
    }

    /// The same belief, before any trial.
    pub fn before_trials(&self) -> Self {
        Self::new(Arc::clone(&self.prior))
    }

    /// What was believed before any trial.
    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// What is believed of one configuration's time over the time in the baseline.
    pub fn believed(&self, of: usize) -> Believed {
        Believed {
            mean: self.mean[of],
            variance: self.variance[of],
        }
    }

    /// The factor of all variances that decide about trials, at least 1. It grows if results are far from what was
    /// expected, because the program is then unlike the training programs. The formula is the posterior scale of a
    /// Student-t process (Shah et al., AISTATS 2014, section 3).
    pub fn spread(&self) -> f64 {
        let trials = self.rows.len() as f64;
        ((FREEDOM + self.surprises) / (FREEDOM + trials)).max(1.0)
    }

    /// Whether a configuration had a part in a trial.
    pub fn was_tried(&self, one: usize) -> bool {
        self.tried[one]
    }

    /// The configuration with the least expected time among those that were tried; `None` before any trial.
    pub fn best(&self) -> Option<usize> {
        let tried = (0..self.mean.len()).filter(|&one| self.tried[one]);
        tried.min_by(|&one, &other| self.mean[one].total_cmp(&self.mean[other]))
    }

    /// The covariances of one configuration with each.
    pub fn covariances(&self, with: usize) -> Vec<f64> {
        let mut covariances = self.prior.covariances(with);
        for row in &self.rows {
            take_away(&mut covariances, row[with], row);
        }
        covariances
    }

    /// What is believed of the time of one configuration over another's.
    pub fn between(&self, one: usize, other: usize) -> Believed {
        let covariance = self.rows.iter().fold(self.prior.covariance(one, other), |left, row| {
            left - row[one] * row[other]
        });
        Believed {
            mean: self.mean[one] - self.mean[other],
            variance: (self.variance[one] + self.variance[other] - 2.0 * covariance).max(0.0),
        }
    }

    /// What is believed of what a trial measures.
    fn expected(&self, of: usize, against: Option<usize>) -> Believed {
        against.map_or_else(|| self.believed(of), |other| self.between(of, other))
    }

    /// Learns from a trial.
    ///
    /// # Errors
    ///
    /// Nothing is learned from a trial that says nothing.
    pub fn learn(&mut self, trial: Trial) -> Result<Lesson, TrialError> {
        let Trial {
            of,
            against,
            log,
            variance,
        } = trial;
        let number = self.mean.len();
        if let Some(unknown) = [Some(of), against].into_iter().flatten().find(|&one| one >= number) {
            return Err(TrialError::Unknown(unknown, number));
        }
        if against == Some(of) {
            return Err(TrialError::Itself(of));
        }
        if !log.is_finite() {
            return Err(TrialError::Log(log));
        }
        if !(variance.is_finite() && variance > 0.0) {
            return Err(TrialError::Variance(variance));
        }
        let before = self.expected(of, against);
        let deviation = (before.variance + variance).sqrt();
        let mut row = self.covariances(of);
        if let Some(other) = against {
            take_away(&mut row, 1.0, &self.covariances(other));
        }
        for covariance in &mut row {
            *covariance /= deviation;
        }
        let surprise = (log - before.mean) / deviation;
        for ((mean, left), row) in self.mean.iter_mut().zip(&mut self.variance).zip(&row) {
            *mean += row * surprise;
            *left = (*left - row * row).max(0.0);
        }
        self.surprises += surprise * surprise;
        self.rows.push(row);
        for one in [Some(of), against].into_iter().flatten() {
            self.tried[one] = true;
        }
        let after = self.expected(of, against);
        Ok(Lesson { trial, before, after })
    }
}

fn take_away(from: &mut [f64], factor: f64, row: &[f64]) {
    for (left, row) in from.iter_mut().zip(row) {
        *left -= factor * row;
    }
}
