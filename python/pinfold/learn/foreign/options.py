"""The arguments of ``pinfold learn import``. This module is quick to import."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pinfold.learn.foreign.column_map import shipped

DESCRIPTION = """\
Make a data set of a table that another tool or another person has measured: CSV, CSV compressed by gzip, or Parquet,
with one row a time or one configuration a column. A map says what its columns and values mean. The rows are measured
ones: policies learn from them, and run on them (`pinfold run --machine data:DATA.parquet`).
"""

EPILOG = """\
These maps are there. Any of them can be printed, copied and changed:

{maps}

  pinfold learn import --columns wide --show-map > my.toml
  pinfold learn import times.csv --columns my.toml -o data.parquet
  pinfold learn import omp.csv --columns openmp --set machine=node7 --topology 'package:2 numa:1 l3:1 core:16 pu:2' \\
      -o data.parquet
  pinfold learn train belief --data data.parquet -o belief.json

docs/formats/column-maps.md has all keys of a map.
"""


def add_import(commands: Any) -> None:
    """Add the command to the parser's commands."""
    width = max(map(len, shipped()))
    maps = "\n".join(f"  {name:{width}}  {about}" for name, about in shipped().items())
    parser: argparse.ArgumentParser = commands.add_parser(
        "import",
        help="make a data set of a foreign table",
        description=DESCRIPTION,
        epilog=EPILOG.format(maps=maps),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors and results")
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="the table: .csv, .csv.gz or .parquet")
    parser.add_argument("--columns", required=True, metavar="MAP.toml|NAME", help="the map of its columns")
    parser.add_argument("--show-map", action="store_true", help="print the map, and import nothing")
    parser.add_argument("-o", "--output", type=Path, metavar="DATA.parquet", help="the data set")
    parser.add_argument(
        "--set",
        type=_assignment,
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="give a column of the data set this value in all rows, whatever the map says; repeat for more",
    )
    parser.add_argument(
        "--topology",
        type=_topology,
        action="append",
        default=[],
        metavar="[MACHINE=]DESCRIPTION",
        help="the topology of a machine: hwloc's synthetic description, or what `pinfold topo --machine` accepts; "
        "repeat for more",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was imported to this file")
    parser.set_defaults(job="foreign.jobs.import_table", data=[], check=check)


def check(asked: argparse.Namespace) -> None:
    """Check the arguments.

    Raises:
        ValueError: if one is missing or impossible.
    """
    if asked.show_map:
        return
    for value, name in ((asked.file, "FILE, the table to import"), (asked.output, "-o DATA.parquet, the data set")):
        if value is None:
            raise ValueError(f"{name}, is missing; see `pinfold learn import --help`")
    with asked.file.open("rb"):
        pass
    if asked.output.exists() and asked.output.samefile(asked.file):
        raise ValueError(f"{asked.output} is the table itself: give -o another name")


def _assignment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"{text} is no assignment: give COLUMN=VALUE, such as machine=node7")
    return name, value


def _topology(text: str) -> tuple[str | None, str]:
    """Split a topology from its machine. A description such as ``pack:2`` may have a ``=`` only behind its colon."""
    name, sign, described = text.partition("=")
    if sign and ":" not in name and " " not in name:
        return name, described
    return None, text
