"""A section of the evaluation, and what all sections share."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pinfold import tables

PINFOLD = Path("target/release/pinfold")

Table = tables.Table


@dataclass
class Check:
    """A property of a figure's shape.

    Attributes
    ----------
    what : str
        The property.
    paper : str
        The figure of the section's paper (docs/papers.md).
    must_be : str
        The condition.
    simulated : str
        The simulated figure.
    holds : bool
        Whether the condition holds.
    """

    what: str
    paper: str
    must_be: str
    simulated: str
    holds: bool


@dataclass
class Promise:
    """A figure that is asked for, as in ``target/bench.json``.

    Attributes
    ----------
    name : str
        The figure.
    value : float or str or None
        Its value; None if it could not be measured.
    unit : str
        The unit of the value; empty for a ratio and for text.
    promise : str
        The condition.
    held : bool or None
        Whether it holds; None if it could not be measured.
    """

    name: str
    value: float | str | None
    unit: str
    promise: str
    held: bool | None


def promises_of(checks: Sequence[Check]) -> list[Promise]:
    """Return the checks of a figure's shape as promises."""
    return [Promise(check.what, check.simulated, "", check.must_be, check.holds) for check in checks]


def checks_table(checks: Sequence[Check], caption: str) -> Table:
    """Return the checks of a figure's shape as a table."""
    rows = [
        [
            check.what,
            check.paper,
            check.must_be,
            check.simulated,
            "holds" if check.holds else "**does not hold**",
        ]
        for check in checks
    ]
    return Table(["", "paper", "must be", "simulated", ""], rows, caption)


@dataclass
class Section:
    """A part of the evaluation with one JSON file.

    Attributes
    ----------
    name : str
        The name of the JSON file.
    title : str
        The heading.
    text : str
        The experiment and its results, as Markdown.
    commands : sequence of str
        Commands that make these figures.
    tables : sequence of Table
        The figures.
    data : dict
        The content of the JSON file.
    plots : sequence of Path
        Pictures under ``docs/``.
    promises : sequence of Promise
        The figures that are asked for.
    captions : mapping of str to str
        What stands above a picture, by the base of its file's name.
    """

    name: str
    title: str
    text: str
    commands: Sequence[str]
    tables: Sequence[Table]
    data: dict[str, Any]
    plots: Sequence[Path] = field(default_factory=list)
    promises: Sequence[Promise] = field(default_factory=list)
    captions: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Part:
    """A check's contribution to a section of several checks.

    Attributes
    ----------
    data : dict
        Its keys in the JSON file.
    table : Table
        Its figures.
    text : str
        The experiment and its results, as Markdown.
    commands : sequence of str
        Commands that make these figures.
    promises : sequence of Promise
        The figures that are asked for.
    """

    data: dict[str, Any]
    table: Table
    text: str
    commands: Sequence[str]
    promises: Sequence[Promise] = field(default_factory=list)


def output(command: Sequence[str]) -> str:
    """Run a command and return its standard output. A failure ends this program with the command's error output."""
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"`{' '.join(command)}` ended with status {result.returncode}:\n{result.stderr}")
    return result.stdout


def record(program: Sequence[str], recording: Path, *arguments: str) -> None:
    """Record a program."""
    output([str(PINFOLD), "record", "-o", str(recording), *arguments, "--", *program])


def run_json(arguments: Sequence[str], program: Sequence[str]) -> dict[str, Any]:
    """Run ``pinfold run`` and return the output of ``--json``.

    Unless ``--db`` is given, the behaviour database is an empty one: no run knows a program from another run.
    """
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "run.json"
        database = [] if "--db" in arguments else ["--db", str(Path(directory) / "behaviour.db")]
        files = [*database, "--json", str(file)]
        separator = ["--"] if program else []
        output([str(PINFOLD), "run", "--quiet", *files, *arguments, *separator, *program])
        record: dict[str, Any] = json.loads(file.read_text())
        return record


def here() -> str:
    """Return this machine in one line."""
    return output([str(PINFOLD), "topo"]).splitlines()[0]
