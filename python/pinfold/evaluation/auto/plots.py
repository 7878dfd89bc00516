"""What the default policy gains: each program's time over that of its best static placement, with and without it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from pinfold.evaluation import plot
from pinfold.evaluation.auto.runs import AUTO, UNPINNED
from pinfold.plot import TEXT

COLOURS = {UNPINNED: "tab:orange", AUTO: "tab:blue"}
LABELS = {UNPINNED: "unpinned", AUTO: "pinfold"}

APART = 0.05
"""The dots of the two are this far left and right of the time, as a share of it."""

UNITS = (("h", 3600), ("min", 60), ("s", 1))

Data = Mapping[str, Any]
"""A run of the section's JSON: ``time_s``, ``oracle_s``, and ``seconds`` by policy."""


def over_best(runs: Sequence[Data], policy: str) -> dict[int, list[float]]:
    """Return each program's time over the best static placement's, in ascending order, by the length of the run."""
    ratios: dict[int, list[float]] = {}
    for run in runs:
        seconds = run["seconds"].get(policy)
        if seconds is not None:
            ratios.setdefault(run["time_s"], []).append(seconds / run["oracle_s"])
    return {time: sorted(ratios[time]) for time in sorted(ratios)}


def gain_figure(runs: Sequence[Data]) -> Path:
    """Draw all programs as dots, and the worst of them as lines, over the length of the run."""
    drawn = plot.figure()
    axes = drawn.subplots()
    times: list[int] = []
    for policy, side in ((UNPINNED, 1 - APART), (AUTO, 1 + APART)):
        ratios = over_best(runs, policy)
        times = list(ratios)
        colour = COLOURS[policy]
        for time, values in ratios.items():
            axes.scatter([time * side] * len(values), values, s=9, alpha=0.4, color=colour, linewidths=0)
        worst = [values[-1] for values in ratios.values()]
        axes.plot([time * side for time in times], worst, color=colour)
        _label(axes, (times[-1], worst[-1]), f"{LABELS[policy]}, worst", colour)
    medians = [statistics.median(over_best(runs, policy)[times[-1]]) for policy in COLOURS]
    _label(axes, (times[-1], statistics.mean(medians)), "both, median", "dimgrey", below=True)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(times[0] / 1.4, times[-1] * 3.2)
    axes.set_xticks(times, [_words(time) for time in times], fontsize=TEXT)
    axes.set_yticks([1, 1.5, 2, 3, 4], ["1", "1.5", "2", "3", "4"], fontsize=TEXT)
    axes.minorticks_off()
    axes.axhline(1, color="lightgrey", zorder=0)
    axes.set_xlabel("run time of the program in its best placement", fontsize=TEXT)
    axes.set_ylabel("time over the best\nstatic placement's", fontsize=TEXT)
    for side_of_axes in ("top", "right"):
        axes.spines[side_of_axes].set_visible(False)
    return plot.save(drawn, "auto-gain")


def _label(axes: Axes, last: tuple[float, float], text: str, colour: str, *, below: bool = False) -> None:
    x, y = last
    axes.text(x * (1 + 3 * APART), y, text, color=colour, fontsize=TEXT, va="top" if below else "bottom")


def _words(seconds: int) -> str:
    unit, length = next((unit, length) for unit, length in UNITS if seconds >= length)
    return f"{seconds // length} {unit}"
