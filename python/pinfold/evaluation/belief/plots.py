"""What a belief gains with each trial, beside ways without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from pinfold.evaluation import plot
from pinfold.learn.belief.judging import BELIEF, CONTROL, RACE, RANDOM, SINGLE
from pinfold.plot import TEXT

WAYS = (
    (BELIEF, "belief", "tab:blue", "solid"),
    (RACE, "greedy race", "tab:orange", "solid"),
    (CONTROL, "control: exchanged times", "tab:blue", "dotted"),
    (RANDOM, "random", "dimgrey", "dashed"),
    (SINGLE, "best single configuration", "tab:green", "dashdot"),
)
"""The drawn ways, each with its label, its colour and its line."""

Data = Mapping[str, Any]
"""A subject of the section's JSON: ``ways`` has shares with intervals, by way and number of trials."""


def trials_figure(panels: Sequence[tuple[str, Data]]) -> Path:
    """Draw the shares over the number of trials: a panel for each subject, the belief with its interval.

    Args:
        panels: the title of each panel and its subject.
    """
    drawn = plot.figure()
    grid = drawn.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (title, subject) in zip(grid, panels, strict=True):
        _panel(axes, title, subject)
    grid[0].set_ylabel("share of the possible gain", fontsize=TEXT)
    lines, labels = grid[0].get_legend_handles_labels()
    drawn.legend(lines, labels, loc="outside lower center", ncols=3, fontsize=TEXT, frameon=False)
    return plot.save(drawn, "belief-trials")


def _panel(axes: Axes, title: str, subject: Data) -> None:
    for way, label, colour, line in WAYS:
        shares = subject["ways"].get(way)
        if shares is None:
            continue
        trials = [int(number) for number in shares]
        found = list(shares.values())
        axes.plot(trials, [one["share"] for one in found], color=colour, linestyle=line, label=label)
        if way == BELIEF:
            low, high = ([one[end] for one in found] for end in ("low", "high"))
            axes.fill_between(trials, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(trials_shown := [1, 2, 3, 5, 8, 12, 16], [str(number) for number in trials_shown], fontsize=TEXT)
    axes.minorticks_off()
    axes.set_ylim(0, 1.02)
    axes.tick_params(axis="y", labelsize=TEXT)
    axes.axhline(1, color="lightgrey", zorder=0)
    axes.set_title(title, fontsize=TEXT)
    axes.set_xlabel("trials", fontsize=TEXT)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
