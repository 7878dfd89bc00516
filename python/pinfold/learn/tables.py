"""Reading the tables of data sets, which others may have written, within bounds.

A Parquet file of some megabytes may stand for gigabytes: a value that all rows repeat is stored once. So texts are
read as codes of a dictionary, batch by batch, and are counted at their full length before they are decoded. Only the
columns of docs/formats/data-sets.md and the metrics that the file names are read, and each has to have the
documented type.

Limits: Arrow reserves the memory of one page of a file before its content is known: 2 GiB at most.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from pinfold.joined import METRICS, MODELS

INSTRUMENTATION = (
    *(f"{kind}_{metric}" for kind in ("sharing", "communications") for metric in ("CC", "CB", "CH", "NB", "clusterSD")),
    *("sharing_hop_element", "communications_hop_element"),
    *(
        f"{how}_{of}"
        for of in ("sharing_degree", "write_ratio", "shared_write_ratio", "write_degree")
        for how in ("avg", "sd")
    ),
    *("footprint", "sd_thread_footprint"),
)
"""The metrics of Denoyelle et al. (ICPP 2019, table 2), as ``pinfold trace metrics --paper denoyelle`` names them."""

OBSERVED = "sample:"
"""The prefix of the columns with what ``pinfold run --policy classify:forest`` observes."""

MOST_ROWS = 1 << 22
"""The rows of one file. The sweep of a large machine has some hundred thousand."""

MOST_COLUMNS = 4096
"""The columns of one file. A sweep has some dozens, or some hundreds with the counters of LIKWID."""

MOST_BYTES = 1 << 30
"""The bytes of the rows of one file, with all texts at their full length."""

_ROWS_AT_ONCE = 1 << 14

TEXT, NUMBER, WHOLE_NUMBER, FLAG = "text", "numbers", "whole numbers", "true or false"

KINDS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "machine", "program", "region", "thread_map", "page_map", "prefetch", "pinning", "command", "recording",
            "joined_command", "region_object", "region_offset",
        ),
        TEXT,
    ),
    **dict.fromkeys(("num_threads", "num_nodes", "threads_per_core", "runs"), WHOLE_NUMBER),
    **dict.fromkeys(
        (
            "time_s", "time", "time_error", "spread", "window_bytes", "footprint_bytes", "llc_bytes",
            "unrecorded_wait_share", "simulated_share", "load_of_others", "steal_share", "frequency_hz",
            "thread_share", "core_share", "node_share", "llc_share",
            *INSTRUMENTATION,
        ),
        NUMBER,
    ),
    **dict.fromkeys(("simulated", "window_covers", "region_complete", "baseline", "throttled"), FLAG),
}  # fmt: skip
"""What the columns of a data set have (docs/formats/data-sets.md)."""

TIMES = ("time_s", "time")
"""The columns with times, in seconds and in a unit that is not known. A file has one of them."""

_REQUIRED = frozenset(("machine", "program", "num_threads", "page_map", "prefetch", *TIMES, "command", "simulated"))
"""A file may lack these columns. If it has one, each row has a value."""

_PREFIXES = ("likwid:", OBSERVED)
"""The beginnings of the names of other columns, which have numbers."""


def read(file: Path) -> pyarrow.Table:
    """Read the table of a data set, without columns that nothing here knows.

    The schema has the metadata of the file.

    Raises:
        ValueError: if the file is not Parquet, is larger than the limits, or has a column of another type; the message
            names the file, and the column with the expected and the found type.
    """
    try:
        with pyarrow.parquet.ParquetFile(file, thrift_string_size_limit=1 << 26) as opened:
            _require_small(file, opened.metadata)
            schema = opened.schema_arrow
            kinds = _kinds(file, schema)
        texts = [name for name, kind in kinds.items() if kind == TEXT]
        with pyarrow.parquet.ParquetFile(file, read_dictionary=texts) as opened:
            table = _within(file, opened, list(kinds))
        _require_values(file, table)
        return table.replace_schema_metadata(schema.metadata)
    except (OSError, pyarrow.ArrowException) as error:
        why = str(error).partition("\n")[0]
        raise ValueError(f"{file} cannot be read as a data set: {why}; `pinfold sweep -o` writes one") from error


def metrics_of(file: Path, metadata: Mapping[bytes, bytes] | None) -> list[dict[str, str]]:
    """Return the metrics that the metadata of a data set name: `name` and `unit` of each.

    Raises:
        ValueError: if the metadata name none.
    """
    metrics = _json((metadata or {}).get(METRICS, b"null"))
    known = isinstance(metrics, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("name", "unit")) for one in metrics
    )
    if not known:
        raise ValueError(
            f"{file} does not say which metrics it has (the metadata `{METRICS.decode()}`): it is no data set of "
            "`pinfold sweep`"
        )
    return metrics  # type: ignore[no-any-return]


def require(file: Path, table: pyarrow.Table, columns: Sequence[str], made_by: str) -> None:
    """Check that a table has these columns.

    Raises:
        ValueError: if it lacks one; the message names the file, the column, and `made_by`: the kind of data set, and
            the command that makes one.
    """
    if missing := [name for name in columns if name not in table.column_names]:
        raise ValueError(f"{file} has no column `{missing[0]}`, so it is no data set of {made_by}")


def time_column(file: Path, table: pyarrow.Table) -> str:
    """Return the name of the column with the times.

    Raises:
        ValueError: if the table has none; the message names the file.
    """
    found = [name for name in TIMES if name in table.column_names]
    if not found:
        raise ValueError(f"{file} has no column `{TIMES[0]}`, so it is no data set of `pinfold sweep`")
    return found[0]


def pinned(table: pyarrow.Table) -> pyarrow.Table:
    """Leave out the rows of unpinned threads, which have no placement to learn from."""
    if "pinning" not in table.column_names:
        return table
    return table.filter(pyarrow.compute.is_valid(table["pinning"]))


def to_learn(file: Path) -> pyarrow.Table:
    """Read the rows of a data set that policies learn from: those of pinned threads.

    The times are in the column ``time_s``, even if they have no unit: learners compare the times of one program only.

    Raises:
        ValueError: as :func:`read`.
    """
    table = pinned(read(file))
    seconds, other = TIMES
    if other in table.column_names and seconds not in table.column_names:
        return table.rename_columns([seconds if name == other else name for name in table.column_names])
    return table


def _require_values(file: Path, table: pyarrow.Table) -> None:
    for name in _REQUIRED.intersection(table.column_names):
        if table[name].null_count:
            raise ValueError(f"{file}: the column `{name}` has rows without a value")
    for name, least in (("num_threads", 1), *((time, 0) for time in TIMES)):
        if name in table.column_names and table.num_rows:
            lowest = pyarrow.compute.min(table[name]).as_py()
            finite = pyarrow.compute.all(pyarrow.compute.is_finite(table[name])).as_py()
            if not finite or lowest < least:
                raise ValueError(f"{file}: the column `{name}` has a value that is no number of at least {least}")


def _json(text: bytes) -> Any:
    """Parse a text of the metadata; None if it is invalid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _require_small(file: Path, metadata: pyarrow.parquet.FileMetaData) -> None:
    for number, most, what in (
        (metadata.num_rows, MOST_ROWS, "rows"),
        (metadata.num_columns, MOST_COLUMNS, "columns"),
    ):
        if number > most:
            raise ValueError(f"{file} has {number} {what}, and a data set has at most {most}: split it")
    groups = (metadata.row_group(place) for place in range(metadata.num_row_groups))
    if sum(group.total_byte_size for group in groups) > MOST_BYTES:
        raise _too_large(file)


def _too_large(file: Path) -> ValueError:
    return ValueError(f"{file} has more than {MOST_BYTES >> 20} MiB in memory, the most of a data set: split it")


def _kinds(file: Path, schema: pyarrow.Schema) -> dict[str, str]:
    """Return what each column that is read has to have."""
    metadata = schema.metadata or {}
    if not isinstance(_json(metadata.get(MODELS, b"{}")), dict):
        raise ValueError(f"{file} has no models of machines in its metadata `{MODELS.decode()}`: it was changed")
    metrics = {one["name"] for one in metrics_of(file, metadata)} if METRICS in metadata else set()
    kinds = {}
    for field in schema:
        numbers = field.name in metrics or field.name.startswith(_PREFIXES)
        kind = KINDS.get(field.name) or (NUMBER if numbers else None)
        if kind is None:
            continue
        if field.name in kinds:
            raise ValueError(f"{file} has the column `{field.name}` twice")
        if not _is(field.type, kind):
            raise ValueError(
                f"{file}: the column `{field.name}` has the type {field.type}, and has {kind} in a data set of "
                "`pinfold sweep`"
            )
        kinds[field.name] = kind
    return kinds


def _is(found: pyarrow.DataType, kind: str) -> bool:
    types = pyarrow.types
    if types.is_dictionary(found):
        found = found.value_type
    return bool(
        types.is_null(found)
        or (kind == TEXT and (types.is_string(found) or types.is_large_string(found)))
        or (kind in (NUMBER, WHOLE_NUMBER) and types.is_integer(found))
        or (kind == NUMBER and types.is_floating(found))
        or (kind == FLAG and types.is_boolean(found))
    )


def _within(file: Path, opened: pyarrow.parquet.ParquetFile, columns: Sequence[str]) -> pyarrow.Table:
    """Read these columns, unless they are larger than the limit."""
    batches, size = [], 0
    for batch in opened.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns, use_threads=False):
        size += sum(_bytes(column) for column in batch.columns)
        if size > MOST_BYTES:
            raise _too_large(file)
        plain = [_plain(column) for column in batch.columns]
        batches.append(pyarrow.RecordBatch.from_arrays(plain, names=batch.schema.names))
    if not batches:
        return opened.schema_arrow.empty_table().select(columns)
    return pyarrow.Table.from_batches(batches)


def _bytes(column: pyarrow.Array) -> int:
    """Return the bytes of a column, with texts at their full length."""
    if not pyarrow.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pyarrow.compute.binary_length(column.dictionary).take(column.indices)
    return int(pyarrow.compute.sum(pyarrow.compute.cast(lengths, "int64")).as_py() or 0) + 8 * len(column)


def _plain(column: pyarrow.Array) -> pyarrow.Array:
    return column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column
