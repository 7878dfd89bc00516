"""The judged regions, and the shares that are asked for.

1. Measured regions (:mod:`pinfold.evaluation.measured`): each program by a belief that was learned from all others.
2. The same regions, by the belief that ships: ``models/belief.json``.
3. Simulated regions of the committed data sets of ``react``, in the same way as the measured ones, by machine.
4. The same, by beliefs that were learned from other programs on other machines only.
5. The same, by beliefs that were learned from other programs on the same machine only: nothing is asked of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pinfold.evaluation.section import Promise
from pinfold.learn.belief.belief import Belief
from pinfold.learn.belief.data import Times
from pinfold.learn.belief.judging import BELIEF, NEW, TRIALS, Judged

SHIPPED = Path("models/belief.json")
"""The belief that ships."""

INPUTS = ("models/belief.json", "models/data/classify.parquet")

OF_MEASURED = {5: 0.94, 8: 0.965, 12: 0.975, 16: 0.985}
OF_SHIPPED = {5: 0.90, 8: 0.94, 12: 0.965}
OF_SIMULATED = {2: 0.90, 5: 0.96, 8: 0.98}
OF_NEW_MACHINE = {5: 0.90, 8: 0.94}

MEASURED = "measured regions, belief of other programs"
SHIPS = "measured regions, the belief that ships"
OF_PROGRAMS = ", simulated, belief of other programs"
OF_MACHINES = ", simulated, belief of other machines"
OF_ONE_MACHINE = ", simulated, belief of other programs on the same machine only"


@dataclass(frozen=True)
class Subject:
    """Regions, a way to choose their trials, and the shares that are asked for.

    Attributes
    ----------
    name : str
        The regions and the way, for the names of promises.
    judged : Judged or None
        What the ways gain; None if it could not be judged.
    way : str
        The judged way.
    asked : mapping of int to float
        The least share of the possible gain after numbers of trials.
    """

    name: str
    judged: Judged | None
    way: str
    asked: Mapping[int, float]

    def promises(self) -> list[Promise]:
        """Return a promise for each share that is asked for. Without judged regions its value is missing."""
        names = {number: f"share of the possible gain after {number} trials, {self.name}" for number in self.asked}
        if self.judged is None:
            return [Promise(names[number], None, "", f">= {least}", None) for number, least in self.asked.items()]
        shares = dict(zip(TRIALS, self.judged.shares(self.way), strict=True))
        return [
            Promise(names[number], round(shares[number].share, 4), "", f">= {least}", shares[number].share >= least)
            for number, least in self.asked.items()
        ]

    def worst_promise(self) -> Promise:
        """Return that no region is slower than the baseline after any number of trials."""
        name = f"worst region over the baseline, least after any number of trials, {self.name}"
        if self.judged is None:
            return Promise(name, None, "", ">= 1", None)
        value = min(worst(self.judged, self.way).values())
        return Promise(name, round(value, 4), "", ">= 1", value >= 1)


def worst(judged: Judged, way: str) -> dict[int, float]:
    """Return the speed of the slowest region over the baseline after each number of trials."""
    return {number: float(np.exp(judged.gains[way][:, number - 1].min())) for number in TRIALS}


def worst_over_best(judged: Judged, way: str) -> dict[int, float]:
    """Return the least speed of a region over its speed in its best configuration, after each number of trials."""
    return {number: float(np.exp((judged.gains[way][:, number - 1] - judged.possible).min())) for number in TRIALS}


def unfit(belief: Belief, times: Times) -> str | None:
    """Return why a belief must not be judged by these times; None if it may be."""
    known = sorted(set(belief.origin.machines) & set(times.machines))
    return f"it was learned from times of the judged machine, {', '.join(known)}" if known else None


def shared_names(belief: Belief, times: Times) -> list[str]:
    """Return the names of programs that the belief was learned from and that are judged, too."""
    return sorted(set(belief.origin.programs) & set(times.programs.tolist()))


def of_machine(judged: Judged, machine: str) -> Judged:
    """Return the regions of one machine, judged as before."""
    inside = _on(judged.times, machine)
    return Judged(judged.times.at(inside), {way: gains[inside] for way, gains in judged.gains.items()})


def on_machine(times: Times, machine: str) -> Times:
    """Return the regions of one machine."""
    return times.at(_on(times, machine))


def _on(times: Times, machine: str) -> npt.NDArray[np.bool_]:
    return np.array([one.machine == machine for one in times.regions])


def some(times: Times, programs: int) -> Times:
    """Return the regions of this many programs, spread evenly over the sorted names, for the reduced set."""
    names = sorted(set(times.programs.tolist()))
    kept = [names[place] for place in np.linspace(0, len(names) - 1, min(programs, len(names))).astype(int)]
    return times.at(np.isin(times.programs, kept))


@dataclass(frozen=True)
class Results:
    """All judged regions.

    Attributes
    ----------
    measured : Judged
        The measured regions, nested.
    shipped : Judged or None
        The measured regions, by the belief that ships; None if it was not judged.
    about : str
        A paragraph on the belief that ships.
    simulated : Judged
        The simulated regions of all machines, nested.
    alone : mapping of str to Judged
        By machine: its simulated regions, nested, by beliefs of this machine only.
    strategies : Judged
        Programs in the four strategies of ``classify``, by the belief that ships.
    """

    measured: Judged
    shipped: Judged | None
    about: str
    simulated: Judged
    alone: Mapping[str, Judged]
    strategies: Judged

    @property
    def by_machine(self) -> dict[str, Judged]:
        """The simulated regions of each machine, by beliefs of all machines."""
        return {name: of_machine(self.simulated, name) for name in self.simulated.times.machines}

    def subjects(self) -> list[Subject]:
        """Return all subjects, the measured ones first."""
        machines = self.by_machine
        return [
            Subject(MEASURED, self.measured, BELIEF, OF_MEASURED),
            Subject(SHIPS, self.shipped, BELIEF, OF_SHIPPED),
            *(Subject(f"{name}{OF_PROGRAMS}", one, BELIEF, OF_SIMULATED) for name, one in machines.items()),
            *(Subject(f"{name}{OF_MACHINES}", one, NEW, OF_NEW_MACHINE) for name, one in machines.items()),
            *(Subject(f"{name}{OF_ONE_MACHINE}", one, BELIEF, {}) for name, one in self.alone.items()),
        ]
