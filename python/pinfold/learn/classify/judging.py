"""Judges models of placements on programs that had no part in anything: nested, with whole programs left out.

A program is left out with all its inputs, on all machines. The learner is chosen, fitted and calibrated with the
others. On an *unseen machine* these others are known from other machines only.

The baselines are beside it: the default; the strategy that is the best of the training programs; two strategies that
are run, and the faster kept; and the best one. A control has learned from the same programs with exchanged times: each
has the times of another program on the same machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from os import sched_getaffinity

import numpy as np

from pinfold.learn.bootstrap import mean_interval
from pinfold.learn.classify.features import Floats, features
from pinfold.learn.classify.folds import split
from pinfold.learn.classify.model import (
    CLOSE,
    LEARNERS,
    Learner,
    PlacementModel,
    Prediction,
    Rows,
    held_out_predictions,
    learn,
    regret,
)
from pinfold.learn.classify.strategies import SENSITIVE, STRATEGIES, Example, by_machine

OUTER_FOLDS = INNER_FOLDS = 5
AS_GOOD = 0.001
"""Learners whose mean regrets differ by less are equally good: a tenth of a percent of the time."""

NEAR = 0.03
"""The distance of a program's largest change from the boundary of sensitivity that counts as near it."""


@dataclass(frozen=True)
class Known:
    """What the baselines know from the training programs.

    Attributes
    ----------
    static : int
        The strategy with the least geometric mean of times.
    pair : tuple of int
        The two strategies of which the faster one has the least geometric mean of times.
    """

    static: int
    pair: tuple[int, int]

    @classmethod
    def of(cls, found: Sequence[Example], weights: Floats) -> Known:
        """Return what programs with these weights show."""
        logs = np.array([[regret(one, strategy) for strategy in range(len(STRATEGIES))] for one in found])
        places = range(len(STRATEGIES))
        pairs = [(one, other) for one in places for other in places if one < other]
        static = min(places, key=lambda place: float(weights @ logs[:, place]))
        return cls(static, min(pairs, key=lambda pair: float(weights @ logs[:, pair].min(axis=1))))


@dataclass(frozen=True)
class Judged:
    """A program, what was predicted for it, and by what.

    Attributes
    ----------
    example : Example
        The program on its machine.
    prediction : Prediction
        Of a model without it.
    learner : Learner
        The chosen one.
    known : Known
        What the baselines know.
    """

    example: Example
    prediction: Prediction
    learner: Learner
    known: Known


@dataclass(frozen=True)
class Study:
    """What is judged.

    Attributes
    ----------
    found : sequence of Example
        Programs, on one machine or several.
    learners : sequence of Learner
        Those from which one is chosen.
    machines : collection of str, optional
        Those on which programs are judged; None for all. Models learn from the others, too.
    """

    found: Sequence[Example]
    learners: Sequence[Learner] = LEARNERS
    machines: Collection[str] | None = None

    def judge(self, seed: int, *, unseen_machine: bool, shuffled: bool = False) -> list[Judged]:
        """Predict each program by models in which it had no part.

        Args:
            seed: of folds, learners and the control's exchange.
            unseen_machine: whether the machine has no part in the models, either.
            shuffled: whether models learn from exchanged times.
        """
        taught = exchanged(self.found, seed) if shuffled else self.found
        work = partial(self._part, taught, seed)
        with ProcessPoolExecutor(len(sched_getaffinity(0))) as pool:
            parts = pool.map(work, self._splits(seed, unseen_machine=unseen_machine))
            return [one for of_part in parts for one in of_part]

    def _splits(self, seed: int, *, unseen_machine: bool) -> Iterator[tuple[list[int], list[int]]]:
        asked = [name for name in by_machine(self.found) if self.machines is None or name in self.machines]
        for inside, outside in split(self.found, OUTER_FOLDS, seed):
            judged = [place for place in outside if self.found[place].machine in asked]
            if not judged:
                continue
            if not unseen_machine:
                yield inside, judged
                continue
            for machine in asked:
                if on_it := [place for place in judged if self.found[place].machine == machine]:
                    yield [place for place in inside if self.found[place].machine != machine], on_it

    def _part(self, taught: Sequence[Example], seed: int, part: tuple[list[int], list[int]]) -> list[Judged]:
        inside, outside = part
        training = [taught[place] for place in inside]
        model = learn(training, chosen(training, self.learners, seed), seed)
        return judged_by(model, training, [self.found[place] for place in outside])


def judged_by(model: PlacementModel, training: Sequence[Example], judged: Sequence[Example]) -> list[Judged]:
    """Predict programs by a model that was learned from others.

    Args:
        model: the model.
        training: what it was learned from.
        judged: the programs.
    """
    known = Known.of(training, Rows.of(training).weights)
    predictions = model.predict(np.array([features(one) for one in judged]))
    return [Judged(one, said, model.learner, known) for one, said in zip(judged, predictions, strict=True)]


def chosen(found: Sequence[Example], learners: Sequence[Learner], seed: int) -> Learner:
    """Choose a learner by the mean regret of held-out programs.

    Of those that are as good as the best, to ``AS_GOOD``, it is the one that is easiest to read: the first.
    """
    rows = Rows.of(found)
    programs = sorted({one.program for one in found})
    means = []
    for learner in learners:
        logs = held_out_predictions(found, rows, learner, seed, INNER_FOLDS)
        choices = np.concatenate([np.full((len(logs), 1), -CLOSE), logs], axis=1).argmin(axis=1)
        of_program: dict[str, list[float]] = {name: [] for name in programs}
        for one, choice in zip(found, choices, strict=True):
            of_program[one.program].append(regret(one, int(choice)))
        means.append(float(np.mean([np.mean(values) for values in of_program.values()])))
    return next(one for one, mean in zip(learners, means, strict=True) if mean <= min(means) + AS_GOOD)


def exchanged(found: Sequence[Example], seed: int) -> list[Example]:
    """Return the same programs, each with the times of another one of its machine."""
    random = np.random.default_rng(seed)
    places: dict[str, list[int]] = {}
    for place, one in enumerate(found):
        places.setdefault(one.machine, []).append(place)
    taken = list(range(len(found)))
    for of_machine in places.values():
        for place, other in zip(of_machine, random.permutation(of_machine), strict=True):
            taken[place] = int(other)
    # The default's time stays: features are computed from it.
    return [
        replace(one, seconds=tuple(one.seconds[0] / speed for speed in found[other].speeds))
        for one, other in zip(found, taken, strict=True)
    ]


Choice = Callable[[Judged], float]
"""The regret of a way to choose a strategy."""


def _two(one: Judged, strategies: tuple[int, int]) -> float:
    return min(regret(one.example, strategy) for strategy in strategies)


CHOICES: dict[str, Choice] = {
    "default": lambda one: regret(one.example, 0),
    "best static": lambda one: regret(one.example, one.known.static),
    "one run": lambda one: regret(one.example, one.prediction.choice),
    "run two, keep the better": lambda one: _two(one, one.known.pair),
    "two runs": lambda one: _two(one, (0, one.prediction.second)),
    "best possible": lambda one: 0.0,
}
"""The ways to choose that are compared: those of the model are ``one run`` and ``two runs``."""


@dataclass(frozen=True)
class Share:
    """The share of the best possible speed.

    Attributes
    ----------
    mean : float or None
        Geometric mean, each program with the weight of one; None for no program.
    low, high : float or None
        Its 95 % interval, by a bootstrap that draws programs.
    worst : float or None
        The least of all programs.
    """

    mean: float | None
    low: float | None
    high: float | None
    worst: float | None


def share(judged: Sequence[Judged], choice: Choice) -> Share:
    """Return the share of the best possible speed that a way to choose reaches."""
    if not judged:
        return Share(None, None, None, None)
    values = [-choice(one) for one in judged]
    low, high = interval(judged, values)
    return Share(math.exp(_mean(judged, values)), math.exp(low), math.exp(high), math.exp(min(values)))


def difference(judged: Sequence[Judged], one: Choice, other: Choice) -> tuple[float, float, float]:
    """Return the ratio of the speeds of two ways to choose, and its 95 % interval."""
    values = [other(each) - one(each) for each in judged]
    low, high = interval(judged, values)
    return math.exp(_mean(judged, values)), math.exp(low), math.exp(high)


def _by_program(judged: Sequence[Judged], values: Sequence[float]) -> Floats:
    programs: dict[str, list[float]] = {}
    for one, value in zip(judged, values, strict=True):
        programs.setdefault(one.example.program, []).append(value)
    return np.array([float(np.mean(of_program)) for of_program in programs.values()])


def _mean(judged: Sequence[Judged], values: Sequence[float]) -> float:
    return float(_by_program(judged, values).mean())


def interval(judged: Sequence[Judged], values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean over programs."""
    _, low, high = mean_interval([[mean] for mean in _by_program(judged, values)])
    return low, high


def sensitivity(judged: Sequence[Judged]) -> dict[str, float | None]:
    """Return how well sensitive programs are classified.

    Returns:
        ``balanced_accuracy``: the mean of the recalls of both classes; ``far_wrong``: the share of programs that are
        misclassified and lie farther than ``NEAR`` from the boundary. None where there is no program of a kind.
    """
    told = [one.prediction.is_sensitive == one.example.is_sensitive for one in judged]
    shares = []
    for kind in (False, True):
        places = [place for place, one in enumerate(judged) if one.example.is_sensitive is kind]
        if not places:
            return {"balanced_accuracy": None, "far_wrong": None}
        shares.append(_mean([judged[place] for place in places], [float(told[place]) for place in places]))
    far = [
        float(not right and abs(one.example.most_different - SENSITIVE) > NEAR)
        for one, right in zip(judged, told, strict=True)
    ]
    return {"balanced_accuracy": float(np.mean(shares)), "far_wrong": _mean(judged, far)}


def answers(judged: Sequence[Judged]) -> dict[str, float | None]:
    """Return how often the model abstains, and how often its answers are within 2 % of the best."""
    sure = [one for one in judged if one.prediction.is_sure]
    right = [float(regret(one.example, one.prediction.choice) <= CLOSE) for one in sure]
    unsure = [float(not one.prediction.is_sure) for one in judged]
    return {"abstains": _mean(judged, unsure), "right": _mean(sure, right) if sure else None}


def harm(judged: Sequence[Judged]) -> float | None:
    """Return the least speed of an insensitive program in the chosen strategy, over that in the default."""
    speeds = [one.example.speeds[one.prediction.choice] for one in judged if not one.example.is_sensitive]
    return min(speeds, default=None)


def covered(judged: Sequence[Judged]) -> float:
    """Return the share of programs whose times all lie in their intervals."""

    def inside(one: Judged) -> bool:
        logs = np.array([-math.log(speed) for speed in one.example.speeds])
        return bool(np.all(np.abs(logs - one.prediction.logs) <= one.prediction.widths + 1e-12))

    programs: dict[str, bool] = {}
    for one in judged:
        programs[one.example.program] = programs.get(one.example.program, True) and inside(one)
    return float(np.mean(list(programs.values())))
