"""Reads placement models from their files, and forecasts programs, as ``pinfold run --policy classify:forest`` does.

``crates/policy/src/classify`` has the same in Rust. A tree sees numbers in single precision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pinfold.learn.classify.features import FEATURES, MACHINE, OF_STRATEGY, Floats
from pinfold.learn.classify.file import VERSION, evaluated
from pinfold.learn.classify.model import Deviations
from pinfold.learn.classify.strategies import STRATEGIES
from pinfold.learn.tree_nodes import SPLIT

LEAF = 1
"""The length of a leaf."""


@dataclass(frozen=True)
class Forecast:
    """The forecast of a model for a program.

    Attributes
    ----------
    logs : tuple of float or None
        The predicted logarithms of times over the time in the default, in the order of ``STRATEGIES``; None if the
        model abstains on all.
    choice : int or None
        The strategy to use; None if the model says nothing or is not sure.
    abstains : str or None
        The reason for not choosing.
    second : int or None
        The strategy to measure beside the default, if one more is measured; None if the model says nothing.
    sensitive : bool or None
        Whether placement is predicted to matter; None if the model says nothing.
    """

    logs: tuple[float, ...] | None
    choice: int | None
    abstains: str | None
    second: int | None = None
    sensitive: bool | None = None


@dataclass(frozen=True)
class ModelFile:
    """The content of a file, checked."""

    document: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path) -> ModelFile:
        """Read and check a file.

        Raises:
            ValueError: if it has another format or version, or is damaged; the message names the file.
        """
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(document, dict) or "placement_model" not in document:
                raise ValueError("there is no key `placement_model`: give a file of `pinfold learn train classify`")
            if document["placement_model"] != VERSION:
                raise ValueError(
                    f"it has version {document['placement_model']}, and this program reads {VERSION}: train it again"
                )
            _check(document)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{file} is damaged ({type(error).__name__}: {error}): train the model again") from error
        except ValueError as error:
            raise ValueError(f"{file} is no placement model that can be used: {error}") from error
        return cls(document)

    def forecast(self, values: Floats) -> Forecast:
        """Forecast a program.

        Args:
            values: its features, shape (strategies but the default, features).
        """
        for feature in self.document["features"]:
            name = feature["name"]
            value = float(values[0, FEATURES.index(name)])
            if np.isnan(value):
                return Forecast(None, None, f"{name} is not known")
            if name in MACHINE and not feature["least"] <= value <= feature["greatest"]:
                limits = f"{feature['least']:.3f} to {feature['greatest']:.3f}"
                return Forecast(None, None, f"{name} is {value:.3f}, and the model was learned from {limits}")
        logs = np.array([0.0, *(evaluated(self.document, "times", row) for row in values)])
        least = self.document["least_error"]
        errors = np.array([0.0, *(max(evaluated(self.document, "errors", row), least) for row in values)])
        best = int(np.argmin(logs))
        may = (errors + errors[best]) - (logs - logs[best])
        may[best] = 0
        limit = self.document["limit"]
        deviations = np.array(self.document["deviations"])
        told = (
            Deviations(deviations[:, 1:], deviations[:, 0]).second(logs),
            evaluated(self.document, "sensitivity", values[0]) > 1 / 2,
        )
        shown = tuple(logs.tolist())
        if limit is None or may.max() > limit:
            why = f"another strategy may be faster by {np.expm1(max(may.max(), 0)):.0%}"
            return Forecast(shown, None, why, *told)
        return Forecast(shown, best if logs[best] < -self.document["close"] else 0, None, *told)


def _check(document: Mapping[str, Any]) -> None:
    names = [one["name"] for one in document["features"]]
    if unknown := [name for name in names if name not in FEATURES]:
        raise ValueError(f"it has the feature `{unknown[0]}`, which this program does not know: train it again")
    strategies = [(one["threads"], one["pages"]) for one in document["strategies"]]
    if strategies != [tuple(one) for one in STRATEGIES[1:]]:
        raise ValueError("its strategies are not those that are forecast here: train it again")
    for feature in document["features"]:
        if feature["name"] not in OF_STRATEGY:
            _numbers([feature["least"], feature["greatest"]])
    _numbers([document["least_error"], document["close"]])
    _numbers([one for one in (document["width"], document["limit"]) if one is not None])
    if not document["deviations"]:
        raise ValueError("it has no `deviations`: train it again")
    for row in document["deviations"]:
        _numbers(row)
        if len(row) != len(STRATEGIES):
            raise ValueError(f"a row of `deviations` has {len(row)} numbers, not {len(STRATEGIES)}: train it again")
    for kind in ("times", "errors", "sensitivity"):
        _numbers([document[kind]["base"], document[kind]["factor"]])
        for number, tree in enumerate(document[kind]["trees"], 1):
            for place, node in enumerate(tree):
                if not _is_node(node, place, len(tree), len(names)):
                    raise ValueError(f"node {place} of tree {number} of `{kind}` is damaged: train it again")
            if not tree:
                raise ValueError(f"tree {number} of `{kind}` is empty: train it again")


def _is_node(node: Sequence[float], place: int, nodes: int, features: int) -> bool:
    _numbers(node)
    if len(node) == LEAF:
        return True
    if len(node) != SPLIT:
        return False
    feature, _, low, high = node
    children = all(isinstance(child, int) and place < child < nodes for child in (low, high))
    return children and isinstance(feature, int) and 0 <= feature < features


def _numbers(values: Sequence[float]) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise ValueError(f"{value!r} is no finite number: train it again")
