"""Parallel regions in all configurations of threads, pages and prefetchers, from data sets of ``pinfold sweep``.

The terms are from Sánchez Barrera et al. (ICS 2020). A *configuration* is a number of threads on a number of nodes, a
map of threads, a mapping of pages and a setting of prefetchers (section 2). A *reaction-based counter* is a counter in
a configuration: a feature of the models (section 4.2.1). This is the one place that knows the columns of the data set.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow

from pinfold.joined import METRICS, joined
from pinfold.learn import tables
from pinfold.learn.races import Floats

COUNTER = "likwid:"
"""Columns of the counters of the space ``ics20`` begin with this."""

TIME = "time"
"""The time of a row, in the unit of its data set."""

ALL_ON = "0000"
"""All prefetchers on, as the column ``prefetch`` has it."""

LEAST_PROGRAMS = 3
"""With fewer, nothing can be held out twice: once to choose a model, and once to judge it."""


class Configuration(NamedTuple):
    """The number of threads, their nodes and their map, the mapping of pages, and the setting of prefetchers.

    The texts are the values of the data set's columns. ``thread_map`` is None for a pinning that is neither.
    ``threads_per_core`` is the most threads on one core: 1 also in data sets without that column.
    """

    threads: int
    nodes: int
    thread_map: str | None
    page_map: str
    prefetch: str
    threads_per_core: int = 1

    def text(self) -> str:
        """Describe it in a line."""
        where = f"{self.threads} threads on {self.nodes} node{'s' if self.nodes > 1 else ''}"
        shared = f", {self.threads_per_core} on a core" if self.threads_per_core > 1 else ""
        return f"{where}{shared}, {self.thread_map or 'own map'}, {self.page_map}, prefetchers {self.prefetch}"


@dataclass(frozen=True)
class Regions:
    """Regions in all configurations of a machine.

    Attributes
    ----------
    machine : str
        The machine.
    simulated : bool
        Whether nothing was measured.
    programs : tuple of str
        The program of each region: with other arguments it is the same program.
    names : tuple of tuple of str
        The identity of each region on every machine: the program with its arguments, and the region.
    configurations : tuple of Configuration
        All configurations.
    baseline : int
        The position of the baseline for comparisons: all cores, scatter, locality, all prefetchers on.
    seconds : array of shape (regions, configurations)
        The times. Their unit is that of the data set: only ratios of times of a region are used.
    counters : tuple of str
        The names of the counters.
    values : array of shape (regions, configurations, counters)
        The counters; NaN is missing.
    """

    machine: str
    simulated: bool
    programs: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    configurations: tuple[Configuration, ...]
    baseline: int
    seconds: Floats
    counters: tuple[str, ...]
    values: Floats

    @property
    def gains(self) -> Floats:
        """The logarithms of the speed-ups over the baseline, of shape (regions, configurations)."""
        logs: Floats = np.log(self.seconds[:, [self.baseline]] / self.seconds)
        return logs

    def features(self) -> tuple[npt.NDArray[np.float32], list[tuple[int, int]]]:
        """Return the reaction-based counters that all regions have and that are not the same for all.

        Returns:
            The values, of shape (regions, features), and the configuration and counter of each feature, by position.
        """
        flat = self.values.reshape(len(self.programs), -1).astype(np.float32)
        known = np.isfinite(flat).all(axis=0) & (np.ptp(np.nan_to_num(flat), axis=0) > 0)
        places = [divmod(int(place), len(self.counters)) for place in np.flatnonzero(known)]
        return flat[:, known], places

    def at(self, places: Sequence[int]) -> Regions:
        """Return the regions at these positions."""
        return replace(
            self,
            programs=tuple(self.programs[place] for place in places),
            names=tuple(self.names[place] for place in places),
            seconds=self.seconds[list(places)],
            values=self.values[list(places)],
        )


def matched(one: Regions, other: Regions) -> tuple[Regions, Regions]:
    """Return the regions that were observed on both machines, in the same order.

    Raises:
        ValueError: if there is none.
    """
    there = {name: place for place, name in enumerate(other.names)}
    here = [place for place, name in enumerate(one.names) if name in there]
    if not here:
        raise ValueError(
            f"no region was observed on both {one.machine} and {other.machine}: sweep the same programs on both, "
            "with the same arguments but for the number of threads"
        )
    return one.at(here), other.at([there[one.names[place]] for place in here])


def read(files: Sequence[Path]) -> list[Regions]:
    """Read the regions of data sets, for each machine.

    Rows of whole programs, of unpinned threads, of windows that do not cover their program, of regions that were not
    observed with each number of threads, and of regions that the window does not execute are left out.

    Raises:
        ValueError: if a file lacks columns or rows; the message names it.
    """
    found = [tables.read(file) for file in files]
    needed = ["machine", "program", "region", "num_threads", "num_nodes", "thread_map", "page_map", "prefetch"]
    needed += ["command", "window_covers", "simulated"]
    for file, table in zip(files, found, strict=True):
        tables.require(file, table, needed, "configurations: make one with `pinfold sweep --space ics20`")
        tables.time_column(file, table)
    table = joined(found)
    counters, time = _counters(table), tables.time_column(files[0], table)
    rows = [
        {**row, TIME: row[time]}
        for row in table.select([*needed, time, *_optional(table), *counters]).to_pylist()
        if row["region"] is not None
        and row["num_nodes"] is not None
        and row["window_covers"] is not False
        and row.get("region_complete") is not False
    ]
    idle = {(row["machine"], _name(row)) for row in rows if not row[TIME] or row[TIME] <= 0}
    rows = [row for row in rows if (row["machine"], _name(row)) not in idle]
    if not rows:
        raise ValueError(
            f"{', '.join(map(str, files))}: no row is of a parallel region whose window covers its program; record "
            "programs with OpenMP, or more of them"
        )
    machines = sorted({row["machine"] for row in rows})
    return [_of_machine(machine, [row for row in rows if row["machine"] == machine], counters) for machine in machines]


def _optional(table: pyarrow.Table) -> list[str]:
    names = ("threads_per_core", "joined_command", "region_object", "region_offset", "region_complete", "baseline")
    return [name for name in names if name in table.column_names]


def _counters(table: pyarrow.Table) -> list[str]:
    """Return the columns of counters: LIKWID's, or all metrics if a data set lacks these."""
    likwid = [name for name in table.column_names if name.startswith(COUNTER)]
    metrics = json.loads((table.schema.metadata or {}).get(METRICS, b"[]"))
    return likwid or [metric["name"] for metric in metrics if metric["name"] != "executions"]


def _name(row: dict[str, object]) -> tuple[str, ...]:
    if row.get("region_offset") is not None:
        return str(row["joined_command"]), str(row["region_object"]), str(row["region_offset"])
    return str(row.get("joined_command") or row["command"]), str(row["region"])


def _configuration(row: dict[str, Any]) -> Configuration:
    return Configuration(
        threads=row["num_threads"],
        nodes=row["num_nodes"],
        thread_map=row["thread_map"],
        page_map=row["page_map"],
        prefetch=row["prefetch"],
        threads_per_core=row.get("threads_per_core") or 1,
    )


def _of_machine(machine: str, rows: Sequence[dict[str, object]], counters: Sequence[str]) -> Regions:
    of_region: dict[tuple[str, ...], dict[Configuration, dict[str, object]]] = {}
    for row in rows:
        of_region.setdefault(_name(row), {})[_configuration(row)] = row
    names = sorted(of_region)
    configurations = sorted(
        {one for found in of_region.values() for one in found},
        key=lambda one: (one.threads, one.nodes, one.threads_per_core, *map(str, one[2:5])),
    )
    for name in names:
        if missing := [one for one in configurations if one not in of_region[name]]:
            raise ValueError(
                f"the region {' '.join(name)} on {machine} was not run with {missing[0].text()}: all regions must have "
                "the same configurations; sweep it again with the space of the others"
            )
    ordered = [[of_region[name][one] for one in configurations] for name in names]
    marked = [place for place, one in enumerate(configurations) if all(row[place].get("baseline") for row in ordered)]
    return Regions(
        machine=machine,
        simulated=all(bool(row["simulated"]) for row in rows),
        programs=tuple(str(of_one[0]["program"]) for of_one in ordered),
        names=tuple(names),
        configurations=tuple(configurations),
        baseline=_baseline(machine, configurations, marked),
        seconds=np.array([[row[TIME] for row in of_one] for of_one in ordered], dtype=np.float64),
        counters=tuple(name.removeprefix(COUNTER) for name in counters),
        values=np.array([[[row[name] for name in counters] for row in of_one] for of_one in ordered], dtype=np.float64),
    )


def _baseline(machine: str, configurations: Sequence[Configuration], marked: Sequence[int]) -> int:
    """Return the position of the baseline: what the data marks, or all cores and nodes, scatter, locality, all on."""
    found = [one for one in configurations if one[2:] == ("scatter", "locality", ALL_ON, 1)]
    if len(marked) == 1:
        return marked[0]
    if not found:
        raise ValueError(
            f"no row of {machine} has scattered threads, pages after locality and all prefetchers on, with which the "
            "others are compared: sweep with `--space ics20`"
        )
    return configurations.index(max(found, key=lambda one: (one.threads, one.nodes)))


def require_counters(found: Regions) -> Regions:
    """Return the regions, if they have counters.

    Raises:
        ValueError: if they have none.
    """
    if not found.counters:
        raise ValueError(
            f"the data of {found.machine} has no counters, columns whose names begin with `{COUNTER}`, which a tree "
            "sees: make a data set with `pinfold sweep --space ics20`, or learn a belief, which needs no counters "
            "(`pinfold learn train belief`)"
        )
    return found


def enough(found: Regions) -> Regions:
    """Return the regions, if something can be learned from them.

    Raises:
        ValueError: if there are too few programs.
    """
    programs = len(set(found.programs))
    if programs < LEAST_PROGRAMS:
        raise ValueError(
            f"the data of {found.machine} has regions of {programs} program{'s' if programs > 1 else ''}: at least "
            f"{LEAST_PROGRAMS} are needed, and many more for a model that holds for others"
        )
    return found
