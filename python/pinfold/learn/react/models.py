"""The models of Sánchez Barrera et al. (ICS 2020, table 2), and a tree of regrets.

A model sees a few features of a region and chooses one of the output configurations. It learns from the gains of these,
the logarithms of speed-ups over the baseline. With a *single label* a region's class is the best configuration; with
*many labels* all within 95 % of the best speed are right (section 4.1). Parameters that table 2 does not name are
scikit-learn's defaults. Where the paper leaves something open, it is chosen here:

- Networks, support vector machines, logistic regressions and clusters see standardised features, trees see them as they
  are.
- Of many labels, the most probable one is taken; of several the one that gains most in training.
- Clusters are as many as there are output configurations. A cluster's configuration is the best one of the region that
  is nearest to its centre, and a new region gets that of the nearest centre.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.cluster import AgglomerativeClustering
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Predict = Callable[[Any], Labels]
"""Gives the output configuration of each row of features."""

AS_GOOD = 0.95
"""With many labels, configurations with at least this share of the best speed are right (section 4.1)."""

NEURONS = 7


def single_labels(gains: Floats) -> Labels:
    """Return the best output configuration of each region; of several the first."""
    labels: Labels = gains.argmax(axis=1)
    return labels


def many_labels(gains: Floats) -> Labels:
    """Return which output configurations are right, of shape (regions, outputs): 0 or 1."""
    right: Labels = (gains >= gains.max(axis=1, keepdims=True) + math.log(AS_GOOD)).astype(np.int64)
    return right


@dataclass(frozen=True)
class ReactionModel:
    """One way to learn.

    Attributes
    ----------
    name : str
        As in table 3; ``s`` is a single label, ``m`` are many.
    learn : callable
        Fits it to features, of shape (regions, features), and gains, of shape (regions, outputs).
    budget : int
        The number of random pairs that are tried where not all are. The paper had a budget of two days.
    """

    name: str
    learn: Callable[[Any, Floats], Predict]
    budget: int = 200

    def fit(self, values: Any, gains: Floats) -> Predict:
        """Fit it.

        Args:
            values: the features, of shape (regions, features).
            gains: those of the output configurations, of shape (regions, outputs).
        """
        labels = single_labels(gains)
        if (labels == labels[0]).all():
            # No classifier can be fitted to one class.
            return lambda others: np.full(len(others), labels[0])
        with warnings.catch_warnings():
            # The paper's models have default settings, whether these suffice or not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.learn(values, gains)


def _single(make: Callable[[], Any]) -> Callable[[Any, Floats], Predict]:
    def learn(values: Any, gains: Floats) -> Predict:
        fitted = make().fit(values, single_labels(gains))
        return lambda others: np.asarray(fitted.predict(others), dtype=np.int64)

    return learn


def _many(make: Callable[[], Any], probable: Callable[[Any, Any], Floats]) -> Callable[[Any, Floats], Predict]:
    def learn(values: Any, gains: Floats) -> Predict:
        right = many_labels(gains)
        # A configuration that is right for all or for none cannot be learned: its probability is known.
        varies = np.flatnonzero(np.ptp(right, axis=0) > 0)
        always = right[0].astype(np.float64)
        preferred = np.argsort(-gains.mean(axis=0), kind="stable")
        taught = right[:, varies[0]] if varies.size == 1 else right[:, varies]
        fitted = make().fit(values, taught) if varies.size else None

        def predict(others: Any) -> Labels:
            shares = np.tile(always, (len(others), 1))
            if fitted is not None:
                shares[:, varies] = probable(fitted, others)
            best: Labels = preferred[shares[:, preferred].argmax(axis=1)]
            return best

        return predict

    return learn


def _of_tree(fitted: Any, values: Any) -> Floats:
    found = fitted.predict_proba(values)
    of_outputs = found if isinstance(found, list) else [found]
    return np.array([shares[:, 1] for shares in of_outputs]).T


def _of_network(fitted: Any, values: Any) -> Floats:
    shares = np.asarray(fitted.predict_proba(values), dtype=np.float64)
    # With one output, the network gives the probabilities of both of its values.
    return shares if fitted[-1].n_outputs_ > 1 else shares[:, [1]]


def _clusters(values: Any, gains: Floats) -> Predict:
    scale = StandardScaler().fit(values)
    inside = scale.transform(values)
    number = min(gains.shape[1], len(inside))
    members = AgglomerativeClustering(number, linkage="ward").fit_predict(inside)
    centres = np.array([inside[members == cluster].mean(axis=0) for cluster in range(number)])
    labels = single_labels(gains)
    nearest = [
        min(np.flatnonzero(members == cluster), key=lambda place: float(np.linalg.norm(inside[place] - centre)))
        for cluster, centre in enumerate(centres)
    ]
    choices = labels[nearest]

    def predict(others: Any) -> Labels:
        away = np.linalg.norm(scale.transform(others)[:, None] - centres[None], axis=2)
        found: Labels = choices[away.argmin(axis=1)]
        return found

    return predict


def _regrets(values: Any, gains: Floats) -> Predict:
    """Fit a regression tree to the regret of each output: the gain of the best output minus its own."""
    tree = DecisionTreeRegressor(random_state=0).fit(values, gains.max(axis=1, keepdims=True) - gains)
    return lambda others: np.asarray(tree.predict(others).argmin(axis=1), dtype=np.int64)


def _tree() -> Any:
    return DecisionTreeClassifier(random_state=0)


def _network() -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier((NEURONS,), solver="lbfgs", alpha=0.0001, random_state=0))


def _regression() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(random_state=0, solver="lbfgs"))


def _vectors() -> Any:
    return make_pipeline(StandardScaler(), SVC(gamma="scale", decision_function_shape="ovo"))


TREE = ReactionModel("Tree_s", _single(_tree))
"""The model whose pairs are searched exhaustively."""

REGRET = ReactionModel("Tree of regrets", _regrets)
"""Beyond the paper: a wrong configuration that is nearly as fast costs next to nothing."""

SLOW = (
    ReactionModel("LR_s", _single(_regression)),
    ReactionModel("Clustering", _clusters),
    ReactionModel("ANN_m", _many(_network, _of_network), budget=40),
    ReactionModel("ANN_s", _single(_network), budget=40),
    ReactionModel("SVM_s", _single(_vectors)),
    ReactionModel("Tree_m", _many(_tree, _of_tree)),
)
"""The others of the paper, in the order of table 3: of these, a random subset of all pairs is tried."""
