"""Writes imported rows as a data set, in the columns of docs/formats/data-sets.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from pinfold.joined import METRICS, MODELS, SIMULATED, TIME_UNIT, TOPOLOGIES, VERSION
from pinfold.learn.foreign.rows import Imported
from pinfold.learn.tables import TIMES

WRITTEN = 3
"""The version of the data sets."""

ORIGIN = b"pinfold.imported"
"""The metadata that names the foreign table."""

_TEXT, _WHOLE, _NUMBER, _FLAG = pyarrow.string(), pyarrow.int32(), pyarrow.float64(), pyarrow.bool_()
_NUMBERS = pyarrow.list_(pyarrow.field("element", _NUMBER, nullable=False))


def _column(name: str, kind: pyarrow.DataType, *, nullable: bool = False) -> pyarrow.Field:
    return pyarrow.field(name, kind, nullable=nullable)


def _fields(time: str, metrics: Sequence[str]) -> list[pyarrow.Field]:
    return [
        _column("machine", _TEXT),
        _column("program", _TEXT),
        _column("region", _TEXT, nullable=True),
        _column("num_threads", _WHOLE),
        _column("num_nodes", _WHOLE, nullable=True),
        _column("threads_per_core", _WHOLE, nullable=True),
        _column("thread_map", _TEXT, nullable=True),
        _column("page_map", _TEXT),
        _column("prefetch", _TEXT),
        _column(time, _NUMBER),
        _column("pinning", _TEXT, nullable=True),
        _column("simulated", _FLAG),
        _column("command", _TEXT),
        _column("recording", _TEXT, nullable=True),
        *(_column(name, _NUMBER, nullable=True) for name in ("window_bytes", "footprint_bytes", "llc_bytes")),
        _column("window_covers", _FLAG, nullable=True),
        *(_column(name, _NUMBER, nullable=True) for name in ("unrecorded_wait_share", "time_error", "simulated_share")),
        _column("runs", _WHOLE, nullable=True),
        *(
            _column(name, _NUMBER, nullable=True)
            for name in ("spread", "load_of_others", "steal_share", "frequency_hz")
        ),
        _column("throttled", _FLAG, nullable=True),
        *(_column(name, _NUMBERS, nullable=True) for name in ("free_memory_bytes", "node_bytes", "link_bytes")),
        _column("joined_command", _TEXT),
        *(_column(name, _TEXT, nullable=True) for name in ("region_object", "region_offset")),
        _column("region_complete", _FLAG),
        _column("baseline", _FLAG),
        *(_column(name, _NUMBER, nullable=True) for name in metrics),
    ]


def write(
    file: Path,
    found: Imported,
    metrics: Mapping[str, str],
    topologies: Mapping[str, Mapping[str, Any]],
    origin: Mapping[str, str],
) -> None:
    """Write a data set. The same rows give the same bytes.

    Args:
        file: the output.
        found: the rows.
        metrics: the unit of each metric.
        topologies: what describes the topology of each machine.
        origin: names the foreign table.
    """
    time = TIMES[0] if found.unit == "s" else TIMES[1]
    fields = _fields(time, list(metrics))
    # No command of a foreign table has the number of threads in it.
    source = {time: "time", "joined_command": "command"}
    columns = [
        pyarrow.array([row.get(source.get(field.name, field.name)) for row in found.rows], field.type)
        for field in fields
    ]
    metadata = {
        VERSION: str(WRITTEN),
        SIMULATED: "false",
        TIME_UNIT: found.unit,
        MODELS: "{}",
        METRICS: json.dumps([{"name": name, "unit": unit} for name, unit in metrics.items()]),
        TOPOLOGIES: json.dumps(topologies),
        ORIGIN: json.dumps(origin),
    }
    table = pyarrow.Table.from_arrays(columns, schema=pyarrow.schema(fields, metadata))
    pyarrow.parquet.write_table(table, file, compression="zstd")
