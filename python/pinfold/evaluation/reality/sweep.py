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


def sweep(quick: bool) -> Swept:
    """Sweep the missing regions."""
    regions = [*workloads(quick), *([] if quick else beyond_caches())]
    jobs = [Job(MACHINE, workload, SPACE, THREADS, RESULTS, PRECISION) for workload in regions]
    random.Random(1).shuffle(jobs)
    return swept(jobs, RESULTS / f"regions{'-quick' if quick else ''}.parquet")


if __name__ == "__main__":
    made = sweep("--quick" in sys.argv[1:])
    print(made.file, *(f"failed: {one}: {reason}" for one, reason in made.failed.items()), sep="\n")
