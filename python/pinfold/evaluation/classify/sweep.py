"""The sweep for ``classify``: programs with a thread for each core, in the four strategies of Denoyelle et al.

The machines are those of the paper (ICPP 2019, table 4) and two of its outlook. Each has its own number of cores, so
each program (:mod:`pinfold.evaluation.classify.programs`) is recorded once for each machine. On the last one, with the
largest caches, each program has one input: with all of them it would take many hours.
Applications are recorded for the first machine only: with a thread for each core a recording takes a minute. Results
are in ``target/evaluation/placement``, in a folder for each build of pinfold, and existing ones are not made again. At
the end two data sets have all of them: ``development`` and ``judged``. Their rows have the metrics of the paper's table
2, too, which come from the recording, and what the policy ``classify`` observes of the program under the default
strategy.

``python -m pinfold.evaluation.classify.sweep [--quick] [--times-of FILE.parquet] [MACHINE...]``; with ``--times-of``,
programs of that data set are recorded and observed again, and keep their times and all else. That takes a third of the
time, and is for when the policy sees more than before. Rows of applications are taken over as they are.
"""

from __future__ import annotations

import argparse
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
from pinfold.evaluation.classify.programs import Machine, Program, own, real
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import PINFOLD
from pinfold.joined import joined
from pinfold.learn.classify.data import default_seconds, observe, sampled, with_columns
from pinfold.split import Part

PAPER_MACHINES = ("e5-2680v3x2", "e5-2650lv4x2", "gold-6140x2")
OUTLOOK_MACHINES = ("epyc-7763x2", "xeon-8480x2")
MACHINES = (*PAPER_MACHINES, *OUTLOOK_MACHINES)

WITH_APPLICATIONS = PAPER_MACHINES[:1]

WITH_ONE_INPUT = OUTLOOK_MACHINES[1:]

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
    def command(self) -> str:
        """What its rows have as the command."""
        return self.program.command(Machine.of(self.machine).cores)

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


def sweep(quick: bool, machines: Sequence[str] = MACHINES, times_of: Path | None = None) -> Swept:
    """Sweep what is missing, one machine after the other. The reduced set has no applications.

    Args:
        quick: whether it is the reduced set.
        machines: the machines.
        times_of: a data set whose programs are observed again only.
    """
    known = _rows_of(times_of) if times_of else {}
    jobs: dict[Part, list[Job]] = {part: [] for part in get_args(Part)}
    for machine in machines:
        programs = own(machine, quick, one_input=machine in WITH_ONE_INPUT)
        jobs["development"] += [Job(machine, program) for program in programs]
        if not quick and machine in WITH_APPLICATIONS:
            for part, of_part in jobs.items():
                of_part += [Job(machine, program) for program in real(part, Path())]
    ordered = sorted(itertools.chain(*jobs.values()), key=lambda job: machines.index(job.machine))
    # A sweep of four configurations has too little work for all processors at its begin and end.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(partial(_swept, known=known, locks=defaultdict(Lock)), ordered))
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


def _rows_of(file: Path) -> dict[tuple[str, str], pyarrow.Table]:
    """Return the rows of a data set for each machine and command."""
    table = pyarrow.parquet.read_table(file)
    places = defaultdict(list)
    for place, of in enumerate(zip(table["machine"].to_pylist(), table["command"].to_pylist(), strict=True)):
        places[of].append(place)
    return {of: table.take(rows) for of, rows in places.items()}


def _swept(job: Job, known: Mapping[tuple[str, str], pyarrow.Table], locks: Mapping[str, Lock]) -> None:
    """Sweep a job that is not done; not beside another one of its program, because these share files."""
    with locks[job.program.name]:
        if job.data.exists() or job.failure.exists():
            return
        print(f"placement: {job.program.name} on {job.machine}", file=sys.stderr, flush=True)
        try:
            rows = known.get((job.machine, job.command)) if known else None
            made_once(job.data, partial(_sweep, job) if rows is None else partial(_observe_again, job, rows))
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


def _observe_again(job: Job, rows: pyarrow.Table, data: Path) -> None:
    """Write the rows of a job with what is observed of a new recording."""
    if not job.program.title:
        recording = data.with_suffix(f"{data.suffix}-pft")
        try:
            job.program.record(Machine.of(job.machine).cores, recording)
            rows = with_columns(rows, sampled(PINFOLD, recording, job.machine, default_seconds(rows)))
        except ValueError as error:
            raise FailedError(str(error)) from error
        finally:
            recording.unlink(missing_ok=True)
    pyarrow.parquet.write_table(rows, data, compression="zstd")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m pinfold.evaluation.classify.sweep")
    parser.add_argument("--quick", action="store_true", help="sweep the reduced set")
    parser.add_argument("--times-of", type=Path, help="observe the programs of this data set again")
    parser.add_argument("machines", nargs="*", metavar="MACHINE", help="a machine (default: all)")
    words = parser.parse_args()
    asked = sweep(words.quick, words.machines or MACHINES, words.times_of)
    print(*asked.files.values(), *(f"failed: {one}: {reason}" for one, reason in asked.failed.items()), sep="\n")
