"""The sweep for the evaluation of AutoFinity: recorded workloads with several thread counts on the simulated Opterons.

For each number of threads, each workload is recorded once, only the parallel region with its work, and swept: with 4
and 8 threads in all placements, with more in those of the affinity hints, including packed and distributed, and in some
others. Each result is a file in ``target/evaluation/autofinity`` beside its recording, in a folder for each build of
pinfold, and existing results are not computed again. The recordings stay: policies are run on them
(:mod:`pinfold.evaluation.judged.judging`). At the end one data set has all of them:
``target/evaluation/autofinity.parquet``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet

from pinfold.evaluation import workloads
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import PINFOLD, output, record
from pinfold.evaluation.workloads import WORKLOADS, Workload, build
from pinfold.joined import joined

MACHINE = "opteron-6164x4"
TRAINING_THREADS = 8
THREADS = (4, 8, 16, 24)
"""The paper's thread counts (Moore and Childers, 2012, section 3.6)."""

RESULTS = Path("target/evaluation/autofinity")
MOST = 24
"""The number of placements that are swept where there are many, beside those of the hints."""

ATTEMPTS = 5
"""How often a recording is repeated in which not all threads lived at the same time."""


def commands() -> list[str]:
    """Return commands that make one program's part of the data set, and the figures of the whole data set."""
    first = WORKLOADS[0]
    return [
        f"pinfold record --region {first.region} -o {first.program}.pft -- {' '.join(first.command(TRAINING_THREADS))}",
        f"pinfold sweep --machine {MACHINE} --space threads -o {first.program}.parquet {first.program}.pft",
        f"pinfold learn evaluate hints --data {RESULTS.with_name('autofinity.parquet')} --report report.html",
    ]


@dataclass(frozen=True)
class Sweep:
    """A workload with a number of threads, swept.

    Attributes
    ----------
    workload : Workload
        The workload.
    threads : int
        The number of threads.
    data : Path
        The data set.
    recording : Path
        The recording.
    """

    workload: Workload
    threads: int
    data: Path
    recording: Path


def sweeps(quick: bool) -> list[Sweep]:
    """Record and sweep what is missing, and return all of it."""
    folder = RESULTS / build()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [workload for workload in WORKLOADS if workload.quick or not quick]
    # The training threads first: their rules are judged on the others.
    counts = sorted(THREADS, key=lambda threads: threads != TRAINING_THREADS)
    jobs = [(threads, workload) for threads in counts for workload in wanted]
    found = []
    for number, (threads, workload) in enumerate(jobs, 1):
        print(f"autofinity: sweep {number} of {len(jobs)}: {workload.name}, {threads} threads", file=sys.stderr)
        data = swept(folder, workload, threads)
        found.append(Sweep(workload, threads, data, data.with_suffix(".pft")))
    return found


def data_set(of: Sequence[Sweep], quick: bool) -> Path:
    """Return all sweeps as one data set."""
    together = RESULTS.with_name("autofinity-quick.parquet" if quick else "autofinity.parquet")
    tables = [pyarrow.parquet.read_table(one.data) for one in of]
    pyarrow.parquet.write_table(joined(tables), together, compression="zstd")
    return together


def space(threads: int) -> tuple[str, ...]:
    """Return the arguments of a sweep that name its placements, in all of their orders of ranks.

    These are all placements where there are few: 11 of 4 threads and 80 of 8. Of 912 and 1979 of 16 and 24 threads,
    they are those of the hints and the most different ones.
    """
    if threads <= TRAINING_THREADS:
        return ("--space", "threads")
    return ("--space", "hints", "--space", "threads", "--limit", str(MOST))


def swept(folder: Path, workload: Workload, threads: int) -> Path:
    """Record a workload and sweep the recording, unless the result exists."""
    data = folder / f"{workload.name}-{threads}.parquet"
    recording = data.with_suffix(".pft")
    if data.exists() and recording.exists():
        return data
    region = [] if workload.region is None else ["--region", str(workload.region)]
    for _ in range(ATTEMPTS):
        made_once(recording, lambda unfinished: record(workload.command(threads), unfinished, *region))
        made = data.with_suffix(".made")
        _sweep(recording, made, MACHINE, space(threads))
        (lived,) = set(pyarrow.parquet.read_table(made, columns=["num_threads"])["num_threads"].to_pylist())
        if lived == threads:
            made.rename(data)
            return data
        recording.unlink()
        made.unlink()
    sys.exit(
        f"`{' '.join(workload.command(threads))}` never had its {threads} threads at the same time in {ATTEMPTS} "
        f"recordings: give it more iterations in {Path(workloads.__file__).name}"
    )


def swept_elsewhere(one: Sweep, machine: str, placements: Sequence[str]) -> Path:
    """Sweep a workload on another machine, unless the result exists.

    Args:
        one: the workload, recorded.
        machine: the machine.
        placements: the arguments of the sweep that name its placements.
    """
    data = one.data.with_name(f"{one.data.stem}-{machine}.parquet")
    return made_once(data, lambda unfinished: _sweep(one.recording, unfinished, machine, placements))


def _sweep(recording: Path, data: Path, machine: str, placements: Sequence[str]) -> None:
    words = ["sweep", "--quiet", "--force", "--machine", machine, *placements, "-o", str(data), str(recording)]
    output([str(PINFOLD), *words])
