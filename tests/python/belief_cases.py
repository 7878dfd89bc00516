"""Programs with invented times, for tests of `learn.belief`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from react_cases import write

from pinfold.learn.races import Floats

MACHINE = "two-nodes"

PLACES = [(16, 1, "compact"), (16, 2, "compact"), (32, 2, "compact"), (32, 2, "scatter")]
PAGES = ("first_touch", "locality", "balance")
SETTINGS = ("0000", "0010", "1111")

CONFIGURATIONS = [(*place, pages, prefetch) for place in PLACES for pages in PAGES for prefetch in SETTINGS]
BASELINE = CONFIGURATIONS.index((32, 2, "scatter", "locality", "0000"))


def logs(programs: int, seed: int = 0) -> Floats:
    """Return z of programs of two kinds in all configurations.

    Half of them are three times as fast on one node with balanced pages, and half with all prefetchers off. One trial
    of either shows the kind.
    """
    random = np.random.default_rng(seed)
    made = random.normal(0.1, 0.05, size=(programs, len(CONFIGURATIONS)))
    for program in range(programs):
        for place, (_, nodes, _, pages, prefetch) in enumerate(CONFIGURATIONS):
            if program % 2 and nodes == 1 and pages == "balance":
                made[program, place] -= 1.1
            if not program % 2 and prefetch == "1111":
                made[program, place] -= 1.1
    return made - made[:, [BASELINE]]


def rows(programs: int = 8, machine: str = MACHINE, *, simulated: bool = True, seed: int = 0) -> list[dict[str, Any]]:
    """Return the rows of a data set of such programs."""
    return [
        {
            "machine": machine,
            "program": f"program{program}",
            "region": None,
            "num_threads": threads,
            "num_nodes": nodes,
            "thread_map": order,
            "page_map": pages,
            "prefetch": prefetch,
            "time_s": float(np.exp(made)),
            "simulated": simulated,
            "command": f"program{program}",
            "window_covers": True,
        }
        for program, of_program in enumerate(logs(programs, seed))
        for (threads, nodes, order, pages, prefetch), made in zip(CONFIGURATIONS, of_program, strict=True)
    ]


def data(folder: Path, found: list[dict[str, Any]], name: str = "data.parquet") -> Path:
    """Write rows as a data set."""
    return write(folder / name, found)
