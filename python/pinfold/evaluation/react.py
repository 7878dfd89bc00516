"""The study of configurations per parallel region: its space, its paper's models, and the same models judged nested.

After Sánchez Barrera et al. (ICS 2020). The data set is that of a sweep of the space ``ics20``; without it the section
says so and nothing else.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from os import sched_getaffinity
from pathlib import Path
from typing import Any

import numpy as np

from pinfold.evaluation.react_plots import (
    clusters_figure,
    coverage_figure,
    folds_figure,
    methods_figure,
    profiles_figure,
)
from pinfold.evaluation.section import Promise, Section, Table
from pinfold.learn.pair_search import PairTreeClassifier
from pinfold.learn.reaction_data import Regions, enough, matched, read
from pinfold.learn.reaction_jobs import figures_of, judged_table
from pinfold.learn.reaction_method import (
    ALL_PAIRS,
    BEST_OF_OUTPUTS,
    FOLDS,
    MODEL,
    OUTPUTS,
    REGRETS,
    STATIC,
    THREE,
    TWO,
    Choice,
    Judged,
    RandomPairs,
    Study,
    Way,
    WithinConfigurations,
    best_two,
    coverage,
    covering,
    every_pair,
    folds_of_regions,
    searches,
)
from pinfold.learn.reaction_models import SLOW

DATA = Path("target/evaluation/react/regions.parquet")
"""The regions of both machines in all configurations."""

SANDY_BRIDGE, SKYLAKE = "e5-4650x4", "platinum-8168x2"

SEEDS = (0, 1, 2, 3, 4)

PAPER_SEARCHES = {
    "only NUMA": {SANDY_BRIDGE: 1.73, SKYLAKE: 1.59},
    "only prefetchers": {SANDY_BRIDGE: 1.19, SKYLAKE: 1.19},
    "NUMA then prefetchers": {SANDY_BRIDGE: 1.78, SKYLAKE: 1.66},
    "prefetchers then NUMA": {SANDY_BRIDGE: 1.75, SKYLAKE: 1.67},
    "coupled": {SANDY_BRIDGE: 1.82, SKYLAKE: 1.73},
}
"""Table 1 of the paper."""

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

NEAR = 0.05
"""A speed-up that differs from the paper's by no more than this share is about the same."""

PAPER_SHARE = math.log(1.68) / math.log(1.77)
"""The share of the possible gain that the paper's models reach over both machines, by its own score (abstract)."""

ABOUT = """\
After Sánchez Barrera et al. (ICS 2020): for each parallel region, the number of threads and nodes, the map of threads,
the mapping of pages and the setting of prefetchers are chosen from its counters in two configurations. Speed-ups are
over all cores with scattered threads, pages after locality and all prefetchers on. Shares are those of the possible
gain, as logarithms."""

METHOD = f"""\
**The paper's score** is the maximum over all pairs of features on the folds on which it is reported; its {OUTPUTS}
output configurations are chosen by all regions, and its folds are of regions. On features of pure noise this score is
high, too. **Nested** is judged without that leak: the outputs, the pair and the tree come from other programs alone,
and pairs are judged inside of these by folds of programs. {len(SEEDS)} seeds; intervals are of a bootstrap over
programs. The control has learned in the same way from gains that were exchanged among regions. Slow learners try a
random subset of all pairs, with one seed."""

MISSING = f"""\
**The data set is missing** (`{DATA}`): nothing is learned and nothing is judged here. The sweep of the space `ics20`
makes it."""


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
        The number of pairs that were tried.
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


def react(quick: bool) -> Section:
    """Judge the models on the regions of the data set."""
    found = {one.machine: enough(one) for one in read([DATA])} if DATA.exists() else {}
    if not found:
        return _section("\n\n".join([ABOUT, MISSING]), [], {"simulated": True}, [], promises({}))
    return studied(found, SEEDS[:1] if quick else SEEDS, 10 if quick else None)


def studied(found: dict[str, Regions], seeds: Sequence[int], budget: int | None) -> Section:
    """Judge the models.

    Args:
        found: the regions of each machine.
        seeds: of nested judging.
        budget: the number of pairs for slow learners; None for each one's own.
    """
    space = {name: searches(one) for name, one in found.items()}
    tables = [_searches_table(space)]
    plots = [*(clusters_figure(one) for one in found.values()), coverage_figure(found)]
    studies = {(name, name): Study.of(one, one) for name, one in found.items()}
    if SANDY_BRIDGE in found and SKYLAKE in found:
        studies[SANDY_BRIDGE, SKYLAKE] = Study.of(*matched(found[SANDY_BRIDGE], found[SKYLAKE]))
    nested: dict[tuple[str, str], Judged] = {}
    control: dict[tuple[str, str], Judged] = {}
    models: list[OfModel] = []
    beyond: dict[str, Any] = {}
    profiles: dict[str, Any] = {}
    for (counted_on, machine), study in studies.items():
        name = machine if counted_on == machine else f"{machine} from counters of {counted_on}"
        names = _feature_names(found[counted_on], study)
        paper = study.as_in_the_paper(ALL_PAIRS)
        _progress(f"{name}: nested")
        run, shuffled = study.seeds(ALL_PAIRS, seeds), study.seeds(ALL_PAIRS, seeds, shuffled=True)
        nested[counted_on, machine], control[counted_on, machine] = run, shuffled
        table = judged_table(run, shuffled, paper.score, study.possible())
        tables.append(Table(table.columns, table.rows, f"{name}. {table.caption}"))
        pairs = study.values.shape[1] * (study.values.shape[1] - 1) // 2
        models.append(_of_model(study, counted_on, machine, "Tree_s", pairs, names, paper, run))
        _progress(f"{name}: slow learners")
        models += _slow(study, counted_on, machine, names, budget)
        if counted_on == machine:
            beyond[name] = _beyond(study, seeds[:1], budget)
            profiles[name] = _profiles(study, found[machine], paper)
    tables.append(_models_table(models))
    tables.append(_beyond_table(beyond))
    plots += [
        methods_figure([asdict(one) for one in models], _baselines(studies)),
        *(folds_figure(machine, _folds(study)) for (_, machine), study in studies.items()),
        *(profiles_figure(name, of_machine) for name, of_machine in profiles.items()),
    ]
    first = next(iter(found.values()))
    timed = _timed(Study.of(first, first))
    data = {
        "simulated": all(one.simulated for one in found.values()),
        "regions": {
            name: {"regions": len(one.programs), "programs": len(set(one.programs))} for name, one in found.items()
        },
        "space": space,
        "table1": {name: {"ours": space, "paper": PAPER_SEARCHES[name]} for name in PAPER_SEARCHES},
        "figure4": {name: coverage(one.gains)[: 2 * OUTPUTS] for name, one in found.items()},
        "models": [asdict(one) for one in models],
        "nested": [_of_pair(pair, run) for pair, run in nested.items()],
        "control": [_of_pair(pair, run) for pair, run in control.items()],
        "beyond": beyond,
        "profiles": profiles,
        "search": timed,
    }
    text = [ABOUT, _space_text(space), METHOD]
    return _section("\n\n".join(text), tables, data, plots, [*promises(nested), *_timed_promises(timed)])


def _of_pair(pair: tuple[str, str], run: Judged) -> dict[str, Any]:
    return {"counted_on": pair[0], "machine": pair[1], **figures_of(run)}


def _section(
    text: str, tables: Sequence[Table], data: dict[str, Any], plots: Sequence[Path], promised: Sequence[Promise]
) -> Section:
    commands = [
        "pinfold sweep --machine e5-4650x4 --space ics20 -o data.parquet FILE.pft",
        "pinfold learn evaluate react --data data.parquet",
    ]
    title = "Threads, pages and prefetchers for each parallel region"
    return Section("react", title, text, commands, tables, data, plots, promised)


def _progress(text: str) -> None:
    print(f"react: {text}", file=sys.stderr, flush=True)


def _searches_table(space: dict[str, dict[str, float]]) -> Table:
    rows = [
        [
            name,
            *(f"{space[machine][name]:.2f}{_beside(paper.get(machine))}" for machine in space),
            _remark(float(np.mean([space[machine][name] for machine in space])), float(np.mean(list(paper.values())))),
        ]
        for name, paper in PAPER_SEARCHES.items()
    ]
    caption = "Table 1: geometric means of speed-ups by the searched part of the space (the paper's), and their mean:"
    return Table(["search", *space, "mean, against the paper's"], rows, caption)


def _beside(paper: float | None) -> str:
    return "" if paper is None else f" ({paper:.2f})"


def _remark(ours: float, paper: float) -> str:
    """Say on which side of the paper's figure ours is."""
    ratio = ours / paper
    if abs(ratio - 1) <= NEAR:
        return f"{ours:.2f}, about the paper's {paper:.2f}"
    return f"{ours:.2f}, {'above' if ratio > 1 else 'below'} the paper's {paper:.2f}"


def _space_text(space: dict[str, dict[str, float]]) -> str:
    """Say what the space has, before anything is learned from it."""
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


def _feature_names(seen: Regions, study: Study) -> list[str]:
    return [f"{seen.counters[counter]}: {seen.configurations[place].text()}" for place, counter in study.places]


def _of_model(  # noqa: PLR0913, PLR0917 - the columns of table 3
    study: Study, counted_on: str, machine: str, model: str, pairs: int, names: list[str], paper: Choice, run: Judged
) -> OfModel:
    share, low, high = run.share(MODEL)
    return OfModel(
        machine=machine,
        counted_on=counted_on,
        model=model,
        pairs=pairs,
        features=[names[feature] for feature in paper.features],
        paper=math.exp(paper.score),
        paper_share=paper.score / study.possible(),
        nested=share,
        low=low,
        high=high,
    )


def _slow(study: Study, counted_on: str, machine: str, names: list[str], budget: int | None) -> list[OfModel]:
    """Judge the slow learners, each in a process of its own."""
    with ProcessPoolExecutor(len(sched_getaffinity(0))) as pool:
        judged = list(pool.map(partial(_judge_slow, study, budget), range(len(SLOW))))
    return [
        _of_model(study, counted_on, machine, model.name, budget or model.budget, names, paper, run)
        for model, (paper, run) in zip(SLOW, judged, strict=True)
    ]


def _judge_slow(study: Study, budget: int | None, place: int) -> tuple[Choice, Judged]:
    model = SLOW[place]
    way = Way(model.name, RandomPairs(model, budget or model.budget), model)
    return study.as_in_the_paper(way), study.nested(way, 0)


def _beyond(study: Study, seeds: Sequence[int], budget: int | None) -> dict[str, Any]:
    """Judge what the paper does not have: three features, and trees of regrets."""
    search = RandomPairs(REGRETS.model, budget or REGRETS.model.budget)
    found = {}
    for way in (THREE, REGRETS._replace(search=search)):
        share, low, high = study.seeds(way, seeds).share(MODEL)
        paper = study.as_in_the_paper(way).score / study.possible()
        found[way.name] = {"nested": share, "low": low, "high": high, "paper_share": paper}
    return found


def _beyond_table(beyond: dict[str, Any]) -> Table:
    rows = [
        [machine, name, f"{one['paper_share']:.3f}", f"{one['nested']:.3f}", f"{one['low']:.3f} to {one['high']:.3f}"]
        for machine, ways in beyond.items()
        for name, one in ways.items()
    ]
    caption = "Beyond the paper, shares of the possible gain (trees of regrets try a random subset of all pairs):"
    return Table(["machine", "way", "the paper's score", "nested", "95 % interval"], rows, caption)


def _models_table(models: Sequence[OfModel]) -> Table:
    rows = [
        [
            one.machine if one.machine == one.counted_on else f"{one.machine} from {one.counted_on}",
            one.model,
            " and ".join(one.features),
            f"{one.paper:.2f}{_beside(PAPER_MODELS[one.model].get(one.machine))}",
            f"{one.paper_share:.3f}",
            f"{one.nested:.3f} ({one.low:.3f} to {one.high:.3f})",
            str(one.pairs),
        ]
        for one in models
    ]
    head = ["machine", "model", "best pair", "speed-up (paper's)", "the paper's score", "nested", "pairs"]
    caption = "Table 3: models by the paper's score, which is too high, and by the share of the possible gain, nested:"
    return Table(head, rows, caption)


def _baselines(studies: dict[tuple[str, str], Study]) -> dict[str, dict[str, float]]:
    """Return the speed-ups of figure 7's baselines, which the paper chooses by all regions."""
    return {
        machine: {
            "best of 2": float(np.exp(study.gains[:, list(best_two(study.gains))].max(axis=1).mean())),
            BEST_OF_OUTPUTS: float(np.exp(study.gains[:, covering(study.gains)].max(axis=1).mean())),
        }
        for (_, machine), study in studies.items()
    }


def _folds(study: Study) -> list[tuple[float, float]]:
    """Return figure 6: for each fold of the paper's cross-validation the predicted and the possible speed-up."""
    outputs = covering(study.gains)
    gains, folds = study.gains[:, outputs], folds_of_regions(len(study.gains), FOLDS, 0)
    predicted = PairTreeClassifier().fit(study.values, gains, folds).predicted_
    reached, possible = gains[np.arange(len(gains)), predicted], study.gains.max(axis=1)
    return [
        (float(np.exp(reached[folds == fold].mean())), float(np.exp(possible[folds == fold].mean())))
        for fold in np.unique(folds)
    ]


def _profiles(study: Study, found: Regions, paper: Choice) -> dict[str, Any]:
    """Return figure 8: the best pair of counters within each single configuration, by the paper's score."""
    within = WithinConfigurations(tuple(place for place, _ in study.places))
    gains = study.gains[:, covering(study.gains)]
    scores = within.scores(study.values, gains, folds_of_regions(len(gains), FOLDS, 0))
    return {
        "single": {found.configurations[place].text(): math.exp(one.score) for place, one in scores.items()},
        "two": math.exp(paper.score),
        "possible": math.exp(study.possible()),
    }


def _timed(study: Study) -> dict[str, float]:
    """Measure the search: the best pair, the scores of all pairs, and a nested search of ten folds."""
    gains, folds = study.gains[:, covering(study.gains)], folds_of_regions(len(study.gains), FOLDS, 0)
    began = time.monotonic()
    every_pair(study.values, gains, folds)
    best = time.monotonic()
    PairTreeClassifier(all_scores=True).fit(study.values, gains, folds)
    scored = time.monotonic()
    study.nested(ALL_PAIRS, 0)
    features = study.values.shape[1]
    return {
        "pairs": features * (features - 1) // 2,
        "processors": len(sched_getaffinity(0)),
        "best_s": best - began,
        "scores_s": scored - best,
        "nested_s": time.monotonic() - scored,
    }


def _timed_promises(timed: dict[str, float]) -> list[Promise]:
    asked = {"best_s": ("the best pair of all", 45), "scores_s": ("all scores", 180), "nested_s": ("nested", 600)}
    return [
        Promise(f"react, search over pairs, {name}", round(timed[key], 1), "s", f"<= {most}", timed[key] <= most)
        for key, (name, most) in asked.items()
    ]


def promises(nested: dict[tuple[str, str], Judged]) -> list[Promise]:
    """Return the figures that are asked for; those of a pair of machines that was not judged were not measured."""
    found = []

    def ask(name: str, value: float | None, least: float, strict: bool = False) -> None:
        held = None if value is None else value > least if strict else value >= least
        wanted = f"{'>' if strict else '>='} {least:.4g}"
        found.append(Promise(f"react, {name}", None if value is None else round(value, 4), "", wanted, held))

    for pair, least in (((SANDY_BRIDGE,) * 2, 0.95), ((SKYLAKE,) * 2, 0.95), ((SANDY_BRIDGE, SKYLAKE), 0.92)):
        run = nested.get((pair[0], pair[1]))
        name = pair[1] if pair[0] == pair[1] else f"{pair[1]} from {pair[0]}"
        share = run.share(MODEL)[0] if run else None
        ask(f"share of the possible gain, nested, {name}", share, least)
        if pair[0] != pair[1]:
            continue
        ask(f"share of the possible gain against the paper's, {name}", share, PAPER_SHARE)
        ask(f"worst region over the baseline, {name}", run.worst(MODEL) if run else None, 0.98)
        for other in (TWO, STATIC):
            low = run.over(MODEL, other)[1] if run else None
            ask(f"model over {other}, lower end of the interval, {name}", low, 0, strict=True)
    return found
