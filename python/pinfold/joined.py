"""Joins data sets of ``pinfold sweep``, whose metrics and machines may differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow

METRICS, MODELS = b"pinfold.metrics", b"pinfold.models"


def joined(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """Return the rows of all tables.

    A column that a table does not have is null in its rows. The metadata lists the metrics and the models of all
    tables. Everything else in it comes from the first table.

    Args:
        tables: one or more, with the metadata that docs/formats/data-sets.md describes.
    """
    found = [table.schema.metadata or {} for table in tables]
    metadata = dict(found[0])
    if METRICS in metadata:
        units = {metric["name"]: metric["unit"] for one in found for metric in json.loads(one.get(METRICS, b"[]"))}
        metadata[METRICS] = _text([{"name": name, "unit": unit} for name, unit in units.items()])
    if MODELS in metadata:
        metadata[MODELS] = _text(
            {name: model for one in found for name, model in json.loads(one.get(MODELS, b"{}")).items()}
        )
    return pyarrow.concat_tables(tables, promote_options="permissive").replace_schema_metadata(metadata)


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()
