"""Effects of choices on times, for regions that were run in few of the configurations.

Most pairs of configurations were then run together by few regions or by none, and their covariance cannot be counted.
So z of a region is a sum of effects: of its threads, nodes, caches, pages and prefetchers, each alone and some together
(:data:`TOGETHER`). A configuration has an effect or has it not, and z is a difference to the baseline of the region:

    z(x) = (f(x) - f(baseline))' effects + rest

Effects of regions are normal. Their mean and covariance, and the variance of the rest, are found by
expectation-maximisation, as of a linear mixed model (Laird and Ware, Biometrics 1982), with an inverse Wishart prior of
the covariance that counts as much as some regions (:data:`PRIOR`). Regions may have different baselines, for example
one for each number of threads: only differences within a region count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pinfold.learn.belief.data import Times, is_usual
from pinfold.learn.belief.point import PREFETCHERS, Point
from pinfold.learn.races import Floats

PRIOR, MOST_OF_PRIOR = 30.0, 0.25
"""The regions that the prior of the covariance counts as, and the most, as a share of all regions."""

OF_SQUARE = 0.25
"""The variance of an effect with a share of 1 in the prior, over the mean square of z."""

STEPS = 20
"""The steps of the expectation-maximisation."""

LEAST_REST = 1e-4
"""The least variance of the rest: a trial that repeats to one percent."""


class Together(NamedTuple):
    """Choices whose values together have an effect.

    Attributes
    ----------
    of : callable
        Returns the values of a configuration.
    share : float
        The variance of such an effect in the prior, over that of a placement.
    """

    of: Callable[[Point], Hashable]
    share: float


def _bit(number: int, share: float, *names: str) -> Together:
    return Together(lambda point: (point.prefetch[number], *(getattr(point, name) for name in names)), share)


def _choices(share: float, *names: str) -> Together:
    return Together(lambda point: tuple(getattr(point, name) for name in names), share)


TOGETHER = (
    _choices(1.0, "threads", "cores", "nodes", "llcs", "thread_map"),
    _choices(1.0, "threads", "cores"),
    _choices(0.5, "nodes"),
    _choices(0.5, "llcs"),
    _choices(0.5, "page_map"),
    _choices(0.3, "page_map", "nodes"),
    _choices(0.2, "page_map", "threads", "cores"),
    _choices(0.1, "threads", "cores", "nodes", "llcs", "thread_map", "page_map"),
    _choices(0.1, "prefetch"),
    *(_bit(number, 0.3) for number in range(PREFETCHERS)),
    *(_bit(number, 0.1, "threads", "cores") for number in range(PREFETCHERS)),
    *(_bit(number, 0.1, "nodes") for number in range(PREFETCHERS)),
    *(_bit(number, 0.1, "page_map") for number in range(PREFETCHERS)),
)
"""The choices that have effects. Their shares are assumed: what more choices make together is smaller."""


@dataclass(frozen=True)
class Effects:
    """The normal distribution of effects over regions.

    Attributes
    ----------
    mean : array of shape (effects,)
        The mean.
    covariance : array of shape (effects, effects)
        The covariance.
    rest : float
        The variance that effects do not describe, of one configuration.
    """

    mean: Floats
    covariance: Floats
    rest: float


class _Group(NamedTuple):
    """Regions that were run in the same configurations, and have the same baseline."""

    differences: Floats
    logs: Floats
    weights: Floats


def z_of(times: Times) -> tuple[Floats, Floats]:
    """Return the mean of z of each configuration, and rows whose products are its covariances.

    z is relative to the usual baseline. If no region has it, z of a configuration is relative to the baseline of most
    of the regions that were run in it.
    """
    having = having_of(times.points)
    found = effects_of(times, having)
    differences = having - having[references(times)]
    root = np.linalg.cholesky(found.covariance)
    return differences @ found.mean, (differences @ root).T


def having_of(points: Sequence[Point]) -> Floats:
    """Return which configuration has which effect, times the root of the effect's share: (points, effects)."""
    columns = []
    for of, share in TOGETHER:
        values = [of(point) for point in points]
        every = sorted(set(values), key=str)
        columns += [[np.sqrt(share) * (value == one) for value in values] for one in every if len(every) > 1]
    return np.array(columns, dtype=np.float64).T


def references(times: Times) -> npt.NDArray[np.int64]:
    """Return for each configuration that whose z is 0."""
    counts = np.zeros((len(times.points), len(times.points)))
    for baseline, run in zip(times.baselines, np.isfinite(times.logs), strict=True):
        counts[run, baseline] += 1
    usual = [place for place in sorted(set(times.baselines.tolist())) if is_usual(times.points[place])]
    return np.full(len(times.points), usual[0]) if usual else counts.argmax(axis=1)


def effects_of(times: Times, having: Floats) -> Effects:
    """Return the distribution of effects that times show."""
    groups = _groups(times, having)
    count = having.shape[1]
    prior = OF_SQUARE * float(np.nanmean(times.logs**2)) * np.eye(count)
    mean, covariance, rest = np.zeros(count), prior, LEAST_REST
    weights = np.concatenate([group.weights for group in groups])
    whole = weights.sum()
    of_prior = min(PRIOR, MOST_OF_PRIOR * whole)
    for _ in range(STEPS):
        expected, known, squares, values = [], [], 0.0, 0.0
        for differences, logs, here in groups:
            shared = differences @ covariance
            within = shared @ differences.T
            root = np.linalg.cholesky(within + rest * np.eye(len(within)))
            # The rows of `gain` are what the trials of a region tell of its effects.
            gain = np.linalg.solve(root, shared)
            away = np.linalg.solve(root, (logs - differences @ mean).T)
            effects = mean + (gain.T @ away).T
            left = np.trace(within) - ((gain @ differences.T) ** 2).sum()
            squares += float(here @ ((logs - effects @ differences.T) ** 2).sum(axis=1) + here.sum() * left)
            values += float(here.sum() * len(within))
            expected.append(effects)
            known.append(np.sqrt(here.sum()) * gain)
        found = np.vstack(expected)
        mean = weights @ found / whole
        deviations = np.sqrt(weights)[:, None] * (found - mean)
        gains = np.vstack(known)
        uncertain = whole * covariance - gains.T @ gains
        covariance = (deviations.T @ deviations + uncertain + of_prior * prior) / (whole + of_prior)
        rest = max(squares / values, LEAST_REST)
    return Effects(mean, covariance, rest)


def _groups(times: Times, having: Floats) -> list[_Group]:
    run = np.isfinite(times.logs)
    # z of the baseline is 0 and says nothing.
    run[np.arange(len(run)), times.baselines] = False
    patterns, of_region = np.unique(np.column_stack([run, times.baselines]), axis=0, return_inverse=True)
    weights = times.weights / times.weights.mean()
    groups = []
    for number, pattern in enumerate(patterns):
        inside, there = of_region.ravel() == number, np.flatnonzero(pattern[:-1])
        if len(there):
            logs = times.logs[np.ix_(inside, there)]
            groups.append(_Group(having[there] - having[pattern[-1]], logs, weights[inside]))
    return groups
