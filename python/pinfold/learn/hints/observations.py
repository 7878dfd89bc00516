"""Observations of programs in placements, from the data set of a sweep, in comparable form.

AutoFinity profiles each program in many affinities (Moore and Childers, 2012, section 2). A row of a data set is one
such observation: the counters, and the performance of the program. Counts are per thread and second, so they are
comparable across numbers of threads (section 3.1).
"""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow
import pyarrow.compute

from pinfold.joined import require_one_unit
from pinfold.learn import tables
from pinfold.learn.cpu_list import cpu_list
from pinfold.learn.hints.llc_domains import LlcDomains, Loads
from pinfold.learn.hints.rule_file import RuleMetric

INSENSITIVE = 0.01
"""A program has no preference if the standard deviation of its times is below this share of their mean (section
3.4)."""

SPEED = "speed"
"""The performance in repetitions per second, 1 / ``time_s``."""


class Program(NamedTuple):
    """A program whose times are comparable: on one machine, with one number of threads."""

    machine: str
    name: str
    """The file name of the program: with other arguments it is the same program."""
    command: str
    """The program with its arguments."""
    threads: int


@dataclass(frozen=True)
class Observation:
    """A program in a placement during a sample period."""

    program: Program
    period: str
    """The part of the program; the same one in each placement. Empty for the whole program."""
    loads: Loads
    """The placement."""
    counters: tuple[float, ...]
    """Values of the metrics, in their units; NaN is missing."""
    performance: float
    """More is better; NaN is missing."""
    seconds: float
    """The time of the whole program in this placement."""
    pinning: tuple[int, ...] = ()
    """The PU of each rank. Pinnings of one placement differ in the order of the ranks."""


#: The columns that identify a row of a data set.
KEY = ("machine", "command", "num_threads", "page_map", "prefetch", "pinning", "region")


def read_table(files: Sequence[Path]) -> pyarrow.Table:
    """Read data sets of ``pinfold sweep`` as one table.

    The table depends on the rows only, not on the order of the files or on the file of a row. A column that a file
    lacks is missing in its rows.

    Args:
        files: Parquet files as docs/formats/data-sets.md describes them.

    Returns:
        The rows in the order of ``KEY``. The schema's metadata has the metrics of all files.

    Raises:
        ValueError: if a file cannot be read as a data set, or a metric has another unit in another file.
    """
    found = [tables.to_learn(file) for file in files]
    require_one_unit([table.schema.metadata or {} for table in found])
    units: dict[str, str] = {}
    for file, table in zip(files, found, strict=True):
        tables.require(file, table, [*KEY, "program", "time_s"], "programs: `pinfold sweep -o` writes one")
        for metric in tables.metrics_of(file, table.schema.metadata):
            unit = units.setdefault(metric["name"], metric["unit"])
            if unit != metric["unit"]:
                raise ValueError(f"{file} has {metric['name']} in {metric['unit']}, another data set in {unit}")
    table = pyarrow.concat_tables(found, promote_options="permissive")
    table = table.select([name for name in table.column_names if name not in units] + sorted(units))
    metrics = [{"name": name, "unit": unit} for name, unit in sorted(units.items())]
    table = table.replace_schema_metadata({b"pinfold.metrics": json.dumps(metrics).encode()})
    return table.sort_by([(column, "ascending") for column in KEY])


def covered(table: pyarrow.Table) -> pyarrow.Table:
    """Leave out the rows whose recorded window does not represent its program.

    Such a window accesses a small part of the program's memory: repeated, it fits the caches, although the program does
    not (docs/formats/data-sets.md: ``window_covers``). Rows without this information stay.

    Raises:
        ValueError: if no row is left; it names the programs.
    """
    if "window_covers" not in table.column_names:
        return table
    left = table.filter(pyarrow.compute.fill_null(table["window_covers"], True))
    if table.num_rows and not left.num_rows:
        programs = ", ".join(sorted(set(table["program"].to_pylist())))
        raise ValueError(
            f"the recorded windows access too little of their programs' memory ({programs}): record longer windows, or "
            "whole runs"
        )
    return left


def read_observations(  # noqa: PLR0913 - each says which rows and columns are meant
    table: pyarrow.Table,
    metrics: Sequence[str],
    machines: Mapping[str, LlcDomains],
    *,
    performance: str = "ipc",
    periods: Literal["program", "region"] = "program",
    page_map: str = "first_touch",
    prefetch: str = "0000",
) -> tuple[list[Observation], list[RuleMetric]]:
    """Read the observations of data sets.

    Args:
        table: the result of ``read_table``.
        metrics: the columns of the behaviour. Rates of the whole program are divided by its threads.
        machines: the domains of the PUs of each machine in the table.
        performance: a column with more for a faster program, or ``speed`` for repetitions per second.
        periods: the sample periods: the whole program, or each of its parallel regions.
        page_map: rows with another page mapping are left out, because the hint concerns threads.
        prefetch: rows with another setting of the prefetchers are left out.

    Returns:
        The observations in the table's order, and the metrics with their units.

    Raises:
        ValueError: if a column or machine is missing, or nothing is left.
    """
    for column in (*metrics, *([] if performance == SPEED else [performance])):
        _require(column, table.column_names)
    if performance == "time_s":
        raise ValueError(f"performance is time_s, of which less is better: use {SPEED!r}, repetitions per second")
    rule_metrics = [_rule_metric(name, table.schema.metadata) for name in metrics]
    rows = table.select(sorted({*KEY, "program", "time_s", *metrics} | ({performance} - {SPEED}))).to_pylist()
    rows = [row for row in rows if row["page_map"] == page_map and row["prefetch"] == prefetch]
    if missing := sorted({row["machine"] for row in rows} - set(machines)):
        raise ValueError(
            f"the data set has machine {missing[0]!r}, whose LLC domains are missing: see `pinfold topo --json`"
        )
    seconds = {_place(row): row["time_s"] for row in rows if row["region"] is None}
    wanted = [row for row in rows if (row["region"] is None) == (periods == "program")]
    if not wanted:
        raise ValueError(
            f"the data set has no {periods} with page_map {page_map!r} and prefetch {prefetch!r}: sweep these"
        )
    observations = [
        Observation(
            program=Program(row["machine"], row["program"], row["command"], row["num_threads"]),
            period=row["region"] or "",
            loads=machines[row["machine"]].loads(_pus(row)),
            counters=tuple(
                _number(row[name]) / (row["num_threads"] if _of_all_threads(name) else 1) for name in metrics
            ),
            performance=_speed(row["time_s"]) if performance == SPEED else _number(row[performance]),
            seconds=seconds[_place(row)],
            pinning=tuple(_pus(row)),
        )
        for row in wanted
    ]
    return observations, rule_metrics


def behaviour_metrics(table: pyarrow.Table) -> list[str]:
    """Return the columns of data sets that can describe behaviour: events and ratios with a value in some row.

    Of events that have equal values in every row of the table, which are one event by several names, the one with the
    shortest name is returned; of equally short names, the first in the alphabet.
    """
    names = [name for name in table.column_names if _normalised(name) and table[name].null_count < table.num_rows]
    seen: dict[bytes, str] = {}
    for name in sorted(names, key=lambda name: (len(name), name)):
        seen.setdefault(np.array(table[name].to_pylist(), dtype=np.float64).tobytes(), name)
    return sorted(seen.values())


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["machine"], row["command"], row["num_threads"], row["pinning"]


def _pus(row: Mapping[str, Any]) -> list[int]:
    """Return the PU of each rank. Ranks that outnumber the PUs use the PUs again from the first."""
    return list(itertools.islice(itertools.cycle(cpu_list(row["pinning"])), row["num_threads"]))


def _speed(seconds: float) -> float:
    return 1 / seconds if seconds else float("nan")


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _require(column: str, columns: Sequence[str]) -> None:
    if column not in columns:
        near = difflib.get_close_matches(column, columns, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(columns)}"
        raise ValueError(f"the data set has no column {column!r}: {hint}")


def _of_all_threads(name: str) -> bool:
    """Return whether a column is a rate of all threads together (docs/formats/data-sets.md)."""
    return name.endswith("_bytes_per_s")


def _normalised(name: str) -> Literal["per_thread_and_second", "ratio"] | None:
    """Return the divisor of a column's counts, or None for a column that does not describe behaviour."""
    if name.startswith("event:") or _of_all_threads(name):
        return "per_thread_and_second"
    return "ratio" if name == "ipc" or name.endswith("_ratio") else None


def _rule_metric(name: str, metadata: Mapping[bytes, bytes]) -> RuleMetric:
    units = {metric["name"]: metric["unit"] for metric in json.loads(metadata[b"pinfold.metrics"])}
    normalised = _normalised(name)
    if normalised is None:
        raise ValueError(
            f"{name!r} does not describe behaviour: metrics are ipc, *_ratio, *_bytes_per_s and event:NAME"
        )
    unit = units[name]
    if _of_all_threads(name):
        unit = unit.replace("per second", "per thread and second")
    return RuleMetric(name, unit, normalised)


def sensitive(observations: Iterable[Observation], least: float = INSENSITIVE) -> list[Observation]:
    """Leave out programs that run equally fast in all placements (section 3.4).

    The standard deviation of their times in all swept placements is less than ``least`` of the mean.
    """
    observations = list(observations)
    times: dict[Program, dict[Loads, list[float]]] = {}
    for one in observations:
        times.setdefault(one.program, {}).setdefault(one.loads, []).append(one.seconds)
    deviations = {}
    for program, of_program in times.items():
        seconds = [float(np.mean(of_placement)) for of_placement in of_program.values()]
        deviations[program] = float(np.std(seconds) / np.mean(seconds))
    return [one for one in observations if deviations[one.program] >= least]


def relative_to_slowest(observations: Iterable[Observation]) -> list[Observation]:
    """Divide each performance by the program's lowest one (section 3.4).

    Raises:
        ValueError: if a performance is not positive: a ratio would have no meaning.
    """
    observations = list(observations)
    least: dict[Program, float] = {}
    for one in observations:
        if one.performance <= 0:
            raise ValueError(f"{one.program} has performance {one.performance} in {one.loads}: it must be positive")
        least[one.program] = float(np.fmin(least.get(one.program, np.nan), one.performance))
    return [replace(one, performance=one.performance / least[one.program]) for one in observations]
