"""Programs and regions in configurations, from data sets, as the learner of beliefs sees them.

A row is a region of a program, or a whole program where a data set has no regions of it. Configurations become shares
of the machine (:class:`Point`). A data set may have these shares as columns. Otherwise the largest configuration of a
machine in it stands for the whole machine, and the share of last-level caches is not known.

A data set may mark the baseline of each region. If it marks one for each number of threads of a region, the rows with
as many threads for the machine are a region of their own, whose times are over its own baseline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pinfold.learn import tables
from pinfold.learn.belief.point import ALL_ON, COMPACT, PAGE_MAPS, Point
from pinfold.learn.races import Floats

LEAST_PROGRAMS = 3
"""With fewer, the spread between programs cannot be told from chance."""

NEEDED = ("machine", "program", "region", "num_threads", "num_nodes", "thread_map", "page_map", "prefetch", "command")

OPTIONAL = ("threads_per_core", "joined_command", "region_object", "region_offset", "region_complete", "baseline",
            "window_covers", "spread", "time_error")  # fmt: skip

SHARES = ("thread_share", "core_share", "node_share", "llc_share")
"""The columns with the shares of the machine that a configuration uses."""

USUAL = Point(1.0, 1.0, 1.0, "scatter", "locality", ALL_ON)
"""The baseline where none is marked: a thread on each core of several nodes, scattered, pages after locality."""

LEAST_NOISE = 1e-4
"""The variance of a trial that repeats to one percent. Less is not believed of a data set."""


class Region(NamedTuple):
    """A region, or a whole program: the machine, the program, and the identity on every machine."""

    machine: str
    program: str
    name: tuple[str, ...]


@dataclass(frozen=True)
class Times:
    """Times of regions in configurations.

    Attributes
    ----------
    regions : tuple of Region
        The regions, each on one machine.
    points : tuple of Point
        All configurations.
    baselines : array of shape (regions,)
        The position of the configuration whose time is 1, for each region.
    logs : array of shape (regions, points)
        z, the logarithms of the times over that of the baseline. NaN: not run in this configuration.
    weights : array of shape (regions,)
        How much each region counts.
    noise : float
        The variance of one trial.
    """

    regions: tuple[Region, ...]
    points: tuple[Point, ...]
    baselines: npt.NDArray[np.int64]
    logs: Floats
    weights: Floats
    noise: float

    @property
    def programs(self) -> npt.NDArray[np.str_]:
        """The program of each region."""
        return np.array([one.program for one in self.regions])

    @property
    def names(self) -> list[str]:
        """All programs, sorted."""
        return sorted({one.program for one in self.regions})

    @property
    def machines(self) -> list[str]:
        """All machines, sorted."""
        return sorted({one.machine for one in self.regions})

    def at(self, wanted: npt.NDArray[np.bool_]) -> Times:
        """Return some of the regions, with the configurations in which at least one of them was run."""
        kept = np.asarray(np.isfinite(self.logs[wanted]).any(axis=0), dtype=bool)
        return Times(
            regions=tuple(one for one, keep in zip(self.regions, wanted, strict=True) if keep),
            points=tuple(one for one, keep in zip(self.points, kept, strict=True) if keep),
            baselines=(np.cumsum(kept) - 1)[self.baselines[wanted]],
            logs=self.logs[np.ix_(wanted, kept)],
            weights=self.weights[wanted],
            noise=self.noise,
        )


def is_usual(point: Point) -> bool:
    """Return whether a configuration is the usual baseline. Its last-level caches do not matter: it has all of them."""
    return point._replace(llcs=None) == USUAL


def read(files: Sequence[Path], weights: Sequence[float] = ()) -> Times:
    """Read data sets.

    Args:
        files: the data sets.
        weights: how much a region of each data set counts; empty if all count the same.

    Raises:
        ValueError: if a file has no rows to learn from, a region lacks the baseline, or data sets share no
            configuration but the baseline; the message names them.
    """
    found: dict[Region, dict[Point, list[float]]] = {}
    baselines: dict[Region, Point] = {}
    counts: dict[Region, float] = {}
    errors: list[float] = []
    first: Point | None = None
    for number, file in enumerate(files):
        rows = _rows(file)
        errors.extend(_errors(rows))
        for machine in sorted({row["machine"] for row in rows}):
            here = [row for row in rows if row["machine"] == machine]
            of_machine, own, common = _of_machine(file, machine, here)
            first = first or common
            for region, times in of_machine.items():
                baseline = baselines[region] = own.get(region, first)
                if baseline not in times:
                    raise ValueError(
                        f"{file}: {region.program}, {' '.join(region.name)}, has no row in the baseline, "
                        f"{baseline.text()}: sweep it with `--space ics20`, or leave it out"
                    )
                for point, values in times.items():
                    found.setdefault(region, {}).setdefault(point, []).extend(values)
                counts[region] = weights[number] if weights else 1.0
    if first is None:
        raise ValueError(f"{', '.join(map(str, files))}: no row is of pinned threads whose window covers its program")
    _require_overlap(found, set(baselines.values()))
    return _times(found, baselines, counts, errors)


def enough(times: Times) -> Times:
    """Return the times, if something can be learned from them.

    Raises:
        ValueError: if there are too few programs.
    """
    programs = sorted(set(times.programs.tolist()))
    if len(programs) < LEAST_PROGRAMS:
        raise ValueError(
            f"the data is of {len(programs)} program{'s' if len(programs) > 1 else ''} ({', '.join(programs)}): at "
            f"least {LEAST_PROGRAMS} are needed, and many more for a belief that holds for others"
        )
    return times


def _rows(file: Path) -> list[dict[str, Any]]:
    table = tables.to_learn(file)
    tables.require(file, table, NEEDED, "configurations: make one with `pinfold sweep --space ics20`")
    seconds = tables.time_column(file, table)
    optional = [name for name in (*OPTIONAL, *SHARES) if name in table.column_names]
    rows = [
        {**row, "time": row[seconds]}
        for row in table.select([*NEEDED, seconds, *optional]).to_pylist()
        if row["num_nodes"] is not None
        and row.get("window_covers") is not False
        and row.get("region_complete") is not False
    ]
    divided = {(row["machine"], row["program"]) for row in rows if row["region"] is not None}
    rows = [row for row in rows if row["region"] is not None or (row["machine"], row["program"]) not in divided]
    # A region that the window does not execute has no time.
    idle = {(row["machine"], _name(row)) for row in rows if not row["time"] > 0}
    return [row for row in rows if (row["machine"], _name(row)) not in idle]


def _name(row: Mapping[str, Any]) -> tuple[str, ...]:
    if row.get("region_offset") is not None:
        return str(row["joined_command"]), str(row["region_object"]), str(row["region_offset"])
    return str(row.get("joined_command") or row["command"]), str(row["region"] or "")


def _of_machine(
    file: Path, machine: str, rows: Sequence[Mapping[str, Any]]
) -> tuple[dict[Region, dict[Point, list[float]]], dict[Region, Point], Point]:
    """Return the logarithms of times of each region by configuration, its own baseline, and the usual one."""
    cores = max(row["num_threads"] / (row.get("threads_per_core") or 1) for row in rows)
    nodes = max(row["num_nodes"] for row in rows)
    points = [_point(file, row, cores, nodes) for row in rows]
    marks: dict[tuple[str, tuple[str, ...]], set[Point]] = defaultdict(set)
    for point, row in zip(points, rows, strict=True):
        if row.get("baseline"):
            marks[row["program"], _name(row)].add(point)
    several = any(len({point.threads for point in marked}) > 1 for marked in marks.values())
    found: dict[Region, dict[Point, list[float]]] = defaultdict(lambda: defaultdict(list))
    own: dict[Region, Point] = {}
    for point, row in zip(points, rows, strict=True):
        threads = (f"threads for {point.threads:g} of the cores",) if several else ()
        region = Region(machine, row["program"], (*_name(row), *threads))
        found[region][point].append(float(np.log(row["time"])))
        if row.get("baseline"):
            own[region] = point
    if lacking := [region for region in found if marks and region not in own]:
        raise ValueError(f"{file}: {lacking[0].program}, {' '.join(lacking[0].name)}, has no row that is its baseline")
    return found, own, USUAL if nodes > 1 else USUAL._replace(thread_map=COMPACT)


def _point(file: Path, row: Mapping[str, Any], cores: float, nodes: int) -> Point:
    page_map, prefetch = row["page_map"], row["prefetch"]
    if page_map not in PAGE_MAPS:
        raise ValueError(f"{file}: a belief does not know the page map `{page_map}`; it knows {', '.join(PAGE_MAPS)}")
    if len(prefetch) != len(ALL_ON) or set(prefetch) - {"0", "1"}:
        raise ValueError(f"{file}: the prefetchers `{prefetch}` are not {len(ALL_ON)} digits, 0 for on and 1 for off")
    threads, one_node = row["num_threads"], row["num_nodes"] == 1
    used = threads / (row.get("threads_per_core") or 1)
    shares = [threads / cores, used / cores, row["num_nodes"] / nodes]
    llcs = None
    if all(row.get(name) is not None for name in SHARES):
        *shares, llcs = (float(row[name]) for name in SHARES)
    return Point(
        threads=_share(shares[0]),
        cores=_share(shares[1]),
        nodes=_share(shares[2]),
        thread_map=COMPACT if one_node else row["thread_map"] or COMPACT,
        page_map=page_map,
        prefetch=prefetch,
        llcs=None if llcs is None else _share(llcs),
    )


def _share(value: float) -> float:
    """Return a share with the digits that files have."""
    return round(value, 4)


def _errors(rows: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return the relative errors of times: their measured spread, or the error of the simulated sample."""
    found = (row.get("spread") if row.get("spread") is not None else row.get("time_error") for row in rows)
    return [float(one) for one in found if one is not None and np.isfinite(one)]


def _require_overlap(found: Mapping[Region, Mapping[Point, object]], baselines: set[Point]) -> None:
    """Check that machines share configurations: without, nothing of one says anything of the other.

    Raises:
        ValueError: if two share the baseline only.
    """
    of_machine: dict[str, set[Point]] = defaultdict(set)
    for region, times in found.items():
        of_machine[region.machine] |= set(times)
    first, *others = sorted(of_machine)
    joined = of_machine[first]
    for machine in others:
        if joined & of_machine[machine] <= baselines and len(joined) > 1:
            raise ValueError(
                f"{machine} and {first} have no configuration in common but the baseline, so what one shows says "
                "nothing of the other: train a belief for each, or sweep both with the same space"
            )
        joined = joined | of_machine[machine]


def _times(
    found: Mapping[Region, Mapping[Point, Sequence[float]]],
    marked: Mapping[Region, Point],
    counts: Mapping[Region, float],
    errors: Sequence[float],
) -> Times:
    found, marked = _comparable(found, marked)
    regions, points = sorted(found), sorted({point for times in found.values() for point in times})
    place = {point: number for number, point in enumerate(points)}
    logs = np.full((len(regions), len(points)), np.nan)
    for number, region in enumerate(regions):
        for point, values in found[region].items():
            logs[number, place[point]] = np.mean(values)
    baselines = np.array([place[marked[region]] for region in regions], dtype=np.int64)
    logs -= logs[np.arange(len(regions)), baselines][:, None]
    return Times(
        regions=tuple(regions),
        points=tuple(points),
        baselines=baselines,
        logs=logs,
        weights=np.array([counts[region] for region in regions]),
        noise=max(float(np.median(np.square(errors))) if errors else 0.0, LEAST_NOISE),
    )


def _comparable(
    found: Mapping[Region, Mapping[Point, Sequence[float]]], marked: Mapping[Region, Point]
) -> tuple[Mapping[Region, Mapping[Point, Sequence[float]]], Mapping[Region, Point]]:
    """Return points without their shares of last-level caches, unless all points have one."""
    known = {point.llcs is not None for times in found.values() for point in times}
    if len(known) == 1:
        return found, marked

    def without(point: Point) -> Point:
        return point._replace(llcs=None)

    joined: dict[Region, dict[Point, list[float]]] = {region: defaultdict(list) for region in found}
    for region, times in found.items():
        for point, values in times.items():
            joined[region][without(point)].extend(values)
    return joined, {region: without(point) for region, point in marked.items()}
