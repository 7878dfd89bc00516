"""Turns numbers into bins: with respect to a class after Fayyad and Irani, or without one by width or by frequency.

Thresholds in ascending order cut a column into bins. The number of a value's bin is the number of thresholds below it.
So a bin is open to the left and closed to the right, like the bounds of AutoFinity's policies (Moore and Childers,
2012, figure 7). A missing value (NaN) is in no bin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MISSING = -1
"""The bin of a missing value."""


def bins(values: Floats, thresholds: Floats) -> Codes:
    """Return the bin of each value, shape of ``values``; ``MISSING`` for NaN.

    >>> bins(np.array([1.0, 2.0, np.nan, 9.0]), np.array([2.0, 5.0])).tolist()
    [0, 0, -1, 2]
    """
    return np.where(np.isnan(values), MISSING, np.searchsorted(thresholds, values, side="left"))


def mdl_thresholds(values: Floats, classes: Codes) -> Floats:
    """Cut a column where the cut says the most about the class, while it reduces the description length.

    Fayyad and Irani, "Multi-Interval Discretization of Continuous-Valued Attributes for Classification Learning" (IJCAI
    1993), section 3: an interval is cut in two where the classes' entropy becomes least, and the cut is accepted if it
    saves more bits than its description takes. One difference follows WEKA's ``CfsSubsetEval``: candidates are the
    positions between different values, not all positions between rows.

    Args:
        values: shape (rows,), of any unit; NaN is missing and has no effect.
        classes: shape (rows,), from 0.
    """
    present = ~np.isnan(values)
    order = np.argsort(values[present], kind="stable")
    ordered = values[present][order]
    indicator = np.eye(int(classes.max(initial=0)) + 1)[classes[present][order]]
    below = np.vstack([np.zeros(indicator.shape[1]), np.cumsum(indicator, axis=0)])
    thresholds: list[float] = []
    intervals = [(0, len(ordered))]
    while intervals:
        start, end = intervals.pop()
        cut = _best_cut(ordered, below, start, end)
        if cut is not None:
            thresholds.append((ordered[cut - 1] + ordered[cut]) / 2)
            intervals += [(start, cut), (cut, end)]
    return np.array(sorted(thresholds))


def _best_cut(ordered: Floats, below: Floats, start: int, end: int) -> int | None:
    """Return the first row of the upper part if a cut of rows ``start`` to ``end`` is accepted."""
    places = start + 1 + np.flatnonzero(ordered[start + 1 : end] > ordered[start : end - 1])
    if len(places) == 0:
        return None
    rows = end - start
    lower, upper = below[places] - below[start], below[end] - below[places]
    lower_bits, upper_bits = entropy(lower), entropy(upper)
    after = (lower_bits * (places - start) + upper_bits * (end - places)) / rows
    best = int(np.argmin(after))
    whole = below[end] - below[start]
    before = float(entropy(whole))
    gain = before - after[best]
    parts = np.array([np.count_nonzero(counts) for counts in (whole, lower[best], upper[best])])
    bits = np.array([before, -lower_bits[best], -upper_bits[best]])
    delta = np.log2(3.0 ** parts[0] - 2) - float(parts @ bits)
    accepted = gain > 0 and gain > (np.log2(len(places)) + delta) / rows
    return int(places[best]) if accepted else None


def entropy(counts: Floats) -> Floats:
    """Return the entropy in bits of counts along the last axis; 0 where all are 0."""
    total = counts.sum(axis=-1, keepdims=True)
    share = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    logarithm = np.log2(share, out=np.zeros_like(share), where=share > 0)
    return np.asarray(-(share * logarithm).sum(axis=-1))


def equal_width_thresholds(values: Floats, count: int, *, adjust: bool = True) -> Floats:
    """Cut the range of a column into bins of the same width (Moore and Childers, 2012, section 3.2).

    Args:
        values: shape (rows,), of any unit; NaN is missing.
        count: the number of bins, at most if ``adjust``.
        adjust: whether to take the number of bins whose histogram is likeliest when each value is left out in turn, as
        WEKA does for the paper. Of n values in a bin of width w each then has a density in proportion to (n - 1) / w. A
        number of bins with a single value in one bin is excluded.
    """
    present = _present(values, count)
    if len(present) == 0 or present.min() == present.max():
        return np.array([])
    if adjust:
        costs = [_left_out_bits(present, number) for number in range(1, count + 1)]
        count = 1 + int(np.argmin(costs))
    return np.linspace(present.min(), present.max(), count + 1)[1:-1]


def _left_out_bits(values: Floats, count: int) -> float:
    edges = np.linspace(values.min(), values.max(), count + 1)
    sizes = np.bincount(bins(values, edges[1:-1]), minlength=count)
    if (sizes == 1).any():
        return np.inf
    filled = sizes[sizes > 0]
    return float(-(filled * np.log2((filled - 1) / (edges[1] - edges[0]))).sum())


def equal_frequency_thresholds(values: Floats, count: int) -> Floats:
    """Cut a column into bins with the same number of values (Moore and Childers, 2012, section 3.2).

    Equal values share a bin, so bins may have different numbers of values, and there may be fewer bins. A threshold is
    in the middle between two values.

    Args:
        values: shape (rows,), of any unit; NaN is missing.
        count: the highest number of bins.
    """
    ordered = np.sort(_present(values, count))
    places = 1 + np.flatnonzero(ordered[1:] > ordered[:-1])
    if len(places) == 0:
        return np.array([])
    wanted = len(ordered) * np.arange(1, count) / count
    nearest = np.unique(places[np.abs(places[None, :] - wanted[:, None]).argmin(axis=1)])
    return np.asarray((ordered[nearest - 1] + ordered[nearest]) / 2)


def _present(values: Floats, count: int) -> Floats:
    if count < 1:
        raise ValueError(f"count is {count}: there must be at least one bin")
    return values[~np.isnan(values)]
