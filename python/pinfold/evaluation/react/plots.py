"""The figures of the study of configurations per region: those of Sánchez Barrera et al., with the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from pinfold.evaluation import plot
from pinfold.learn.react.data import Regions
from pinfold.learn.react.method import OUTPUTS, coverage

SHOWN = 40
"""The number of configurations of figure 4."""


def clusters_figure(found: Regions) -> Path:
    """Draw figure 2: each region's speed in each configuration over its best, regions clustered by Ward's method."""
    gains = found.gains
    speeds = np.exp(gains - gains.max(axis=1, keepdims=True))
    order = leaves_list(linkage(speeds, "ward")) if len(speeds) > 1 else np.arange(len(speeds))
    drawn = plot.figure(height=2 + 0.12 * len(speeds))
    axes = drawn.subplots()
    image = axes.imshow(speeds[order], aspect="auto", interpolation="nearest", cmap="viridis", vmin=0, vmax=1)
    axes.set_yticks(range(len(order)), [_name(found, int(place)) for place in order], fontsize=4)
    axes.set_xlabel("configurations, sorted by threads, nodes, map, pages and prefetchers")
    axes.set_title(f"{found.machine}{_simulated(found)}: speed over that of the best configuration")
    drawn.colorbar(image)
    return plot.save(drawn, f"react-regions-{found.machine}")


def _name(found: Regions, place: int) -> str:
    return found.names[place][0][:60]


def _simulated(found: Regions) -> str:
    return " (simulated)" if found.simulated else ""


def coverage_figure(machines: Mapping[str, Regions]) -> Path:
    """Draw figure 4: the share of the possible gain with the best configurations."""
    drawn = plot.figure()
    axes = drawn.subplots()
    for machine, found in machines.items():
        shares = coverage(found.gains)[:SHOWN]
        axes.plot(range(1, len(shares) + 1), shares, marker=".", label=f"{machine}{_simulated(found)}")
    axes.axvline(OUTPUTS, color="grey", linestyle="dashed")
    axes.set_xlabel("number of configurations")
    axes.set_ylabel("share of the possible gain")
    axes.legend()
    return plot.save(drawn, "react-coverage")


def folds_figure(counted_on: str, machine: str, folds: Sequence[tuple[float, float]]) -> Path:
    """Draw figure 6: the predicted and the best speed-up of each fold, by the paper's score."""
    alone = counted_on == machine
    drawn = plot.figure()
    axes = drawn.subplots()
    for offset, kind, label, colour in ((-0.2, 0, "predicted", "tab:blue"), (0.2, 1, "best", "black")):
        axes.bar(
            [place + offset for place in range(len(folds))],
            [fold[kind] for fold in folds],
            0.4,
            color=colour,
            label=label,
        )
    axes.axhline(1, color="grey", linestyle="dashed")
    axes.set_xlabel("fold")
    axes.set_ylabel("speed-up over the baseline")
    axes.set_title(f"{machine if alone else f'{machine} from {counted_on}'}: the best pair on the folds that chose it")
    axes.legend()
    return plot.save(drawn, f"react-folds-{machine}" if alone else f"react-folds-{machine}-from-{counted_on}")


def methods_figure(
    models: Sequence[Mapping[str, Any]], baselines: Mapping[tuple[str, str], Mapping[str, float]]
) -> Path:
    """Draw figure 7: the speed-up of each method by the paper's score, and what the same method reaches nested.

    Args:
        models: the rows of table 3.
        baselines: by the machine whose counters are seen and the judged one, the baselines' speed-ups.
    """
    machines = list(dict.fromkeys((one["counted_on"], one["machine"]) for one in models))
    drawn = plot.figure(height=2.5 * len(machines))
    grid = drawn.subplots(len(machines), 1, squeeze=False)
    for axes, (counted_on, machine) in zip(grid[:, 0], machines, strict=True):
        shown = [one for one in models if (one["counted_on"], one["machine"]) == (counted_on, machine)]
        places = np.arange(len(shown))
        axes.bar(places - 0.2, [one["paper"] for one in shown], 0.4, color="lightgrey", label="the paper's score")
        # The possible gain, of which the shares are.
        possible = [np.log(one["paper"]) / one["paper_share"] for one in shown]
        nested = [float(np.exp(one["nested"] * gain)) for one, gain in zip(shown, possible, strict=True)]
        axes.bar(places + 0.2, nested, 0.4, color="tab:blue", label="nested")
        for (name, speed), style in zip(baselines[counted_on, machine].items(), ("dashed", "dotted"), strict=True):
            axes.axhline(speed, color="grey", linestyle=style, label=name)
        axes.set_xticks(places, [one["model"] for one in shown], fontsize=7)
        axes.set_title(machine if counted_on == machine else f"{machine} from {counted_on}", fontsize=8)
        axes.set_ylabel("speed-up")
    grid[0, 0].legend(fontsize=6)
    return plot.save(drawn, "react-methods")


def profiles_figure(machine: str, found: Mapping[str, Any]) -> Path:
    """Draw figure 8: the best pair within each single configuration, sorted, beside that of two configurations."""
    drawn = plot.figure()
    axes = drawn.subplots()
    speeds = sorted(found["single"].values(), reverse=True)
    axes.bar(range(len(speeds)), speeds, 1, color="lightgrey", label="one configuration")
    axes.axhline(found["two"], color="tab:blue", label="two configurations")
    axes.axhline(found["possible"], color="black", linestyle="dotted", label="best possible")
    axes.set_xlabel("configuration")
    axes.set_ylabel("speed-up over the baseline")
    axes.set_title(f"{machine}: by the paper's score")
    axes.legend()
    return plot.save(drawn, f"react-profiles-{machine}")
