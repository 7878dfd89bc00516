"""The section on places for single regions: what is compared with what, and what is asked for."""

from collections.abc import Sequence

import pytest

from pinfold.evaluation.auto.regions import JUDGED, TRIED, Row, compared, promises, table
from pinfold.evaluation.finished import Run

CHOSEN = "0,8,1,9"


def run_of(seconds: float) -> Run:
    return Run(seconds, CHOSEN, 1.0, [], [], [], {})


def test_all_runs_do_the_same_work_and_the_chosen_placement_counts_as_a_single_one() -> None:
    calls: list[tuple[tuple[str, ...], int]] = []

    def run(words: Sequence[str], repeat: int) -> Run:
        calls.append((tuple(words), repeat))
        if repeat == TRIED:
            return run_of(2.0 if "compact" in words else 4.0)
        by = {"--by-region": 300.0, "--noise": 620.0, CHOSEN: 600.0, "none": 900.0}
        return run_of(next((seconds for word, seconds in by.items() if word in words), 800.0))

    row = compared("e5-4650x4", "target/workloads/phases", run)
    assert row.best == f"{CHOSEN} first_touch"
    assert row.unpinned == pytest.approx(600 / 900)
    assert row.whole == pytest.approx(600 / 620)
    assert row.by_region == pytest.approx(2.0)
    assert {repeat for _, repeat in calls} == {TRIED, JUDGED * TRIED // 2}


def test_what_is_asked_for_is_of_the_program_with_conflicts_and_of_the_slowest() -> None:
    rows = [
        Row("a", "target/workloads/phases --mode threads", "x", 1.0, 1.0, 2.0),
        Row("b", "target/workloads/phases --mode pages", "x", 1.0, 1.0, 0.5),
        Row("a", "target/workloads/cg", "x", 1.0, 1.0, 0.995),
    ]
    apart, least = promises(rows)
    assert (apart.value, apart.held) == (1.0, False)
    assert (least.value, least.held) == (0.5, False)
    assert [promise.held for promise in promises([rows[0], rows[2]])] == [True, True]
    assert table(rows).rows[0][-1] == "2.000"
