"""pinfold's policies on the measured table, which is a machine for them (``pinfold run --machine data:FILE``).

Each region is a program of its own. A policy runs once for each run time, with what the table has as noise and with the
costs of moves. The applied configurations of a run's record are its trials. No policy has learned anything here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from os import sched_getaffinity
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute
import pyarrow.parquet

from pinfold.evaluation.measured.foreign import FOLDER, MeasuredTable, processor_time
from pinfold.evaluation.measured.known import Setting
from pinfold.evaluation.measured.trials import TIMES, TRIAL_S, TRIALS, Curve, trials_at
from pinfold.evaluation.section import PINFOLD, output
from pinfold.learn.cpu_list import cpu_list
from pinfold.learn.races import Floats

PROBES = {10: "500ms", 60: "3s", 600: "30s"}
"""The probes of policies that have them: a twentieth of the run time."""

SEED = "0"


@dataclass(frozen=True)
class Policy:
    """A policy with its options.

    Attributes
    ----------
    name : str
        Its name in tables.
    words : callable
        Returns its options for a region and a run time in seconds.
    """

    name: str
    words: Callable[[int, int], Sequence[str]]


@dataclass(frozen=True)
class Run:
    """A run of a policy on a region.

    Attributes
    ----------
    trials : tuple of float
        The gain of each different configuration that was applied, in their order, without the baseline.
    rate : float
        Executions of the region per second in the whole run, with all costs.
    requests, refused : int
        The policy's requests, and those that the table lacked in part or whole.
    """

    trials: tuple[float, ...]
    rate: float
    requests: int
    refused: int


@dataclass(frozen=True)
class Ran:
    """A policy on all regions.

    Attributes
    ----------
    name : str
        The policy.
    runs : mapping of int to list of Run
        By run time, the run of each region.
    alone : mapping of int to list of float
        By run time, the rate of each region without a policy and with the same noise.
    processor_s : float
        The processor time of the longest runs, in seconds.
    """

    name: str
    runs: Mapping[int, Sequence[Run]]
    alone: Mapping[int, Sequence[float]]
    processor_s: float

    def gains(self, seconds: int) -> Floats:
        """Return the gain of each region in runs of this time, with all costs."""
        return np.log([run.rate for run in self.runs[seconds]]) - np.log(self.alone[seconds])

    def curve(self) -> Curve:
        """Return the best configuration so far: after each number of trials of the longest runs, and in each run."""

        def best(run: Run, number: int | None) -> float:
            return max([0.0, *run.trials[:number]])

        longest = self.runs[max(TIMES)]
        of_trials = [[best(run, number) for run in longest] for number in TRIALS]
        of_times = [[best(run, None) for run in self.runs[seconds]] for seconds in TIMES]
        worst = float(np.exp(min(best(run, TRIALS[-1]) for run in longest)))
        return Curve(self.name, np.array([*of_trials, *of_times]).T, worst)

    def refused(self) -> float:
        """Return the share of the requests that the table lacked in part or whole."""
        runs = [run for of_time in self.runs.values() for run in of_time]
        requests = sum(run.requests for run in runs)
        return sum(run.refused for run in runs) / requests if requests else 0.0


class Machine:
    """The regions of the measured table, each as a machine."""

    def __init__(self, found: MeasuredTable) -> None:
        """Write a data set for each region, so that no run reads the rows of all others."""
        self.known = found.known
        self._places = {setting: place for place, setting in enumerate(found.known.settings)}
        rows = pyarrow.parquet.read_table(found.data)
        self._files = [self._write(rows, number) for number in range(len(self.known.names))]
        topology = json.loads(output([str(PINFOLD), "topo", "--json", "--machine", f"data:{self._files[0]}"]))
        self._node = {
            pu: number for number, node in enumerate(topology["nodes"]) for pu in cpu_list(node["pus"] or "") if node
        }
        self._core = dict(_cores(topology["tree"]))

    def _write(self, rows: Any, number: int) -> Path:
        command, region = self.known.names[number]
        compute = pyarrow.compute
        own = compute.and_(compute.equal(rows["command"], command), compute.equal(rows["region"], region))
        file = FOLDER / f"region-{number}.parquet"
        pyarrow.parquet.write_table(rows.filter(own), file, compression="zstd")
        return file

    def refusal(self, policy: Policy) -> str | None:
        """Return why a policy cannot run on a table; None if it can."""
        found = self._record(0, policy, min(TIMES))
        return found if isinstance(found, str) else None

    @cached_property
    def _alone(self) -> dict[int, list[float]]:
        """The rates without a policy. A mean of few executions with noise differs from the table's median."""
        none = Policy("none", lambda region, seconds: ["--policy", "none"])
        regions = range(len(self.known.names))
        with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
            runs = {seconds: list(pool.map(partial(self._run, none, seconds), regions)) for seconds in TIMES}
        return {seconds: [run.rate for run in of_time] for seconds, of_time in runs.items()}

    def run(self, policy: Policy) -> Ran:
        """Run a policy on all regions, in all run times."""
        alone = self._alone
        regions = range(len(self.known.names))
        with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
            runs, used = {}, 0.0
            for seconds in TIMES:
                before = processor_time()
                runs[seconds] = list(pool.map(partial(self._run, policy, seconds), regions))
                used = processor_time() - before
        return Ran(policy.name, runs, alone, used)

    def _run(self, policy: Policy, seconds: int, region: int) -> Run:
        record = self._record(region, policy, seconds)
        if isinstance(record, str):
            sys.exit(f"`{policy.name}` failed on {' '.join(self.known.names[region])}: {record}")
        replay = record["replay"]
        tried = dict.fromkeys(self._tried(record["timeline"]["configurations"]))
        return Run(
            trials=tuple(float(self.known.gains[region, place]) for place in tried if place != self.known.baseline),
            rate=replay["repetitions"] / record["ran"],
            requests=replay["requests"],
            refused=replay["refused"],
        )

    def _record(self, region: int, policy: Policy, seconds: int) -> dict[str, Any] | str:
        """Return the record of a run, or the message of its failure."""
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "run.json")
            words = ["run", "--quiet", "--machine", f"data:{self._files[region]}", "--seed", SEED]
            words += ["--unit", f"{round(TRIAL_S * 1000)}ms", "--repeat", str(trials_at(seconds))]
            words += ["--db", str(Path(directory, "behaviour.db")), "--json", str(file), *policy.words(region, seconds)]
            done = subprocess.run([str(PINFOLD), *words], check=False, capture_output=True, text=True)
            if done.returncode != 0:
                return done.stderr.strip().removeprefix("error: ").partition("\n")[0]
            found: dict[str, Any] = json.loads(file.read_text())
            return found

    def _tried(self, configurations: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the positions of the applied configurations that the table has."""
        base = self.known.settings[self.known.baseline]
        pages, prefetch = base.page_map, base.prefetch
        found = []
        for one in configurations:
            if one["pages"] is not None:
                # The pages of the unpinned program are those of the baseline.
                pages = base.page_map if one["pages"] == "first_touch" else one["pages"]
            prefetch = one["prefetch"] or prefetch
            placed = base if one["pus"] is None else self._placed(one["pus"], base)
            names = (pages, "first_touch", "locality") if placed.nodes == 1 and pages == "local" else (pages,)
            settings = (placed._replace(page_map=name, prefetch=prefetch) for name in names)
            found += [self._places[setting] for setting in settings if setting in self._places][:1]
        return found

    def _placed(self, pus: Sequence[int], base: Setting) -> Setting:
        """Return a setting with the layout of threads on these PUs. Ranks that share a PU are one thread of a team."""
        team = list(dict.fromkeys(pus))
        nodes = [self._node[pu] for pu in team]
        together = sum(one == other for one, other in pairwise(nodes))
        number = len(set(nodes))
        compact = number == 1 or together * 2 >= len(team) - number
        cores = [self._core[pu] for pu in team]
        return base._replace(
            threads=len(team),
            nodes=number,
            thread_map="compact" if compact else "scatter",
            threads_per_core=max(cores.count(core) for core in cores),
        )


def _cores(item: Mapping[str, Any], core: int = -1) -> list[tuple[int, int]]:
    """Return the core of each PU in an object of a topology."""
    if item["kind"] == "pu":
        return [(pu, core if core >= 0 else pu) for pu in cpu_list(item["pus"])]
    here = min(cpu_list(item["pus"])) if item["kind"] == "core" else core
    return [pair for child in item["children"] for pair in _cores(child, here)]


def policies() -> list[Policy]:
    """Return all policies."""

    def named(policy: str, *options: str) -> Policy:
        return Policy(policy, lambda region, seconds: ["--policy", policy, *options])

    return [
        named("auto"),
        Policy("autopin", lambda region, seconds: ["--policy", "autopin", "-t", PROBES[seconds]]),
        named("react"),
        Policy("classify:forest", lambda region, seconds: ["--policy", "classify:forest", "-t", PROBES[seconds]]),
        named("hints"),
        named("sam"),
        named("compact"),
        named("scatter"),
    ]
