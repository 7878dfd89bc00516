"""Recorded programs on simulated machines: under SAM, under the Linux-like scheduler, and pinned.

Each workload is recorded once for each number of threads and each build of pinfold, in ``target/evaluation/sam``.
Existing recordings and finished runs are not made again.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from pinfold.evaluation.affinity_sweep import Workload, build
from pinfold.evaluation.finished import Run, finished
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import record

MACHINE = "e5-2660v2x2"
CORES = 10  # Cores of a package; the first PUs of the cores are 0 to 9 and 10 to 19.
LASTS = "20s"  # Virtual duration of a run after the policy's first decision.

T = TypeVar("T")

RECORDINGS = Path("target/evaluation/sam")


def recording(workload: Workload, threads: int) -> Path:
    """Record a workload, unless the recording exists."""
    region = [] if workload.region is None else ["--region", str(workload.region)]
    file = RECORDINGS / build() / f"{workload.name}-{threads}.pft"
    return made_once(file, lambda unfinished: record(workload.command(threads), unfinished, *region))


def run(files: Sequence[Path], *policy: str, machine: str = MACHINE, seed: int = 0) -> Run:
    """Run recordings side by side, unless that was done before."""
    arguments = ["--machine", machine, "--seed", str(seed), "--probe", LASTS, "--warm-up", "0s", *policy]
    # Thresholds, and machines that are no models of pinfold's.
    return finished(arguments, files, [Path(word) for word in arguments if word.endswith(".toml")])


def linux(files: Sequence[Path], seed: int, machine: str = MACHINE) -> Run:
    """Leave the tasks to the scheduler."""
    return run(files, "--policy", "none", machine=machine, seed=seed)


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


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return statistics.geometric_mean(values)


@cache
def pool() -> ThreadPoolExecutor:
    """Return an executor with as many workers as there are processors."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)))


def at_once(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Run independent jobs in parallel, and return their results in order."""
    return [future.result() for future in [pool().submit(job) for job in jobs]]


def per_cycle(events: dict[str, float], *names: str) -> float:
    """Return the sum of these events per unhalted cycle."""
    cycles = events["cycles"]
    return math.fsum(events[name] for name in names) / cycles if cycles else 0.0
