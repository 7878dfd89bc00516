"""What a data set must have before anything is learned from it about placement.

A learner that is judged on few programs, on programs that are nearly all sensitive or nearly all not, or on programs
for which one strategy is always the best, shows nothing. So nothing is headlined from such a data set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pinfold.learn.classify.strategies import STRATEGIES, Example, by_machine

PROGRAMS = 40
LEAST, MOST = 0.35, 0.65
"""The share of sensitive programs on each machine. The paper has 0.59, 0.41 and 0.48 (table 5)."""

CLEARLY = 0.02
"""A strategy is the best of a program if it is faster than all others by more than this share."""


@dataclass(frozen=True)
class Condition:
    """One condition, what was found, and whether it holds.

    Attributes
    ----------
    name : str
        The condition.
    value : float or None
        What was found; None where there is no row.
    wanted : str
        What is asked for.
    holds : bool
        Whether it is so.
    """

    name: str
    value: float | None
    wanted: str
    holds: bool


@dataclass(frozen=True)
class Gate:
    """All conditions of a data set."""

    conditions: tuple[Condition, ...]

    @property
    def is_open(self) -> bool:
        """Whether something may be learned from it."""
        return all(condition.holds for condition in self.conditions)


def gate(found: Sequence[Example]) -> Gate:
    """Check a data set.

    Args:
        found: all of its programs, on all of its machines.
    """
    programs = {one.program for one in found}
    uncovered = sum(not one.covers for one in found)
    conditions = [
        Condition("programs", len(programs), f">= {PROGRAMS}", len(programs) >= PROGRAMS),
        Condition("rows whose window does not cover the program", uncovered, "0", uncovered == 0),
    ]
    for machine, of_machine in by_machine(found).items():
        share = sensitive_share(of_machine)
        name = f"share of sensitive programs on {machine}"
        conditions.append(Condition(name, round(share, 4), f"{LEAST} to {MOST}", LEAST <= share <= MOST))
    best = Counter(position for one in found if (position := clearly_best(one)) is not None)
    for number, strategy in enumerate(STRATEGIES):
        name = f"programs of which {' with '.join(strategy)} is the best by more than {CLEARLY:.0%}"
        conditions.append(Condition(name, best[number], ">= 1", best[number] > 0))
    return Gate(tuple(conditions))


def sensitive_share(found: Sequence[Example]) -> float:
    """Return the share of sensitive programs, each with the weight 1 whatever the number of its inputs."""
    inputs = Counter(one.program for one in found)
    return sum(one.is_sensitive / inputs[one.program] for one in found) / len(inputs)


def clearly_best(one: Example) -> int | None:
    """Return the position of the strategy that is faster than all others by more than ``CLEARLY``, or None."""
    best = one.best
    others = [speed for position, speed in enumerate(one.speeds) if position != best]
    return best if one.speeds[best] > (1 + CLEARLY) * max(others) else None
