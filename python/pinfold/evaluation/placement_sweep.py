"""The sweep for ``classify``: programs with a thread for each core, in the four strategies of Denoyelle et al.

The machines are those of the paper (ICPP 2019, table 4) and two of its outlook. Each has its own number of cores, so
each program is recorded once for each machine. Results are in ``target/evaluation/placement``, in a folder for each
build of pinfold, and existing ones are not made again. At the end one data set has all of them:
``target/evaluation/placement.parquet``. Its rows have the metrics of the paper's table 2, too, which come from the
recording, and what the policy ``classify`` observes of the program under the default strategy.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow
import pyarrow.parquet

from pinfold.evaluation.affinity_sweep import WORKLOADS, Workload, build
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import PINFOLD, output, record, run_json
from pinfold.joined import joined
from pinfold.learn.placement_features import COLUMN
from pinfold.learn.strategies import INSTRUMENTATION, STRATEGIES

PAPER_MACHINES = ("e5-2680v3x2", "e5-2650lv4x2", "gold-6140x2")
MACHINES = (*PAPER_MACHINES, "epyc-7763x2", "xeon-8480x2")

RESULTS = Path("target/evaluation/placement")

# The first thread touches all pages before the others begin, which makes interleave the better mapping.
SERIAL = (
    Workload("bfs", 1, "--size 8M --iterations 1 --init serial"),
    Workload("hash_join", 2, "--size 4M --iterations 1 --init serial"),
    Workload("histogram", 1, "--mode private --size 16M --iterations 1 --init serial"),
    Workload("kmeans", 1, "--size 16M --iterations 1 --init serial"),
    Workload("multigrid", 2, "--size 9M --iterations 1 --init serial"),
    Workload("random_access", 1, "--mode independent --size 64M --iterations 1 --init serial"),
    Workload("sort", 1, "--size 4M --iterations 1 --init serial"),
    Workload("spmv", 1, "--size 32M --iterations 1 --init serial", quick=True),
    Workload("stencil", 1, "--size 48M --iterations 1 --init serial"),
    Workload("stream", 1, "--size 64M --iterations 1 --init serial", quick=True),
)

PROGRAMS = (*WORKLOADS, *SERIAL)

DEFAULT = (None, *STRATEGIES[0])
"""Region, map of threads and mapping of pages of the rows of whole programs in the default strategy."""

OBSERVED_SECONDS = 4
"""The virtual time of a run in which a program is observed for a second, after a second of initialisation."""

NOT_ALL_AT_ONCE = 5
"""How often a recording is repeated in which not all threads lived at the same time."""


@dataclass(frozen=True)
class Job:
    """A program on a machine, with a thread for each of its cores."""

    machine: str
    workload: Workload

    @property
    def data(self) -> Path:
        """The data set of this job."""
        return RESULTS / build() / f"{self.workload.name}-{self.machine}.parquet"


def sweep(quick: bool, machines: Sequence[str] = MACHINES) -> Path:
    """Sweep what is missing; return the data set of all programs on all machines."""
    wanted = [workload for workload in PROGRAMS if workload.quick or not quick]
    jobs = [Job(machine, workload) for machine in machines for workload in wanted]
    # A sweep of four configurations has too little work for all processors at its begin and end.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = list(pool.map(_swept, jobs))
    together = RESULTS.with_suffix(".quick.parquet" if quick else ".parquet")
    pyarrow.parquet.write_table(
        joined([pyarrow.parquet.read_table(file) for file in found]), together, compression="zstd"
    )
    return together


def _swept(job: Job) -> Path:
    if not job.data.exists():
        print(f"placement: {job.workload.name} on {job.machine}", file=sys.stderr)
    return made_once(job.data, lambda unfinished: _sweep(job, unfinished))


def _sweep(job: Job, data: Path) -> None:
    threads = cores(job.machine)
    region = [] if job.workload.region is None else ["--region", str(job.workload.region)]
    recording = data.with_suffix(f"{data.suffix}-pft")
    for _ in range(NOT_ALL_AT_ONCE):
        record(job.workload.command(threads), recording, *region)
        words = ["--machine", job.machine, "--space", "placement", "--jobs", "1", "--force", "--quiet"]
        output([str(PINFOLD), "sweep", *words, "-o", str(data), str(recording)])
        table = pyarrow.parquet.read_table(data)
        (lived,) = set(table["num_threads"].to_pylist())
        if lived == threads:
            more = _instrumentation(recording, job.machine) | _sample(recording, job.machine, table)
            pyarrow.parquet.write_table(with_columns(table, more), data, compression="zstd")
        recording.unlink()
        if lived == threads:
            return
        data.unlink()
    sys.exit(f"`{' '.join(job.workload.command(threads))}` never had its {threads} threads at the same time")


def _instrumentation(recording: Path, machine: str) -> dict[str, float | None]:
    """Return the metrics of table 2; None for one that has no value, such as the deviation of nothing."""
    words = ["trace", "metrics", "--paper", "denoyelle", "--json", "--machine", machine, str(recording)]
    metrics = json.loads(output([str(PINFOLD), *words]))["metrics"]
    return {name: metrics[name] for name in INSTRUMENTATION}


def _sample(recording: Path, machine: str, table: pyarrow.Table) -> dict[str, float | None]:
    """Return what the policy ``classify`` observes; None for what is not known."""
    rows = table.select(["region", "thread_map", "page_map", "time_s"]).to_pylist()
    (seconds,) = (row["time_s"] for row in rows if (row["region"], row["thread_map"], row["page_map"]) == DEFAULT)
    words = ["--machine", machine, "--policy", "classify", "--repeat", str(math.ceil(OBSERVED_SECONDS / seconds))]
    record = run_json([*words, "--initialise", "1s", "--probe", "1s", str(recording)], [])
    return {COLUMN + one["name"]: one["value"] for one in record["forecast"]["observed"]}


def with_columns(table: pyarrow.Table, values: Mapping[str, float | None]) -> pyarrow.Table:
    """Return a table with further columns, each with one value in all rows."""
    for name, value in values.items():
        table = table.append_column(name, pyarrow.array([value] * table.num_rows, pyarrow.float64()))
    return table


@cache
def cores(machine: str) -> int:
    """Return the number of cores of a machine."""
    shape = json.loads(output([str(PINFOLD), "machines", "--json", machine]))["shape"]
    return int(shape["packages"]["value"] * shape["cores_per_package"]["value"])


if __name__ == "__main__":
    print(sweep("--quick" in sys.argv[1:], [word for word in sys.argv[1:] if not word.startswith("-")] or MACHINES))
