"""The whole space: numbers of threads, nodes, siblings, pages and prefetchers, of which each program has a random part.

A program divides the same work among a quarter, a half and all of the cores, and all PUs of cores with siblings.
Threads are on 1, 2, 4 … nodes, on all last-level caches of these that they can share evenly, compact or scattered, a
thread on each core or, but for a quarter of the cores, on siblings. Each has all page maps, and all settings of the
prefetchers that the machine has.

The space has hundreds of configurations, and a simulation of each would cost more than further programs are worth. So
a program has :data:`DRAWN` of them, as many with each number of threads, drawn by its number and that of the machine.
It always has the baseline: a thread on each core of all nodes, scattered, pages after locality, all prefetchers on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from pinfold.evaluation.priors.configurations import (
    ALL_PAGES,
    SCATTER,
    Configuration,
    Placement,
    Spread,
    fits,
    node_counts,
    placement_of,
    pus_of,
)
from pinfold.evaluation.priors.machines import Shape
from pinfold.learn.belief.point import ALL_ON, COMPACT, Point

SEED = 22

CORES = 16
"""The cores of a machine that is cut down."""

DRAWN = 40
"""The configurations of a program on a machine, without the baseline."""

MODELS = (
    "gold-6142x2",
    "e5-4650x4",
    "epyc-9654x2",
    "xeon-8480x2",
    "e5-2680v3x2",
    "gold-6142x2",
    "epyc-7763x2",
    "xeon-8480x2",
    "epyc-9654x2",
    "opteron-6164x4",
    "e5-4650x4",
)
"""The machines in turn: those with siblings more often, and those of two nodes with siblings most often."""

EACH = 2
"""The machines of a program."""

PREFETCHERS = ("dcu_ip", "dcu", "adjacent", "streamer")
"""The prefetchers in the order of the column ``prefetch`` (docs/formats/data-sets.md)."""

LOCALITY = "locality"

ON_ONE_NODE = ("first_touch", LOCALITY, "balance", "local", "remote")
"""The page maps of threads on one node. Others have :data:`~pinfold.evaluation.priors.configurations.ALL_PAGES`."""


def models_of(program: int) -> tuple[str, ...]:
    """Return the machines of a program.

    >>> models_of(0), models_of(5)
    (('gold-6142x2', 'e5-4650x4'), ('e5-4650x4', 'gold-6142x2'))
    """
    return tuple(MODELS[(EACH * program + number) % len(MODELS)] for number in range(EACH))


def thread_counts(shape: Shape) -> list[int]:
    """Return the numbers of threads."""
    cores = shape.all_cores
    return sorted({cores // 4, cores // 2, cores, cores * shape.siblings})


def prefetcher_settings(model: Mapping[str, Any]) -> list[str]:
    """Return the settings of the prefetchers that a machine has, as the column ``prefetch`` names them."""
    present = model["prefetch"]["present"]["names"]
    return ["".join(digits) for digits in product(*("01" if one in present else "0" for one in PREFETCHERS))]


def teams(shape: Shape, threads: int) -> list[Placement]:
    """Return all placements of a number of threads, each once."""
    found: dict[Point, Placement] = {}
    on_cores = {1, shape.siblings} if 4 * threads > shape.all_cores else {1}
    for nodes, on_core in product(node_counts(shape), sorted(on_cores)):
        for order in (COMPACT, SCATTER) if nodes > 1 else (COMPACT,):
            spreads = (Spread(nodes, domains, on_core, order) for domains in range(shape.domains, 0, -1))
            if spread := next((one for one in spreads if fits(shape, threads, one)), None):
                placement = placement_of(shape, pus_of(shape, threads, spread))
                found.setdefault(placement.point, placement)
    return list(found.values())


def space_of(shape: Shape, settings: Sequence[str]) -> list[Configuration]:
    """Return all configurations; the baseline comes first.

    Args:
        shape: the shape of the machine.
        settings: the settings of its prefetchers.
    """
    placements = [one for threads in thread_counts(shape) for one in teams(shape, threads)]
    every = [
        Configuration(placement, page_map, setting)
        for placement in placements
        for page_map in (ON_ONE_NODE if placement.point.nodes * shape.nodes == 1 else ALL_PAGES)
        for setting in settings
    ]
    baseline = next(one for one in every if is_baseline(one))
    return [baseline, *(one for one in every if one != baseline)]


def is_baseline(one: Configuration) -> bool:
    """Return whether a configuration is the baseline."""
    point = one.placement.point
    shares = (point.threads, point.cores, point.nodes)
    return shares == (1, 1, 1) and (point.thread_map, one.page_map, one.prefetch) == (SCATTER, LOCALITY, ALL_ON)


def drawn(shape: Shape, settings: Sequence[str], program: int, machine: int) -> list[Configuration]:
    """Return the configurations of a program on the machine with this place among its own; the baseline comes first."""
    baseline, *others = space_of(shape, settings)
    draw = np.random.default_rng([SEED, program, machine])
    chosen = [baseline]
    of_threads = by_threads(others)
    for configurations in of_threads.values():
        number = min(DRAWN // len(of_threads), len(configurations))
        places = draw.choice(len(configurations), number, replace=False)
        chosen += [configurations[place] for place in sorted(places.tolist())]
    return chosen


def by_threads(configurations: Sequence[Configuration]) -> dict[int, list[Configuration]]:
    """Return configurations by their number of threads, each of which needs a recording."""
    found: dict[int, list[Configuration]] = {}
    for one in configurations:
        found.setdefault(len(one.placement.pus), []).append(one)
    return found
