"""The effect of SAM's additions to its paper: each addition switched off, and all of them.

The applications are cases only where they were recorded (``make applications``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from pinfold.evaluation.finished import Run
from pinfold.evaluation.judged.judging import NOISE
from pinfold.evaluation.sam.mixes import files
from pinfold.evaluation.sam.runs import MACHINE, recording, sam
from pinfold.evaluation.sam.workloads import ALL, MIXES, mix
from pinfold.evaluation.section import Part, Table
from pinfold.evaluation.side_by_side import at_once

ABILITIES = {
    "hysteresis": "a moved task stays for a while, and longer each time that it returns, which bounds its moves "
    "whatever its rates are, and costs speed where rates follow the phases of a program",
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

RECORDINGS = Path("target/applications/recordings")

APPLICATION = RECORDINGS / "fftw/grid96-8-all.pft"
"""An application for development in which tasks gain by taking their pages along."""

RESTLESS, FOUR_PACKAGES = RECORDINGS / "fftw/grid64-8-all.pft", "e5-4650x4"
"""An application for development whose rates change with its phases, and a machine on which it is moved often when what
is read has noise."""

SEED = 0


def abilities(quick: bool, thresholds: Path) -> Part:
    """Switch off each ability and measure the loss."""
    cases = {f"{name} {tasks}t": _case([recording(ALL[name], tasks)], thresholds) for name, tasks in STANDALONE.items()}
    if quick:
        cases = dict(list(cases.items())[:2])
    else:
        cases |= {f"mix #{number}": _case(files(mix(MIXES[number])), thresholds) for number in TOGETHER}
        cases[UNBALANCED] = _case(files(mix(UNBALANCED)), thresholds)
        if APPLICATION.exists():
            cases["fftw grid96 8t"] = _case([APPLICATION], thresholds)
        if RESTLESS.exists():
            cases[f"fftw grid64 8t, {FOUR_PACKAGES}"] = partial(
                sam, [RESTLESS], SEED, "--noise", NOISE, machine=FOUR_PACKAGES
            )
    settings: list[str | None] = [None, *ABILITIES]
    words = [["--without", without] if without else [] for without in settings]
    ran = iter(at_once([partial(case, *off) for off in words for case in cases.values()]))
    rows: list[dict[str, Any]] = []
    for without in settings:
        of_setting = {name: next(ran) for name in cases}
        speeds = {name: geometric_mean(one.speeds) for name, one in of_setting.items()}
        moves = {name: sum(one.moves.values()) for name, one in of_setting.items()}
        rows.append({"without": without, "speeds": speeds, "moves": moves})
    return Part({"abilities": rows}, table(rows), text(), [])


def _case(recordings: Sequence[Path], thresholds: Path) -> Callable[..., Run]:
    """Return what runs recordings on the machine of this section, with further options."""
    return partial(sam, recordings, SEED, "--thresholds", str(thresholds))


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Compare all settings."""
    base = rows[0]["speeds"]
    body = [
        [
            row["without"] or "nothing",
            *(f"{speed / base[name]:.3f} ({row['moves'][name]})" for name, speed in row["speeds"].items()),
        ]
        for row in rows
    ]
    caption = (
        "Speeds without an ability relative to those with all, for a mix the geometric mean; in parentheses the number "
        "of moves:"
    )
    return Table(["without", *base], body, caption)


def text() -> str:
    """Describe the experiment."""
    said = "; ".join(f"`{name}`: {what}" for name, what in ABILITIES.items())
    return (
        f"**Beyond the paper**, simulated on `{MACHINE}`: each ability that the paper's mapper does not have, "
        f"switched off by `--without`. {said}. With one order of task creation each, so differences of a few percent "
        f"are chance. The case on `{FOUR_PACKAGES}` has {NOISE} % of noise in what is read."
    )
