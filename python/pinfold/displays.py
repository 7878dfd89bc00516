"""Drawings of what the package returns: runs, recordings, and tables of sweeps.

A node has one colour in all of them, the colour that it has on the pages of ``pinfold report``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from numpy.typing import NDArray

from pinfold import plot
from pinfold.plot import Plot

COLOURS = ("#0a58a8", "#a84300", "#12704d", "#83369f", "#086b7a", "#ad1f3d", "#695b00", "#525b66")
"""Of the nodes; the ninth has the first one again, as in page.css."""

MEBIBYTE = 1 << 20

SHOWN = 20
"""More configurations than this cannot be read in one drawing: the fastest are drawn."""


def colour(position: int) -> str:
    """Return the colour of the node at this position."""
    return COLOURS[position % len(COLOURS)]


def of_run(document: Mapping[str, Any]) -> Plot:
    """Draw a run over time: the rate of the metric that decided, each thread by its node, and the pages by node.

    Raises:
        ValueError: the record has no time line, because an older pinfold wrote it.
    """
    line = document.get("timeline")
    if not line or not line["at"]:
        raise ValueError("the record has no time line: run the program again with this pinfold")
    tasks, nodes = line["tasks"], line["nodes"]
    has_pages = any(value for node in nodes for value in node["bytes"])
    heights = [2.0, 0.4 + 0.18 * len(tasks), *([1.2] if has_pages else [])]
    drawn = plot.figure(height=sum(heights) + 0.6)
    rows = drawn.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    end = float(document.get("ran") or line["at"][-1])
    _rate(rows[0], document, line)
    _threads(rows[1], line, end)
    if has_pages:
        _pages(rows[2], line)
    chosen = document.get("chosen")
    for axes in rows:
        axes.tick_params(labelsize=plot.TEXT)
        axes.set_xlim(0, end)
        if chosen:
            axes.axvline(chosen["at"], color="0.3", linewidth=1, linestyle="dotted")
    rows[-1].set_xlabel("time [s]" + _word(document), fontsize=plot.TEXT)
    return Plot(drawn)


def _word(document: Mapping[str, Any]) -> str:
    """Return what became of a program that did not really run, as the end of a label."""
    if document.get("machine_kind") == "table":
        return ", replayed"
    return ", simulated" if document.get("simulated") else ""


def _rate(axes: Axes, document: Mapping[str, Any], line: Mapping[str, Any]) -> None:
    metric = document.get("metric")
    series = next((one for one in line["metrics"] if metric and one["name"] == metric["name"]), None)
    if series is None:
        axes.set_ylabel("no rate", fontsize=plot.TEXT)
        return
    rates = [np.nan if rate is None else rate for rate in series["rates"]]
    # A rate is that of the time since the point before.
    axes.stairs(rates, [0.0, *line["at"]], color="black", baseline=None)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"{series['name']} per s", fontsize=plot.TEXT)


def _threads(axes: Axes, line: Mapping[str, Any], end: float) -> None:
    of_pu = _nodes_of_pus(line["topology"])
    at = line["at"]
    for row, task in enumerate(line["tasks"]):
        places = task["places"]
        ends = [*(at[point] for point, _ in places[1:]), end]
        for (point, pu), until in zip(places, ends, strict=True):
            if pu is not None:
                shade = colour(of_pu[pu]) if pu in of_pu else "0.5"
                axes.barh(row, until - at[point], 0.8, left=at[point], color=shade)
    names = [f"T{row} {task['name']}" for row, task in enumerate(line["tasks"])]
    axes.set_yticks(range(len(names)), names, fontsize=plot.TEXT)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _pages(axes: Axes, line: Mapping[str, Any]) -> None:
    positions = {node["id"]: position for position, node in enumerate(line["topology"]["nodes"])}
    below = np.zeros(len(line["at"]))
    for node in line["nodes"]:
        values = _held(node["bytes"]) / MEBIBYTE
        shade = colour(positions.get(node["node"], 0))
        axes.fill_between(line["at"], below, below + values, step="post", color=shade, linewidth=0)
        if values[-1] > 0:
            middle = below[-1] + values[-1] / 2
            axes.annotate(
                f" node {node['node']}", (line["at"][-1], middle), color=shade, va="center", fontsize=plot.TEXT
            )
        below += values
    axes.set_ylim(bottom=0)
    axes.set_ylabel("pages [MiB]", fontsize=plot.TEXT)


def _held(values: Sequence[int | None]) -> NDArray[np.float64]:
    """Return each value until the next one is read; 0 before the first."""
    held, last = [], 0
    for value in values:
        last = last if value is None else value
        held.append(float(last))
    return np.array(held)


def _nodes_of_pus(topology: Mapping[str, Any]) -> dict[int, int]:
    """Return the position of the node of each PU."""
    found = {}
    for position, node in enumerate(topology["nodes"]):
        for part in filter(None, node["pus"].split(",")):
            first, _, last = part.partition("-")
            found.update(dict.fromkeys(range(int(first), int(last or first) + 1), position))
    return found


@dataclass(frozen=True)
class Sharing:
    """Which threads of a program exchange data.

    Attributes
    ----------
    communications : ndarray of shape (n_threads, n_threads)
        The row is the thread that wrote, the column the one that read: lines that it read first after the write.
    """

    communications: NDArray[np.int64]

    def plot(self) -> Plot:
        """Draw both directions of each pair together, the darker the more."""
        pairs = self.communications + self.communications.T
        np.fill_diagonal(pairs, 0)
        threads = len(pairs)
        side = 1.6 + min(0.22 * threads, 5.0)
        drawn = plot.figure(side + 1.0, side)
        axes = drawn.add_subplot()
        image = axes.imshow(pairs, cmap="Blues", vmin=0)
        step = max(1, threads // 24)
        names = [f"T{thread}" for thread in range(0, threads, step)]
        axes.set_xticks(range(0, threads, step), names, fontsize=plot.TEXT, rotation=90)
        axes.set_yticks(range(0, threads, step), names, fontsize=plot.TEXT)
        bar = drawn.colorbar(image, ax=axes)
        bar.set_label("exchanged lines", fontsize=plot.TEXT)
        bar.ax.tick_params(labelsize=plot.TEXT)
        return Plot(drawn)

    def _repr_svg_(self) -> str:
        return self.plot()._repr_svg_()


class SweepDisplay:
    """Draws the data set of a sweep: the time of each configuration over that of the fastest.

    >>> import pinfold
    >>> table = pinfold.sweep("program.pft", "e5-4650x4", "placement")  # doctest: +SKIP
    >>> pinfold.SweepDisplay(table).plot()  # doctest: +SKIP
    """

    def __init__(self, table: pa.Table) -> None:
        """Store the table, which `sweep` returned or a data set has."""
        self.table = table

    def plot(self, *, shown: int = SHOWN) -> Plot:
        """Draw bars from zero for each program and machine, the fastest configuration at the top.

        Args:
            shown: the most configurations of a program.

        Raises:
            ValueError: the table has no rows.
        """
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in self.table.to_pylist():
            region = f", region {row['region']}" if row["region"] is not None else ""
            groups.setdefault((f"{row['program']}{region}", str(row["machine"])), []).append(row)
        if not groups:
            raise ValueError("the table has no rows, so there is nothing to draw")
        sizes = [min(len(rows), shown) for rows in groups.values()]
        drawn = plot.figure(height=0.6 + sum(0.5 + 0.2 * size for size in sizes))
        every = drawn.subplots(len(groups), 1, squeeze=False, height_ratios=sizes)
        for axes, ((program, machine), rows) in zip(every[:, 0], groups.items(), strict=True):
            fastest = sorted(rows, key=lambda row: row["time_s"])[:shown]
            # A region without instructions takes no time.
            best = fastest[0]["time_s"] or 1.0
            axes.barh(range(len(fastest)), [row["time_s"] / best for row in fastest], 0.7, color=COLOURS[0])
            axes.set_yticks(range(len(fastest)), [_configuration(row) for row in fastest], fontsize=plot.TEXT)
            axes.set_ylim(len(fastest) - 0.4, -0.6)
            axes.set_title(f"{program} on {machine}", fontsize=plot.TEXT, loc="left")
            axes.tick_params(labelsize=plot.TEXT)
        every[-1, 0].set_xlabel("time over that of the fastest", fontsize=plot.TEXT)
        return Plot(drawn)


def _configuration(row: Mapping[str, Any]) -> str:
    """Return a configuration in words: its threads, its nodes, and what was done with pages and prefetchers."""
    words = [f"{row['num_threads']} threads"]
    if row["num_nodes"] is not None:
        words.append(f"{row['num_nodes']} nodes")
    if (most := row.get("threads_per_core")) is not None and most > 1:
        words.append(f"{most} on a core")
    words += [row["thread_map"] or row["pinning"] or "unpinned", row["page_map"]]
    if row["prefetch"] not in (None, "0000"):
        words.append(f"prefetchers {row['prefetch']}")
    return ", ".join(str(word) for word in words if word is not None)
