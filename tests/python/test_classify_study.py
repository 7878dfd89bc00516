"""The tables and figures of Denoyelle et al., on programs whose answers are known."""

from dataclasses import replace

import numpy as np
import pytest

from pinfold.evaluation.classify import study as paper_study
from pinfold.evaluation.classify.study import Question, best_and_worst, best_elsewhere, distance, same_class
from pinfold.evaluation.classify.study_method import SENSITIVITY, STRATEGY
from pinfold.evaluation.classify.study_models import PaperModel
from pinfold.learn.classify.strategies import COUNTERS, Example

INTERLEAVE, SCATTER, NEITHER = (1.0, 0.5, 1.0, 1.0), (1.0, 1.0, 0.5, 1.0), (1.0, 1.0, 1.05, 1.0)


def program(name: str, machine: str, seconds: tuple[float, ...], value: float = 0.0) -> Example:
    metrics = dict.fromkeys(COUNTERS, value)
    return Example(name, f"{name} --threads {len(machine)}", machine, 24, seconds, metrics, covers=True)


def programs(machine: str, number: int = 12) -> list[Example]:
    """Programs that gain by interleaving if their metrics are above zero."""
    found = []
    for place in range(number):
        value = (place + 1) * (1.0 if place % 2 else -1.0)
        found.append(program(f"p{place}", machine, INTERLEAVE if value > 0 else NEITHER, value))
    return found


@pytest.fixture
def one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        paper_study, "drawn", lambda names, sets, seed: [PaperModel("svm", False, 1, tuple(names[:1]))] * sets
    )


def test_classes_are_compared_by_input_between_machines() -> None:
    machines = {
        "one": [program("a", "one", INTERLEAVE), program("b", "one", NEITHER), program("only", "one", NEITHER)],
        "other": [program("a", "other", SCATTER), program("b", "other", SCATTER)],
    }
    found = same_class(machines)
    assert found["one"]["one"] == pytest.approx(1 / 3)
    assert found["other"]["other"] == 1.0
    assert found["one"]["other"] == found["other"]["one"] == 0.5


def test_the_best_strategy_of_another_machine_is_not_always_the_best() -> None:
    machines = {"one": [program("a", "one", INTERLEAVE)], "other": [program("a", "other", SCATTER)]}
    found = best_elsewhere(machines)
    assert found["one"]["one"] == found["other"]["other"] == pytest.approx(2.0)
    assert found["one"]["other"] == 1.0
    insensitive = {"one": [program("a", "one", NEITHER)]}
    assert best_elsewhere(insensitive)["one"]["one"] is None, "missing is not zero"


def test_the_distance_is_that_of_wrong_answers_alone() -> None:
    found = [program("a", "one", INTERLEAVE), program("b", "one", (1.0, 1 / 1.05, 1.0, 1.0))]
    assert distance(found, [1, 1]) == pytest.approx(0.05)
    assert distance(found, [1, 0]) is None


def test_best_and_worst_are_over_the_default() -> None:
    (row,) = best_and_worst([program("a", "one", (1.0, 0.5, 2.0, 1.0))])
    assert (row["best"], row["best_speed"], row["worst"], row["worst_speed"]) == (1, 2.0, 2, 0.5)
    assert row["sensitive"]


@pytest.mark.usefixtures("one_model")
def test_what_a_metric_tells_is_predicted_for_new_programs_and_for_new_machines() -> None:
    here, there, far = (programs(machine) for machine in ("here", "there1", "far"))
    question = Question("counters", SENSITIVITY, sets=1, groups=99)
    for result in (
        question.new_program(here),
        question.new_machine(here, there, far),
        question.both_new(here, there, far),
    ):
        assert result.honest > 0.7
        assert result.leaky > 0.7
        assert result.best == 1.0
        assert len(result.tests) == 1
    diagonal = question.new_program(here)
    assert diagonal.baseline == 0.5, "always sensitive"
    assert question.new_machine(here, there, far).baseline == 1.0, "the same answer on both machines"


@pytest.mark.usefixtures("one_model")
def test_the_strategy_is_asked_for_sensitive_programs_alone() -> None:
    here = programs("here")
    result = Question("counters", STRATEGY, sets=1, groups=99).new_program(here)
    assert result.best == pytest.approx(2.0)
    assert result.baseline == 1.0, "the default"
    assert result.balanced is None


@pytest.mark.usefixtures("one_model")
def test_a_program_that_is_known_on_one_machine_only_is_left_out_between_machines() -> None:
    here, there, far = (programs(machine) for machine in ("here", "there1", "far"))
    more = [*here, replace(here[0], program="extra", command="extra")]
    question = Question("counters", SENSITIVITY, sets=1, groups=99)
    assert question.both_new(more, there, far) == question.both_new(here, there, far)
    assert np.isfinite(question.both_new(more, there, far).honest)
