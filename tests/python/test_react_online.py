"""What ``react`` reaches online is compared with the best configuration of the same sweep, with all costs."""

from typing import Any

import pytest

from pinfold.evaluation.react.online import (
    LEAST,
    MODES,
    baseline,
    compared,
    data,
    online_table,
    promises,
    threads_table,
    workload,
)

ALL = (32, 4, "scatter", "locality", "0000")
FEW = (8, 1, "compact", "local", "0000")

#: Seconds of the whole program and of its regions, by their offsets, in two configurations. Regions are at other
#: addresses in a recording with another number of threads.
TIMES: dict[tuple[int, int, str, str, str], dict[str | None, float]] = {
    ALL: {None: 10.0, "0x10": 2.0, "0x20": 7.0},
    FEW: {None: 8.0, "0x10": 5.0, "0x20": 2.0},
}


def rows() -> list[dict[str, Any]]:
    """Return the rows of a sweep."""
    names = ("num_threads", "num_nodes", "thread_map", "page_map", "prefetch")
    return [
        {
            **dict(zip(names, configuration, strict=True)),
            "region": offset and f"0x40000{configuration[0]}{offset[2:]}",
            "region_offset": offset,
            "region_complete": True,
            "baseline": configuration == ALL,
            "executions": 4.0,
            "time_s": seconds,
        }
        for configuration, times in TIMES.items()
        for offset, seconds in times.items()
    ]


def run(ran: float) -> dict[str, Any]:
    """Return the record of a run of ten repetitions, in which one region got eight threads."""
    choices = [
        {"region": 0x400003210, "after": None, "threads": None},
        {"region": 0x400003220, "after": 0.6, "threads": 8},
    ]
    return {"ran": ran, "simulation": {"repetitions": 10.0}, "regions": {"choices": choices}}


def test_online_has_all_costs_and_offline_is_the_best_configuration_of_the_whole_program() -> None:
    found = compared(rows(), run(ran=82.0), "e5-4650x4", "target/workloads/phases --mode pages")
    assert (found.baseline, found.offline, found.online) == (100.0, 80.0, 82.0)
    assert found.best.startswith("8, 1, compact, local")
    # One second is outside of the regions, and each has two seconds in its own best configuration.
    assert found.apart == pytest.approx(50.0)
    assert found.share == pytest.approx(80 / 82)
    (held,) = promises([found])
    assert (held.value, held.held) == (round(80 / 82, 4), LEAST <= 80 / 82)


def test_regions_are_found_by_their_addresses_and_compared_with_the_best_configuration_of_the_whole() -> None:
    found = compared(rows(), run(ran=82.0), "e5-4650x4", "phases")
    contended, streaming = found.regions
    assert (contended.baseline, contended.whole, contended.own) == (7.0, 2.0, 2.0)
    assert contended.threads == 8
    assert contended.online == pytest.approx(2.4)
    assert (streaming.whole, streaming.own, streaming.online, streaming.threads) == (5.0, 2.0, None, None)
    (row,) = threads_table([found]).rows
    assert row[2:] == ["8", "0.83", "1.00"]
    assert online_table([found]).rows[0][-1] == "0.976"
    assert data([found])[0]["simulated"] is True


def test_a_run_that_configured_nothing_is_compared_too_and_without_runs_nothing_was_measured() -> None:
    found = compared(rows(), {**run(ran=101.0), "regions": None}, "e5-4650x4", "phases")
    assert all(one.online is None for one in found.regions)
    assert not threads_table([found]).rows
    (nothing,) = promises([])
    assert (nothing.value, nothing.held) == (None, None)


def test_the_baseline_is_of_the_whole_program_and_each_mode_has_a_program() -> None:
    assert baseline(rows())["time_s"] == 10.0
    assert {workload(mode, quick).program for mode in MODES for quick in (True, False)} == {"phases"}
