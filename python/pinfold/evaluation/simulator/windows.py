"""What the recorded windows cover, and for how long threads wait in them for what is not recorded.

Nothing is learned or judged with a window that does not cover its program. This section counts all of them: those of
own workloads, which the evaluation records, and those of applications in the data sets that ``make applications`` has
made (``applications/data``). These have all phases, also where only some are recorded here.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

from pinfold.evaluation.hints.sweep import sweeps
from pinfold.evaluation.judged.report import DEVELOPMENT, JUDGED, OWN
from pinfold.evaluation.section import Section, Table

COLUMNS = (
    *("machine", "command", "region", "window_bytes", "footprint_bytes", "llc_bytes", "window_covers"),
    "unrecorded_wait_share",
)
INPUTS = ("applications/data/*.parquet",)
APPLICATIONS = {
    DEVELOPMENT: Path("applications/data/development.parquet"),
    JUDGED: Path("applications/data/judged.parquet"),
}

MUCH_WAIT = 0.1
"""The share of waiting for what is not recorded above which ``pinfold sweep`` warns."""

TEXT = f"""\
A window covers its program if it accesses half of the memory that the program uses, or twice the last-level caches, or
if all that the program uses fits one of these caches. What a program uses is every page that it touched up to the end
of the window and had not given back: libraries, start and input belong to it. Rows of other windows have
`window_covers` false; `pinfold learn` leaves them out, and no policy is judged on them. The share of a window is that
of the lines it accesses in the footprint. Threads wait for what is not recorded where a window of a number of
instructions cuts them off at different places; the last column counts recordings in which that takes more than
{MUCH_WAIT:.0%} of the time of all threads, in the median of the swept placements. Windows of applications are those of
the data sets in `applications/data`."""


@dataclass(frozen=True)
class Window:
    """A recorded window on a machine.

    Attributes
    ----------
    group : str
        The group of programs.
    machine : str
        The simulated machine.
    command : str
        The command that was recorded; of an application also the phase.
    covers : bool or None
        Whether it stands for its program; None if not known.
    share : float or None
        Its lines over the footprint; None if the footprint is not known.
    waits : float or None
        The share of the threads' time for which they wait for what is not recorded; None if not known.
    """

    group: str
    machine: str
    command: str
    covers: bool | None
    share: float | None
    waits: float | None


def windows(quick: bool) -> Section:
    """Count the windows of all swept recordings."""
    files = [*((OWN, one.data) for one in sweeps(quick)), *APPLICATIONS.items()]
    found = [window for group, file in files for window in read(group, file)]
    reduced = "A reduced set (`make evaluation-quick`).\n\n" if quick else ""
    return Section(
        "windows",
        "What recorded windows cover",
        f"{reduced}{TEXT}",
        ["pinfold sweep --machine opteron-6164x4 --space threads -o rows.parquet FILE.pft"],
        [table(found)],
        {"simulated": True, "windows": [vars(window) for window in found]},
    )


def read(group: str, file: Path) -> list[Window]:
    """Read the windows of a data set: one for each recording and machine."""
    rows = [row for row in pyarrow.parquet.read_table(file, columns=list(COLUMNS)).to_pylist() if row["region"] is None]
    recordings: Mapping[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        recordings[row["machine"], row["command"]].append(row)
    found = []
    for (machine, command), of_one in recordings.items():
        first = of_one[0]
        footprint = first["footprint_bytes"]
        share = first["window_bytes"] / footprint if footprint else None
        waits = [row["unrecorded_wait_share"] for row in of_one if row["unrecorded_wait_share"] is not None]
        wait = statistics.median(waits) if waits else None
        found.append(Window(group, machine, command, first["window_covers"], share, wait))
    return found


def table(found: Sequence[Window]) -> Table:
    """Return a row for each group of programs on each machine."""
    keys = dict.fromkeys((window.group, window.machine) for window in found)
    rows = []
    for group, machine in keys:
        here = [window for window in found if (window.group, window.machine) == (group, machine)]
        waiting = [window.waits for window in here if window.waits is not None]
        rows.append(
            [
                group,
                machine,
                str(len(here)),
                str(sum(window.covers is True for window in here)),
                str(sum(window.covers is None for window in here)),
                _median(window.share for window in here),
                _median(waiting),
                f"{sum(wait > MUCH_WAIT for wait in waiting)} of {len(waiting)}",
            ]
        )
    head = [
        *("programs", "machine", "recordings", "cover", "not known", "share of the footprint, median"),
        *("waiting for what is not recorded, median", f"more than {MUCH_WAIT:.0%}"),
    ]
    return Table(head, rows, "Recorded windows:")


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.0%}" if known else "-"
