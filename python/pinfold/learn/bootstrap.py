"""The interval of a mean over programs: what another set of programs might have shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000
SEED = 0


def mean_interval(programs: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return the mean of all values with its 95 % interval: a percentile bootstrap that draws programs.

    Values of one program are alike, and are drawn together.

    Args:
        programs: the values of each program; no program without values.

    Returns:
        The mean, and the ends of the interval.
    """
    return ratio_interval([sum(values) for values in programs], [len(values) for values in programs])


def ratio_interval(parts: Sequence[float], wholes: Sequence[float]) -> tuple[float, float, float]:
    """Return the ratio of two sums, parts over wholes, with its 95 % interval, by the same bootstrap.

    Args:
        parts: one for each program.
        wholes: one for each program; no drawn sum may be zero.

    Returns:
        The ratio, and the ends of the interval.
    """
    sums, numbers = np.array(parts), np.array(wholes)
    drawn = np.random.default_rng(SEED).integers(len(sums), size=(RESAMPLES, len(sums)))
    low, high = np.percentile(sums[drawn].sum(axis=1) / numbers[drawn].sum(axis=1), [2.5, 97.5])
    return float(sums.sum() / numbers.sum()), float(low), float(high)
