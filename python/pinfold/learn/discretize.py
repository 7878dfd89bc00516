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
