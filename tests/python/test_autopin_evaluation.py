"""autopin's evaluation has a size for each machine, and compares gains with the paper's on both sides."""

from typing import Any

import pytest

from pinfold.evaluation.autopin import runs as autopin_runs
from pinfold.evaluation.autopin.runs import LARGE, SMALL, WORKLOADS, arguments, ratio
from pinfold.evaluation.autopin.section import ABOUT, PAPER, SCHEDULES, checks, unexpected

BETWEEN = {"most_over_worst_percent": 60.0, "worst_distance_percent": 2.0, "programs": []}


def with_gain(machine: str, percent: float) -> dict[str, Any]:
    program = {"workload": "stream", "threads": 4, "best": "0,1", "worst": "2,3", "over_worst_percent": percent}
    data: dict[str, Any] = {name: dict(BETWEEN) for name in SCHEDULES}
    data["caneland"]["most_over_worst_percent"] = PAPER["caneland"][1]
    data[machine] |= {"most_over_worst_percent": percent, "programs": [program]}
    return data


def test_each_workload_is_small_or_has_a_size_for_each_machine() -> None:
    assert set(WORKLOADS) == set(SMALL) | set(LARGE)
    assert not set(SMALL) & set(LARGE)


def test_a_large_workload_has_twice_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autopin_runs, "caches", lambda machine: {"one": 16 << 20, "other": 5 << 19}[machine])
    assert arguments("stream", "one")[:2] == ("--size", "32M")
    assert arguments("stream", "other")[:2] == ("--size", "5M")
    assert arguments("barrier", "one") == arguments("barrier", "other")


@pytest.mark.parametrize(("percent", "held"), [(66.0, True), (747.0, False), (2.0, False)])
def test_a_gain_that_is_far_from_the_papers_on_either_side_is_not_held(percent: float, held: bool) -> None:
    found = {check.what: check.holds for check in checks(with_gain("clovertown", percent))}
    assert found["clovertown: greatest gain over the worst pinning"] is held
    assert found["clovertown: greatest distance from the best pinning"]
    assert found["barcelona: greatest gain over the worst pinning"]


def test_only_a_gain_above_the_papers_is_explained() -> None:
    most = ABOUT * PAPER["clovertown"][1]
    assert unexpected(with_gain("clovertown", most)) == ""
    assert "stream with 4 threads on clovertown: 747 % over `2,3`" in unexpected(with_gain("clovertown", 747.0))


def test_a_loss_that_is_too_small_has_no_ratio() -> None:
    assert ratio(1.0, 0.5, 900.0) is None
    assert ratio(9.0, 3.0, 900.0) == pytest.approx(3)
