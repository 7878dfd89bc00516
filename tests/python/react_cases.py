"""Regions with invented times and counters, for tests of `learn.react`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from pinfold.learn.react.data import COUNTER, Configuration, Regions

Kind = Literal["structured", "noise"]

BINARY = Path(os.environ.get("PINFOLD", Path(__file__).parents[2] / "target/release/pinfold"))


@pytest.fixture(autouse=True)
def own_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the binary of this checkout search, whatever is installed."""
    monkeypatch.setenv("PINFOLD", str(BINARY))


def configurations(settings: Sequence[str] = ("0000",)) -> tuple[Configuration, ...]:
    """Return the 18 published placements with some settings of prefetchers."""
    placements: list[tuple[int, int, str | None, str]] = [(8, 1, None, "local"), (8, 1, None, "remote")]
    placements += [
        (threads, nodes, order, pages)
        for threads, nodes in ((16, 2), (32, 4))
        for order in ("compact", "scatter")
        for pages in ("locality", "balance", "interleave", "single")
    ]
    return tuple(Configuration(*placement, setting) for placement in placements for setting in settings)


def regions(  # noqa: PLR0913, PLR0917 - each is a property of the data
    kind: Kind,
    programs: int = 20,
    each: int = 3,
    counters: int = 6,
    settings: Sequence[str] = ("0000",),
    seed: int = 0,
    machine: str = "e5-4650x4",
) -> Regions:
    """Return regions whose counters tell what suits them, or say nothing."""
    random = np.random.default_rng(seed)
    every = configurations(settings)
    number = programs * each
    # Regions of a program are near twins.
    nature = np.repeat(random.uniform(size=(programs, 2)), each, axis=0) + random.normal(0, 0.01, size=(number, 2))
    ideal = random.uniform(size=(len(every), 2))
    baseline = next(place for place, one in enumerate(every) if one == (32, 4, "scatter", "locality", "0000", 1))
    if kind == "structured":
        gains = -2 * ((nature[:, None] - ideal[None]) ** 2).sum(axis=2)
        directions = random.normal(size=(2, len(every) * counters))
        values = nature @ directions + random.normal(0, 0.01, size=(number, len(every) * counters))
    else:
        gains = random.normal(-0.1, 0.4, size=(number, len(every)))
        values = random.normal(size=(number, len(every) * counters))
    gains -= gains[:, [baseline]]
    return Regions(
        machine=machine,
        simulated=True,
        programs=tuple(f"program{place // each}" for place in range(number)),
        names=tuple((f"program{place // each} --threads {{threads}}", "a.out", hex(place)) for place in range(number)),
        configurations=every,
        baseline=baseline,
        seconds=np.exp(-gains),
        counters=tuple(f"counter {place}" for place in range(counters)),
        values=values.reshape(number, len(every), counters),
    )


def rows_of(found: Regions) -> list[dict[str, Any]]:
    """Return the rows that a sweep would write."""
    return [
        {
            "machine": found.machine,
            "program": program,
            "region": f"0x{region}",
            "num_threads": one.threads,
            "num_nodes": one.nodes,
            "thread_map": one.thread_map,
            "page_map": one.page_map,
            "prefetch": one.prefetch,
            "time_s": float(found.seconds[region, place]),
            "simulated": found.simulated,
            "command": f"{program} --threads {one.threads}",
            "window_covers": True,
            "joined_command": name[0],
            "region_object": name[1],
            "region_offset": name[2],
            "region_complete": True,
            **{
                COUNTER + counter: float(value)
                for counter, value in zip(found.counters, found.values[region, place], strict=True)
            },
        }
        for region, (program, name) in enumerate(zip(found.programs, found.names, strict=True))
        for place, one in enumerate(found.configurations)
    ]


def write(file: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as a data set."""
    metadata = {"pinfold.metrics": json.dumps([]), "pinfold.models": "{}"}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows).replace_schema_metadata(metadata), file)
    return file
