"""Evaluates policies of hints as AutoFinity's paper does, from the data set of a sweep.

Every figure is of programs that the policy did not learn from (:mod:`pinfold.learn.hints.judging`). They follow
AutoFinity's figures (Moore and Childers, 2012) 1 (times in all swept placements), 9 (discretisation and condense
functions), 10 (behaviours), 11 (the number of threads of the training) and 12 (interesting cases, all numbers of
threads).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np

from pinfold.learn.hints.action_table import thresholds
from pinfold.learn.hints.data_set import DataSet
from pinfold.learn.hints.discretize import bins
from pinfold.learn.hints.judging import Case, Judgement, Score, leave_one_program_out, score
from pinfold.learn.hints.policy import learn_policy, select_counters, training_observations
from pinfold.learn.hints.variants import DEFAULT, ONE_SAMPLE, OURS, PAPER, PAPERS, Variant, variants
from pinfold.plot import Plot

GOOD_PLACEMENT = 1.05
"""In figure 1, a placement is as good as the best if its time is at most this multiple of the best time."""


@dataclass(frozen=True)
class Judged:
    """A variant with its judgements."""

    variant: Variant
    judgements: Sequence[Judgement]
    score: Score


@dataclass(frozen=True)
class Spread:
    """A program's times in all swept placements (figure 1)."""

    label: str
    seconds: Sequence[float]
    """Ascending."""

    @property
    def worst_over_best(self) -> float:
        """Return the longest time over the shortest."""
        return self.seconds[-1] / self.seconds[0]

    @property
    def good_share(self) -> float:
        """Return the share of placements that are within 5 % of the best."""
        return sum(one <= GOOD_PLACEMENT * self.seconds[0] for one in self.seconds) / len(self.seconds)


@dataclass(frozen=True)
class Behaviours:
    """The number of behaviours, bins of the selected counters, of a program in all swept placements (figure 10)."""

    label: str
    unique: int
    cumulative: int
    """The number of behaviours of this program and all with fewer."""


@dataclass(frozen=True)
class Evaluation:
    """All results."""

    data: DataSet
    threads: int
    """The number of threads of the training cases."""
    judged: Sequence[Judged]
    spreads: Sequence[Spread]
    behaviours: Sequence[Behaviours]
    policies: dict[str, list[str]]
    """The rules of AutoFinity's policy and of pinfold's, learned from all programs."""

    def plot(self, name: str = "fixed-threads") -> Plot:
        """Draw a result: ``placements``, ``behaviours``, ``fixed-threads`` or ``interesting``.

        Raises:
            ValueError: an unknown name.
        """
        # The report imports this module.
        plots = import_module("pinfold.learn.hints.report").PLOTS
        if name not in plots:
            raise ValueError(f"unknown plot {name!r}; there are {', '.join(plots)}")
        return Plot(plots[name][2](self))

    def of(self, name: str) -> Judged:
        """Return one of the two policies, or a static one."""
        return next(
            one for one in self.judged if one.variant.name == name and one.variant.group in ("policy", "static")
        )


def evaluate(data: DataSet, threads: int, progress: Callable[[str], None]) -> Evaluation:
    """Judge all variants.

    Args:
        data: with all metrics.
        threads: the number of threads of the training cases.
        progress: receives progress messages.

    Raises:
        ValueError: if the data set is too small for learning; the message names the missing rows.
    """
    training = data.training(threads)
    machines = data.machines
    all_variants = variants(machines.best_matches)
    views = {view: data.seen(view) for view in {variant.view for variant in all_variants}}
    judged = []
    for number, variant in enumerate(all_variants, 1):
        progress(f"variant {number} of {len(all_variants)}: {variant.group}, {variant.name}")
        judgements = leave_one_program_out(views[variant.view].cases, variant.learn, threads)
        judged.append(Judged(variant, judgements, score(judgements, threads)))
    policies = {}
    for name, recipe in ((PAPERS, PAPER), (OURS, DEFAULT)):
        seen = views[recipe.view]
        policy = learn_policy(seen.training(threads), machines.best_matches, recipe)
        policies[name] = [rule.text([metric.name for metric in seen.metrics]) for rule in policy.rules]
    behaviours = _behaviours(views[PAPER.view].training(threads))
    return Evaluation(data, threads, judged, _spreads(training), behaviours, policies)


def _spreads(cases: Sequence[Case]) -> list[Spread]:
    found = [Spread(case.label, sorted(one.seconds for one in case.observed.values())) for case in cases]
    return sorted(found, key=lambda one: one.worst_over_best, reverse=True)


def _behaviours(cases: Sequence[Case]) -> list[Behaviours]:
    """Count bins as AutoFinity's policy sees them, for sensitive and insensitive programs."""
    observations = training_observations(cases, PAPER)
    selected = list(select_counters(cases, observations, PAPER))
    cuts = thresholds([one for case in cases for one in case.observed.values()], PAPER.discretize, PAPER.bins)
    shown: dict[str, set[tuple[int, ...]]] = {}
    for case in cases:
        counters = np.array([one.counters for one in case.observed.values()])
        columns = [bins(counters[:, place], cuts[place]) for place in selected]
        shown[case.label] = set(map(tuple, np.array(columns).T.tolist()))
    found, together = [], set[tuple[int, ...]]()
    for label in sorted(shown, key=lambda one: (len(shown[one]), one)):
        together |= shown[label]
        found.append(Behaviours(label, len(shown[label]), len(together)))
    return found


def document(evaluation: Evaluation) -> dict[str, Any]:
    """Return all results as the JSON document has them (docs/formats/learning.md)."""
    ours = evaluation.of(OURS)
    return {
        "simulated": evaluation.data.simulated,
        "machines": sorted({case.program.machine for case in evaluation.data.cases}),
        "threads": evaluation.threads,
        "programs": sorted({case.program.name for case in evaluation.data.cases}),
        "cases": len(evaluation.data.cases),
        "oracle_ratio": ours.score.oracle_ratio,
        "interesting_cases": ours.score.interesting,
        "interesting_within_1_percent": ours.score.good,
        "one_sample": asdict(evaluation.of(ONE_SAMPLE).score),
        "paper_method": asdict(evaluation.of(PAPERS).score),
        "policy": evaluation.policies[OURS],
        "paper_policy": evaluation.policies[PAPERS],
        "variants": [
            {
                "varies": one.variant.group,
                "of": one.variant.of,
                "name": one.variant.name,
                "readable": one.variant.readable,
                "samples": one.variant.samples,
                **asdict(one.score),
            }
            for one in evaluation.judged
        ],
        "judgements": [_judgement(one) for one in ours.judgements],
        "placements": [
            {
                "program": one.label,
                "seconds": one.seconds,
                "worst_over_best": one.worst_over_best,
                "good_share": one.good_share,
            }
            for one in evaluation.spreads
        ],
        "behaviours": [asdict(one) for one in evaluation.behaviours],
    }


def _judgement(one: Judgement) -> dict[str, Any]:
    return {
        "program": one.case.label,
        "command": one.case.program.command,
        "threads": one.case.program.threads,
        "hint": str(one.hint),
        "best_hint": str(one.case.best_hint),
        "learned_s": one.learned,
        "packed_s": one.packed,
        "distributed_s": one.distributed,
        "oracle_s": one.case.oracle,
        "placements": len(one.case.observed),
        "interesting": one.interesting,
        "within_1_percent": one.good,
    }
