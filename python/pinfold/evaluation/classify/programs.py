"""What is swept for ``classify``: own workloads and real applications, with as many threads as a machine has cores.

Sizes of own workloads suit each machine: inside one last-level cache, and beyond all of them, where the first thread
touches all pages or each thread its own. What placement does to a program depends on that more than on the program.

An application is recorded as its description says, with another number of threads: of its first run the last phase. One
that is for judging only has a data set of its own.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from pinfold.applications import description
from pinfold.applications.description import Application, Phase, Run
from pinfold.applications.install import is_installed
from pinfold.applications.places import Places
from pinfold.applications.recording import Recorder
from pinfold.evaluation.section import PINFOLD, output, record
from pinfold.evaluation.workloads import WORKLOADS, Workload
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
    largest : int
        The largest size, in MiB: of larger ones a sweep takes many minutes.
    iterations : int
        The number with which the window covers the program: more than one where an iteration has a fixed number of
        accesses.
    """

    program: str
    region: int
    mode: str
    kind: Kind
    largest: int
    iterations: int = 1

    def workloads(self, caches: Caches) -> list[Workload]:
        """Return it inside and beyond the caches of a machine."""
        beyond = 3 * caches.size * caches.number // 2 if self.kind == "partitioned" else 4 * caches.size
        sizes = [(caches.size // 2, "parallel"), (beyond, "parallel"), (beyond, "serial")]
        limited = [(min(size, self.largest << 20), init) for size, init in sizes]
        return [self._workload(size, init) for size, init in dict.fromkeys(limited)]

    def _workload(self, size: int, init: str) -> Workload:
        mode = f"--mode {self.mode} " if self.mode else ""
        return Workload(
            self.program, self.region, f"{mode}--size {size >> 10}k --iterations {self.iterations} --init {init}"
        )


SCALED = (
    Scaled("adi", 1, "", "partitioned", 256),
    Scaled("bfs", 1, "", "shared", 64),
    Scaled("cg", 1, "", "partitioned", 256),
    Scaled("fft", 1, "", "partitioned", 96),
    Scaled("graph_chase", 1, "read", "shared", 64, 4),
    Scaled("graph_chase", 1, "update", "shared", 64, 4),
    Scaled("gups", 1, "", "shared", 128),
    Scaled("hash_join", 2, "", "shared", 64),
    Scaled("histogram", 1, "private", "partitioned", 128),
    Scaled("kmeans", 1, "", "partitioned", 64),
    Scaled("lattice", 1, "", "partitioned", 512),
    Scaled("membench", 1, "row", "partitioned", 1024),
    Scaled("membench", 1, "line", "partitioned", 1024),
    Scaled("multigrid", 2, "", "partitioned", 128),
    Scaled("radix_sort", 1, "", "partitioned", 128),
    Scaled("random_access", 1, "independent", "shared", 64, 4),
    Scaled("ring", 1, "", "partitioned", 512),
    Scaled("sort", 1, "", "partitioned", 8),
    Scaled("spmv", 1, "", "partitioned", 512),
    Scaled("stencil", 1, "", "partitioned", 512),
    Scaled("stream", 1, "", "partitioned", 1024),
    Scaled("transpose", 1, "", "partitioned", 256),
    Scaled("wavefront", 1, "", "partitioned", 128),
)
"""Programs whose size is that of their data."""

SCALED_OF_THE_PAPER = (
    Scaled("anneal", 1, "", "shared", 64),
    Scaled("couple", 1, "", "partitioned", 96),
    Scaled("del_dot", 1, "", "partitioned", 128),
    Scaled("energy", 1, "", "partitioned", 96),
    Scaled("fir", 1, "", "partitioned", 128),
    Scaled("frequent", 1, "", "shared", 128),
    Scaled("hydro", 1, "", "partitioned", 128),
    Scaled("particles", 1, "", "shared", 128),
    Scaled("pic", 1, "", "partitioned", 128),
    Scaled("pressure", 1, "", "partitioned", 192),
    Scaled("su3", 1, "", "partitioned", 128),
    Scaled("vol3d", 1, "", "partitioned", 128),
)
"""These and :data:`AMOUNTS` follow the programs of Denoyelle et al. (ICPP 2019, table 3) by kind, where none of the
others did. They were chosen because that list has them. They were written, and their sizes set,
before anybody had measured or simulated how sensitive they are to placement. The first largest sizes kept ``del_dot``,
``fir``, ``frequent``, ``hydro``, ``particles``, ``pic`` and ``vol3d`` inside the caches of most machines, to save time.
They were raised to what "beyond all caches" says, for all seven, when the gate had been seen closed with them: from
0.33 to 0.34 of the programs were sensitive.
"""

AMOUNTS = (
    Workload("short_force", 1, "--size 128k --iterations 2"),
    Workload("swaptions", 0, "--size 256k --iterations 2"),
)
"""Programs of that list whose size is an amount of work, or that are bound by computing with any size."""

OF_THE_PAPER = frozenset(one.program for one in (*SCALED_OF_THE_PAPER, *AMOUNTS))
"""The programs that follow that list. Learners and their parameters had been chosen before these had been swept."""

SHARED_WORK = frozenset({"compute", "false_sharing", "hubench", "imbalance", "lubench", "monte_carlo", "swaptions"})
"""Programs whose size is the work of all threads together."""

CORES = 24
"""The cores of the machine for which the amounts of shared work were chosen: the paper's first."""

MANY_CORES = 100
"""With more cores than these, those amounts are too small."""

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

    def command(self, threads: int) -> str:
        """Return the value of ``command`` in its rows, with this number of threads."""

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

    def command(self, threads: int) -> str:
        """Return the command."""
        return " ".join(self.workload.command(threads))

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

    def command(self, threads: int) -> str:
        """Return its name, its run and its phase."""
        return self.title[1]

    def record(self, threads: int, file: Path) -> None:
        """Record the phase with this number of threads."""
        recorder = Recorder(self.application, self.places)
        recorder.prepare()
        run = replace(self.run, threads=threads)
        recorder.record(run, self.phase)
        made = self.places.recording(run, self.phase)
        made.with_suffix(".json").unlink()
        made.rename(file)


def own(machine: str, quick: bool, one_input: bool = False) -> list[Program]:
    """Return own workloads in the sizes for a machine.

    With more than :data:`MANY_CORES`, work that threads share grows with the cores: otherwise a parallel region would
    hardly last longer than it takes to begin and end.

    Args:
        machine: the machine.
        quick: whether it is the reduced set of some programs.
        one_input: whether each of :data:`SCALED` and :data:`SCALED_OF_THE_PAPER` has one input. Inputs take turns, so
            that nobody chooses: inside the caches, beyond them, and beyond them with one thread that touches all
            pages.
    """
    known = Machine.of(machine)
    inputs = [one.workloads(known.caches) for one in (*SCALED, *SCALED_OF_THE_PAPER)]
    amounts = [*UNSCALED, *AMOUNTS]
    if one_input:
        inputs = [[of[turn % len(of)]] for turn, of in enumerate(inputs)]
    if known.cores > MANY_CORES:
        amounts = [_grown(one, known.cores // CORES) for one in amounts]
    return [Own(one) for one in (*amounts, *itertools.chain(*inputs)) if not quick or one.program in REDUCED]


def _grown(workload: Workload, times: int) -> Workload:
    """Return a workload with that many times the work, where threads share a fixed amount of work."""
    if workload.program not in SHARED_WORK:
        return workload
    size = re.compile(r"(?<=--size )\d+")
    return replace(workload, arguments=size.sub(lambda found: str(int(found[0]) * times), workload.arguments))


def real(part: Part, root: Path) -> list[Program]:
    """Return the installed applications of a part of the split.

    Args:
        part: the part.
        root: the project's folder.
    """
    places = Places(root.resolve())
    chosen = [one for one in description.read(root) if one.part == part and one.runs and is_installed(one, places)]
    return [Real(one, one.runs[0], one.runs[0].phases[-1], places) for one in chosen]
