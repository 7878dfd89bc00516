"""The simulated machine's scheduler compared with a real kernel: where threads that nobody pins end up.

The kernel runs in the emulated machine of four packages (``tests/guest_scheduler.py``). The model has the same shape.
What counts is how many threads each package has, the fullest first: which of equal packages comes first is chance.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pinfold.evaluation.sam.runs import recording
from pinfold.evaluation.section import Part, Table, output, run_json
from pinfold.evaluation.workloads import Workload

PACKAGES = 4
GUEST = Path("tests/guest_scheduler.py")
MODEL = Path("machines/e5-4650x4.toml")
COMPUTES = Workload("compute", 0, "--size 2k --iterations 2")
RUNS = {False: 30, True: 3}
"""By whether the evaluation is a reduced one."""
THREADS = (2, 3, 4, 8, 10)
CORES = {False: (2, 16), True: (2,)}
"""Cores of a package: few, so that an eighth of them is less than a thread, and many."""

Spread = tuple[int, ...]
"""The threads of the packages, the fullest first."""


def spread(cpus: Sequence[int], cores: int) -> Spread:
    """Count the threads of each package, which has so many cores."""
    threads = Counter(cpu // cores for cpu in cpus)
    return tuple(sorted((threads[package] for package in range(PACKAGES)), reverse=True))


def agreement(one: Iterable[Spread], other: Iterable[Spread]) -> float:
    """Return the share of runs that have the same spread in both: the common part of two distributions.

    Examples
    --------
    >>> agreement([(2, 0), (1, 1)], [(1, 1), (1, 1)])
    0.5
    """
    ours, theirs = Counter(one), Counter(other)
    shares = (min(ours[key] / ours.total(), theirs[key] / theirs.total()) for key in ours)
    return sum(shares)


def same_shape(cores: int, folder: Path) -> Path:
    """Write a model with the shape of the emulated machine."""
    text = re.sub(r"(?m)^smt_throughput.*\n", "", MODEL.read_text())
    for name, count in {"cores_per_package": cores, "threads_per_core": 1}.items():
        text = re.sub(rf"(?m)^{name} = {{ count = \d+", f"{name} = {{ count = {count}", text)
    text = text.replace("cores = { count = 8", f"cores = {{ count = {cores}")
    file = folder / f"four_packages_of_{cores}.toml"
    file.write_text(text)
    return file


def modelled(cores: int, threads: int, runs: int) -> list[Spread]:
    """Run a program that computes on the model, and return its spreads at the end."""
    program = recording(COMPUTES, threads)
    with tempfile.TemporaryDirectory() as folder:
        machine = same_shape(cores, Path(folder))
        arguments = ["--machine", str(machine), "--policy", "none", "--repeat", "1"]
        ran = (run_json([*arguments, "--seed", str(seed), str(program)], []) for seed in range(runs))
        return [spread(one["simulation"]["programs"][0]["pus"], cores) for one in ran]


def observed(cores: int, runs: int) -> dict[str, Any]:
    """Run such programs on the real kernel."""
    command = [sys.executable, str(GUEST), str(cores), *map(str, THREADS), "--runs", str(runs)]
    found: dict[str, Any] = json.loads(output(command))
    return found


def scheduler(quick: bool) -> Part:
    """Compare both on each shape."""
    rows: list[dict[str, Any]] = []
    for cores in CORES[quick]:
        kernel = observed(cores, RUNS[quick])
        if why := kernel.get("missing"):
            return Part({"scheduler": {"missing": why}}, table([]), f"The scheduler was not compared: {why}.", [])
        for threads in THREADS:
            runs = kernel["placed"][str(threads)]
            there = [spread(run[-1], cores) for run in runs]
            here = modelled(cores, threads, RUNS[quick])
            rows.append(
                {
                    "kernel": kernel["kernel"],
                    "cores": cores,
                    "threads": threads,
                    "runs": len(runs),
                    "seconds": kernel["seconds"],
                    "observed": shares(there),
                    "modelled": shares(here),
                    "agreement": agreement(there, here),
                    "moves_per_task": moves(runs),
                }
            )
    least = min(row["agreement"] for row in rows)
    return Part({"scheduler": rows, "scheduler_least_agreement": least}, table(rows), text(rows), commands(quick))


def moves(runs: Sequence[Sequence[Sequence[int]]]) -> float:
    """Return how often a thread changed its CPU in a run, on average."""
    changes = [
        before != after
        for run in runs
        for one, next_one in pairwise(run)
        for before, after in zip(one, next_one, strict=True)
    ]
    threads = sum(len(run[0]) for run in runs)
    return sum(changes) / threads


def shares(spreads: Sequence[Spread]) -> dict[str, float]:
    """Return the share of runs with each spread, the most frequent first."""
    counts = Counter(spreads)
    return {"+".join(map(str, key)): count / counts.total() for key, count in counts.most_common()}


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Show both beside each other."""

    def said(found: Mapping[str, float]) -> str:
        return ", ".join(f"{name} ({share:.0%})" for name, share in found.items())

    body = [
        [
            str(row["cores"]),
            str(row["threads"]),
            said(row["observed"]),
            said(row["modelled"]),
            f"{row['agreement']:.0%}",
            f"{row['moves_per_task']:.2f}",
        ]
        for row in rows
    ]
    columns = ["cores of a package", "threads", "Linux", "simulated", "the same", "moves of a thread, Linux"]
    return Table(columns, body, "Threads on the four packages, the fullest package first, with the share of runs:")


def text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Describe the experiment."""
    return (
        "**The scheduler**: programs that compute without waiting, with threads that nobody pins, on Linux "
        f"{rows[0]['kernel']} in an emulated machine of four packages, and on a model of the same shape; "
        f"{rows[0]['runs']} runs each, {rows[0]['seconds']} s on Linux. Linux lets a program begin on one package "
        "as long as that has few tasks, one for eight CPUs, and tolerates a difference of two tasks there. The model "
        "follows the same rule. With more threads than CPUs Linux moves threads around; the model does not, and its "
        "threads share a CPU for the whole run."
    )


def commands(quick: bool) -> list[str]:
    """Return the commands that observe the kernel."""
    threads = " ".join(map(str, THREADS))
    return [f"python {GUEST} {cores} {threads} --runs {RUNS[quick]}" for cores in CORES[quick]]
