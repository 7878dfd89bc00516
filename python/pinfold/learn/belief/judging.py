"""Judges beliefs by programs that they have not seen: the share of the possible gain after each number of trials.

A *trial* is one execution in one configuration, and the fastest one so far is kept. The baseline is trial 0. The gain
is the logarithm of the speed-up over the baseline, and the share is the sum of gains over the sum of possible gains.
Each program is left out once, on all machines and with all arguments, and settings are chosen without it. If there
are more than :data:`MOST_FOLDS` programs, such as a generator makes, several are left out together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pinfold.learn.belief.belief import Belief
from pinfold.learn.belief.choice import choose, gains_of, learner, start_of
from pinfold.learn.belief.data import Times
from pinfold.learn.belief.learning import NEW_MACHINE, Settings
from pinfold.learn.belief.posterior import SEED, Start, search
from pinfold.learn.bootstrap import ratio_interval
from pinfold.learn.folds import folds_of
from pinfold.learn.races import Floats, best_single, greedy, random_gains

TRIALS = (1, 2, 3, 5, 8, 12, 16)
"""The numbers of trials after which shares are shown."""

MOST_FOLDS = 100
"""Up to this many programs are left out one by one."""

FOLDS = 10
"""The folds of more programs."""

SHUFFLES = 5
"""The number of draws of the control. Its figures are means over them."""

BELIEF = "belief"
PAIR = "belief, the first two trials chosen together"
NEW = "belief of other machines"
CONTROL = "belief, learned from exchanged times"
RANDOM, SINGLE, RACE = "random", "best single configuration of other programs", "greedy race of other programs"


@dataclass(frozen=True)
class Share:
    """A share of the possible gain, with its 95 % interval by a bootstrap that draws programs."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Judged:
    """What ways gain.

    Attributes
    ----------
    times : Times
        The judged regions.
    gains : dict of str to array of shape (regions, trials)
        By way: the gain of each region after each number of trials.
    """

    times: Times
    gains: Mapping[str, Floats]

    @property
    def possible(self) -> Floats:
        """The possible gain of each region."""
        possible: Floats = np.maximum(-np.nanmin(self.times.logs, axis=1), 0)
        return possible

    def shares(self, way: str) -> list[Share]:
        """Return the share after each number of trials of :data:`TRIALS`."""
        possible = self._sums(self.possible)
        return [Share(*ratio_interval(self._sums(self.gains[way][:, number - 1]), possible)) for number in TRIALS]

    def losses(self, way: str, trials: int) -> list[tuple[str, float]]:
        """Return for each program how much of the possible gain of all it lacks, the greatest first."""
        lost = (self.possible - self.gains[way][:, trials - 1]) / self.possible.sum()
        programs = self.times.programs
        sums = {program: float(lost[programs == program].sum()) for program in sorted(set(programs.tolist()))}
        return sorted(sums.items(), key=lambda one: -one[1])

    def _sums(self, values: Floats) -> list[float]:
        programs = self.times.programs
        return [float(values[programs == program].sum()) for program in sorted(set(programs.tolist()))]


def nested(times: Times, show: Callable[[str], None], settings: Settings | None = None) -> Judged:
    """Judge beliefs, each program by one that was learned from all others, and ways without a belief beside it.

    Args:
        times: the times of all programs.
        show: prints progress.
        settings: what is chosen; None to choose it without the judged program.

    Raises:
        ValueError: if nothing can be gained.
    """
    most = max(TRIALS)
    several = [NEW] if len(times.machines) > 1 else []
    ways = (BELIEF, PAIR, *several, CONTROL, RANDOM, SINGLE, RACE)
    gains = {name: np.zeros((len(times.regions), most)) for name in ways}
    machines = np.array([one.machine for one in times.regions])
    for program, inside in _folds(times):
        show(f"without {program}")
        training = times.at(~inside)
        chosen = settings or choose(training)
        judged = np.flatnonzero(inside)
        for name, curve in searched(times, judged, learner(chosen)(training)).items():
            gains[name][judged] = curve
        for machine in times.machines if several else []:
            new = inside & (machines == machine)
            if new.any():
                others = learner(replace(chosen, doubt=NEW_MACHINE))(times.at(~inside & (machines != machine)))
                gains[NEW][new] = searched(times, np.flatnonzero(new), others)[BELIEF]
        controls = [learner(chosen)(exchanged(training, seed)) for seed in range(SHUFFLES)]
        curves = [searched(times, judged, control)[BELIEF] for control in controls]
        gains[CONTROL][judged] = np.mean(curves, axis=0)
        for region in judged:
            for name, curve in _without_belief(times, ~inside, region).items():
                gains[name][region] = curve
    return _judged(times, gains)


def given(times: Times, belief: Belief) -> Judged:
    """Judge a belief that was learned from other programs, and random trials beside it.

    Raises:
        ValueError: if nothing can be gained.
    """
    every = np.arange(len(times.regions))
    gains = searched(times, every, belief)
    drawn = [_random(times, region) for region in every]
    return _judged(times, {**gains, RANDOM: np.array(drawn)})


def _judged(times: Times, gains: Mapping[str, Floats]) -> Judged:
    judged = Judged(times, gains)
    if not judged.possible.sum() > 0:
        raise ValueError("no configuration of the data is faster than the baseline, so there is no gain to share")
    return judged


def _folds(times: Times) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    programs = times.programs.tolist()
    names = sorted(set(programs))
    fold = folds_of(programs, len(names) if len(names) <= MOST_FOLDS else FOLDS, SEED)
    for number in sorted(set(fold.tolist())):
        inside = fold == number
        left_out = sorted(set(times.programs[inside].tolist()))
        yield left_out[0] if len(left_out) == 1 else f"{len(left_out)} programs", inside


def searched(times: Times, judged: Sequence[int] | npt.NDArray[np.int64], belief: Belief) -> dict[str, Floats]:
    """Return what regions gain with a belief after each trial, and if its first two are chosen together."""
    most = max(TRIALS)
    found: dict[str, list[Floats]] = {BELIEF: [], PAIR: []}
    known: dict[tuple[str, int, bytes], tuple[Start, tuple[int, int]]] = {}
    for region in judged:
        run = np.flatnonzero(np.isfinite(times.logs[region]))
        key = (times.regions[region].machine, int(times.baselines[region]), run.tobytes())
        if key not in known:
            start = start_of(belief, times, int(region), run)
            known[key] = (start, start.pair())
        start, pair = known[key]
        logs = times.logs[region, run]
        for name, planned in ((BELIEF, ()), (PAIR, pair)):
            order = search(start, logs, most, planned)
            found[name].append(_lengthened(gains_of(order, logs), most))
    return {name: np.array(curves) for name, curves in found.items()}


def exchanged(times: Times, seed: int) -> Times:
    """Return times whose configurations were exchanged, differently for each program; the baseline stays.

    What is learned from them says nothing of other programs.
    """
    draw = np.random.default_rng(seed)
    logs = times.logs.copy()
    programs = times.programs
    for program in sorted(set(programs.tolist())):
        order = draw.permutation(len(times.points))
        for region in np.flatnonzero(programs == program):
            baseline = times.baselines[region]
            run = [place for place in order if np.isfinite(logs[region, place]) and place != baseline]
            logs[region, sorted(run)] = logs[region, run]
    return replace(times, logs=logs)


def _without_belief(times: Times, others: npt.NDArray[np.bool_], region: np.intp) -> dict[str, Floats]:
    """Return what a region gains by the ways without a belief. A missing gain of another program counts as 0."""
    run = np.flatnonzero(np.isfinite(times.logs[region]))
    logs = times.logs[region, run]
    learned = np.nan_to_num(-times.logs[np.ix_(others, run)])
    most = max(TRIALS)
    return {
        RANDOM: _random(times, region),
        SINGLE: _lengthened(gains_of(best_single(learned), logs), most),
        RACE: _lengthened(gains_of(greedy(learned)[:most], logs), most),
    }


def _random(times: Times, region: np.intp) -> Floats:
    logs = np.delete(times.logs[region], times.baselines[region])
    return random_gains(np.maximum(-logs[np.isfinite(logs)], 0), max(TRIALS))


def _lengthened(gains: Floats, trials: int) -> Floats:
    """Return gains after this number of trials: the last one stays."""
    return np.concatenate([gains, np.full(max(trials - len(gains), 0), gains[-1])])[:trials]
