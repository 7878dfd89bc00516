"""The section on the daemon: what counts as an application's speed, and what is asked for."""

from collections.abc import Sequence

import pytest

from pinfold.evaluation.fairness import ALONE, DAEMON, LINUX, Row, by_application, promises, row, table
from pinfold.evaluation.finished import Run
from pinfold.evaluation.sam_workloads import MIXES, mix


def run_of(speeds: Sequence[float], comparisons: dict[str, int] | None = None) -> Run:
    return Run(60.0, None, 1.0, [], list(speeds), [], {}, comparisons or {})


def test_processes_of_an_application_count_together_and_threads_are_one_process() -> None:
    assert by_application(mix("2 mcf, 4 TunkRank"), [1.0, 3.0, 7.0]) == [2.0, 7.0]


def test_each_run_is_compared_with_linux_in_the_same_order() -> None:
    assert MIXES[9] == "10 SGD, 10 BSGD"
    runs = {
        LINUX: [run_of([1.0, 2.0]), run_of([2.0, 1.0])],
        ALONE: [run_of([2.0, 1.0]), run_of([4.0, 2.0])],
        DAEMON: [run_of([2.0, 2.0], {"kept": 1}), run_of([4.0, 1.0], {"kept": 1, "slower": 1})],
    }
    found = row(9, runs)
    assert found.slowest == pytest.approx({ALONE: 1.0, DAEMON: 1.0})
    assert found.mean == pytest.approx({ALONE: 2**0.5, DAEMON: 2**0.5})
    assert found.orders == {ALONE: [0.5, 2.0], DAEMON: [1.0, 1.0]}
    assert found.outcomes == {"kept": 2, "slower": 1}
    assert table([found]).rows[0][-1] == "2 kept, 1 slower"


def test_the_daemon_must_be_as_fast_as_the_mapper_and_harm_none() -> None:
    def of(mean: float, slowest: float) -> Row:
        return Row(1, "a", {ALONE: 1.1, DAEMON: mean}, {ALONE: 0.5, DAEMON: slowest}, {ALONE: [], DAEMON: []}, {})

    assert [promise.held for promise in promises([of(1.1, 0.99)])] == [True, True]
    assert [promise.held for promise in promises([of(1.09, 0.98)])] == [False, False]
