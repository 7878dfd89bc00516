"""The sweep for ``classify``: programs with a thread for each core, in the four strategies of Denoyelle et al.

The machines are those of the paper (ICPP 2019, table 4) and two of its outlook. Each has its own number of cores, so
each program (:mod:`pinfold.evaluation.placement_programs`) is recorded once for each machine. Applications are recorded
for the first one only: with a thread for each core a recording takes a minute. Results are in
``target/evaluation/placement``, in a folder for each build of pinfold, and existing ones are not made again. At the end
two data sets have all of them: ``development`` and ``judged``. Their rows have the metrics of the paper's table 2, too,
which come from the recording, and what the policy ``classify`` observes of the program under the default strategy.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import get_args

import pyarrow
import pyarrow.parquet

from pinfold.applications.data_sets import named
from pinfold.applications.recording import FailedError
from pinfold.evaluation.build_folder import build_folder
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.placement_programs import Machine, Program, own, real
from pinfold.evaluation.section import PINFOLD
from pinfold.joined import joined
from pinfold.learn.placement_data import observe
from pinfold.split import Part

PAPER_MACHINES = ("e5-2680v3x2", "e5-2650lv4x2", "gold-6140x2")
MACHINES = (*PAPER_MACHINES, "epyc-7763x2", "xeon-8480x2")

WITH_APPLICATIONS = PAPER_MACHINES[:1]

RESULTS = Path("target/evaluation/placement")

TRIES = 5
"""How often a program is recorded until as many threads live at the same time as the machine has cores."""


def folder() -> Path:
    """Return the folder of this build, or of one that gives the same results."""
    return build_folder(RESULTS)


@dataclass(frozen=True)
class Job:
    """A program on a machine, with a thread for each of its cores."""

    machine: str
    program: Program

    @property
    def data(self) -> Path:
        """The data set of this job."""
        return folder() / f"{self.program.name}-{self.machine}.parquet"

    @property
    def failure(self) -> Path:
        """The file with the reason why there is none."""
        return self.data.with_suffix(".failed")


@dataclass(frozen=True)
class Swept:
    """What was swept.

    Attributes
    ----------
    files : mapping of str to Path
        The data set of each part of the split that has programs. Own workloads belong to development.
    failed : mapping of str to str
        For each program and machine without rows the reason.
    """

    files: Mapping[Part, Path]
    failed: Mapping[str, str]


def sweep(quick: bool, machines: Sequence[str] = MACHINES) -> Swept:
    """Sweep what is missing, one machine after the other. The reduced set has no applications."""
    jobs: dict[Part, list[Job]] = {part: [] for part in get_args(Part)}
    for machine in machines:
        jobs["development"] += [Job(machine, program) for program in own(machine, quick)]
        if not quick and machine in WITH_APPLICATIONS:
            for part, of_part in jobs.items():
                of_part += [Job(machine, program) for program in real(part, Path())]
    ordered = sorted(itertools.chain(*jobs.values()), key=lambda job: machines.index(job.machine))
    # A sweep of four configurations has too little work for all processors at its begin and end.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(partial(_swept, locks=defaultdict(Lock)), ordered))
    files: dict[Part, Path] = {}
    failed: dict[str, str] = {}
    for part, of_part in jobs.items():
        failed |= {
            f"{one.program.name} on {one.machine}": one.failure.read_text() for one in of_part if _has_failed(one)
        }
        if found := [job.data for job in of_part if job.data.exists()]:
            files[part] = RESULTS / f"{part}{'-quick' if quick else ''}.parquet"
            table = joined([pyarrow.parquet.read_table(file) for file in found])
            pyarrow.parquet.write_table(table, files[part], compression="zstd")
    return Swept(files, failed)


def _has_failed(job: Job) -> bool:
    return not job.data.exists() and job.failure.exists()


def _swept(job: Job, locks: Mapping[str, Lock]) -> None:
    """Sweep a job that is not done; not beside another one of its program, because these share files."""
    with locks[job.program.name]:
        if job.data.exists() or job.failure.exists():
            return
        print(f"placement: {job.program.name} on {job.machine}", file=sys.stderr, flush=True)
        try:
            made_once(job.data, partial(_sweep, job))
        except FailedError as error:
            job.failure.write_text(str(error))
            print(f"placement: {job.program.name} on {job.machine}: {error}", file=sys.stderr, flush=True)


def _sweep(job: Job, data: Path) -> None:
    cores = Machine.of(job.machine).cores
    recording = data.with_suffix(f"{data.suffix}-pft")
    asked, lived = cores, 0
    for _ in range(TRIES):
        before = asked, lived
        try:
            job.program.record(asked, recording)
            table = observe(PINFOLD, recording, job.machine)
        except ValueError as error:
            raise FailedError(str(error)) from error
        finally:
            recording.unlink(missing_ok=True)
        (lived,) = set(table["num_threads"].to_pylist())
        if lived == cores:
            title = job.program.title
            pyarrow.parquet.write_table(named(table, *title) if title else table, data, compression="zstd")
            return
        # Threads of a pool often have others beside them, which wait.
        asked = min(asked, cores - (lived - asked)) if asked < lived < 2 * cores else asked
        if before == (asked, lived):
            break
    raise FailedError(f"it has {lived} threads at the same time where it should have {cores}")


if __name__ == "__main__":
    asked = sweep("--quick" in sys.argv[1:], [word for word in sys.argv[1:] if not word.startswith("-")] or MACHINES)
    print(*asked.files.values(), *(f"failed: {one}: {reason}" for one, reason in asked.failed.items()), sep="\n")
