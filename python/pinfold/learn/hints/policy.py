"""Learns the policy that chooses an affinity hint from a sample: AutoFinity's steps, each with parameters.

The steps are counters (:mod:`pinfold.learn.hints.cfs`), bins and actions (:mod:`pinfold.learn.hints.action_table`),
rules (:mod:`pinfold.learn.hints.ripper`). The defaults of :class:`Recipe` are the paper's choices (Moore and Childers,
2012, sections 3.1 to 3.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from pinfold.learn.hints.action_table import (
    BINS,
    LEEWAY,
    BestMatches,
    build_action_table,
    rules_on_values,
    thresholds,
    training_rows,
)
from pinfold.learn.hints.cfs import CfsSelector
from pinfold.learn.hints.data_set import View
from pinfold.learn.hints.discretize import Floats
from pinfold.learn.hints.hint import Hint
from pinfold.learn.hints.judging import Case
from pinfold.learn.hints.observations import Observation, relative_to_slowest, sensitive
from pinfold.learn.hints.regret_tree import learn_tree, rows_of
from pinfold.learn.hints.ripper import RipperClassifier, Rule, first_that_holds

COUNTERS = 4
"""The number of counters that the paper's machine counts at the same time (section 3.1)."""

LEAST: Mapping[View, float] = {"events": 1.0, "events per instruction": 1e-9, "all metrics": 1.0}
"""The count that differs from 0 on a logarithmic scale: one per second, or one in 10^9 instructions."""


@dataclass(frozen=True)
class Recipe:
    """The parameters of learning a policy; the defaults are the paper's."""

    learner: Literal["ripper", "regret_tree"] = "ripper"
    """What makes the rules: RIPPER from the action table, or :mod:`pinfold.learn.hints.regret_tree` from times."""
    view: View = "events"
    """The metrics, and the divisor of counts."""
    scale: Literal["linear", "logarithmic"] = "linear"
    """The scale of bins. Counts of different programs differ by orders of magnitude."""
    performance: Literal["ipc", "speed"] = "ipc"
    """The performance that is maximised: instructions per cycle, or repetitions per second."""
    counters: int = COUNTERS
    """The number of metrics that a policy may use."""
    relevant_to: Literal["performance", "hint"] = "performance"
    """The target of the selection of metrics: the performance, as in the paper, or the best hint."""
    discretize: str = "equal_width"
    bins: int = BINS
    condense: str = "median"
    leeway: int = LEEWAY
    normalise: bool = True
    """Whether performances are relative to the program's slowest."""
    insensitive: bool = False
    """Whether to learn also from programs for which the placement makes no difference."""
    depth: int = 2
    """The highest number of conditions in a rule of the tree."""
    leaf: float = 0.05
    """The least share of the rows in a leaf of the tree."""
    verified: bool = False
    """Whether the tree expects a second sample that shows if the hint is faster than the distributed placement."""
    seed: int = 0
    """The seed of the learner's random choices."""

    def text(self) -> str:
        """Describe it for a reader."""
        return "hints(" + ", ".join(f"{key}={value}" for key, value in asdict(self).items()) + ")"


@dataclass(frozen=True)
class HintPolicy:
    """Rules that choose a hint from a sample."""

    rules: tuple[Rule, ...]
    """In their order; features are positions in an observation's counters, targets hints as text."""
    selected: tuple[int, ...]
    """The positions of the selected metrics, in the order of their contribution."""
    rows: int
    """The number of training rows."""

    def hint(self, counters: Sequence[float]) -> Hint:
        """Return the hint for a sample, the values of all metrics."""
        (fired,) = first_that_holds(self.rules, np.array([counters]))
        return Hint.parse(self.rules[fired].target)


def learn_policy(cases: Sequence[Case], best_matches: BestMatches, recipe: Recipe | None = None) -> HintPolicy:
    """Learn a policy from cases.

    Args:
        cases: at least one; all of their placements are used.
        best_matches: the placement of each hint.
        recipe: the parameters; the defaults are the paper's.

    Raises:
        ValueError: if a parameter is not valid, or no data is left for learning.
    """
    recipe = recipe or Recipe()
    if recipe.learner == "regret_tree":
        rows = rows_of(cases, verified=recipe.verified)
        rules = learn_tree(rows, recipe.depth, recipe.leaf, recipe.seed)
        return HintPolicy(rules, _looked_at(rules), len(rows.values))
    observations = [
        replace(one, counters=tuple(scaled(np.array(one.counters), recipe).tolist()))
        for one in training_observations(cases, recipe)
    ]
    selected = select_counters(cases, observations, recipe)
    if not selected:
        return _without_counters(cases)
    chosen = [replace(one, counters=tuple(one.counters[place] for place in selected)) for one in observations]
    cuts = thresholds(chosen, recipe.discretize, recipe.bins)
    table = build_action_table(chosen, cuts, best_matches, condense=recipe.condense, leeway=recipe.leeway)
    values, hints = training_rows(table)
    learned = RipperClassifier(random_state=recipe.seed).fit(values, hints)
    values_of_cuts = [unscaled(cut, recipe) for cut in cuts]
    rules = on_all_metrics(rules_on_values(learned.rules_, values_of_cuts), selected)
    return HintPolicy(rules, selected, len(table))


def _without_counters(cases: Sequence[Case]) -> HintPolicy:
    """Return the most frequent best hint, for cases in which no counter is relevant."""
    best = Counter(str(case.best_hint) for case in cases)
    ((hint, right),) = best.most_common(1)
    return HintPolicy((Rule((), hint, len(cases), len(cases) - right),), (), len(cases))


def scaled(values: Floats, recipe: Recipe) -> Floats:
    """Return counts on the recipe's scale: unchanged, or the logarithm of one more than their multiple of ``LEAST``."""
    return values if recipe.scale == "linear" else np.asarray(np.log10(1 + values / LEAST[recipe.view]))


def unscaled(values: Floats, recipe: Recipe) -> Floats:
    """Return the argument of ``scaled``."""
    return values if recipe.scale == "linear" else np.asarray((10**values - 1) * LEAST[recipe.view])


def learn_best_observed(cases: Sequence[Case], seed: int = 0) -> HintPolicy:
    """Learn a policy from cases that were observed in only some placements, as a behaviour database has them.

    An action table of few programs has only a handful of rows, too few for RIPPER. So each sample is a row here, with
    the hint under which its program was fastest among the observed ones.

    Args:
        cases: at least one.
        seed: of the learner's random choices.

    Raises:
        ValueError: if no program was observed in the placements of two hints.
    """
    values, hints = [], []
    for case in cases:
        tried = [hint for hint, loads in case.matches.items() if loads in case.observed]
        if len({case.matches[hint] for hint in tried}) > 1:
            best = min(tried, key=case.seconds)
            values += [one.counters for one in case.observed.values()]
            hints += [str(best)] * len(case.observed)
    if not hints:
        raise ValueError(
            "no program was observed in the placements of two hints, so no hint is known to be better: run programs "
            "under rules of a sweep, or also learn from the sweep's data set"
        )
    learned = RipperClassifier(random_state=seed).fit(np.array(values), np.array(hints))
    rules = tuple(learned.rules_)
    return HintPolicy(rules, _looked_at(rules), len(hints))


def _looked_at(rules: Sequence[Rule]) -> tuple[int, ...]:
    features = (condition.feature for rule in rules for condition in rule.conditions)
    return tuple(dict.fromkeys(features))


def training_observations(cases: Sequence[Case], recipe: Recipe) -> list[Observation]:
    """Return the observations for learning from cases: with the recipe's performance, relative, sensitive.

    Raises:
        ValueError: if all programs are insensitive to their placement.
    """
    observations = [one for case in cases for one in case.observed.values()]
    if recipe.performance == "speed":
        observations = [replace(one, performance=1 / one.seconds) for one in observations]
    if not recipe.insensitive:
        observations = sensitive(observations)
        if not observations:
            raise ValueError(
                "the placement makes no difference for any program (the standard deviation of its times is below 1 %), "
                "so there is nothing to learn from; sweep programs that share data or use much memory bandwidth"
            )
    return relative_to_slowest(observations) if recipe.normalise else observations


def select_counters(cases: Sequence[Case], observations: Sequence[Observation], recipe: Recipe) -> tuple[int, ...]:
    """Return the positions of the most relevant metrics, in the order of their contribution (section 3.1)."""
    values = np.array([one.counters for one in observations])
    if recipe.relevant_to == "performance":
        selector = CfsSelector(max_features=recipe.counters, target="numeric")
        selector.fit(values, np.array([one.performance for one in observations]))
    else:
        best = {case.program: str(case.best_hint) for case in cases}
        selector = CfsSelector(max_features=recipe.counters)
        selector.fit(values, np.array([best[one.program] for one in observations]))
    return tuple(selector.selected_.tolist())


def on_all_metrics(rules: Sequence[Rule], selected: Sequence[int]) -> tuple[Rule, ...]:
    """Return rules on all metrics for rules on the selected metrics."""
    return tuple(
        replace(
            rule,
            conditions=tuple(replace(one, feature=selected[one.feature]) for one in rule.conditions),
        )
        for rule in rules
    )
