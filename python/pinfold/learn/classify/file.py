"""Writes placement models as JSON for ``pinfold run --policy classify:forest`` (docs/formats/models.md).

``crates/policy/src/classify`` reads and evaluates them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pinfold.learn.classify.features import FEATURES, MACHINE
from pinfold.learn.classify.model import CLOSE, LEAST_ERROR, ClassifyModel
from pinfold.learn.classify.strategies import STRATEGIES
from pinfold.learn.trained import Trained
from pinfold.learn.tree_nodes import leaf_of, nodes_of

VERSION = 2

LARGEST = 200 * 1024
"""Of a file, in bytes."""


def classify_model(model: ClassifyModel, trained: Trained) -> str:
    """Return a model as JSON.

    The list of features has the features that a tree uses and all features of the machine. A model abstains on a
    machine unlike its training machines, even if no tree asks for the difference. Other features need not be observed.

    Args:
        model: the model.
        trained: its training data.

    Raises:
        ValueError: if the file would be larger than ``LARGEST``.
    """
    ensembles = {
        "times": _ensemble(model.times),
        "errors": _ensemble(model.errors),
        "sensitivity": _ensemble(model.sensitive),
    }
    asked = {int(node[0]) for one in ensembles.values() for tree in one["trees"] for node in tree if len(node) > 1}
    of_machine = {FEATURES.index(name) for name in MACHINE}
    used = sorted(asked | {feature for feature in of_machine if model.used[feature]})
    places = {feature: place for place, feature in enumerate(used)}
    document = {
        "placement_model": VERSION,
        "trained": asdict(trained),
        "features": [
            {
                "name": FEATURES[feature],
                "least": float(model.ranges[feature, 0]),
                "greatest": float(model.ranges[feature, 1]),
            }
            for feature in used
        ],
        "strategies": [{"threads": one.threads, "pages": one.pages} for one in STRATEGIES[1:]],
        **{name: _with_places(one, places) for name, one in ensembles.items()},
        "least_error": LEAST_ERROR,
        "width": model.width if math.isfinite(model.width) else None,
        "limit": model.limit if math.isfinite(model.limit) else None,
        "close": CLOSE,
        "deviations": np.column_stack([model.deviations.weights, model.deviations.logs]).tolist(),
    }
    text = _readable(document)
    if len(text.encode()) > LARGEST:
        raise ValueError(
            f"the model would have {len(text.encode()) >> 10} KiB, and a file may have {LARGEST >> 10}: "
            f"choose a learner with fewer or smaller trees than {model.learner.text()}"
        )
    return text


def _ensemble(regressor: Any) -> dict[str, Any]:
    """Return a fitted regressor as a constant plus a multiple of the sum of trees."""
    match regressor:
        case DecisionTreeRegressor():
            return {"base": 0.0, "factor": 1.0, "trees": [nodes_of(regressor.tree_, _mean)]}
        case DecisionTreeClassifier():
            # A tree that has only seen one class has one value.
            is_true = regressor.classes_.astype(float)
            return {
                "base": 0.0,
                "factor": 1.0,
                "trees": [nodes_of(regressor.tree_, lambda value: float(value @ is_true))],
            }
        case RandomForestRegressor():
            trees = [nodes_of(one.tree_, _mean) for one in regressor.estimators_]
            return {"base": 0.0, "factor": 1 / len(trees), "trees": trees}
        case GradientBoostingRegressor():
            trees = [nodes_of(one.tree_, _mean) for (one,) in regressor.estimators_]
            base = float(regressor.init_.constant_[0][0])
            return {"base": base, "factor": regressor.learning_rate, "trees": trees}
    raise TypeError(f"{type(regressor).__name__} is no regressor of trees")


def _mean(value: npt.NDArray[np.float64]) -> float:
    return float(value[0])


def _with_places(ensemble: dict[str, Any], places: Mapping[int, int]) -> dict[str, Any]:
    trees = [
        [[places[int(node[0])], *node[1:]] if len(node) > 1 else node for node in tree] for tree in ensemble["trees"]
    ]
    return {**ensemble, "trees": trees}


def _readable(document: dict[str, Any]) -> str:
    """Write each tree, feature and list on one line."""
    lines = []
    for key, value in document.items():
        match key:
            case "features" | "strategies" | "deviations":
                inner = ",\n".join(f"    {json.dumps(one)}" for one in value)
                text = f"[\n{inner}\n  ]"
            case "times" | "errors" | "sensitivity":
                trees = ",\n".join(f"      {json.dumps(tree, separators=(',', ':'))}" for tree in value["trees"])
                numbers = f'"base": {json.dumps(value["base"])}, "factor": {json.dumps(value["factor"])}'
                text = f'{{\n    {numbers},\n    "trees": [\n{trees}\n    ]\n  }}'
            case _:
                text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        lines.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def evaluated(document: Mapping[str, Any], ensemble: str, values: npt.NDArray[np.float64]) -> float:
    """Return what a file's trees give for one program and strategy.

    Args:
        document: the content of a file.
        ensemble: ``times``, ``errors`` or ``sensitivity``.
        values: all features, in the order of ``FEATURES``.
    """
    seen = [float(np.float32(values[FEATURES.index(one["name"])])) for one in document["features"]]
    trees = document[ensemble]["trees"]
    total = sum(leaf_of(tree, seen) for tree in trees)
    return float(document[ensemble]["base"] + document[ensemble]["factor"] * total)
