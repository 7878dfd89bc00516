"""The section on the daemon: what counts as an application's speed, and what is asked for."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pinfold.evaluation.finished import Run
from pinfold.evaluation.sam.fairness import (
    ALONE,
    DAEMON,
    JUDGED,
    KNOWING,
    LINUX,
    Mix,
    Row,
    by_application,
    of_applications,
    promises,
    row,
    tables,
    text,
)
from pinfold.split import APPLICATIONS, part


def run_of(speeds: Sequence[float], comparisons: dict[str, int] | None = None) -> Run:
    return Run(60.0, None, 1.0, [], list(speeds), [], {}, comparisons or {})


def test_processes_of_an_application_count_together_and_threads_are_one_process() -> None:
    assert by_application([2, 1], [1.0, 3.0, 7.0]) == [2.0, 7.0]


def test_each_run_is_compared_with_linux_in_the_same_order() -> None:
    runs = {
        LINUX: [run_of([1.0, 2.0]), run_of([2.0, 1.0])],
        ALONE: [run_of([2.0, 1.0]), run_of([4.0, 2.0])],
        DAEMON: [run_of([2.0, 2.0], {"kept": 1}), run_of([4.0, 1.0], {"kept": 1, "slower": 1})],
        KNOWING: [run_of([4.0, 2.0]), run_of([8.0, 1.0])],
    }
    found = row(Mix("#9", "10 SGD, 10 BSGD", (), (1, 1)), runs)
    assert not found.real
    assert found.slowest == pytest.approx({ALONE: 1.0, DAEMON: 1.0, KNOWING: 1.0})
    assert found.mean == pytest.approx({ALONE: 2**0.5, DAEMON: 2**0.5, KNOWING: 2.0})
    assert found.orders == {ALONE: [0.5, 2.0], DAEMON: [1.0, 1.0], KNOWING: [1.0, 1.0]}
    assert found.outcomes == {DAEMON: {"kept": 2, "slower": 1}, KNOWING: {}}
    speeds, details = tables([found])
    assert speeds.rows == [["#9", "10 SGD, 10 BSGD", "1.414", "1.414", "2.000", "1.000", "1.000", "1.000"]]
    assert details.rows[0][-2:] == ["2 kept, 1 slower", "none"]


def of(means: Sequence[float], slowest: Sequence[float], *, real: bool = False) -> Row:
    mean, least = (dict(zip(JUDGED, values, strict=True)) for values in (means, slowest))
    return Row("#1", "a", real, mean, least, {name: [] for name in JUDGED}, {DAEMON: {}, KNOWING: {}})


def test_the_daemon_must_be_as_fast_as_the_mapper_and_harm_none() -> None:
    assert [promise.held for promise in promises([of([1.1, 1.1, 1.1], [0.5, 0.99, 0.99])])] == [True] * 4
    assert [promise.held for promise in promises([of([1.1, 1.09, 1.08], [0.5, 0.98, 0.98])])] == [False] * 4


def test_real_applications_are_judged_by_themselves_and_said_to_be_missing() -> None:
    paper, real = of([1.1, 1.2, 1.3], [1.0, 1.0, 1.0]), of([1.1, 1.0, 1.3], [1.0, 1.0, 0.9], real=True)
    assert "were not run: `make applications`" in text([paper], 3)
    assert "were not run" not in text([paper, real], 3)
    found = {promise.name: promise.held for promise in promises([paper, real])}
    assert len(found) == 8
    broken = [name for name, held in found.items() if not held]
    assert broken == [
        "real applications, speed of the daemon over SAM's mapper alone, mean",
        "real applications, speed of the daemon that knows programs over Linux, slowest application",
    ]


def test_pairs_of_applications_are_chosen_by_their_names(tmp_path: Path) -> None:
    names = [name for name in sorted(APPLICATIONS) if part(name) == "judged"][:4]
    others = [name for name in sorted(APPLICATIONS) if part(name) != "judged"][:2]
    for name in names + others:
        (tmp_path / name).mkdir()
        for run in ("a-8-x", "b-8-x", "a-4-x"):
            (tmp_path / name / f"{run}.pft").touch()
    (tmp_path / names[3] / "a-8-x.pft").unlink()
    found = of_applications(tmp_path)
    assert [one.applications for one in found] == [
        f"{names[one]}, {names[other]}" for one, other in ((0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3))
    ]
    assert [one.recordings[1].name for one in found[:3]] == ["a-8-x.pft", "a-8-x.pft", "b-8-x.pft"]
    assert all(one.is_real for one in found)
    assert of_applications(tmp_path / "nothing") == []
