"""The method of Denoyelle et al. (ICPP 2019, section 3.3) to choose and judge a model, and one without its leak.

The paper removes two programs, trains on the others, and predicts the first (test) and the second (validation), for all
pairs. Of all models it keeps the 1 % that are best on the test programs, and elects the one that is best on the
validation programs. The figure that it reports is that of the elected model on the validation programs.

That figure is the best of many models on the very programs on which it is reported. The validation cannot even disagree
with the test: over all ordered pairs each program is as often the first as the second, with the same predictions, so
that both scores of a model are equal.

Without the leak, the program on which a model is judged has no part in its choice: for each fold of programs, all
models are scored on the other folds, each predicted by models trained without it, and the best one predicts the fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from pinfold.evaluation.classify.study_models import PaperModel
from pinfold.learn.classify.folds import split
from pinfold.learn.classify.strategies import Example

Target = Literal["sensitivity", "strategy"]
"""Whether placement matters, or which strategy is the best."""

Labels = npt.NDArray[np.int64]
Score = Callable[[Sequence[Example], Labels], float]
"""The score of predictions: more is better."""

BEST_SHARE = 0.01
"""The share of models that the test programs choose."""

FOLDS = 3


def labels(found: Sequence[Example], target: Target) -> Labels:
    """Return what is to be predicted: 0 or 1, or the position of the best strategy."""
    return np.array([one.is_sensitive if target == "sensitivity" else one.best for one in found], dtype=np.int64)


def accuracy(found: Sequence[Example], predicted: Labels) -> float:
    """Return the share of programs whose sensitivity is predicted, the mean over programs of that over their inputs."""
    return _by_program(found, predicted == labels(found, "sensitivity"))


def balanced_accuracy(found: Sequence[Example], predicted: Labels) -> float:
    """Return the mean of the accuracy among sensitive programs and that among the others."""
    truth = labels(found, "sensitivity")
    classes = [
        _by_program(
            [one for one, inside in zip(found, truth == kind, strict=True) if inside],
            (predicted == kind)[truth == kind],
        )
        for kind in (0, 1)
        if (truth == kind).any()
    ]
    return float(np.mean(classes))


def speedup(found: Sequence[Example], predicted: Labels) -> float:
    """Return the geometric mean of the speeds in the predicted strategies over those in the default (section 5.2)."""
    gains = [np.log(one.speeds[strategy]) for one, strategy in zip(found, predicted, strict=True)]
    return float(np.exp(_by_program(found, np.array(gains))))


def _by_program(found: Sequence[Example], values: npt.NDArray[Any]) -> float:
    """Return the mean over programs of the mean over the inputs of each."""
    programs: dict[str, list[float]] = {}
    for one, value in zip(found, values, strict=True):
        programs.setdefault(one.program, []).append(float(value))
    return float(np.mean([np.mean(of_one) for of_one in programs.values()]))


@dataclass(frozen=True)
class Aim:
    """What is predicted, and the score of predictions.

    Attributes
    ----------
    target : str
        What is predicted.
    score : callable
        Gives the score of predictions for programs.
    """

    target: Target
    score: Score


SENSITIVITY = Aim("sensitivity", accuracy)
STRATEGY = Aim("strategy", speedup)


@dataclass(frozen=True)
class Turn:
    """One training, and what is predicted after it.

    Attributes
    ----------
    training : sequence of Example
        What a model learns from.
    test : sequence of Example
        What it predicts, to find the best models.
    validation : sequence of Example
        What it predicts, to elect one of these.
    """

    training: Sequence[Example]
    test: Sequence[Example]
    validation: Sequence[Example]


def pairs(found: Sequence[Example], seed: int, groups: int) -> list[tuple[set[str], set[str]]]:
    """Return the names of the programs that are removed together: each once as a test, and once as a validation.

    The paper removes two programs, and all pairs of these. That takes a training for each pair and model; here groups
    of programs are removed.

    Args:
        found: programs.
        seed: of their order.
        groups: the number of groups; with as many as there are programs, single ones are removed.
    """
    names = sorted({one.program for one in found})
    number = min(groups, len(names))
    members: list[set[str]] = [set() for _ in range(number)]
    for place, name in enumerate(np.random.default_rng(seed).permutation(len(names))):
        members[place % number].add(names[name])
    return [(members[place], members[(place + 1) % number]) for place in range(number)]


def new_programs(found: Sequence[Example], seed: int, groups: int) -> list[Turn]:
    """Return the turns in which two groups of programs of a machine are predicted after training with the others.

    Args:
        found: programs on one machine. With ``Example.program`` as the name of a program with its input, inputs count
            as programs, as NAS's classes do in the paper.
        seed: of the order of programs.
        groups: the number of groups.
    """
    return both_new(found, found, found, seed, groups)


def new_machines(training: Sequence[Example], test: Sequence[Example], validation: Sequence[Example]) -> list[Turn]:
    """Return the turn in which all programs are known from one machine and predicted on two others."""
    return [Turn(training, test, validation)]


def both_new(
    training: Sequence[Example], test: Sequence[Example], validation: Sequence[Example], seed: int, groups: int
) -> list[Turn]:
    """Return the turns in which two groups are predicted, each on a machine, after training with others elsewhere."""
    return [
        Turn(
            [one for one in training if one.program not in first | second],
            [one for one in test if one.program in first],
            [one for one in validation if one.program in second],
        )
        for first, second in pairs(training, seed, groups)
    ]


@dataclass(frozen=True)
class Elected:
    """A model, and its score by the paper's method.

    Attributes
    ----------
    model : PaperModel
        The elected one.
    test, validation : float
        Its scores. The second is what the paper reports.
    all_tests : tuple of float
        The scores of all models on the test programs, ascending.
    """

    model: PaperModel
    test: float
    validation: float
    all_tests: tuple[float, ...]


def as_in_the_paper(models: Sequence[PaperModel], turns: Sequence[Turn], aim: Aim, seed: int) -> Elected:
    """Elect a model as the paper does.

    Args:
        models: all models.
        turns: the trainings, and what is predicted after each.
        aim: what is predicted, and the score.
        seed: of the classifiers.
    """
    scores = []
    for model in models:
        tests: list[tuple[Example, Any]] = []
        validations: list[tuple[Example, Any]] = []
        for turn in turns:
            fitted = _fit(model, turn.training, aim.target, seed)
            for part, into in ((turn.test, tests), (turn.validation, validations)):
                if part:
                    into.extend(zip(part, fitted(part), strict=True))
        scores.append((_score(aim.score, tests), _score(aim.score, validations)))
    kept = max(1, round(BEST_SHARE * len(models)))
    best = sorted(range(len(models)), key=lambda place: -scores[place][0])[:kept]
    elected = max(best, key=lambda place: scores[place][1])
    return Elected(models[elected], *scores[elected], tuple(sorted(test for test, _ in scores)))


def _score(score: Score, predicted: Sequence[tuple[Example, Any]]) -> float:
    return score([one for one, _ in predicted], np.array([label for _, label in predicted], dtype=np.int64))


def elsewhere(
    models: Sequence[PaperModel],
    training: Sequence[Example],
    judged: Sequence[Example],
    aim: Aim,
    seed: int,
) -> Labels:
    """Predict programs on a machine by a model that was chosen and trained on another one alone.

    Args:
        models: all models.
        training: programs on the known machine.
        judged: programs on the other machine.
        aim: what is predicted, and the score, which chooses among the models.
        seed: of the folds and of the classifiers.
    """
    return _fit(_best_model(models, training, aim, seed, FOLDS), training, aim.target, seed)(judged)


def _best_model(models: Sequence[PaperModel], found: Sequence[Example], aim: Aim, seed: int, folds: int) -> PaperModel:
    return max(models, key=lambda model: aim.score(found, _held_out(model, found, aim.target, seed, folds)))


def nested(models: Sequence[PaperModel], found: Sequence[Example], aim: Aim, seed: int, folds: int = FOLDS) -> Labels:
    """Predict each program by a model in whose choice and training it had no part.

    Args:
        models: all models.
        found: programs, on one machine or several.
        aim: what is predicted, and the score, which chooses among the models.
        seed: of the folds and of the classifiers.
        folds: the number of parts into which the programs are split.

    Returns:
        The predictions, in the order of ``found``.
    """
    predicted = np.zeros(len(found), dtype=np.int64)
    for inside, outside in split(found, folds, seed):
        training, judged = [found[place] for place in inside], [found[place] for place in outside]
        chosen = _best_model(models, training, aim, seed, folds)
        predicted[outside] = _fit(chosen, training, aim.target, seed)(judged)
    return predicted


def _held_out(model: PaperModel, found: Sequence[Example], target: Target, seed: int, folds: int) -> Labels:
    predicted = np.zeros(len(found), dtype=np.int64)
    for inside, outside in split(found, folds, seed):
        fitted = _fit(model, [found[place] for place in inside], target, seed)
        predicted[outside] = fitted([found[place] for place in outside])
    return predicted


def _fit(
    model: PaperModel, found: Sequence[Example], target: Target, seed: int
) -> Callable[[Sequence[Example]], Labels]:
    truth = labels(found, target)
    if len(set(truth.tolist())) == 1:
        # No classifier can be fitted to one class.
        return lambda others: np.full(len(others), truth[0])
    pipeline = model.pipeline(seed)
    with warnings.catch_warnings():
        # The paper's models have default settings, whether these suffice or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        pipeline.fit(inputs(found, model.parameters), truth)

    def predict(others: Sequence[Example]) -> Labels:
        predicted: Labels = pipeline.predict(inputs(others, model.parameters))
        return predicted

    return predict


def inputs(found: Sequence[Example], names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return metrics as a matrix, a row for each example; NaN is missing."""
    return np.array([[one.metrics.get(name, np.nan) for name in names] for one in found], dtype=np.float64)
