"""The sweep for ``react``: regions with three numbers of threads, in all configurations of Sánchez Barrera et al.

Each region (:mod:`pinfold.evaluation.react.programs`) is recorded with a quarter, a half and all of a machine's cores,
and swept in the space ``ics20``: 288 configurations on ``e5-4650x4``, 320 on ``platinum-8168x2``. Results are in
``target/evaluation/react``, in a folder for each build of pinfold, and existing ones are not made again. An interrupted
sweep of a region begins again with its recordings. At the end one data set has the regions of all machines: of each
workload the region with its work, in every configuration; the rows of whole programs and of other regions are left out.

``python -m pinfold.evaluation.react.sweep [--quick] [MACHINE ...]``
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from pinfold.applications.recording import FailedError
from pinfold.evaluation.build_folder import build_folder
from pinfold.evaluation.classify.programs import Machine
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.react.programs import NOT_SAMPLED, workloads
from pinfold.evaluation.section import PINFOLD, record
from pinfold.evaluation.workloads import Workload
from pinfold.joined import joined

MACHINES = ("e5-4650x4", "platinum-8168x2")
"""Models of the machines of Sánchez Barrera et al. (ICS 2020, section 3.1)."""

RESULTS = Path("target/evaluation/react")

SPACE = "ics20"

TRIES = 3
"""How often a region is recorded until as many threads live at the same time as are asked for."""

REGION = ("joined_command", "region_object", "region_offset")
"""The columns that identify a region with any number of threads."""


def folder(results: Path = RESULTS) -> Path:
    """Return the folder of this build, or of one that gives the same results."""
    return build_folder(results)


def thread_counts(machine: str) -> tuple[int, ...]:
    """Return the numbers of threads of the space ``ics20`` on a machine."""
    cores = Machine.of(machine).cores
    return cores // 4, cores // 2, cores


@dataclass(frozen=True)
class Job:
    """A region on a machine, with all its numbers of threads.

    Attributes
    ----------
    machine : str
        The machine.
    workload : Workload
        The program and its region.
    space : str
        The space of configurations.
    threads : tuple of int
        The numbers of threads of the space on the machine; empty for those of ``ics20``.
    results : Path
        The folder that has a folder for each build.
    precision : str
        The half-width of the intervals of sampled times.
    """

    machine: str
    workload: Workload
    space: str = SPACE
    threads: tuple[int, ...] = ()
    results: Path = RESULTS
    precision: str = "2%"

    @property
    def data(self) -> Path:
        """The data set of this job."""
        return folder(self.results) / f"{self.workload.name}-{self.machine}.parquet"

    @property
    def failure(self) -> Path:
        """The file with the reason why there is none."""
        return self.data.with_suffix(".failed")


@dataclass(frozen=True)
class Swept:
    """What was swept.

    Attributes
    ----------
    file : Path or None
        The data set of all regions; None if there is none.
    failed : mapping of str to str
        For each region and machine without rows the reason.
    """

    file: Path | None
    failed: Mapping[str, str]


def sweep(quick: bool, machines: Sequence[str] = MACHINES) -> Swept:
    """Sweep the missing regions, one after the other: a sweep has work for all processors."""
    jobs = [Job(machine, workload) for machine in machines for workload in workloads(quick)]
    return swept(jobs, RESULTS / f"regions{'-quick' if quick else ''}.parquet")


def swept(jobs: Sequence[Job], file: Path) -> Swept:
    """Sweep the missing regions of these jobs, and write the data set of all of them to a file."""
    failed = {}
    for number, job in enumerate(jobs, 1):
        name = f"{job.workload.name} on {job.machine}"
        if not job.data.exists() and not job.failure.exists():
            print(f"{job.results.name}: sweep {number} of {len(jobs)}: {name}", file=sys.stderr, flush=True)
            try:
                made_once(job.data, partial(_sweep, job))
            except FailedError as error:
                job.failure.write_text(str(error))
        if not job.data.exists():
            failed[name] = job.failure.read_text()
    tables = [work(pyarrow.parquet.read_table(job.data)) for job in jobs if job.data.exists()]
    if not tables:
        return Swept(None, failed)
    pyarrow.parquet.write_table(joined(tables), file, compression="zstd")
    return Swept(file, failed)


def work(table: pyarrow.Table) -> pyarrow.Table:
    """Return the rows of the region with the work: the complete one that takes the longest in the baseline.

    Args:
        table: a data set of one program on one machine.

    Raises:
        ValueError: if no region is complete.
    """
    compute = pyarrow.compute
    regions = table.filter(compute.and_(compute.is_valid(table["region_offset"]), table["region_complete"]))
    baseline = regions.filter(regions["baseline"]).sort_by([("time_s", "descending")])
    if baseline.num_rows == 0:
        raise ValueError("no region has rows with all numbers of threads")
    for column in REGION:
        regions = regions.filter(compute.equal(regions[column], baseline[column][0]))
    return regions


def record_and_sweep(job: Job, folder: Path) -> Path:
    """Record a program with each number of threads, and sweep the recordings; tried several times.

    Args:
        job: the program and the machine.
        folder: gets the recordings, ``THREADS.pft``, and the data set, which is returned.

    Raises:
        FailedError: if the recordings never have these numbers of threads.
    """
    workload, threads = job.workload, job.threads or thread_counts(job.machine)
    region = [] if workload.region is None else ["--region", str(workload.region)]
    sampled = [] if workload.program in NOT_SAMPLED else ["--sampled", "--precision", job.precision]
    data = folder / "data.parquet"
    said = ""
    for _ in range(TRIES):
        recordings = [folder / f"{number}.pft" for number in threads]
        for number, recording in zip(threads, recordings, strict=True):
            record(workload.command(number), recording, *region)
        words = ["sweep", "--quiet", *sampled, "--machine", job.machine, "--space", job.space, "-o", str(data)]
        command = [str(PINFOLD), *words, *map(str, recordings)]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        # A sweep refuses recordings with another number of threads before it simulates anything.
        if result.returncode == 0:
            return data
        said = result.stderr.strip()
    raise FailedError(said)


def _sweep(job: Job, data: Path) -> None:
    with TemporaryDirectory(dir=data.parent) as temporary:
        made = record_and_sweep(job, Path(temporary))
        try:
            work(pyarrow.parquet.read_table(made))
        except ValueError as error:
            raise FailedError(str(error)) from error
        made.rename(data)


if __name__ == "__main__":
    asked = sweep("--quick" in sys.argv[1:], [word for word in sys.argv[1:] if not word.startswith("-")] or MACHINES)
    print(asked.file, *(f"failed: {one}: {reason}" for one, reason in asked.failed.items()), sep="\n")
