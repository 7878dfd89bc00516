"""RIPPER for several classes: readable rules, as a scikit-learn classifier.

Cohen, "Fast Effective Rule Induction" (ICML 1995). AutoFinity learns its policies with it (Moore and Childers, 2012,
section 2.3). Classes are learned in ascending order of their frequency, each against the later ones; the most frequent
class is the default. :mod:`pinfold.learn.hints.one_class` learns one class, and
:mod:`pinfold.learn.hints.columns` has the inner search. The defaults are those of WEKA's ``JRip -F 3 -N 2.0 -O 2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pinfold.learn.hints.columns import AT_LEAST, AT_MOST, CodedCondition, Columns, Levels, Mask, Search
from pinfold.learn.hints.discretize import Codes, Floats
from pinfold.learn.hints.nominal import nominal_mask
from pinfold.learn.hints.one_class import OneClass, Options

MIN_FOLDS = 2

ABOVE = ">"
"""The operator for values of ``>=`` for bins. RIPPER itself does not use it."""


@dataclass(frozen=True)
class Condition:
    """A condition: a feature is at most, at least, or equal to a value. A missing value fulfils no condition."""

    feature: int
    operator: str
    """``<=``, ``>=``, ``>``, or ``=`` for nominal features."""
    threshold: float

    def covers(self, values: Floats) -> Mask:
        """Return which rows fulfil it, shape (rows,), for values of shape (rows, features)."""
        column = values[:, self.feature]
        if self.operator == AT_MOST:
            return np.asarray(column <= self.threshold)
        if self.operator == AT_LEAST:
            return np.asarray(column >= self.threshold)
        if self.operator == ABOVE:
            return np.asarray(column > self.threshold)
        return np.asarray(column == self.threshold)

    def text(self, names: Sequence[str]) -> str:
        """Write it with the names of the features."""
        return f"{names[self.feature]} {self.operator} {self.threshold:.6g}"


@dataclass(frozen=True)
class Rule:
    """If all conditions hold, then the class. A rule without conditions always holds."""

    conditions: tuple[Condition, ...]
    target: Any
    """One of ``classes_``."""
    coverage: int
    """The number of training rows that reach this rule and fulfil it."""
    errors: int
    """The number of these in other classes."""

    def covers(self, values: Floats) -> Mask:
        """Return which rows fulfil all conditions, shape (rows,), for values of shape (rows, features)."""
        covered = np.ones(len(values), dtype=bool)
        for condition in self.conditions:
            covered &= condition.covers(values)
        return covered

    def text(self, names: Sequence[str]) -> str:
        """Write it on one line, with the names of the features.

        >>> Rule((Condition(0, "<=", 1.9),), "setosa", 50, 1).text(["petal length"])
        'petal length <= 1.9 => setosa (50 rows, 1 wrong)'
        """
        conditions = " and ".join(condition.text(names) for condition in self.conditions)
        return f"{conditions or 'otherwise'} => {self.target} ({self.coverage} rows, {self.errors} wrong)"


def first_that_holds(rules: Sequence[Rule], values: Floats) -> NDArray[np.intp]:
    """Return the rule that gives each row its class, shape (rows,); the last one where no earlier rule covers the row.

    Args:
        rules: in their order, the last one without conditions.
        values: shape (rows, features); NaN is a missing value.
    """
    first = np.full(len(values), len(rules) - 1, dtype=np.intp)
    for number in reversed(range(len(rules) - 1)):
        first[rules[number].covers(values)] = number
    return first


class RipperClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns an ordered list of rules; the first rule that a row fulfils gives its class.

    Args:
        folds: a rule is pruned on one of this number of folds of the rows, and grown on the others.
        min_rows: the least number of rows of its class that a condition must leave.
        optimizations: the number of optimisation passes over all rules.
        prune: whether to prune and optimise. Without it rules fit the noise of the training rows.
        check_error_rate: whether a rule with half of its rows wrong ends the search.
        categorical_features: the nominal features: indices, a mask, or None for none. Their values are codes without an
        order.
        random_state: the seed of the splits; the same number gives the same rules.

    Attributes:
        rules_: the rules in their order, the last one without conditions.
        classes_: the classes, sorted.
        n_features_in_: the number of features.

    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> learned = RipperClassifier(random_state=0).fit(iris.data, iris.target)
    >>> print(learned.text(iris.feature_names).splitlines()[-1].split(" (")[0])
    otherwise => 2
    """

    def __init__(  # noqa: PLR0913 - RIPPER's parameters; scikit-learn requires each as a parameter
        self,
        *,
        folds: int = 3,
        min_rows: float = 2,
        optimizations: int = 2,
        prune: bool = True,
        check_error_rate: bool = True,
        categorical_features: ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        """Store the parameters; ``fit`` validates them."""
        self.folds = folds
        self.min_rows = min_rows
        self.optimizations = optimizations
        self.prune = prune
        self.check_error_rate = check_error_rate
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> RipperClassifier:  # noqa: N803
        """Learn rules.

        Args:
            X: shape (rows, features); NaN is a missing value.
            y: the class of each row, shape (rows,).

        Raises:
            ValueError: if a parameter or the data is not valid; the message names it.
        """
        options = self._options()
        values, target = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        if target.dtype.kind not in "biuSU":  # These cannot be continuous; the full check takes as long as a small fit.
            check_classification_targets(target)
        self.classes_, classes = np.unique(target, return_inverse=True)
        nominal = nominal_mask(self.categorical_features, values.shape[1])
        random = check_random_state(self.random_state)
        columns = Columns.of(Levels(values, nominal))
        self.rules_ = self._learn(columns, classes, options, random)
        return self

    def _options(self) -> Options:
        if self.folds < MIN_FOLDS:
            raise ValueError(
                f"folds is {self.folds}: it must be at least {MIN_FOLDS}, one for pruning and others for growing"
            )
        if self.min_rows < 0:
            raise ValueError(f"min_rows is {self.min_rows}: it must not be negative")
        if self.optimizations < 0:
            raise ValueError(f"optimizations is {self.optimizations}: it must not be negative")
        return Options(self.folds, self.min_rows, self.optimizations, self.prune, self.check_error_rate)

    def _learn(
        self, columns: Columns, classes: Codes, options: Options, random: np.random.RandomState
    ) -> tuple[Rule, ...]:
        rules: list[Rule] = []
        search = Search(len(classes))
        left = np.arange(len(classes))
        *rare, most_frequent = np.argsort(np.bincount(classes), kind="stable").tolist()
        for target in rare:
            own, own_classes = columns.take(left), classes[left]
            uncovered = np.ones(len(left), dtype=bool)
            for coded in OneClass(own, own_classes, target, options, search, random).learn():
                covered = uncovered & own.covers_all(coded)
                rules.append(self._rule(columns.levels, coded, target, own_classes[covered]))
                uncovered &= ~covered
            left = left[uncovered]
        rules.append(self._rule(columns.levels, [], most_frequent, classes[left]))
        return tuple(rules)

    def _rule(self, levels: Levels, coded: list[CodedCondition], target: int, covered: Codes) -> Rule:
        conditions = tuple(
            Condition(one.feature, one.operator, float(levels.values[one.feature][one.code])) for one in coded
        )
        return Rule(conditions, self.classes_[target], len(covered), int(np.count_nonzero(covered != target)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the class of each row, shape (rows,), for values of shape (rows, features)."""
        fired = self.apply(X)
        return np.array([rule.target for rule in self.rules_], dtype=self.classes_.dtype)[fired]

    def apply(self, X: ArrayLike) -> NDArray[np.intp]:  # noqa: N803
        """Return the index in ``rules_`` of the rule that gives each row its class, shape (rows,)."""
        check_is_fitted(self)
        values = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return first_that_holds(self.rules_, values)

    def text(self, names: Sequence[str] | None = None) -> str:
        """Write the rules, one per line, with the features' names: ``names``, those of ``fit``'s table, or x0, x1."""
        check_is_fitted(self)
        if names is None:
            names = getattr(self, "feature_names_in_", [f"x{feature}" for feature in range(self.n_features_in_)])
        return "\n".join(rule.text(names) for rule in self.rules_)

    def __sklearn_tags__(self) -> Any:
        """Declare that values may be missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
