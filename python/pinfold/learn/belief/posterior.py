"""What is believed after trials, and the next trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from pinfold.learn.belief.belief import Prior
from pinfold.learn.races import Floats, best_two

DRAWS = 200
"""The programs that are drawn from a belief to choose two trials together."""

SEED = 0

FREEDOM = 4.0
"""The degrees of freedom of the spread, the same as in ``crates/policy/src/belief/posterior.rs``. Assumed."""

NOTHING = 1e-12
"""A smaller expected improvement is rounding."""


class Posterior:
    """The mean and variance of z in each configuration, after some trials.

    A trial appends one row to a Cholesky factor. Nothing is solved again.
    """

    def __init__(self, prior: Prior, noise: float) -> None:
        """Begin with a prior, and the variance of one trial."""
        self.mean = prior.mean.copy()
        self.variance: Floats = np.diag(prior.covariance).copy()
        self._prior = prior
        self._noise = noise
        self._rows: Floats = np.empty((0, len(prior.mean)))
        self._surprises = 0.0

    @property
    def spread(self) -> float:
        """The factor of all variances that decide about trials, at least 1: trials that surprised make it larger.

        It is that of a Student-t process (Shah, Wilson and Ghahramani, AISTATS 2014, section 3).

        >>> posterior = Posterior(Prior(np.zeros(2), np.eye(2)), 0.0)
        >>> posterior.learn(0, 4.0)
        >>> posterior.spread
        4.0
        """
        return max((FREEDOM + self._surprises) / (FREEDOM + len(self._rows)), 1.0)

    def learn(self, place: int, value: float) -> None:
        """Learn the value of z in a configuration.

        >>> prior = Prior(np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
        >>> posterior = Posterior(prior, 0.0)
        >>> posterior.learn(0, 2.0)
        >>> posterior.mean.tolist(), posterior.variance.tolist()
        ([2.0, 1.0], [0.0, 0.75])
        """
        covariance = self._prior.covariance[place] - self._rows[:, place] @ self._rows
        variance = max(float(covariance[place]), 0.0) + self._noise
        if variance <= 0:
            return
        surprise = (value - float(self.mean[place])) / float(np.sqrt(variance))
        row = covariance / np.sqrt(variance)
        self.mean += row * surprise
        self._surprises += surprise**2
        self._rows = np.vstack([self._rows, row])
        self.variance = np.maximum(self.variance - row**2, 0)

    def covariance(self, places: Sequence[int]) -> Floats:
        """Return the covariance of some configurations."""
        rows = self._rows[:, list(places)]
        found: Floats = self._prior.covariance[np.ix_(list(places), list(places))] - rows.T @ rows
        return found

    def improvement(self, best: float) -> Floats:
        """Return the expected improvement over the best z so far: how much smaller z is in the mean, 0 if larger.

        Variances are multiplied by the spread.

        >>> known = Prior(np.array([-1.0, 0.0]), np.zeros((2, 2)))
        >>> Posterior(known, 0.0).improvement(0.0).tolist()
        [1.0, 0.0]
        """
        deviation = np.sqrt(np.maximum(self.spread * self.variance, NOTHING**2))
        away = (best - self.mean) / deviation
        density = np.exp(-0.5 * away**2) / np.sqrt(2 * np.pi)
        improvement: Floats = np.maximum(deviation * (away * ndtr(away) + density), 0)
        return np.where(improvement < NOTHING, 0, improvement)

    def best_pair(self, best: float) -> tuple[int, int]:
        """Return the two configurations whose faster one has the largest expected improvement; the better one first.

        The expectation is a mean over programs that are drawn from the belief, with a fixed seed.

        >>> prior = Prior(np.array([0.0, -0.1, -0.1]), np.array([[0, 0, 0], [0, 1.0, -0.9], [0, -0.9, 1.0]]))
        >>> sorted(Posterior(prior, 0.01).best_pair(0.0))
        [1, 2]
        """
        covariance = self.covariance(range(len(self.mean)))
        # The rounding of a covariance without noise may make it negative.
        covariance[np.diag_indices_from(covariance)] += 1e-6 * np.abs(np.diag(covariance)).mean() + self._noise
        root = np.linalg.cholesky(covariance)
        draws = np.random.default_rng(SEED).standard_normal((DRAWS, len(root)))
        drawn = self.mean + draws @ root.T
        return best_two(np.maximum(best - drawn, 0))


@dataclass(frozen=True)
class Start:
    """Where a search begins.

    Attributes
    ----------
    prior : Prior
        What is believed of the configurations.
    noise : float
        The variance of one trial.
    baseline : int
        The position of the baseline, whose z is 0.
    """

    prior: Prior
    noise: float
    baseline: int

    def posterior(self) -> Posterior:
        """Return what is believed after the trial of the baseline."""
        posterior = Posterior(self.prior, self.noise)
        posterior.learn(self.baseline, 0.0)
        return posterior

    def pair(self) -> tuple[int, int]:
        """Return the first two trials, chosen together."""
        return self.posterior().best_pair(0.0)


def search(start: Start, truth: Floats, trials: int, planned: Sequence[int] = ()) -> list[int]:
    """Return the configurations that are tried one after the other.

    Args:
        start: what is believed before.
        truth: z of the program in each configuration; a trial shows it.
        trials: how many.
        planned: the first trials. Each other one has the largest expected improvement.
    """
    posterior, tried, best = start.posterior(), [start.baseline], 0.0
    for trial in range(min(trials, len(truth) - 1)):
        if trial < len(planned):
            place = planned[trial]
        else:
            improvement = posterior.improvement(best)
            improvement[tried] = -1
            place = int(improvement.argmax())
        tried.append(place)
        posterior.learn(place, float(truth[place]))
        best = min(best, float(truth[place]))
    return tried[1:]
