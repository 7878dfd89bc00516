"""The daemon's mapper on mixes of programs: what it means to each process, beside the mapper alone and Linux.

The mixes are those of SAM's table 2, and pairs of real applications for judging, where `make applications` has recorded
them. Every run has one order of task creation, and is compared with Linux's run of the same order. Thresholds are
measured, as in the section on SAM. A daemon that knows the programs has a database of runs of each program alone.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean

from pinfold.evaluation.auto.runs import SIMULATIONS
from pinfold.evaluation.finished import Run, finished
from pinfold.evaluation.judged.subjects import APPLICATION_THREADS, APPLICATIONS, NO_APPLICATIONS, applications
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.sam.limits import calibrated
from pinfold.evaluation.sam.mixes import files
from pinfold.evaluation.sam.runs import MACHINE, RECORDINGS
from pinfold.evaluation.sam.workloads import MIXES, QUICK_MIXES, mix
from pinfold.evaluation.section import Promise, Section, Table, run_json
from pinfold.evaluation.side_by_side import at_once
from pinfold.evaluation.workloads import build

LASTS = 60
"""Seconds of virtual time after the first decision."""

SEEDS = range(3)
"""Each is another order of task creation."""

LINUX, ALONE, DAEMON, KNOWING = "linux", "mapper", "daemon", "daemon_that_knows"

POLICIES: Mapping[str, tuple[str, ...]] = {
    LINUX: ("--policy", "none"),
    ALONE: ("--policy", "sam", "--without", "pages-follow"),
    DAEMON: ("--policy", "sam", "--compared"),
    KNOWING: ("--policy", "sam", "--compared", "--known"),
}
"""Who places the tasks. The mapper alone moves no pages, as in the paper."""

JUDGED = (ALONE, DAEMON, KNOWING)
SHORT = ("mapper", "daemon", "knows")

LEAST = 0.99
"""The least speed of a process over Linux."""

PAIRS = 6
"""The most pairs of real applications."""


@dataclass(frozen=True)
class Mix:
    """Programs side by side.

    Attributes
    ----------
    name : str
        Its number in table 2 of the paper, or `real N`.
    applications : str
        What it is made of.
    recordings : tuple of Path
        One for each process.
    processes : tuple of int
        The number of processes of each application.
    """

    name: str
    applications: str
    recordings: tuple[Path, ...]
    processes: tuple[int, ...]

    @property
    def is_real(self) -> bool:
        """Whether it is made of real applications."""
        return self.name.startswith("real")


@dataclass(frozen=True)
class Row:
    """The results of a mix.

    Attributes
    ----------
    mix : str
        Its name.
    applications : str
        What it is made of.
    real : bool
        Whether these are real applications.
    mean, slowest : dict
        By policy: of the speeds of applications over Linux's of the same order, the geometric mean, and the least one.
        Of an application the geometric mean of all orders counts.
    orders : dict
        By policy: the least speed of a process over Linux's, in each order.
    outcomes : dict
        By daemon: its comparisons, in all orders, by what became of the moves.
    """

    mix: str
    applications: str
    real: bool
    mean: dict[str, float]
    slowest: dict[str, float]
    orders: dict[str, list[float]]
    outcomes: dict[str, dict[str, int]]


def fairness(quick: bool) -> Section:
    """Run the mixes."""
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    thresholds = calibrated(MACHINE, RECORDINGS / "thresholds.toml")
    # Recordings are made one after the other: many runs need the same ones.
    mixes = [of_paper(number) for number in (QUICK_MIXES if quick else MIXES)]
    mixes += [] if quick else of_applications()
    known = database(mixes)
    seeds = SEEDS[:1] if quick else SEEDS
    keys = [(one, seed, name) for one in mixes for seed in seeds for name in POLICIES]
    runs = at_once([partial(_run, one.recordings, seed, name, (thresholds, known)) for one, seed, name in keys])
    found = dict(zip(keys, runs, strict=True))
    rows = [row(one, {name: [found[one, seed, name] for seed in seeds] for name in POLICIES}) for one in mixes]
    reduced = "A reduced set (`make evaluation-quick`).\n\n" if quick else ""
    return Section(
        "fairness",
        "The daemon on mixes, process by process",
        reduced + text(rows, len(seeds)),
        [
            f"pinfold run --machine {MACHINE} {' '.join(POLICIES[KNOWING])} --thresholds thresholds.toml "
            f"--probe {LASTS}s membench-12.pft hubench-8.pft"
        ],
        tables(rows),
        {"simulated": True, "seconds": LASTS, "orders": len(seeds), "rows": [asdict(row) for row in rows]},
        promises=promises(rows),
    )


def of_paper(number: int) -> Mix:
    """Return a mix of table 2."""
    applications = mix(MIXES[number])
    processes = tuple(one.processes for one in applications)
    return Mix(f"#{number}", MIXES[number], tuple(files(applications)), processes)


def of_applications(folder: Path = APPLICATIONS) -> list[Mix]:
    """Return pairs of real applications for judging: neighbours in the order of their names, then the next but one."""
    recordings = applications(folder)
    names = list(recordings)
    pairs = [pair for apart in range(1, len(names)) for pair in zip(names, names[apart:], strict=False)][:PAIRS]
    return [
        Mix(f"real {number}", f"{one}, {other}", (recordings[one], recordings[other]), (1, 1))
        for number, (one, other) in enumerate(pairs, 1)
    ]


def database(mixes: Sequence[Mix]) -> Path:
    """Return the behaviour database of runs of each program alone, by the policy `auto`."""
    recordings = list(dict.fromkeys(file for one in mixes for file in one.recordings))
    names = hashlib.sha256(" ".join(map(str, recordings)).encode()).hexdigest()[:12]

    def learn(file: Path) -> None:
        words = ["--machine", MACHINE, "--db", str(file), "--simulations", str(SIMULATIONS)]
        at_once([partial(run_json, [*words, str(recording)], []) for recording in recordings])

    return made_once(RECORDINGS / build() / f"known-{names}.db", learn)


def _run(recordings: Sequence[Path], seed: int, name: str, named: tuple[Path, Path]) -> Run:
    thresholds, known = named
    words = ["--machine", MACHINE, "--seed", str(seed), "--probe", f"{LASTS}s", "--warm-up", "0s", *POLICIES[name]]
    if name != LINUX:
        words += ["--thresholds", str(thresholds)]
    if name == KNOWING:
        words += ["--db", str(known)]
    return finished(words, recordings, named)


def by_application(processes: Sequence[int], speeds: Sequence[float]) -> list[float]:
    """Return the mean of the processes of each application."""
    rest = iter(speeds)
    return [statistics.fmean(next(rest) for _ in range(number)) for number in processes]


def over_linux(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the speeds of one run over those of Linux's."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def row(one: Mix, runs: Mapping[str, Sequence[Run]]) -> Row:
    """Compare the runs of a mix; of each policy one for each order."""
    mean, slowest, orders = {}, {}, {}
    for name in JUDGED:
        pairs = list(zip(runs[name], runs[LINUX], strict=True))
        over = [
            over_linux(*(by_application(one.processes, run.speeds) for run in (ours, theirs))) for ours, theirs in pairs
        ]
        gains = [geometric_mean(gains) for gains in zip(*over, strict=True)]
        mean[name], slowest[name] = geometric_mean(gains), min(gains)
        orders[name] = [min(over_linux(ours.speeds, theirs.speeds)) for ours, theirs in pairs]
    outcomes = {name: _sum([run.comparisons for run in runs[name]]) for name in (DAEMON, KNOWING)}
    return Row(one.name, one.applications, one.is_real, mean, slowest, orders, outcomes)


def _sum(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {
        name: sum(count.get(name, 0) for count in counts) for name in sorted({one for all_ in counts for one in all_})
    }


def means(rows: Sequence[Row]) -> dict[str, float]:
    """Return the geometric mean of all mixes, by policy."""
    return {name: geometric_mean(row.mean[name] for row in rows) for name in JUDGED}


def of_each_kind(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of the paper's mixes, and of real applications if there are any."""
    kinds = {"": [row for row in rows if not row.real], "real applications, ": [row for row in rows if row.real]}
    return {kind: of_kind for kind, of_kind in kinds.items() if of_kind}


def text(rows: Sequence[Row], orders: int) -> str:
    """Describe the experiment and its results."""
    found = of_each_kind(rows)
    real = (
        f"The last mixes are pairs of real applications for judging, with {APPLICATION_THREADS} threads each: "
        "neighbours in the order of their names."
        if len(found) > 1
        else NO_APPLICATIONS
    )
    return (
        f"Simulated on `{MACHINE}`: mixes of SAM's table 2 with the workloads of the section on SAM, {LASTS} s of "
        f"virtual time with all costs, in {orders} orders of task creation. {real} Speeds are over Linux's of the same "
        "order. *Mapper* is SAM's mapper alone, *daemon* is the mapper as the daemon has it: its moves are compared "
        "with the unpinned machine in turns, and stay only if they help a process and harm none. Before they are given "
        "up, the pages of processes that were moved away from them follow. The mapper alone moves no pages, as in the "
        "paper. *Knows* is the daemon with a behaviour database that has one run of each program alone on this "
        "machine, by the policy `auto`. Of an application the mean of its processes and of the orders counts, because "
        "the scheduler places tasks differently each time it is disturbed.\n\n"
    ) + "\n\n".join(_summary(kind, of_kind) for kind, of_kind in found.items())


def _summary(kind: str, rows: Sequence[Row]) -> str:
    mean = means(rows)
    least = {name: min(rows, key=lambda row: row.slowest[name]) for name in JUDGED}
    harmed = {name: sum(row.slowest[name] < LEAST for row in rows) for name in JUDGED}
    what = "Real applications" if kind else "Table 2"

    def figures(form: str) -> str:
        return ", ".join(
            f"{label} "
            + form.format(mean=mean[name], least=least[name].slowest[name], mix=least[name].mix, n=harmed[name])
            for name, label in zip(JUDGED, SHORT, strict=True)
        )

    return (
        f"{what}, {len(rows)} mixes. Geometric mean over Linux: {figures('{mean:.3f}')}. Slowest application of any "
        f"mix: {figures('{least:.3f} ({mix})')}. Mixes with an application that is slower than under Linux by more "
        f"than {1 - LEAST:.0%}: {figures('{n}')}."
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return the speeds, and the orders with the comparisons."""
    speeds = [
        [row.mix, row.applications, *(f"{of[name]:.3f}" for of in (row.mean, row.slowest) for name in JUDGED)]
        for row in rows
    ]
    details = [
        [
            row.mix,
            *(", ".join(f"{least:.2f}" for least in row.orders[name]) for name in JUDGED),
            *(
                ", ".join(f"{times} {outcome}" for outcome, times in row.outcomes[name].items()) or "none"
                for name in (DAEMON, KNOWING)
            ),
        ]
        for row in rows
    ]
    head = ["mix", "applications", *SHORT, *(f"slowest: {name}" for name in SHORT)]
    orders = ["mix", *SHORT, "comparisons: daemon", "comparisons: knows"]
    return [
        Table(head, speeds, "Speeds over Linux's of the same order, simulated:"),
        Table(orders, details, "The slowest process in each order, and the daemon's comparisons:"),
    ]


def promises(rows: Sequence[Row]) -> list[Promise]:
    """Return what is asked for."""
    found = []
    for kind, of_kind in of_each_kind(rows).items():
        mean = means(of_kind)
        for name, what in ((DAEMON, "daemon"), (KNOWING, "daemon that knows programs")):
            ratio = mean[name] / mean[ALONE]
            label = f"{kind}speed of the {what} over SAM's mapper alone, mean"
            found.append(Promise(label, round(ratio, 4), "", "at least 1", ratio >= 1))
            least = min(row.slowest[name] for row in of_kind)
            label = f"{kind}speed of the {what} over Linux, slowest application"
            found.append(Promise(label, round(least, 4), "", f"at least {LEAST}", least >= LEAST))
    return found
