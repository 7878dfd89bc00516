"""The daemon's mapper on SAM's mixes: what it means to each process, beside the mapper alone and Linux.

Every run has one order of task creation, and is compared with Linux's run of the same order. Thresholds are measured,
as in the section on SAM.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pinfold.evaluation.finished import Run, finished
from pinfold.evaluation.sam_limits import calibrated
from pinfold.evaluation.sam_mixes import files
from pinfold.evaluation.sam_runs import MACHINE, RECORDINGS, at_once, geometric_mean
from pinfold.evaluation.sam_workloads import MIXES, QUICK_MIXES, Application, mix
from pinfold.evaluation.section import Promise, Section, Table

LASTS = 60
"""Seconds of virtual time after the first decision."""

SEEDS = range(3)
"""Each is another order of task creation."""

LINUX, ALONE, DAEMON = "linux", "mapper", "daemon"

POLICIES: Mapping[str, tuple[str, ...]] = {
    LINUX: ("--policy", "none"),
    ALONE: ("--policy", "sam", "--without", "pages-follow"),
    DAEMON: ("--policy", "sam", "--compared"),
}
"""Who places the tasks. The mapper alone moves no pages, as in the paper."""

LEAST = 0.99
"""The least speed of a process over Linux."""


@dataclass(frozen=True)
class Row:
    """A mix.

    Attributes
    ----------
    mix : int
        Its number in table 2 of the paper.
    applications : str
        What it is made of.
    mean, slowest : dict
        By policy: of the speeds of applications over Linux's of the same order, the geometric mean, and the least one.
        Of an application the geometric mean of all orders counts.
    orders : dict
        By policy: the least speed of a process over Linux's, in each order.
    outcomes : dict
        The daemon's comparisons, in all orders, by what became of the moves.
    """

    mix: int
    applications: str
    mean: dict[str, float]
    slowest: dict[str, float]
    orders: dict[str, list[float]]
    outcomes: dict[str, int]


def fairness(quick: bool) -> Section:
    """Run the mixes."""
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    thresholds = calibrated(MACHINE, RECORDINGS / "thresholds.toml")
    numbers = QUICK_MIXES if quick else tuple(MIXES)
    seeds = SEEDS[:1] if quick else SEEDS
    keys = [(number, seed, name) for number in numbers for seed in seeds for name in POLICIES]
    # Recordings are made one after the other: many runs need the same ones.
    recordings = {number: files(mix(MIXES[number])) for number in numbers}
    runs = at_once([partial(_run, recordings[number], seed, name, thresholds) for number, seed, name in keys])
    found = dict(zip(keys, runs, strict=True))
    rows = [
        row(number, {name: [found[number, seed, name] for seed in seeds] for name in POLICIES}) for number in numbers
    ]
    reduced = "A reduced set (`make evaluation-quick`).\n\n" if quick else ""
    return Section(
        "fairness",
        "The daemon on mixes, process by process",
        reduced + text(rows, len(seeds)),
        [
            f"pinfold run --machine {MACHINE} {' '.join(POLICIES[DAEMON])} --thresholds thresholds.toml "
            f"--probe {LASTS}s membench-12.pft hubench-8.pft"
        ],
        [table(rows)],
        {"simulated": True, "seconds": LASTS, "orders": len(seeds), "rows": [asdict(row) for row in rows]},
        promises=promises(rows),
    )


def _run(recordings: Sequence[Path], seed: int, name: str, thresholds: Path) -> Run:
    words = ["--machine", MACHINE, "--seed", str(seed), "--probe", f"{LASTS}s", "--warm-up", "0s", *POLICIES[name]]
    if name != LINUX:
        words += ["--thresholds", str(thresholds)]
    return finished(words, recordings, [thresholds])


def by_application(applications: Sequence[Application], speeds: Sequence[float]) -> list[float]:
    """Return the mean of the processes of each application."""
    rest = iter(speeds)
    return [statistics.fmean(next(rest) for _ in range(one.processes)) for one in applications]


def over_linux(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the speeds of one run over those of Linux's."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def row(number: int, runs: Mapping[str, Sequence[Run]]) -> Row:
    """Compare the runs of a mix; of each policy one for each order."""
    applications = mix(MIXES[number])
    mean, slowest, orders = {}, {}, {}
    for name in (ALONE, DAEMON):
        pairs = list(zip(runs[name], runs[LINUX], strict=True))
        over = [
            over_linux(*(by_application(applications, run.speeds) for run in (ours, theirs))) for ours, theirs in pairs
        ]
        gains = [geometric_mean(gains) for gains in zip(*over, strict=True)]
        mean[name], slowest[name] = geometric_mean(gains), min(gains)
        orders[name] = [min(over_linux(ours.speeds, theirs.speeds)) for ours, theirs in pairs]
    outcomes: dict[str, int] = {}
    for run in runs[DAEMON]:
        for outcome, times in run.comparisons.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + times
    return Row(number, MIXES[number], mean, slowest, orders, outcomes)


def means(rows: Sequence[Row]) -> dict[str, float]:
    """Return the geometric mean of all mixes, by policy."""
    return {name: geometric_mean(row.mean[name] for row in rows) for name in (ALONE, DAEMON)}


def text(rows: Sequence[Row], orders: int) -> str:
    """Describe the experiment and its results."""
    mean = means(rows)
    least = {name: min(rows, key=lambda row: row.slowest[name]) for name in (ALONE, DAEMON)}
    harmed = {name: sum(row.slowest[name] < LEAST for row in rows) for name in (ALONE, DAEMON)}
    return (
        f"Simulated on `{MACHINE}`: {len(rows)} mixes of SAM's table 2 with the workloads of the section on SAM, "
        f"{LASTS} s of virtual time with all costs, in {orders} orders of task creation. Speeds are over Linux's of "
        "the same order. *Mapper* is SAM's mapper alone, *daemon* is the mapper as the daemon has it: its moves are "
        "compared with the unpinned machine in turns, and stay only if they help a process and harm none. Before they "
        "are given up, the pages of processes that were moved away from them follow. The mapper alone moves no pages, "
        "as in the paper. Of an application the mean of its processes and of the orders counts, because the scheduler "
        "places tasks differently each time it is disturbed.\n\n"
        f"Geometric mean over Linux: mapper {mean[ALONE]:.3f}, daemon {mean[DAEMON]:.3f}. Slowest application of any "
        f"mix: mapper {least[ALONE].slowest[ALONE]:.3f} (#{least[ALONE].mix}), daemon "
        f"{least[DAEMON].slowest[DAEMON]:.3f} (#{least[DAEMON].mix}). Mixes with an application that is slower than "
        f"under Linux by more than {1 - LEAST:.0%}: mapper {harmed[ALONE]}, daemon {harmed[DAEMON]}. Where the "
        "daemon's mean is below the mapper's, the moves that it withdrew helped some applications and harmed others."
    )


def table(rows: Sequence[Row]) -> Table:
    """Return a row for each mix."""
    body = [
        [
            f"#{row.mix}",
            row.applications,
            *(f"{row.mean[name]:.3f}" for name in (ALONE, DAEMON)),
            *(f"{row.slowest[name]:.3f}" for name in (ALONE, DAEMON)),
            *(", ".join(f"{least:.2f}" for least in row.orders[name]) for name in (ALONE, DAEMON)),
            ", ".join(f"{times} {outcome}" for outcome, times in sorted(row.outcomes.items())) or "none",
        ]
        for row in rows
    ]
    head = [
        *("mix", "applications", "mapper", "daemon", "slowest: mapper", "slowest: daemon"),
        *("slowest process by order: mapper", "slowest process by order: daemon", "comparisons"),
    ]
    return Table(head, body, "Speeds over Linux's of the same order, simulated:")


def promises(rows: Sequence[Row]) -> list[Promise]:
    """Return what is asked for."""
    mean = means(rows)
    over = mean[DAEMON] / mean[ALONE]
    least = min(row.slowest[DAEMON] for row in rows)
    return [
        Promise("speed of the daemon over SAM's mapper alone, mean", round(over, 4), "", "at least 1", over >= 1),
        Promise(
            "speed of the daemon over Linux, slowest application",
            round(least, 4),
            "",
            f"at least {LEAST}",
            least >= LEAST,
        ),
    ]
