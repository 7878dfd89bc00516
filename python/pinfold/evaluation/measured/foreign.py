"""The measured table: where it is, and its regions.

The table is not a part of the project. The environment variable ``PINFOLD_MEASURED`` names it: a file, or a folder with
one file in it that is CSV, CSV with gzip, or Parquet. ``pinfold learn import`` makes a data set of it, with the map of
columns ``numa-prefetch``, and the reader of ``pinfold learn`` reads this data set.
"""

from __future__ import annotations

import json
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from pinfold.evaluation.measured.known import Known
from pinfold.evaluation.section import PINFOLD, output

VARIABLE = "PINFOLD_MEASURED"
MAP = "numa-prefetch"
FOLDER = Path("target/evaluation/measured")
ENDS = (".csv", ".csv.gz", ".parquet")

SOURCE = """\
Scravaglieri, Popov, Pilla, Guermouche, Aumage and Saillard measured these times: *Optimizing performance and energy
across problem sizes through a search space exploration and machine learning*, JPDC 2023 (104720), repository
`gateauaulait/numa-prefetch-perf-energy-size-opt`, commit 5d13030. They are medians of regions of NAS, Rodinia, LULESH
and Blackscholes, which CERE cut out. One of the authors is also an author of the paper of Sánchez Barrera et al. This
project has no copy of the table, and this page has aggregate figures only."""


@dataclass(frozen=True)
class MeasuredTable:
    """The table as a data set.

    Attributes
    ----------
    data : Path
        The data set.
    known : Known
        Its regions in all configurations.
    rows : int
        The number of its rows in the foreign table.
    processor_s : float
        The processor time of the import, in seconds.
    """

    data: Path
    known: Known
    rows: int
    processor_s: float


def named() -> Path | None:
    """Return the file that the environment names; None if it names none.

    Raises:
        ValueError: if it names a folder without such a file, or with several.
    """
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    path = Path(value)
    if not path.is_dir():
        return path
    files = [file for file in sorted(path.iterdir()) if file.name.endswith(ENDS)]
    if len(files) != 1:
        raise ValueError(f"{VARIABLE} names the folder {path} with {len(files)} tables: name one file")
    return files[0]


def measured_table(file: Path) -> MeasuredTable:
    """Import the table and read it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    data, figures = FOLDER / "table.parquet", FOLDER / "import.json"
    before = processor_time()
    words = ["learn", "import", "--quiet", "--columns", MAP, "-o", str(data), "--json", str(figures), str(file)]
    output([str(PINFOLD), *words])
    seconds = processor_time() - before
    return MeasuredTable(data, Known.read(data), int(json.loads(figures.read_text())["read"]), seconds)


def processor_time() -> float:
    """Return the processor time of all programs that this one has started and that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
