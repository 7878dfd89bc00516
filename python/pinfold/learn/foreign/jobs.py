"""The work of ``pinfold learn import`` after its arguments have been checked."""

from __future__ import annotations

import argparse
import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from pinfold.binary import find_binary
from pinfold.learn.foreign import column_map, data_set, table
from pinfold.learn.foreign.column_map import OF_CONFIGURATION, TARGETS, ColumnMap
from pinfold.learn.foreign.layouts import Layouts, MachineTopology, topology_of
from pinfold.learn.foreign.rows import Imported, rows_of
from pinfold.learn.progress import printer

EXAMPLE = "package:2 numa:1 l3:1 core:16 pu:2"
"""A synthetic description, for messages."""


def import_table(asked: argparse.Namespace) -> None:
    """Make a data set of a foreign table, or print the map of columns."""
    if asked.show_map:
        print(column_map.text_of(asked.columns), end="")
        return
    given = _given(asked)
    topologies = Topologies(given)
    found = rows_of(table.read(asked.file, given.delimiter), given, topologies.layouts)
    digest = hashlib.sha256(asked.file.read_bytes()).hexdigest()
    for row in found.rows:
        row["simulated"] = False
    metrics = {name: metric.unit for name, metric in given.metrics.items()}
    described = {name: one.described for name, one in sorted(topologies.found.items())}
    origin = {"file": asked.file.name, "sha256": digest, "map": Path(given.name).name}
    data_set.write(asked.output, found, metrics, described, origin)
    figures = figures_of(found, asked.output)
    _show(asked, found, figures)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _given(asked: argparse.Namespace) -> ColumnMap:
    """Return the map with what the command line adds."""
    given = column_map.read(asked.columns)
    constants = dict(asked.set)
    if unknown := [name for name in constants if name not in TARGETS]:
        raise ValueError(f"--set {unknown[0]}: a data set has no such column; it has {', '.join(TARGETS)}")
    named = [name for name, _ in asked.topology]
    topologies = {name: described for name, described in asked.topology if name}
    given = given.with_constants(constants, topologies)
    if None in named:
        machine = given.columns.get("machine")
        if machine is None or machine.constant is None:
            raise ValueError(
                "--topology does not say of which machine: give --topology MACHINE=DESCRIPTION, or --set "
                "machine=MACHINE if all rows are of one"
            )
        described = next(described for name, described in asked.topology if not name)
        given = given.with_constants({}, {machine.constant: described})
    return given


class Topologies:
    """The topologies of the machines of a table, each of which pinfold is asked for once."""

    def __init__(self, given: ColumnMap) -> None:
        """Store the map, which has their descriptions."""
        self._described = given.topologies
        self.found: dict[str, MachineTopology] = {}
        self.layouts = lru_cache(maxsize=None)(self._layouts)

    def _layouts(self, machine: str) -> Layouts:
        if machine not in self._described:
            raise ValueError(
                f"the topology of the machine `{machine}` is not known: give --topology '{machine}={EXAMPLE}' (hwloc's "
                "synthetic description, or xml:FILE), or add it to `topologies` in the map"
            )
        self.found[machine] = topology_of(find_binary(), machine, self._described[machine])
        return Layouts(self.found[machine])


def figures_of(found: Imported, output: Path) -> dict[str, Any]:
    """Return what was imported, as ``--json`` has it."""
    rows = found.rows
    return {
        "output": str(output),
        "simulated": False,
        "machines": sorted({row["machine"] for row in rows}),
        "programs": sorted({row["program"] for row in rows}),
        "regions": len({(row["machine"], row["command"], row["region"]) for row in rows}),
        "configurations": len({tuple(row[name] for name in OF_CONFIGURATION) for row in rows}),
        "rows": len(rows),
        "read": found.read,
        "left_out": found.skipped,
        "merged": found.read - sum(found.skipped.values()) - len(rows),
        "unused_columns": list(found.unused),
        "time_unit": found.unit,
    }


def _show(asked: argparse.Namespace, found: Imported, figures: dict[str, Any]) -> None:
    show = printer(asked)
    unit = "seconds" if found.unit == "s" else "no unit: they are compared within a region"
    show(
        f"{asked.output}: {figures['rows']} rows, {figures['regions']} regions or programs in "
        f"{figures['configurations']} configurations on {', '.join(figures['machines'])}; times have {unit}"
    )
    for why, number in found.skipped.items():
        show(f"{number} rows are left out: {why}")
    if figures["merged"]:
        show(f"{figures['merged']} rows were repetitions of others, and are merged with them: times are medians")
    if found.unused:
        show(f"the map does not use the columns {', '.join(found.unused)}")
