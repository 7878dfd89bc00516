"""Models of one machine choose configurations of another, for programs that they have not seen."""

from dataclasses import replace

import numpy as np
import pytest
from react_cases import own_binary, regions

from pinfold.evaluation.react.transfer import corresponding, transferred
from pinfold.learn.react.data import Configuration, Regions
from pinfold.learn.react.method import ALL_PAIRS, MODEL, POSSIBLE, STATIC, Study

__all__ = ["own_binary"]


def of(*configurations: tuple[int, int, str, str]) -> Regions:
    """Return a machine with these configurations."""
    found = regions("noise", programs=3, each=1, counters=1)
    return replace(found, configurations=tuple(Configuration(*one, "0000") for one in configurations))


def test_a_configuration_stands_for_the_one_with_the_same_share_of_cores_and_the_same_maps() -> None:
    four = of((8, 1, "compact", "local"), (16, 2, "compact", "single"), (32, 4, "compact", "single"))
    two = of(
        (12, 1, "compact", "local"),
        (24, 1, "compact", "local"),
        (24, 2, "compact", "single"),
        (48, 2, "compact", "single"),
    )
    assert corresponding(four, two) == [0, 2, 3]
    # Half of the cores do not fit on one of four nodes.
    assert corresponding(two, four) == [0, 0, 1, 2]


def test_a_configuration_without_a_like_one_is_refused() -> None:
    with pytest.raises(ValueError, match="e5-4650x4 has no configuration like 16 threads on 2 nodes, scatter, balance"):
        corresponding(of((16, 2, "scatter", "balance")), of((16, 2, "compact", "balance")))


def test_on_a_twin_machine_a_model_reaches_what_it_reaches_on_its_own() -> None:
    found = regions("structured", programs=8, each=2, counters=2)
    alone = Study.of(found, found).nested(ALL_PAIRS, 0, folds=4)
    there = transferred(found, replace(found, machine="twin"), ALL_PAIRS, 0, folds=4)
    assert all(there.gains[name] == pytest.approx(alone.gains[name]) for name in alone.gains)
    assert there.features == alone.features


def test_a_region_without_the_counters_gets_the_best_single_configuration() -> None:
    found = regions("structured", programs=8, each=2, counters=2)
    unseen = replace(found, values=np.full_like(found.values, np.nan))
    there = transferred(found, unseen, ALL_PAIRS, 0, folds=4)
    assert (there.gains[MODEL] == there.gains[STATIC]).all()
    assert (there.gains[MODEL] <= there.gains[POSSIBLE]).all()
