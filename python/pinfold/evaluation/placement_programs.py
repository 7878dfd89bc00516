"""What is swept for ``classify``: own workloads and real applications, with as many threads as a machine has cores.

Sizes of own workloads suit each machine: inside one last-level cache, and beyond all of them, where the first thread
touches all pages or each thread its own. What placement does to a program depends on that more than on the program.

An application is recorded as its description says, with another number of threads: of each of its runs the last phase.
One that is for judging only has a data set of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from pinfold.applications import description
from pinfold.applications.description import Application, Phase, Run
from pinfold.applications.install import is_installed
from pinfold.applications.places import Places
from pinfold.applications.recording import Recorder
from pinfold.evaluation.affinity_sweep import WORKLOADS, Workload
from pinfold.evaluation.section import PINFOLD, output, record
from pinfold.split import Part

Kind = Literal["partitioned", "shared"]
"""Whether each thread uses mostly a part of its own, or all threads use all of the data."""


@dataclass(frozen=True)
class Scaled:
    """A workload whose size is that of its data.

    Attributes
    ----------
    program, region, mode : str, int, str
        Of the workload; the mode may be empty.
    kind : str
        Which caches must be smaller than it, so that it is beyond them: all together, or each of them.
    """

    program: str
    region: int
    mode: str
    kind: Kind

    def workloads(self, caches: Caches) -> list[Workload]:
        """Return it inside and beyond the caches of a machine."""
        every = caches.size * caches.number
        beyond = 3 * every // 2 if self.kind == "partitioned" else min(4 * caches.size, LARGEST_SHARED)
        sizes = [(caches.size // 2, "parallel"), (beyond, "parallel"), (beyond, "serial")]
        return [self._workload(size, init) for size, init in sizes]

    def _workload(self, size: int, init: str) -> Workload:
        mode = f"--mode {self.mode} " if self.mode else ""
        return Workload(self.program, self.region, f"{mode}--size {size >> 10}k --iterations 1 --init {init}")


LARGEST_SHARED = 128 << 20
"""The largest size of irregular accesses in bytes: recordings of larger ones take minutes."""

SCALED = (
    Scaled("bfs", 1, "", "shared"),
    Scaled("fft", 1, "", "partitioned"),
    Scaled("graph_chase", 1, "read", "shared"),
    Scaled("graph_chase", 1, "update", "shared"),
    Scaled("hash_join", 2, "", "shared"),
    Scaled("histogram", 1, "private", "partitioned"),
    Scaled("kmeans", 1, "", "partitioned"),
    Scaled("membench", 1, "row", "partitioned"),
    Scaled("membench", 1, "line", "partitioned"),
    Scaled("multigrid", 2, "", "partitioned"),
    Scaled("random_access", 1, "independent", "shared"),
    Scaled("sort", 1, "", "partitioned"),
    Scaled("spmv", 1, "", "partitioned"),
    Scaled("stencil", 1, "", "partitioned"),
    Scaled("stream", 1, "", "partitioned"),
)

UNSCALED = tuple(
    one for one in WORKLOADS if not any(one.program == of.program and of.mode in one.arguments for of in SCALED)
)
"""Workloads whose size is an amount of work, or whose work grows much faster than their data."""

REDUCED = ("barrier", "compute", "pairs", "spmv", "stream")
"""The programs of the reduced set."""


@dataclass(frozen=True)
class Caches:
    """The last-level caches of a machine: the size of each in bytes, and their number."""

    size: int
    number: int


@dataclass(frozen=True)
class Machine:
    """What is known of a machine before anything is recorded for it."""

    cores: int
    caches: Caches

    @classmethod
    @cache
    def of(cls, name: str) -> Machine:
        """Ask pinfold for a machine by its name."""
        found = json.loads(output([str(PINFOLD), "machines", "--json", name]))
        shape, last = found["shape"], found["cache"][-1]
        cores = shape["packages"]["value"] * shape["cores_per_package"]["value"]
        return cls(cores, Caches(last["size"]["value"], cores // last["cores"]["value"]))


class Program(Protocol):
    """A program with one input, which can be recorded with any number of threads."""

    @property
    def name(self) -> str:
        """The base of its files' names."""

    @property
    def title(self) -> tuple[str, str] | None:
        """The values of ``program`` and ``command`` in its rows; None for those of the recording."""

    def record(self, threads: int, file: Path) -> None:
        """Record it.

        Raises:
            FailedError: if it cannot be recorded with this number of threads.
        """


@dataclass(frozen=True)
class Own:
    """A program of ``workloads/``."""

    workload: Workload

    @property
    def name(self) -> str:
        """The base of its files' names."""
        return self.workload.name

    @property
    def title(self) -> None:
        """The rows have the names of the recording."""
        return

    def record(self, threads: int, file: Path) -> None:
        """Record its region with the work."""
        region = [] if self.workload.region is None else ["--region", str(self.workload.region)]
        record(self.workload.command(threads), file, *region)


@dataclass(frozen=True)
class Real:
    """A phase of an application."""

    application: Application
    run: Run
    phase: Phase
    places: Places

    @property
    def name(self) -> str:
        """The base of its files' names."""
        return f"{self.application.name}_{self.run.name}_{self.phase.name}"

    @property
    def title(self) -> tuple[str, str]:
        """The names as in the data sets of applications, without the number of threads: it is the machine's."""
        return self.application.name, f"{self.application.name} {self.run.name} {self.phase.name}"

    def record(self, threads: int, file: Path) -> None:
        """Record the phase with this number of threads."""
        recorder = Recorder(self.application, self.places)
        recorder.prepare()
        run = replace(self.run, threads=threads)
        recorder.record(run, self.phase)
        made = self.places.recording(run, self.phase)
        made.with_suffix(".json").unlink()
        made.rename(file)


def own(machine: str, quick: bool) -> list[Program]:
    """Return own workloads in the sizes for a machine; in the reduced set of some programs."""
    caches = Machine.of(machine).caches
    scaled = [workload for one in SCALED for workload in one.workloads(caches)]
    return [Own(one) for one in (*UNSCALED, *scaled) if not quick or one.program in REDUCED]


def real(part: Part, root: Path) -> list[list[Program]]:
    """Return the installed applications of a part of the split: the phases of each.

    Args:
        part: the part.
        root: the project's folder.
    """
    places = Places(root.resolve())
    chosen = [one for one in description.read(root) if one.part == part and is_installed(one, places)]
    return [
        [Real(application, run, run.phases[-1], places) for run in _runs(application)]
        for application in chosen
        if application.runs
    ]


def _runs(application: Application) -> Sequence[Run]:
    """Return a run of each name, whatever its number of threads."""
    return list({run.name: run for run in application.runs}.values())
