"""How well a sweep on this machine agrees with `pinfold compare`, and what it costs beside the program.

Run in the project's root after ``make build``, on a machine that nothing else uses::

    python -m pinfold.evaluation.live_sweep -o target/live_sweep.json

Each workload runs with one and with two threads, unpinned, on one CPU and on two. `pinfold sweep` and `pinfold compare`
measure the same configurations in turns, in three rounds, each with its own order of runs. So a machine that becomes
slower meanwhile is slower for both. For each pair of configurations whose times differ by 5 % in the comparison, both
must have the same order.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

from pinfold.evaluation.section import PINFOLD, here

WORKLOADS = {
    "stream": ("--size", "192M", "--iterations", "60"),
    "compute": ("--size", "16M", "--iterations", "40"),
    "pairs": ("--iterations", "20000"),
    "false_sharing": ("--iterations", "120"),
}
"""The programs and their arguments, which fix the work: about a second on one CPU."""

CLEAR = 0.05
"""Two configurations whose times differ by this share must have the same order in both measurements."""

UNPINNED = "unpinned"

ROUNDS = 3
"""Sweeps and comparisons of each workload."""


@dataclass(frozen=True)
class Row:
    """A configuration in both measurements.

    Attributes
    ----------
    workload : str
        The program.
    threads : int
        The number of its threads.
    configuration : str
        The CPU of each thread, or ``unpinned``.
    sweep_s : float
        Seconds in the sweep, without the drift.
    compare_s : float
        The median of the comparison's times, in seconds.
    """

    workload: str
    threads: int
    configuration: str
    sweep_s: float
    compare_s: float

    @property
    def difference(self) -> float:
        """The sweep's time over the comparison's, minus one."""
        return self.sweep_s / self.compare_s - 1


@dataclass(frozen=True)
class Agreement:
    """How well two measurements of the same configurations agree.

    Attributes
    ----------
    pairs : int
        Pairs of configurations of one workload whose times differ clearly in the comparison.
    agreeing : int
        Pairs among these that have the same order in the sweep.
    median_difference : float
        The median of the absolute differences of the times, as a share.
    """

    pairs: int
    agreeing: int
    median_difference: float


def agreement(rows: Sequence[Row]) -> Agreement:
    """Compare the two measurements.

    >>> rows = [Row("a", 2, "0,0", 2.02, 2.0), Row("a", 2, "0,1", 1.0, 1.0), Row("a", 2, "unpinned", 0.99, 1.01)]
    >>> agreement(rows)
    Agreement(pairs=2, agreeing=2, median_difference=0.010000000000000009)
    """
    pairs = agreeing = 0
    for one, other in itertools.combinations(rows, 2):
        if one.workload != other.workload:
            continue
        ratio = one.compare_s / other.compare_s
        if max(ratio, 1 / ratio) < 1 + CLEAR:
            continue
        pairs += 1
        agreeing += (ratio > 1) == (one.sweep_s > other.sweep_s)
    return Agreement(pairs, agreeing, statistics.median(abs(row.difference) for row in rows))


def pinnings(threads: int) -> list[str]:
    """Return the placements on one CPU, and with several threads on two."""
    first, *others = sorted(os.sched_getaffinity(0))
    together = ",".join([str(first)] * threads)
    if threads == 1 or not others:
        return [together]
    return [together, f"{first},{others[-1]}"]


def swept(folder: Path, command: Sequence[str], threads: int, runs: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the times of a sweep by configuration, and its summary."""
    space, data, summary = folder / "space.toml", folder / "data.parquet", folder / "summary.json"
    space.write_text(f"[[configurations]]\npinnings = {json.dumps(pinnings(threads))}\n")
    words = ["sweep", "--quiet", "--force", "--space", space, "--threads", threads, "--runs", runs]
    run([*words, "--json", summary, "-o", data, "--", *command])
    rows = pyarrow.parquet.read_table(data, columns=["pinning", "time_s"]).to_pylist()
    times = {row["pinning"] or UNPINNED: row["time_s"] for row in rows}
    return times, json.loads(summary.read_text())


def compared(folder: Path, command: Sequence[str], threads: int, runs: int) -> dict[str, float]:
    """Return the median times of a comparison by configuration."""
    file = folder / "compare.json"
    policies = [f"--policy=fixed --schedule {pinning} --initialise 0s" for pinning in pinnings(threads)]
    run(["compare", "--quiet", *policies, "--runs", runs, "--export-json", file, "--", *command])
    results = json.loads(file.read_text())["results"]
    medians = {result["command"]: result["median"] for result in results}
    names = {f"fixed --schedule {pinning} --initialise 0s": pinning for pinning in pinnings(threads)} | {
        UNPINNED: UNPINNED
    }
    return {names[name]: median for name, median in medians.items() if name in names}


def medians(rounds: Sequence[dict[str, float]], name: str) -> float:
    """Return the median of the rounds' times of a configuration."""
    return statistics.median(times[name] for times in rounds)


def run(words: Sequence[object]) -> None:
    """Run a command of pinfold."""
    subprocess.run([str(PINFOLD), *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def measure(runs: int) -> dict[str, Any]:
    """Measure all workloads in both ways."""
    rows: list[Row] = []
    around = program = 0.0
    disturbed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for (workload, arguments), threads in itertools.product(WORKLOADS.items(), (1, 2)):
            command = [f"target/workloads/{workload}", "--threads", str(threads), *arguments]
            sweeps, comparisons = [], []
            for _ in range(ROUNDS):
                times, summary = swept(folder, command, threads, runs)
                sweeps.append(times)
                comparisons.append(compared(folder, command, threads, runs))
                around += summary["around_seconds"]
                program += summary["program_seconds"]
                disturbed += summary["runs_made"] - summary["runs"]
            rows += [
                Row(workload, threads, name, medians(sweeps, name), medians(comparisons, name))
                for name in sweeps[0]
                if name in comparisons[0]
            ]
            print(f"{workload} with {threads} threads is measured", file=sys.stderr)
    return {
        "machine": here(),
        "rounds": ROUNDS,
        "runs": runs,
        "repeated_runs": disturbed,
        "rows": [asdict(row) | {"difference": row.difference} for row in rows],
        **asdict(agreement(rows)),
        "cost": around / program,
    }


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m pinfold.evaluation.live_sweep", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the file for the result, as JSON")
    parser.add_argument("--runs", type=int, default=3, help="the runs of each configuration in a round (default: 3)")
    given = parser.parse_args()
    result = measure(given.runs)
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"{result['agreeing']} of {result['pairs']} clear pairs have the same order; median difference "
        f"{100 * result['median_difference']:.1f} %; cost {100 * result['cost']:.2f} % of the program's time"
    )


if __name__ == "__main__":
    main()
