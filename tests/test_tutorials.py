"""The tutorials and the README's quick start: each command is run as it is printed, and what it prints is on the page.

Figures may differ, and so may the widths of columns. A line `...` stands for any lines. Everything else must agree.
"""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import ROOT

TUTORIALS = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.name != "README.md")
PAGES = [ROOT / "README.md", *TUTORIALS]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "@@@ the end of command"
PATIENCE = 120


@dataclass
class Step:
    """A command, and the lines that it prints."""

    command: str
    printed: list[str] = field(default_factory=list)


def steps(page: str) -> list[Step]:
    """Return the commands of a page, in order.

    A command whose line ends with a backslash goes on in the next one. Lines that begin with `>` go on with a
    command that has a here-document.
    """
    found: list[Step] = []
    for block in BLOCK.findall(page):
        for line in block.splitlines():
            if found and not found[-1].printed and found[-1].command.endswith("\\"):
                found[-1].command = f"{found[-1].command[:-1]}{line.lstrip()}"
            elif found and not found[-1].printed and "<<" in found[-1].command and line.startswith(">"):
                found[-1].command += "\n" + line[1:].removeprefix(" ")
            elif line.startswith("$ "):
                found.append(Step(line[2:]))
            else:
                found[-1].printed.append(line)
    return found


def alike(line: str) -> str:
    """Return a line without its figures: a number with its unit of time is one figure, whatever the unit."""
    line = re.sub(r"\d+ min \d+ s\b|\d+(\.\d+)? (ms|s)\b", "#", line)
    return " ".join(re.sub(r"\d+([.,]\d+)*", "#", line).split())


def agrees(printed: list[str], expected: list[str]) -> bool:
    """Return whether lines agree with those of a page, in which `...` stands for any."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(agrees(printed[skipped:], expected[1:]) for skipped in range(len(printed) + 1))
    return bool(printed) and alike(printed[0]) == alike(expected[0]) and agrees(printed[1:], expected[1:])


def run(all_steps: list[Step], folder: Path, environment: dict[str, str]) -> list[list[str]]:
    """Run the commands in one shell, and return the lines of each."""
    script = "".join(f"{step.command}\necho '{MARK}'\n" for step in all_steps)
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = shell.communicate(timeout=PATIENCE)
    finally:
        subprocess.run(["pkill", "-KILL", "--session", str(shell.pid)], check=False)
    parts = out.split(f"{MARK}\n")
    return [part.splitlines() for part in parts[:-1]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_says(
    page: Path, binary: Path, workload: Callable[[str], Path], python: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "target").mkdir()
    (folder / "target" / "workloads").symlink_to(workload("stencil").parent)
    programs = [binary.parent, workload("stencil").parent, Path(python).parent]
    environment = os.environ | {
        "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
        "PINFOLD_DB": str(state / "behaviour.db"),
        "PINFOLD_JOURNALS": str(state / "journals"),
        "COLUMNS": "200",
    }
    all_steps = steps(page.read_text())
    outputs = run(all_steps, folder, environment)
    assert len(all_steps) == len(outputs) > 0
    for step, printed in zip(all_steps, outputs, strict=True):
        assert agrees(printed, step.printed), f"{step.command}\nprinted:\n" + "\n".join(printed)


def test_a_page_that_says_something_else_is_found() -> None:
    printed = ["pinfold: it took 3.25 s", "", "a   12.5  b", "end"]
    assert agrees(printed, ["pinfold: it took 12 ms", "...", "end"])
    assert agrees(printed, ["...", "a 1 b", "end"])
    assert agrees(printed, [*printed, "..."])
    for wrong in (["..."] * 2 + ["other"], printed[:3], [*printed, "more"], ["pinfold: it took 3.25 GB", "..."], []):
        assert not agrees(printed, wrong), wrong
