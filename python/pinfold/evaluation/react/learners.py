"""The rows of table 3 of Sánchez Barrera et al. (ICS 2020): each learner by the paper's score, and nested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from os import sched_getaffinity
from typing import Any

from threadpoolctl import threadpool_limits

from pinfold.evaluation.react.searches import random_pairs
from pinfold.evaluation.react.sweep import MACHINES
from pinfold.evaluation.section import Table
from pinfold.learn.react.data import Regions
from pinfold.learn.react.method import MODEL, Choice, Judged, Study
from pinfold.learn.react.models import NEURONS, REGRET, SLOW, ReactionModel

SANDY_BRIDGE, SKYLAKE = MACHINES

PAPER_MODELS = {
    "Tree_s": {SANDY_BRIDGE: 1.76, SKYLAKE: 1.60},
    "LR_s": {SANDY_BRIDGE: 1.43, SKYLAKE: 1.40},
    "Clustering": {SANDY_BRIDGE: 1.56, SKYLAKE: 1.40},
    "ANN_m": {SANDY_BRIDGE: 1.65, SKYLAKE: 1.51},
    "ANN_s": {SANDY_BRIDGE: 1.66, SKYLAKE: 1.53},
    "SVM_s": {SANDY_BRIDGE: 1.70, SKYLAKE: 1.52},
    "Tree_m": {SANDY_BRIDGE: 1.74, SKYLAKE: 1.59},
}
"""Table 3 of the paper. Its models for Skylake see the counters of Sandy Bridge."""

PARAMETERS = {
    "Tree": ("-", "scikit-learn's defaults, no limits"),
    "LR": ("multinomial, lbfgs", "the same, standardised features"),
    "Clustering": ("hierarchical, Ward", "the same, one cluster for each output configuration, standardised features"),
    "ANN": (
        "lbfgs, alpha=0.0001, hidden_layer_sizes=(7,)",
        f"the same, {NEURONS} neurons, standardised features",
    ),
    "SVM": ("gamma=scale, decision_function_shape=ovo", "the same, standardised features"),
}
"""Table 2 of the paper, and what is here."""


@dataclass(frozen=True)
class OfModel:
    """One row of table 3.

    Attributes
    ----------
    machine : str
        The machine on which configurations are chosen.
    counted_on : str
        The machine whose counters are seen.
    model : str
        The model.
    pairs : int
        The number of pairs that were tried by the paper's score.
    features : list of str
        The counters and configurations of the best pair, by the paper's score.
    paper : float
        The speed-up by the paper's score.
    paper_share, nested, low, high : float
        The share by the paper's score; the nested one and its interval.
    """

    machine: str
    counted_on: str
    model: str
    pairs: int
    features: list[str]
    paper: float
    paper_share: float
    nested: float
    low: float
    high: float

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - the columns of table 3
        cls, study: Study, seen: Regions, machine: str, model: str, pairs: int, paper: Choice, run: Judged
    ) -> OfModel:
        """Return the row of a model.

        Args:
            study: what is judged.
            seen: the regions whose counters are seen.
            machine: the machine on which configurations are chosen.
            model: the model.
            pairs: the number of pairs.
            paper: what the paper's method chooses.
            run: what is reached nested.
        """
        share, low, high = run.share(MODEL)
        places = [study.places[feature] for feature in paper.features]
        return cls(
            machine=machine,
            counted_on=seen.machine,
            model=model,
            pairs=pairs,
            features=[f"{seen.counters[counter]}: {seen.configurations[place].text()}" for place, counter in places],
            paper=math.exp(paper.score),
            paper_share=paper.score / study.possible(),
            nested=share,
            low=low,
            high=high,
        )


def slow(study: Study, seen: Regions, machine: str, fewer: int) -> list[OfModel]:
    """Judge the slow learners, each in a process of its own.

    Args:
        study: what is judged.
        seen: the regions whose counters are seen.
        machine: the machine on which configurations are chosen.
        fewer: pairs are tried by this factor fewer than each learner's budget.
    """
    with ProcessPoolExecutor(len(sched_getaffinity(0))) as pool:
        judged = list(pool.map(partial(_judge, study, fewer), range(len(SLOW))))
    return [
        OfModel.of(study, seen, machine, model.name, budget(model, fewer), paper, run)
        for model, (paper, run) in zip(SLOW, judged, strict=True)
    ]


def budget(model: ReactionModel, fewer: int) -> int:
    """Return the number of random pairs that a slow learner tries."""
    return max(model.budget // fewer, 2)


def _judge(study: Study, fewer: int, place: int) -> tuple[Choice, Judged]:
    way = random_pairs(SLOW[place], budget(SLOW[place], fewer))
    # The arrays are small: threads would only wait for each other, above all on a busy machine.
    with threadpool_limits(1):
        return study.as_in_the_paper(way), study.nested(way, 0)


def regrets(study: Study, fewer: int) -> dict[str, float]:
    """Judge trees of regrets, which the paper does not have."""
    way = random_pairs(REGRET, budget(REGRET, fewer))
    return shares(study, study.as_in_the_paper(way), study.nested(way, 0))


def shares(study: Study, paper: Choice, run: Judged) -> dict[str, float]:
    """Return the share of the possible gain by the paper's score, and the nested one with its interval."""
    share, low, high = run.share(MODEL)
    return {"nested": share, "low": low, "high": high, "paper_share": paper.score / study.possible()}


def parameters_table() -> Table:
    """Return table 2: the learners' parameters."""
    rows = [[name, paper, ours] for name, (paper, ours) in PARAMETERS.items()]
    caption = "Table 2: parameters of the learners; `_s` is a single label, `_m` are many:"
    return Table(["learner", "paper", "here"], rows, caption)


def models_table(models: Sequence[OfModel]) -> Table:
    """Return table 3, with the paper's speed-ups in parentheses."""
    rows = [
        [
            one.machine if one.machine == one.counted_on else f"{one.machine} from {one.counted_on}",
            one.model,
            " and ".join(one.features),
            f"{one.paper:.2f}{beside(PAPER_MODELS[one.model].get(one.machine))}",
            f"{one.paper_share:.3f}",
            f"{one.nested:.3f} ({one.low:.3f} to {one.high:.3f})",
            str(one.pairs),
        ]
        for one in models
    ]
    head = ["machine", "model", "best pair", "speed-up (paper's)", "the paper's score", "nested", "pairs"]
    caption = "Table 3: models by the paper's score, which is too high, and by the share of the possible gain, nested:"
    return Table(head, rows, caption)


def beyond_table(beyond: dict[str, dict[str, Any]]) -> Table:
    """Return what the paper does not have: three features, and trees of regrets."""
    rows = [
        [machine, name, f"{one['paper_share']:.3f}", f"{one['nested']:.3f}", f"{one['low']:.3f} to {one['high']:.3f}"]
        for machine, ways in beyond.items()
        for name, one in ways.items()
    ]
    caption = "Beyond the paper, shares of the possible gain (trees of regrets try random pairs):"
    return Table(["machine", "way", "the paper's score", "nested", "95 % interval"], rows, caption)


def beside(paper: float | None) -> str:
    """Return the paper's figure in parentheses, if there is one."""
    return "" if paper is None else f" ({paper:.2f})"
