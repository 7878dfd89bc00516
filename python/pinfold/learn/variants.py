"""The ways of choosing a hint that are compared: the paper's, its parameters, and what it leaves open.

A variant is judged as all others are (:mod:`pinfold.learn.judging`): by programs that it has not seen. What the paper names
and does not try is more than one sample, and other learners (Moore and Childers, 2012, sections 2 and 3.4); what it does
not name is taking how counters react to another placement, and time instead of instructions a cycle as the performance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

from pinfold.learn.action_table import CONDENSE, DISCRETIZE, BestMatches
from pinfold.learn.discretize import Floats
from pinfold.learn.hint_policy import HintPolicy, Recipe, learn_policy
from pinfold.learn.hints import Hint
from pinfold.learn.judging import DISTRIBUTED, PACKED, Case, Choose, Learn
from pinfold.learn.regret_tree import rows_of

PAPER = Recipe()
"""AutoFinity as the paper evaluates it."""

DEFAULT = Recipe(learner="regret_tree")
"""What pinfold trains with where nothing else is asked for."""

TREES = 300
SAMPLES = 3
SEED = 0


@dataclass(frozen=True)
class Variant:
    """A way of choosing hints."""

    group: str
    """What it varies."""
    name: str
    learn: Learn
    readable: bool
    """Whether what it learns is a rule policy that a person can read, and ``pinfold`` evaluate."""
    metrics: str = "event:"
    """The metrics that it may look at: those whose names begin so."""


def variants(best_matches: BestMatches) -> list[Variant]:
    """Return all of them, in the order of the tables."""
    rules = partial(_rules, best_matches)
    paper, default = rules(PAPER), rules(DEFAULT)
    found = [
        Variant("static", "packed", static(PACKED), False),
        Variant("static", "distributed", static(DISTRIBUTED), False),
        Variant("static", "best hint of each program", lambda _: lambda case: case.best_hint, False),
        Variant("policy", "the paper's", paper, True),
        Variant("policy", "pinfold's", default, True),
    ]
    found += [
        Variant("discretisation", method.replace("_", " "), rules(replace(PAPER, discretize=method)), True)
        for method in DISCRETIZE
    ]
    found += [Variant("condense", one, rules(replace(PAPER, condense=one)), True) for one in CONDENSE]
    found += [Variant("leeway", str(leeway), rules(replace(PAPER, leeway=leeway)), True) for leeway in range(4)]
    found += [
        Variant("data", "performance not relative", rules(replace(PAPER, normalise=False)), True),
        Variant("data", "insensitive programs too", rules(replace(PAPER, insensitive=True)), True),
        Variant("data", "speed instead of IPC", rules(replace(PAPER, performance="speed")), True),
        Variant("counters", "2", rules(replace(PAPER, counters=2)), True),
        Variant("counters", "8", rules(replace(PAPER, counters=8)), True),
        Variant("counters", "4 that tell the hint", rules(replace(PAPER, relevant_to="hint")), True),
        Variant(
            "counters",
            "4 that tell the hint, speed",
            rules(replace(PAPER, relevant_to="hint", performance="speed")),
            True,
        ),
        Variant("counters", "4 of all metrics", paper, True, metrics=""),
    ]
    found += [
        Variant("samples", f"{SAMPLES}, the paper's policy", several(best_matches, PAPER), True),
        Variant("samples", f"{SAMPLES}, pinfold's policy", several(best_matches, DEFAULT), True),
        Variant("reaction", "the faster of two samples", lambda _: faster, False),
        Variant("reaction", "random forest of times", reaction(_forest), False),
    ]
    found += [
        Variant("learner", "decision tree", classifier(DecisionTreeClassifier), False),
        Variant("learner", "random forest", classifier(partial(RandomForestClassifier, TREES)), False),
        Variant("learner", "gradient boosting", classifier(GradientBoostingClassifier), False),
        Variant("learner", "random forest of times", regressor(_forest), False),
    ]
    found += [
        Variant("learner", f"regret tree of depth {depth}", rules(replace(DEFAULT, depth=depth)), True)
        for depth in (1, 2, 3)
    ]
    found.append(Variant("learner", "regret tree, all metrics", default, True, metrics=""))
    return found


def static(hint: Hint) -> Learn:
    """Take the same hint always."""
    return lambda _: lambda _: hint


def _rules(best_matches: BestMatches, recipe: Recipe) -> Learn:
    def learn(cases: Sequence[Case]) -> Choose:
        policy = learn_policy(cases, best_matches, recipe)
        return lambda case: policy.hint(case.sample(DISTRIBUTED).counters)

    return learn


def several(best_matches: BestMatches, recipe: Recipe, samples: int = SAMPLES) -> Learn:
    """Ask the policy again in the placement that it chose, so many times, as in continuous sampling (section 2)."""

    def choose(policy: HintPolicy, case: Case) -> Hint:
        hint = DISTRIBUTED
        for _ in range(samples):
            hint = policy.hint(case.sample(hint).counters)
        return hint

    return lambda cases: partial(choose, learn_policy(cases, best_matches, recipe))


def faster(case: Case) -> Hint:
    """Take two samples, distributed and packed, and the one in which more is done a second, which a progress metric tells."""
    return max((DISTRIBUTED, PACKED), key=lambda hint: 1 / case.seconds(hint))


def _reaction(cases: Sequence[Case]) -> Floats:
    """Give the counters distributed, and by what factor each is greater packed."""
    distributed, packed = (np.array([case.sample(hint).counters for case in cases]) for hint in (DISTRIBUTED, PACKED))
    return np.asarray(np.nan_to_num(np.hstack([distributed, np.log((packed + 1) / (distributed + 1))])))


def _distributed(cases: Sequence[Case]) -> Floats:
    """Give the counters of the distributed placement."""
    return np.asarray(np.nan_to_num(np.array([case.sample(DISTRIBUTED).counters for case in cases])))


def _forest() -> Any:
    return RandomForestRegressor(TREES, min_samples_leaf=2, random_state=SEED)


def reaction(make: Callable[[], Any]) -> Learn:
    """Learn regrets of how counters react: a row for each case."""

    def learn(cases: Sequence[Case]) -> Choose:
        hints = tuple(cases[0].matches)
        regrets = np.array([[case.regrets()[hint] for hint in hints] for case in cases])
        fitted = make().fit(_reaction(cases), regrets)
        return lambda case: _least(fitted, _reaction([case]), hints)

    return learn


def regressor(make: Callable[[], Any]) -> Learn:
    """Learn regrets of the counters in every placement, and take the hint with the least one foretold."""

    def learn(cases: Sequence[Case]) -> Choose:
        rows = rows_of(cases)
        fitted = make().fit(np.nan_to_num(rows.values), rows.regrets, sample_weight=rows.weights)
        return lambda case: _least(fitted, _distributed([case]), rows.hints)

    return learn


def _least(fitted: Any, values: Floats, hints: Sequence[Hint]) -> Hint:
    # Hints that lead to the same placement have the same regret but for rounding, and the first is taken.
    return hints[int(np.argmin(np.round(fitted.predict(values)[0], 9)))]


def classifier(make: Callable[..., Any]) -> Learn:
    """Learn the best hint of the counters in every placement."""

    def learn(cases: Sequence[Case]) -> Choose:
        rows = rows_of(cases)
        best = [str(case.best_hint) for case in cases for _ in case.observed]
        fitted = make(random_state=SEED).fit(np.nan_to_num(rows.values), best, sample_weight=rows.weights)
        return lambda case: Hint.parse(str(fitted.predict(_distributed([case]))[0]))

    return learn
