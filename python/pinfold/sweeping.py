"""Sweeps: recordings in many configurations, as a table."""

from __future__ import annotations

import importlib
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pinfold import binary

SomeFile = str | os.PathLike[str]


def sweep(  # noqa: PLR0913 - each is a property of the sweep
    recordings: SomeFile | Sequence[SomeFile],
    machines: str | Sequence[str],
    space: str,
    *,
    output: SomeFile | None = None,
    sampled: bool = False,
    jobs: int | None = None,
    limit: int | None = None,
    progress: bool = True,
) -> pa.Table:
    """Simulate recordings in all configurations of a space, and return the data set as an Arrow table.

    Args:
        recordings: one recording or several.
        machines: names of `machines`, or paths of models; one or several.
        space: the configurations: a name that ``pinfold sweep --help`` lists, or a ``FILE.toml``.
        output: the Parquet file of the data set. Called again, an interrupted sweep continues from this file. None:
            only the returned table has the data set.
        sampled: simulate pieces of long recordings, and estimate the times of the whole from them, with their errors.
        jobs: how many configurations are simulated at the same time; None: one for each CPU that is allowed.
        limit: of the placements of the space ``threads`` take at most this many, the most different ones.
        progress: show a progress bar, if the package tqdm is there: in a notebook, or on standard error.

    Returns:
        a row for each configuration of each program or region, with the columns of docs/formats/data-sets.md, all
        simulated. ``.to_pandas()`` and ``polars.from_arrow`` make frames of it.

    Raises:
        PinfoldError: the sweep cannot be done; the text says why. KeyboardInterrupt: finished configurations are kept
        beside ``output``.
    """
    files: Sequence[SomeFile] = [recordings] if isinstance(recordings, str | os.PathLike) else recordings
    names = [machines] if isinstance(machines, str) else machines
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        data = Path(folder, "data.parquet") if output is None else Path(output)
        words: list[SomeFile] = ["sweep", "--space", space, "--output", data, "--force", "--progress", "lines"]
        words += [word for name in names for word in ("--machine", name)]
        words += ["--sampled"] if sampled else []
        words += [] if jobs is None else ["--jobs", str(jobs)]
        words += [] if limit is None else ["--limit", str(limit)]
        binary.call([*words, *files], stack.enter_context(Bar(progress)).said)
        return pq.read_table(data)


class Bar:
    """A progress bar of tqdm; nothing if tqdm is missing or no bar is wanted."""

    def __init__(self, shown: bool) -> None:
        """Store whether it is shown."""
        self._make = _tqdm() if shown else None
        self._bar: Any = None

    def __enter__(self) -> Bar:
        """Show nothing yet: the number of configurations is not known."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()

    def said(self, line: str) -> None:
        """Take a line of the binary: ``3/288`` moves the bar."""
        if self._make is None or (found := re.fullmatch(r"(\d+)/(\d+)", line)) is None:
            return
        done, total = map(int, found.groups())
        if self._bar is None:
            self._bar = self._make(total=total, initial=done, unit=" configurations")
        self._bar.update(done - self._bar.n)


def _tqdm() -> Callable[..., Any] | None:
    """Return the bar for where Python runs, if there is one."""
    try:
        found: Callable[..., Any] = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None
    return found
