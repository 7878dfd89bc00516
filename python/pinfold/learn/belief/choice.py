"""Chooses what is not learned from times, by programs and machines that a belief has not seen.

The training programs are divided into folds. A belief of each other fold's programs searches for the fastest
configuration of each region, and the settings with the largest mean share of the possible gain are taken: the variance
of the kernel. What a new machine adds is chosen in the same way, by beliefs of all other machines.

Regions that have the usual baseline, and regions that have others, are of different spaces. Their shares count the
same, however many regions there are of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pinfold.learn.belief.belief import Belief
from pinfold.learn.belief.data import Times, is_usual
from pinfold.learn.belief.learning import NEW_MACHINE, Learned, Settings
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

FEW_MACHINES = 2
"""With more machines, each of which is left out, there are fewer folds of programs, but at least two."""

COUNTED = (3, 5, 8, 12, 16)
"""The numbers of trials whose shares count for a choice, all the same."""

SEED = 0

Learner = Callable[[Times], Belief]


def learner(settings: Settings) -> Learner:
    """Return what learns a belief with these settings. Its origin does not say whether rows were simulated."""
    return lambda times: _belief(Learned.of(times), settings)


def _belief(learned: Learned, settings: Settings) -> Belief:
    times = learned.times
    rows = int(np.isfinite(times.logs).sum())
    return learned.belief(settings, lambda name: Trained(None, times.machines, times.names, rows, name))


def choose(times: Times, choices: Sequence[Settings] = CHOICES) -> Settings:
    """Return the settings that gain most for programs that were left out."""
    fold = folds_of(times.programs.tolist(), FOLDS, SEED)
    gained = np.zeros((len(choices), len(times.regions)))
    for number in sorted(set(fold.tolist())):
        judged = fold == number
        learned = Learned.of(times.at(~judged))
        for place, settings in enumerate(choices):
            gained[place, judged] = _gained(times, judged, _belief(learned, settings))
    return choices[int(shares_of(times, gained).argmax())]


def with_doubt(times: Times, settings: Settings, doubts: Sequence[float] = DOUBTS) -> Settings:
    """Return settings with what gains most for programs on machines that were left out.

    With one machine, it is assumed (:data:`~pinfold.learn.belief.learning.NEW_MACHINE`).
    """
    if len(times.machines) == 1:
        return replace(settings, doubt=NEW_MACHINE)
    fold = folds_of(times.programs.tolist(), max(FOLDS * FEW_MACHINES // len(times.machines), FEW_MACHINES), SEED)
    machine = np.array([one.machine for one in times.regions])
    gained = np.zeros((len(doubts), len(times.regions)))
    for name in times.machines:
        for number in sorted(set(fold.tolist())):
            judged, training = (machine == name) & (fold == number), (machine != name) & (fold != number)
            if judged.any() and training.any():
                belief = learner(settings)(times.at(training))
                variance = belief.doubt / settings.doubt
                for place, doubt in enumerate(doubts):
                    gained[place, judged] = _gained(times, judged, replace(belief, doubt=doubt * variance))
    return replace(settings, doubt=doubts[int(shares_of(times, gained).argmax())])


def shares_of(times: Times, gained: Floats) -> Floats:
    """Return the share of the possible gain, the sum over both kinds of baselines.

    Args:
        times: the times.
        gained: what each region gains with each choice: (choices, regions).
    """
    possible = np.maximum(-np.nanmin(times.logs, axis=1), 0)
    usual = np.array([is_usual(times.points[place]) for place in times.baselines])
    shares = np.zeros(len(gained))
    for kind in (usual, ~usual):
        if (most := float(possible[kind].sum())) > 0:
            shares += gained[:, kind].sum(axis=1) / most
    return shares


def _gained(times: Times, judged: npt.NDArray[np.bool_], belief: Belief) -> list[float]:
    """Return for each judged region the sum of what it gains after each counted number of trials."""
    starts: dict[tuple[str, int, bytes], Start] = {}
    found = []
    for region in np.flatnonzero(judged):
        run = np.flatnonzero(np.isfinite(times.logs[region]))
        key = (times.regions[region].machine, int(times.baselines[region]), run.tobytes())
        if key not in starts:
            starts[key] = start_of(belief, times, int(region), run)
        logs = times.logs[region, run]
        gains = gains_of(search(starts[key], logs, max(COUNTED)), logs)
        found.append(sum(float(gains[min(number, len(gains)) - 1]) for number in COUNTED))
    return found


def start_of(belief: Belief, times: Times, region: int, run: npt.NDArray[np.int64]) -> Start:
    """Return where a search for a region among some configurations begins.

    A region whose baseline is not the usual one says nothing of the usual one, and only differences are believed.
    """
    prior = belief.over([times.points[place] for place in run], times.regions[region].machine)
    baseline = int(np.flatnonzero(run == times.baselines[region])[0])
    own = times.points[times.baselines[region]]
    return Start(prior if is_usual(own) else prior.relative_to(baseline), belief.noise, baseline)


def gains_of(tried: Sequence[int], logs: Floats) -> Floats:
    """Return the logarithm of the speed-up of the fastest configuration after each trial; the baseline is one of them.

    >>> gains_of([2, 1], np.array([0.0, -0.5, 0.1])).tolist()
    [0.0, 0.5]
    """
    gains: Floats = np.maximum.accumulate(np.maximum(-logs[list(tried)], 0))
    return gains
