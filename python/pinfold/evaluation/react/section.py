"""The section on configurations per parallel region: the space, the published models, and the same models nested.

The models are from Sánchez Barrera et al. (ICS 2020), the paper in this file. The data sets are committed: a sweep of
the space ``ics20`` on each machine, which takes hours. All models are learned from them again here. Only the online
figures come from runs of the current binary.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pinfold.evaluation.react import online
from pinfold.evaluation.react.learners import (
    SANDY_BRIDGE,
    SKYLAKE,
    OfModel,
    beyond_table,
    models_table,
    parameters_table,
    regrets,
    shares,
    slow,
)
from pinfold.evaluation.react.online import Online
from pinfold.evaluation.react.plots import (
    clusters_figure,
    coverage_figure,
    folds_figure,
    methods_figure,
    profiles_figure,
)
from pinfold.evaluation.react.report import (
    ABOUT,
    PAPER_SEARCHES,
    Effort,
    Nested,
    Pair,
    data_text,
    method_text,
    nested_table,
    number_of_pairs,
    over_table,
    results_text,
    searches_table,
    space_text,
    transfer_table,
)
from pinfold.evaluation.react.searches import THREE_FEATURES, TWO_FEATURES, drawn
from pinfold.evaluation.react.transfer import transferred
from pinfold.evaluation.section import Promise, Section, Table
from pinfold.learn.races import best_two, covering
from pinfold.learn.react.data import Regions, enough, matched, read
from pinfold.learn.react.jobs import figures_of
from pinfold.learn.react.method import (
    BEST_OF_OUTPUTS,
    FOLDS,
    MODEL,
    OUTPUTS,
    REGRETS,
    STATIC,
    TWO,
    Choice,
    Judged,
    Study,
    WithinConfigurations,
    coverage,
    folds_of_regions,
    searches,
)
from pinfold.learn.react.models import TREE

DATA = {
    Path("models/data/react-e5-4650x4.parquet"): "3e4590b",
    Path("models/data/react-platinum-8168x2.parquet"): "0c39d98",
}
"""The regions of each machine in all configurations, and the commit whose build has swept them."""

INPUTS = ("models/data/react-*.parquet", "models/belief.json")

ALONE, ACROSS = 0.95, 0.92
"""The least share of the possible gain that is asked for, on one machine and across machines."""

LEAST_SPEED = 0.98
"""The least speed of any region over the baseline that is asked for."""

PAPER_SHARE = math.log(1.68) / math.log(1.77)
"""The share of the possible gain that the paper's models reach over both machines, by its own score (abstract)."""

ONLINE = f"""\
**Online**: `react` with the belief that ships runs the cases of the paper's section 6 on the simulated
`{SANDY_BRIDGE}`, as programs of our own (`workloads/phases`): regions that want different numbers of threads, and
regions that want their pages at different places. Times have all costs: unpinned at first, trials, moved pages and
cross-evaluation. Offline is the best of all configurations for the whole program. *Regions apart* is each region in its
own best configuration, with pages that move at no cost. The build that is named below runs these programs, and records
and sweeps them again. Also **reduced**: the records are smaller than the last-level caches together. Executions of most
regions are then shorter than 100 us, which is too short for a change of configuration, so all regions get the one in
which they took the least time together. Larger records take more than ten minutes of processor time for each sweep."""

MISSING = f"""\
**The data sets are missing** ({", ".join(f"`{file}`" for file in DATA)}): nothing is learned and nothing is judged
here."""


WHOLE = Effort(seeds=(0,), paper_part=1, nested_part=2, control_part=9, fewer=10, profiles=1)
QUICK = Effort(seeds=(0,), paper_part=12, nested_part=12, control_part=12, fewer=20, profiles=8)


def react(quick: bool) -> Section:
    """Judge the models on the regions of the data sets, and run ``react``."""
    files = [file for file in DATA if file.exists()]
    found = {one.machine: enough(one) for one in read(files)} if files else {}
    if not found:
        return _section("\n\n".join([ABOUT, MISSING]), [], {"simulated": True}, [], promises({}, {}, []))
    _progress("online")
    measured = online.run_online(quick=quick)
    return studied(found, QUICK if quick else WHOLE, measured)


def studied(found: dict[str, Regions], effort: Effort, measured: Sequence[Online]) -> Section:
    """Judge the models.

    Args:
        found: the regions of each machine.
        effort: how much is searched.
        measured: the runs of ``react``.
    """
    space = {name: searches(one) for name, one in found.items()}
    seen = {Pair(name, name): one for name, one in found.items()}
    studies = {pair: Study.of(one, one) for pair, one in seen.items()}
    both = SANDY_BRIDGE in found and SKYLAKE in found
    if both:
        pair = Pair(SANDY_BRIDGE, SKYLAKE)
        seen[pair], judged = matched(found[SANDY_BRIDGE], found[SKYLAKE])
        studies[pair] = Study.of(seen[pair], judged)
    nested: dict[Pair, Nested] = {}
    paper: dict[Pair, Choice] = {}
    models: list[OfModel] = []
    beyond: dict[str, Any] = {}
    profiles: dict[str, Any] = {}
    for pair, study in studies.items():
        _progress(f"{pair.text()}: the paper's score")
        paper[pair] = study.as_published(drawn(TWO_FEATURES, effort.paper_part))
        _progress(f"{pair.text()}: nested")
        run = study.seeds(drawn(TWO_FEATURES, effort.nested_part), effort.seeds)
        control = study.seeds(drawn(TWO_FEATURES, effort.control_part), effort.seeds, shuffled=True)
        nested[pair] = Nested(run, control)
        _progress(f"{pair.text()}: slow learners")
        pairs = number_of_pairs(study, effort.paper_part)
        models.append(OfModel.of(study, seen[pair], pair.machine, "Tree_s", pairs, paper[pair], nested[pair].run))
        models += slow(study, seen[pair], pair.machine, effort.fewer)
        if pair.alone:
            beyond[pair.machine] = _beyond(study, effort)
            _progress(f"{pair.text()}: single profiles")
            profiles[pair.machine] = _profiles(study, seen[pair], paper[pair], effort.profiles)
    across = _transferred(found, effort) if both else {}
    tables = [
        searches_table(space),
        parameters_table(),
        models_table(models),
        *(nested_table(pair, nested[pair], paper[pair], study) for pair, study in studies.items()),
        over_table(nested),
        *([transfer_table(across)] if across else []),
        beyond_table(beyond),
        online.online_table(measured),
        online.threads_table(measured),
    ]
    plots = [
        *(clusters_figure(one) for one in found.values()),
        coverage_figure(found),
        *(folds_figure(*pair, _folds(study, paper[pair])) for pair, study in studies.items()),
        methods_figure([asdict(one) for one in models], {pair: _baselines(study) for pair, study in studies.items()}),
        *(profiles_figure(name, of_machine) for name, of_machine in profiles.items()),
    ]
    data = {
        "simulated": all(one.simulated for one in found.values()),
        "data": {str(file): commit for file, commit in DATA.items()},
        "effort": asdict(effort),
        "regions": {
            name: {"regions": len(one.programs), "programs": len(set(one.programs))} for name, one in found.items()
        },
        "space": space,
        "table1": {name: {"ours": space, "paper": PAPER_SEARCHES[name]} for name in PAPER_SEARCHES},
        "figure4": {name: coverage(one.gains)[: 2 * OUTPUTS] for name, one in found.items()},
        "models": [asdict(one) for one in models],
        "nested": [_of_pair(pair, one.run) for pair, one in nested.items()],
        "control": [_of_pair(pair, one.control) for pair, one in nested.items()],
        "transfer": [{"trained_on": one, "machine": other, **figures_of(run)} for (one, other), run in across.items()],
        "beyond": beyond,
        "profiles": profiles,
        "online": online.data(measured),
    }
    text = [
        ABOUT,
        data_text(found, DATA),
        space_text(space),
        method_text(studies, effort),
        results_text(nested, across),
        ONLINE,
    ]
    return _section("\n\n".join(text), tables, data, plots, promises(nested, across, measured))


def _of_pair(pair: Pair, run: Judged) -> dict[str, Any]:
    def over(way: str) -> dict[str, Any]:
        return {other: dict(zip(("mean", "low", "high"), run.over(way, other), strict=True)) for other in (TWO, STATIC)}

    return {
        **pair._asdict(),
        **figures_of(run),
        "over": over(MODEL),
    }


def _transferred(found: dict[str, Regions], effort: Effort) -> dict[tuple[str, str], Judged]:
    """Learn on each of the paper's machines and judge on the other, with the searches of nested judging."""
    way = drawn(TWO_FEATURES, effort.nested_part)
    return {
        (one, other): transferred(found[one], found[other], way, effort.seeds[0])
        for one, other in ((SANDY_BRIDGE, SKYLAKE), (SKYLAKE, SANDY_BRIDGE))
    }


def _section(
    text: str, tables: Sequence[Table], data: dict[str, Any], plots: Sequence[Path], promised: Sequence[Promise]
) -> Section:
    one, other = DATA
    commands = [
        f"pinfold learn evaluate react --data {one}",
        f"pinfold learn evaluate react --data {one} {other} --machine {SKYLAKE} --counted-on {SANDY_BRIDGE}",
        "python -m pinfold.evaluation.react.online",
        f"python -m pinfold.evaluation.react.sweep {SANDY_BRIDGE}",
    ]
    title = "Threads, pages and prefetchers for each parallel region"
    return Section("react", title, text, commands, tables, data, plots, promised)


def _progress(text: str) -> None:
    print(f"react: {text}", file=sys.stderr, flush=True)


def _beyond(study: Study, effort: Effort) -> dict[str, Any]:
    """Judge additions to the paper: three features, and trees of regrets."""
    paper = study.as_published(drawn(THREE_FEATURES, effort.paper_part))
    run = study.seeds(drawn(THREE_FEATURES, effort.nested_part), effort.seeds)
    return {THREE_FEATURES.name: shares(study, paper, run), REGRETS.name: regrets(study, effort.fewer)}


def _baselines(study: Study) -> dict[str, float]:
    """Return the speed-ups of figure 7's baselines, which the paper chooses by all regions."""
    return {
        "best of 2": float(np.exp(study.gains[:, list(best_two(study.gains))].max(axis=1).mean())),
        BEST_OF_OUTPUTS: float(np.exp(study.gains[:, covering(study.gains, OUTPUTS)].max(axis=1).mean())),
    }


def _folds(study: Study, paper: Choice) -> list[tuple[float, float]]:
    """Return figure 6: for each fold of the paper's cross-validation the predicted and the possible speed-up."""
    gains, folds = study.gains[:, covering(study.gains, OUTPUTS)], folds_of_regions(len(study.gains), FOLDS, 0)
    seen, possible = study.values[:, list(paper.features)], study.gains.max(axis=1)
    found = []
    for fold in np.unique(folds):
        judged = folds == fold
        predicted = TREE.fit(seen[~judged], gains[~judged])(seen[judged])
        found.append((float(np.exp(gains[judged, predicted].mean())), float(np.exp(possible[judged].mean()))))
    return found


def _profiles(study: Study, found: Regions, paper: Choice, step: int) -> dict[str, Any]:
    """Return figure 8: the best pair of counters within each single configuration, by the paper's score."""
    inside = [feature for feature, (place, _) in enumerate(study.places) if place % step == 0]
    within = WithinConfigurations(tuple(study.places[feature][0] for feature in inside))
    gains = study.gains[:, covering(study.gains, OUTPUTS)]
    scores = within.scores(study.values[:, inside], gains, folds_of_regions(len(gains), FOLDS, 0))
    return {
        "single": {found.configurations[place].text(): math.exp(one.score) for place, one in scores.items()},
        "two": math.exp(paper.score),
        "possible": math.exp(study.possible()),
    }


def promises(
    nested: Mapping[Pair, Nested], across: Mapping[tuple[str, str], Judged], measured: Sequence[Online]
) -> list[Promise]:
    """Return the promises. Promises about machines that were not judged have no value.

    Args:
        nested: the nested figures.
        across: figures of models that were learned on one machine and judged on another.
        measured: the runs of ``react``.
    """
    found = []

    def ask(name: str, value: float | None, least: float, strict: bool = False) -> None:
        held = None if value is None else value > least if strict else value >= least
        wanted = f"{'>' if strict else '>='} {least:.4g}"
        found.append(Promise(f"react, {name}", None if value is None else round(value, 4), "", wanted, held))

    def share(run: Judged | None, way: str = MODEL) -> float | None:
        return run.share(way)[0] if run else None

    def ask_over(way: str, name: str, run: Judged | None, machine: str) -> None:
        for other in (TWO, STATIC):
            low = run.over(way, other)[1] if run else None
            ask(f"{name} over {other}, lower end of the interval, {machine}", low, 0, strict=True)

    for machine in (SANDY_BRIDGE, SKYLAKE):
        run = nested[Pair(machine, machine)].run if Pair(machine, machine) in nested else None
        ask(f"share of the possible gain, nested, {machine}", share(run), ALONE)
        ask(f"share of the possible gain against the paper's, {machine}", share(run), PAPER_SHARE)
        ask(f"worst region over the baseline, {machine}", run.worst(MODEL) if run else None, LEAST_SPEED)
        ask_over(MODEL, "model", run, machine)
    pair = Pair(SANDY_BRIDGE, SKYLAKE)
    run = nested[pair].run if pair in nested else None
    ask(f"share of the possible gain, nested, {pair.text()}", share(run), ACROSS)
    for one, other in ((SANDY_BRIDGE, SKYLAKE), (SKYLAKE, SANDY_BRIDGE)):
        run = across.get((one, other))
        ask(f"share of the possible gain, {other}, learned on {one}", share(run), ACROSS)
    return [*found, *online.promises(measured)]
