"""The sweep for ``reality``: the regions of ``react`` on a machine like the measured one, siblings included.

Each region (:mod:`pinfold.evaluation.react.programs`), also with data beyond all caches, is recorded with each number
of threads of the space ``ics20+smt`` on ``gold-6142x2``, and swept in all its configurations. Results are in
``target/evaluation/reality``, in a folder for each build of pinfold, and existing ones are not made again. The regions
come in a fixed random order, so an interrupted sweep has some of every kind.

``python -m pinfold.evaluation.reality.sweep [--quick]``
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pinfold.evaluation.react.programs import beyond_caches, workloads
from pinfold.evaluation.react.sweep import Job, Swept, swept

MACHINE = "gold-6142x2"
"""Two nodes of 16 Skylake cores with SMT, as the measured machine."""

SPACE = "ics20+smt"

THREADS = (8, 16, 32, 64)
"""The numbers of threads of the space on the machine."""

PRECISION = "5%"
"""The half-width of the intervals of sampled times. Figures are of a population, whose regions differ by more."""

RESULTS = Path("target/evaluation/reality")


@dataclass(frozen=True)
class Progress:
    """A sweep that may be incomplete.

    Attributes
    ----------
    swept : Swept
        The regions with rows, and those that failed.
    missing : tuple of str
        The workloads of the regions that were not swept.
    regions : int
        The number of all regions.
    """

    swept: Swept
    missing: tuple[str, ...]
    regions: int


def sweep(quick: bool) -> Progress:
    """Sweep the missing regions."""
    return _progress(_jobs(quick), quick)


def partial(quick: bool) -> Progress:
    """Return the regions that are there, and sweep none."""
    return _progress([job for job in _jobs(quick) if job.data.exists() or job.failure.exists()], quick)


def _progress(jobs: Sequence[Job], quick: bool) -> Progress:
    every = _jobs(quick)
    missing = sorted({job.workload.name for job in every} - {job.workload.name for job in jobs})
    # Another process may be sweeping: it writes its own file of all regions when it is done.
    name = f"regions{'-quick' if quick else ''}{'-partial' if missing else ''}.parquet"
    return Progress(swept(jobs, RESULTS / name), tuple(missing), len(every))


def _jobs(quick: bool) -> list[Job]:
    regions = [*workloads(quick), *([] if quick else beyond_caches())]
    jobs = [Job(MACHINE, workload, SPACE, THREADS, RESULTS, PRECISION) for workload in regions]
    random.Random(1).shuffle(jobs)
    return jobs


if __name__ == "__main__":
    made = sweep("--quick" in sys.argv[1:]).swept
    print(made.file, *(f"failed: {one}: {reason}" for one, reason in made.failed.items()), sep="\n")
