"""Figures of progress that programs have themselves: none is a quantity that pinfold counts.

A reading is taken at a step of the figure, because the time of a step is known and the time between two steps says
nothing: a build has made 17 object files for a while.
"""

from __future__ import annotations

import os
import re
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pinfold.evaluation.progress.quota import Group

STEP_WITHIN = 5.0
"""Seconds within which a figure must grow."""

LOOK = 0.002
"""Seconds between two looks at a figure."""


class StuckError(Exception):
    """A figure did not grow."""


@dataclass(frozen=True)
class Reading:
    """A figure of progress at a time.

    Attributes
    ----------
    at : float
        The time of day, in seconds.
    value : float
        The progress since the program began, in the program's own unit.
    """

    at: float
    value: float


class Figure(ABC):
    """A program's own figure of progress."""

    @abstractmethod
    def now(self) -> Reading:
        """Return the figure as it is."""

    def at_a_step(self) -> Reading:
        """Wait until the figure grows, and return it."""
        first = self.now()
        until = time.monotonic() + STEP_WITHIN
        while time.monotonic() < until:
            if (reading := self.now()).value > first.value:
                return reading
            time.sleep(LOOK)
        raise StuckError(f"the program's own figure of progress has stayed at {first.value:.0f} for {STEP_WITHIN} s")


@dataclass
class Offset(Figure):
    """The position of a group's processes in a file that they read."""

    group: Group
    file: Path
    _open: tuple[int, str] | None = field(default=None, init=False)

    def now(self) -> Reading:
        """Return the position, in bytes."""
        self._open = self._open or self._find()
        at = time.time()
        if not self._open:
            return Reading(at, 0)
        process, number = self._open
        place = int(Path(f"/proc/{process}/fdinfo/{number}").read_text().split()[1])
        # The program may have read all of it, and use the number for another file.
        if not self._is_open(Path(f"/proc/{process}/fd/{number}")):
            raise StuckError(f"the program has read all of {self.file}")
        return Reading(at, place)

    def _find(self) -> tuple[int, str] | None:
        for process in self.group.processes():
            with suppress(FileNotFoundError, ProcessLookupError):
                for link in Path(f"/proc/{process}/fd").iterdir():
                    if self._is_open(link):
                        return process, link.name
        return None

    def _is_open(self, link: Path) -> bool:
        # The process may have closed it, or ended.
        with suppress(FileNotFoundError, ProcessLookupError):
            return os.readlink(link) == str(self.file.resolve())
        return False


@dataclass
class Written(Figure):
    """What a program, or its load generator, writes to a file of messages.

    Attributes
    ----------
    folder : Path
        The folder of the file.
    name : str
        Its name, which may be a pattern.
    progress : callable
        Finds the progress that a line reports, since the line before.
    stamped : callable, optional
        Finds the time that a line names; None if lines name none.
    """

    folder: Path
    name: str
    progress: Callable[[str], float]
    stamped: Callable[[str], float] | None = None
    _read: int = field(default=0, init=False)
    _reading: Reading = field(default=Reading(0.0, 0.0), init=False)

    def now(self) -> Reading:
        """Return the sum of the progress of all whole lines."""
        at = time.time()
        text = b""
        if file := next(self.folder.glob(self.name), None):
            with file.open("rb") as opened:
                opened.seek(self._read)
                # POV-Ray writes over its last line.
                text, _, _ = opened.read().replace(b"\r", b"\n").rpartition(b"\n")
        if text:
            self._read += len(text) + 1
            lines = text.decode(errors="replace").split("\n")
            at = self.stamped(lines[-1]) if self.stamped else at
            self._reading = Reading(at, self._reading.value + sum(map(self.progress, lines)))
        return self._reading if self.stamped else Reading(at, self._reading.value)


def grown(pattern: str) -> Callable[[str], float]:
    """Return a function that finds in a line how much the number after this pattern has grown."""
    expression = re.compile(pattern)
    last = [0.0]

    def progress(line: str) -> float:
        if not (found := expression.search(line)):
            return 0.0
        number = float(found.group(1))
        number, last[0] = number - last[0], number
        return number

    return progress


@dataclass
class Shared(Figure):
    """A number of eight bytes in memory that the program shares by a file."""

    file: Path

    def now(self) -> Reading:
        """Return the number."""
        at = time.time()
        return Reading(at, int.from_bytes(self.file.read_bytes()[:8], "little") if self.file.exists() else 0)


@dataclass
class Made(Figure):
    """The number of files of a pattern."""

    folder: Path
    suffix: str

    def now(self) -> Reading:
        """Return the number."""
        at = time.time()
        return Reading(at, sum(entry.name.endswith(self.suffix) for entry in os.scandir(self.folder)))


@dataclass
class Asked(Figure):
    """A number that a server gives on request, with the time if it says it."""

    port: int
    request: bytes
    pattern: str

    def now(self) -> Reading:
        """Return the number at the time that the answer names, or of its arrival."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=STEP_WITHIN) as connection:
            connection.sendall(self.request)
            answer = b""
            while not (found := re.search(self.pattern.encode(), answer)):
                part = connection.recv(65536)
                if not part:
                    raise StuckError(f"port {self.port} answers without a figure of progress: {answer!r}")
                answer += part
        words = found.groupdict()
        at = float(words["at"]) if words.get("at") else time.time()
        if words.get("microseconds"):
            at = float(words["microseconds"]) / 1e6
        return Reading(at, float(words["value"]))
