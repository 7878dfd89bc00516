"""Models of placements: features that need no machine, predictions that know their doubt, and judging without leaks."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinfold.learn.classify.features import FEATURES, MACHINE, PROGRAM, features
from pinfold.learn.classify.judging import (
    CHOICES,
    Judged,
    Known,
    Study,
    answers,
    covered,
    difference,
    exchanged,
    harm,
    sensitivity,
    share,
)
from pinfold.learn.classify.model import CLOSE, Deviations, Learner, Prediction, learn, regret
from pinfold.learn.classify.strategies import Example
from pinfold.learn.tables import OBSERVED

TREE = Learner("tree", 3, 0.05)


def program(number: int, machine: str = "one", *, noise: float = 0.0) -> Example:
    """A program that interleave makes faster, if its first memory is overloaded, or slower; and that may share."""
    random = np.random.default_rng([number, len(machine)])
    serial, shares = number % 2 == 0, number % 4 < 2
    seconds = np.ones(4)
    seconds[[1, 3]] *= 0.5 if serial else 1.3
    if shares:
        seconds[[2, 3]] *= 1.5
    seconds[1:] *= np.exp(noise * random.normal(size=3))
    said = {"ipc": random.uniform(0.5, 2), "memory_imbalance": 4.0 if serial else 1.0, "inter_package_coherence": 0.001}
    said["intra_package_coherence"] = 0.01 if shares else 0.0
    metrics = {OBSERVED + name: value for name, value in said.items()}
    return Example(f"p{number}", f"p{number}", machine, 24, tuple(seconds.tolist()), metrics, covers=True)


def judged(seconds: tuple[float, ...], logs: tuple[float, ...], *, sure: bool = True, name: str = "p") -> Judged:
    one = Example(name, name, "one", 24, seconds, {}, covers=True)
    widths = np.array([0.0, 0.1, 0.1, 0.1])
    said = Prediction(
        np.array([0.0, *logs]), widths, 0.0, sure, 1 + int(np.argmin(logs)), float(max(map(abs, logs)) > 0.1)
    )
    return Judged(one, said, TREE, Known(1, (0, 1)))


def test_a_row_has_what_was_observed_and_the_strategy() -> None:
    rows = features(program(0))
    found = dict(zip(FEATURES, rows[0], strict=True))
    assert found["memory_imbalance"] == 4.0
    assert math.isnan(found["remote_share"]), "missing is not zero"
    assert rows[:, -2:].tolist() == [[0, 1], [1, 0], [1, 1]]


def test_the_features_are_those_that_the_policy_observes() -> None:
    source = Path("crates/policy/src/classify/features.rs").read_text()
    table = source[source.index("features! {") :]
    names = re.findall(r'^    "(\w+)":', table[: table.index("};")], flags=re.MULTILINE)
    assert names == [*PROGRAM, *MACHINE]


def test_a_model_predicts_programs_that_it_has_not_seen_and_is_sure_where_it_is_right() -> None:
    found = [program(number) for number in range(48)]
    model = learn(found[:40], TREE, seed=0)
    said = model.predict(np.array([features(one) for one in found[40:]]))
    for one, prediction in zip(found[40:], said, strict=True):
        assert regret(one, prediction.choice) <= CLOSE
        assert prediction.is_sensitive == one.is_sensitive
        assert prediction.is_sure


def test_the_second_strategy_is_the_best_companion_of_the_default_and_not_the_fastest_forecast() -> None:
    # Scatter is a little faster for all; interleave is twice as fast for one of four, and slower for the others.
    logs = np.array([[0.3, -0.02, 0.3]] * 3 + [[-0.7, -0.02, 0.3]])
    known = Deviations.of(logs, np.ones(4))
    assert known.second(np.zeros(4)) == 1
    assert known.second(np.array([0.0, 0.8, 0.0, 0.0])) == 2, "where interleave is forecast to be slow"


def test_where_all_programs_are_of_one_class_all_are_predicted_to_be() -> None:
    found = [replace(program(number), seconds=(1.0, 1.0, 1.0, 1.0)) for number in range(24)]
    model = learn(found, TREE, seed=0)
    assert {one.sensitivity for one in model.predict(np.array([features(one) for one in found]))} == {0.0}


def test_a_model_of_noise_is_never_sure() -> None:
    found = [program(number) for number in range(40)]
    # What is known of a program says nothing of its times.
    found = [replace(one, metrics={OBSERVED + "ipc": 1.0}) for one in found]
    model = learn(found, TREE, seed=0)
    said = model.predict(np.array([features(one) for one in found]))
    assert not any(prediction.is_sure for prediction in said)


def test_with_few_programs_no_interval_is_known_and_nothing_is_sure() -> None:
    found = [program(number) for number in range(6)]
    model = learn(found, TREE, seed=0)
    assert math.isinf(model.width)
    assert not any(one.is_sure for one in model.predict(np.array([features(found[0])])))


def test_intervals_cover_as_many_unseen_programs_as_they_say() -> None:
    found = [program(number, noise=0.05) for number in range(80)]
    study = Study(found, [TREE])
    assert 0.75 < covered(study.judge(0, unseen_machine=False)) <= 1.0


def test_a_feature_that_a_program_lacks_is_named_if_the_model_may_use_it() -> None:
    found = [program(number) for number in range(24)]
    model = learn(found, TREE, seed=0)
    without = replace(found[0], metrics={OBSERVED + "ipc": 1.0})
    assert model.missing(np.array([features(without)])) == [
        ["intra_package_coherence", "inter_package_coherence", "memory_imbalance"]
    ]


def test_on_an_unseen_machine_a_program_is_judged_by_other_programs_on_other_machines() -> None:
    found = [program(number, machine) for number in range(20) for machine in ("one", "three")]
    study = Study(found, [TREE])
    for inside, outside in study._splits(0, unseen_machine=True):
        assert {found[place].machine for place in outside}.isdisjoint(found[place].machine for place in inside)
        assert {found[place].program for place in outside}.isdisjoint(found[place].program for place in inside)
    judged_ones = study.judge(0, unseen_machine=True)
    assert sorted((one.example.program, one.example.machine) for one in judged_ones) == sorted(
        (one.program, one.machine) for one in found
    )
    best = share(judged_ones, CHOICES["one run"])
    assert best.mean is not None
    assert best.mean > 0.98


def test_only_programs_on_the_asked_machines_are_judged_and_all_others_are_learned_from() -> None:
    found = [program(number, machine) for number in range(20) for machine in ("one", "three")]
    found += [program(number, "two") for number in range(3)]
    study = Study(found, [TREE], machines={"two"})
    for unseen_machine in (False, True):
        for inside, outside in study._splits(0, unseen_machine=unseen_machine):
            assert all(found[place].machine == "two" for place in outside)
            assert {found[place].program for place in outside}.isdisjoint(found[place].program for place in inside)
            learned_from = {found[place].machine for place in inside}
            assert learned_from - {"two"} == {"one", "three"}
        judged_ones = study.judge(0, unseen_machine=unseen_machine)
        assert sorted(one.example.program for one in judged_ones) == sorted(one.program for one in found[-3:])


def test_what_learned_from_exchanged_times_does_not_beat_the_baseline() -> None:
    found = [program(number) for number in range(40)]
    study = Study(found, [TREE])
    honest, control = (study.judge(1, unseen_machine=False, shuffled=shuffled) for shuffled in (False, True))
    assert difference(honest, CHOICES["one run"], CHOICES["best static"])[1] > 1.05
    assert difference(control, CHOICES["one run"], CHOICES["best static"])[0] < 1.02


def test_an_exchange_keeps_the_machine_and_what_features_are_made_of() -> None:
    found = [program(number, machine) for number in range(10) for machine in ("one", "three")]
    other = exchanged(found, seed=2)
    assert [one.metrics for one in other] == [one.metrics for one in found]
    assert [one.seconds[0] for one in other] == [one.seconds[0] for one in found]
    assert [one.speeds for one in other] != [one.speeds for one in found]


def test_shares_weigh_programs_and_not_their_inputs() -> None:
    twice = [judged((1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0), name="a") for _ in range(3)]
    lost = judged((1.0, 0.25, 1.0, 1.0), (0.0, 0.0, 0.0), name="b")
    found = share([*twice, lost], CHOICES["default"])
    assert found.mean == pytest.approx(0.5)
    assert found.worst == pytest.approx(0.25)
    assert share([], CHOICES["default"]).mean is None


def test_a_gain_of_two_percent_or_less_is_no_reason_to_leave_the_default() -> None:
    assert judged((1.0,) * 4, (-0.019, 0.0, 0.0)).prediction.choice == 0
    assert judged((1.0,) * 4, (-0.021, 0.0, 0.0)).prediction.choice == 1


def test_two_runs_keep_the_better_of_the_default_and_the_predicted_one() -> None:
    wrong = judged((1.0, 2.0, 1.0, 0.5), (-0.5, 0.0, 0.0))
    assert CHOICES["one run"](wrong) == pytest.approx(math.log(4))
    assert CHOICES["two runs"](wrong) == pytest.approx(math.log(2))
    assert CHOICES["run two, keep the better"](wrong) == pytest.approx(math.log(2))


def test_harm_is_counted_among_insensitive_programs_alone() -> None:
    insensitive = judged((1.0, 1.05, 1.0, 1.0), (-0.3, 0.0, 0.0))
    sensitive = judged((1.0, 3.0, 1.0, 1.0), (-0.3, 0.0, 0.0))
    assert harm([insensitive, sensitive]) == pytest.approx(1 / 1.05)
    assert harm([sensitive]) is None


def test_answers_are_right_within_two_percent_and_only_sure_ones_count() -> None:
    right = judged((1.0, 0.5, 1.0, 1.0), (-0.6, 0.0, 0.0), name="a")
    wrong = judged((1.0, 2.0, 1.0, 1.0), (-0.6, 0.0, 0.0), name="b")
    unsure = judged((1.0, 2.0, 1.0, 1.0), (-0.6, 0.0, 0.0), sure=False, name="c")
    assert answers([right, wrong, unsure]) == {"abstains": pytest.approx(1 / 3), "right": 0.5}
    assert answers([unsure])["right"] is None


def test_a_wrong_answer_near_the_boundary_of_sensitivity_is_no_far_one() -> None:
    near = judged((1.0, 1 / 1.09, 1.0, 1.0), (-0.15, 0.0, 0.0), name="a")
    far = judged((1.0, 1 / 1.5, 1.0, 1.0), (0.0, 0.0, 0.0), name="b")
    assert sensitivity([near, far]) == {"balanced_accuracy": 0.0, "far_wrong": 0.5}
    assert sensitivity([far])["balanced_accuracy"] is None
