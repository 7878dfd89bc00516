"""Predicts how long a program takes in each strategy, and knows when it does not know.

1. Regression trees predict the logarithm of the time in a strategy over that in the default, from
   :data:`pinfold.learn.classify.features.FEATURES`: one tree, a forest, or boosted trees. Each program has the weight
   of one, whatever the number of its inputs and machines.
2. Held-out programs show how far such predictions are off. A small tree of their absolute errors says where they are
   far off (the normalised conformal prediction of Papadopoulos et al., "Regression conformal prediction with nearest
   neighbours", JAIR 2011, section 4, with a tree in place of neighbours).
3. The width that covers 90 % of the held-out programs, each in all of its strategies, gives intervals. A program is one
   observation: its inputs and machines are alike.
4. The strategy that is predicted to be the fastest is an answer if another one can hardly be faster. The limit is the
   largest for which at most one answer of twenty costs more than 2 %, with the correction of conformal risk control for
   a finite number of programs (Angelopoulos et al., ICLR 2024, section 2.1). Any other program is *unsure*.
5. If one more strategy is to be measured beside the default, it is the one with which the faster of both is expected to
   lose least. The expectation is over the deviations of held-out programs: where predictions are poor, this is the
   best companion of the default for all programs, and else that of this program.
6. Whether placement matters at all is a question of its own, with a classification tree: predictions of times are drawn
   to their mean, so that few are as far from the default as the times are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pinfold.learn.classify.features import FEATURES, OF_STRATEGY, Floats, features
from pinfold.learn.classify.folds import split
from pinfold.learn.classify.strategies import STRATEGIES, Example

Kind = Literal["tree", "forest", "boosting"]

FOLDS = 10
COVERED = 0.9
"""The share of programs whose times all lie in their intervals."""

CLOSE = math.log(1.02)
"""An answer is right if its time is within 2 % of the best."""

WRONG = 0.05
"""The share of answers that may be wrong."""

FOREST_TREES, BOOSTED_TREES = 50, 60
ERROR_DEPTH = 2
SENSITIVITY_DEPTH, SENSITIVITY_LEAF = 4, 0.03
"""The largest number of conditions on whether placement matters, and the least share of all weight in a leaf."""

DIGITS = 6
"""Of deviations and their weights, behind the point."""

LEAST_ERROR = 1e-3
"""The least error that is predicted, so that no interval is without a width."""


@dataclass(frozen=True)
class Learner:
    """A learner with its parameters.

    Attributes
    ----------
    kind : str
        What it learns.
    depth : int
        The largest number of conditions on the way to a leaf; 0 for the mean.
    leaf : float
        The least share of all weight in a leaf.
    """

    kind: Kind
    depth: int
    leaf: float

    def regressor(self, seed: int) -> Any:
        """Return it, not fitted."""
        depth, leaf = max(self.depth, 1), self.leaf if self.depth else 0.5
        match self.kind:
            case "tree":
                return DecisionTreeRegressor(max_depth=depth, min_weight_fraction_leaf=leaf, random_state=seed)
            case "forest":
                return RandomForestRegressor(
                    FOREST_TREES,
                    max_depth=depth,
                    min_weight_fraction_leaf=leaf,
                    max_features=1 / 2,
                    random_state=seed,
                )
            case "boosting":
                return GradientBoostingRegressor(
                    n_estimators=BOOSTED_TREES,
                    max_depth=depth,
                    min_weight_fraction_leaf=leaf,
                    subsample=1 / 2,
                    random_state=seed,
                )

    def text(self) -> str:
        """Describe it in a few words."""
        return f"{self.kind}, depth {self.depth}, leaves of {self.leaf:.0%}"


LEARNERS = (
    *(Learner("tree", depth, 0.01) for depth in (2, 4, 6, 8)),
    Learner("forest", 8, 0.01),
    *(Learner("boosting", depth, 0.02) for depth in (2, 3)),
)
"""All learners, from the one that is easiest to read."""


@dataclass(frozen=True)
class Rows:
    """The training data.

    Attributes
    ----------
    values : array of float, shape (examples, strategies but the default, features)
        What the model sees.
    logs : array of float, shape (examples, strategies but the default)
        The logarithms of times over those in the default.
    weights : array of float, shape (examples,)
        The weight of each example.
    """

    values: Floats
    logs: Floats
    weights: Floats

    @classmethod
    def of(cls, found: Sequence[Example]) -> Rows:
        """Return the rows of programs."""
        programs = Counter(one.program for one in found)
        return cls(
            np.array([features(one) for one in found]),
            np.array([[-math.log(speed) for speed in one.speeds[1:]] for one in found]),
            np.array([1 / programs[one.program] for one in found]),
        )

    def part(self, places: Sequence[int]) -> Rows:
        """Return some of the rows."""
        chosen = list(places)
        return Rows(self.values[chosen], self.logs[chosen], self.weights[chosen])

    def fit(self, learner: Learner, seed: int) -> Any:
        """Fit a learner to the times."""
        return fit(learner, self.values, self.logs, self.weights, seed)


def fit(learner: Learner, values: Floats, targets: Floats, weights: Floats, seed: int) -> Any:
    """Fit a learner to a target for each example and strategy. A feature that is missing in any row is not used."""
    flat = values.reshape(-1, values.shape[-1])
    known = np.where(np.isnan(flat).any(axis=0), 0, flat)
    each = np.repeat(weights, values.shape[1])
    return learner.regressor(seed).fit(known, targets.ravel(), sample_weight=each)


def predicted(regressor: Any, values: Floats) -> Floats:
    """Return what a fitted learner predicts, shape (examples, strategies but the default).

    A feature that is missing has no effect where it was missing in training; elsewhere the program is not predicted
    (``PlacementModel.missing``).
    """
    flat = np.nan_to_num(values.reshape(-1, values.shape[-1]))
    found: Floats = regressor.predict(flat).reshape(values.shape[:2])
    return found


@dataclass(frozen=True)
class Prediction:
    """What a model says of one program.

    Attributes
    ----------
    logs : array of float, shape (strategies,)
        The predicted logarithms of times over that in the default; 0 for the default.
    widths : array of float, shape (strategies,)
        The half widths of their intervals.
    doubt : float
        How much less another strategy may take than the one that is predicted to be the fastest, as a logarithm.
    is_sure : bool
        Whether that is little enough for an answer.
    second : int
        The strategy to measure beside the default, if one more is measured.
    sensitivity : float
        The share of programs like it to which placement matters, if as many programs are sensitive as are not.
    """

    logs: Floats
    widths: Floats
    doubt: float
    is_sure: bool
    second: int
    sensitivity: float

    @property
    def best(self) -> int:
        """The position of the strategy that is predicted to be the fastest; of equally fast ones the first."""
        return int(np.argmin(self.logs))

    @property
    def choice(self) -> int:
        """The strategy to use: the best one, or the default if that is predicted to be as close to it as an answer."""
        return self.best if self.logs[self.best] < -CLOSE else 0

    @property
    def is_sensitive(self) -> bool:
        """Whether placement is predicted to matter."""
        return self.sensitivity > 1 / 2


@dataclass(frozen=True)
class Deviations:
    """How the times of held-out programs differed from what was predicted for them.

    Attributes
    ----------
    logs : array of float, shape (examples, strategies but the default)
        The logarithms of times over the predicted ones.
    weights : array of float, shape (examples,)
        The weight of each example; their sum is 1, up to the last digit.
    """

    logs: Floats
    weights: Floats

    @classmethod
    def of(cls, logs: Floats, weights: Floats) -> Deviations:
        """Return them in as many digits as a file has."""
        return cls(logs.round(DIGITS), (weights / weights.sum()).round(DIGITS))

    def second(self, predicted_logs: Floats) -> int:
        """Return the strategy with which the faster one of it and the default is expected to take the least time.

        Of equal ones it is the first.

        Args:
            predicted_logs: the logarithms of times over that in the default, shape (strategies,).
        """
        # The default's logarithm is 0, whatever happens.
        expected = self.weights @ np.minimum(predicted_logs[1:] + self.logs, 0)
        return 1 + int(np.argmin(expected))


@dataclass(frozen=True)
class PlacementModel:
    """A fitted model.

    Attributes
    ----------
    learner : Learner
        What was fitted.
    times, errors : scikit-learn regressor
        The models of the logarithms of times, and of their absolute errors.
    used : array of bool, shape (features,)
        The features that may be used: those that no training row lacked.
    ranges : array of float, shape (features, 2)
        The least and the largest value of each feature in the training data.
    width : float
        What an expected error is multiplied by to get the half width of an interval; infinite if there are too few
        programs.
    limit : float
        The largest doubt with which a prediction is an answer.
    sensitive : scikit-learn classifier
        The model of whether placement matters.
    deviations : Deviations
        How held-out programs differed from what was predicted for them.
    """

    learner: Learner
    times: Any
    errors: Any
    used: npt.NDArray[np.bool_]
    ranges: Floats
    width: float
    limit: float
    sensitive: Any
    deviations: Deviations

    def predict(self, values: Floats) -> list[Prediction]:
        """Predict programs.

        Args:
            values: their features, shape (examples, strategies but the default, features).
        """
        logs, errors = predicted(self.times, values), _expected_errors(self.errors, values)
        with_default = np.concatenate([np.zeros((len(logs), 1)), logs], axis=1)
        expected = np.concatenate([np.zeros((len(logs), 1)), errors], axis=1)
        doubts = _doubts(with_default, expected)
        matters = sensitivities(self.sensitive, values)
        return [
            Prediction(
                logs=log,
                widths=np.array([0, *(self.width * error)]),
                doubt=float(doubt),
                is_sure=bool(doubt <= self.limit),
                second=self.deviations.second(log),
                sensitivity=float(share),
            )
            for log, error, doubt, share in zip(with_default, errors, doubts, matters, strict=True)
        ]

    def missing(self, values: Floats) -> list[list[str]]:
        """Return, for each program, the features that the model uses and that are not known."""
        lacking = np.isnan(values).any(axis=1) & self.used
        return [[FEATURES[place] for place in np.flatnonzero(row)] for row in lacking]


def learn(found: Sequence[Example], learner: Learner, seed: int, folds: int = FOLDS) -> PlacementModel:
    """Fit a model, and find from held-out programs how far to believe it.

    Args:
        found: programs of at least two names.
        learner: what is fitted.
        seed: of the folds and of the learner.
        folds: the number of parts into which programs are split.
    """
    rows = Rows.of(found)
    held_out = held_out_predictions(found, rows, learner, seed, folds)
    off = np.abs(rows.logs - held_out)
    small = Learner("tree", ERROR_DEPTH, 0.1)
    errors = fit(small, rows.values, off, rows.weights, seed)
    # The errors of the errors' model would be judged on its own training data, so it is held out, too.
    expected = np.zeros_like(off)
    for inside, outside in split(found, folds, seed):
        part = fit(small, rows.values[inside], off[inside], rows.weights[inside], seed)
        expected[outside] = _expected_errors(part, rows.values[outside])
    flat = rows.values.reshape(-1, rows.values.shape[-1])
    return PlacementModel(
        learner=learner,
        times=rows.fit(learner, seed),
        errors=errors,
        used=np.logical_not(np.isnan(flat).any(axis=0)),
        ranges=np.stack([flat.min(axis=0), flat.max(axis=0)], axis=1),
        width=_width(found, (off / expected).max(axis=1)),
        limit=_limit(found, rows.logs, held_out, expected),
        sensitive=_sensitive(found, rows, seed),
        deviations=Deviations.of(rows.logs - held_out, rows.weights),
    )


def held_out_predictions(found: Sequence[Example], rows: Rows, learner: Learner, seed: int, folds: int) -> Floats:
    """Predict each program by a model that was learned from other programs."""
    logs = np.zeros_like(rows.logs)
    for inside, outside in split(found, folds, seed):
        logs[outside] = predicted(rows.part(inside).fit(learner, seed), rows.values[outside])
    return logs


def _sensitive(found: Sequence[Example], rows: Rows, seed: int) -> Any:
    """Fit a tree that says whether placement matters. Both classes have the same weight."""
    matters = np.array([one.is_sensitive for one in found])
    of_class = np.array([rows.weights[matters == kind].sum() for kind in matters])
    tree = DecisionTreeClassifier(
        max_depth=SENSITIVITY_DEPTH, min_weight_fraction_leaf=SENSITIVITY_LEAF, random_state=seed
    )
    known = np.where(np.isnan(rows.values[:, 0]).any(axis=0), 0, _of_program(rows.values))
    return tree.fit(known, matters, sample_weight=rows.weights / of_class)


def sensitivities(classifier: Any, values: Floats) -> Floats:
    """Return the share of sensitive programs that a fitted tree says, shape (examples,)."""
    shares = classifier.predict_proba(_of_program(values))
    # A tree that has only seen one class has one column.
    of_true: Floats = shares @ classifier.classes_.astype(float)
    return of_true


def _of_program(values: Floats) -> Floats:
    """Return the features of programs. Those of a strategy are 0, and so is what is missing."""
    first = values[:, 0].copy()
    first[:, -len(OF_STRATEGY) :] = 0
    known: Floats = np.nan_to_num(first)
    return known


def _expected_errors(regressor: Any, values: Floats) -> Floats:
    return np.maximum(predicted(regressor, values), LEAST_ERROR)


def _doubts(logs: Floats, expected: Floats) -> Floats:
    """Return by how much another strategy may be faster than the predicted one, if both are off as expected.

    Args:
        logs: shape (examples, strategies), with the default.
        expected: the expected errors of the same shape.
    """
    best = logs.argmin(axis=1)
    each = np.arange(len(logs))
    may = (expected + expected[each, best][:, None]) - (logs - logs[each, best][:, None])
    may[each, best] = 0
    doubts: Floats = may.max(axis=1)
    return doubts


def _width(found: Sequence[Example], scores: Floats) -> float:
    """Return the score that ``COVERED`` of the programs do not exceed, with the correction for their number."""
    worst: dict[str, float] = {}
    for one, score in zip(found, scores, strict=True):
        worst[one.program] = max(worst.get(one.program, 0.0), float(score))
    ordered = sorted(worst.values())
    place = math.ceil((len(ordered) + 1) * COVERED)
    return ordered[place - 1] if place <= len(ordered) else math.inf


def _limit(found: Sequence[Example], logs: Floats, held_out: Floats, expected: Floats) -> float:
    """Return the largest doubt up to which answers are right often enough; negative infinity if there is none."""
    zeros = np.zeros((len(logs), 1))
    truth, guess, errors = (np.concatenate([zeros, each], axis=1) for each in (logs, held_out, expected))
    doubts = _doubts(guess, errors)
    regrets = truth[np.arange(len(truth)), guess.argmin(axis=1)] - truth.min(axis=1)
    programs = Counter(one.program for one in found)
    weights = np.array([1 / programs[one.program] for one in found])
    limit, wrong, answered = -math.inf, 0.0, 0.0
    order = np.argsort(doubts, kind="stable")
    for number, place in enumerate(order):
        answered += weights[place]
        wrong += weights[place] * (regrets[place] > CLOSE)
        is_last_of_equals = number + 1 == len(order) or doubts[order[number + 1]] > doubts[place]
        if is_last_of_equals and (wrong + 1) / (answered + 1) <= WRONG:
            limit = float(doubts[place])
    return limit


def regret(example: Example, strategy: int) -> float:
    """Return the logarithm of a strategy's time over that of the best."""
    return math.log(max(example.speeds) / example.speeds[strategy])


def strategy_name(strategy: int) -> str:
    """Return the name of a strategy, such as ``scatter with interleave``."""
    return " with ".join(STRATEGIES[strategy])
