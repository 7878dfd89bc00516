"""Compares sweeps within one run with sweeps by whole runs, in the same configurations of workloads, on this machine.

Run in the project's root::

    python -m pinfold.evaluation.within_run [--runs N] [--rounds N] [WORKLOAD...]

A workload whose time is nearly all in one parallel region is swept in both ways: by ``pinfold sweep --within-run``
while it runs once, and by ``pinfold sweep`` with runs of each configuration. The times of one execution of the region
and of a whole run differ by a factor, the number of executions. So each time is divided by the geometric mean of all
configurations, and the two are compared. The configurations are the unpinned program, and its threads on one CPU, on
another one, and on both. A line for each workload has the median and the largest difference, and the time of the sweep
within a run for each configuration; the last line has the medians of all.

A figure is only worth as much as the machine is idle.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet

from pinfold.evaluation.section import PINFOLD

#: Workloads with one parallel region, and iterations of some seconds on a small machine: what a run does before its
#: iterations is in the times of whole runs only.
WORKLOADS = {
    "stream": 80,
    "compute": 30,
    "stencil": 40,
    "hydro": 40,
    "kmeans": 50,
    "nbody": 20,
    "spmv": 15,
    "lattice": 300,
}

Times = Mapping[str, float]


def swept(folder: Path, space: Path, *words: str) -> tuple[Times, dict[str, float]]:
    """Sweep, and return the time of each pinning in the longest region or in the program, and the summary."""
    output, summary = folder / "data.parquet", folder / "summary.json"
    command = [str(PINFOLD), "sweep", "-q", "--force", "--space", str(space), "-o", str(output), "--json", str(summary)]
    subprocess.run([*command, *words], check=True, stdout=subprocess.DEVNULL)
    rows = pyarrow.parquet.read_table(output).to_pylist()
    longest = max(rows, key=lambda row: float(row["time_s"]))["region"]
    times = {row["pinning"] or "unpinned": float(row["time_s"]) for row in rows if row["region"] == longest}
    return times, json.loads(summary.read_text())


def shares(times: Times) -> Times:
    """Return the times over their geometric mean."""
    mean = math.exp(statistics.mean(math.log(time) for time in times.values()))
    return {name: time / mean for name, time in times.items()}


def compared(one: Times, other: Times) -> list[float]:
    """Return the relative differences of the configurations that both have."""
    common = one.keys() & other.keys()
    first, second = (shares({name: times[name] for name in common}) for times in (one, other))
    return sorted(abs(first[name] / second[name] - 1) for name in common)


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="whole runs of each configuration [default: 5]")
    parser.add_argument("--rounds", type=int, default=6, help="measurements of each within the run [default: 6]")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", default=list(WORKLOADS))
    arguments = parser.parse_args()
    first, second = sorted(os.sched_getaffinity(0))[:2]
    medians, costs = [], []
    print("workload    configurations  median difference  largest  seconds a configuration")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        space = folder / "space.toml"
        space.write_text(f'[[configurations]]\npinnings = ["{first}", "{second}", "{first},{second}"]\n')
        for workload in arguments.workloads:
            program = [f"target/workloads/{workload}", "--threads", "2"]
            within = ["--within-run", "--end", "--rounds", str(arguments.rounds), "--threads", "2", "--"]
            inside, summary = swept(folder, space, *within, *program, "--seconds", "600")
            whole = ["--runs", str(arguments.runs), "--threads", "2", "--"]
            runs, _ = swept(folder, space, *whole, *program, "--iterations", str(WORKLOADS.get(workload, 20)))
            differences = compared(inside, runs)
            medians.append(statistics.median(differences))
            costs.append(summary["seconds"] / summary["configurations"])
            print(
                f"{workload:12}{len(differences):14}{medians[-1] * 100:17.1f} %{differences[-1] * 100:7.1f} %"
                f"{costs[-1]:25.2f}",
                flush=True,
            )
    print(f"all         {'':14}{statistics.median(medians) * 100:17.1f} %{'':9}{statistics.median(costs):25.2f}")


if __name__ == "__main__":
    main()
