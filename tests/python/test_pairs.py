"""The file with which the search over pairs is tested has the predictions of scikit-learn's trees."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

FIXTURE = Path(__file__).parents[2] / "evaluation/pairs/tests/data/scikit-learn.json"
FEATURES, SAMPLES, CLASSES, FOLDS = 12, 57, 13, 10
KINDS = ("different values", "equal values", "constant features", "values that hardly differ")


def drawn(kind: str) -> dict[str, Any]:
    """Draw values of a kind."""
    random = np.random.default_rng(KINDS.index(kind))
    values = random.normal(size=(FEATURES, SAMPLES))
    match kind:
        case "equal values":
            values = values.round(1)
        case "constant features":
            values = (2 * values).round()
            values[::3] = 1
        case "values that hardly differ":
            values = values.round() + 6e-8 * random.integers(0, 4, size=values.shape)
    gains = random.normal(size=(SAMPLES, CLASSES)).round(3)
    return {
        "kind": kind,
        "features": values.astype(np.float32).tolist(),
        "labels": gains.argmax(axis=1).tolist(),
        "folds": (random.permutation(SAMPLES) % FOLDS).tolist(),
        "gains": gains.tolist(),
    }


def predictions(case: dict[str, Any]) -> list[list[int]]:
    """Predict all samples, each in its fold, for all pairs of features."""
    values = np.array(case["features"], dtype=np.float32)
    labels, folds = np.array(case["labels"]), np.array(case["folds"])
    found = []
    for one in range(FEATURES):
        for other in range(one + 1, FEATURES):
            pair = values[[one, other]].T
            said = np.zeros(SAMPLES, dtype=int)
            for fold in range(FOLDS):
                judged = folds == fold
                tree = DecisionTreeClassifier(random_state=0).fit(pair[~judged], labels[~judged])
                said[judged] = tree.predict(pair[judged])
            found.append(said.tolist())
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_predictions_are_those_of_scikit_learn(kind: str) -> None:
    (case,) = [one for one in json.loads(FIXTURE.read_text()) if one["kind"] == kind]
    assert case["predictions"] == predictions(case)


def write_fixture() -> None:
    """Write the file: ``python tests/python/test_pairs.py``."""
    cases = [drawn(kind) for kind in KINDS]
    for case in cases:
        case["predictions"] = predictions(case)
    FIXTURE.write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


if __name__ == "__main__":
    write_fixture()
