"""Reads foreign tables: CSV, CSV compressed by gzip, and Parquet.

All cells become text, and an empty text is a missing value, because CSV knows nothing else. Each row keeps its place in
the file, so that an error can name it.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet

from pinfold.learn.tables import MOST_BYTES, MOST_COLUMNS, MOST_ROWS

PARQUET, GZIP = b"PAR1", b"\x1f\x8b"
"""The first bytes of Parquet and of gzip."""


@dataclass(frozen=True)
class Foreign:
    """A foreign table, one row a time.

    Attributes
    ----------
    file : Path
        The file.
    columns : mapping of str to sequence of str
        The cells of each column; an empty one is missing.
    places : sequence of str
        The place of each row in the file: ``line 7``, or ``row 7, column x`` of a wide table.
    """

    file: Path
    columns: Mapping[str, Sequence[str]]
    places: Sequence[str]

    def error(self, row: int, what: str) -> ValueError:
        """Return an error that names a row."""
        return ValueError(f"{self.file}, {self.places[row]}: {what}")

    def require(self, column: str, wanted_by: str) -> Sequence[str]:
        """Return the cells of a column.

        Args:
            column: its name.
            wanted_by: the entry of the map that names it.

        Raises:
            ValueError: if there is no such column; it names those that there are.
        """
        if column not in self.columns:
            raise ValueError(
                f"{self.file} has no column `{column}`, which the map names for `{wanted_by}`: its columns are "
                f"{', '.join(self.columns)}; change the map (`--show-map` prints one)"
            )
        return self.columns[column]


def read(file: Path, delimiter: str) -> Foreign:
    """Read a table.

    Args:
        file: CSV, CSV compressed by gzip, or Parquet; the content says which, and not the name.
        delimiter: between the cells of a line of CSV.

    Raises:
        ValueError: if it cannot be read as a table; the message names the file, and the line of CSV.
    """
    try:
        with file.open("rb") as opened:
            begin = opened.read(len(PARQUET))
        if begin == PARQUET:
            return _parquet(file)
        if begin.startswith(GZIP):
            with gzip.open(file, "rt", encoding="utf-8-sig", newline="") as text:
                return _csv(file, text, delimiter)
        with file.open(encoding="utf-8-sig", newline="") as text:
            return _csv(file, text, delimiter)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, pyarrow.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise ValueError(f"{file} cannot be read as a table (CSV, CSV with gzip, or Parquet): {why}") from error


def _csv(file: Path, text: Iterable[str], delimiter: str) -> Foreign:
    lines = csv.reader(text, delimiter=delimiter)
    head = [name.strip() for name in next(lines, [])]
    _require_head(file, head)
    rows: list[list[str]] = []
    places: list[str] = []
    for cells in lines:
        if not any(cells):
            continue
        if len(cells) != len(head):
            raise ValueError(
                f"{file}, line {lines.line_num}: it has {len(cells)} cells, and the first line has {len(head)}: give "
                f"the map the right `delimiter` (now {delimiter!r}), or repair the line"
            )
        rows.append([cell.strip() for cell in cells])
        places.append(f"line {lines.line_num}")
        _require_few(file, len(rows))
    return Foreign(file, {name: [cells[place] for cells in rows] for place, name in enumerate(head)}, places)


def _parquet(file: Path) -> Foreign:
    with pyarrow.parquet.ParquetFile(file) as opened:
        _require_head(file, opened.schema_arrow.names)
        _require_few(file, opened.metadata.num_rows)
        groups = (opened.metadata.row_group(place) for place in range(opened.metadata.num_row_groups))
        if sum(group.total_byte_size for group in groups) > MOST_BYTES:
            raise ValueError(f"{file} has more than {MOST_BYTES >> 20} MiB in memory: split it")
        table = opened.read(use_threads=False)
    columns = {name: [_text(value) for value in table[name].to_pylist()] for name in table.column_names}
    return Foreign(file, columns, [f"row {row + 1}" for row in range(table.num_rows)])


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _require_head(file: Path, head: Sequence[str]) -> None:
    if len(head) > MOST_COLUMNS:
        raise ValueError(f"{file} has {len(head)} columns, and a table has at most {MOST_COLUMNS}: split it")
    if not head or not all(head):
        raise ValueError(f"{file} has no names of columns in its first line: add a line with them")
    if twice := next((name for place, name in enumerate(head) if name in head[:place]), None):
        raise ValueError(f"{file} has the column `{twice}` twice: rename one of them")


def _require_few(file: Path, rows: int) -> None:
    if rows > MOST_ROWS:
        raise ValueError(f"{file} has more than {MOST_ROWS} rows, the most of a data set: split it")


def melted(
    table: Foreign, pattern: re.Pattern[str] | None, named: Mapping[str, Mapping[str, str]], time: str
) -> Foreign:
    """Return a wide table, which has one configuration a column, with one time a row.

    An empty cell is a configuration that was not measured: it has no row.

    Args:
        table: the wide table.
        pattern: a name of a column that matches is a configuration; the groups with names become columns.
        named: further columns that are configurations, each with the cells of these new columns.
        time: the name of the new column of times.

    Raises:
        ValueError: if no column is a configuration, or a new column has the name of an old one.
    """
    configurations = dict(_configurations(table.columns, pattern, named))
    if not configurations:
        wanted = f" matches {pattern.pattern!r} or" if pattern else ""
        raise ValueError(
            f"{table.file} has no column that{wanted} is listed in the map under `wide`: its columns are "
            f"{', '.join(table.columns)}"
        )
    new = [time, *dict.fromkeys(name for values in configurations.values() for name in values)]
    kept = [name for name in table.columns if name not in configurations]
    if taken := [name for name in kept if name in new]:
        raise ValueError(
            f"{table.file} has a column `{taken[0]}`, which the map makes of the names of others: rename it"
        )
    columns: dict[str, list[str]] = {name: [] for name in (*kept, *new)}
    places = []
    for row, place in enumerate(table.places):
        for configuration, values in configurations.items():
            cell = table.columns[configuration][row]
            if not cell:
                continue
            for name in kept:
                columns[name].append(table.columns[name][row])
            for name in new[1:]:
                columns[name].append(values.get(name, ""))
            columns[time].append(cell)
            places.append(f"{place}, column `{configuration}`")
            _require_few(table.file, len(places))
    return Foreign(table.file, columns, places)


def _configurations(
    columns: Iterable[str], pattern: re.Pattern[str] | None, named: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    for column in columns:
        if column in named:
            yield column, named[column]
        elif pattern and (found := pattern.fullmatch(column)):
            yield column, {name: value or "" for name, value in found.groupdict().items()}
