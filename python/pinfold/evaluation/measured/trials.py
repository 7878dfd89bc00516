"""Ways to try configurations one after the other, on known times.

A *trial* is one execution of a region in a configuration, and the fastest configuration so far is kept. Trial 0 is the
baseline, so no way is ever slower than it. A gain is the logarithm of the speed-up over the baseline. The *share* is
the gain over the possible gain, the gain of the best of all configurations, summed over regions.

A way that learns does so from the regions of other programs: each program is left out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pinfold.evaluation.measured.known import Known
from pinfold.learn.bootstrap import ratio_interval
from pinfold.learn.races import Floats, best_single, greatest, greedy

Places = npt.NDArray[np.int64]

TRIALS = (1, 2, 3, 5, 8, 12, 16)

TRIAL_S = 0.5
"""The assumed time of a trial, in seconds, with what it costs to change the configuration."""

TIMES = (10, 60, 600)
"""Run times in seconds after which ways are judged, too."""

SHUFFLES = 20
"""The number of draws of the shuffled control. Its figures are means over them."""


def trials_at(seconds: float) -> int:
    """Return the number of trials that fit a run time."""
    return round(seconds / TRIAL_S)


JUDGED = (*TRIALS, *map(trials_at, TIMES))
"""The numbers of trials after which ways are judged."""


@dataclass(frozen=True)
class Curve:
    """What a way gains.

    Attributes
    ----------
    name : str
        The way.
    gains : array of shape (regions, judged)
        The gain of each region after each number of trials of ``JUDGED``.
    worst : float
        The speed-up over the baseline of the worst region: after the last of ``TRIALS``.
    """

    name: str
    gains: Floats
    worst: float


@dataclass(frozen=True)
class Share:
    """A share of the possible gain, with its 95 % interval by a bootstrap that draws programs."""

    share: float
    low: float
    high: float


class Table:
    """Regions in all configurations, and the programs that are left out."""

    def __init__(self, known: Known) -> None:
        """Store the regions."""
        self.known = known
        self.gains = known.gains
        self.programs = sorted(set(known.programs))
        self._program = np.array([self.programs.index(program) for program in known.programs])

    @property
    def possible(self) -> Floats:
        """The possible gain of each region; at least 0, which the baseline gains."""
        most: Floats = np.maximum(self.gains.max(axis=1), 0)
        return most

    def folds(self) -> Iterator[tuple[Places, Floats]]:
        """Yield for each program the positions of its regions, and the gains of all other regions."""
        for program in range(len(self.programs)):
            inside = self._program == program
            yield np.flatnonzero(inside), self.gains[~inside]

    def share(self, gained: Floats) -> Share:
        """Return the share of the possible gain that regions gain, of shape (regions,)."""
        return Share(*ratio_interval(self._sums(gained), self._sums(self.possible)))

    def _sums(self, values: Floats) -> list[float]:
        return [float(values[self._program == program].sum()) for program in range(len(self.programs))]

    def other_programs(self, order: Callable[[Floats], Sequence[int]]) -> list[Sequence[int]]:
        """Return for each region the order of trials that is learned from the regions of other programs."""
        found: list[Sequence[int]] = [[] for _ in self.known.programs]
        for judged, training in self.folds():
            learned = order(training)
            for region in judged:
                found[region] = learned
        return found


def tried(name: str, table: Table, orders: Sequence[Sequence[int]]) -> Curve:
    """Return what regions gain by trying configurations in these orders, one order for each region."""
    reached = np.zeros((len(orders), len(JUDGED)))
    for region, order in enumerate(orders):
        best = np.maximum.accumulate(np.maximum(table.gains[region, list(order)], 0))
        reached[region] = [best[min(number, len(best)) - 1] for number in JUDGED]
    return Curve(name, reached, float(np.exp(reached[:, len(TRIALS) - 1].min())))


def random(table: Table) -> Curve:
    """Return the expected gain of different configurations drawn at random: exact, not a draw.

    The baseline is not drawn.
    """
    others = np.delete(table.gains, table.known.baseline, axis=1)
    gains = np.sort(np.maximum(others, 0), axis=1)
    number = gains.shape[1]
    reached = np.stack([gains @ greatest(number, min(drawn, number)) for drawn in JUDGED], axis=1)
    return Curve("random", reached, float(np.exp(reached[:, len(TRIALS) - 1].min())))


def oracle(table: Table) -> Curve:
    """Return the possible gain from the first trial on."""
    return tried("oracle", table, [[int(place)] for place in table.gains.argmax(axis=1)])


def shuffled(table: Table, seeds: Sequence[int] = range(SHUFFLES)) -> Curve:
    """Return the control: the greedy race, learned from gains whose configurations were exchanged.

    Each program has another exchange. So what is learned says nothing of other programs, and the control is as good as
    random.
    """
    names = np.array(table.known.programs)

    def exchanged(seed: int) -> Curve:
        draw = np.random.default_rng(seed)
        wrong = table.gains.copy()
        for program in table.programs:
            wrong[names == program] = wrong[names == program][:, draw.permutation(wrong.shape[1])]
        orders: list[Sequence[int]] = [[] for _ in names]
        for program in table.programs:
            learned = greedy(wrong[names != program])
            for region in np.flatnonzero(names == program):
                orders[region] = learned
        return tried("", table, orders)

    curves = [exchanged(seed) for seed in seeds]
    reached = np.mean([one.gains for one in curves], axis=0)
    return Curve("greedy race, learned from exchanged gains", reached, float(np.mean([one.worst for one in curves])))


def offline(table: Table) -> list[Curve]:
    """Return all ways that need no run of pinfold."""
    return [
        random(table),
        tried("best single configuration of other programs", table, table.other_programs(best_single)),
        tried("greedy race of other programs", table, table.other_programs(greedy)),
        shuffled(table),
        oracle(table),
    ]


def unchecked(table: Table) -> float:
    """Return the speed-up of the worst region in the best single configuration of other programs, without a trial.

    The region stays in it even if the baseline is faster.
    """
    orders = table.other_programs(lambda gains: [int(gains.mean(axis=0).argmax())])
    return float(np.exp(min(table.gains[region, order[0]] for region, order in enumerate(orders))))
