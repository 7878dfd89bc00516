"""The comparison of sampled with whole simulation."""

import pytest

from pinfold.evaluation.simulator.sampling import PROGRAMS, Pair, Window, figures, paired


def row(time: float, error: float | None, share: float) -> dict[str, object]:
    return {"region": None, "time_s": time, "time_error": error, "simulated_share": share}


def test_there_are_twenty_windows() -> None:
    assert sum(len(threads) for _, threads in PROGRAMS) == 20


def test_an_interval_holds_if_it_has_the_time_of_the_whole_simulation() -> None:
    assert Pair("w", 1.00, 1.04, 0.05, 0.1).held
    assert not Pair("w", 1.00, 1.10, 0.05, 0.1).held
    assert not Pair("w", 1.00, 1.00, None, 0.1).held


def test_rows_that_were_simulated_as_a_whole_are_not_compared() -> None:
    whole = [row(1.0, 0.0, 1.0), row(2.0, 0.0, 1.0)]
    sampled = [row(1.1, 0.2, 0.01), row(2.0, 0.0, 1.0)]
    (pair,) = paired("w", whole, sampled)
    assert pair.error == pytest.approx(0.1)


def test_the_figures_of_no_window_are_missing() -> None:
    assert figures([])["sampling_coverage"] is None


def test_the_coverage_is_the_share_of_intervals_that_hold() -> None:
    pairs = [Pair("w", 1.0, 1.01, 0.02, 0.1)] * 3 + [Pair("w", 1.0, 1.5, 0.02, 0.1)]
    found = figures([Window(pairs, 10, 1.0, 0.1)])
    assert found["sampling_coverage"] == 0.75
    assert found["sampling_median_error_percent"] == pytest.approx(1.0)
