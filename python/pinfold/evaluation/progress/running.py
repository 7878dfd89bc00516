"""A program that runs in a control group, alone or under pinfold, with its load generator outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinfold.evaluation.progress.program import Program, as_user
from pinfold.evaluation.progress.quota import Group

PATIENCE = 60.0
"""Seconds after which a program that is not ready has failed."""

# The shell says its number and waits until it is in the group. Then it becomes the program.
WAITS = 'echo $$ > "$1"; read -r _ < "$2"; shift 2; exec "$@"'


class ProgramError(Exception):
    """A program did not do what it was started for. The text has its messages."""


@dataclass(frozen=True)
class Place:
    """Where a program runs.

    Attributes
    ----------
    program : Program
        The program.
    folder : Path
        Its prepared folder.
    group : Group
        The group of its processes. pinfold is not in it.
    binary : Path
        pinfold.
    """

    program: Program
    folder: Path
    group: Group
    binary: Path


@dataclass
class Running:
    """A program that runs.

    Attributes
    ----------
    place : Place
        Where it runs.
    process : Popen
        The program, or pinfold.
    began : float
        When it began, as a time of day in seconds.
    load : Popen, optional
        Its load generator.
    """

    place: Place
    process: subprocess.Popen[bytes]
    began: float = 0.0
    load: subprocess.Popen[bytes] | None = None

    def end(self) -> None:
        """End the load generator and the program."""
        if self.load:
            self.load.kill()
            self.load.wait()
        if not self.began:
            self.process.terminate()
        self.place.group.end()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait(self) -> None:
        """Wait until the program has ended by itself."""
        if status := self.process.wait():
            raise ProgramError(f"it has ended with status {status}: {self._messages()}")

    def check(self) -> None:
        """Raise an error if the program or its load generator has ended."""
        for process, whose in ((self.process, "it"), (self.load, "its load generator")):
            if process and process.poll() is not None:
                raise ProgramError(f"{whose} has ended with status {process.returncode}: {self._messages()}")

    def record(self) -> dict[str, Any]:
        """Return what ``pinfold run`` has written, after the end."""
        file = self.place.folder / "run.json"
        if not file.exists():
            raise ProgramError(f"pinfold has written no record: {self._messages()}")
        record: dict[str, Any] = json.loads(file.read_text())
        return record

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise ProgramError(f"it is not ready after {PATIENCE:.0f} s: {self._messages()}")
            time.sleep(0.005)

    def _messages(self) -> str:
        files = [self.place.folder / name for name in ("errors", "load")]
        texts = [file.read_text(errors="replace")[-500:] for file in files if file.exists()]
        return " ".join(" ".join(texts).split())


@contextmanager
def running(place: Place, *, amount: int | None = None, arguments: Sequence[str] | None = None) -> Iterator[Running]:
    """Start a program, and end it at the end of the ``with`` block.

    Args:
        place: where it runs.
        amount: the progress after which it ends; None for never.
        arguments: those of ``pinfold run``; None to start it without pinfold.
    """
    program, folder = place.program, place.folder
    _remove_traces(program, folder)
    number = folder / "number"
    words = ["sh", "-c", WAITS, "sh", str(number), str(folder / "go"), *program.command(folder, amount)]
    if arguments is not None:
        files = ["--json", str(folder / "run.json"), "--db", str(folder / "behaviour.db")]
        words = [str(place.binary.resolve()), "run", "--quiet", *files, *arguments, "--", *words]
    with (folder / "output").open("wb") as out, (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [*as_user(program.user), *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env={**os.environ, **program.environment()},
        )
    one = Running(place, process)
    try:
        one.until(lambda: number.exists() and number.read_text().endswith("\n"))
        one.began = time.time()
        place.group.add(int(number.read_text()))
        (folder / "go").write_text("\n")
        if load := program.load(folder):
            one.until(lambda: program.is_ready(folder))
            with (folder / "load").open("wb") as out:
                one.load = subprocess.Popen(load, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        yield one
    finally:
        one.end()


def made_folder(program: Program, parent: Path) -> Path:
    """Make and prepare a program's folder."""
    folder = parent / "".join(letter if letter.isalnum() else "_" for letter in program.name)
    folder.mkdir()
    _give(program, folder)
    program.prepare(folder)
    return folder


def _remove_traces(program: Program, folder: Path) -> None:
    """Remove what an earlier run has left, and make the pipe on which the shell waits."""
    program.clear(folder)
    for name in ("number", "go", "run.json", "behaviour.db", "load"):
        (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / "go")
    _give(program, folder / "go")


def _give(program: Program, file: Path) -> None:
    """Make a file the program's, if root starts it as another user."""
    if program.user and os.geteuid() == 0:
        shutil.chown(file, program.user)
