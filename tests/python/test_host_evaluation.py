"""Native runs that count in the comparison of a machine with its model."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pinfold.evaluation.simulator import host
from pinfold.evaluation.simulator.host import TRIES, stolen, undisturbed


@pytest.fixture
def steal(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[int]], None]:
    """Return a function that sets the ticks which are stolen during each of the next runs."""

    def set_steal(taken: list[int]) -> None:
        def ticks() -> Iterator[int]:
            total = 100
            for number in taken:
                yield total
                total += number
                yield total

        readings = ticks()
        monkeypatch.setattr(host, "stolen", lambda: next(readings))

    return set_steal


def test_a_run_with_stolen_time_is_repeated(steal: Callable[[list[int]], None]) -> None:
    steal([3, 1, 0, 0])
    times = iter([9.0, 8.0, 5.0, 4.0])
    assert undisturbed(lambda: next(times)) == (5.0, True)


def test_if_all_are_disturbed_the_least_disturbed_counts_and_is_marked(steal: Callable[[list[int]], None]) -> None:
    steal([3, 1, 2, 4, 5])
    times = iter([9.0, 8.0, 5.0, 4.0, 3.0])
    assert TRIES == 5
    assert undisturbed(lambda: next(times)) == (8.0, False)


def test_the_stolen_time_is_that_of_the_kernel() -> None:
    before = stolen()
    assert 0 <= before <= stolen()


def machine(last: int) -> dict[str, Any]:
    """Return what the evaluation reads of a machine with a last-level cache of this size."""
    return {"cache": [{"size": {"value": size}} for size in (48 << 10, 2 << 20, last)]}


def test_sizes_are_inside_the_caches_and_beyond_them() -> None:
    """A size beyond a last-level cache that is too large is left out, and the text says so."""
    assert host.sizes_of("stream", machine(16 << 20), 16 << 20) == ["256k", "6144k", "36864k"]
    assert host.sizes_of("stream", machine(170 << 20), 170 << 20) == ["256k", "10240k"]
    assert host.sizes_of("compute", machine(170 << 20), 170 << 20) == ["64k", "256k", "1M"]
    assert host._left_out(machine(16 << 20), 16 << 20) == ""
    assert "170 MiB" in host._left_out(machine(170 << 20), 170 << 20)
    # Other programs had most of the cache during the calibration.
    assert host.sizes_of("stream", machine(4 << 20), 16 << 20)[-1] == "36864k"


def test_what_is_far_off_is_listed_with_its_explanation_or_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "EXPLANATIONS", {"sort": "a reason"})

    def row(workload: str, apart: float) -> host.Row:
        real = {"one": [2.0], "apart": [1.0]}
        return host.Row(workload, "1M", real, {"one": 2.0, "apart": apart})

    found = host.far_off([row("stream", 1.4), row("sort", 1.6), row("lu", 0.4)])
    assert [(one["workload"], one["setting"], one["explanation"]) for one in found] == [
        ("sort", "apart", "a reason"),
        ("lu", "apart", None),
    ]
    assert [cells[-1] for cells in host.far_table(found).rows] == ["a reason", "**not known**"]
