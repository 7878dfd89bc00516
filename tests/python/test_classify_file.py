"""Files of placement models: what the policy reads gives what the learner predicts."""

import json
from pathlib import Path

import numpy as np
import pytest

from pinfold.learn.classify import file as placement_file
from pinfold.learn.classify.features import FEATURES, MACHINE, PROGRAM, features
from pinfold.learn.classify.file import evaluated, placement_model
from pinfold.learn.classify.model import Learner, PlacementModel, learn
from pinfold.learn.classify.strategies import Example
from pinfold.learn.tables import OBSERVED
from pinfold.learn.trained import Trained

LEARNERS = [Learner("tree", 4, 0.03), Learner("forest", 6, 0.03), Learner("boosting", 3, 0.03)]
FIXTURE = Path("crates/policy/tests/data/placement-model.json")
CASES = Path("crates/policy/tests/data/placement-model-cases.json")


def program(number: int) -> Example:
    """A program whose times follow from some of its features, and a little from nothing."""
    random = np.random.default_rng(number)
    values = dict(zip((*PROGRAM, *MACHINE), random.uniform(0, 4, len(PROGRAM) + len(MACHINE)).tolist(), strict=True))
    interleave = 0.5 if values["memory_imbalance"] > 2 else 1.2
    scatter = 1.0 + 0.2 * (values["remote_share"] < 1.5)
    times = np.array([1.0, interleave, scatter, interleave * scatter])
    times[1:] *= np.exp(0.02 * random.normal(size=3))
    metrics = {OBSERVED + name: value for name, value in values.items()}
    return Example(f"p{number}", f"p{number}", "one", 24, tuple(times.tolist()), metrics, covers=True)


def trained(model: PlacementModel) -> Trained:
    return Trained(True, ["one"], [f"p{number}" for number in range(60)], 180, model.learner.text())


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: one.kind)
def test_a_file_gives_what_the_model_predicts(learner: Learner) -> None:
    model = learn([program(number) for number in range(60)], learner, seed=0, folds=4)
    document = json.loads(placement_model(model, trained(model)))
    for number in range(60, 80):
        values = features(program(number))
        (said,) = model.predict(values[None])
        assert evaluated(document, "sensitivity", values[0]) == pytest.approx(said.sensitivity, abs=1e-9)
        for place, row in enumerate(values):
            assert evaluated(document, "times", row) == pytest.approx(said.logs[place + 1], abs=1e-9)
            width = document["width"] * max(evaluated(document, "errors", row), document["least_error"])
            assert width == pytest.approx(said.widths[place + 1], abs=1e-9)


def test_features_of_trees_and_of_the_machine_are_listed() -> None:
    model = learn([program(number) for number in range(60)], Learner("tree", 2, 0.1), seed=0, folds=4)
    document = json.loads(placement_model(model, trained(model)))
    names = [one["name"] for one in document["features"]]
    assert {"memory_imbalance", "interleave", *MACHINE} <= set(names)
    assert len(names) < len(FEATURES)
    assert all(one["least"] <= one["greatest"] for one in document["features"])


def test_a_file_that_would_be_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_file, "LARGEST", 1000)
    model = learn([program(number) for number in range(60)], LEARNERS[1], seed=0, folds=4)
    with pytest.raises(ValueError, match="fewer or smaller trees than forest, depth 6"):
        placement_model(model, trained(model))


def test_the_file_with_which_the_policy_is_tested_is_what_the_learner_writes() -> None:
    """Written by ``python tests/python/test_classify_file.py``."""
    model, cases = json.loads(FIXTURE.read_text()), json.loads(CASES.read_text())
    for case in cases:
        values = np.array([[*case["values"].values(), *one] for one in ([0, 1], [1, 0], [1, 1])])
        said = [evaluated(model, "times", row) for row in values]
        assert said == pytest.approx(case["logs"][1:], abs=1e-9)
    assert len(cases) == 20


def write_fixture() -> None:
    """Write the file, and what the model says of programs that it has not seen."""
    model = learn([program(number) for number in range(60)], LEARNERS[2], seed=0)
    FIXTURE.parent.mkdir(parents=True, exist_ok=True)
    FIXTURE.write_text(placement_model(model, trained(model)))
    cases = []
    for number in range(60, 80):
        one = program(number)
        (said,) = model.predict(features(one)[None])
        # The machine is within the training data.
        values = {name: one.metrics[OBSERVED + name] for name in (*PROGRAM, *MACHINE)}
        said_of = {"logs": said.logs.tolist(), "widths": said.widths.tolist(), "doubt": said.doubt}
        said_of |= {"is_sure": said.is_sure, "choice": said.choice}
        cases.append({"values": values, **said_of, "second": said.second, "is_sensitive": said.is_sensitive})
    CASES.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    write_fixture()
