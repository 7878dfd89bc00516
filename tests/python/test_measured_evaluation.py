"""Shares of the possible gain after a number of trials, on known times."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from react_cases import Kind, regions, write

from pinfold.evaluation.measured import trials
from pinfold.evaluation.measured.known import Known, Setting
from pinfold.evaluation.measured.policies import Ran, Run
from pinfold.evaluation.measured.simulator import questions
from pinfold.evaluation.measured.trials import JUDGED, Table, oracle, random, shuffled, tried
from pinfold.learn.races import Floats, best_single, greedy


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


def measured(settings: tuple[Setting, ...], gains: list[list[float]]) -> Table:
    names = tuple((f"program{place}", "loop") for place in range(len(gains)))
    return Table(Known("m", tuple(name for name, _ in names), names, settings, 0, np.array(gains)))


BASE = Setting(32, 2, "scatter", "locality", "0000", 1)
SIBLINGS = BASE._replace(threads_per_core=2)
PAGES = BASE._replace(page_map="balance")
SETTINGS = (BASE, SIBLINGS, PAGES, BASE._replace(prefetch="1111"), BASE._replace(threads=16, nodes=1))


def test_the_simulator_is_asked_what_the_table_is_asked() -> None:
    # The best configurations of the two regions share cores, and have other pages.
    found = measured(SETTINGS, [[0, 0.4, 0.1, 0.2, -1], [0, 0.1, 0.6, 0.3, -1]])
    simulated = table(programs=4)
    asked = {one.name: one for one in questions(found, [simulated])}
    siblings = asked["share of the possible gain that needs siblings (SMT)"]
    assert siblings.measured == pytest.approx((0.4 - 0.2) / 1.0)
    assert siblings.simulated == (None,)
    assert asked["share of the possible gain, only prefetchers"].measured == pytest.approx(0.5)
    assert asked["share of the possible gain, only NUMA"].measured == pytest.approx(0.7)
    assert asked["speed-up of the best configuration, geometric mean"].measured == pytest.approx(np.exp(0.5))


def test_a_data_set_that_lacks_a_time_is_refused(tmp_path: Path) -> None:
    rows = [
        {
            **{"machine": "m", "program": program, "command": program, "region": "loop", "simulated": False},
            **{"num_threads": threads, "num_nodes": 1, "thread_map": "compact", "threads_per_core": 1},
            **{"page_map": "local", "prefetch": "0000", "pinning": "0", "time_s": 1.0, "baseline": threads == 1},
        }
        for program, threads in (("a", 1), ("a", 2), ("b", 1), ("b", 2))
    ]
    found = Known.read(write(tmp_path / "data.parquet", rows))
    assert (len(found.settings), found.names) == (2, (("a", "loop"), ("b", "loop")))
    with pytest.raises(ValueError, match=r"b loop has no time in Setting\(threads=2"):
        Known.read(write(tmp_path / "less.parquet", rows[:-1]))


def run_of(*trials: float, rate: float = 2.0) -> Run:
    return Run(trials, rate, requests=len(trials), refused=1)


def test_the_trials_of_a_policy_are_the_configurations_that_it_applied() -> None:
    longest = [run_of(-1.0, 0.2, 0.1, 0.5, rate=3.0), run_of(-0.5, rate=1.9)]
    alone = {seconds: [2.0, 2.0] for seconds in (10, 60, 600)}
    ran = Ran("one", {10: [run_of(), run_of()], 60: [run_of(0.2), run_of()], 600: longest}, alone, processor_s=1.0)
    curve = ran.curve()
    assert curve.gains[0].tolist() == [0, 0.2, 0.2, 0.5, 0.5, 0.5, 0.5, 0, 0.2, 0.5]
    assert curve.gains[1].tolist() == [0.0] * len(JUDGED)
    assert curve.worst == 1
    assert ran.gains(600) == pytest.approx(np.log([1.5, 0.95]))
    assert ran.refused() == pytest.approx(6 / 6)
