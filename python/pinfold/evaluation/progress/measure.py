"""Measures a program: the rate of its metric beside its own figure, and what pinfold costs it.

1. A run with the default policy says which metric pinfold chooses, and whether it pins the program.
2. A run without a policy has three windows: the program is free, and gets a half and a third of the processor time that
   it has used when it was free. At both ends of a window the program's own figure is read. The metric's growth between
   these times is that of the record's timeline.
3. A short job runs in pairs, alone and under pinfold.

Both figures are of the same window, so other load of the machine changes both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pinfold.evaluation.progress.running import Place, running


@dataclass(frozen=True)
class Lengths:
    """How long the parts of a measurement are, in seconds.

    Attributes
    ----------
    choice : float
        The run with the default policy.
    settling : float
        The time after a change of the quota that no window contains.
    windows : tuple of float
        The windows: free, at a half, and at a third. The slower ones are longer, because they have fewer steps.
    job : float
        A job of a pair.
    pairs : int
        The number of pairs.
    """

    choice: float = 6.0
    settling: float = 1.0
    windows: tuple[float, float, float] = (3.0, 4.0, 5.0)
    job: float = 1.0
    pairs: int = 11


LAST = 2.0
"""Seconds in which the counts are read, even if readings rest because they take long."""

STARTS = 5
"""Runs of a program that ends at once."""

READ_EACH = "200ms"
"""A timeline has few enough readings of this interval that each stays a point."""


@dataclass(frozen=True)
class Choice:
    """What the default policy does with the program.

    Attributes
    ----------
    metric : str or None
        The metric that it chooses.
    why : str
        Why that one, or why none.
    pinned : list of int or None
        The CPUs that it has kept; None for an unpinned program.
    gain : float or None
        The gain over the unpinned program that it has measured for these.
    """

    metric: str | None
    why: str
    pinned: list[int] | None
    gain: float | None


@dataclass(frozen=True)
class Window:
    """A window of a run.

    Attributes
    ----------
    seconds : float
        Its length.
    processor : float
        The processor time a second of the program.
    own : float
        The growth a second of the program's own figure.
    counted : dict
        The growth a second of each metric; None if it was not read.
    """

    seconds: float
    processor: float
    own: float
    counted: dict[str, float | None]


@dataclass(frozen=True)
class Costs:
    """What pinfold costs.

    Attributes
    ----------
    wall, processor : list of float
        The time of a job under pinfold over that of the job alone, minus one, for each pair: the time of day, and the
        processor time of all processes. The latter contains pinfold's own time after its start. Empty for a server,
        which does not end.
    own : float
        pinfold's own processor time over the time of the run.
    """

    wall: list[float]
    processor: list[float]
    own: float


@dataclass(frozen=True)
class Measured:
    """The row of a program."""

    choice: Choice
    windows: list[Window] = field(default_factory=list)
    costs: Costs | None = None

    def slowed(self) -> list[float]:
        """Return how many times slower the program's own figure was in each window than in the first one."""
        return [self.windows[0].own / window.own for window in self.windows]

    def differences(self) -> list[float | None]:
        """Return, for each slowed window, the metric's change over the own figure's change, minus one."""
        return [self._difference(window) for window in self.windows[1:]]

    def _difference(self, window: Window) -> float | None:
        free = self.windows[0]
        before, after = (one.counted.get(self.choice.metric or "") for one in (free, window))
        return after / before / (window.own / free.own) - 1 if before and after is not None else None


def choose(place: Place, lengths: Lengths) -> Choice:
    """Run a program with the default policy. As it is named, it also measures where nothing can be gained."""
    with running(place, arguments=["--policy", "auto"]) as one:
        time.sleep(lengths.choice)
        one.check()
    record = one.record()
    metric, chosen = record["metric"], record["chosen"] or {}
    return Choice(
        metric=metric["name"] if metric else None,
        why=record["metric_why"],
        pinned=chosen.get("pus"),
        gain=chosen.get("gain_over_first"),
    )


def windows(place: Place, lengths: Lengths) -> tuple[list[Window], float]:
    """Slow a program down. Return the windows, and pinfold's processor time over the time of the run."""
    group, readings = place.group, []
    with running(place, arguments=["--policy", "none", "--interval", READ_EACH]) as one:
        figure = place.program.figure(place.folder, group)
        figure.at_a_step()
        free = 0.0
        for share, seconds in enumerate(lengths.windows, 1):
            group.limit(free / share if share > 1 else None)
            time.sleep(lengths.settling)
            begin = figure.at_a_step()
            used, began = group.used(), time.monotonic()
            time.sleep(seconds)
            used = (group.used() - used) / (time.monotonic() - began)
            free = free or used
            readings.append((begin, figure.at_a_step(), used))
            one.check()
        # The counts are read once more after the last reading of the figure.
        time.sleep(LAST)
    record = one.record()
    found = []
    for begin, end, used in readings:
        seconds = end.at - begin.at
        counted: dict[str, float | None] = {}
        for series in record["timeline"]["metrics"]:
            times = (begin.at - one.began, end.at - one.began)
            growth = grown(record["timeline"]["at"], series["rates"], *times)
            counted[series["name"]] = None if growth is None else growth / seconds
        found.append(Window(seconds, used, (end.value - begin.value) / seconds, counted))
    return found, record["own_cpu_time"] / record["ran"]


def grown(at: Sequence[float], rates: Sequence[float | None], begin: float, end: float) -> float | None:
    """Return the growth of a metric between two times of a timeline; None if it was not read around both.

    A rate is over the time since the last point that has one. Between two readings, the metric grows evenly.
    """
    known = [(time, rate) for time, rate in zip(at, rates, strict=True) if rate is not None]
    times, totals = [0.0], [0.0]
    for time_, rate in known:
        totals.append(totals[-1] + rate * (time_ - times[-1]))
        times.append(time_)

    def total(when: float) -> float | None:
        after = bisect_right(times, when)
        if after >= len(times):
            return None
        share = (when - times[after - 1]) / (times[after] - times[after - 1])
        return totals[after - 1] + share * (totals[after] - totals[after - 1])

    first, last = total(begin), total(end)
    return None if first is None or last is None else last - first


def costs(place: Place, rate: float, lengths: Lengths) -> tuple[list[float], list[float]]:
    """Run short jobs in pairs, alone and under pinfold. Return the ratios of their times, minus one.

    The first list has the times of day, the second one the processor times of all processes.

    Args:
        place: where it runs.
        rate: the growth a second of the program's own figure.
        lengths: the lengths.
    """
    amount = max(round(rate * lengths.job), 1)
    start = start_of_pinfold(place.binary)

    def job(*, alone: bool) -> tuple[float, float]:
        used, began = place.group.used(), time.monotonic()
        with running(place, amount=amount, arguments=None if alone else ["--policy", "none"]) as one:
            one.wait()
            took = time.monotonic() - began
        own = 0.0 if alone else max(one.record()["own_cpu_time"] - start, 0.0)
        return took, place.group.used() - used + own

    job(alone=True)
    wall: list[float] = []
    processor: list[float] = []
    for pair in range(lengths.pairs):
        # The order changes from pair to pair, because the second job may find warm caches.
        times = {alone: job(alone=alone) for alone in ((True, False) if pair % 2 else (False, True))}
        for ratios, index in ((wall, 0), (processor, 1)):
            ratios.append(times[False][index] / times[True][index] - 1)
    return wall, processor


@cache
def start_of_pinfold(binary: Path) -> float:
    """Return pinfold's own processor time, in seconds, for a program that ends at once: the median of some runs."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        words = [str(binary), "run", "--quiet", "--policy", "none", "--json", str(file), "--", "true"]
        times: list[float] = []
        for _ in range(STARTS):
            subprocess.run(words, check=True)
            times.append(json.loads(file.read_text())["own_cpu_time"])
    return statistics.median(times)
