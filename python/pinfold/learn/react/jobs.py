"""The work of ``pinfold learn ... react`` after its arguments have been checked.

This import takes seconds: it loads numpy and scikit-learn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from pinfold.learn.origin import Origin
from pinfold.learn.progress import checked_origin, printer
from pinfold.learn.react.data import Configuration, Regions, enough, matched, read, require_counters
from pinfold.learn.react.file import Feature, ReactModel, Score
from pinfold.learn.react.method import (
    ALL_PAIRS,
    BASELINE,
    BEST_OF_OUTPUTS,
    MODEL,
    POSSIBLE,
    STATIC,
    THREE,
    TWO,
    Judged,
    Study,
    Way,
    learn,
)
from pinfold.learn.trained import Trained
from pinfold.learn.tree_nodes import nodes_of
from pinfold.split import refuse_judged
from pinfold.tables import Table

WAYS = {2: ALL_PAIRS, 3: THREE}
"""By the number of features."""


def _machines(asked: argparse.Namespace) -> tuple[Regions, Regions]:
    """Return the regions whose counters are seen, and the same whose times are gained."""
    found = {one.machine: one for one in read(asked.data)}
    machine = asked.machine or (next(iter(found)) if len(found) == 1 else None)
    if machine is None:
        raise ValueError(f"the data is of {', '.join(found)}: name one with --machine")
    for name in (machine, asked.counted_on or machine):
        if name not in found:
            raise ValueError(f"the data has no rows of {name}: it is of {', '.join(found)}")
    seen, judged = matched(found[asked.counted_on or machine], found[machine])
    return seen, enough(judged)


def train(asked: argparse.Namespace) -> None:
    """Choose and fit a model and write it."""
    show, origin = printer(asked), checked_origin(asked)
    seen, judged = _machines(asked)
    refuse_judged(judged.programs)
    model = trained_model(require_counters(seen), judged, WAYS[asked.features], asked.seeds, origin)
    asked.output.write_text(model.text(), encoding="utf-8")
    score = model.score
    show(
        f"{len(model.features)} features of {len(model.profiles)} profiles; {score.nested:.0%} of the possible gain on "
        f"programs that it has not seen ({score.low:.0%} to {score.high:.0%}), {score.control:.0%} if taught nonsense"
    )


def trained_model(seen: Regions, judged: Regions, way: Way, seeds: int, origin: Origin) -> ReactModel:
    """Choose and fit a model, and judge how good it is.

    Args:
        seen: regions with the counters that the model sees.
        judged: the same regions with the times to learn from, on the same machine or another.
        way: the way to learn.
        seeds: the number of seeds of nested judging.
        origin: whether the rows of the regions were measured or simulated.

    Raises:
        ValueError: if one configuration is the best for all regions.
    """
    study = Study.of(seen, judged)
    values, gains = study.values, study.gains
    fitted = learn(way, values, gains, study.programs, 0)
    if fitted.choice is None:
        raise ValueError(
            f"one configuration is the best for all regions, {judged.configurations[fitted.outputs[0]].text()}: there "
            "is nothing to choose; add other programs"
        )
    chosen = list(fitted.choice.features)
    labels = gains[:, fitted.outputs].argmax(axis=1)
    tree = DecisionTreeClassifier(random_state=0).fit(values[:, chosen], labels)
    profiled = [study.places[feature][0] for feature in chosen]
    profiles = sorted(set(profiled), key=profiled.index)
    run, control = study.seeds(way, range(seeds)), study.seeds(way, range(seeds), shuffled=True)
    nested, low, high = run.share(MODEL)
    return ReactModel(
        machine=judged.machine,
        counted_on=seen.machine,
        trained=Trained.of(
            origin,
            machines=sorted({seen.machine, judged.machine}),
            programs=sorted(set(study.programs)),
            rows=gains.size,
            learner=way.name,
        ),
        score=Score(
            nested, low, high, control.share(MODEL)[0], float(fitted.choice.score / gains.max(axis=1).mean()), seeds
        ),
        baseline=judged.configurations[judged.baseline],
        profiles=tuple(seen.configurations[place] for place in profiles),
        features=tuple(
            Feature(
                profile=profiles.index(study.places[feature][0]),
                counter=seen.counters[study.places[feature][1]],
                least=float(values[:, feature].min()),
                greatest=float(values[:, feature].max()),
            )
            for feature in chosen
        ),
        outputs=tuple(judged.configurations[output] for output in fitted.outputs),
        tree=tuple(nodes_of(tree.tree_, lambda value: int(tree.classes_[int(value.argmax())]))),
    )


def evaluate(asked: argparse.Namespace) -> None:
    """Judge models on programs that they have not seen, and write and print the figures."""
    show = printer(asked)
    seen, judged = _machines(asked)
    require_counters(seen)
    study, way = Study.of(seen, judged), WAYS[asked.features]
    show("the paper's method")
    paper = study.as_published(way)
    show("nested")
    run = study.seeds(way, range(asked.seeds))
    show("the control")
    control = study.seeds(way, range(asked.seeds), shuffled=True)
    if asked.json:
        figures = {
            "simulated": seen.simulated and judged.simulated,
            "machine": judged.machine,
            "counted_on": seen.machine,
            "regions": len(study.programs),
            "programs": len(set(study.programs)),
            "possible": float(np.exp(study.possible())),
            "paper": {"share": paper.score / study.possible(), "speed_up": float(np.exp(paper.score))},
            "nested": figures_of(run),
            "control": figures_of(control),
        }
        asked.json.write_text(json.dumps(figures, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    print("\n".join(judged_table(run, control, paper.score, study.possible()).markdown()).rstrip())


def figures_of(run: Judged) -> dict[str, Any]:
    """Return the figures of each way to choose, and the features that were chosen."""
    found: dict[str, Any] = {}
    for name in run.gains:
        share, low, high = run.share(name)
        found[name] = {
            "share": share,
            "low": low,
            "high": high,
            "speed_up": run.speed_up(name),
            "worst_speed_up": run.worst(name),
        }
    return {"ways": found, "features": [list(one) for one in run.features]}


def judged_table(run: Judged, control: Judged, paper: float, possible: float) -> Table:
    """Return the shares of all ways to choose.

    Args:
        run: judged nested.
        control: the same, taught exchanged gains.
        paper: the mean gain by the score of Sánchez Barrera et al.
        possible: the mean possible gain.
    """

    def row(name: str, judged: Judged, way: str) -> list[str]:
        share, low, high = judged.share(way)
        return [
            name,
            f"{share:.3f}",
            f"{low:.3f} to {high:.3f}",
            f"{judged.speed_up(way):.3f}",
            f"{judged.worst(way):.3f}",
        ]

    rows = [
        ["model, the paper's score", f"{paper / possible:.3f}", "-", f"{np.exp(paper):.3f}", "-"],
        row("model, nested", run, MODEL),
        row("model, nested, control", control, MODEL),
        *(row(name, run, name) for name in (BASELINE, STATIC, TWO, BEST_OF_OUTPUTS, POSSIBLE)),
    ]
    caption = "The share of the possible gain in logarithms, and geometric means of speed-ups over the baseline:"
    return Table(["", "share", "95 % interval", "speed-up", "worst region"], rows, caption)


def predict(asked: argparse.Namespace) -> None:
    """Predict the regions of a data set with a model file, and print the configurations."""
    model = ReactModel.read(asked.model)
    found = {one.machine: one for one in read(asked.data)}
    if model.counted_on not in found:
        raise ValueError(
            f"{asked.model} sees the counters of {model.counted_on}, and the data is of {', '.join(found)}: sweep the "
            f"programs on {model.counted_on}"
        )
    seen = found[model.counted_on]
    choices = predictions(model, seen)
    judged = found.get(model.machine)
    if asked.json:
        document = [
            {"program": program, "region": list(name), "configuration": choice._asdict()}
            for program, name, choice in zip(seen.programs, seen.names, choices, strict=True)
        ]
        asked.json.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    rows = [
        [" ".join(name), choice.text(), *_truth(judged, name, choice)]
        for name, choice in zip(seen.names, choices, strict=True)
    ]
    head = ["region", "configuration", "speed-up", "best"]
    print("\n".join(Table(head, rows, "Speed-ups over the baseline:").markdown()).rstrip())


def predictions(model: ReactModel, seen: Regions) -> list[Configuration]:
    """Return the configuration that a model chooses for each region.

    Raises:
        ValueError: if the data lacks a profile or a counter; the message names it.
    """
    if missing := [one for one in model.profiles if one not in seen.configurations]:
        raise ValueError(
            f"the data of {seen.machine} has no rows with {missing[0].text()}, in which the model profiles regions: "
            "sweep with the space of its training data"
        )
    places = [seen.configurations.index(one) for one in model.profiles]
    return [
        model.predict([dict(zip(seen.counters, of_region[place].tolist(), strict=True)) for place in places])
        for of_region in seen.values
    ]


def _truth(judged: Regions | None, name: Sequence[str], choice: Configuration) -> list[str]:
    if judged is None or tuple(name) not in judged.names or choice not in judged.configurations:
        return ["-", "-"]
    gains = judged.gains[judged.names.index(tuple(name))]
    return [f"{np.exp(gains[judged.configurations.index(choice)]):.2f}", f"{np.exp(gains.max()):.2f}"]
