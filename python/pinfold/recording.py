"""Recordings of programs: the accesses that simulated machines run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pinfold import binary

if TYPE_CHECKING:
    from pinfold.displays import Sharing
    from pinfold.plot import Plot


class Recording:
    """A recording in a file, as `record` or ``pinfold record`` wrote it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Store the path; the file is read when something of it is asked for."""
        self.path = Path(path)

    def __fspath__(self) -> str:
        """Return the path, so that functions for files take a recording."""
        return os.fspath(self.path)

    def __repr__(self) -> str:
        """Return the path in the form of a call."""
        return f"Recording({str(self.path)!r})"

    @cached_property
    def info(self) -> dict[str, Any]:
        """What ``pinfold trace info --json`` says of it.

        Raises:
            PinfoldError: the file is missing, or no recording, or damaged.
        """
        info: dict[str, Any] = json.loads(binary.call(["trace", "info", "--json", self.path]))
        return info

    @property
    def command(self) -> list[str]:
        """The program and its arguments."""
        return list(self.info["header"]["command"])

    @cached_property
    def sharing(self) -> Sharing:
        """Which threads exchange data, as ``pinfold trace metrics --paper denoyelle --json`` counts it.

        Raises:
            PinfoldError: the file is missing, or no recording, or its lines need more memory than 4 GiB.
        """
        import numpy as np  # noqa: PLC0415 - these take a second to load

        from pinfold.displays import Sharing  # noqa: PLC0415

        found = json.loads(binary.call(["trace", "metrics", "--paper", "denoyelle", "--json", self.path]))
        return Sharing(np.array(found["communications"], dtype=np.int64))

    def plot(self) -> Plot:
        """Draw which threads exchange data."""
        return self.sharing.plot()

    @property
    def threads(self) -> pa.Table:
        """A row for each thread: its number, its accesses, instructions, cache lines, pages and barriers."""
        return pa.Table.from_pylist(self.info["threads"])


def record(
    command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    threads: int | None = None,
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Recording:
    """Record the data accesses of a program, which runs under QEMU: ten to a hundred times slower than alone.

    Args:
        command: the program and its arguments. A text without arguments is a program, and no shell reads it.
        output: the recording; an existing file is replaced.
        threads: the number of threads of an OpenMP program (as ``OMP_NUM_THREADS``); None leaves it to the program.
        environment: further variables of the program.
        options: further options of ``pinfold record``, such as ``["--region", "solve"]``.

    Returns:
        the recording. The program writes where Python writes.

    Raises:
        PinfoldError: the program cannot be run or recorded, or ended with another status than 0.
        FileNotFoundError: the binary ``pinfold`` is not there.
    """
    words = [command] if isinstance(command, str | os.PathLike) else list(command)
    variables = dict(environment or {})
    if threads is not None:
        variables["OMP_NUM_THREADS"] = str(threads)
    call = ["record", "--output", output, *options, "--", *words]
    done = subprocess.run(
        [str(binary.find_binary()), *(os.fspath(word) for word in call)],
        env=os.environ | variables,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("pinfold: ")
        shown = " ".join(os.fspath(word) for word in words)
        raise binary.PinfoldError(said or f"`{shown}` ended with status {done.returncode} while it was recorded")
    return Recording(output)
