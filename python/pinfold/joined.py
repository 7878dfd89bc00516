"""Joins data sets of ``pinfold sweep``, whose metrics and machines may differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow

METRICS, MODELS, TOPOLOGIES = b"pinfold.metrics", b"pinfold.models", b"pinfold.topologies"
VERSION, SIMULATED, TIME_UNIT = b"pinfold.dataset", b"pinfold.simulated", b"pinfold.time_unit"

SECONDS = b"s"
"""The unit of times. Data sets of version 2 have no other one, and do not name it."""


def joined(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """Return the rows of all tables.

    A column that a table does not have is null in its rows. The metadata lists the metrics, the models and the
    topologies of all tables. The version is the highest one, and rows are simulated if those of one table are.
    Everything else in it comes from the first table.

    Args:
        tables: one or more, with the metadata that docs/formats/data-sets.md describes.

    Raises:
        ValueError: if the times of the tables have different units.
    """
    found = [table.schema.metadata or {} for table in tables]
    require_one_unit(found)
    metadata = dict(found[0])
    if versions := [int(one[VERSION]) for one in found if VERSION in one]:
        metadata[VERSION] = str(max(versions)).encode()
    if simulated := [one[SIMULATED] for one in found if SIMULATED in one]:
        metadata[SIMULATED] = b"true" if b"true" in simulated else b"false"
    if METRICS in metadata:
        units = {metric["name"]: metric["unit"] for one in found for metric in json.loads(one.get(METRICS, b"[]"))}
        metadata[METRICS] = _text([{"name": name, "unit": unit} for name, unit in units.items()])
    for key in (MODELS, TOPOLOGIES):
        if any(key in one for one in found):
            of_machines = {name: value for one in found for name, value in json.loads(one.get(key, b"{}")).items()}
            metadata[key] = _text(of_machines)
    return pyarrow.concat_tables(tables, promote_options="permissive").replace_schema_metadata(metadata)


def require_one_unit(metadata: Sequence[Mapping[bytes, bytes]]) -> None:
    """Check that the times of data sets have the same unit.

    Args:
        metadata: the metadata of each data set.

    Raises:
        ValueError: if they have different ones.
    """
    units = {one.get(TIME_UNIT, SECONDS) for one in metadata}
    if len(units) > 1:
        named = " and ".join(sorted(unit.decode(errors="replace") for unit in units))
        raise ValueError(f"the times of the data sets have different units ({named}): use those of one unit")


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()
