"""Writes and reads models of ``react`` as JSON (docs/formats/models.md): counters in, one configuration out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pinfold.learn.react.data import Configuration
from pinfold.learn.trained import Trained
from pinfold.learn.tree_nodes import Node, leaf_of

VERSION = 3
OLDEST = 2
"""The oldest version that is read. It has no ``threads_per_core``."""

LEAST_FEATURES, MOST_FEATURES = 2, 3


@dataclass(frozen=True)
class Feature:
    """A counter in a configuration.

    Attributes
    ----------
    profile : int
        The position of the configuration among the profiles.
    counter : str
        The counter.
    least, greatest : float
        Its values in the training data.
    """

    profile: int
    counter: str
    least: float
    greatest: float


@dataclass(frozen=True)
class Score:
    """How good the model is expected to be: shares of the possible gain, which is a logarithm.

    Attributes
    ----------
    nested, low, high : float
        The share of models that were chosen and trained in the same way without the judged programs, and its 95 %
        interval.
    control : float
        The same for models that learned from exchanged gains: the share without knowledge.
    inside : float
        The share of the chosen features on the folds that chose them. It is too high.
    seeds : int
        The number of seeds. The first four values are means over them.
    """

    nested: float
    low: float
    high: float
    control: float
    inside: float
    seeds: int


@dataclass(frozen=True)
class ReactModel:
    """A model as a file has it.

    Attributes
    ----------
    machine : str
        The machine whose configurations are chosen.
    counted_on : str
        The machine whose counters it sees.
    trained : Trained
        Its training data; a row is a region in a configuration.
    score : Score
        How good it is.
    baseline : Configuration
        The baseline of the gains.
    profiles : tuple of Configuration
        The profiled configurations.
    features : tuple of Feature
        The inputs of the tree.
    outputs : tuple of Configuration
        The configurations that it chooses from.
    tree : tuple of list
        The nodes, the root first; children come after their parent.
    """

    machine: str
    counted_on: str
    trained: Trained
    score: Score
    baseline: Configuration
    profiles: tuple[Configuration, ...]
    features: tuple[Feature, ...]
    outputs: tuple[Configuration, ...]
    tree: tuple[Node, ...]

    def predict(self, counters: Sequence[Mapping[str, float]]) -> Configuration:
        """Return the configuration for a region.

        Args:
            counters: for each profile, the counters by their names.

        Raises:
            ValueError: if a counter is missing; the message names it.
        """
        values = []
        for feature in self.features:
            value = counters[feature.profile].get(feature.counter, math.nan)
            if not math.isfinite(value):
                raise ValueError(
                    f"the counter `{feature.counter}` is missing in {self.profiles[feature.profile].text()}: the model "
                    "needs it"
                )
            values.append(float(np.float32(value)))
        return self.outputs[int(leaf_of(self.tree, values))]

    def text(self) -> str:
        """Return it as JSON, with each configuration, feature and node on one line."""
        lists: dict[str, list[Any]] = {
            "profiles": [one._asdict() for one in self.profiles],
            "features": [asdict(one) for one in self.features],
            "outputs": [one._asdict() for one in self.outputs],
            "tree": list(self.tree),
        }
        single = {
            "react_model": VERSION,
            "machine": self.machine,
            "counted_on": self.counted_on,
            "trained": asdict(self.trained),
            "score": asdict(self.score),
            "baseline": self.baseline._asdict(),
        }
        lines = [f"  {json.dumps(key)}: {_dumped(value)}" for key, value in single.items()]
        for key, values in lists.items():
            inner = ",\n".join(f"    {_dumped(one)}" for one in values)
            lines.append(f"  {json.dumps(key)}: [\n{inner}\n  ]" if values else f"  {json.dumps(key)}: []")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def read(cls, file: Path) -> ReactModel:
        """Read a file.

        Raises:
            ValueError: if it has another format or version, is a race, or is damaged; the message says why.
        """
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{file} is not a model of react: it is not JSON ({error}); {_REMEDY}") from error
        if not isinstance(document, dict) or "react_model" not in document:
            raise ValueError(f"{file} is not a model of react: it lacks the key `react_model`; {_REMEDY}")
        if document["react_model"] not in range(OLDEST, VERSION + 1):
            raise ValueError(
                f"{file} is a model of version {document['react_model']}, and this pinfold reads versions {OLDEST} and "
                f"{VERSION}: train it again with `pinfold learn train react`"
            )
        if document.get("tree") == []:
            raise ValueError(
                f"{file} has no tree: it is a race of an earlier version, and races are no longer read; "
                f"`--policy react` needs no model, and {_REMEDY} with a tree for `react:tree`"
            )
        try:
            model = _model(document)
            _check(model)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            what = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{file} is damaged: {what}; {_REMEDY}") from error
        return model


_REMEDY = "`pinfold learn train react` writes one"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _model(document: Mapping[str, Any]) -> ReactModel:
    return ReactModel(
        machine=str(document["machine"]),
        counted_on=str(document["counted_on"]),
        trained=Trained(**document["trained"]),
        score=Score(**document["score"]),
        baseline=_configuration(document["baseline"]),
        profiles=tuple(_configuration(one) for one in document["profiles"]),
        features=tuple(Feature(**one) for one in document["features"]),
        outputs=tuple(_configuration(one) for one in document["outputs"]),
        tree=tuple(list(node) for node in document["tree"]),
    )


def _configuration(found: Mapping[str, Any]) -> Configuration:
    one = Configuration(**found)
    numbers = (one.threads, one.nodes, one.threads_per_core)
    if not (all(isinstance(number, int) for number in numbers) and one.threads >= one.nodes >= 1):
        raise ValueError(f"{one.threads} threads on {one.nodes} nodes are no configuration")
    if not 1 <= one.threads_per_core <= one.threads:
        raise ValueError(f"{one.threads_per_core} of {one.threads} threads on a core are no configuration")
    return one


def _check(model: ReactModel) -> None:
    """Raise an error if the model's parts do not fit each other, or its tree cannot be followed."""
    if not 1 <= len(model.profiles) <= MOST_FEATURES:
        raise ValueError(f"it has {len(model.profiles)} profiles, and must have 1 to {MOST_FEATURES}")
    if not LEAST_FEATURES <= len(model.features) <= MOST_FEATURES:
        raise ValueError(f"it has {len(model.features)} features, and must have 2 or 3")
    for one in model.features:
        if not 0 <= one.profile < len(model.profiles):
            raise ValueError(f"a feature is of profile {one.profile}, and there are {len(model.profiles)}")
    if not model.outputs:
        raise ValueError("it has no outputs")
    for place, node in enumerate(model.tree):
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in node):
            raise ValueError(f"node {place} has something else than numbers")
        match node:
            case [output] if output in range(len(model.outputs)):
                pass
            case [feature, _, low, high] if (
                feature in range(len(model.features))
                and low in range(place + 1, len(model.tree))
                and high in range(place + 1, len(model.tree))
            ):
                pass
            case _:
                raise ValueError(f"node {place} of the tree, {node}, cannot be followed")
