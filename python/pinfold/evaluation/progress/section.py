"""The section on progress: which programs are measured, and whether their metric is their progress."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t

from pinfold.evaluation.progress.figures import StuckError
from pinfold.evaluation.progress.measure import (
    Costs,
    Lengths,
    Measured,
    choose,
    costs,
    start_of_pinfold,
    windows,
)
from pinfold.evaluation.progress.program import Program
from pinfold.evaluation.progress.programs import PROGRAMS
from pinfold.evaluation.progress.quota import NoQuotaError, group
from pinfold.evaluation.progress.running import Place, ProgramError, made_folder
from pinfold.evaluation.section import PINFOLD, Promise, Section, Table, here

INPUTS = ("evaluation/progress/*",)

MEASURED = "programs that are measured by their progress"
"""The promise of the first page."""

WANTED = 18
KINDS = 6
"""Programs that are to be measured, and their kinds."""

DIFFERENCE = 5.0
SLOWER = 1.0
"""Percent."""

QUICK = ("gzip", "sha256sum", "Python service", "make -j2")
QUICK_LENGTHS = Lengths(choice=4.0, settling=0.5, windows=(2.0, 2.0, 2.0), pairs=2)

IN_MEMORY = Path("/dev/shm")
ROOM = 8 << 30
"""Bytes that must be free there. The times of programs that write to disks differ more than what pinfold adds."""


@dataclass(frozen=True)
class Interval:
    """What pinfold adds to a job, in percent, with half the width of its 95 % interval."""

    mean: float
    half: float

    @property
    def text(self) -> str:
        """The cell of a table."""
        return f"{self.mean:+.1f} ± {self.half:.1f} %"

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Interval | None:
        """Return that of ratios of times, minus one; None for fewer than two."""
        if len(ratios) < 2:  # noqa: PLR2004 - one has no spread
            return None
        logs = [math.log1p(ratio) for ratio in ratios]
        half = float(t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
        return cls(100 * math.expm1(statistics.mean(logs)), 100 * half)


@dataclass(frozen=True)
class Row:
    """A program of the table, with what was found of it.

    Attributes
    ----------
    program : Program
        The program.
    measured : Measured or None
        What was measured; None if it did not run.
    problem : str
        Why it was not measured, or not in all parts; empty if it was.
    """

    program: Program
    measured: Measured | None
    problem: str = ""

    @property
    def differences(self) -> list[float]:
        """The differences in percent; empty unless all are known."""
        found = self.measured.differences() if self.measured else []
        known = [100 * one for one in found if one is not None]
        return known if len(known) == len(found) else []

    @property
    def pairs(self) -> list[float]:
        """The processor time of a job under pinfold over that of the job alone, minus one, of each pair."""
        return self.measured.costs.processor if self.measured and self.measured.costs else []

    @property
    def slower(self) -> Interval | None:
        """The processor time that pinfold adds to a job; None if it is not known."""
        return Interval.of(self.pairs)

    @property
    def is_pinned_for_nothing(self) -> bool:
        """Whether it is pinned without a measured gain."""
        choice = self.measured.choice if self.measured else None
        return choice is not None and choice.pinned is not None and (choice.gain or 0.0) <= 0.0

    def data(self) -> dict[str, Any]:
        """Return what the JSON file has of it."""
        return {
            "program": self.program.name,
            "kind": self.program.kind,
            "own_figure": self.program.figure_is,
            "measured": asdict(self.measured) if self.measured else None,
            "problem": self.problem,
        }


def progress(quick: bool) -> Section:
    """Slow real programs down, and compare their metric with their own figures of progress."""
    missing = {program.name: program.missing() for program in PROGRAMS if program.missing()}
    programs = [program for program in PROGRAMS if program.name not in missing and (not quick or program.name in QUICK)]
    lengths = QUICK_LENGTHS if quick else Lengths()
    has_room = IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > ROOM
    with tempfile.TemporaryDirectory(prefix="pinfold-progress-", dir=IN_MEMORY if has_room else None) as directory:
        folder = Path(directory)
        # Servers change their user.
        folder.chmod(0o755)
        try:
            rows = [row(program, folder, lengths) for program in programs]
        except NoQuotaError as error:
            sys.exit(f"programs cannot be slowed here: {error}; root can make control groups")
    return Section(
        "progress",
        "Progress of real programs",
        _text(rows, missing),
        ["make progress"],
        [_table(rows)],
        {"programs": [one.data() for one in rows], "not_installed": missing},
        promises=_promises(rows),
    )


def row(program: Program, folder: Path, lengths: Lengths, binary: Path = PINFOLD) -> Row:
    """Measure a program.

    Args:
        program: the program.
        folder: the folder in which its own is made.
        lengths: the lengths of the parts.
        binary: pinfold.
    """
    print(f"evaluation: progress: {program.name}", file=sys.stderr)
    measured = None
    try:
        with group(f"pinfold-progress-{os.getpid()}") as own_group:
            place = Place(program, made_folder(program, folder), own_group, binary)
            choice = choose(place, lengths)
            measured = Measured(choice)
            found, own = windows(place, lengths)
            measured = Measured(choice, found)
            pairs = costs(place, found[0].own, lengths) if program.ends else ([], [])
            measured = Measured(choice, found, Costs(*pairs, own))
    except (ProgramError, StuckError, OSError, subprocess.CalledProcessError) as error:
        return Row(program, measured, str(error))
    finally:
        program.clean(folder)
    return Row(program, measured, "" if choice.metric else choice.why)


def _table(rows: Sequence[Row]) -> Table:
    columns = ["program", "kind", "own figure", "metric", "at a half", "at a third", "job", "pinfold itself"]
    return Table(columns, [_cells(one) for one in rows])


def _cells(one: Row) -> list[str]:
    program, measured = one.program, one.measured
    metric = f"`{measured.choice.metric}`" if measured and measured.choice.metric else "not measured"
    cells = ["-", "-"]
    if measured and one.differences:
        pairs = zip(one.differences, measured.slowed()[1:], strict=True)
        cells = [f"{difference:+.1f} % ({times:.1f})" for difference, times in pairs]
    slower = one.slower.text if one.slower else "-"
    own = f"{100 * measured.costs.own:.1f} %" if measured and measured.costs else "-"
    return [program.name, program.kind, program.figure_is, metric, *cells, slower, own]


def _text(rows: Sequence[Row], missing: dict[str, list[str]]) -> str:
    kinds = sorted({one.program.kind for one in rows})
    lines = [
        f"Measured on: {here()}. {len(rows)} programs of {len(kinds)} kinds ({', '.join(kinds)}) run under pinfold, "
        "first free, then with a quota of a half and of a third of the processor time that they used. In each of these "
        "windows, the rate of the metric and the program's own figure of progress are taken between the same two "
        "times. *At a half* and *at a third* are the change of the metric's rate over the change of the program's own "
        "figure, minus one: zero where the metric is the program's progress. In parentheses is how many times slower "
        "the program was by its own figure. The metric is the one that a run with the default policy chooses. Load "
        "generators run outside of pinfold and of the quota.",
        "",
        "*Job* is the processor time that pinfold adds to a job of about a second, its own time included, with its "
        "95 % interval from pairs of runs, alone and under pinfold. Servers do not end, so they have none. The start "
        f"of pinfold is not contained: it takes {1000 * start_of_pinfold(PINFOLD):.0f} ms of processor time, whatever "
        "the program does. *Pinfold itself* is its own processor time over the time of a run of about twenty seconds.",
    ]
    if together := Interval.of([pair for one in rows for pair in one.pairs]):
        lines += ["", f"All jobs together: {together.text}."]
    problems = [f"- {one.program.name}: {one.problem}" for one in rows if one.problem]
    if problems:
        lines += ["", "Not measured, or not in all parts:", "", *problems]
    if missing:
        needed = [
            f"- {name}: {', '.join(f'`{command}`' for command in commands)}" for name, commands in missing.items()
        ]
        lines += ["", "Not installed here:", "", *needed]
    return "\n".join(lines)


def _promises(rows: Sequence[Row]) -> list[Promise]:
    measured = [one for one in rows if one.differences]
    kinds = len({one.program.kind for one in measured})
    near = sum(max(map(abs, one.differences)) < DIFFERENCE for one in measured)
    slower = [one.slower for one in rows if one.slower]
    slowed = sum(one.mean - one.half > SLOWER for one in slower)
    pinned = sum(one.is_pinned_for_nothing for one in rows)
    return [
        _at_least(MEASURED, len(measured), min(WANTED, len(rows))),
        _at_least("kinds of programs that are measured", kinds, min(KINDS, len(rows))),
        Promise(
            f"programs whose metric is within {DIFFERENCE:.0f} % of their own figure when slowed",
            near,
            "",
            f"all {len(measured)} that are measured",
            near == len(measured),
        ),
        Promise(
            f"programs whose job takes over {SLOWER:.0f} % more processor time, with 95 % certainty",
            slowed if slower else None,
            "",
            f"0 of {len(slower)}",
            slowed == 0 if slower else None,
        ),
        Promise("programs that are pinned and not faster", pinned, "", "0", pinned == 0),
    ]


def _at_least(name: str, value: int, least: int) -> Promise:
    return Promise(name, value, "", f"at least {least}", value >= least)
