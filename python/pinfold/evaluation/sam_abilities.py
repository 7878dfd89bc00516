"""The effect of SAM's additions to its paper: each addition switched off, and all of them.

The application is a case only where it was recorded (``make applications``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pinfold.evaluation.sam_mixes import files
from pinfold.evaluation.sam_runs import MACHINE, at_once, geometric_mean, recording, sam
from pinfold.evaluation.sam_workloads import ALL, MIXES, mix
from pinfold.evaluation.section import Part, Table

ABILITIES = {
    "hysteresis": "a moved task stays for a while",
    "validation": "a move that did not help is rolled back; without it there are no trials",
    "learn-groups": "all tasks of a process count as sharing until measurements show which do",
    "faint-sharers": "tasks that share less than the threshold are brought together for a trial",
    "learn-homes": "a task that Linux moved away from its memory goes back to it",
    "pages-follow": "pages move with their task",
    "all": "as in the paper",
}
"""The names for ``--without``, and the effect of each."""

STANDALONE = {"HuBench": 8, "TunkRank": 8, "Canneal": 8, "stencil": 10, "false_sharing": 10}
TOGETHER = (9, 12, 20)
UNBALANCED = "8 HuBench, 4 omnetpp"
"""When SAM has gathered the sharers, Linux balances the packages and moves other tasks away from their memory."""

APPLICATION = Path("target/applications/recordings/fftw/grid96-8-all.pft")
"""An application for development in which tasks gain by taking their pages along."""

SEED = 0


def abilities(quick: bool, thresholds: Path) -> Part:
    """Switch off each ability and measure the loss."""
    cases = {f"{name} {tasks}t": [recording(ALL[name], tasks)] for name, tasks in STANDALONE.items()}
    if quick:
        cases = dict(list(cases.items())[:2])
    else:
        cases |= {f"mix #{number}": files(mix(MIXES[number])) for number in TOGETHER}
        cases[UNBALANCED] = files(mix(UNBALANCED))
        if APPLICATION.exists():
            cases["fftw grid96 8t"] = [APPLICATION]
    settings: list[str | None] = [None, *ABILITIES]
    jobs = [
        partial(sam, recordings, SEED, "--thresholds", str(thresholds), *(["--without", without] if without else []))
        for without in settings
        for recordings in cases.values()
    ]
    speeds = iter([geometric_mean(ran.speeds) for ran in at_once(jobs)])
    rows = [{"without": without, "speeds": {name: next(speeds) for name in cases}} for without in settings]
    return Part({"abilities": rows}, table(rows), text(), [])


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Compare all settings."""
    base = rows[0]["speeds"]
    body = [
        [row["without"], *(f"{speed / base[name]:.3f}" for name, speed in row["speeds"].items())] for row in rows[1:]
    ]
    return Table(
        ["without", *base], body, "Speeds without an ability relative to those with all; for a mix the geometric mean:"
    )


def text() -> str:
    """Describe the experiment."""
    said = "; ".join(f"`{name}`: {what}" for name, what in ABILITIES.items())
    return (
        f"**Beyond the paper**, simulated on `{MACHINE}`: each ability that the paper's mapper does not have, "
        f"switched off by `--without`. {said}. With one order of task creation each, so differences of a few percent "
        "are chance."
    )
