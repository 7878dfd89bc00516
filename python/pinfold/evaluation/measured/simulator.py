"""The simulator's answers beside the measured ones, to the same questions.

The simulated regions are those of the committed data sets of the space ``ics20``. Programs, machines and compilers
differ from those of the measured table, so equal figures are not expected; the same order and size are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pinfold.evaluation.measured.trials import JUDGED, Curve, Table, random, tried
from pinfold.learn.races import greedy

DATA = (Path("models/data/react-platinum-8168x2.parquet"), Path("models/data/react-e5-4650x4.parquet"))
"""The simulated regions. The first machine has two nodes, as the measured one."""

INPUTS = ("models/data/react-*.parquet",)

TRIALS = 5
"""The trials in the comparison: a number after which shares are in ``Curve.gains``."""

LITTLE = 1.05
"""A region with a smaller speed-up has little to gain."""


@dataclass(frozen=True)
class Question:
    """A figure of the simulator, and the measured one.

    Attributes
    ----------
    name : str
        The question.
    simulated : tuple of float or None
        The figure on each simulated machine; None if its space does not have the answer.
    measured : float or None
        The figure in the measured table.
    """

    name: str
    simulated: tuple[float | None, ...]
    measured: float | None


def questions(measured: Table, simulated: Sequence[Table]) -> list[Question]:
    """Return all questions."""
    every = (measured, *simulated)

    def asked(name: str, figure: Callable[[Table], float | None]) -> Question:
        first, *rest = (figure(table) for table in every)
        return Question(name, tuple(rest), first)

    return [
        asked("speed-up of the best configuration, geometric mean", lambda one: float(np.exp(one.possible.mean()))),
        asked("regions with less than 5 % to gain", lambda one: float((one.possible < math.log(LITTLE)).mean())),
        asked("share of the possible gain, only NUMA", _only_numa),
        asked("share of the possible gain, only prefetchers", _only_prefetchers),
        asked("share of the possible gain that needs siblings (SMT)", _needs_siblings),
        asked(f"share after {TRIALS} random configurations", lambda one: _after(one, random(one))),
        asked(
            f"share after {TRIALS} configurations of a greedy race of other programs",
            lambda one: _after(one, tried("", one, one.other_programs(greedy))),
        ),
    ]


def _share_of(table: Table, places: Sequence[int]) -> float:
    return table.share(table.known.best(places)).share


def _only_numa(table: Table) -> float:
    """Return the share with all prefetchers as in the baseline, and threads on cores of their own."""
    base = table.known.settings[table.known.baseline]
    return _share_of(table, table.known.where(prefetch=base.prefetch, threads_per_core=1))


def _only_prefetchers(table: Table) -> float:
    base = table.known.settings[table.known.baseline]
    rest = {name: value for name, value in base._asdict().items() if name != "prefetch"}
    return _share_of(table, table.known.where(**rest))


def _needs_siblings(table: Table) -> float | None:
    alone = table.known.where(threads_per_core=1)
    return None if len(alone) == len(table.known.settings) else 1 - _share_of(table, alone)


def _after(table: Table, curve: Curve) -> float:
    return table.share(curve.gains[:, JUDGED.index(TRIALS)]).share
