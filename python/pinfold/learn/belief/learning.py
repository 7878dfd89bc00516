"""Learns a belief from times: mean, factors and residuals of training programs, and a kernel.

1. The mean and the covariance of z over training regions, each with its weight. Where regions were not run in all
   configurations, a covariance at first counts the regions that were run in both. Then regions are completed: the
   expectation-maximisation of a normal distribution, whose covariance is mixed with the kernel in each step.
2. The largest principal components of the covariance are the factors.
3. The residual of a configuration is what the factors leave and no other configuration shares. The rest of what they
   leave is dropped: in the residual it would make configurations that are nearly the same independent, and a search
   would try one after the other.
4. The variance of the kernel comes from :mod:`pinfold.learn.belief.choice`.
5. A file has at most 100 KiB. If there are too many configurations, those are listed that are the most uncertain if the
   others are known (a pivoted Cholesky factorisation).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pinfold.learn.belief.belief import Belief, Kernel
from pinfold.learn.belief.data import Times
from pinfold.learn.belief.file import MOST_BYTES, rounded, text
from pinfold.learn.belief.kernel import Lengths, similarity
from pinfold.learn.races import Floats
from pinfold.learn.trained import Trained

Places = npt.NDArray[np.int64]

LENGTHS = Lengths(threads=4.0, cores=4.0, nodes=4.0, thread_map=4.0, page_map=4.0, prefetch=5.6)
"""The lengths of the kernel: a doubling, or another map, leaves 0.97 of the similarity. With twice the lengths, four
times the variance leaves the difference of two similar configurations as it is, so only the variance is chosen.

If the shares of last-level caches are known, they have the length of nodes."""

FACTORS = 8
"""The number of factors. A file that would be too large has fewer."""

LEAST_FACTORS = 4
"""With fewer, configurations are left out instead."""

WEIGHT = 0.1
"""The share of the kernel in the covariance."""

STEPS = 5
"""The steps of the completion of regions that were not run in all configurations."""

NEW_MACHINE = 3.0
"""The assumed variance of a machine outside of the training data, over the mean one, if the data has one machine."""


@dataclass(frozen=True)
class Settings:
    """What is chosen, and not learned from times.

    Attributes
    ----------
    factors : int
        The largest number of factors.
    weight : float
        The share of the kernel.
    lengths : Lengths
        The lengths of the kernel.
    amplitude : float
        The variance of the kernel, over the mean variance of the training programs.
    doubt : float
        The variance that a machine adds from which nothing was learned, over the same.
    """

    factors: int = FACTORS
    weight: float = WEIGHT
    lengths: Lengths = LENGTHS
    amplitude: float = 16.0
    doubt: float = NEW_MACHINE

    def text(self) -> str:
        """Describe them for a reader of a file."""
        kernel = f"{self.amplitude:g} times the variance, lengths of {self.lengths.threads:g} doublings"
        return f"{self.factors} factors, {self.weight:g} of a kernel with {kernel}"


@dataclass(frozen=True)
class Spread:
    """What is known of z over training programs.

    Attributes
    ----------
    mean : array of shape (points,)
        The mean of z.
    away : array of shape (regions, points)
        How far each region is from the mean, by the root of its share. The products of columns are covariances.
    left : array of shape (points, points)
        What the completion of regions leaves uncertain: zero where all regions were run.
    """

    mean: Floats
    away: Floats
    left: Floats

    @property
    def covariance(self) -> Floats:
        """The covariance of z."""
        covariance: Floats = self.away.T @ self.away + self.left
        return covariance

    def factors(self, number: int) -> Floats:
        """Return the largest principal components, by the roots of their variances, as columns."""
        variances, vectors = np.linalg.eigh(self.covariance)
        factors: Floats = (vectors * np.sqrt(np.maximum(variances, 0)))[:, ::-1][:, :number]
        return factors

    def residual(self, factors: Floats) -> Floats:
        """Return the variance of each configuration that factors leave and that no other configuration shares.

        Half of the variance of the difference to another configuration is a mean of what both do not share. The least
        of these is taken, and at most what the factors leave.
        """
        left = self.covariance - factors @ factors.T
        variances = np.diag(left)
        halves = 0.5 * (variances[:, None] + variances - 2 * left)
        np.fill_diagonal(halves, np.inf)
        residual: Floats = np.clip(halves.min(axis=1), 0, np.maximum(variances, 0))
        return residual


def learn(times: Times, settings: Settings, trained: Callable[[str], Trained]) -> Belief:
    """Learn a belief that fits in a file.

    Args:
        times: the times of training programs.
        settings: what is chosen.
        trained: returns the origin of the belief, for the name of the learner.

    Raises:
        ValueError: if not even a belief of few configurations fits; the message says why.
    """
    lengths = settings.lengths
    if all(point.llcs is not None for point in times.points):
        lengths = lengths._replace(llcs=lengths.nodes)
    alike = similarity(times.points, times.points, lengths)
    spread = spread_of(times, settings.weight, alike)
    covariance, loadings = spread.covariance, spread.factors(settings.factors)
    variance = float(np.diag(covariance).mean())
    if not variance > 0:
        raise ValueError("all regions take as long in each configuration as in the baseline: there is nothing to learn")

    # The same covariance as with a kernel of a larger variance. A file's kernel also says how uncertain configurations
    # far from all points are, and that is the mean variance.
    learned, similar = 1 - settings.weight, settings.weight * settings.amplitude
    whole = learned + similar
    kernel = Kernel(float(f"{similar / whole:.4g}"), variance * whole, lengths)

    def belief(places: Places, number: int) -> Belief:
        factors = loadings[:, :number]
        return rounded(
            Belief(
                points=tuple(times.points[place] for place in places),
                mean=spread.mean[places],
                factors=np.sqrt(whole) * factors[places],
                residual=whole * spread.residual(factors)[places],
                kernel=kernel,
                noise=times.noise,
                doubt=settings.doubt * variance,
                origin=trained(settings.text()),
            )
        )

    every = np.arange(len(times.points))
    for factors in range(settings.factors, min(settings.factors, LEAST_FACTORS) - 1, -1):
        found = belief(every, factors)
        if len(text(found).encode()) <= MOST_BYTES:
            return found
    mixed = (1 - settings.weight) * covariance + settings.weight * variance * alike
    order = _most_uncertain(mixed, int(times.baselines[0]))
    number = len(order)
    while number > 1:
        number = int(0.95 * number)
        found = belief(np.sort(order[:number]), LEAST_FACTORS)
        if len(text(found).encode()) <= MOST_BYTES:
            return found
    raise ValueError(f"the names of the {len(times.programs)} programs are larger than a belief may be: leave some out")


def spread_of(times: Times, weight: float, alike: Floats) -> Spread:
    """Return the mean and the covariance of z over regions.

    Args:
        times: the times.
        weight: the share of the kernel in the covariance that completes regions.
        alike: the similarity of the configurations.
    """
    shares = times.weights / times.weights.sum()
    known = np.isfinite(times.logs)
    nothing = np.zeros((len(times.points), len(times.points)))
    if known.all():
        return _spread(times.logs, shares, nothing)
    mean, covariance = _pairwise(times.logs, known, shares)
    complete, left = times.logs.copy(), nothing
    patterns, of_region = np.unique(known, axis=0, return_inverse=True)
    for _ in range(STEPS):
        left = np.zeros_like(nothing)
        mixed = (1 - weight) * covariance + weight * np.diag(covariance).mean() * alike
        for number, pattern in enumerate(patterns):
            inside = of_region.ravel() == number
            there, missing = np.flatnonzero(pattern), np.flatnonzero(~pattern)
            gram = mixed[np.ix_(there, there)] + times.noise * np.eye(len(there))
            slope = np.linalg.solve(gram, mixed[np.ix_(there, missing)])
            away = times.logs[np.ix_(inside, there)] - mean[there]
            complete[np.ix_(inside, missing)] = mean[missing] + away @ slope
            unknown = mixed[np.ix_(missing, missing)] - mixed[np.ix_(missing, there)] @ slope
            left[np.ix_(missing, missing)] += shares[inside].sum() * unknown
        spread = _spread(complete, shares, left)
        mean, covariance = spread.mean, spread.covariance
    return spread


def _pairwise(logs: Floats, known: npt.NDArray[np.bool_], shares: Floats) -> tuple[Floats, Floats]:
    """Return means over the regions that were run in each configuration, and covariances over those run in both.

    Configurations that no region was run in together have none. What is negative of the covariance becomes zero.
    """
    counted = known * shares[:, None]
    mean = (np.nan_to_num(logs) * shares[:, None]).sum(axis=0) / counted.sum(axis=0)
    away = np.where(known, logs - mean, 0)
    together = counted.T @ known
    products = (away * shares[:, None]).T @ away
    covariance = np.divide(products, together, out=np.zeros_like(products), where=together > 0)
    variances, vectors = np.linalg.eigh(covariance)
    positive: Floats = (vectors * np.maximum(variances, 0)) @ vectors.T
    return mean, positive


def _spread(logs: Floats, shares: Floats, left: Floats) -> Spread:
    mean = shares @ logs
    return Spread(mean, (logs - mean) * np.sqrt(shares)[:, None], left)


def _most_uncertain(covariance: Floats, first: int) -> Places:
    """Return all places: each next one is the most uncertain if those before it are known."""
    left, rows, order = np.diag(covariance).copy(), np.empty((0, len(covariance))), [first]
    place = first
    for _ in range(len(covariance) - 1):
        row = covariance[place] - rows[:, place] @ rows
        row = row / np.sqrt(max(float(row[place]), 1e-12))
        rows = np.vstack([rows, row])
        left = left - row**2
        left[order] = -np.inf
        place = int(left.argmax())
        order.append(place)
    return np.array(order)
