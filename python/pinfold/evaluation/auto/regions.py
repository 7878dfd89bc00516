"""Places for single parallel regions under the default policy, on simulated machines: whole runs with all costs.

``phases`` has regions that belong to different places; the other programs are there to see what it costs where nothing
of that kind is to be gained. All are own workloads. This part of the policy was developed on ``phases`` alone, and no
constant was changed after these runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from os import sched_getaffinity
from pathlib import Path

from pinfold.evaluation.auto.runs import AUTO, NAMED, SYSTEM, Static
from pinfold.evaluation.build_folder import build_folder
from pinfold.evaluation.finished import Run, finished
from pinfold.evaluation.judged.judging import NOISE
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import Promise, Section, Table, record
from pinfold.evaluation.workloads import Workload

MACHINES = ("e5-4650x4", "platinum-8168x2")

THREADS = 8

FOLDER = Path("target/evaluation/regions")

JUDGED = 600
"""Seconds of virtual time that a run takes in the best of the static placements with a name."""

TRIED = 20
"""The repetitions that show how long one takes."""

APART = "phases"
"""The program whose regions belong to different places."""

PROGRAMS = (
    Workload(APART, None, "--mode threads --size 48M --iterations 3", quick=True),
    Workload(APART, None, "--mode pages --size 48M --iterations 3"),
    Workload("bfs", None, "--size 2M --iterations 2"),
    Workload("cg", None, "--size 16M --iterations 3"),
    Workload("hash_join", None, "--size 4M --iterations 2"),
    Workload("kmeans", None, "--size 8M --iterations 2", quick=True),
    Workload("multigrid", None, "--size 4M --iterations 4"),
    Workload("sort", None, "--size 4M --iterations 1"),
)

LEAST = 0.99
"""The least speed of any program by region over that with one placement."""

TEXT = f"""\
Runs of {JUDGED} s of virtual time, with all costs and {NOISE} % of noise in what is read in a tenth of a second. The
default policy runs once with one placement for the whole program, and once by region (`--by-region`). Beside them are
the unpinned program and the best single placement known beforehand: of the placements with a name with either page
mapping, and of what the policy chose. `{APART}` was written with regions that belong to different places, and is what
this part of the policy was developed on. The other programs show what it costs to look for such regions where there
are none. Speeds are over that of the best single placement. A placement of regions can be faster than that, because
no single one suits all regions."""


@dataclass(frozen=True)
class Row:
    """A program on a machine: speeds over that of the best single placement.

    Attributes
    ----------
    machine, program : str
        The simulated machine, and the program with its arguments.
    best : str
        The best single placement.
    unpinned, whole, by_region : float
        Unpinned, and under the default policy with one placement and by region.
    """

    machine: str
    program: str
    best: str
    unpinned: float
    whole: float
    by_region: float

    @property
    def gain(self) -> float:
        """The speed by region over that with one placement."""
        return self.by_region / self.whole


def regions(quick: bool) -> Section:
    """Run the programs."""
    machines = MACHINES[:1] if quick else MACHINES
    programs = [one for one in PROGRAMS if one.quick or not quick]
    jobs = [(machine, program) for machine in machines for program in programs]
    with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
        rows = list(pool.map(lambda job: _row(*job), jobs))
    reduced = "A reduced set (`make evaluation-quick`).\n\n" if quick else ""
    return Section(
        "regions",
        "Places for single parallel regions under the default policy",
        reduced + TEXT,
        [
            f"OMP_NUM_THREADS={THREADS} pinfold record -o phases.pft -- {' '.join(PROGRAMS[0].command(THREADS))}",
            f"pinfold run --machine {MACHINES[0]} --noise {NOISE} --by-region phases.pft",
        ],
        [table(rows)],
        {"simulated": True, "seconds": JUDGED, "rows": [asdict(row) for row in rows]},
        promises=promises(rows),
    )


def _row(machine: str, program: Workload) -> Row:
    file = build_folder(FOLDER) / f"{program.name}-{THREADS}.pft"
    recording = made_once(file, lambda unfinished: record(program.command(THREADS), unfinished))

    def run(words: Sequence[str], repeat: int) -> Run:
        threads = [] if "fixed" in words else ["--threads", str(THREADS)]
        return finished(["--machine", machine, *words, *threads, "--repeat", str(repeat)], [recording])

    return compared(machine, " ".join(program.command(THREADS)), run)


def compared(machine: str, program: str, run: Callable[[Sequence[str], int], Run]) -> Row:
    """Compare the runs of a program.

    Args:
        machine: the simulated machine.
        program: the program with its arguments.
        run: runs the program with these options of ``pinfold run``, repeated this number of times.
    """
    tried = min(run(static.words, TRIED).seconds for static in NAMED)
    repeat = max(1, round(JUDGED * TRIED / tried))
    auto = ["--policy", AUTO, "--placement-model", "none", "--noise", NOISE]
    whole, by_region = run(auto, repeat), run([*auto, "--by-region"], repeat)
    chosen = [Static(whole.chosen, pages) for pages in ("first_touch", "interleave") if whole.chosen]
    statics = {static: run(static.words, repeat).seconds for static in dict.fromkeys([*NAMED, SYSTEM, *chosen])}
    best = min(statics, key=lambda static: statics[static])
    return Row(
        machine,
        program,
        str(best),
        *(statics[best] / seconds for seconds in (statics[SYSTEM], whole.seconds, by_region.seconds)),
    )


def table(rows: Sequence[Row]) -> Table:
    """Return a row for each program and machine."""
    body = [
        [
            row.machine,
            row.program.split("/")[-1],
            row.best,
            *(f"{speed:.3f}" for speed in (row.unpinned, row.whole, row.by_region, row.gain)),
        ]
        for row in rows
    ]
    head = ["machine", "program", "best single placement", "unpinned", "auto", "auto by region", "by region over auto"]
    return Table(head, body, "Speeds over that of the best single placement, simulated:")


def promises(rows: Sequence[Row]) -> list[Promise]:
    """Return what is asked for."""
    apart = [row.by_region for row in rows if APART in row.program]
    mean = statistics.geometric_mean(apart)
    least = min(row.gain for row in rows)
    best = f"speed of {APART} by region over the best single placement, mean"
    slowest = "speed by region over one placement, slowest program"
    return [
        Promise(best, round(mean, 4), "", "above 1", mean > 1),
        Promise(slowest, round(least, 4), "", f"at least {LEAST}", least >= LEAST),
    ]
