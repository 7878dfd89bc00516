"""Forecasts from files of placement models: the model's own, or an abstention, or an error that names what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinfold.learn.classify.features import FEATURES
from pinfold.learn.classify.forecast import ModelFile

MODEL = Path("crates/policy/tests/data/placement-model.json")
CASES: list[dict[str, Any]] = json.loads(Path("crates/policy/tests/data/placement-model-cases.json").read_text())


def values(case: dict[str, Any]) -> Any:
    return np.array([[*case["values"].values(), *one] for one in ([0, 1], [1, 0], [1, 1])])


@pytest.mark.parametrize("case", CASES[:5])
def test_a_forecast_is_what_the_learner_and_the_policy_predict(case: dict[str, Any]) -> None:
    said = ModelFile.read(MODEL).forecast(values(case))
    assert said.logs == pytest.approx(case["logs"], abs=1e-9)
    assert (said.choice is not None) == case["is_sure"]
    assert (said.abstains is None) == case["is_sure"]
    assert (said.second, said.sensitive) == (case["second"], case["is_sensitive"])


def test_what_is_not_known_or_another_machine_is_not_forecast() -> None:
    model = ModelFile.read(MODEL)
    (name, *_) = [one["name"] for one in model.document["features"]]
    unknown = values(CASES[0])
    unknown[:, FEATURES.index(name)] = np.nan
    assert model.forecast(unknown).abstains == f"{name} is not known"
    assert model.forecast(unknown).logs is None
    other = ModelFile({**model.document} | {"features": [{"name": "nodes", "least": 4, "greatest": 4}]})
    far = values(CASES[0])
    far[:, FEATURES.index("nodes")] = 64
    assert other.forecast(far).abstains == "nodes is 64.000, and the model was learned from 4.000 to 4.000"


def changed(change: Callable[[dict[str, Any]], Any]) -> str:
    document = json.loads(MODEL.read_text())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no placement model that can be used"),
        ("[]", "there is no key `placement_model`"),
        ("{}", "there is no key `placement_model`"),
        (changed(lambda one: one.update(placement_model=9)), "it has version 9"),
        (changed(lambda one: one["features"][0].update(name="height")), "the feature `height`"),
        (changed(lambda one: one["strategies"].pop()), "its strategies are not those"),
        (changed(lambda one: one["times"]["trees"][0].__setitem__(0, [0, 1.0, 0, 0])), "node 0 of tree 1 of `times`"),
        (changed(lambda one: one["errors"]["trees"].__setitem__(0, [])), "tree 1 of `errors` is empty"),
        (changed(lambda one: one.update(close=float("nan"))), "nan is no finite number"),
        (changed(lambda one: one.pop("width")), "is damaged"),
        (changed(lambda one: one.update(times=1)), "is damaged"),
        (changed(lambda one: one["deviations"].clear()), "it has no `deviations`"),
        (changed(lambda one: one["deviations"][0].pop()), "a row of `deviations` has 3 numbers, not 4"),
    ],
)
def test_a_file_of_another_kind_or_damaged_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "model.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        ModelFile.read(file)
    assert str(file) in str(error.value)
