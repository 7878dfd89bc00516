"""The compared methods of choosing a hint: the paper's, its parameters, and methods that the paper leaves open.

A variant is judged like all others (:mod:`pinfold.learn.hints.judging`): by programs from which it was not learned. The
paper leaves several samples to future work (Moore and Childers, 2012, section 2). The other variants are not in the
paper: the reaction of counters to another placement, other learners, speed instead of instructions per cycle, and
counts per instruction.

Pinfold's policy has the paper's steps with two changes. Bins have a logarithmic scale, because counts of different
programs differ by orders of magnitude and a single bin of equal width holds most of them. Events are counted per
instruction, not per second: such counts describe the program and not its speed in the sampled placement. After the
change a second sample shows whether it helped (pinfold's loop: observe, decide, apply, verify); if it did not, threads
go back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

from pinfold.learn.hints.action_table import CONDENSE, BestMatches
from pinfold.learn.hints.data_set import View
from pinfold.learn.hints.discretize import Floats
from pinfold.learn.hints.hint import Hint
from pinfold.learn.hints.judging import DISTRIBUTED, PACKED, Case, Choose, Learn
from pinfold.learn.hints.policy import HintPolicy, Recipe, learn_policy
from pinfold.learn.hints.regret_tree import rows_of

PAPERS, ONE_SAMPLE, OURS = "the paper's", "pinfold's, one sample", "pinfold's"

MEASURED = "packed and distributed measured, the faster one kept"
"""The baseline without learning that a learned policy with two samples must beat."""

DISCRETISATIONS = {
    "equal_width": "equal width, adjusted",
    "fixed_width": "equal width",
    "equal_frequency": "equal frequency",
}

PAPER = Recipe()
"""AutoFinity as the paper evaluates it."""

DEFAULT = Recipe(view="events per instruction", scale="logarithmic")
"""The default of pinfold's training: the paper's steps, on other counts."""

TREE = Recipe(learner="regret_tree")

TREES, BOOSTS = 100, 30
SAMPLES = 3
SEED = 0


@dataclass(frozen=True)
class Variant:
    """A method of choosing hints."""

    group: str
    """The varied parameter."""
    name: str
    learn: Learn
    readable: bool
    """Whether it learns a rule policy that a user can read and ``pinfold`` can evaluate."""
    view: View = "events"
    """The metrics of the data set that it sees."""
    samples: int = 1
    """The highest number of placements that it samples."""
    of: str = ""
    """The policy with the other parameters; empty for a different method."""


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
        Variant("static", MEASURED, lambda _: faster, False, samples=2),
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
        Variant("reaction", "random forest of times", reaction(_forest), False, samples=2),
        Variant("learner", "decision tree", classifier(DecisionTreeClassifier), False),
        Variant("learner", "random forest", classifier(partial(RandomForestClassifier, TREES)), False),
        Variant("learner", "gradient boosting", classifier(_boosting), False),
        Variant("learner", "random forest of times", regressor(_forest), False),
    ]
    found += [rules("learner", f"regret tree of depth {depth}", replace(TREE, depth=depth)) for depth in (1, 2, 3)]
    for depth in (0, 1, 2, 3):
        name = f"regret tree of depth {depth} that expects the second sample"
        found.append(_verified(name, rules("learner", name, replace(TREE, depth=depth, verified=True))))
    return found


def _verified(name: str, variant: Variant) -> Variant:
    return replace(variant, name=name, learn=verified(variant.learn), samples=2)


def verified(learn: Learn) -> Learn:
    """Compare the chosen placement with the distributed one, and go back if it is not faster."""

    def learn_both(cases: Sequence[Case]) -> Choose:
        choose = learn(cases)
        return lambda case: min((choose(case), DISTRIBUTED), key=case.seconds)

    return learn_both


def static(hint: Hint) -> Learn:
    """Take the same hint in every case."""
    return lambda _: lambda _: hint


def _rules(best_matches: BestMatches, recipe: Recipe) -> Learn:
    def learn(cases: Sequence[Case]) -> Choose:
        policy = learn_policy(cases, best_matches, recipe)
        return lambda case: policy.hint(case.sample(DISTRIBUTED).counters)

    return learn


def several(best_matches: BestMatches, recipe: Recipe, samples: int = SAMPLES) -> Learn:
    """Ask the policy again in each placement that it chose, as in continuous sampling (section 2)."""

    def choose(policy: HintPolicy, case: Case) -> Hint:
        hint = DISTRIBUTED
        for _ in range(samples):
            hint = policy.hint(case.sample(hint).counters)
        return hint

    return lambda cases: partial(choose, learn_policy(cases, best_matches, recipe))


def faster(case: Case) -> Hint:
    """Measure the distributed and the packed placement, and keep the one with the higher rate of a progress metric."""
    return max((DISTRIBUTED, PACKED), key=lambda hint: 1 / case.seconds(hint))


def _reaction(cases: Sequence[Case]) -> Floats:
    """Return the counters in the distributed placement, and their ratios in the packed one."""
    distributed, packed = (np.array([case.sample(hint).counters for case in cases]) for hint in (DISTRIBUTED, PACKED))
    return np.asarray(np.nan_to_num(np.hstack([distributed, np.log((packed + 1) / (distributed + 1))])))


def _distributed(cases: Sequence[Case]) -> Floats:
    """Return the counters of the distributed placement."""
    return np.asarray(np.nan_to_num(np.array([case.sample(DISTRIBUTED).counters for case in cases])))


def _forest() -> Any:
    return RandomForestRegressor(TREES, min_samples_leaf=2, random_state=SEED)


def reaction(make: Callable[[], Any]) -> Learn:
    """Learn regrets from the reaction of counters: a row for each case."""

    def learn(cases: Sequence[Case]) -> Choose:
        hints = tuple(cases[0].matches)
        regrets = np.array([[case.regrets()[hint] for hint in hints] for case in cases])
        fitted = make().fit(_reaction(cases), regrets)
        return lambda case: _least(fitted, _reaction([case]), hints)

    return learn


def regressor(make: Callable[[], Any]) -> Learn:
    """Learn regrets from the counters in every placement, and take the hint with the least predicted one."""

    def learn(cases: Sequence[Case]) -> Choose:
        rows = rows_of(cases)
        fitted = make().fit(np.nan_to_num(rows.values), rows.regrets, sample_weight=rows.weights)
        return lambda case: _least(fitted, _distributed([case]), rows.hints)

    return learn


def _boosting(random_state: int) -> Any:
    return HistGradientBoostingClassifier(max_iter=BOOSTS, random_state=random_state)


def _least(fitted: Any, values: Floats, hints: Sequence[Hint]) -> Hint:
    # Hints of the same placement have the same regret except for rounding. The first is taken.
    return hints[int(np.argmin(np.round(fitted.predict(values)[0], 9)))]


def classifier(make: Callable[..., Any]) -> Learn:
    """Learn the best hint from the counters in every placement."""

    def learn(cases: Sequence[Case]) -> Choose:
        rows = rows_of(cases)
        best = [str(case.best_hint) for case in cases for _ in case.observed]
        fitted = make(random_state=SEED).fit(np.nan_to_num(rows.values), best, sample_weight=rows.weights)
        return lambda case: Hint.parse(str(fitted.predict(_distributed([case]))[0]))

    return learn
