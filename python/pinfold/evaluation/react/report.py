"""The text and the tables of the section ``react``, which repeats the study of Sánchez Barrera et al. (ICS 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pinfold.evaluation.react.learners import SANDY_BRIDGE, SKYLAKE, beside, budget
from pinfold.evaluation.section import Table
from pinfold.learn.react.data import Regions
from pinfold.learn.react.jobs import judged_table
from pinfold.learn.react.method import (
    BEST_OF_OUTPUTS,
    MODEL,
    OUTPUTS,
    STATIC,
    TWO,
    Choice,
    Judged,
    Study,
)
from pinfold.learn.react.models import SLOW

PAPER_SEARCHES = {
    "only NUMA": {SANDY_BRIDGE: 1.73, SKYLAKE: 1.59},
    "only prefetchers": {SANDY_BRIDGE: 1.19, SKYLAKE: 1.19},
    "NUMA then prefetchers": {SANDY_BRIDGE: 1.78, SKYLAKE: 1.66},
    "prefetchers then NUMA": {SANDY_BRIDGE: 1.75, SKYLAKE: 1.67},
    "coupled": {SANDY_BRIDGE: 1.82, SKYLAKE: 1.73},
}
"""Table 1 of the paper."""

NEAR = 0.05
"""A speed-up that differs from the paper's by no more than this share is about the same."""

ABOUT = """\
After Sánchez Barrera et al. (ICS 2020): for each parallel region, the number of threads and nodes, the map of threads,
the mapping of pages and the setting of prefetchers are chosen from its counters in two configurations. Speed-ups are
over all cores with scattered threads, pages after locality and all prefetchers on. Shares are those of the possible
gain, as logarithms. All machines here are simulated; the paper measured real ones. [react.md](../design/react.md) has
the method and its limits."""

METHOD = f"""\
**The paper's score** is the maximum over all pairs of features on the folds on which it is reported; its {OUTPUTS}
output configurations are chosen by all regions, and its folds are of regions. On features of pure noise this score is
high, too. **Nested** is judged without that leak: the outputs, the pair and the tree come from other programs alone,
and pairs are judged inside of these by folds of programs. Intervals are of a bootstrap over programs. The control has
learned in the same way from gains that were exchanged among regions. On another machine, the model either sees the
counters of one machine and learns from the times of the other, as in the paper, or all of it is learned on one machine
and judged on the other. No program is judged by a model that has seen it, on any machine."""


@dataclass(frozen=True)
class Effort:
    """The extent of the searches.

    Attributes
    ----------
    seeds : tuple of int
        Of nested judging.
    paper_part, nested_part, control_part : int
        One of this many features is searched for the paper's score, for each nested figure, and for the control.
    fewer : int
        Slow learners try pairs by this factor fewer than their budget.
    profiles : int
        Of this many configurations one is profiled alone for figure 8.
    """

    seeds: tuple[int, ...]
    paper_part: int
    nested_part: int
    control_part: int
    fewer: int
    profiles: int


class Pair(NamedTuple):
    """The machine whose counters are seen, and the machine whose configurations are chosen."""

    counted_on: str
    machine: str

    def text(self) -> str:
        """Name it."""
        return self.machine if self.alone else f"{self.machine} from counters of {self.counted_on}"

    @property
    def alone(self) -> bool:
        """Whether both are the same."""
        return self.counted_on == self.machine


@dataclass(frozen=True)
class Nested:
    """The nested figures of a model.

    Attributes
    ----------
    run, control : Judged
        By models that learned from the observed gains, and from gains that were exchanged among regions.
    """

    run: Judged
    control: Judged


def results_text(nested: Mapping[Pair, Nested], across: Mapping[tuple[str, str], Judged]) -> str:
    """Describe the results of the models, without the paper's score."""

    def reached(name: str, run: Judged) -> str:
        share, low, high = run.share(MODEL)
        others = ", ".join(f"`{other}` {run.share(other)[0]:.2f}" for other in (TWO, STATIC))
        return f"{share:.2f} ({low:.2f} to {high:.2f}) on {name} ({others})"

    shares = [
        *(reached(pair.text(), one.run) for pair, one in nested.items()),
        *(reached(f"{other}, all learned on {one}", run) for (one, other), run in across.items()),
    ]
    better = [
        f"`{other}` on {pair.text()}"
        for pair, one in nested.items()
        for other in (TWO, STATIC)
        if one.run.over(MODEL, other)[1] > 0
    ]
    worst = min(one.run.worst(MODEL) for one in nested.values())
    return (
        f"**Found**: on programs that a model has not seen, the share of the possible gain is {'; '.join(shares)}. "
        f"The model is better, by the lower end of the interval, than {' and '.join(better) or 'neither of the two'}. "
        f"The worst region runs at {worst:.2f} of the baseline's speed, so a forecast alone may lose. So `react` "
        "tries configurations, planned by a belief, and measures each ([belief.md](belief.md))."
    )


def number_of_pairs(study: Study, part: int) -> int:
    """Return the number of pairs, if one of this many features is searched."""
    features: int = study.values.shape[1] // part
    return features * (features - 1) // 2


def nested_table(pair: Pair, nested: Nested, paper: Choice, study: Study) -> Table:
    """Return the nested figures, beside the paper's score and choices without a model."""
    table = judged_table(nested.run, nested.control, paper.score, study.possible())
    return Table(table.columns, table.rows, f"{pair.text()}. {table.caption}")


def over_table(nested: Mapping[Pair, Nested]) -> Table:
    """Return how much faster models are than what needs no model, with intervals."""
    rows = [
        [pair.text(), other, *_ratio(one.run.over(MODEL, other))]
        for pair, one in nested.items()
        for other in (TWO, STATIC)
    ]
    caption = "The model, nested, over what needs no model: the geometric mean of its speed over the other's:"
    return Table(["machine", "over", "speed", "95 % interval"], rows, caption)


def _ratio(logs: tuple[float, float, float]) -> list[str]:
    mean, low, high = map(math.exp, logs)
    return [f"{mean:.3f}", f"{low:.3f} to {high:.3f}"]


def transfer_table(across: Mapping[tuple[str, str], Judged]) -> Table:
    """Return the figures of models, profiles and counters from another machine."""
    rows = []
    for (one, other), run in across.items():
        for way in (MODEL, STATIC, TWO, BEST_OF_OUTPUTS):
            share, low, high = run.share(way)
            rows.append([one, other, way, f"{share:.3f}", f"{low:.3f} to {high:.3f}", f"{run.speed_up(way):.3f}"])
    caption = "All learned on one machine and judged on another, on programs that were not learned:"
    return Table(["learned on", "judged on", "", "share", "95 % interval", "speed-up"], rows, caption)


def data_text(found: Mapping[str, Regions], made_by: Mapping[Path, str]) -> str:
    """Describe the data sets, and the commits whose builds made them."""
    regions = "; ".join(
        f"`{name}` has {len(one.programs)} regions of {len(set(one.programs))} programs in {len(one.configurations)} "
        "configurations"
        for name, one in found.items()
    )
    made = ", ".join(f"`{file}` by the build of commit {commit}" for file, commit in made_by.items())
    return (
        f"**The data** is committed, and was not swept for this section: {made}. Simulated times are those of these "
        f"builds, and not of the build that is named below. {regions}. The last command sweeps one machine again, in "
        "hours."
    )


def method_text(studies: Mapping[Pair, Study], effort: Effort) -> str:
    """Describe how models are judged, and which searches are reduced."""
    study = next(iter(studies.values()))
    parts = (1, effort.paper_part, effort.nested_part, effort.control_part)
    every, paper, nested, control = (f"{number_of_pairs(study, part):,}" for part in parts)
    tried = ", ".join(f"{model.name} {budget(model, effort.fewer)}" for model in SLOW)
    profiles = "" if effort.profiles == 1 else f" Figure 8 has one of {effort.profiles} configurations."
    return (
        f"{METHOD}\n\n**Reduced**, so that this takes less than an hour on two cores: the paper's score is the best of "
        f"{paper} of the {every} pairs of `{SANDY_BRIDGE}`. A nested search sees one of {effort.nested_part} features, "
        f"drawn at random, with {nested} pairs, and one of the control {control} pairs. Nested figures are of "
        f"{len(effort.seeds)} seed. Slow learners try random pairs: {tried}; the best of few pairs has a lower score "
        f"than the best of all.{profiles}"
    )


def searches_table(space: dict[str, dict[str, float]]) -> Table:
    """Return table 1, with the paper's figures in parentheses."""
    rows = [
        [
            name,
            *(f"{space[machine][name]:.2f}{beside(paper.get(machine))}" for machine in space),
            _remark(float(np.mean([space[machine][name] for machine in space])), float(np.mean(list(paper.values())))),
        ]
        for name, paper in PAPER_SEARCHES.items()
    ]
    caption = "Table 1: geometric means of speed-ups by the searched part of the space (the paper's), and their mean:"
    return Table(["search", *space, "mean, against the paper's"], rows, caption)


def _remark(ours: float, paper: float) -> str:
    """Say whether our figure is above or below the paper's."""
    ratio = ours / paper
    if abs(ratio - 1) <= NEAR:
        return f"{ours:.2f}, about the paper's {paper:.2f}"
    return f"{ours:.2f}, {'above' if ratio > 1 else 'below'} the paper's {paper:.2f}"


def space_text(space: dict[str, dict[str, float]]) -> str:
    """Describe the space before anything is learned from it."""
    parts = []
    for machine, found in space.items():
        greedy = max(found["NUMA then prefetchers"], found["prefetchers then NUMA"])
        more = math.log(found["coupled"]) - math.log(greedy)
        parts.append(
            f"on `{machine}` NUMA alone gains {found['only NUMA']:.2f}x, prefetchers alone "
            f"{found['only prefetchers']:.2f}x, and the coupled search {found['coupled']:.2f}x, {more:.1%} more than "
            "the better order of the two"
        )
    return (
        f"**The space**: {'; '.join(parts)}. Where a figure is above the paper's, our regions use memory more than its "
        "codelets do, or the simulated machine punishes a bad placement more; where it is below, prefetchers or nodes "
        "matter less here than on the machine. The table says on which side each figure is."
    )
