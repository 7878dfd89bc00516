"""Recorded programs on simulated machines: under SAM, under the Linux-like scheduler, and pinned.

Each workload is recorded once for each number of threads and each build of pinfold, in ``target/evaluation/sam``.
Existing recordings and finished runs are not made again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from pinfold.evaluation.finished import Run, finished
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import record
from pinfold.evaluation.side_by_side import LASTS, run
from pinfold.evaluation.workloads import Workload, build

MACHINE = "e5-2660v2x2"
CORES = 10  # Cores of a package; the first PUs of the cores are 0 to 9 and 10 to 19.

RECORDINGS = Path("target/evaluation/sam")


def recording(workload: Workload, threads: int) -> Path:
    """Record a workload, unless the recording exists."""
    region = [] if workload.region is None else ["--region", str(workload.region)]
    file = RECORDINGS / build() / f"{workload.name}-{threads}.pft"
    return made_once(file, lambda unfinished: record(workload.command(threads), unfinished, *region))


def linux(files: Sequence[Path], seed: int, *options: str, machine: str = MACHINE) -> Run:
    """Leave the tasks to the scheduler."""
    return run(files, "--policy", "none", *options, machine=machine, seed=seed)


def sam(files: Sequence[Path], seed: int, *options: str, machine: str = MACHINE) -> Run:
    """Let SAM map them."""
    return run(files, "--policy", "sam", *options, machine=machine, seed=seed)


def static_mappings(threads: int) -> dict[str, list[int]]:
    """Return mappings of one program, with a core for each thread, up to the symmetry of both packages.

    All mappings that keep neighbours in rank together, and those that separate neighbours, or pairs of them. Threads
    that outnumber a package's cores may also share one package with SMT siblings.
    """
    first, second = list(range(CORES)), list(range(CORES, 2 * CORES))
    mappings = {
        f"{threads - there}+{there}": first[: threads - there] + second[:there]
        for there in range(threads // 2 + 1)
        if threads - there <= CORES
    }
    if threads > CORES:
        mappings[f"{threads}+0, on siblings"] = (first + [pu + 2 * CORES for pu in first])[:threads]
    for together in (1, 2):
        places = [iter(first), iter(second)]
        mappings[f"in turn, {together} at a time"] = [next(places[rank // together % 2]) for rank in range(threads)]
    return mappings


def best_static(file: Path, threads: int) -> tuple[float, str]:
    """Find the best static mapping of a program that runs alone: its speed, and its name."""
    mappings = static_mappings(threads)
    schedules = [word for pus in mappings.values() for word in ("--schedule", ",".join(map(str, pus)))]
    arguments = ["--machine", MACHINE, "--policy", "autopin", "--metric", "iterations", "--probe", LASTS, *schedules]
    rates = zip(finished(arguments, [file]).rates, mappings, strict=True)
    return max(((rate, name) for rate, name in rates if rate is not None), key=itemgetter(0))


def per_cycle(events: dict[str, float], *names: str) -> float:
    """Return the sum of these events per unhalted cycle."""
    cycles = events["cycles"]
    return math.fsum(events[name] for name in names) / cycles if cycles else 0.0
