"""Races: configurations that are tried one after the other, and what the fastest so far gains.

Gains are logarithms of speed-ups over the baseline, of shape (regions, configurations).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def covering(gains: Floats, number: int) -> list[int]:
    """Return the configurations that together gain most: each next one adds most to those before it (section 3.3).

    Args:
        gains: of shape (regions, configurations).
        number: how many; fewer are returned where another one adds nothing.
    """
    chosen: list[int] = []
    reached = np.full(len(gains), -np.inf)
    for _ in range(min(number, gains.shape[1])):
        sums = np.maximum(reached[:, None], gains).sum(axis=0)
        best = int(sums.argmax())
        if chosen and sums[best] <= reached.sum():
            break
        chosen.append(best)
        reached = np.maximum(reached, gains[:, best])
    return chosen


def best_two(gains: Floats) -> tuple[int, int]:
    """Return the two configurations whose better one gains most, if each region is run in both."""
    best, pair = -math.inf, (0, 0)
    for one in range(gains.shape[1]):
        sums = np.maximum(gains[:, [one]], gains[:, one:]).sum(axis=0)
        other = int(sums.argmax())
        if sums[other] > best:
            best, pair = float(sums[other]), (one, one + other)
    return pair


def random_gains(gains: Floats, trials: int) -> Floats:
    """Return the expected gain of a region after each number of different configurations drawn at random.

    It is exact, not a draw. Of n configurations k are drawn. With gains in ascending order, the i-th of them is the
    greatest drawn one with the probability C(i-1, k-1) / C(n, k).

    >>> random_gains(np.array([0.0, 1.0]), 2).tolist()
    [0.5, 1.0]

    Args:
        gains: the gain in each configuration but the baseline, and 0 where the baseline is faster.
        trials: how many.
    """
    ascending = np.sort(gains)
    number = len(gains)
    return np.array([float(ascending @ greatest(number, min(drawn, number))) for drawn in range(1, trials + 1)])


def greatest(number: int, drawn: int) -> Floats:
    """Return the probability of each place in the ascending order to be the greatest of the drawn ones.

    >>> greatest(3, 2).round(3).tolist()
    [0.0, 0.333, 0.667]
    """
    shares = np.zeros(number)
    # The greatest place has drawn / number; each lower one follows from C(i-1, k-1) = C(i, k-1) (i-k+1) / i.
    shares[-1] = drawn / number
    for place in range(number - 1, drawn - 1, -1):
        shares[place - 1] = shares[place] * (place - drawn + 1) / place
    return shares


def best_single(gains: Floats) -> list[int]:
    """Return the configuration that gains most for these regions. Each keeps the faster of it and the baseline."""
    return [int(np.maximum(gains, 0).mean(axis=0).argmax())]


def greedy(gains: Floats) -> list[int]:
    """Return all configurations: each next one adds most for these regions to the baseline and those before it.

    The configurations that add nothing follow in the order of their mean gain.
    """
    useful = np.maximum(gains, 0)
    chosen = covering(useful, useful.shape[1])
    rest = [int(place) for place in np.argsort(-useful.mean(axis=0), kind="stable") if int(place) not in set(chosen)]
    return [*chosen, *rest]
