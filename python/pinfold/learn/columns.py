"""The training rows as RIPPER looks at them, and its inner search: which condition gains the most.

Each feature's values are numbered in ascending order, its *codes*; a missing value has the code after the last. Every
(feature, code) is one *bin*, numbered through all features. A search counts the rows and the positive ones in each bin,
and cumulative sums over the bins give what `<=` and `>=` at every value of every feature would cover. No step is a loop
over values or over features.

How rows are counted depends on which is less work: into all bins (features with few values, or many rows), or by
sorting the bins of the rows (few rows are left of many).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pinfold.learn.discretize import Floats

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

AT_MOST, AT_LEAST, EQUAL = "<=", ">=", "="

SORT_BELOW = 8
"""Rows are sorted when there are more bins than so many times the rows' values; about where the two cost the same."""


class CodedCondition(NamedTuple):
    """A condition on a feature's code: ``operator`` is one of ``<=``, ``>=`` and ``=``."""

    feature: int
    operator: str
    code: int


class Levels:
    """What a feature's codes stand for, of all features, as the training rows have them."""

    def __init__(self, values: Floats, nominal: Mask) -> None:
        """Take values of the shape (rows, features) in which NaN is missing."""
        self.nominal = nominal
        self.values: list[Floats] = []
        codes = np.empty(values.shape[::-1], dtype=np.intp)
        for feature, column in enumerate(values.T):
            levels, inverse = np.unique(column, return_inverse=True)  # All NaN are one, and the last.
            self.values.append(levels[~np.isnan(levels)])
            codes[feature] = inverse
        self.codes = codes
        self.missing_code = np.array([len(levels) for levels in self.values], dtype=np.intp)
        self.first_bin = np.concatenate([[0], np.cumsum(self.missing_code + 1)])
        self.bin_feature = np.repeat(np.arange(len(self.values)), self.missing_code + 1)
        self.bin_missing = np.zeros(self.first_bin[-1], dtype=bool)
        self.bin_missing[self.first_bin[1:] - 1] = True
        self.bin_nominal = nominal[self.bin_feature]
        #: How many conditions there are to choose from.
        self.possible_conditions = int(np.sum(self.missing_code * np.where(nominal, 1, 2)))


@dataclass(frozen=True)
class Columns:
    """Some of the training rows, their codes in both orders of memory."""

    levels: Levels
    codes: Rows
    """Shape (features, rows)."""
    bins: Rows
    """Shape (rows, features)."""
    has_missing: bool

    @classmethod
    def of(cls, levels: Levels) -> Columns:
        """Take all rows."""
        bins = np.ascontiguousarray((levels.codes + levels.first_bin[:-1, None]).T)
        has_missing = bool((levels.codes == levels.missing_code[:, None]).any())
        return cls(levels, levels.codes, bins, has_missing)

    def take(self, rows: Rows) -> Columns:
        """Take these rows only."""
        return Columns(self.levels, self.codes[:, rows], self.bins[rows], self.has_missing)

    def covers(self, condition: CodedCondition, rows: Rows | None = None) -> Mask:
        """Return which of the rows, or of all, fulfil a condition. A missing value fulfils none."""
        feature, operator, code = condition
        codes = self.codes[feature] if rows is None else self.codes[feature][rows]
        if operator == AT_MOST:
            covered = codes <= code
        elif operator == EQUAL:
            covered = codes == code
        else:
            covered = codes >= code
            if self.has_missing:
                covered &= codes < self.levels.missing_code[feature]
        return np.asarray(covered)

    def covers_all(self, conditions: list[CodedCondition]) -> Mask:
        """Return which rows fulfil all of them, shape (rows,)."""
        covered = np.ones(self.codes.shape[1], dtype=bool)
        for condition in conditions:
            covered &= self.covers(condition)
        return covered

    def count(self, rows: Rows, positive: Mask) -> tuple[Rows, Rows, Rows]:
        """Return the bins that occur, in ascending order, and in each how many rows and how many positive ones."""
        size = len(self.levels.bin_feature)
        taken = self.bins[rows]
        if size <= SORT_BELOW * taken.size:
            totals = np.bincount(taken.ravel(), minlength=size)
            positives = np.bincount(taken[positive].ravel(), minlength=size)
            present = np.flatnonzero(totals)
            return present, totals[present], positives[present]
        ordered = np.sort((taken * 2 + positive[:, None]).ravel())
        ends = np.flatnonzero(np.append(np.diff(ordered >> 1), 1))
        totals = np.diff(ends, prepend=-1)
        positives = np.diff(np.cumsum(ordered & 1)[ends], prepend=0)
        return ordered[ends] >> 1, totals, positives


class Growth(NamedTuple):
    """The best condition, what it gains in bits, and how many positive rows it covers."""

    condition: CodedCondition
    gain: float
    positives: int


class Search:
    """The inner search; it keeps the logarithms of all counts that can occur."""

    def __init__(self, rows: int) -> None:
        """Prepare for so many rows at most."""
        # Not by numpy, whose logarithms differ in the last bit from processor to processor: rules would, too.
        self._log2: Floats = np.array([log2(count) for count in range(1, rows + 2)])

    def best(self, columns: Columns, rows: Rows, positive: Mask, spent: Mask) -> Growth | None:
        """Return the condition with the greatest gain on these rows; the first one of several; None without any.

        The gain is FOIL's, p (log2(p/t) - log2(P/T)), where a condition covers t of T rows and p of P positive ones
        (Quinlan, "Learning Logical Definitions from Relations", 1990). In the logarithms each count is one more, so
        that a few rows that are pure by chance count for less.

        Args:
            columns: where the rows are.
            rows: indices of the rows.
            positive: which of them are positive, shape (rows,).
            spent: features on which there is to be no more condition, shape (features,).
        """
        levels = columns.levels
        bins, totals, positives = columns.count(rows, positive)
        feature = levels.bin_feature[bins]
        row_count, positive_count = len(rows), int(np.count_nonzero(positive))
        # What is in bins up to this one, of the same feature: every feature before has all rows.
        below_total = np.cumsum(totals) - feature * row_count
        below_positive = np.cumsum(positives) - feature * positive_count
        usable = ~spent[feature]
        all_total: Rows | int = row_count
        all_positive: Rows | int = positive_count
        if columns.has_missing:
            missing = levels.bin_missing[bins]
            usable &= ~missing
            all_total, all_positive = (
                (whole - np.bincount(feature[missing], counts[missing], len(spent)).astype(np.intp))[feature]
                for whole, counts in ((row_count, totals), (positive_count, positives))
            )
        above_total, above_positive = all_total - below_total + totals, all_positive - below_positive + positives
        above_usable = usable & (above_total < all_total)
        below_usable = usable & (below_total < all_total)
        if levels.nominal.any():
            nominal = levels.bin_nominal[bins]
            above_usable &= ~nominal
            below_total, below_positive = (
                np.where(nominal, totals, below_total),
                np.where(nominal, positives, below_positive),
            )
            below_usable = np.where(nominal, usable & (totals < row_count), below_usable)
        base = self._log2[positive_count] - self._log2[row_count]
        below = self._gains(below_total, below_positive, below_usable, base)
        above = self._gains(above_total, above_positive, above_usable, base)
        # The lowest bin first, and `<=` before `>=`, whichever numbering of the features there is.
        place = int(np.argmax(np.maximum(below, above)))
        is_below = below[place] >= above[place]
        gain = float(below[place] if is_below else above[place])
        if gain == -np.inf:
            return None
        chosen = int(feature[place])
        operator = (EQUAL if levels.nominal[chosen] else AT_MOST) if is_below else AT_LEAST
        condition = CodedCondition(chosen, operator, int(bins[place] - levels.first_bin[chosen]))
        return Growth(condition, gain, int((below_positive if is_below else above_positive)[place]))

    def _gains(self, totals: Rows, positives: Rows, usable: Mask, base: float) -> Floats:
        gains: Floats = positives * (self._log2[positives] - self._log2[totals] - base)
        gains[~usable] = -np.inf
        return gains
