"""Making bins of numbers: with respect to a class after Fayyad and Irani, and without one by width or by frequency.

A column is cut at thresholds, in ascending order; a value lies in the bin whose number is how many thresholds are less
than it. So a bin is open to the left and closed to the right, as the bounds of AutoFinity's policies are (Moore and
Childers, 2012, figure 7). A value that is missing (NaN) lies in no bin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MISSING = -1
"""The bin of a value that is missing."""


def bins(values: Floats, thresholds: Floats) -> Codes:
    """Return the bin of each value, shape of ``values``; ``MISSING`` for NaN.

    >>> bins(np.array([1.0, 2.0, np.nan, 9.0]), np.array([2.0, 5.0])).tolist()
    [0, 0, -1, 2]
    """
    return np.where(np.isnan(values), MISSING, np.searchsorted(thresholds, values, side="left"))


def mdl_thresholds(values: Floats, classes: Codes) -> Floats:
    """Cut a column where that tells the most about the class, for as long as it pays by description length.

    Fayyad and Irani, "Multi-Interval Discretization of Continuous-Valued Attributes for Classification Learning" (IJCAI
    1993), section 3: an interval is cut in two where the classes' entropy becomes least, and the cut is accepted if the
    bits that it saves are more than the bits that describe it. One thing is not as there, but as WEKA does for
    ``CfsSubsetEval``: where to cut is one of the places between different values, not one of all places between rows.

    Args:
        values: shape (rows,), of any unit; NaN is missing and has no say.
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
    """Return the first row of the upper part if rows ``start`` to ``end`` are worth being cut."""
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
    """Cut the range of a column into bins of one width (Moore and Childers, 2012, section 3.2).

    Args:
        values: shape (rows,), of any unit; NaN is missing.
        count: how many bins, at most if ``adjust``.
        adjust: whether to take the number of bins whose histogram is the likeliest when each value is left out in turn,
            as the paper has WEKA do: of n values in a bin of width w each then has a density in proportion to
            (n - 1) / w. A number of bins that leaves a value alone in one is out of the question.
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

    Equal values share a bin, so bins may differ, and there may be fewer. A threshold is in the middle between two
    values.

    Args:
        values: shape (rows,), of any unit; NaN is missing.
        count: how many bins at most.
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
        raise ValueError(f"{count} bins are asked for: there must be at least one")
    return values[~np.isnan(values)]
