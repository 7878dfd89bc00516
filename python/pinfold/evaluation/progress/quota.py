"""A control group whose processes get a part of the CPUs, by a quota of the kernel's scheduler.

Both versions of control groups have it: ``cpu.cfs_quota_us`` in version 1, ``cpu.max`` in version 2. Groups are made at
the root of the hierarchy, which needs root's rights.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PERIOD = 20_000
"""Microseconds in which the quota is given out. The kernel's default of 100 ms would stop a program for most of a
reading of the counts, and run it during the next one."""

LEAST_QUOTA = 1_000
"""The kernel takes no smaller one."""

PATIENCE = 5.0
"""Seconds that processes get to end themselves."""


class NoQuotaError(Exception):
    """No quota can be given here. The text says why."""


@dataclass(frozen=True)
class Group:
    """A control group.

    Attributes
    ----------
    is_first_version : bool
        Whether it is one of version 1.
    folders : tuple of Path
        Its folders: that with the quota, and with version 1 that with the time used, if it is another.
    """

    is_first_version: bool
    folders: tuple[Path, ...]

    def add(self, process: int) -> None:
        """Move a process into the group. Its children will be there, too."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(process))

    def processes(self) -> list[int]:
        """Return the numbers of its processes."""
        return [int(process) for process in (self.folders[0] / "cgroup.procs").read_text().split()]

    def used(self) -> float:
        """Return the processor time of all its processes so far, in seconds."""
        if self.is_first_version:
            return int((self.folders[-1] / "cpuacct.usage").read_text()) / 1e9
        words = (self.folders[0] / "cpu.stat").read_text().split()
        return int(words[words.index("usage_usec") + 1]) / 1e6

    def limit(self, cpus: float | None) -> None:
        """Let its processes use as much time as this number of CPUs has; None for all."""
        quota = None if cpus is None else max(round(cpus * PERIOD), LEAST_QUOTA)
        if self.is_first_version:
            # The kernel refuses a period that would be too short for the quota of before.
            self._write("cpu.cfs_quota_us", "-1")
            self._write("cpu.cfs_period_us", str(PERIOD))
            self._write("cpu.cfs_quota_us", "-1" if quota is None else str(quota))
        else:
            self._write("cpu.max", f"{'max' if quota is None else quota} {PERIOD}")

    def end(self) -> None:
        """End its processes: first they are asked to."""
        self.limit(None)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(process, number)
            until = time.monotonic() + PATIENCE
            while self.processes() and time.monotonic() < until:
                time.sleep(0.01)

    def _write(self, file: str, text: str) -> None:
        (self.folders[0] / file).write_text(text)


@contextmanager
def group(name: str) -> Iterator[Group]:
    """Make a control group. At the end its processes are ended and it is removed."""
    made = _made(name)
    try:
        yield made
    finally:
        made.end()
        for folder in made.folders:
            folder.rmdir()


def _made(name: str) -> Group:
    mounts = [line.split()[:4] for line in Path("/proc/self/mounts").read_text().splitlines()]
    first = {word: Path(at) for _, at, kind, options in mounts if kind == "cgroup" for word in options.split(",")}
    second = next((Path(at) for _, at, kind, _ in mounts if kind == "cgroup2"), None)
    try:
        if "cpu" in first and "cpuacct" in first:
            folders = tuple(dict.fromkeys((first["cpu"] / name, first["cpuacct"] / name)))
            for folder in folders:
                folder.mkdir()
            return Group(True, folders)
        if second and "cpu" in (second / "cgroup.subtree_control").read_text().split():
            (second / name).mkdir()
            return Group(False, (second / name,))
    except OSError as error:
        raise NoQuotaError(f"no control group can be made: {error}") from error
    raise NoQuotaError("there is no control group with the controller `cpu`")
