"""Learns rules from times instead of actions: a decision tree whose leaves cost the least time.

The action table keeps only the best hint of a behaviour. A program that is as fast under another hint counts as much as
one that takes twelve times as long there, and RIPPER minimises the number of wrong rows. Here a row has its *regrets*,
the logarithms of its times under all hints over that under its best. Steps:

1. A row is a program in a placement: the sampled counters, and the program's regrets. All sizes of a program together
   have the weight of one program.
2. A regression tree of all regrets cuts where their variance becomes the least (Breiman, Friedman, Olshen and Stone,
   "Classification and Regression Trees", 1984, sections 8.3 and 8.4; scikit-learn's implementation).
3. A leaf takes the hint with the least mean regret, and so the least geometric mean of times.
4. The paths to leaves become rules. The default rule replaces the leaves with the hint of the heaviest leaf.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from pinfold.learn.hints.columns import AT_MOST
from pinfold.learn.hints.discretize import Floats
from pinfold.learn.hints.hint import Hint
from pinfold.learn.hints.judging import DISTRIBUTED, Case
from pinfold.learn.hints.ripper import ABOVE, Condition, Rule

NO_REGRET = 1e-3
"""A hint whose regret is at most this, a thousandth of the time, counts as the best: for counting errors."""

TIE = 1e-9
"""The rounding error of sums of equal regrets."""


@dataclass(frozen=True)
class Rows:
    """The training data of regret learners."""

    values: Floats
    """The counters, shape (rows, metrics)."""
    regrets: Floats
    """Shape (rows, hints)."""
    weights: Floats
    """Shape (rows,)."""
    hints: tuple[Hint, ...]
    """The hints of the columns of the regrets."""


def rows_of(cases: Sequence[Case], *, verified: bool = False) -> Rows:
    """Return a row for each placement of each case.

    Args:
        cases: at least one.
        verified: whether a second sample will show if the hint is faster than the distributed placement, to which the
            program returns if it is not. Then a wrong hint costs no more than the distributed placement, and the best
            hint to try is the one that gains most where it gains.
    """
    sizes = Counter(case.program.name for case in cases)
    hints = tuple(cases[0].matches)
    values, regrets, weights = [], [], []
    for case in cases:
        of_case = case.regrets()
        if verified:
            of_case = {hint: min(regret, of_case[DISTRIBUTED]) for hint, regret in of_case.items()}
        for one in case.observed.values():
            values.append(one.counters)
            regrets.append([of_case[hint] for hint in hints])
            weights.append(1 / sizes[case.program.name] / len(case.observed))
    return Rows(np.array(values), np.array(regrets), np.array(weights), hints)


def learn_tree(rows: Rows, depth: int, leaf: float, seed: int = 0) -> tuple[Rule, ...]:
    """Learn rules on the rows' metrics.

    Args:
        rows: at least one. A metric that is missing in any of them is not used.
        depth: the highest number of conditions in a rule; 0 for the one hint with the least cost.
        leaf: the least share of all rows' weight in a leaf.
        seed: decides between equally good cuts.
    """
    if depth == 0:
        everything = np.full(len(rows.values), fill_value=True)
        return (_rule((), _best(rows, everything), rows, everything),)
    values = np.where(np.isnan(rows.values).any(axis=0), 0, rows.values)
    tree = DecisionTreeRegressor(max_depth=depth, min_weight_fraction_leaf=leaf, random_state=seed)
    tree.fit(values, rows.regrets, sample_weight=rows.weights)
    reached = tree.apply(values)
    ways = dict(_ways(tree.tree_))
    hints = {node: _best(rows, reached == node) for node in ways}
    heaviest = max(ways, key=lambda node: float(rows.weights[reached == node].sum()))
    rest = hints[heaviest]
    rules = [
        _rule(conditions, hints[node], rows, reached == node)
        for node, conditions in ways.items()
        if hints[node] != rest
    ]
    left = np.isin(reached, [node for node, hint in hints.items() if hint == rest])
    return (*rules, _rule((), rest, rows, left))


def _ways(tree: Any, node: int = 0, before: tuple[Condition, ...] = ()) -> Iterator[tuple[int, tuple[Condition, ...]]]:
    """Return each leaf with the conditions that lead to it."""
    if tree.children_left[node] == tree.children_right[node]:
        yield node, before
        return
    feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
    for child, operator in ((tree.children_left[node], AT_MOST), (tree.children_right[node], ABOVE)):
        # A later condition on the same side of the same metric is the stricter one.
        kept = tuple(one for one in before if (one.feature, one.operator) != (feature, operator))
        yield from _ways(tree, int(child), (*kept, Condition(feature, operator, threshold)))


def _best(rows: Rows, covered: NDArray[np.bool_]) -> Hint:
    """Return the hint with the least mean regret; among hints of the same placement the first."""
    means = np.average(rows.regrets[covered], axis=0, weights=rows.weights[covered])
    return rows.hints[int(np.flatnonzero(means <= means.min() + TIE)[0])]


def _rule(conditions: tuple[Condition, ...], hint: Hint, rows: Rows, covered: NDArray[np.bool_]) -> Rule:
    regrets = rows.regrets[covered, rows.hints.index(hint)]
    return Rule(conditions, str(hint), len(regrets), int(np.count_nonzero(regrets > NO_REGRET)))
