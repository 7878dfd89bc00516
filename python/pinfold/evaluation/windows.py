"""What the recorded windows cover, and for how long threads wait in them for what is not recorded.

Nothing is learned or judged with a window that does not cover its program. This section counts all of them.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

from pinfold.evaluation.affinity_sweep import sweeps
from pinfold.evaluation.judged_report import DEVELOPMENT, JUDGED, OWN
from pinfold.evaluation.judged_subjects import APPLICATIONS
from pinfold.evaluation.section import Section, Table
from pinfold.split import part

COLUMNS = (
    *("machine", "region", "window_bytes", "footprint_bytes", "llc_bytes", "window_covers"),
    "unrecorded_wait_share",
)
GROUPS = {"development": DEVELOPMENT, "judged": JUDGED}

MUCH_WAIT = 0.1
"""The share of waiting for what is not recorded above which ``pinfold sweep`` warns."""

TEXT = f"""\
A window covers its program if it accesses half of the memory that the program uses, or twice the last-level caches, or
if all that the program uses fits one of these caches. What a program uses is every page that it touched up to the end
of the window and had not given back: libraries, start and input belong to it. Rows of other windows have
`window_covers` false; `pinfold learn` leaves them out, and no policy is judged on them. The share of a window is that
of the lines it accesses in the footprint. Threads wait for what is not recorded where a window of a number of
instructions cuts them off at different places; the last column counts recordings in which that takes more than
{MUCH_WAIT:.0%} of the time of all threads, in the median of the swept placements."""


@dataclass(frozen=True)
class Window:
    """A recorded window on a machine.

    Attributes
    ----------
    group : str
        The group of programs.
    machine : str
        The simulated machine.
    recording : str
        The name of the recording.
    covers : bool or None
        Whether it stands for its program; None if not known.
    share : float or None
        Its lines over the footprint; None if the footprint is not known.
    waits : float or None
        The share of the threads' time for which they wait for what is not recorded; None if not known.
    """

    group: str
    machine: str
    recording: str
    covers: bool | None
    share: float | None
    waits: float | None


def windows(quick: bool) -> Section:
    """Count the windows of all swept recordings."""
    files = [(OWN, one.data) for one in sweeps(quick)]
    applications = sorted(APPLICATIONS.glob("*/*.parquet"))
    files += [(GROUPS[part(file.parent.name)], file) for file in applications]
    found = [window for group, file in files for window in read(group, file)]
    reduced = "A reduced set (`make evaluation-quick`).\n\n" if quick else ""
    missing = "" if applications else " No applications are recorded here (`make applications`)."
    return Section(
        "windows",
        "What recorded windows cover",
        f"{reduced}{TEXT}{missing}",
        ["pinfold sweep --machine opteron-6164x4 --space threads -o rows.parquet FILE.pft"],
        [table(found)],
        {"simulated": True, "windows": [vars(window) for window in found]},
    )


def read(group: str, file: Path) -> list[Window]:
    """Read the window of a swept recording, on each machine."""
    rows = [row for row in pyarrow.parquet.read_table(file, columns=list(COLUMNS)).to_pylist() if row["region"] is None]
    machines: Mapping[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        machines[row["machine"]].append(row)
    found = []
    for machine, of_machine in machines.items():
        first = of_machine[0]
        footprint = first["footprint_bytes"]
        share = first["window_bytes"] / footprint if footprint else None
        waits = [row["unrecorded_wait_share"] for row in of_machine if row["unrecorded_wait_share"] is not None]
        wait = statistics.median(waits) if waits else None
        found.append(Window(group, machine, file.stem, first["window_covers"], share, wait))
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
