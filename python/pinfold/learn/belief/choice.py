"""Chooses the share and the lengths of the kernel by programs that a belief has not seen.

The training programs are divided into folds. A belief of each other fold's programs searches for the fastest
configuration of each region, and the settings with the largest mean share of the possible gain are taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pinfold.learn.belief.belief import Prior
from pinfold.learn.belief.data import Times
from pinfold.learn.belief.kernel import similarity
from pinfold.learn.belief.learning import FACTORS, LENGTHS, Settings, spread_of
from pinfold.learn.belief.posterior import Start, search
from pinfold.learn.folds import folds_of
from pinfold.learn.races import Floats

CHOICES = tuple(Settings(FACTORS, weight, LENGTHS.scaled(scale)) for weight in (0.05, 0.1, 0.2) for scale in (1.0, 2.0))
"""The settings among which is chosen."""

FOLDS = 4

COUNTED = (2, 5, 8, 12, 16)
"""The numbers of trials whose shares count for the choice, all the same."""

SEED = 0


def choose(times: Times, choices: Sequence[Settings] = CHOICES) -> Settings:
    """Return the settings that gain most for programs that were left out."""
    fold = folds_of(times.programs.tolist(), FOLDS, SEED)
    gained = [sum(_gained(times, fold == number, settings) for number in sorted(set(fold))) for settings in choices]
    return choices[int(np.argmax(gained))]


def _gained(times: Times, judged: npt.NDArray[np.bool_], settings: Settings) -> float:
    """Return the sum of what the judged regions gain after each counted number of trials."""
    training = times.at(~judged)
    prior = prior_of(training, settings)
    place = {point: number for number, point in enumerate(training.points)}
    plans: dict[bytes, tuple[int, int]] = {}
    total = 0.0
    for logs in times.logs[judged]:
        # Configurations that no training region was run in are left out.
        run = np.flatnonzero(np.isfinite(logs))
        here = np.array([number for number in run if times.points[number] in place])
        there = np.array([place[times.points[number]] for number in here])
        own = Prior(prior.mean[there], prior.covariance[np.ix_(there, there)])
        start = Start(own, times.noise, int(np.flatnonzero(here == times.baseline)[0]))
        key = there.tobytes()
        if key not in plans:
            plans[key] = start.pair()
        gains = gains_of(search(start, logs[here], max(COUNTED), plans[key]), logs[here])
        total += sum(float(gains[min(number, len(gains)) - 1]) for number in COUNTED)
    return total


def prior_of(times: Times, settings: Settings) -> Prior:
    """Return what a belief of these times would say of their own configurations."""
    alike = similarity(times.points, times.points, settings.lengths)
    spread = spread_of(times, settings.weight, alike)
    factors = spread.factors(settings.factors)
    learned = factors @ factors.T + np.diag(spread.residual(factors))
    variance = np.diag(spread.covariance).mean()
    return Prior(spread.mean, (1 - settings.weight) * learned + settings.weight * variance * alike)


def gains_of(tried: Sequence[int], logs: Floats) -> Floats:
    """Return the logarithm of the speed-up of the fastest configuration after each trial; the baseline is one of them.

    >>> gains_of([2, 1], np.array([0.0, -0.5, 0.1])).tolist()
    [0.0, 0.5]
    """
    gains: Floats = np.maximum.accumulate(np.maximum(-logs[list(tried)], 0))
    return gains
