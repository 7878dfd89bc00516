"""The tables and figures of Denoyelle et al. (ICPP 2019, sections 4 and 5), from any data set of its four strategies.

Programs are matched between machines by their inputs. Rows of machines are those on which something is known, columns
those for which it is used, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pinfold.evaluation.classify.study_method import (
    FOLDS,
    Aim,
    Labels,
    Turn,
    as_in_the_paper,
    balanced_accuracy,
    both_new,
    elsewhere,
    labels,
    nested,
    new_machines,
    new_programs,
)
from pinfold.evaluation.classify.study_models import PaperModel, drawn
from pinfold.learn.classify.folds import split
from pinfold.learn.classify.strategies import COUNTERS, SENSITIVE, Example
from pinfold.learn.tables import INSTRUMENTATION

Metrics = Literal["counters", "instrumentation", "all"]

METRICS: dict[Metrics, tuple[str, ...]] = {
    "counters": COUNTERS,
    "instrumentation": INSTRUMENTATION,
    "all": (*COUNTERS, *INSTRUMENTATION),
}
"""What models see: tables 1 and 2 of the paper, and both."""

Matrix = dict[str, dict[str, float | None]]
"""Figures by row and column: both are machines."""


def same_class(machines: Mapping[str, Sequence[Example]]) -> Matrix:
    """Return table 5: the share of sensitive programs, and of programs of the same class on both machines."""

    def share(one: str, other: str) -> float | None:
        if one == other:
            return _mean([float(each.is_sensitive) for each in machines[one]])
        return _mean([float(here.is_sensitive == there.is_sensitive) for here, there in _matched(machines, one, other)])

    return _matrix(machines, share)


def best_elsewhere(machines: Mapping[str, Sequence[Example]]) -> Matrix:
    """Return table 6: the speedup of programs that are sensitive on a machine, in the best strategy of another."""

    def gain(one: str, other: str) -> float | None:
        pairs = _matched(machines, one, other)
        return _geometric_mean([there.speeds[here.best] for here, there in pairs if there.is_sensitive])

    return _matrix(machines, gain)


def distance(found: Sequence[Example], predicted: Sequence[int]) -> float | None:
    """Return table 7: the mean distance from the boundary of sensitivity of misclassified programs."""
    wrong = [
        abs(one.most_different - SENSITIVE)
        for one, label in zip(found, predicted, strict=True)
        if one.is_sensitive != bool(label)
    ]
    return _mean(wrong)


def best_and_worst(found: Sequence[Example]) -> list[dict[str, Any]]:
    """Return figure 2: the best and the worst strategy of each program, and their speeds over the default's."""
    rows = []
    for one in found:
        worst = min(range(len(one.speeds)), key=one.speeds.__getitem__)
        rows.append(
            {
                "program": one.input[1],
                "best": one.best,
                "best_speed": one.speeds[one.best],
                "worst": worst,
                "worst_speed": one.speeds[worst],
                "sensitive": one.is_sensitive,
            }
        )
    return rows


@dataclass(frozen=True)
class Result:
    """One cell of figures 3 to 6.

    Attributes
    ----------
    known, judged : str
        The machine from which models learned, and the one on which they predict.
    metrics : str
        What they see.
    aim : str
        ``sensitivity`` or ``strategy``.
    leaky : float
        The figure by the paper's method: that of the best of many models on the programs on which it is reported.
    honest : float
        The same of a model that was chosen without the judged programs, and for another machine without that machine.
    balanced : float or None
        The balanced accuracy of the honest model; None for a strategy.
    distance : float or None
        The mean distance of its wrong answers from the boundary of sensitivity; None where there is none.
    baseline : float
        Of ``always sensitive``, the same answer on both machines, or the default strategy: the paper's baselines.
    best : float
        The best that can be reached.
    tests : tuple of float
        The scores of all models on the test programs, ascending: the distributions of figures 4 and 6.
    model : str
        The model that the paper's method elects.
    """

    known: str
    judged: str
    metrics: Metrics
    aim: str
    leaky: float
    honest: float
    balanced: float | None
    distance: float | None
    baseline: float
    best: float
    tests: tuple[float, ...]
    model: str


@dataclass(frozen=True)
class Question:
    """What is asked, of models that see some metrics.

    Attributes
    ----------
    metrics : str
        What the models see.
    aim : Aim
        What they predict.
    sets : int
        The number of random sets of metrics; each has sixteen models.
    groups : int
        The number of groups into which programs are split; two of them are removed at a time.
    seed : int
        Of everything that is random.
    """

    metrics: Metrics
    aim: Aim
    sets: int
    groups: int
    seed: int = 0

    @cached_property
    def models(self) -> list[PaperModel]:
        """All models."""
        return drawn(METRICS[self.metrics], self.sets, self.seed)

    def new_program(self, found: Sequence[Example]) -> Result:
        """Return a cell on the diagonal of figures 3 and 5: new programs on a known machine."""
        counted = self._counted(found, found)
        predicted = nested(self.models, counted, self.aim, self.seed)
        turns = new_programs(counted, self.seed, self.groups)
        constant = 1 if self.aim.target == "sensitivity" else 0
        return self._result(counted, counted, turns, predicted, np.full(len(counted), constant, dtype=np.int64))

    def new_machine(self, known: Sequence[Example], other: Sequence[Example], judged: Sequence[Example]) -> Result:
        """Return a cell off the diagonal of figures 3 and 5: known programs on a new machine.

        Args:
            known: programs on the machine from which models learn.
            other: the same on a second machine, on which the best models are found.
            judged: the same on a third machine, on which the figure is reported.
        """
        here, there = self._counted(known, judged), self._counted(judged, known)
        predicted = elsewhere(self.models, here, there, self.aim, self.seed)
        return self._result(
            here, there, new_machines(here, other, there), predicted, _same_answer(here, there, self.aim)
        )

    def both_new(self, known: Sequence[Example], other: Sequence[Example], judged: Sequence[Example]) -> Result:
        """Return a column of figures 4 and 6: new programs on a new machine.

        Args:
            known: programs on the machine from which models learn.
            other: the same on a second machine, on which the best models are found.
            judged: the same on a third machine, on which the figure is reported.
        """
        here, there = self._counted(known, judged), self._counted(judged, known)
        predicted = np.zeros(len(there), dtype=np.int64)
        names = {one.program for one in there}
        for inside, _ in split(here, FOLDS, self.seed):
            training = [here[place] for place in inside]
            new = names - {one.program for one in training}
            places = [place for place, one in enumerate(there) if one.program in new]
            if places:
                unseen = [there[place] for place in places]
                predicted[places] = elsewhere(self.models, training, unseen, self.aim, self.seed)
        turns = both_new(here, other, there, self.seed, self.groups)
        return self._result(here, there, turns, predicted, _same_answer(here, there, self.aim))

    def _counted(self, found: Sequence[Example], elsewhere_too: Sequence[Example]) -> list[Example]:
        """Return the programs that count: for the strategy those that are sensitive on one of the machines."""
        both = {one.input for one in found} & {one.input for one in elsewhere_too}
        sensitive = {one.input for one in (*found, *elsewhere_too) if one.is_sensitive}
        counted = both if self.aim.target == "sensitivity" else both & sensitive
        return [one for one in found if one.input in counted]

    def _result(
        self,
        here: Sequence[Example],
        there: Sequence[Example],
        turns: Sequence[Turn],
        predicted: Labels,
        baseline: Labels,
    ) -> Result:
        elected = as_in_the_paper(self.models, turns, self.aim, self.seed)
        of_sensitivity = self.aim.target == "sensitivity"
        return Result(
            known=here[0].machine,
            judged=there[0].machine,
            metrics=self.metrics,
            aim=self.aim.target,
            leaky=elected.validation,
            honest=self.aim.score(there, predicted),
            balanced=balanced_accuracy(there, predicted) if of_sensitivity else None,
            distance=distance(there, predicted.tolist()) if of_sensitivity else None,
            baseline=self.aim.score(there, baseline),
            best=self.aim.score(there, labels(there, self.aim.target)),
            tests=elected.all_tests,
            model=elected.model.text(),
        )


def _same_answer(here: Sequence[Example], there: Sequence[Example], aim: Aim) -> Labels:
    """Return the answers of one machine for the programs on another: the paper's baseline."""
    before = dict(zip((one.input for one in here), labels(here, aim.target), strict=True))
    return np.array([before[one.input] for one in there], dtype=np.int64)


def _matched(machines: Mapping[str, Sequence[Example]], one: str, other: str) -> list[tuple[Example, Example]]:
    there = {each.input: each for each in machines[other]}
    return [(here, there[here.input]) for here in machines[one] if here.input in there]


def _matrix(machines: Mapping[str, Sequence[Example]], cell: Callable[[str, str], float | None]) -> Matrix:
    return {one: {other: cell(one, other) for other in machines} for one in machines}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(float(np.mean(np.log(values)))) if values else None
