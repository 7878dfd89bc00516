"""The tables of the section on measured tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinfold.evaluation.measured.policies import Ran
from pinfold.evaluation.measured.simulator import Question
from pinfold.evaluation.measured.trials import JUDGED, TIMES, TRIALS, Curve, Table
from pinfold.tables import Table as Shown

NAMES = {10: "10 s", 60: "1 min", 600: "10 min"}
"""Run times in words."""

WITH_INTERVAL = (5, 12)
"""The numbers of trials whose shares are shown with their intervals."""


def trials_table(table: Table, curves: Sequence[Curve]) -> Shown:
    """Return the share of the possible gain of each way after each number of trials."""
    columns = [
        "",
        *(f"{number} trial{'s' if number > 1 else ''}" for number in TRIALS),
        *(NAMES[time] for time in TIMES),
    ]
    rows = [[curve.name, *(f"{table.share(gained).share:.3f}" for gained in curve.gains.T)] for curve in curves]
    return Shown(columns, rows, "Share of the possible gain, measured:")


def worst_table(table: Table, curves: Sequence[Curve]) -> Shown:
    """Return the intervals of some shares, and the speed-up of the worst region."""

    def interval(curve: Curve, number: int) -> str:
        found = table.share(curve.gains[:, JUDGED.index(number)])
        return f"{found.share:.3f} ({found.low:.3f} to {found.high:.3f})"

    columns = [
        "",
        *(f"{number} trials, 95 % interval" for number in WITH_INTERVAL),
        f"worst region, {TRIALS[-1]} trials",
    ]
    rows = [
        [curve.name, *(interval(curve, number) for number in WITH_INTERVAL), f"{curve.worst:.3f}"] for curve in curves
    ]
    return Shown(columns, rows, "Shares with their intervals, and the speed-up of the worst region over the baseline:")


def runs_table(table: Table, ran: Sequence[Ran]) -> Shown:
    """Return the figures of whole runs of policies."""
    rows = []
    for one in ran:
        shares = [table.share(one.gains(seconds)) for seconds in TIMES]
        worst = [float(np.exp(one.gains(seconds).min())) for seconds in TIMES]
        rows.append(
            [
                one.name,
                *(f"{found.share:.3f} ({found.low:.3f} to {found.high:.3f})" for found in shares),
                *(f"{speed:.3f}" for speed in worst),
                f"{one.refused():.0%}",
            ]
        )
    times = [NAMES[seconds] for seconds in TIMES]
    columns = ["", *times, *(f"worst region, {time}" for time in times), "requests that the table lacks"]
    caption = "Whole runs of policies, with all costs: share of the possible gain, and the speed over the baseline:"
    return Shown(columns, rows, caption)


def simulator_table(asked: Sequence[Question], machines: Sequence[str], date: str) -> Shown:
    """Return the simulator's figures beside the measured ones.

    Args:
        asked: the questions.
        machines: the simulated machines, in the order of the answers.
        date: the day of the comparison.
    """

    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    rows = [[one.name, *map(shown, one.simulated), shown(one.measured)] for one in asked]
    columns = ["", *(f"{name}, simulated" for name in machines), "measured"]
    return Shown(columns, rows, f"The simulator's figures and the measured ones, {date}:")
