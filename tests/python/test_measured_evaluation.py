"""Shares of the possible gain after a number of trials, on known times."""

from itertools import combinations

import numpy as np
import pytest
from react_cases import Kind, regions

from pinfold.evaluation.measured import trials
from pinfold.evaluation.measured.known import Known
from pinfold.evaluation.measured.trials import JUDGED, Table, best_single, greedy, oracle, random, shuffled, tried
from pinfold.learn.react.data import Floats


def table(kind: Kind = "structured", programs: int = 8) -> Table:
    return Table(Known.of(regions(kind, programs=programs, settings=("0000", "1111"))))


def test_random_is_the_exact_expectation() -> None:
    found = table(programs=4)
    others = np.delete(np.maximum(found.gains, 0), found.known.baseline, axis=1)
    number = others.shape[1]
    for drawn in (1, 2, 3):
        every = np.mean([others[:, list(some)].max(axis=1) for some in combinations(range(number), drawn)], axis=0)
        assert random(found).gains[:, JUDGED.index(drawn)] == pytest.approx(every)
    assert random(found).gains[:, -1] == pytest.approx(found.possible)


def test_more_trials_never_gain_less_and_all_of_them_gain_all() -> None:
    found = table()
    for curve in (random(found), tried("", found, found.other_programs(greedy)), oracle(found)):
        assert (np.diff(curve.gains, axis=1) >= -1e-12).all()
        assert curve.gains[:, -1] == pytest.approx(found.possible)
        assert curve.worst >= 1


def test_a_program_is_judged_by_what_others_have_taught() -> None:
    found = table()
    seen = []

    def order(gains: Floats) -> list[int]:
        seen.append(len(gains))
        return best_single(gains)

    orders = found.other_programs(order)
    assert len(orders) == len(found.known.programs)
    assert seen == [len(found.known.programs) - 3] * len(found.programs)
    program = found.known.programs[0]
    other = np.array(found.known.programs) != program
    assert orders[0] == best_single(found.gains[other])


def test_a_race_of_other_programs_is_better_than_chance_and_the_control_is_not() -> None:
    found = table(programs=20)

    def share(curve: trials.Curve) -> float:
        return found.share(curve.gains[:, JUDGED.index(3)]).share

    race, chance = share(tried("", found, found.other_programs(greedy))), share(random(found))
    assert race > chance
    assert share(shuffled(found, range(5))) == pytest.approx(chance, abs=0.1)
    assert share(oracle(found)) == pytest.approx(1)


def test_a_configuration_that_is_not_compared_with_the_baseline_can_be_slower() -> None:
    found = table("noise")
    assert trials.unchecked(found) < 1


def test_an_interval_contains_its_share() -> None:
    found = table()
    share = found.share(random(found).gains[:, 0])
    assert share.low <= share.share <= share.high
