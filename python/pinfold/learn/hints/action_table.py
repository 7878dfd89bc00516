"""The action table: the best affinity hint for each behaviour.

BUILDACTIONTABLE of AutoFinity (Moore and Childers, 2012, section 2.2 and figure 6), in these steps:

1. Counters become bins, five by default (section 3.2). The bins of all counters are the *behaviour*.
2. For each behaviour that was observed in a placement, the performances of the same programs in the same sample period
   in each other placement with the same number of threads are collected (lines 2 to 8 of the figure), and condensed to
   one (line 15).
3. A placement belongs to the hints that it corresponds to (line 12, :func:`pinfold.learn.hints.hint.affinity_hints`).
4. For each behaviour and placement the hint with the highest performance is an action (lines 19 to 22).

Because of the leeway, several placements can belong to a hint; the hint then has their average. The figure's line 18
would keep the last one, but the figure does not define their order.

RIPPER learns rules from the actions. It sees bins as ordered numbers, and :func:`rules_on_values` converts the bounds
back.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pinfold.learn.hints.columns import AT_LEAST, AT_MOST
from pinfold.learn.hints.discretize import MISSING, Floats, bins, equal_frequency_thresholds, equal_width_thresholds
from pinfold.learn.hints.hint import Hint, affinity_hints
from pinfold.learn.hints.llc_domains import Loads
from pinfold.learn.hints.observations import Observation, Program
from pinfold.learn.hints.ripper import ABOVE, Condition, Rule

LEEWAY = 2
"""The leeway that the paper chooses (section 3.4)."""

BINS = 5
"""The number of bins that the paper chooses (section 3.2)."""

Behaviour = tuple[int, ...]
"""The bin of each metric; ``discretize.MISSING`` where it has no value."""

BestMatches = Callable[[str, int], Mapping[Hint, Loads]]
"""GETAFFINITY of all hints, for a machine and a number of threads. Among equally good hints the first is taken."""

CONDENSE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "average": statistics.fmean,
    "gmean": statistics.geometric_mean,
    "hmean": statistics.harmonic_mean,
    "max": max,
    "median": statistics.median,
    "min": min,
    "sum": sum,
}
"""The condense functions of figure 9b, for positive performances; the paper chooses ``median`` (section 3.3)."""

DISCRETIZE: Mapping[str, Callable[[Floats, int], Floats]] = {
    "equal_width": equal_width_thresholds,
    "fixed_width": partial(equal_width_thresholds, adjust=False),
    "equal_frequency": equal_frequency_thresholds,
}
"""The methods of figure 9a; ``equal_width`` with the adjustment that the paper uses."""


class Source(NamedTuple):
    """A placement in which a behaviour was observed."""

    machine: str
    threads: int
    loads: Loads


@dataclass(frozen=True)
class Action:
    """A row of the table: the hint for a behaviour that is observed in the placement."""

    behaviour: Behaviour
    source: Source
    hint: Hint
    consequences: Mapping[Hint, float]
    """The condensed performance of every hint for which there was an observation."""


def thresholds(
    observations: Sequence[Observation],
    method: str = "equal_width",
    count: int = BINS,
) -> list[Floats]:
    """Return the thresholds between the bins of each metric.

    Args:
        observations: at least one.
        method: bins of equal width whose number adapts to the column, the paper's choice; bins of equal width, always
        ``count`` of them; or bins with equally many observations. See :mod:`pinfold.learn.hints.discretize`.
        count: the highest number of bins.

    Raises:
        ValueError: if the method is unknown, there are no observations, or no bins.
    """
    if method not in DISCRETIZE:
        raise ValueError(f"method is {method!r}: it must be one of {', '.join(DISCRETIZE)}")
    if not observations:
        raise ValueError("there are no observations: were all programs insensitive to their placement?")
    return [DISCRETIZE[method](column, count) for column in np.array([one.counters for one in observations]).T]


def build_action_table(
    observations: Iterable[Observation],
    cuts: Sequence[Floats],
    best_matches: BestMatches,
    *,
    condense: str = "median",
    leeway: int = LEEWAY,
) -> list[Action]:
    """Build the table, sorted by behaviour and placement.

    Args:
        observations: ``sensitive`` and ``relative_to_slowest`` of :mod:`pinfold.learn.hints.observations` prepare them
            as AutoFinity does.
        cuts: the thresholds of each metric.
        best_matches: the placement of each hint.
        condense: one of ``CONDENSE``.
        leeway: the highest number of threads by which a placement may differ from a hint's best match.

    Raises:
        ValueError: if a parameter is not valid; the message names it.
    """
    if condense not in CONDENSE:
        raise ValueError(f"condense is {condense!r}: it must be one of {', '.join(CONDENSE)}")
    seen, performances = _behaviours(observations, cuts)
    hinted: dict[tuple[str, int], _Hinted] = {}
    table = []
    for (behaviour, source), periods in sorted(seen.items()):
        place = (source.machine, source.threads)
        if place not in hinted:
            destinations = {
                loads
                for period in performances
                if (period[0].machine, period[0].threads) == place
                for loads in performances[period]
            }
            hinted[place] = _Hinted.of(best_matches(*place), sorted(destinations), leeway)
        consequences = hinted[place].consequences([performances[period] for period in periods], CONDENSE[condense])
        if consequences:
            best = max(consequences, key=lambda hint: consequences[hint])
            table.append(Action(behaviour, source, best, consequences))
    return table


_Period = tuple[Program, str]
"""A sample period of a program."""


@dataclass(frozen=True)
class _Hinted:
    """The placements of each hint, on a machine with a number of threads."""

    placements: Mapping[Hint, Sequence[Loads]]

    @classmethod
    def of(cls, matches: Mapping[Hint, Loads], destinations: Sequence[Loads], leeway: int) -> _Hinted:
        """Find the hints that each destination corresponds to (line 12)."""
        placements: dict[Hint, list[Loads]] = {hint: [] for hint in matches}
        for loads in destinations:
            for hint in affinity_hints(loads, matches, leeway):
                placements[hint].append(loads)
        return cls(placements)

    def consequences(
        self, periods: Sequence[Mapping[Loads, Sequence[float]]], condense: Callable[[Sequence[float]], float]
    ) -> dict[Hint, float]:
        """Return the performance under each hint with an observation, from the performances of these periods."""
        condensed = {}
        for loads in {loads for of_hint in self.placements.values() for loads in of_hint}:
            if had := [value for period in periods for value in period.get(loads, ())]:
                # The usual case, because few programs behave alike in the same placement. All functions leave a single
                # value unchanged.
                condensed[loads] = had[0] if len(had) == 1 else condense(had)
        found = {
            hint: [condensed[one] for one in of_hint if one in condensed] for hint, of_hint in self.placements.items()
        }
        return {hint: statistics.fmean(values) for hint, values in found.items() if values}


def _behaviours(
    observations: Iterable[Observation], cuts: Sequence[Floats]
) -> tuple[dict[tuple[Behaviour, Source], list[_Period]], dict[_Period, dict[Loads, list[float]]]]:
    """Return the periods of each behaviour in each placement, and their performances (lines 2 to 8)."""
    periods: dict[_Period, list[Observation]] = {}
    for one in observations:
        periods.setdefault((one.program, one.period), []).append(one)
    seen: dict[tuple[Behaviour, Source], list[_Period]] = {}
    performances: dict[_Period, dict[Loads, list[float]]] = {}
    for period, of_period in periods.items():
        program, _ = period
        counters = np.array([one.counters for one in of_period])
        columns = [bins(column, cut) for column, cut in zip(counters.T, cuts, strict=True)]
        for one, behaviour in zip(of_period, np.array(columns).T.tolist(), strict=True):
            seen.setdefault((tuple(behaviour), Source(program.machine, program.threads, one.loads)), []).append(period)
        performances[period] = {}
        for one in of_period:
            if not np.isnan(one.performance):
                performances[period].setdefault(one.loads, []).append(one.performance)
    return seen, performances


def training_rows(table: Sequence[Action]) -> tuple[Floats, NDArray[np.str_]]:
    """Return RIPPER's training data: bins of shape (rows, metrics), NaN for missing, and each row's hint as text."""
    behaviours = np.array([action.behaviour for action in table], dtype=np.float64)
    behaviours[behaviours == MISSING] = np.nan
    return behaviours, np.array([str(action.hint) for action in table])


def rules_on_values(rules: Iterable[Rule], cuts: Sequence[Floats]) -> tuple[Rule, ...]:
    """Return rules on values for rules on bins: bounds are thresholds, (lower, upper] as in the paper's figure 7."""
    return tuple(
        replace(rule, conditions=tuple(_on_values(condition, cuts[condition.feature]) for condition in rule.conditions))
        for rule in rules
    )


def _on_values(condition: Condition, cut: Floats) -> Condition:
    place = int(condition.threshold)
    if condition.operator == AT_MOST:
        return replace(condition, threshold=float(cut[place]))
    if condition.operator == AT_LEAST:
        return replace(condition, operator=ABOVE, threshold=float(cut[place - 1]))
    raise ValueError(f"the condition {condition} compares a bin by its name: learn with bins as numbers")
