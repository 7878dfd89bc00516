"""The method by which the models of Denoyelle et al. are chosen and judged, on data with a known answer."""

from dataclasses import replace

import numpy as np
import pytest

from pinfold.evaluation.classify.study_method import (
    SENSITIVITY,
    accuracy,
    as_in_the_paper,
    balanced_accuracy,
    both_new,
    elsewhere,
    inputs,
    labels,
    nested,
    new_machines,
    new_programs,
    pairs,
    speedup,
)
from pinfold.evaluation.classify.study_models import KINDS, PaperModel, drawn
from pinfold.learn.classify.folds import split
from pinfold.learn.classify.strategies import COUNTERS, Example

INSENSITIVE, SENSITIVE = (1.0, 1.0, 1.0, 1.0), (1.0, 0.5, 1.0, 1.0)


def programs(number: int, seed: int = 0, signal: bool = True) -> list[Example]:
    """Programs whose first metric tells whether interleave halves the time; without ``signal`` all are noise."""
    random = np.random.default_rng(seed)
    found = []
    for place in range(number):
        metrics = dict(zip(COUNTERS, random.normal(size=len(COUNTERS)).tolist(), strict=True))
        sensitive = metrics[COUNTERS[0]] > 0 if signal else place % 2 == 0
        seconds = SENSITIVE if sensitive else INSENSITIVE
        found.append(Example(f"p{place}", f"p{place}", "one", 24, seconds, metrics, covers=True))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decomposed", [False, True])
def test_every_model_learns_what_can_be_learned(kind: str, decomposed: bool) -> None:
    found = programs(60)
    model = PaperModel(kind, decomposed, 2, COUNTERS[:2])  # type: ignore[arg-type]
    predicted = nested([model], found, SENSITIVITY, seed=0, folds=5)
    assert accuracy(found, predicted) > 0.8


def test_the_strategy_is_scored_by_what_it_gains() -> None:
    found = programs(8)
    assert speedup(found, labels(found, "strategy")) > speedup(found, np.zeros(8, dtype=np.int64)) == 1.0


def test_a_balanced_accuracy_gives_both_classes_the_same_weight() -> None:
    found = [*programs(1), *(Example(f"q{n}", "q", "one", 24, INSENSITIVE, {}, covers=True) for n in range(9))]
    always = np.zeros(10, dtype=np.int64)
    found[0] = Example("p", "p", "one", 24, SENSITIVE, {}, covers=True)
    assert accuracy(found, always) == pytest.approx(0.9)
    assert balanced_accuracy(found, always) == pytest.approx(0.5)


def test_on_noise_the_papers_figure_is_better_than_chance_and_the_nested_one_is_not() -> None:
    found = programs(16, signal=False)
    models = [model for model in drawn(COUNTERS, 8, seed=1) if model.kind == "svm"]
    elected = as_in_the_paper(models, new_programs(found, seed=0, groups=99), SENSITIVITY, seed=0)
    honest = accuracy(found, nested(models, found, SENSITIVITY, seed=0, folds=3))
    assert elected.validation > 0.55
    assert elected.validation > honest


def test_a_program_with_all_its_inputs_is_in_one_fold() -> None:
    sizes = [(name, f"{name} {size}") for name in "abcdef" for size in range(3)]
    found = [Example(name, command, "one", 24, INSENSITIVE, {}, covers=True) for name, command in sizes]
    for inside, outside in split(found, 4, seed=0):
        assert {found[place].program for place in inside}.isdisjoint(found[place].program for place in outside)
        assert sorted([*inside, *outside]) == list(range(len(found)))


def test_the_same_seed_draws_the_same_models_each_once() -> None:
    models = drawn(COUNTERS, 10, seed=3)
    assert models == drawn(COUNTERS, 10, seed=3)
    assert len(set(models)) == len(models) == 10 * 16
    assert len(drawn(COUNTERS[:1], 10, seed=3)) == 16, "there is one set of one metric"


def test_a_metric_that_hardly_varies_in_training_may_be_far_away_elsewhere() -> None:
    name = COUNTERS[0]
    near = [replace(one, metrics={name: 1 + 1e-9 * number}) for number, one in enumerate(programs(8))]
    far = [replace(one, metrics={name: 1e30}) for one in programs(8)]
    for kind in ("forest", "svm", "logistic", "network"):
        pipeline = PaperModel(kind, True, 2, (name,)).pipeline(seed=0)
        pipeline.fit(inputs(near, [name]), [0, 1] * 4)
        assert set(pipeline.predict(inputs(far, [name]))) <= {0, 1}


def test_a_missing_metric_is_not_zero() -> None:
    (one,) = programs(1)
    assert np.isnan(inputs([one], ["no such metric"])).all()


def test_of_two_removed_programs_one_tests_on_a_machine_and_the_other_validates_on_a_third() -> None:
    here, there, far = ([replace(one, machine=machine) for one in programs(6)] for machine in ("here", "there", "far"))
    turns = both_new(here, there, far, seed=0, groups=99)
    assert len(turns) == 6
    for turn in turns:
        (test,), (validation,) = turn.test, turn.validation
        assert (test.machine, validation.machine) == ("there", "far")
        assert {test.program, validation.program}.isdisjoint(one.program for one in turn.training)
        assert len(turn.training) == 4


def test_two_groups_of_programs_are_removed_at_a_time_each_once_for_each_part() -> None:
    removed = pairs(programs(7), seed=0, groups=3)
    assert sorted(name for test, _ in removed for name in test) == [f"p{number}" for number in range(7)]
    assert sorted(name for _, validation in removed for name in validation) == [f"p{number}" for number in range(7)]
    assert all(test.isdisjoint(validation) for test, validation in removed)


def test_on_new_machines_all_programs_are_known() -> None:
    here, there = programs(40), [replace(one, machine="there") for one in programs(40)]
    model = PaperModel("forest", False, 1, COUNTERS[:2])
    elected = as_in_the_paper([model], new_machines(here, there, there), SENSITIVITY, seed=0)
    assert elected.test == elected.validation == 1.0
    assert elected.all_tests == (1.0,)


def test_a_model_for_another_machine_is_chosen_without_it() -> None:
    """The machine on which it is judged has the opposite answers: no choice can know that."""
    here = programs(40)
    opposite = [
        replace(one, machine="there", seconds=INSENSITIVE if one.is_sensitive else SENSITIVE) for one in programs(40)
    ]
    models = [PaperModel("forest", False, 1, (name,)) for name in COUNTERS]
    predicted = elsewhere(models, here, opposite, SENSITIVITY, seed=0)
    assert accuracy(opposite, predicted) < 0.2
