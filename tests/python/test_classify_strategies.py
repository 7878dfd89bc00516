"""Programs in the four strategies, and what a data set of them must have."""

from dataclasses import replace

import numpy as np
import pyarrow
import pytest

from pinfold.learn.classify.gate import clearly_best, gate, sensitive_share
from pinfold.learn.classify.strategies import STRATEGIES, Example, examples


def example(program: str, *seconds: float, machine: str = "one", command: str | None = None) -> Example:
    return Example(program, command or program, machine, 24, seconds, {"ipc": 1.0}, covers=True)


def rows(*seconds: float) -> list[dict[str, object]]:
    return [
        {
            "machine": "one",
            "program": "stream",
            "command": "stream --threads 24 --size 64M",
            "num_threads": 24,
            "region": None,
            "thread_map": strategy.threads,
            "page_map": strategy.pages,
            "time_s": time,
            "window_covers": True,
            "ipc": 0.5,
            "L3_MISS_REL": None,
        }
        for strategy, time in zip(STRATEGIES, seconds, strict=False)
    ]


def test_the_default_is_compact_with_first_touch() -> None:
    assert [strategy.short for strategy in STRATEGIES] == ["CF", "CI", "SF", "SI"]


def test_a_row_of_each_strategy_makes_an_example() -> None:
    (found,) = examples(pyarrow.Table.from_pylist(rows(2.0, 1.0, 4.0, 2.0)))
    assert found.speeds == (1.0, 2.0, 0.5, 1.0)
    assert STRATEGIES[found.best].short == "CI"
    assert found.is_sensitive
    assert found.metrics["ipc"] == 0.5
    assert "L3_MISS_REL" not in found.metrics, "missing is not zero"
    assert found.input == ("stream", "stream --size 64M")


def test_a_missing_strategy_is_named() -> None:
    with pytest.raises(ValueError, match="scatter and interleave"):
        examples(pyarrow.Table.from_pylist(rows(2.0, 1.0, 4.0)))


@pytest.mark.parametrize(("slowest", "sensitive"), [(1.0 / 0.91, False), (1.0 / 0.89, True)])
def test_a_program_that_loses_more_than_a_tenth_is_sensitive(slowest: float, sensitive: bool) -> None:
    assert example("a", 1.0, 1.0, 1.0, slowest).is_sensitive == sensitive


def test_the_best_strategy_is_the_fastest() -> None:
    for seconds in np.random.default_rng(0).uniform(0.1, 10, size=(100, 4)):
        one = example("a", *seconds)
        assert one.seconds[one.best] == min(seconds)
        assert clearly_best(one) in (None, one.best)


def passing() -> list[Example]:
    """Forty programs, half of them sensitive, and each strategy the best of some."""
    fast = [
        example(f"sensitive {number}", *(0.5 if number % 4 == place else 1.0 for place in range(4)))
        for number in range(20)
    ]
    return [*fast, *(example(f"insensitive {number}", 1.0, 1.0, 1.0, 1.0) for number in range(20))]


def test_a_data_set_with_all_of_it_passes() -> None:
    assert gate(passing()).is_open


def test_each_condition_closes_the_gate() -> None:
    found = passing()
    few = found[1:]
    uncovered = [replace(found[0], covers=False), *found[1:]]
    same = (1.0, 1.0, 1.0, 1.0)
    insensitive = [one if number < 4 else replace(one, seconds=same) for number, one in enumerate(found)]
    never_scatter = [one for one in found if STRATEGIES[one.best].short != "SI"]
    never_scatter += [example(f"more {number}", 0.5, 1.0, 1.0, 1.0) for number in range(5)]
    for data in (few, uncovered, insensitive, never_scatter):
        failed = [condition.name for condition in gate(data).conditions if not condition.holds]
        assert len(failed) == 1, failed


def test_a_program_with_many_inputs_counts_once() -> None:
    many = [example("a", 1.0, 2.0, 1.0, 1.0, command=f"a {size}") for size in range(9)]
    assert sensitive_share([*many, example("b", 1.0, 1.0, 1.0, 1.0)]) == pytest.approx(0.5)
