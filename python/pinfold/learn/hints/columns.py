"""The training rows in the form that RIPPER searches, and its inner search: the condition with the highest gain.

Each feature's values are numbered in ascending order, its *codes*; a missing value has the code after the last. Every
(feature, code) is one *bin*, and bins are numbered through all features. A search counts the rows and the positive rows
in each bin. Cumulative sums over the bins give the coverage of `<=` and `>=` at every value of every feature. There is
no loop over values or over features.

Rows are counted in the cheaper of two methods: into all bins (features with few values, or many rows), or by sorting
the bins of the rows (few of many rows are left).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pinfold.learn.hints.discretize import Floats

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

AT_MOST, AT_LEAST, EQUAL = "<=", ">=", "="

SORT_BELOW = 8
"""Rows are sorted when there are more bins than this multiple of the rows' values, where both methods cost the same."""


class CodedCondition(NamedTuple):
    """A condition on a feature's code: ``operator`` is one of ``<=``, ``>=`` and ``=``."""

    feature: int
    operator: str
    code: int


class Levels:
    """The values of all features' codes, from the training rows."""

    def __init__(self, values: Floats, nominal: Mask) -> None:
        """Take values of the shape (rows, features). NaN is a missing value."""
        self.nominal = nominal
        columns = np.ascontiguousarray(values.T)
        order = columns.argsort(axis=1)  # NaN is last.
        ordered = np.take_along_axis(columns, order, axis=1)
        first = np.isfinite(ordered)
        first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        #: Each feature's values, in ascending order; the position of a value is its code.
        self.values: list[Floats] = [column[starts] for column, starts in zip(ordered, first, strict=True)]
        #: The code of a missing value.
        self.missing_code = first.sum(axis=1)
        self.codes = np.empty(columns.shape, dtype=np.intp)
        np.put_along_axis(self.codes, order, first.cumsum(axis=1) - 1, axis=1)
        self.codes[np.isnan(columns)] = np.repeat(self.missing_code, np.isnan(columns).sum(axis=1))
        self.first_bin = np.concatenate([[0], np.cumsum(self.missing_code + 1)])
        self.bin_feature = np.repeat(np.arange(len(self.values)), self.missing_code + 1)
        self.bin_missing = np.zeros(self.first_bin[-1], dtype=bool)
        self.bin_missing[self.first_bin[1:] - 1] = True
        self.bin_nominal = nominal[self.bin_feature]
        self.any_nominal = bool(nominal.any())
        #: The number of possible conditions.
        self.possible_conditions = int(np.sum(self.missing_code * np.where(nominal, 1, 2)))


@dataclass(frozen=True)
class Columns:
    """Some of the training rows: their codes in both orders of memory."""

    levels: Levels
    codes: Rows
    """Shape (features, rows)."""
    bins: Rows
    """Shape (rows, features)."""
    has_missing: bool

    @classmethod
    def of(cls, levels: Levels) -> Columns:
        """Return all rows."""
        bins = np.ascontiguousarray((levels.codes + levels.first_bin[:-1, None]).T)
        has_missing = bool((levels.codes == levels.missing_code[:, None]).any())
        return cls(levels, levels.codes, bins, has_missing)

    def take(self, rows: Rows) -> Columns:
        """Return these rows only."""
        return Columns(self.levels, self.codes[:, rows], self.bins[rows], self.has_missing)

    def covers(self, condition: CodedCondition, rows: Rows | None = None) -> Mask:
        """Return which of the rows, or of all, fulfil a condition. A missing value fulfils no condition."""
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

    def count(self, rows: Rows, positive: Mask) -> Counts:
        """Count rows and positive rows in the bins."""
        size = len(self.levels.bin_feature)
        taken = self.bins[rows]
        if size <= SORT_BELOW * taken.size:
            counts = np.empty((2, size), dtype=np.intp)
            counts[0] = np.bincount(taken.ravel(), minlength=size)
            counts[1] = np.bincount(taken[positive].ravel(), minlength=size)
            bins = counts[1].nonzero()[0]
            return Counts(bins, counts[:, bins], counts.cumsum(axis=1)[:, bins])
        ordered = np.sort((taken * 2 + positive[:, None]).ravel())
        ends = np.flatnonzero(np.append(np.diff(ordered >> 1), 1))
        up_to = np.array([ends + 1, np.cumsum(ordered & 1)[ends]])
        within = np.diff(up_to, prepend=0)
        has_positive = within[1] > 0
        return Counts(ordered[ends][has_positive] >> 1, within[:, has_positive], up_to[:, has_positive])

    def present(self, rows: Rows, positive: Mask) -> Rows:
        """Return the number of rows, and of positive rows, that have a value, shape (2, features)."""
        present = self.codes[:, rows] != self.levels.missing_code[:, None]
        return np.array([present.sum(axis=1), present[:, positive].sum(axis=1)])


class Counts(NamedTuple):
    """The numbers of rows and of positive rows in bins, for the bins with positive rows.

    A condition that ends at another bin covers as many positive rows as one that ends earlier, and more negative rows.
    """

    bins: Rows
    """In ascending order, shape (bins,)."""
    within: Rows
    """In the bin, shape (2, bins)."""
    up_to: Rows
    """In the bin and all before, of this and of the features before, shape (2, bins)."""


class Growth(NamedTuple):
    """The best condition, its gain in bits, and the number of positive rows that it covers."""

    condition: CodedCondition
    gain: float
    positives: int


class Search:
    """The inner search. It stores the logarithms of all counts that can occur."""

    def __init__(self, rows: int) -> None:
        """Prepare for at most this number of rows."""
        # Not by numpy, whose logarithms differ in the last bit between processors: rules would differ, too.
        self._log2: Floats = np.array([log2(count) for count in range(1, rows + 2)])

    def best(self, columns: Columns, rows: Rows, positive: Mask, spent: Mask) -> Growth | None:
        """Return the condition with the highest gain on these rows, the first of equals; None if none gains.

        The gain is FOIL's, p (log2(p/t) - log2(P/T)), where a condition covers t of T rows and p of P positive rows
        (Quinlan, "Learning Logical Definitions from Relations", 1990). In the logarithms each count is one more, so
        that a few rows that are pure by chance have less effect.

        Args:
            columns: the columns of the rows.
            rows: indices of the rows.
            positive: which of them are positive, shape (rows,).
            spent: nominal features that already have a condition, shape (features,).
        """
        levels = columns.levels
        bins, within, up_to = columns.count(rows, positive)
        feature = levels.bin_feature[bins]
        whole = np.array([[len(rows)], [np.count_nonzero(positive)]])
        # The coverage of conditions, shape (rows and positive rows, `<=` and `>=`, bins). Every feature before has all
        # rows.
        covered = np.empty((2, 2, len(bins)), dtype=np.intp)
        below, above = covered[:, 0], covered[:, 1]
        np.subtract(up_to, feature * whole, out=below)
        present = columns.present(rows, positive)[:, feature] if columns.has_missing else whole
        np.subtract(present, below, out=above)
        above += within
        if levels.any_nominal:
            below[:] = np.where(levels.bin_nominal[bins], within, below)
        # The gain of a condition that covers everything is exactly 0.
        logarithms = self._log2[covered]
        base = self._log2[whole[1]] - self._log2[whole[0]]
        gains = covered[1] * (logarithms[1] - logarithms[0] - base)
        if columns.has_missing:
            # The presence of a value is not a condition.
            gains[(covered[0] == present[0]) | levels.bin_missing[bins]] = 0
        if levels.any_nominal:
            gains[1, levels.bin_nominal[bins]] = 0
            gains[:, spent[feature]] = 0
        if len(bins) == 0:
            return None
        # The lowest bin first, and `<=` before `>=`.
        place = int(gains.max(axis=0).argmax())
        side = int(gains[:, place].argmax())
        if gains[side, place] <= 0:
            return None
        chosen = int(feature[place])
        operator = AT_LEAST if side else EQUAL if levels.nominal[chosen] else AT_MOST
        condition = CodedCondition(chosen, operator, int(bins[place] - levels.first_bin[chosen]))
        return Growth(condition, float(gains[side, place]), int(covered[1, side, place]))
