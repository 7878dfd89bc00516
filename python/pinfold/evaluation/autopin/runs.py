"""The runs of autopin on the machines of its paper: with noise, beside fixed pinnings, unpinned threads and a baseline.

A workload that uses much memory has a size for each machine: ``BEYOND`` times its last-level caches, so that no pinning
makes it fit. The others have data that fits a cache in any case, or whose placement has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from pinfold.evaluation.finished import Run, finished
from pinfold.evaluation.judged.judging import NOISE
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import PINFOLD, output, record

BEYOND = 2
LASTS = 900
"""Virtual seconds that a program lasts, as the longer ones of the paper's tables 3 and 4 do."""

INITIALISES = 15
"""Virtual seconds for which the program initialises, by default."""

TRIED = 100
"""The repetitions of the runs that find the fastest pinning."""

UNPINNED_PART = 1 / 30
"""The part of the repetitions that run unpinned: half a minute. Their time stands for the whole run's."""

LOST = 0.002
"""A loss below this share of the run time is too small for a ratio."""

MIB = 1 << 20

#: The arguments of workloads whose size is fixed: a barrier, shared lines, or data that a core's own cache holds.
SMALL = {
    "compute": ("--size", "256k", "--iterations", "6"),
    "barrier": ("--size", "200", "--iterations", "4"),
    "imbalance": ("--size", "256k", "--iterations", "6"),
    "false_sharing": ("--size", "40k", "--iterations", "6"),
}
#: Those whose size suits the machine.
LARGE = ("stream", "random_access", "stencil", "spmv")
WORKLOADS = ("stream", "random_access", "stencil", "compute", "barrier", "imbalance", "false_sharing", "spmv")

FOLDER = Path("target/evaluation/autopin")


@dataclass(frozen=True)
class Case:
    """A workload with a number of threads on a machine.

    Attributes
    ----------
    machine : str
        The simulated machine.
    workload : str
        The workload.
    threads : int
        The number of threads.
    schedule : sequence of str
        The paper's pinnings, as CPU lists.
    """

    machine: str
    workload: str
    threads: int
    schedule: Sequence[str]


@cache
def caches(machine: str) -> int:
    """Return the bytes of all last-level caches of a machine."""

    def below(item: Mapping[str, Any]) -> int:
        kept = item["cache"]
        if kept and kept["cache_type"] != "instruction":
            return int(kept["size"])
        return sum(below(child) for child in item["children"])

    return below(json.loads(output([str(PINFOLD), "topo", "--machine", machine, "--json"]))["tree"])


def arguments(workload: str, machine: str) -> tuple[str, ...]:
    """Return a workload's arguments for a machine."""
    if workload in SMALL:
        return SMALL[workload]
    return ("--size", f"{ceil(BEYOND * caches(machine) / MIB)}M", "--iterations", "1")


def recording(case: Case) -> Path:
    """Return the recording of a case; make it if it is missing."""
    words = arguments(case.workload, case.machine)
    name = "_".join([case.workload, str(case.threads), *words]).replace("--", "")
    file = FOLDER / f"{name}.pft"
    program = [f"target/workloads/{case.workload}", "--threads", str(case.threads), *words]
    return made_once(file, lambda unfinished: record(program, unfinished))


def against_fixed(case: Case) -> dict[str, Any]:
    """Run autopin, exhaustive and racing, and everything that it is compared with."""
    file = recording(case)
    noisy = ("--noise", NOISE)

    def simulated(pinnings: Sequence[str], *words: str) -> Run:
        schedules = [word for pinning in pinnings for word in ("--schedule", pinning)]
        return finished(["--machine", case.machine, *schedules, *words], [file])

    tried = ("--policy", "fixed", "--repeat", str(TRIED))
    seconds = [simulated([pinning], *tried).seconds / TRIED for pinning in case.schedule]
    best, worst = seconds.index(min(seconds)), seconds.index(max(seconds))
    repetitions = max(1, round(LASTS / seconds[best]))
    repeat = ("--repeat", str(repetitions))
    # Unpinned threads search nothing, so a part of the run shows their speed.
    part = max(1, round(repetitions * UNPINNED_PART))
    unpinned = simulated([], "--policy", "none", "--repeat", str(part), *noisy).seconds * repetitions / part
    threads = ("--threads", str(case.threads))
    exhaustive = simulated(case.schedule, *repeat, *noisy)
    racing = simulated(case.schedule, "--search", "racing", *repeat, *noisy)
    ran = {
        "best": simulated([case.schedule[best]], "--policy", "fixed", *repeat).seconds,
        "worst": simulated([case.schedule[worst]], "--policy", "fixed", *repeat).seconds,
        "unpinned": unpinned,
        "measured": simulated(["distributed", "packed"], *threads, *repeat, *noisy).seconds,
        "autopin": exhaustive.seconds,
        "racing": racing.seconds,
    }
    lost, lost_racing = ran["autopin"] - ran["best"], ran["racing"] - ran["best"]
    # While the program initialises, both keep the first pinning, and neither searches.
    initialising = INITIALISES * (1 - seconds[best] / seconds[0])
    searching, searching_racing = lost - initialising, lost_racing - initialising
    chosen = [seconds[case.schedule.index(run.chosen or case.schedule[0])] for run in (exhaustive, racing)]
    return {
        "workload": case.workload,
        "threads": case.threads,
        "arguments": " ".join(arguments(case.workload, case.machine)),
        "best": case.schedule[best],
        "worst": case.schedule[worst],
        **{f"{name}_s": of_run for name, of_run in ran.items()},
        "distance_percent": 100 * lost / ran["best"],
        "over_worst_percent": 100 * (ran["worst"] / ran["autopin"] - 1),
        "over_unpinned_percent": 100 * (ran["unpinned"] / ran["autopin"] - 1),
        "racing_choice_percent": 100 * (chosen[1] / chosen[0] - 1),
        "racing_time_ratio": ratio(searching, searching_racing, ran["best"]),
        "racing_time_ratio_with_initialisation": ratio(lost, lost_racing, ran["best"]),
    }


def ratio(lost: float, lost_racing: float, whole: float) -> float | None:
    """Return the ratio of two losses; None where the first is too small for a ratio."""
    return lost / lost_racing if lost_racing > 0 and lost / whole > LOST else None
