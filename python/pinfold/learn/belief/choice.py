"""Chooses what is not learned from times, by programs and machines that a belief has not seen.

The training programs are divided into folds. A belief of each other fold's programs searches for the fastest
configuration of each region, and the settings with the largest mean share of the possible gain are taken: the variance
of the kernel. What a new machine adds is chosen in the same way, by beliefs of all other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pinfold.learn.belief.belief import Belief
from pinfold.learn.belief.data import Times
from pinfold.learn.belief.learning import NEW_MACHINE, Settings, learn
from pinfold.learn.belief.posterior import Start, search
from pinfold.learn.folds import folds_of
from pinfold.learn.races import Floats
from pinfold.learn.trained import Trained

CHOICES = tuple(Settings(amplitude=amplitude) for amplitude in (1.0, 4.0, 16.0, 64.0))
"""The settings among which is chosen."""

DOUBTS = (0.3, 1.0, 3.0)
"""What a new machine may add, over the mean variance. With more, almost every trial would seem worth its cost."""

FOLDS = 8
"""With fewer, beliefs of few programs are compared, and chance chooses."""

COUNTED = (3, 5, 8, 12, 16)
"""The numbers of trials whose shares count for a choice, all the same."""

SEED = 0

Learner = Callable[[Times], Belief]


def learner(settings: Settings) -> Learner:
    """Return what learns a belief with these settings. Its origin does not say whether rows were simulated."""

    def of(times: Times) -> Belief:
        rows = int(np.isfinite(times.logs).sum())
        return learn(times, settings, lambda name: Trained(None, times.machines, times.names, rows, name))

    return of


def choose(times: Times, choices: Sequence[Settings] = CHOICES) -> Settings:
    """Return the settings that gain most for programs that were left out."""
    fold = folds_of(times.programs.tolist(), FOLDS, SEED)

    def gained(settings: Settings) -> float:
        folds = (fold == number for number in sorted(set(fold.tolist())))
        return sum(_gained(times, judged, learner(settings)(times.at(~judged))) for judged in folds)

    return max(choices, key=gained)


def with_doubt(times: Times, settings: Settings, doubts: Sequence[float] = DOUBTS) -> Settings:
    """Return settings with what gains most for programs on machines that were left out.

    With one machine, it is assumed (:data:`~pinfold.learn.belief.learning.NEW_MACHINE`).
    """
    if len(times.machines) == 1:
        return replace(settings, doubt=NEW_MACHINE)
    fold = folds_of(times.programs.tolist(), FOLDS, SEED)
    machine = np.array([one.machine for one in times.regions])
    gained = np.zeros(len(doubts))
    for name in times.machines:
        for number in sorted(set(fold.tolist())):
            judged, training = (machine == name) & (fold == number), (machine != name) & (fold != number)
            if judged.any() and training.any():
                belief = learner(settings)(times.at(training))
                variance = belief.doubt / settings.doubt
                gained += [_gained(times, judged, replace(belief, doubt=doubt * variance)) for doubt in doubts]
    return replace(settings, doubt=doubts[int(gained.argmax())])


def _gained(times: Times, judged: npt.NDArray[np.bool_], belief: Belief) -> float:
    """Return the sum of what the judged regions gain after each counted number of trials."""
    starts: dict[tuple[str, int, bytes], Start] = {}
    total = 0.0
    for region in np.flatnonzero(judged):
        run = np.flatnonzero(np.isfinite(times.logs[region]))
        key = (times.regions[region].machine, int(times.baselines[region]), run.tobytes())
        if key not in starts:
            starts[key] = start_of(belief, times, int(region), run)
        logs = times.logs[region, run]
        gains = gains_of(search(starts[key], logs, max(COUNTED)), logs)
        total += sum(float(gains[min(number, len(gains)) - 1]) for number in COUNTED)
    return total


def start_of(belief: Belief, times: Times, region: int, run: npt.NDArray[np.int64]) -> Start:
    """Return where a search for a region among some configurations begins."""
    prior = belief.over([times.points[place] for place in run], times.regions[region].machine)
    return Start(prior, belief.noise, int(np.flatnonzero(run == times.baselines[region])[0]))


def gains_of(tried: Sequence[int], logs: Floats) -> Floats:
    """Return the logarithm of the speed-up of the fastest configuration after each trial; the baseline is one of them.

    >>> gains_of([2, 1], np.array([0.0, -0.5, 0.1])).tolist()
    [0.0, 0.5]
    """
    gains: Floats = np.maximum.accumulate(np.maximum(-logs[list(tried)], 0))
    return gains
