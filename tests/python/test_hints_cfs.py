"""CfsSelector selects the same features as WEKA's CfsSubsetEval, and is a selector of scikit-learn."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learning_data import LOADERS
from sklearn.utils.estimator_checks import parametrize_with_checks

from pinfold.learn.hints.cfs import CfsSelector
from pinfold.learn.hints.discretize import bins, mdl_thresholds

WEKA: dict[str, Any] = json.loads((Path(__file__).parent / "data/weka.json").read_text())["data"]


@parametrize_with_checks([CfsSelector(), CfsSelector(target="numeric")])  # type: ignore[untyped-decorator]
def test_it_is_an_estimator_of_scikit_learn(estimator: CfsSelector, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize(
    ("locally_predictive", "reference"), [(True, "selected"), (False, "without_locally_predictive")]
)
def test_it_selects_what_weka_selects(name: str, locally_predictive: bool, reference: str) -> None:
    data = LOADERS[name]()
    selector = CfsSelector(
        locally_predictive=locally_predictive,
        categorical_features=list(data.nominal),
        target="numeric" if np.issubdtype(data.target.dtype, np.floating) else "class",
    )
    selector.fit(data.values, data.target)
    assert selector.get_support(indices=True).tolist() == WEKA[name]["cfs"][reference]


def test_at_most_max_features_are_selected_and_they_are_the_first() -> None:
    data = LOADERS["digits"]()
    everything = CfsSelector().fit(data.values, data.target)
    four = CfsSelector(max_features=4).fit(data.values, data.target)
    assert four.selected_.tolist() == everything.selected_[:4].tolist()


def test_the_limit_holds_for_locally_predictive_features_too() -> None:
    data = LOADERS["wine"]()
    assert len(CfsSelector(max_features=9).fit(data.values, data.target).selected_) == 9
    assert len(CfsSelector().fit(data.values, data.target).selected_) == 11


def test_the_merit_of_two_features_is_halls_formula() -> None:
    # The two features together distinguish the classes, and each does so for half of them: 2 (1/2 (2/3 + 2/3)) / sqrt(2
    # + 2 * 0).
    first, second = np.array([0, 0, 1, 1] * 4), np.array([0, 1, 0, 1] * 4)
    selector = CfsSelector(categorical_features=[0, 1]).fit(np.column_stack([first, second]), first * 2 + second)
    assert selector.scores_ == pytest.approx([2 / 3, 2 / 3])
    assert selector.merit_ == pytest.approx(4 / 3 / np.sqrt(2))


def test_the_unit_of_a_feature_has_no_effect() -> None:
    data = LOADERS["diabetes"]()
    factors = np.logspace(-9, 9, data.values.shape[1])
    plain = CfsSelector(target="numeric").fit(data.values, data.target)
    scaled = CfsSelector(target="numeric").fit(data.values * factors, data.target)
    assert plain.selected_.tolist() == scaled.selected_.tolist()


def test_a_feature_without_any_value_is_not_selected() -> None:
    data = LOADERS["iris"]()
    values = np.column_stack([np.full(len(data.target), np.nan), data.values])
    for target in ("class", "numeric"):
        selected = CfsSelector(target=target).fit(values, data.target).selected_
        assert 0 not in selected
        assert len(selected) > 0


def test_noise_is_not_selected() -> None:
    random = np.random.RandomState(0)
    selector = CfsSelector().fit(random.normal(size=(200, 3)), random.randint(0, 2, 200))
    assert selector.selected_.tolist() == []
    assert selector.merit_ == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_features": 0}, "max_features is 0"),
        ({"target": "price"}, "target is 'price'"),
        ({"categorical_features": [4]}, "names feature 4: there are 4"),
        ({"categorical_features": [True]}, r"a mask of shape \(1,\): it must be \(4,\)"),
        ({"categorical_features": [0.5]}, "it must be indices, a mask, or None"),
        ({"categorical_features": [0], "target": "numeric"}, "categorical_features must be None"),
    ],
)
def test_an_invalid_parameter_is_named(parameters: dict[str, Any], message: str) -> None:
    data = LOADERS["iris"]()
    with pytest.raises(ValueError, match=message):
        CfsSelector(**parameters).fit(data.values, data.target)


def test_a_column_is_cut_between_its_classes() -> None:
    values = np.concatenate([np.arange(20.0), [np.nan], np.arange(30.0, 50.0)])
    classes = np.array([0] * 20 + [1] + [1] * 20)
    thresholds = mdl_thresholds(values, classes)
    assert thresholds.tolist() == [24.5]
    assert bins(values, thresholds)[[0, 19, 20, 21, 40]].tolist() == [0, 0, -1, 1, 1]


def test_a_column_without_information_is_not_cut() -> None:
    assert mdl_thresholds(np.arange(40.0), np.array([0, 1] * 20)).tolist() == []
