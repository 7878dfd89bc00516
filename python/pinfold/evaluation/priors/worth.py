"""What a belief from generated programs is worth for programs that it has not seen: pinfold's own workloads.

Each workload is recorded and simulated as a generated program is (:mod:`pinfold.evaluation.priors.sweep`), on two
machines that are cut down and not varied: a model that no generated program ran on, and one with several last-level
caches a node. No application is among them, and so none that is for judging only. Sizes are the smaller ones of
:mod:`pinfold.evaluation.react.programs`, because caches have an eighth of their size.

The table has the share of the possible gain after trials: with the belief, in random order, and in the fixed order of
the named placements of ``auto`` (``crates/policy/src/auto/proposals.rs``), without those that the space lacks. Then
the pages of the best placement are interleaved.

A second table has the placements of affinity hints alone: the speed after trials over that of running packed and
distributed, and keeping the faster.

``python -m pinfold.evaluation.priors.worth BELIEF.json``, in the project's root after ``make build workloads``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet

from pinfold.applications.recording import FailedError
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.priors import machines
from pinfold.evaluation.priors.configurations import FIRST_TOUCH, INTERLEAVE, of_auto
from pinfold.evaluation.priors.sweep import RESULTS, Subject, folder, record, share_of, simulate
from pinfold.evaluation.react.programs import SCALED, UNSCALED
from pinfold.evaluation.workloads import Workload
from pinfold.joined import joined
from pinfold.learn.belief import file as belief_file
from pinfold.learn.belief.choice import gains_of
from pinfold.learn.belief.data import Times, read
from pinfold.learn.belief.judging import BELIEF, RANDOM, TRIALS, Judged, given
from pinfold.learn.belief.point import COMPACT, Point
from pinfold.learn.races import Floats
from pinfold.split import refuse_judged
from pinfold.tables import Table

MACHINES = ("platinum-8168x2", "epyc-7763x2")

THREADS = 8

FIXED = "fixed order of auto"

SHOWN = 5
"""The numbers of trials that the table shows."""


def workloads() -> list[Workload]:
    """Return the workloads, each with the smaller of its sizes."""
    return [*(one.workloads()[0] for one in SCALED), *UNSCALED]


def sweep(results: Path = RESULTS) -> Path:
    """Sweep the missing workloads, and return the data set of all."""
    tables = []
    refuse_judged(one.program for one in workloads())
    for number, workload in enumerate(workloads()):
        data = folder(results) / "worth" / f"{workload.name}.parquet"
        print(f"worth: {number + 1} of {len(workloads())}: {workload.name}", file=sys.stderr, flush=True)
        try:
            tables.append(pyarrow.parquet.read_table(made_once(data, partial(_sweep, workload, number))))
        except FailedError as error:
            print(f"worth: {error}", file=sys.stderr, flush=True)
    file = results / "worth.parquet"
    pyarrow.parquet.write_table(joined(tables), file, compression="zstd")
    return file


def _sweep(workload: Workload, number: int, data: Path) -> None:
    with TemporaryDirectory(dir=data.parent) as temporary:
        recording, tables = Path(temporary) / "program.pft", []
        record(workload.command(THREADS), recording, str(workload.region))
        for place, name in enumerate(MACHINES):
            cores = round(THREADS / share_of(number, place))
            model, shape = machines.cut_down(machines.read(name), cores)
            subject, chosen = Subject(workload.program, recording, model), of_auto(shape, THREADS)
            tables.append(simulate(subject, chosen, chosen[0], Path(temporary))[0])
        pyarrow.parquet.write_table(joined(tables), data, compression="zstd")


def fixed_order(points: Sequence[Point], logs: Floats, baseline: int) -> list[int]:
    """Return the configurations as ``auto`` orders them without a belief, but for the baseline.

    The named placements, if they exist: neighbouring ranks together on all nodes; as few nodes as possible; as
    few cores as possible, with siblings. Then come the others, and the best one with its pages interleaved.
    """

    def rank(place: int) -> tuple[float, ...]:
        point = points[place]
        on_core = point.threads / point.cores
        if point.nodes == 1 and point.thread_map == COMPACT and on_core == 1:
            return (0, -(point.llcs or 1))
        return (1 if on_core == 1 else 2, point.nodes, point.llcs or 1)

    named = sorted((place for place, point in enumerate(points) if point.page_map == FIRST_TOUCH), key=rank)
    best = min(named, key=lambda place: float(logs[place]))
    interleaved = points[best]._replace(page_map=INTERLEAVE)
    rest = [place for place in range(len(points)) if place not in named]
    rest.sort(key=lambda place: (points[place] != interleaved, points[place].page_map != INTERLEAVE))
    return [place for place in [*named, *rest] if place != baseline]


def judged(times: Times, belief: Path) -> Judged:
    """Return what each way gains."""
    found = given(times, belief_file.read(belief))
    curves = []
    for region, baseline in enumerate(times.baselines):
        run = np.flatnonzero(np.isfinite(times.logs[region]))
        points, logs = [times.points[place] for place in run], times.logs[region, run]
        order = fixed_order(points, logs, int(np.flatnonzero(run == baseline)[0]))
        gains = gains_of(order, logs)
        curves.append(np.concatenate([gains, np.full(max(TRIALS), gains[-1])])[: max(TRIALS)])
    return Judged(times, {BELIEF: found.gains[BELIEF], RANDOM: found.gains[RANDOM], FIXED: np.array(curves)})


def of_hints(times: Times) -> Times:
    """Return the times of placements as affinity hints have them: a thread on each core, and pages at first touch."""
    kept = np.array([one.page_map == FIRST_TOUCH and one.threads == one.cores for one in times.points])
    return replace(times, logs=np.where(kept, times.logs, np.nan))


def packed_and_distributed(points: Sequence[Point]) -> list[int]:
    """Return the placements on as few caches as possible and on as many, with neighbours together."""
    compact = [place for place, point in enumerate(points) if point.thread_map == COMPACT]
    caches = {place: (points[place].nodes, points[place].llcs or 1) for place in compact}
    return [min(compact, key=caches.__getitem__), max(compact, key=caches.__getitem__)]


def hints_table(times: Times, belief: Path, where: str) -> Table:
    """Return the speed after trials of hints over the faster of packed and distributed, as ``hints`` has trials."""
    hints = of_hints(times)
    found = given(hints, belief_file.read(belief))
    both = np.zeros(len(hints.regions))
    for region in range(len(hints.regions)):
        run = np.flatnonzero(np.isfinite(hints.logs[region]))
        pair = packed_and_distributed([hints.points[place] for place in run])
        both[region] = gains_of(pair, hints.logs[region, run])[-1]
    rows = [
        [way, *(f"{float(np.exp((found.gains[way][:, number - 1] - both).mean())):.3f}" for number in TRIALS[:SHOWN])]
        for way in (BELIEF, RANDOM)
    ]
    caption = f"Speed after trials of hints over packed and distributed, the faster kept, {where}, simulated:"
    return Table(["", *map(str, TRIALS[:SHOWN])], rows, caption)


def table(found: Judged, where: str) -> Table:
    """Return the share of the possible gain of each way, with 95 % intervals over programs."""
    rows = [
        [way, *(f"{one.share:.3f} ({one.low:.3f} to {one.high:.3f})" for one in found.shares(way)[:SHOWN])]
        for way in found.gains
    ]
    speed_up = float(np.exp(found.possible.mean()))
    caption = (
        f"Share of the possible gain (a mean speed-up of {speed_up:.2f}) after trials, "
        f"{len(found.times.regions)} regions {where}, simulated:"
    )
    return Table(["", *map(str, TRIALS[:SHOWN])], rows, caption)


def main() -> None:
    """Sweep the missing workloads, and print a table for both machines together and for each."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and the belief
        sys.exit("usage: python -m pinfold.evaluation.priors.worth BELIEF.json")
    times = read([sweep()])
    machine = np.array([one.machine for one in times.regions])
    print(*table(judged(times, Path(sys.argv[1])), "of both machines").markdown(), sep="\n")
    for name in MACHINES:
        print(*table(judged(times.at(machine == name), Path(sys.argv[1])), f"on {name}").markdown(), sep="\n")
        print(*hints_table(times.at(machine == name), Path(sys.argv[1]), f"on {name}").markdown(), sep="\n")


if __name__ == "__main__":
    main()
