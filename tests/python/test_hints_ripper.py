"""RipperClassifier is as accurate as WEKA's JRip on the same folds, and behaves like an estimator of scikit-learn."""

import json
from itertools import product
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learning_data import COMPARED, FOLDS, LOADERS
from sklearn.utils.estimator_checks import parametrize_with_checks

from pinfold.learn.hints import columns
from pinfold.learn.hints.columns import AT_LEAST, AT_MOST, EQUAL, CodedCondition, Columns, Levels, Search
from pinfold.learn.hints.description_length import exception_bits, rule_bits, subset_bits
from pinfold.learn.hints.ripper import RipperClassifier

WEKA: dict[str, Any] = json.loads((Path(__file__).parent / "data/weka.json").read_text())["data"]
#: The largest allowed deficit against JRip, in percent of the rows.
TOLERANCE = 1.0


@parametrize_with_checks([RipperClassifier(), RipperClassifier(prune=False)])  # type: ignore[untyped-decorator]
def test_it_is_an_estimator_of_scikit_learn(estimator: RipperClassifier, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("name", COMPARED)
def test_it_is_as_accurate_as_jrip_on_the_same_folds(name: str) -> None:
    # Both learners split at random, so each is one to three points off its own mean on the small data sets. The test
    # compares the means over all repetitions of ten folds in the reference.
    data, reference = LOADERS[name](), WEKA[name]["jrip"]
    correct = 0
    for seed, drawn in enumerate(reference["folds"]):
        fold = np.array(list(drawn), dtype=int)
        for test in (fold == number for number in range(FOLDS)):
            learned = RipperClassifier(random_state=seed).fit(data.values[~test], data.target[~test])
            correct += int(np.count_nonzero(learned.predict(data.values[test]) == data.target[test]))
    rows = len(data.target) * len(reference["folds"])
    assert 100 * correct / rows >= 100 * np.sum(reference["correct"]) / rows - TOLERANCE


def test_the_same_seed_gives_the_same_rules_and_another_seed_others() -> None:
    data = LOADERS["breast_cancer"]()
    first, second, other = (
        RipperClassifier(random_state=seed).fit(data.values, data.target).rules_ for seed in (7, 7, 8)
    )
    assert first == second
    assert first != other


def test_rules_have_the_numbers_of_covered_and_of_wrong_rows() -> None:
    data = LOADERS["wine"]()
    learned = RipperClassifier(random_state=0).fit(data.values, data.target)
    fired = learned.apply(data.values)
    for number, rule in enumerate(learned.rules_):
        assert rule.coverage == np.count_nonzero(fired == number)
        assert rule.errors == np.count_nonzero(data.target[fired == number] != rule.target)


def test_classes_are_learned_in_ascending_order_of_their_frequency() -> None:
    values = np.repeat([[1.0], [2.0], [3.0]], [60, 20, 40], axis=0)
    learned = RipperClassifier(random_state=0).fit(values, np.repeat(["many", "few", "some"], [60, 20, 40]))
    assert [rule.target for rule in learned.rules_] == ["few", "some", "many"]
    assert learned.rules_[-1].conditions == ()


def test_rules_are_readable() -> None:
    values = np.repeat([[1.0, 0.0], [2.5, 0.0]], [60, 20], axis=0)
    learned = RipperClassifier(random_state=0).fit(values, np.repeat(["packed", "spread"], [60, 20]))
    assert learned.text() == "x0 >= 2.5 => spread (20 rows, 0 wrong)\notherwise => packed (60 rows, 0 wrong)"
    assert learned.text(["misses", "ipc"]).startswith("misses >= 2.5 => spread")


def test_a_nominal_feature_is_compared_for_equality() -> None:
    values = np.tile(np.arange(5.0), 20)[:, None]
    learned = RipperClassifier(random_state=0, categorical_features=[0]).fit(values, values[:, 0] == 2)
    assert [condition.operator for rule in learned.rules_ for condition in rule.conditions] == [EQUAL]
    assert learned.predict([[2.0], [3.0], [9.0]]).tolist() == [True, False, False]


def test_a_missing_value_fulfils_no_condition() -> None:
    values = np.repeat([1.0, 2.0], [60, 20])[:, None]
    learned = RipperClassifier(random_state=0).fit(values, values[:, 0] > 1)
    assert learned.predict([[5.0], [np.nan]]).tolist() == [True, False]


def test_it_learns_from_the_present_values() -> None:
    data = LOADERS["wine_gaps"]()
    learned = RipperClassifier(random_state=0).fit(data.values, data.target)
    assert learned.score(data.values, data.target) > 0.8


def test_without_pruning_all_training_rows_are_classified_correctly() -> None:
    data = LOADERS["wine"]()
    learned = RipperClassifier(prune=False, min_rows=1, random_state=0).fit(data.values, data.target)
    assert learned.score(data.values, data.target) == 1


def test_noise_gives_no_rule_but_the_default() -> None:
    random = np.random.RandomState(1)
    learned = RipperClassifier(random_state=0).fit(random.normal(size=(300, 4)), random.uniform(size=300) < 0.1)
    assert [rule.conditions for rule in learned.rules_] == [()]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"folds": 1}, "folds is 1"),
        ({"min_rows": -1}, "min_rows is -1"),
        ({"optimizations": -1}, "optimizations is -1"),
        ({"categorical_features": [-1]}, "names feature -1: there are 4"),
    ],
)
def test_an_invalid_parameter_is_named(parameters: dict[str, Any], message: str) -> None:
    data = LOADERS["iris"]()
    with pytest.raises(ValueError, match=message):
        RipperClassifier(**parameters).fit(data.values, data.target)


def _some_columns(seed: int) -> Columns:
    random = np.random.RandomState(seed)
    values = random.randint(0, 6, size=(40, 4)).astype(float)
    values[random.uniform(size=values.shape) < 0.15 * (seed % 2)] = np.nan
    return Columns.of(Levels(values, np.array([False, True, False, False])))


@pytest.mark.parametrize("seed", range(10))
def test_the_search_finds_the_same_as_a_test_of_every_condition(seed: int) -> None:
    everything = _some_columns(seed)
    random = np.random.RandomState(100 + seed)
    rows = random.permutation(40)[:30]
    positive = random.uniform(size=30) < 0.4

    def gain(condition: CodedCondition) -> float:
        covered = everything.covers(condition, rows)
        p, t = np.count_nonzero(covered & positive), np.count_nonzero(covered)
        return float(p * (log2((p + 1) / (t + 1)) - log2((positive.sum() + 1) / 31)))

    conditions = [
        CodedCondition(feature, operator, code)
        for feature, operator in product(range(4), (AT_MOST, AT_LEAST, EQUAL))
        if (operator == EQUAL) == (feature == 1)
        for code in range(len(everything.levels.values[feature]))
    ]
    # A condition that every present value fulfils only says that there is a value; the search leaves it out.
    present = everything.codes[:, rows] < everything.levels.missing_code[:, None]
    separating = [
        condition
        for condition in conditions
        if not np.array_equal(everything.covers(condition, rows), present[condition.feature])
    ]
    found = Search(40).best(everything, rows, positive, np.zeros(4, dtype=bool))
    assert found is not None
    assert found.gain == pytest.approx(max(map(gain, separating)))
    assert found.gain == pytest.approx(gain(found.condition))
    assert found.positives == np.count_nonzero(everything.covers(found.condition, rows) & positive)


def test_counting_by_bins_and_by_sorting_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    some, rows = _some_columns(1), np.arange(5, 25)
    positive = np.arange(20) % 3 == 0
    by_bins = some.count(rows, positive)
    monkeypatch.setattr(columns, "SORT_BELOW", 0)
    by_sorting = some.count(rows, positive)
    for counted, other in zip(by_bins, by_sorting, strict=True):
        assert counted.tolist() == other.tolist()


def test_a_spent_feature_is_not_searched() -> None:
    some = _some_columns(0)
    rows, positive = np.arange(40), some.codes[1] == 2
    found = Search(40).best(some, rows, positive, np.zeros(4, dtype=bool))
    assert found is not None
    assert found.condition == CodedCondition(1, EQUAL, 2)
    found = Search(40).best(some, rows, positive, np.array([False, True, False, False]))
    assert found is not None
    assert found.condition.feature != 1
    assert Search(40).best(some, rows, positive, np.ones(4, dtype=bool)) is None


def test_the_search_finds_nothing_where_nothing_gains() -> None:
    everything = Columns.of(Levels(np.zeros((8, 3)), np.zeros(3, dtype=bool)))
    assert Search(8).best(everything, np.arange(8), np.arange(8) < 4, np.zeros(3, dtype=bool)) is None


def test_description_lengths_are_those_of_the_formulas() -> None:
    assert subset_bits(8, 2, 0.25) == pytest.approx(2 * 2 + 6 * log2(4 / 3))
    assert rule_bits(4, 16) == pytest.approx(0.5 * (2 + 2 + 4 * 2 + 12 * log2(4 / 3)))
    assert rule_bits(0, 16) == 0
    # No row is covered, and all four positives of sixteen rows are encoded with (1 - 1/4) * 4 / 16.
    assert exception_bits(0, 16, 0, 4, 0.25) == pytest.approx(log2(17) + subset_bits(16, 4, 3 / 16))
    # Without errors only their number has to be encoded.
    assert exception_bits(4, 12, 0, 0, 0.25) == pytest.approx(log2(17))
