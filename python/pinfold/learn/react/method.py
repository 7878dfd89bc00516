"""The method of Sánchez Barrera et al. (ICS 2020, sections 4 and 5) to choose a model, and the same without its leak.

The authors choose the 13 output configurations by all regions, try pairs of features, judge each pair by 10-fold
cross-validation over regions, and report the score of the best pair. This score is the maximum of millions of scores on
the same folds: even among features of pure noise, some pair does well by chance. Their folds split regions, so a model
has seen near twins of a region, from the same program, before it predicts the region.

Without the leak, a region is judged by a model that did not see its program:

1. Programs are split into outer folds, each with all its regions.
2. The other programs choose the output configurations: the set that together gains most.
3. A pair is chosen by cross-validation inside of these programs, with folds of programs.
4. A model of this pair, from these programs, predicts the regions of the outer fold.

All gains are logarithms of speed-ups over the baseline. The *share* is the gain over the possible gain, which the best
of all configurations gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pinfold.learn.bootstrap import mean_interval, ratio_interval
from pinfold.learn.folds import folds_of
from pinfold.learn.races import Floats, best_two, covering
from pinfold.learn.react.data import Regions
from pinfold.learn.react.models import REGRET, TREE, Labels, Predict, RegionLearner
from pinfold.learn.react.pair_search import PairTreeClassifier

OUTPUTS = 13
"""The number of configurations among which a model chooses (section 3.3)."""

FOLDS = 10

Values = npt.NDArray[np.float32]


def folds_of_regions(regions: int, folds: int, seed: int) -> Labels:
    """Return the fold of each region, whatever its program, as Sánchez Barrera et al. do (section 5.1.1)."""
    found: Labels = np.random.default_rng(seed).permutation(regions) % min(folds, regions)
    return found


class Choice(NamedTuple):
    """The features that a search has chosen, and their score."""

    features: tuple[int, ...]
    score: float


Search = Callable[[Values, Floats, Labels], Choice]
"""Chooses features by the mean gain of regions, each predicted without its fold."""


def every_pair(values: Values, gains: Floats, folds: Labels) -> Choice:
    """Choose among all pairs, for a tree."""
    found = PairTreeClassifier().fit(values, gains, folds)
    return Choice(found.best_pair_, found.best_score_)


def greedy_third(values: Values, gains: Floats, folds: Labels) -> Choice:
    """Choose the best pair of all, and the third feature that improves it most."""
    found = PairTreeClassifier(third=True).fit(values, gains, folds)
    return Choice(found.best_features_, found.best_score_)


@dataclass(frozen=True)
class RandomPairs:
    """Chooses among random pairs, for a model that learns slowly.

    Attributes
    ----------
    model : RegionLearner
        The model.
    budget : int
        The number of pairs.
    seed : int
        Of the draw.
    """

    model: RegionLearner
    budget: int
    seed: int = 0

    def __call__(self, values: Values, gains: Floats, folds: Labels) -> Choice:
        """Choose the best of them."""
        random = np.random.default_rng(self.seed)
        pairs = {tuple(sorted(random.choice(values.shape[1], 2, replace=False).tolist())) for _ in range(self.budget)}
        return max((self.judge(values, gains, folds, pair) for pair in sorted(pairs)), key=lambda one: one.score)

    def judge(self, values: Values, gains: Floats, folds: Labels, features: tuple[int, ...]) -> Choice:
        """Return the score of some features."""
        seen = values[:, list(features)]
        reached = 0.0
        for fold in np.unique(folds):
            judged = folds == fold
            predict = self.model.fit(seen[~judged], gains[~judged])
            reached += float(gains[judged, predict(seen[judged])].sum())
        return Choice(features, reached / len(gains))


@dataclass(frozen=True)
class WithinConfigurations:
    """Chooses two counters of a single configuration (section 5.3, figure 8): one profile instead of two.

    Attributes
    ----------
    configurations : tuple of int
        The configuration of each feature.
    """

    configurations: tuple[int, ...]

    def scores(self, values: Values, gains: Floats, folds: Labels) -> dict[int, Choice]:
        """Return the best pair of each configuration."""
        found = {}
        for configuration in sorted(set(self.configurations)):
            inside = [place for place, one in enumerate(self.configurations) if one == configuration]
            if len(inside) > 1:
                (one, other), score = every_pair(values[:, inside], gains, folds)
                found[configuration] = Choice((inside[one], inside[other]), score)
        return found

    def __call__(self, values: Values, gains: Floats, folds: Labels) -> Choice:
        """Choose the configuration and its pair."""
        return max(self.scores(values, gains, folds).values(), key=lambda one: one.score)


class Way(NamedTuple):
    """A way to learn: how features are chosen, and which model then learns from them."""

    name: str
    search: Search
    model: RegionLearner


ALL_PAIRS = Way("tree, two features", every_pair, TREE)
THREE = Way("tree, three features", greedy_third, TREE)
REGRETS = Way("tree of regrets, two features", RandomPairs(REGRET, REGRET.budget), REGRET)


class Fitted(NamedTuple):
    """A model that was chosen and fitted.

    Attributes
    ----------
    outputs : list of int
        The configurations that it chooses from.
    choice : Choice
        The features, and their score inside of the training data; None if one configuration is the best for all
        regions.
    predict : callable
        Gives the position among ``outputs`` for each row of the chosen features.
    """

    outputs: list[int]
    choice: Choice | None
    predict: Predict


def learn(way: Way, values: Values, gains: Floats, programs: Sequence[str], seed: int) -> Fitted:
    """Choose and fit a model from these arguments only.

    Args:
        way: the way to learn.
        values: features of the regions.
        gains: of all configurations.
        programs: the program of each region.
        seed: of the folds.
    """
    outputs = covering(gains, OUTPUTS)
    inside = gains[:, outputs]
    if len(set(inside.argmax(axis=1).tolist())) == 1 or len(set(programs)) == 1:
        # There is nothing to choose, or nothing to choose by.
        best = int(inside.mean(axis=0).argmax())
        return Fitted(outputs, None, lambda others: np.full(len(others), best))
    choice = way.search(values, inside, folds_of(programs, FOLDS, seed))
    return Fitted(outputs, choice, way.model.fit(values[:, list(choice.features)], inside))


@dataclass(frozen=True)
class Judged:
    """Regions, and their gains by each way to choose a configuration.

    Attributes
    ----------
    programs : tuple of str
        The program of each region.
    possible : array of shape (regions,)
        The gain in the best configuration.
    gains : mapping of str to array of shape (regions,)
        The gain by each way to choose, which did not see the region.
    features : tuple of tuple of int
        The chosen features, one entry for each outer fold with a choice.
    """

    programs: tuple[str, ...]
    possible: Floats
    gains: dict[str, Floats]
    features: tuple[tuple[int, ...], ...]

    def share(self, name: str) -> tuple[float, float, float]:
        """Return the share of the possible gain, and its 95 % interval by a bootstrap that draws programs."""
        return ratio_interval(self._sums(self.gains[name]), self._sums(self.possible))

    def over(self, name: str, other: str) -> tuple[float, float, float]:
        """Return the mean difference of the gains of two ways, and its 95 % interval."""
        return mean_interval(self._groups(self.gains[name] - self.gains[other]))

    def speed_up(self, name: str) -> float:
        """Return the geometric mean of the speed-ups over the baseline."""
        return float(np.exp(self.gains[name].mean()))

    def worst(self, name: str) -> float:
        """Return the least speed-up of a region."""
        return float(np.exp(self.gains[name].min()))

    def _groups(self, values: Floats) -> list[list[float]]:
        names = sorted(set(self.programs))
        return [
            [float(value) for program, value in zip(self.programs, values, strict=True) if program == name]
            for name in names
        ]

    def _sums(self, values: Floats) -> list[float]:
        return [sum(group) for group in self._groups(values)]


BASELINE, STATIC, TWO, BEST_OF_OUTPUTS, POSSIBLE = (
    "baseline",
    "best single configuration",
    "run the best two, keep the better",
    f"best of {OUTPUTS}",
    "best possible",
)
MODEL = "model"


@dataclass(frozen=True)
class Study:
    """Regions to judge.

    Attributes
    ----------
    values : array of shape (regions, features)
        The inputs of a model.
    places : list of tuple of int
        The configuration and the counter of each feature.
    gains : array of shape (regions, configurations)
        The gains. Their machine may differ from the machine of the features.
    programs : tuple of str
        The program of each region.
    """

    values: Values
    places: list[tuple[int, int]]
    gains: Floats
    programs: tuple[str, ...]

    @classmethod
    def of(cls, seen: Regions, judged: Regions) -> Study:
        """Return the study of features of one machine and gains of the same one or another, of the same regions."""
        values, places = seen.features()
        return cls(values, places, judged.gains, judged.programs)

    def possible(self) -> float:
        """Return the mean possible gain."""
        return float(self.gains.max(axis=1).mean())

    def as_published(self, way: Way, seed: int = 0) -> Choice:
        """Return the score of the best pair on the folds that chose it: the authors' score, which is leaky."""
        gains = self.gains[:, covering(self.gains, OUTPUTS)]
        return way.search(self.values, gains, folds_of_regions(len(gains), FOLDS, seed))

    def nested(self, way: Way, seed: int, *, shuffled: bool = False, folds: int = FOLDS) -> Judged:
        """Judge each region by models that did not see its program.

        Args:
            way: the way to learn.
            seed: of all folds, and of the control's exchange.
            shuffled: whether models learn from gains that were exchanged among regions.
            folds: the number of outer folds: in each, features are searched again.
        """
        order = np.random.default_rng(seed).permutation(len(self.gains)) if shuffled else slice(None)
        taught: Floats = self.gains[order]
        names = (BASELINE, STATIC, TWO, MODEL, BEST_OF_OUTPUTS, POSSIBLE)
        reached = {name: np.zeros(len(self.gains)) for name in names}
        chosen = []
        outer = folds_of(self.programs, folds, seed)
        for fold in np.unique(outer):
            judged, inside = np.flatnonzero(outer == fold), np.flatnonzero(outer != fold)
            training = taught[inside]
            fitted = learn(way, self.values[inside], training, [self.programs[place] for place in inside], seed)
            truth = self.gains[judged]
            if fitted.choice:
                chosen.append(fitted.choice.features)
            features = list(fitted.choice.features) if fitted.choice else []
            seen = self.values[judged][:, features]
            rows = np.arange(len(judged))
            reached[MODEL][judged] = truth[rows, np.array(fitted.outputs)[fitted.predict(seen)]]
            reached[STATIC][judged] = truth[:, int(training.mean(axis=0).argmax())]
            reached[TWO][judged] = truth[:, list(best_two(training))].max(axis=1)
            reached[BEST_OF_OUTPUTS][judged] = truth[:, fitted.outputs].max(axis=1)
            reached[POSSIBLE][judged] = truth.max(axis=1)
        return Judged(self.programs, self.gains.max(axis=1), reached, tuple(chosen))

    def seeds(self, way: Way, seeds: Sequence[int], *, shuffled: bool = False, folds: int = FOLDS) -> Judged:
        """Return the mean over seeds of :meth:`nested`, for each region."""
        runs = [self.nested(way, seed, shuffled=shuffled, folds=folds) for seed in seeds]
        means = {name: np.mean([one.gains[name] for one in runs], axis=0) for name in runs[0].gains}
        return replace(runs[0], gains=means, features=tuple(pair for one in runs for pair in one.features))


def searches(found: Regions) -> dict[str, float]:
    """Return table 1: the geometric means of speed-ups by kinds of search, from the baseline.

    Only NUMA: prefetchers stay on. Only prefetchers: the baseline's threads and pages. The orders: the best of the
    first kind, then the best of the second with it. Coupled: the best of all.
    """
    gains, configurations = found.gains, found.configurations
    base = configurations[found.baseline]
    settings = np.array([one.prefetch for one in configurations])
    rest = np.array([configurations.index(one._replace(prefetch=base.prefetch)) for one in configurations])
    numa = np.flatnonzero(settings == base.prefetch)
    prefetchers = np.flatnonzero(rest == found.baseline)
    best_numa = numa[gains[:, numa].argmax(axis=1)]
    best_setting = settings[prefetchers[gains[:, prefetchers].argmax(axis=1)]]
    then_prefetchers = [gains[region, rest == best].max() for region, best in enumerate(best_numa)]
    then_numa = [gains[region, settings == best].max() for region, best in enumerate(best_setting)]
    means = {
        "only NUMA": gains[:, numa].max(axis=1),
        "only prefetchers": gains[:, prefetchers].max(axis=1),
        "NUMA then prefetchers": then_prefetchers,
        "prefetchers then NUMA": then_numa,
        "coupled": gains.max(axis=1),
    }
    return {name: float(np.exp(np.mean(values))) for name, values in means.items()}


def coverage(gains: Floats) -> list[float]:
    """Return figure 4: the share of the possible gain with the best 1, 2, 3 … configurations, up to all of it."""
    chosen = covering(gains, gains.shape[1])
    possible = gains.max(axis=1).sum()
    return [float(gains[:, chosen[:number]].max(axis=1).sum() / possible) for number in range(1, len(chosen) + 1)]
