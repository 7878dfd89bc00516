"""What a race tries beside its fastest configuration."""

from itertools import pairwise

import numpy as np

from pinfold._native import MOST_NEIGHBOURS
from pinfold.learn.react.data import Configuration
from pinfold.learn.react.neighbours import Space

SETTINGS = [f"{number:04b}" for number in range(16)]

CONFIGURATIONS = tuple(
    Configuration(*placement, setting)
    for placement in (
        (4, 1, "compact", "local"),
        *(
            (8, 2, order, pages)
            for order in ("compact", "scatter")
            for pages in ("locality", "balance", "interleave", "single")
        ),
    )
    for setting in SETTINGS
)

SPACE = Space(CONFIGURATIONS)


def place(*of: int | str) -> int:
    return CONFIGURATIONS.index(Configuration(*of))  # type: ignore[arg-type]


def texts(found: list[int]) -> list[str]:
    return [CONFIGURATIONS[one].text() for one in found]


def test_a_neighbour_differs_by_one_choice_in_the_order_of_the_policy() -> None:
    found = SPACE.neighbours(place(8, 2, "compact", "balance", "0100"))
    assert texts(found) == [
        "8 threads on 2 nodes, compact, balance, prefetchers 1100",
        "8 threads on 2 nodes, compact, balance, prefetchers 0000",
        "8 threads on 2 nodes, compact, balance, prefetchers 0110",
        "8 threads on 2 nodes, compact, balance, prefetchers 0101",
        "8 threads on 2 nodes, scatter, balance, prefetchers 0100",
        "4 threads on 1 node, compact, local, prefetchers 0100",
        "8 threads on 2 nodes, compact, locality, prefetchers 0100",
        "8 threads on 2 nodes, compact, interleave, prefetchers 0100",
        "8 threads on 2 nodes, compact, single, prefetchers 0100",
    ]


def test_threads_on_one_node_have_their_pages_there() -> None:
    found = SPACE.neighbours(place(4, 1, "compact", "local", "0100"))
    assert texts(found)[4:] == ["8 threads on 2 nodes, compact, locality, prefetchers 0100"]


def test_a_number_of_threads_per_core_is_a_size_of_its_own() -> None:
    packed = Configuration(8, 2, "compact", "balance", "0100", 2)
    space = Space((*CONFIGURATIONS, packed))
    found = [space.configurations[one] for one in space.neighbours(place(8, 2, "compact", "balance", "0100"))]
    assert packed in found
    assert packed.text() == "8 threads on 2 nodes, 2 on a core, compact, balance, prefetchers 0100"
    near = [space.configurations[one] for one in space.neighbours(len(CONFIGURATIONS))]
    assert Configuration(8, 2, "compact", "balance", "0100") in near


def test_a_neighbour_that_was_not_swept_is_left_out() -> None:
    without_scatter = tuple(one for one in CONFIGURATIONS if one.thread_map != "scatter")
    found = Space(without_scatter).neighbours(without_scatter.index(Configuration(8, 2, "compact", "balance", "0100")))
    assert len(found) == len(SPACE.neighbours(place(8, 2, "compact", "balance", "0100"))) - 1


def test_a_map_of_threads_without_a_name_has_no_neighbours() -> None:
    assert Space((Configuration(8, 2, None, "balance", "0000"), *CONFIGURATIONS)).neighbours(0) == []


def test_a_faster_neighbour_takes_the_place_and_has_neighbours_of_its_own() -> None:
    start, step, best = (place(8, 2, "compact", "balance", setting) for setting in ("0000", "1000", "1100"))
    gains = np.full((2, len(CONFIGURATIONS)), -1.0)
    gains[0, [start, step, best]] = [0.1, 0.2, 0.3]
    assert SPACE.searched(gains, [start]).tolist() == [0.3, 0.0], "the baseline is in each race"
    assert SPACE.searched(gains, [start], most=1)[0] == 0.2
    assert SPACE.searched(gains, [start], most=0)[0] == 0.1


def test_no_more_neighbours_are_tried_than_asked_for() -> None:
    random = np.random.default_rng(0)
    gains = random.uniform(size=(5, len(CONFIGURATIONS)))
    start = place(8, 2, "compact", "balance", "0000")
    reached = [SPACE.searched(gains, [start], most) for most in range(MOST_NEIGHBOURS + 1)]
    assert all((after >= before).all() for before, after in pairwise(reached))
    assert (reached[-1] <= gains.max(axis=1)).all()
