"""Makes rows of a data set from a foreign table and a map of its columns.

1. A wide table becomes one row a time.
2. Rows that the map leaves out go.
3. Each cell becomes the value that the map says, and is checked. Times become seconds, unless they have no unit.
4. The layout of the threads is completed by the topology of the machine.
5. Rows of one configuration are merged if the map says that they are repetitions; otherwise they are an error.
6. Rows of the baseline are marked, and the regions that have all numbers of threads.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pinfold.learn.cpu_list import cpu_list, cpu_list_of
from pinfold.learn.foreign.column_map import (
    NEEDED,
    NO_UNIT,
    OF_CONFIGURATION,
    PAGE_MAPS,
    SECONDS,
    THREAD_MAPS,
    WHOLE,
    ColumnMap,
    Source,
)
from pinfold.learn.foreign.layouts import Layout, Layouts
from pinfold.learn.foreign.table import Foreign, melted

Row = dict[str, Any]

KEY = ("machine", "command", "region", *OF_CONFIGURATION)
"""The columns that tell rows apart."""

DEFAULTS: Mapping[str, str] = {"page_map": "first_touch", "prefetch": "0000"}
"""Values of columns that a map does not name: what a machine does by default."""

UNPINNED = "unpinned"
"""The pinning of threads that the operating system places."""

MOST = 1 << 20
"""The largest number of threads, nodes or runs."""

_REFERENCE = re.compile(r"\{([^{}]+)\}")
_ROBUST = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""


@dataclass
class Imported:
    """The rows of a data set, and what became of the rows of the table.

    Attributes
    ----------
    rows : list of dict
        The rows, with ``time`` in the unit.
    unit : str
        ``s``, or ``none``.
    read : int
        The number of times in the table.
    skipped : dict of str to int
        How many rows were left out, by reason.
    unused : tuple of str
        The columns of the table that the map does not use.
    """

    rows: list[Row]
    unit: str
    read: int
    skipped: dict[str, int] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


def rows_of(table: Foreign, given: ColumnMap, layouts: Callable[[str], Layouts]) -> Imported:
    """Return the rows of a data set.

    Args:
        table: the foreign table.
        given: the map of its columns.
        layouts: returns the layouts of a machine.

    Raises:
        ValueError: if a cell cannot be understood; the message names the file, the line or row, the value and the
            remedy.
    """
    head = set(table.columns)
    if given.wide:
        table = melted(table, given.wide.pattern, given.wide.named, given.time.column)
    kept, skipped = _kept(table, given)
    columns = _Columns(table, given)
    made = [columns.row(place, layouts) for place in kept]
    if not made:
        raise ValueError(f"{table.file} has no rows{' but those that are left out' if skipped else ''}")
    unit = columns.unit()
    unused = tuple(name for name in table.columns if name in head and name not in columns.used)
    rows = _distinct(table, given, dict(zip(kept, made, strict=True)), unused)
    _mark(table, given, rows)
    return Imported(rows, unit, len(table.places), skipped, unused)


def _kept(table: Foreign, given: ColumnMap) -> tuple[list[int], dict[str, int]]:
    """Return the rows that are not left out, and the number of the others by reason."""
    skipped: dict[str, int] = {}
    left = dict.fromkeys(range(len(table.places)))
    for skip in given.skips:
        if skip.column not in table.columns:
            continue
        found = [row for row in left if table.columns[skip.column][row] in skip.values]
        for row in found:
            del left[row]
        if found:
            skipped[f"{skip.column} is {' or '.join(skip.values)}: {skip.why}"] = len(found)
    return list(left), skipped


class _Columns:
    """The sources of a map, on a table."""

    def __init__(self, table: Foreign, given: ColumnMap) -> None:
        self._table = table
        self._given = given
        self._sources = {**{name: Source(constant=value) for name, value in DEFAULTS.items()}, **given.columns}
        self._units: dict[str, int] = {}
        self.used = {given.time.column, *given.merged, *(skip.column for skip in given.skips)}
        self._time = table.require(given.time.column, "time.column")
        self._require_merged()

    def _require_merged(self) -> None:
        for name in self._given.merged:
            self._table.require(name, "merge")

    def row(self, place: int, layouts: Callable[[str], Layouts]) -> Row:
        """Return a row of the data set."""
        row: Row = {name: self._value(name, source, place) for name, source in self._sources.items()}
        for name in NEEDED:
            if row.get(name) is None:
                raise self._table.error(
                    place, f"the map `{self._given.name}` gives no `{name}`: add its column, or --set {name}=VALUE"
                )
        row = {"command": None, "region": None, "spread": None, "runs": None, **row}
        row["command"] = row["command"] or row["program"]
        row["time"] = self._seconds(place)
        row |= self._layout(place, row, layouts(row["machine"]))
        for name, metric in self._given.metrics.items():
            row[name] = self._number(name, self._cell(f"metrics.{name}", metric.source, place), place)
        return row

    def _cell(self, key: str, source: Source, place: int) -> str | None:
        """Return the text of a source in a row; None if it is missing, and may be."""
        if source.constant is not None:
            return source.constant
        if source.text is not None:
            return _REFERENCE.sub(lambda found: self._plain(key, found[1], place), source.text)
        column = str(source.column)
        if column not in self._table.columns and (source.optional or source.default is not None):
            return source.default
        cell = self._plain(key, column, place)
        if not cell:
            if source.optional or source.default is not None:
                return source.default
            raise self._table.error(place, f"the column `{column}` is empty: fill it, or give `{key}` a `default`")
        if source.levels is None:
            return cell
        if cell not in source.levels:
            known = ", ".join(source.levels)
            raise self._table.error(
                place,
                f"`{column}` is {cell!r}, which the map `{self._given.name}` does not know for `{key}`: it knows "
                f"{known}; add it to `{key}.levels`, or leave such rows out with [[skip]]",
            )
        return source.levels[cell]

    def _plain(self, key: str, column: str, place: int) -> str:
        self.used.add(column)
        return self._table.require(column, key)[place]

    def _value(self, name: str, source: Source, place: int) -> str | int | float | None:
        cell = self._cell(f"columns.{name}", source, place)
        if cell is None:
            return None
        if name in WHOLE:
            # Tables that Python wrote often have whole numbers as 32.0.
            digits = cell.removesuffix(".0")
            if not (re.fullmatch("[0-9]{1,7}", digits) and 0 < int(digits) <= MOST):
                raise self._table.error(place, f"`{name}` is {cell!r}: it must be a whole number from 1 to {MOST}")
            return int(digits)
        if name == "spread":
            found = self._number(name, cell, place)
            if found is not None and found < 0:
                raise self._table.error(place, f"`{name}` is {cell}: it must be a number of 0 or more")
            return found
        if name == "page_map" and cell not in PAGE_MAPS:
            raise self._table.error(
                place, f"`{name}` is {cell!r}: it must be one of {', '.join(PAGE_MAPS)}; add {cell!r} to its `levels`"
            )
        if name == "prefetch" and not re.fullmatch("[01]{4}", cell):
            raise self._table.error(
                place,
                f"`{name}` is {cell!r}: it must be four digits, 1 is off: DCU IP, DCU, L2 adjacent line, L2 streamer "
                "(a column of numbers loses zeros in front: write it as text)",
            )
        return cell

    def _number(self, name: str, cell: str | None, place: int) -> float | None:
        if cell is None:
            return None
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._table.error(place, f"`{name}` is {cell!r}: it must be a finite number")
        return value

    def _seconds(self, place: int) -> float:
        """Return a time, in seconds if it has a unit."""
        cell = self._time[place]
        value = self._number(self._given.time.column, cell, place)
        if value is None or value <= 0:
            raise self._table.error(
                place,
                f"the time is {cell!r}: it must be a number above 0; leave failed runs out with [[skip]]",
            )
        unit = self._cell("time.unit", self._given.time.unit, place) or ""
        if unit not in SECONDS and unit != NO_UNIT:
            raise self._table.error(
                place, f"the unit of the time is {unit!r}: it must be one of {', '.join((*SECONDS, NO_UNIT))}"
            )
        first = self._units.setdefault(unit, place)
        if NO_UNIT in self._units and len(self._units) > 1:
            other = next(place for name, place in self._units.items() if name != unit)
            raise self._table.error(
                first,
                f"the unit of the time is {unit}, and in {self._table.places[other]} it is another one: times without "
                "a unit cannot stand beside times in seconds; import them as two data sets",
            )
        return value * SECONDS.get(unit, 1.0)

    def unit(self) -> str:
        """Return the unit of all times."""
        return NO_UNIT if NO_UNIT in self._units else "s"

    def _layout(self, place: int, row: Row, on: Layouts) -> Row:
        """Return the columns of a row's layout, which one of three forms gives; nulls if threads are not pinned."""
        try:
            found = self._found_layout(place, row, on)
        except ValueError as error:
            raise self._table.error(place, str(error)) from error
        if found is None:
            return dict.fromkeys(("num_nodes", "thread_map", "threads_per_core", "pinning"))
        if row.get("num_nodes") not in (None, found.nodes):
            raise self._table.error(
                place,
                f"`num_nodes` is {row['num_nodes']}, and these PUs of {on.machine.name} are on {found.nodes}: check "
                "the topology, or leave the column out of the map",
            )
        return {
            "num_nodes": found.nodes,
            "thread_map": found.thread_map,
            "threads_per_core": found.threads_per_core,
            "pinning": cpu_list_of(found.pus),
        }

    def _found_layout(self, place: int, row: Row, on: Layouts) -> Layout | None:
        """Return the layout of a row's threads; None if they are not pinned.

        Raises:
            ValueError: if the row does not say where they are, or the machine has no such place.
        """
        threads, nodes, thread_map = row["num_threads"], row.get("num_nodes"), row.get("thread_map")
        pinning = row.get("pinning")
        if pinning not in (None, UNPINNED):
            return on.pinned(_ranks(pinning, threads))
        if self._given.openmp:
            bind = self._cell("openmp.bind", self._given.openmp.bind, place) or "false"
            places = self._cell("openmp.places", self._given.openmp.places, place) or "cores"
            return None if bind.strip().lower() == "false" else on.bound(threads, places, bind)
        # On one node both maps are the same.
        if nodes == 1 and thread_map is None:
            thread_map = THREAD_MAPS[0]
        if nodes is not None and thread_map is not None:
            return on.mapped(threads, nodes, thread_map, row.get("threads_per_core") or 1)
        if pinning == UNPINNED and nodes is None and thread_map is None:
            return None
        missing = "num_nodes" if nodes is None else "thread_map"
        raise ValueError(
            f"the map `{self._given.name}` does not say where the threads are, there is no `{missing}`: add num_nodes "
            f"and thread_map, or pinning, or the table `openmp`; or give --set {missing}=VALUE, or --set "
            f"pinning={UNPINNED} if the system placed the threads"
        )


def _ranks(pinning: str, threads: int) -> tuple[int, ...]:
    """Return the PU of each rank. Ranks beyond the last PU start again at the first."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", pinning, re.ASCII):
        raise ValueError(f"`pinning` is {pinning!r}: it must be a list of PUs, such as 0,1,6-9, or {UNPINNED}")
    pus = cpu_list(pinning)
    return tuple(pus[rank % len(pus)] for rank in range(threads))


def _distinct(table: Foreign, given: ColumnMap, rows: Mapping[int, Row], unused: Sequence[str]) -> list[Row]:
    """Return one row for each configuration, in an order of their own.

    Raises:
        ValueError: if a configuration has several rows, and the map does not say that they are repetitions.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, row in rows.items():
        groups.setdefault(tuple(row[name] for name in KEY), []).append(place)
    for places in groups.values():
        apart: dict[tuple[str, ...], int] = {}
        for place in places:
            first = apart.setdefault(tuple(table.columns[name][place] for name in given.merged), place)
            if first != place:
                raise table.error(place, _twice(table, first, place, unused))
    merged = [_merged([rows[place] for place in places]) for places in groups.values()]
    return sorted(merged, key=lambda row: tuple((row[name] is not None, row[name]) for name in KEY))


def _mark(table: Foreign, given: ColumnMap, rows: Sequence[Row]) -> None:
    """Mark the rows of the baseline, and of regions with all numbers of threads of the machine.

    Raises:
        ValueError: if no row is the baseline.
    """
    of_machine: dict[str, set[int]] = {}
    of_region: dict[tuple[str, ...], set[int]] = {}
    for row in rows:
        region = (row["machine"], row["command"], row["region"])
        of_machine.setdefault(row["machine"], set()).add(row["num_threads"])
        of_region.setdefault(region, set()).add(row["num_threads"])
    for row in rows:
        region = (row["machine"], row["command"], row["region"])
        row["region_complete"] = of_region[region] == of_machine[row["machine"]]
        row["baseline"] = bool(given.baseline) and all(
            str(row[name]) == value for name, value in given.baseline.items()
        )
    if given.baseline and not any(row["baseline"] for row in rows):
        wanted = ", ".join(f"{name} {value}" for name, value in given.baseline.items())
        raise ValueError(
            f"{table.file} has no row of the baseline of the map `{given.name}`: {wanted}; change `baseline`"
        )


def _twice(table: Foreign, first: int, second: int, unused: Sequence[str]) -> str:
    different = [name for name in unused if table.columns[name][first] != table.columns[name][second]]
    remedy = (
        f"they differ in {', '.join(f'`{name}`' for name in different)}: use it in the map (such as in `command`), or "
        "list it under `merge` if it is without effect"
        if different
        else "remove one of them"
    )
    return f"the same configuration is in {table.places[first]}; {remedy}"


def _merged(rows: Sequence[Row]) -> Row:
    """Return the row of repeated measurements of one configuration.

    Its time is the median. Its spread is the greatest of theirs and of their times' own. Metrics are means.
    """
    if len(rows) == 1:
        return rows[0]
    times = [row["time"] for row in rows]
    median = statistics.median(times)
    between = _ROBUST * statistics.median(abs(time - median) for time in times) / median
    runs = [row["runs"] for row in rows]
    found = dict(rows[0])
    for name in found.keys() - set((*KEY, "program", "time", "spread", "runs")):
        values = [row[name] for row in rows if row[name] is not None]
        found[name] = statistics.fmean(values) if values else None
    found["time"] = median
    found["spread"] = max([between, *(row["spread"] for row in rows if row["spread"] is not None)])
    found["runs"] = None if None in runs else sum(runs)
    return found
