"""The figures of the study of four placement strategies: those of Denoyelle et al., with the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pinfold.evaluation import plot
from pinfold.evaluation.classify.study import METRICS, Result, best_and_worst
from pinfold.learn.classify.strategies import SENSITIVE, STRATEGIES, Example

LABELS = {"sensitivity": "accuracy", "strategy": "speedup over the default"}


def best_and_worst_figure(found: Sequence[Example], machine: str) -> Path:
    """Draw figure 2: the speed of each program in its best and its worst strategy."""
    rows = sorted(best_and_worst(found), key=lambda row: row["best_speed"])
    drawn = plot.figure(height=2 + 0.17 * len(rows))
    axes = drawn.subplots()
    places = range(len(rows))
    for kind, colour in (("best", "tab:blue"), ("worst", "tab:orange")):
        axes.barh(places, [row[f"{kind}_speed"] - 1 for row in rows], left=1, color=colour, label=kind)
    axes.set_yticks(
        places,
        [f"{row['program'][:44]} [{_short(row['best'])}, {_short(row['worst'])}]" for row in rows],
        fontsize=6,
    )
    for boundary in (1 - SENSITIVE, 1 + SENSITIVE):
        axes.axvline(boundary, color="grey", linestyle="dashed")
    axes.set_xlabel("speed over the default's")
    axes.set_title(f"{machine} (simulated) [best, worst]")
    axes.legend()
    return plot.save(drawn, "classify-best-and-worst")


def _short(strategy: int) -> str:
    return STRATEGIES[strategy].short


def matrix_figure(cells: Sequence[Result], aim: str, name: str) -> Path:
    """Draw figure 3 or 5: a cell for each pair of machines, rows known, columns judged."""
    shown = [one for one in cells if one.aim == aim]
    machines = list(dict.fromkeys(one.known for one in shown))
    drawn = plot.figure(height=5.5)
    grid = drawn.subplots(len(machines), len(machines), sharey=True, squeeze=False)
    for row, known in enumerate(machines):
        for column, judged in enumerate(machines):
            axes = grid[row][column]
            of_cell = [one for one in shown if (one.known, one.judged) == (known, judged)]
            for place, metrics in enumerate(METRICS):
                # Off the diagonal there is a cell for each machine on which the best models are found.
                results = [one for one in of_cell if one.metrics == metrics]
                for offset, kind, colour in ((-0.2, "leaky", "lightgrey"), (0.2, "honest", "tab:blue")):
                    mean = sum(getattr(one, kind) for one in results) / len(results)
                    axes.bar(place + offset, mean, 0.4, color=colour, label=kind if place == 0 else None)
            axes.axhline(of_cell[0].baseline, color="grey", linestyle="dashed")
            axes.axhline(of_cell[0].best, color="black", linestyle="dotted")
            axes.set_xticks(range(len(METRICS)), [metrics[:7] for metrics in METRICS], fontsize=6)
            if row == 0:
                axes.set_title(judged, fontsize=8)
            if column == 0:
                axes.set_ylabel(f"{known}\n{LABELS[aim]}", fontsize=7)
    grid[0][0].legend(fontsize=6)
    return plot.save(drawn, name)


def violin_figure(results: Sequence[Result], aim: str, name: str) -> Path:
    """Draw figure 4 or 6: the scores of all models on test programs, and the elected and the honest ones."""
    shown = [one for one in results if one.aim == aim]
    pairs = list(dict.fromkeys((one.known, one.judged) for one in shown))
    drawn = plot.figure(height=4.5)
    rows = drawn.subplots(2, len(pairs), sharey="row", squeeze=False)
    for column, pair in enumerate(pairs):
        of_pair = [one for one in shown if (one.known, one.judged) == pair]
        above, below = rows[0][column], rows[1][column]
        above.violinplot([next(one for one in of_pair if one.metrics == metrics).tests for metrics in METRICS])
        for place, metrics in enumerate(METRICS, 1):
            one = next(one for one in of_pair if one.metrics == metrics)
            below.plot(place, one.leaky, "o", color="grey", label="leaky" if place == 1 else None)
            below.plot(place, one.honest, "s", color="tab:blue", label="honest" if place == 1 else None)
        below.axhline(of_pair[0].baseline, color="grey", linestyle="dashed")
        below.axhline(of_pair[0].best, color="black", linestyle="dotted")
        above.set_title(f"{pair[0]}\nto {pair[1]}", fontsize=6)
        for axes in (above, below):
            axes.set_xticks(range(1, len(METRICS) + 1), [metrics[:3] for metrics in METRICS], fontsize=6)
    rows[0][0].set_ylabel(f"test {LABELS[aim]}", fontsize=7)
    rows[1][0].set_ylabel(f"validation {LABELS[aim]}", fontsize=7)
    rows[1][0].legend(fontsize=6)
    return plot.save(drawn, name)
