"""Keeps finished searches for reaction-based counters, so that an interrupted section can continue.

A search over all pairs takes minutes, and a nested figure needs one for each outer fold. Each finished search is a
small file under ``target/evaluation/react/searches``. Its name is a digest of the binary, the kind of search and the
whole problem. A search over all pairs also finds the third feature that improves the best pair most: trees of three
features need no separate search.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pinfold.binary import find_binary
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.provenance import digest
from pinfold.learn.races import Floats
from pinfold.learn.react.method import ALL_PAIRS, THREE, Choice, RandomPairs, Search, Values, Way
from pinfold.learn.react.models import Labels, RegionLearner
from pinfold.learn.react.pair_search import PairTreeClassifier

FOLDER = Path("target/evaluation/react/searches")


def _kept(kind: str, problem: tuple[Values, Floats, Labels], search: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a search of this kind finds in this problem; search unless that was done."""
    key = hashlib.sha256(f"{_digest(find_binary())} {kind}".encode())
    for array in problem:
        key.update(f" {array.shape} {array.dtype} ".encode() + array.tobytes())
    file = made_once(
        FOLDER / f"{key.hexdigest()[:32]}.json",
        lambda unfinished: unfinished.write_text(json.dumps(search()) + "\n", encoding="utf-8"),
    )
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@cache
def _digest(file: Path) -> str:
    return digest(file)


def searched(values: Values, gains: Floats, folds: Labels) -> dict[str, Any]:
    """Search all pairs.

    Args:
        values: the features, of shape (regions, features).
        gains: the gains of the output configurations.
        folds: the fold of each region.

    Returns:
        The best ``pair`` with its ``score``; and ``three`` features, or the pair if no third feature improves it, with
        their ``three_score``.
    """

    def search() -> dict[str, Any]:
        found = PairTreeClassifier(third=True).fit(values, gains, folds)
        return {
            "pair": found.best_pair_,
            "score": found.pair_score_,
            "three": found.best_features_,
            "three_score": found.best_score_,
        }

    return _kept("all pairs", (values, gains, folds), search)


def _pair(values: Values, gains: Floats, folds: Labels) -> Choice:
    found = searched(values, gains, folds)
    return Choice(tuple(found["pair"]), found["score"])


def _three(values: Values, gains: Floats, folds: Labels) -> Choice:
    found = searched(values, gains, folds)
    return Choice(tuple(found["three"]), found["three_score"])


@dataclass(frozen=True)
class Drawn:
    """Searches a random part of all features, always the same one.

    Attributes
    ----------
    search : callable
        The search.
    part : int
        One of this many features is drawn. A search over pairs takes the square of it less time.
    """

    search: Search
    part: int

    def __call__(self, values: Values, gains: Floats, folds: Labels) -> Choice:
        """Choose among the features that are drawn."""
        number = values.shape[1]
        features = np.sort(np.random.default_rng(0).choice(number, max(number // self.part, 3), replace=False))
        found = self.search(values[:, features], gains, folds)
        return Choice(tuple(int(features[place]) for place in found.features), found.score)


@dataclass(frozen=True)
class KeptRandomPairs:
    """Chooses among random pairs, and keeps the result.

    Attributes
    ----------
    random : RandomPairs
        The search.
    """

    random: RandomPairs

    def __call__(self, values: Values, gains: Floats, folds: Labels) -> Choice:
        """Choose the best of them."""

        def search() -> dict[str, Any]:
            return self.random(values, gains, folds)._asdict()

        kind = f"{self.random.budget} random pairs, seed {self.random.seed}, {self.random.model.name}"
        found = _kept(kind, (values, gains, folds), search)
        return Choice(tuple(found["features"]), found["score"])


TWO_FEATURES = ALL_PAIRS._replace(search=_pair)
"""Trees of two features, with searches that are kept."""

THREE_FEATURES = THREE._replace(search=_three)
"""Trees of three features, with the same searches."""


def drawn(way: Way, part: int) -> Way:
    """Return a way that searches a random part of all features: one of ``part``."""
    return way._replace(search=Drawn(way.search, part) if part > 1 else way.search)


def random_pairs(model: RegionLearner, budget: int) -> Way:
    """Return the way of a slow learner, which tries random pairs."""
    return Way(model.name, KeptRandomPairs(RandomPairs(model, budget)), model)
