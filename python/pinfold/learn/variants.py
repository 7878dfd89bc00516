"""The ways of choosing a hint that are compared: the paper's, its parameters, and what it leaves open.

A variant is judged as all others are (:mod:`pinfold.learn.judging`): by programs that it has not seen. The paper names
more than one sample as open (Moore and Childers, 2012, section 2). It does not name what is tried beside that: how
counters react to another placement, other learners, speed instead of instructions a cycle, and counts an instruction.

Pinfold's policy has the paper's steps with two changes. Bins are cut on a logarithmic scale, since counts of different
programs differ by orders of magnitude and a single bin of equal width holds most of them. And events are counted an
instruction, not a second: that says what a program does and not how fast it is where it is sampled. After the change a
second sample tells whether it helped (pinfold's loop: observe, decide, apply, verify), and if not, threads go back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

from pinfold.learn.action_table import CONDENSE, BestMatches
from pinfold.learn.data_set import View
from pinfold.learn.discretize import Floats
from pinfold.learn.hint_policy import HintPolicy, Recipe, learn_policy
from pinfold.learn.hints import Hint
from pinfold.learn.judging import DISTRIBUTED, PACKED, Case, Choose, Learn
from pinfold.learn.regret_tree import rows_of

PAPERS, ONE_SAMPLE, OURS = "the paper's", "pinfold's, one sample", "pinfold's"

DISCRETISATIONS = {
    "equal_width": "equal width, adjusted",
    "fixed_width": "equal width",
    "equal_frequency": "equal frequency",
}

PAPER = Recipe()
"""AutoFinity as the paper evaluates it."""

DEFAULT = Recipe(view="events per instruction", scale="logarithmic")
"""What pinfold trains with where nothing else is asked for: the paper's steps, on other counts."""

TREE = Recipe(learner="regret_tree")

TREES, BOOSTS = 100, 30
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
    view: View = "events"
    """What of the data set it sees."""
    samples: int = 1
    """How many placements it samples at most."""
    of: str = ""
    """The policy that it otherwise is; empty where it is another way altogether."""


def variants(best_matches: BestMatches) -> list[Variant]:
    """Return all of them, in the order of the tables."""

    def rules(group: str, name: str, recipe: Recipe, of: str = "") -> Variant:
        return Variant(group, name, _rules(best_matches, recipe), True, recipe.view, of=of)

    def paper(group: str, name: str, **changes: Any) -> Variant:
        return rules(group, name, replace(PAPER, **changes), PAPERS)

    def default(group: str, name: str, **changes: Any) -> Variant:
        return rules(group, name, replace(DEFAULT, **changes), OURS)

    found = [
        Variant("static", "packed", static(PACKED), False, samples=0),
        Variant("static", "distributed", static(DISTRIBUTED), False, samples=0),
        Variant("static", "best hint of each program", lambda _: lambda case: case.best_hint, False, samples=0),
        paper("policy", PAPERS),
        default("policy", ONE_SAMPLE),
        _verified(OURS, default("policy", OURS)),
        paper("step", "logarithmic bins", scale="logarithmic"),
        paper("step", "events per instruction", view="events per instruction"),
    ]
    found += [paper("discretisation", name, discretize=method) for method, name in DISCRETISATIONS.items()]
    found += [paper("condense", name, condense=name) for name in CONDENSE]
    found += [paper("leeway", str(leeway), leeway=leeway) for leeway in range(4)]
    found += [
        paper("data", "performance not relative", normalise=False),
        paper("data", "insensitive programs too", insensitive=True),
        paper("data", "speed instead of IPC", performance="speed"),
        paper("counters", "2", counters=2),
        paper("counters", "8", counters=8),
        paper("counters", "4 that tell the hint", relevant_to="hint"),
        paper("counters", "4 of all metrics", view="all metrics"),
    ]
    found += [default("discretisation", name, discretize=method) for method, name in DISCRETISATIONS.items()]
    found += [default("leeway", str(leeway), leeway=leeway) for leeway in range(4)]
    found += [
        default("data", "insensitive programs too", insensitive=True),
        default("data", "speed instead of IPC", performance="speed"),
        default("counters", "2", counters=2),
        default("counters", "4 that tell the hint", relevant_to="hint"),
    ]
    asked_again = several(best_matches, DEFAULT)
    found += [
        _verified(f"{PAPERS}, verified", paper("samples", PAPERS)),
        _verified("logarithmic bins, verified", paper("samples", "logarithmic bins", scale="logarithmic")),
        Variant("samples", f"{OURS}, asked {SAMPLES} times", asked_again, True, DEFAULT.view, SAMPLES),
        Variant("reaction", "the faster of distributed and packed", lambda _: faster, False, samples=2),
        Variant("reaction", "random forest of times", reaction(_forest), False, samples=2),
        Variant("learner", "decision tree", classifier(DecisionTreeClassifier), False),
        Variant("learner", "random forest", classifier(partial(RandomForestClassifier, TREES)), False),
        Variant("learner", "gradient boosting", classifier(_boosting), False),
        Variant("learner", "random forest of times", regressor(_forest), False),
    ]
    found += [rules("learner", f"regret tree of depth {depth}", replace(TREE, depth=depth)) for depth in (1, 2, 3)]
    return found


def _verified(name: str, variant: Variant) -> Variant:
    return replace(variant, name=name, learn=verified(variant.learn), samples=2)


def verified(learn: Learn) -> Learn:
    """Look whether the chosen placement is faster than the distributed one was, and go back if it is not."""

    def learn_both(cases: Sequence[Case]) -> Choose:
        choose = learn(cases)
        return lambda case: min((choose(case), DISTRIBUTED), key=case.seconds)

    return learn_both


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
    """Take two samples, distributed and packed, and the one in which a progress metric tells more a second."""
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


def _boosting(random_state: int) -> Any:
    return HistGradientBoostingClassifier(max_iter=BOOSTS, random_state=random_state)


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
