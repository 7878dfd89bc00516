"""Recorded programs on simulated machines: under SAM, under the Linux-like scheduler, and pinned.

Each workload is recorded once for each number of threads and each build of pinfold, in ``target/evaluation/sam``, which
also has the results. Existing results are not computed again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pinfold.evaluation.affinity_sweep import Workload, build
from pinfold.evaluation.section import record, run_json

MACHINE = "e5-2660v2x2"
CORES = 10  # Cores of a package; the first PUs of the cores are 0 to 9 and 10 to 19.
LASTS = "20s"  # Virtual duration of a run after the policy's first decision.

T = TypeVar("T")

RECORDINGS = Path("target/evaluation/sam")


@dataclass(frozen=True)
class Run:
    """The result of one run.

    Attributes
    ----------
    speeds : list of float
        By program: repetitions of its recorded region per second, over the whole run.
    events : list of dict
        By program: the counts of all its tasks, by event.
    ran : float
        Virtual seconds.
    moves : dict
        The number of moves for each reason; empty without SAM.
    """

    speeds: list[float]
    events: list[dict[str, float]]
    ran: float
    moves: dict[str, int]


def recording(workload: Workload, threads: int) -> Path:
    """Record a workload, unless the recording exists."""
    folder = RECORDINGS / build()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{workload.name}-{threads}.pft"
    if not file.exists():
        unfinished = file.with_suffix(f".{os.getpid()}")
        region = [] if workload.region is None else ["--region", str(workload.region)]
        record(workload.command(threads), unfinished, *region)
        unfinished.rename(file)
    return file


def run(files: Sequence[Path], *policy: str, machine: str = MACHINE, seed: int = 0) -> Run:
    """Run recordings side by side, unless the result exists."""
    arguments = ["--machine", machine, "--seed", str(seed), "--probe", LASTS, "--warm-up", "0s", *policy]
    arguments += map(str, files)
    kept = result(arguments)
    if not kept.exists():
        ran = run_json(arguments, [])
        programs = ran["simulation"]["programs"]
        found = {
            "speeds": [program["speed"] for program in programs],
            "events": [program["events"] for program in programs],
            "ran": ran["ran"],
            "moves": moves(ran),
        }
        write(kept, found)
    return Run(**json.loads(kept.read_text()))


def result(arguments: Sequence[str]) -> Path:
    """Name the file of a result: by this build, the arguments, and the content of threshold and machine files."""
    texts = [Path(word).read_text() if word.endswith(".toml") else word for word in arguments]
    key = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]
    return RECORDINGS / build() / f"{key}.json"


def write(file: Path, found: dict[str, Any]) -> None:
    """Write a complete result, or nothing."""
    unfinished = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    unfinished.write_text(json.dumps(found))
    unfinished.rename(file)


def moves(ran: dict[str, Any]) -> dict[str, int]:
    """Count the moves of a run by their reasons, without those that only make room for another."""
    return dict(Counter(move["reason"] for move in ran.get("moves", []) if not move["makes_room"]))


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
    arguments = ["--machine", MACHINE, "--policy", "autopin", "--metric", "iterations", "--probe", LASTS]
    arguments += [*schedules, str(file)]
    kept = result(arguments)
    if not kept.exists():
        ran = run_json(arguments, [])
        write(kept, {"rates": [candidate["rate"] for candidate in ran["candidates"]]})
    rates = json.loads(kept.read_text())["rates"]
    best = max(range(len(rates)), key=rates.__getitem__)
    return rates[best], list(mappings)[best]


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
