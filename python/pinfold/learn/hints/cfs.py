"""Selects the relevant features: correlation-based feature selection with a greedy search.

The features of a good subset correlate with the class and little with each other (Hall, "Correlation-based Feature
Selection for Machine Learning", thesis, University of Waikato 1999, chapter 4). Steps:

1. Numbers become intervals (:func:`pinfold.learn.hints.discretize.mdl_thresholds`).
2. The correlation of two columns is their symmetrical uncertainty (thesis, section 4.2).
3. Starting without features, the feature that increases the merit most is added, until none increases it.
4. Features are added that correlate more with the class than with any selected feature ("locally predictive").

With the defaults the result is that of WEKA's ``CfsSubsetEval -P 1 -E 1`` with ``GreedyStepwise`` (forward, no
threshold). AutoFinity selects its counters with it (Moore and Childers, 2012, section 3.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pinfold.learn.hints.discretize import Codes, Floats, bins, entropy, mdl_thresholds
from pinfold.learn.hints.nominal import nominal_mask


class CfsSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Selects features by correlation-based feature selection, in the order of their contribution.

    Args:
        max_features: the highest number of features; None for no limit. A processor counts only a few events at a time.
        locally_predictive: whether to do step 4 of the module's description.
        categorical_features: the nominal features: indices, a mask, or None for none. Their values are codes without an
        order.
        target: ``class``: ``y`` contains classes. ``numeric``: it contains numbers, such as instructions per cycle.
        Then columns are compared by the absolute value of Pearson's correlation (Hall, ICML 2000), a missing value is
        the mean of its column, and no feature may be nominal. The units of features have no effect; in WEKA they have,
        and its result is the same where all features have the same standard deviation.

    Attributes:
        scores_: shape (features,), the correlation of each single feature with the target, from 0 to 1.
        selected_: indices of the selected features, in the order of their selection.
        merit_: the merit of the features of the greedy search, from 0 to 1.
        n_features_in_: the number of features.

    >>> from sklearn.datasets import load_iris
    >>> CfsSelector().fit(*load_iris(return_X_y=True)).selected_.tolist()
    [3, 2]
    """

    def __init__(
        self,
        *,
        max_features: int | None = None,
        locally_predictive: bool = True,
        categorical_features: ArrayLike | None = None,
        target: Literal["class", "numeric"] = "class",
    ) -> None:
        """Store the parameters; ``fit`` validates them."""
        self.max_features = max_features
        self.locally_predictive = locally_predictive
        self.categorical_features = categorical_features
        self.target = target

    def fit(self, X: ArrayLike, y: ArrayLike) -> CfsSelector:  # noqa: N803
        """Select features.

        Args:
            X: shape (rows, features); NaN is a missing value.
            y: shape (rows,).

        Raises:
            ValueError: if a parameter or the data is not valid; the message names it.
        """
        if self.max_features is not None and self.max_features < 1:
            raise ValueError(f"max_features is {self.max_features}: it must be at least 1, or None for no limit")
        if self.target not in ("class", "numeric"):
            raise ValueError(f"target is {self.target!r}: it must be 'class' or 'numeric'")
        numeric = self.target == "numeric"
        values, target = validate_data(
            self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2, y_numeric=numeric
        )
        nominal = nominal_mask(self.categorical_features, values.shape[1])
        if numeric:
            if nominal.any():
                raise ValueError("categorical_features must be None with target='numeric': encode them, e.g. one-hot")
            correlation: _Correlation = _Pearson(values, np.asarray(target, dtype=np.float64))
        else:
            check_classification_targets(target)
            correlation = _Uncertainty(values, np.unique(target, return_inverse=True)[1], nominal)
        self.scores_ = correlation.with_target
        limit = values.shape[1] if self.max_features is None else self.max_features
        selected, self.merit_ = _grow(correlation, limit)
        if self.locally_predictive:
            _add_locally_predictive(correlation, selected, limit)
        self.selected_ = np.array(selected, dtype=np.intp)
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.selected_] = True
        return mask

    def __sklearn_tags__(self) -> Any:
        """Declare that a target is required, and that values may be missing."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags


class _Correlation(ABC):
    """The correlation of each column with the target, and with each other column, both from 0 to 1."""

    with_target: Floats

    def __init__(self) -> None:
        self._rows: dict[int, Floats] = {}

    def with_features(self, feature: int) -> Floats:
        """Return the correlation of this feature with each one, shape (features,)."""
        if feature not in self._rows:
            self._rows[feature] = self._compute(feature)
        return self._rows[feature]

    @abstractmethod
    def _compute(self, feature: int) -> Floats: ...


class _Uncertainty(_Correlation):
    """Symmetrical uncertainty of intervals and nominal values."""

    def __init__(self, values: Floats, classes: Codes, nominal: NDArray[np.bool_]) -> None:
        super().__init__()
        columns = [
            _codes(column) if is_nominal else bins(column, mdl_thresholds(column, classes))
            for column, is_nominal in zip(values.T, nominal, strict=True)
        ]
        # The code after the highest is a missing value, the same one in all columns.
        self._size = max(int(classes.max()), *(int(column.max()) for column in columns)) + 2
        self._columns = np.array([np.where(column < 0, self._size - 1, column) for column in columns])
        self.with_target = self._with(classes)

    def _compute(self, feature: int) -> Floats:
        return self._with(self._columns[feature])

    def _with(self, codes: Codes) -> Floats:
        """Compare each column with this one."""
        size, features = self._size, len(self._columns)
        cells = (np.arange(features)[:, None] * size + self._columns) * size + codes
        counts = np.bincount(cells.ravel(), minlength=features * size * size).reshape(features, size, size)
        return _symmetrical_uncertainty(_spread_missing(counts.astype(np.float64)))


def _codes(column: Floats) -> Codes:
    present = ~np.isnan(column)
    codes = np.full(len(column), -1, dtype=np.int64)
    codes[present] = np.unique(column[present], return_inverse=True)[1]
    return codes


def _spread_missing(counts: Floats) -> Floats:
    """Distribute the rows with missing values, last of each axis, over the present values in proportion."""
    present = counts[:, :-1, :-1]
    only_first, only_second, both = counts[:, -1, :-1], counts[:, :-1, -1], counts[:, -1, -1]
    first = _shares(counts[:, :-1, :].sum(axis=2))
    second = _shares(counts[:, :, :-1].sum(axis=1))
    joint = _shares(present.reshape(len(counts), -1)).reshape(present.shape)
    return np.asarray(
        present
        + first[:, :, None] * only_first[:, None, :]
        + second[:, None, :] * only_second[:, :, None]
        + joint * both[:, None, None]
    )


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(counts, total, out=np.zeros_like(counts), where=total > 0))


def _symmetrical_uncertainty(counts: Floats) -> Floats:
    """Return 2 (H(a) + H(b) - H(a, b)) / (H(a) + H(b)) of tables of shape (tables, values of a, values of b)."""
    separate = entropy(counts.sum(axis=2)) + entropy(counts.sum(axis=1))
    together = entropy(counts.reshape(len(counts), -1))
    shared = 2 * (separate - together)
    return np.asarray(np.divide(shared, separate, out=np.zeros_like(separate), where=separate > 0))


class _Pearson(_Correlation):
    """The absolute value of Pearson's correlation; 0 with a constant column."""

    def __init__(self, values: Floats, target: Floats) -> None:
        super().__init__()
        present = ~np.isnan(values)
        mean = np.divide(
            np.nansum(values, axis=0), present.sum(axis=0), where=present.any(axis=0), out=np.zeros(values.shape[1])
        )
        self._columns = _standardised(np.where(present, values, mean))
        self.with_target = np.abs(_standardised(target[:, None])[:, 0] @ self._columns)

    def _compute(self, feature: int) -> Floats:
        return np.asarray(np.abs(self._columns[:, feature] @ self._columns))


def _standardised(columns: Floats) -> Floats:
    centred = columns - columns.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 0))


def _grow(correlation: _Correlation, limit: int) -> tuple[list[int], float]:
    """Add the feature that increases the merit most until none increases it; return features and merit.

    The merit of k features is k r_t / sqrt(k + k (k - 1) r_f), with the means of their correlations with the target and
    with each other.
    """
    features = len(correlation.with_target)
    selected: list[int] = []
    best_merit = 0.0
    numerator, denominator = 0.0, 0.0
    with_selected = np.zeros(features)
    while len(selected) < min(limit, features):
        denominators = denominator + 1 + 2 * with_selected
        merits = (numerator + correlation.with_target) / np.sqrt(denominators)
        merits[selected] = -np.inf
        best = int(np.argmax(merits))
        if merits[best] <= best_merit:
            break
        best_merit = float(merits[best])
        numerator += float(correlation.with_target[best])
        denominator = float(denominators[best])
        with_selected = with_selected + correlation.with_features(best)
        selected.append(best)
    return selected, best_merit


def _add_locally_predictive(correlation: _Correlation, selected: list[int], limit: int) -> None:
    """Try the other features, in descending order of their correlation with the target."""
    for feature in np.argsort(-correlation.with_target, kind="stable").tolist():
        if len(selected) >= limit or correlation.with_target[feature] == 0:
            return
        if feature not in selected:
            redundant = correlation.with_features(feature)[selected] > correlation.with_target[feature]
            if not redundant.any():
                selected.append(feature)
