"""The page ``applications/README.md``: one table of the applications, made from their descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pinfold.applications.description import FOLDER, Application
from pinfold.split import Part

HEAD = """\
# Real applications

`make applications` installs these programs from Debian's and Python's package registries, makes their inputs from a
seed, records parts of their runs, and writes the data sets in `data/`.
[The guide](../docs/guide/applications.md) says how, and how to add one.
`python -m pinfold.applications catalogue` makes this page.

A third of the applications is for judging only. The name decides (`python/pinfold/split.py`).
"""


def page(applications: Sequence[Application]) -> str:
    """Return the page."""
    recorded = [application for application in applications if application.runs]
    lines = [HEAD, _totals(recorded), "## Recorded", ""]
    lines += [
        "| name | field | part | licence | threads | runs | phases | recorded |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in sorted(recorded, key=lambda one: (one.field, one.name)):
        threads = ", ".join(map(str, sorted({run.threads for run in one.runs})))
        phases = sum(len(run.phases) for run in one.runs)
        cells = [f"[{one.name}]({one.name})", one.field, one.part, one.licence, f"{threads} ({one.threads_of})"]
        lines.append(f"| {' | '.join([*cells, str(len(one.runs)), str(phases), one.recorded])} |")
    lines += ["", "## Not recorded", ""]
    for one in applications:
        if one.not_recorded:
            lines.append(f"- [{one.name}]({one.name}) ({one.field}, {one.part}): {one.not_recorded}")
    return "\n".join(lines) + "\n"


def _totals(recorded: Sequence[Application]) -> str:
    def count(part: Part) -> str:
        of_part = [one for one in recorded if one.part == part]
        runs = [run for one in of_part for run in one.runs]
        return (
            f"- {part}: {len(of_part)} applications of {len({one.field for one in of_part})} fields, {len(runs)} runs, "
            f"{sum(len(run.phases) for run in runs)} phases"
        )

    return f"{count('development')}\n{count('judged')}\n"


def write(root: Path, applications: Sequence[Application]) -> Path:
    """Write the page; return its file."""
    file = root / FOLDER / "README.md"
    file.write_text(page(applications), encoding="utf-8")
    return file
