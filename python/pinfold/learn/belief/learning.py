"""Learns a belief from times: mean, factors and residuals of training programs, and a kernel.

1. The mean and the covariance of z over training regions, each with its weight. Where regions were not run in all
   configurations, or have different baselines, both follow from effects of choices
   (:mod:`pinfold.learn.belief.effects`).
2. The largest principal components of the covariance are the factors. A configuration counts as often as it was run.
3. The residual of a configuration is what the factors leave and no other configuration shares. The rest of what they
   leave is dropped: in the residual it would make configurations that are nearly the same independent, and a search
   would try one after the other.
4. The variance of the kernel comes from :mod:`pinfold.learn.belief.choice`.
5. A file has at most 100 KiB, or less if the user says so. If there are too many configurations, those are listed that
   are the most uncertain if the others are known (a pivoted Cholesky factorisation), by how often they were run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pinfold.learn.belief import effects
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

LEAST_POINT_BYTES = 120
"""A point with its numbers has more bytes in a file."""

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
    most_bytes : int
        The largest file.
    """

    factors: int = FACTORS
    weight: float = WEIGHT
    lengths: Lengths = LENGTHS
    amplitude: float = 16.0
    doubt: float = NEW_MACHINE
    most_bytes: int = MOST_BYTES

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
    away : array of shape (any, points)
        The products of columns are covariances: of complete regions, how far each is from the mean, by the root of its
        share.
    often : array of shape (points,)
        The weight of the regions that were run in each configuration, over the mean of these weights.
    """

    mean: Floats
    away: Floats
    often: Floats

    @property
    def covariance(self) -> Floats:
        """The covariance of z."""
        covariance: Floats = self.away.T @ self.away
        return covariance

    def factors(self, number: int) -> Floats:
        """Return the largest principal components, by the roots of their variances, as columns.

        The variance that they leave is the least where configurations were run often: of `auto`'s space all regions
        were run in all configurations, and of a larger space each region in a few.
        """
        return self._components[:, :number]

    @cached_property
    def _components(self) -> Floats:
        directions, _, _ = np.linalg.svd(self.away * np.sqrt(self.often), full_matrices=False)
        components: Floats = self.away.T @ directions
        return components

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


@dataclass(frozen=True)
class Learned:
    """What is learned before anything is chosen.

    Attributes
    ----------
    times : Times
        The times of training programs.
    spread : Spread
        Their mean and covariance.
    """

    times: Times
    spread: Spread

    @classmethod
    def of(cls, times: Times) -> Learned:
        """Learn from the times of training programs."""
        return cls(times, spread_of(times))

    def belief(self, settings: Settings, trained: Callable[[str], Trained]) -> Belief:
        """Return a belief that fits in a file.

        Args:
            settings: what is chosen.
            trained: returns the origin of the belief, for the name of the learner.

        Raises:
            ValueError: if there is nothing to learn, or not even a belief of few configurations fits.
        """
        times, spread = self.times, self.spread
        variance = float((spread.away**2).sum(axis=0).mean())
        if not variance > 0:
            raise ValueError(
                "all regions take as long in each configuration as in the baseline: there is nothing to learn"
            )
        lengths = settings.lengths
        if all(point.llcs is not None for point in times.points):
            lengths = lengths._replace(llcs=lengths.nodes)
        # The same covariance as with a kernel of a larger variance. A file's kernel also says how uncertain
        # configurations far from all points are, and that is the mean variance.
        learned, similar = 1 - settings.weight, settings.weight * settings.amplitude
        whole = learned + similar
        kernel = Kernel(float(f"{similar / whole:.4g}"), variance * whole, lengths)

        def belief(places: Places, factors: Floats, residual: Floats) -> Belief:
            return rounded(
                Belief(
                    points=tuple(times.points[place] for place in places),
                    mean=spread.mean[places],
                    factors=np.sqrt(whole) * factors[places],
                    residual=whole * residual[places],
                    kernel=kernel,
                    noise=times.noise,
                    doubt=settings.doubt * variance,
                    origin=trained(replace(settings, factors=factors.shape[1]).text()),
                )
            )

        def fits(found: Belief) -> bool:
            return len(text(found).encode()) <= settings.most_bytes

        every = np.arange(len(times.points))
        most = settings.most_bytes // LEAST_POINT_BYTES
        fewest = min(settings.factors, LEAST_FACTORS)
        if len(every) <= most:
            for number in range(settings.factors, fewest - 1, -1):
                factors = spread.factors(number)
                if fits(found := belief(every, factors, spread.residual(factors))):
                    return found
        factors = spread.factors(fewest)
        residual = spread.residual(factors)
        order = self._most_uncertain(settings.weight, lengths, min(most, len(every)))
        number = len(order)
        while number > 1:
            number = int(0.98 * number)
            if fits(found := belief(np.sort(order[:number]), factors, residual)):
                return found
        raise ValueError(
            f"the names of the {len(times.programs)} programs are larger than a belief may be: leave some out"
        )

    def _most_uncertain(self, weight: float, lengths: Lengths, most: int) -> Places:
        """Return places, the most uncertain ones first, if those before are known."""
        covariance = self.spread.covariance
        alike = similarity(self.times.points, self.times.points, lengths)
        mixed = (1 - weight) * covariance + weight * np.diag(covariance).mean() * alike
        often = np.sqrt(self.spread.often)
        return _most_uncertain(mixed * often * often[:, None], int(self.times.baselines[0]), most)


def learn(times: Times, settings: Settings, trained: Callable[[str], Trained]) -> Belief:
    """Learn a belief that fits in a file: :meth:`Learned.belief`."""
    return Learned.of(times).belief(settings, trained)


def spread_of(times: Times) -> Spread:
    """Return the mean and the covariance of z over regions."""
    run = np.isfinite(times.logs)
    counts = times.weights @ run
    often = counts / counts.mean()
    if len(set(times.baselines.tolist())) > 1 or not run.all():
        return Spread(*effects.z_of(times), often)
    shares = times.weights / times.weights.sum()
    mean = shares @ times.logs
    return Spread(mean, (times.logs - mean) * np.sqrt(shares)[:, None], often)


def _most_uncertain(covariance: Floats, first: int, most: int) -> Places:
    """Return places: each next one is the most uncertain if those before it are known."""
    left, rows, order = np.diag(covariance).copy(), np.zeros((most, len(covariance))), [first]
    place = first
    for number in range(most - 1):
        row = covariance[place] - rows[:number, place] @ rows[:number]
        row = row / np.sqrt(max(float(row[place]), 1e-12))
        rows[number] = row
        left = left - row**2
        left[order] = -np.inf
        place = int(left.argmax())
        order.append(place)
    return np.array(order)
