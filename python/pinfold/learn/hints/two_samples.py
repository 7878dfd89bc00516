"""Learns where to take two samples: in which placement a program begins, and which placement to compare with it.

The baseline without learning samples the distributed and the packed placement, and keeps the faster. Any other pair may
be better on a machine, and the first sample may show that a second is not worth its time. Both are learned here:

1. A candidate is a hint for the first sample and a depth of the tree (:mod:`pinfold.learn.hints.regret_tree`) that
   names the hint of the second sample from the counters of the first. Depth 0 always names the same one.
2. The cost of a pair is what the run loses: the regrets of both placements for the share ``TRIAL`` of the run each, and
   that of the faster one afterwards. If the tree names the placement of the first sample, there is no second.
3. For each candidate, each training program is judged by a tree of the others. The candidate with the least mean cost
   is taken, with all sizes of a program as one program; a deeper tree must be better by ``WORTH``.
4. The tree of this candidate is learned from all training programs.

Everything is chosen on training programs alone, so a policy can be judged on any other program (nested).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinfold.learn.hints.discretize import Floats
from pinfold.learn.hints.hint import Hint
from pinfold.learn.hints.judging import Case
from pinfold.learn.hints.regret_tree import Rows, learn_tree
from pinfold.learn.hints.ripper import Rule, first_that_holds

DEPTHS = (0, 1, 2)

TRIAL = 0.075
"""A sample takes 45 s with the default times: half of a probe of 30 s to initialise or warm up, and the probe. Of ten
minutes, the longest run that is judged, this is the share."""

WORTH = 1e-3
"""The mean regret by which a deeper tree must be better than a shallow one. Assumed."""

LEAF = 0.05
"""The least share of the rows in a leaf, as of the regret tree."""


@dataclass(frozen=True)
class TwoSamples:
    """A policy of two samples."""

    first: Hint
    """The hint of the first sample."""
    depth: int
    """The depth of the tree that was chosen."""
    rules: tuple[Rule, ...]
    """They name the hint of the second sample."""

    def text(self) -> str:
        """Describe it for a reader."""
        return f"two_samples(observe={self.first}, depth={self.depth})"

    def second(self, case: Case) -> Hint:
        """Return the hint of the second sample; that of the first for none."""
        return _second(self.rules, case, self.first)

    def chosen(self, case: Case) -> Hint:
        """Return the hint that is kept: the faster one."""
        return min((self.second(case), self.first), key=case.seconds)


def learn_two_samples(cases: Sequence[Case], depths: Sequence[int] = DEPTHS) -> TwoSamples:
    """Learn a policy.

    Args:
        cases: of at least two programs, with all hints.
        depths: of the trees, ascending.

    Raises:
        ValueError: if there is only one program: nothing can be chosen without judging it.
    """
    programs = sorted({case.program.name for case in cases})
    if len(programs) == 1:
        raise ValueError(f"{programs[0]} is the only program: where to sample is chosen on programs that are left out")
    tables = {first: _rows(cases, first) for first in cases[0].matches}
    of_rows = np.array([case.program.name for case in cases])
    best: tuple[float, Hint, int] | None = None
    for depth in depths:
        for first, rows in tables.items():
            cost = _cost(rows, of_rows, programs, depth)
            # The first hint of the best placement, and the shallowest tree.
            if best is None or cost < best[0] - (WORTH if depth > best[2] else 1e-9):
                best = (cost, first, depth)
    assert best is not None, "there are hints"
    _, first, depth = best
    return TwoSamples(first, depth, learn_tree(tables[first], depth, LEAF))


def costs(case: Case, first: Hint) -> dict[Hint, float]:
    """Return the mean regret over a run for each hint of the second sample."""
    regrets = case.regrets()
    # Hints of one placement are one placement: nothing moves, and nothing is tried.
    same = case.matches[first]
    return {
        hint: regrets[first]
        if case.matches[hint] == same
        else TRIAL * (regrets[first] + regrets[hint]) + (1 - 2 * TRIAL) * min(regrets[hint], regrets[first])
        for hint in case.matches
    }


def _cost(rows: Rows, of_rows: NDArray[np.str_], programs: Sequence[str], depth: int) -> float:
    """Return the mean cost over programs, each by a tree of the others. ``of_rows`` has the program of each row."""
    of_programs = []
    for program in programs:
        own = of_rows == program
        others = Rows(rows.values[~own], rows.regrets[~own], rows.weights[~own], rows.hints)
        rules = learn_tree(others, depth, LEAF)
        fired = first_that_holds(rules, rows.values[own])
        columns = [rows.hints.index(Hint.parse(rules[rule].target)) for rule in fired]
        of_programs.append(rows.regrets[own][np.arange(len(columns)), columns].mean())
    return float(np.mean(of_programs))


def _second(rules: Sequence[Rule], case: Case, first: Hint) -> Hint:
    (fired,) = first_that_holds(rules, np.array([case.sample(first).counters]))
    return Hint.parse(rules[fired].target)


def _rows(cases: Sequence[Case], first: Hint) -> Rows:
    """Return a row for each case: its counters in the first placement, and the cost of each second one."""
    hints = tuple(cases[0].matches)
    sizes = Counter(case.program.name for case in cases)
    values: list[tuple[float, ...]] = [case.sample(first).counters for case in cases]
    table: Floats = np.array([[of_case[hint] for hint in hints] for case in cases for of_case in [costs(case, first)]])
    weights = np.array([1 / sizes[case.program.name] for case in cases])
    return Rows(np.array(values), table, weights, hints)
