"""The tables of the section on beliefs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pinfold.evaluation.belief.subjects import Subject, worst, worst_over_best
from pinfold.evaluation.section import Table
from pinfold.learn.belief.jobs import COSTLY, LISTED, curves_table, losses_table
from pinfold.learn.belief.judging import TRIALS, Judged


def counted(judged: Judged) -> str:
    """Say how many regions, programs and configurations there are."""
    times = judged.times
    return (
        f"{len(times.regions)} regions of {len(set(times.programs.tolist()))} programs in {len(times.points)} "
        f"configurations, whose best speed-ups over the baseline have the geometric mean {possible(judged):.2f}"
    )


def possible(judged: Judged) -> float:
    """Return the geometric mean of the best speed-ups over the baseline."""
    return float(np.exp(judged.possible.mean()))


def shares_table(judged: Judged, regions: str) -> Table:
    """Return the share of each way after each number of trials, with its interval."""
    return replace(
        curves_table(judged), caption=f"Share of the possible gain after trials, with 95 % intervals, {regions}:"
    )


def beliefs_table(subjects: Sequence[Subject]) -> Table:
    """Return the shares of beliefs that were learned from different data, beside each other."""
    rows = [
        [one.name, *(f"{share.share:.3f}" for share in one.judged.shares(one.way))]
        for one in subjects
        if one.judged is not None
    ]
    return Table(["", *map(str, TRIALS)], rows, "Share of the possible gain after trials, by different beliefs:")


def worst_table(subjects: Sequence[Subject]) -> Table:
    """Return the slowest region over the baseline, and over its own best configuration."""
    rows = []
    for one in subjects:
        if one.judged is not None:
            for what, least in (("the baseline", worst), ("its best configuration", worst_over_best)):
                found = least(one.judged, one.way)
                rows.append([f"{one.name}, over {what}", *(f"{value:.3f}" for value in found.values())])
    return Table(["", *map(str, TRIALS)], rows, "Speed of the slowest region after trials:")


def costly_table(judged: Judged, regions: str) -> Table:
    """Return the programs that lack most."""
    caption = f"Programs that lack most after {COSTLY} trials, as a share of the possible gain of all, {regions}:"
    return replace(losses_table(judged), caption=caption)


def figures(subject: Subject) -> dict[str, Any] | None:
    """Return the figures of a subject for the JSON file; None if it could not be judged."""
    judged = subject.judged
    if judged is None:
        return None

    def by_trials(least: Callable[[Judged, str], dict[int, float]]) -> dict[str, float]:
        return {str(number): value for number, value in least(judged, subject.way).items()}

    return {
        "machines": judged.times.machines,
        "regions": len(judged.times.regions),
        "programs": len(set(judged.times.programs.tolist())),
        "configurations": len(judged.times.points),
        "possible_speed_up": possible(judged),
        "way": subject.way,
        "ways": {
            way: {
                str(number): {"share": one.share, "low": one.low, "high": one.high}
                for number, one in zip(TRIALS, judged.shares(way), strict=True)
            }
            for way in judged.gains
        },
        "worst": by_trials(worst),
        "worst_over_best": by_trials(worst_over_best),
        f"lost_after_{COSTLY}_trials": dict(judged.losses(subject.way, COSTLY)[:LISTED]),
    }
