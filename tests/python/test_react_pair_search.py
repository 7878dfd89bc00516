"""The search for the best two features, as an estimator."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from react_cases import own_binary
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from pinfold.learn.react.pair_search import PairTreeClassifier

__all__ = ["own_binary"]

FEATURES, SAMPLES, CLASSES, FOLDS = 32, 57, 13, 10
"""These have 496 pairs."""


def drawn(samples: int = SAMPLES, features: int = FEATURES) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(0)
    values = random.normal(size=(samples, features)).astype(np.float32)
    # Every second feature has few different values, and every eighth is the same for most samples.
    values[:, ::2] = values[:, ::2].round(1)
    values[: samples - 5, ::8] = 1
    return values, random.normal(size=(samples, CLASSES)), random.permutation(samples) % FOLDS


def by_scikit_learn(values: Any, gains: Any, folds: Any, features: tuple[int, ...]) -> Any:
    """Return the classes that scikit-learn's trees predict, each sample in its fold."""
    labels, predicted = gains.argmax(axis=1), np.zeros(len(values), dtype=int)
    seen = values[:, list(features)]
    for fold in np.unique(folds):
        judged = folds == fold
        tree = DecisionTreeClassifier(random_state=0).fit(seen[~judged], labels[~judged])
        predicted[judged] = tree.predict(seen[judged])
    return predicted


def score(gains: Any, predicted: Any) -> float:
    return float(gains[np.arange(len(gains)), predicted].mean())


def test_the_scores_of_five_hundred_pairs_are_those_of_scikit_learn() -> None:
    values, gains, folds = drawn()
    found = PairTreeClassifier(all_scores=True).fit(values, gains, folds)
    pairs = list(combinations(range(FEATURES), 2))
    expected = [score(gains, by_scikit_learn(values, gains, folds, pair)) for pair in pairs]
    assert found.scores_.dtype == np.float32
    assert np.allclose(found.scores_, expected, rtol=0, atol=1e-6)
    assert found.best_pair_ == pairs[int(np.argmax(expected))]
    assert found.best_score_ == pytest.approx(max(expected), abs=1e-12)
    assert (found.predicted_ == by_scikit_learn(values, gains, folds, found.best_pair_)).all()


@pytest.mark.parametrize("samples", [100, 150])
def test_more_samples_than_a_word_has_bits_are_judged_in_the_same_way(samples: int) -> None:
    values, gains, folds = drawn(samples, 6)
    found = PairTreeClassifier(all_scores=True).fit(values, gains, folds)
    expected = [score(gains, by_scikit_learn(values, gains, folds, pair)) for pair in combinations(range(6), 2)]
    assert np.allclose(found.scores_, expected, rtol=0, atol=1e-6)


def test_a_third_feature_is_that_with_which_the_pair_does_best() -> None:
    values, gains, folds = drawn(features=10)
    pair = PairTreeClassifier().fit(values, gains, folds)
    found = PairTreeClassifier(third=True).fit(values, gains, folds)
    one, other = pair.best_pair_
    expected = [score(gains, by_scikit_learn(values, gains, folds, (one, other, third))) for third in range(10)]
    assert found.best_features_[:2] == pair.best_pair_
    assert found.best_score_ == pytest.approx(max(expected), abs=1e-9)
    assert found.best_score_ > pair.best_score_


def test_it_predicts_by_a_tree_of_all_samples() -> None:
    values, gains, folds = drawn(features=8)
    found = PairTreeClassifier(jobs=1).fit(values, gains, folds)
    assert (found.predict(values) == gains.argmax(axis=1)).all(), "a tree without limits knows what it has learned"
    assert clone(found).jobs == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values, gains, folds: values.__setitem__((3, 2), np.nan), "feature 2 of sample 3 is no finite number"),
        (lambda values, gains, folds: gains.__setitem__((4, 1), np.inf), "gain 1 of sample 4 is no finite number"),
        (lambda values, gains, folds: folds.__setitem__(slice(None), 1), "all samples are in one fold"),
        (lambda values, gains, folds: folds.__setitem__(0, -1), "whole numbers from 0 to 255"),
        (lambda values, gains, folds: gains.__setitem__((slice(None), 5), 9), "all samples are of one class"),
    ],
)
def test_what_cannot_be_searched_is_refused(change: Any, message: str) -> None:
    values, gains, folds = drawn(features=4)
    change(values, gains, folds)
    with pytest.raises(ValueError, match=message):
        PairTreeClassifier().fit(values, gains, folds)


def test_arrays_that_do_not_fit_each_other_are_refused() -> None:
    values, gains, folds = drawn(features=4)
    with pytest.raises(ValueError, match="57 samples, the gains 56 and the folds 57"):
        PairTreeClassifier().fit(values, gains[1:], folds)
    with pytest.raises(ValueError, match="there are 1 samples"):
        PairTreeClassifier().fit(values[:1], gains[:1], folds[:1])
    with pytest.raises(ValueError, match="there are 17 classes"):
        PairTreeClassifier().fit(values, np.repeat(gains, 2, axis=1)[:, :17], folds)
    with pytest.raises(ValueError, match="two features"):
        PairTreeClassifier().fit(values[:, :1], gains, folds)
