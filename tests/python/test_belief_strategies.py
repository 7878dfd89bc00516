"""The view ``classify`` of a belief, judged on programs in four strategies."""

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from pinfold.evaluation.belief import strategies
from pinfold.learn.belief.data import Times
from pinfold.learn.belief.judging import BELIEF, Judged
from pinfold.learn.classify.strategies import STRATEGIES

SECONDS = {
    "even": (1.0, 1.0, 1.0, 1.0),
    "spread": (2.0, 1.0, 1.6, 1.25),
}
"""By program: the seconds in each strategy. The second one is sensitive."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data set of two programs on a machine with eight cores, and one that does not fill it."""
    rows = [
        {
            "machine": "server", "program": program, "region": region, "num_threads": threads, "num_nodes": 2,
            "thread_map": strategy.threads, "page_map": strategy.pages, "prefetch": "0000", "time_s": seconds,
            "command": program, "simulated": True, "window_covers": True,
        }
        for program, times in SECONDS.items()
        for threads, region in ((8, None), (4, None), (8, "0x10"))
        for strategy, seconds in zip(STRATEGIES, times, strict=True)
    ]  # fmt: skip
    file = tmp_path / "classify.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file


def judged(times: Times, first: int) -> Judged:
    """Return what a way gains that tries the strategy at this position of the points first, and then the others."""
    order = [first, *(place for place in range(len(times.points)) if place != first)]
    gains = np.maximum.accumulate(np.maximum(-times.logs[:, order], 0), axis=1)
    return Judged(times, {BELIEF: gains})


def test_only_whole_programs_that_fill_the_machine_are_judged_and_the_default_is_their_baseline(data: Path) -> None:
    times = strategies.times(data)
    assert [one.program for one in times.regions] == ["even", "spread"]
    default = times.points[times.baselines[0]]
    assert (default.thread_map, default.page_map, default.cores) == ("compact", "first_touch", 1.0)
    assert times.logs.shape == (2, 4)
    assert strategies.sensitive(times).tolist() == [False, True]


def test_speeds_are_over_the_best_strategy(data: Path) -> None:
    times = strategies.times(data)
    (place,) = (number for number, one in enumerate(times.points) if one[3:5] == ("scatter", "first_touch"))
    one = judged(times, place)
    none, first = (strategies.speeds(one, BELIEF, number) for number in (0, 1))
    assert none.worst == pytest.approx(0.5)
    assert none.every == pytest.approx(np.sqrt(0.5))
    assert first.worst == pytest.approx(1 / 1.6)
    assert first.sensitive == pytest.approx(first.worst)
    held = {promise.name.rpartition(", ")[2]: promise.held for promise in strategies.promises(one)}
    assert held == {"all": False, "sensitive": False, "slowest program": False, "least": True}
    assert len(strategies.table(one).rows) == 3
