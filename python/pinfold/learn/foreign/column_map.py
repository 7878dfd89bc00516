"""Maps of columns: what the columns and values of a foreign table mean (docs/formats/column-maps.md).

A map is TOML. Each column of the data set has a source: a column of the table, perhaps with other names for its values;
a text made of several; or a constant.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SECONDS: Mapping[str, float] = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
"""The units of time, in seconds."""

NO_UNIT = "none"
"""The unit of times that can only be compared within a region, such as cycles of an unknown frequency."""

PAGE_MAPS = ("first_touch", "interleave", "single", "local", "remote", "locality", "balance")
THREAD_MAPS = ("compact", "scatter")

TEXTS = ("machine", "program", "command", "region", "thread_map", "page_map", "prefetch", "pinning")
WHOLE = ("num_threads", "num_nodes", "threads_per_core", "runs")
NUMBERS = ("spread",)

TARGETS = (*TEXTS, *WHOLE, *NUMBERS)
"""The columns of a data set that a map can name, beside the time and metrics."""

NEEDED = ("machine", "program", "num_threads")
"""The columns that have no other source than the map."""

OF_CONFIGURATION = ("num_threads", "num_nodes", "thread_map", "threads_per_core", "page_map", "prefetch", "pinning")
"""The columns of a configuration."""

_MAPS = "maps"

_KEYS = (
    *("about", "layout", "delimiter", "time", "columns", "metrics", "topologies", "wide", "openmp", "skip", "merge"),
    "baseline",
)


@dataclass(frozen=True)
class Source:
    """Where the values of a column come from: exactly one of ``column``, ``text`` and ``constant`` is set.

    Attributes
    ----------
    column : str or None
        A column of the table.
    text : str or None
        A text with names of columns in braces: ``{program} {size}``.
    constant : str or None
        One value for all rows.
    levels : mapping of str to str, or None
        The values of the column, with what they mean. Other values are errors. None: values are taken as they are.
    default : str or None
        The value of empty cells, and of a table without the column. None: both are errors, unless ``optional``.
    optional : bool
        Whether empty cells, and a table without the column, are missing values.
    """

    column: str | None = None
    text: str | None = None
    constant: str | None = None
    levels: Mapping[str, str] | None = None
    default: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class Metric:
    """A column of counters or other metrics."""

    source: Source
    unit: str


@dataclass(frozen=True)
class Skip:
    """Rows that are left out: those with one of these values in a column."""

    column: str
    values: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class OpenMp:
    """The columns with the environment of OpenMP programs."""

    places: Source
    bind: Source


@dataclass(frozen=True)
class Time:
    """The column of times, and their unit: one for all rows, or a column of units."""

    column: str
    unit: Source
    levels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wide:
    """Which columns of a wide table are configurations."""

    pattern: re.Pattern[str] | None
    named: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class ColumnMap:
    """A map.

    Attributes
    ----------
    name : str
        Its file, or its name if pinfold has it.
    about : str
        What tables it is for, in a line.
    delimiter : str
        Between the cells of a line of CSV.
    time : Time
        The times.
    columns : mapping of str to Source
        The source of each column of the data set.
    metrics : mapping of str to Metric
        The source of each metric.
    topologies : mapping of str to str
        By machine, its topology in hwloc's synthetic description.
    wide : Wide or None
        For a wide table.
    openmp : OpenMp or None
        For a table with the variables of OpenMP.
    skips : tuple of Skip
        The rows that are left out.
    merged : tuple of str
        Rows of one configuration that differ in these columns of the table are repeated measurements.
    baseline : mapping of str to str
        What the configuration that others are compared with has in columns of the data set; empty for none.
    """

    name: str
    about: str
    delimiter: str
    time: Time
    columns: Mapping[str, Source]
    metrics: Mapping[str, Metric]
    topologies: Mapping[str, str]
    wide: Wide | None
    openmp: OpenMp | None
    skips: tuple[Skip, ...]
    merged: tuple[str, ...]
    baseline: Mapping[str, str]

    def with_constants(self, constants: Mapping[str, str], topologies: Mapping[str, str]) -> ColumnMap:
        """Return the map with constants instead of the sources of columns, and with further topologies."""
        columns = {**self.columns, **{name: Source(constant=value) for name, value in constants.items()}}
        return replace(self, columns=columns, topologies={**self.topologies, **topologies})


def shipped() -> dict[str, str]:
    """Return the maps that pinfold has, by name, with what they are for."""
    files = resources.files(__package__).joinpath(_MAPS).iterdir()
    names = sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))
    return {name: tomllib.loads(text_of(name)).get("about", "") for name in names}


def text_of(named: str) -> str:
    """Return the text of a map.

    Args:
        named: a file, or the name of a map that pinfold has.

    Raises:
        ValueError: if it cannot be read; the message lists the maps that pinfold has.
    """
    try:
        if "/" not in named and not named.endswith(".toml"):
            return resources.files(__package__).joinpath(_MAPS, f"{named}.toml").read_text(encoding="utf-8")
        return Path(named).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ValueError(
            f"{named} cannot be read as a map of columns: {why}; give a file, or one of {', '.join(_names())}"
        ) from error


def _names() -> list[str]:
    files = resources.files(__package__).joinpath(_MAPS).iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def read(named: str) -> ColumnMap:
    """Read a map.

    Args:
        named: a file, or the name of a map that pinfold has.

    Raises:
        ValueError: if it is invalid; the message names the file, the key, the value, and what is possible.
    """
    text = text_of(named)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{named} is not TOML: {error}") from error
    return _Reader(named).map(document)


class _Reader:
    """Checks the keys of a map; each error names the file and the key."""

    def __init__(self, name: str) -> None:
        self._name = name

    def map(self, document: Mapping[str, Any]) -> ColumnMap:
        self._known(document, "", _KEYS)
        layout = self._text(document, "", "layout", "long", ("long", "wide"))
        if ("wide" in document) != (layout == "wide"):
            raise self._error("wide", 'a map with `layout = "wide"` has this table, and no other map')
        columns = self._table(document, "", "columns")
        if unknown := [name for name in columns if name not in TARGETS]:
            raise self._error(
                f"columns.{unknown[0]}",
                f"a data set has no such column: it has {', '.join(TARGETS)}; others are metrics",
            )
        sources = {name: self._source(f"columns.{name}", value) for name, value in columns.items()}
        return ColumnMap(
            name=self._name,
            about=self._text(document, "", "about", ""),
            delimiter=self._delimiter(document),
            time=self._time(self._table(document, "", "time"), layout),
            columns=sources,
            metrics={name: self._metric(name, one) for name, one in self._table(document, "", "metrics").items()},
            topologies=self._texts("topologies", self._table(document, "", "topologies")),
            wide=self._wide(document["wide"]) if layout == "wide" else None,
            openmp=self._openmp(document["openmp"]) if "openmp" in document else None,
            skips=tuple(self._skip(one) for one in self._list(document, "skip")),
            merged=tuple(map(str, self._list(document, "merge"))),
            baseline=self._baseline(self._table(document, "", "baseline")),
        )

    def _baseline(self, table: Mapping[str, Any]) -> Mapping[str, str]:
        self._known(table, "baseline.", OF_CONFIGURATION)
        return self._texts("baseline", table)

    def _error(self, key: str, what: str) -> ValueError:
        return ValueError(f"{self._name}: `{key}`: {what}")

    def _known(self, table: Mapping[str, Any], where: str, names: Sequence[str]) -> None:
        if unknown := [name for name in table if name not in names]:
            raise self._error(f"{where}{unknown[0]}", f"there is no such key; the keys are {', '.join(names)}")

    def _table(self, document: Mapping[str, Any], where: str, key: str) -> Mapping[str, Any]:
        found = document.get(key, {})
        if not isinstance(found, dict):
            raise self._error(f"{where}{key}", f"{found!r} is no table")
        return found

    def _list(self, document: Mapping[str, Any], key: str) -> Sequence[Any]:
        found = document.get(key, [])
        if not isinstance(found, list):
            raise self._error(key, f"{found!r} is no list")
        return found

    def _text(
        self, document: Mapping[str, Any], where: str, key: str, default: str | None, among: Sequence[str] = ()
    ) -> str:
        found = document.get(key, default)
        if not isinstance(found, str):
            raise self._error(f"{where}{key}", "a text is missing" if found is None else f"{found!r} is no text")
        if among and found not in among:
            raise self._error(f"{where}{key}", f"{found!r} is not one of {', '.join(among)}")
        return found

    def _texts(self, key: str, table: Any) -> Mapping[str, str]:
        if not isinstance(table, dict):
            raise self._error(key, f"{table!r} is no table")
        return {str(name): _plain(value) for name, value in table.items() if self._scalar(f"{key}.{name}", value)}

    def _scalar(self, key: str, value: Any) -> bool:
        if not isinstance(value, str | int | float | bool):
            raise self._error(key, f"{value!r} is no text and no number")
        return True

    def _delimiter(self, document: Mapping[str, Any]) -> str:
        delimiter = self._text(document, "", "delimiter", ",")
        if len(delimiter) != 1:
            raise self._error("delimiter", f"{delimiter!r} is not one character, such as `,`, `;` or a tab (`\\t`)")
        return delimiter

    def _source(self, key: str, value: Any) -> Source:
        if isinstance(value, str):
            return Source(column=value)
        if not isinstance(value, dict):
            raise self._error(key, f"{value!r} is no name of a column and no table")
        self._known(value, f"{key}.", ("column", "text", "constant", "levels", "default", "optional"))
        if sum(one in value for one in ("column", "text", "constant")) != 1:
            raise self._error(key, "it has exactly one of `column`, `text` and `constant`")
        scalars = {
            name: _plain(value[name])
            for name in ("column", "text", "constant", "default")
            if name in value and self._scalar(f"{key}.{name}", value[name])
        }
        levels = self._texts(f"{key}.levels", value["levels"]) if "levels" in value else None
        optional = value.get("optional", False)
        if not isinstance(optional, bool):
            raise self._error(f"{key}.optional", f"{optional!r} is neither true nor false")
        return Source(**scalars, levels=levels, optional=optional)

    def _metric(self, name: str, table: Any) -> Metric:
        key = f"metrics.{name}"
        if not isinstance(table, dict) or "unit" not in table:
            raise self._error(key, 'it is a table such as { column = "...", unit = "1/s" }')
        source = self._source(key, {one: value for one, value in table.items() if one != "unit"})
        return Metric(source, self._text(table, f"{key}.", "unit", None))

    def _time(self, table: Mapping[str, Any], layout: str) -> Time:
        self._known(table, "time.", ("column", "unit"))
        column = self._text(table, "time.", "column", None if layout == "long" else "time")
        unit = table.get("unit")
        if isinstance(unit, str):
            if unit not in (*SECONDS, NO_UNIT):
                raise self._error("time.unit", f"{unit!r} is not one of {', '.join((*SECONDS, NO_UNIT))}")
            return Time(column, Source(constant=unit))
        if isinstance(unit, dict):
            return Time(column, self._source("time.unit", unit))
        raise self._error(
            "time.unit",
            f"it is one of {', '.join((*SECONDS, NO_UNIT))}, or the column that has the units; {NO_UNIT} is for times "
            "that can only be compared within a region",
        )

    def _wide(self, table: Any) -> Wide:
        if not isinstance(table, dict):
            raise self._error("wide", f"{table!r} is no table")
        self._known(table, "wide.", ("pattern", "columns"))
        pattern = self._text(table, "wide.", "pattern", "")
        try:
            compiled = re.compile(pattern) if pattern else None
        except re.error as error:
            raise self._error("wide.pattern", f"{pattern!r} is no regular expression: {error}") from error
        if compiled and not compiled.groupindex:
            raise self._error("wide.pattern", f"{pattern!r} has no group with a name, such as (?P<num_threads>[0-9]+)")
        named = self._table(table, "wide.", "columns")
        if not compiled and not named:
            raise self._error("wide", "it has a `pattern`, or a table `columns` of names")
        return Wide(compiled, {name: self._texts(f"wide.columns.{name}", one) for name, one in named.items()})

    def _openmp(self, table: Any) -> OpenMp:
        if not isinstance(table, dict):
            raise self._error("openmp", f"{table!r} is no table")
        self._known(table, "openmp.", ("places", "bind"))
        if missing := [name for name in ("places", "bind") if name not in table]:
            raise self._error(f"openmp.{missing[0]}", "it is missing: the column of OMP_PLACES or OMP_PROC_BIND")
        return OpenMp(self._source("openmp.places", table["places"]), self._source("openmp.bind", table["bind"]))

    def _skip(self, table: Any) -> Skip:
        if not isinstance(table, dict):
            raise self._error("skip", f"{table!r} is no table")
        self._known(table, "skip.", ("column", "values", "why"))
        values = table.get("values", [])
        if not isinstance(values, list) or not values:
            raise self._error("skip.values", f"{values!r} is no list of values")
        text: Callable[[str], str] = lambda key: self._text(table, "skip.", key, None)  # noqa: E731
        return Skip(text("column"), tuple(map(_plain, values)), text("why"))


def _plain(value: object) -> str:
    """Return a value of TOML as a cell of CSV would have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
