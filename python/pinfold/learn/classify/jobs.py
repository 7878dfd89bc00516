"""The work of ``pinfold learn ... classify`` after its arguments have been checked.

This import takes seconds: it loads numpy and scikit-learn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pyarrow.parquet

from pinfold.binary import find_binary
from pinfold.joined import joined
from pinfold.learn.classify import data, report
from pinfold.learn.classify.features import features
from pinfold.learn.classify.file import classify_model
from pinfold.learn.classify.forecast import Forecast, ModelFile
from pinfold.learn.classify.gate import Gate, gate
from pinfold.learn.classify.judging import Study, chosen
from pinfold.learn.classify.model import LEARNERS, ClassifyModel, Learner, learn, strategy_name
from pinfold.learn.classify.strategies import STRATEGIES, Example
from pinfold.learn.origin import Origin
from pinfold.learn.progress import checked_origin, printer
from pinfold.learn.trained import Trained
from pinfold.split import refuse_judged
from pinfold.tables import Table


def observe(asked: argparse.Namespace) -> None:
    """Make a data set of recordings on machines."""
    show, binary = printer(asked), find_binary()
    tables = []
    for machine in asked.machine:
        for recording in asked.recordings:
            show(f"{recording} on {machine}")
            try:
                tables.append(data.observe(binary, recording, machine))
            except ValueError as error:
                raise ValueError(f"{recording} on {machine}: {error}") from error
    pyarrow.parquet.write_table(joined(tables), asked.output, compression="zstd")


def _warn_of(opened: Gate, asked: argparse.Namespace) -> None:
    lacking = [one for one in opened.conditions if not one.holds]
    if lacking:
        conditions = "; ".join(f"{one.name}: {one.value}, wanted {one.wanted}" for one in lacking)
        printer(asked)(f"this data is not enough for figures that others can rely on: {conditions}")


def train(asked: argparse.Namespace) -> None:
    """Choose a learner, fit a model and write it."""
    origin = checked_origin(asked)
    found = data.read(asked.data)
    refuse_judged(one.program for one in found)
    _warn_of(gate(found), asked)
    model, trained = learned(found, [one for one in LEARNERS if asked.learner in ("any", one.kind)], asked.seed, origin)
    asked.output.write_text(classify_model(model, trained), encoding="utf-8")
    printer(asked)(f"{trained.learner}, from {len(found)} inputs of {len(trained.programs)} programs")


def learned(
    found: Sequence[Example], learners: Sequence[Learner], seed: int, origin: Origin
) -> tuple[ClassifyModel, Trained]:
    """Choose a learner and fit a model.

    Args:
        found: the programs.
        learners: the candidates.
        seed: of folds and learner.
        origin: whether the rows of the programs were measured or simulated.

    Returns:
        The model, and its training data.
    """
    learner = chosen(found, learners, seed)
    trained = Trained.of(
        origin,
        machines=sorted({one.machine for one in found}),
        programs=sorted({one.program for one in found}),
        rows=len(found) * len(STRATEGIES),
        learner=learner.text(),
    )
    return learn(found, learner, seed), trained


def evaluate(asked: argparse.Namespace) -> None:
    """Judge models on programs that they have not seen, and write and print the figures."""
    found = data.read(asked.data)
    opened = gate(found)
    _warn_of(opened, asked)
    several = len({one.machine for one in found}) > 1
    scenarios = [report.SAME, *([report.UNSEEN] if several else [])]
    runs = report.runs_of(Study(found), scenarios, range(asked.seeds), printer(asked))
    if asked.json:
        figures = {"gate": asdict(opened), **report.document(runs)}
        asked.json.write_text(json.dumps(figures, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if asked.report:
        asked.report.write_text(report.report(opened, runs), encoding="utf-8")
    print(report.summary(runs))
    for table in report.tables(runs):
        print()
        print("\n".join(table.markdown()).rstrip())


def predict(asked: argparse.Namespace) -> None:
    """Forecast the programs of a data set with a model file, and print the forecasts."""
    model = ModelFile.read(asked.model)
    found = data.read_programs(asked.data)
    forecasts = [model.forecast(features(one)) for one in found]
    if asked.json:
        document = [
            {"machine": one.machine, "command": one.command, **_document(said)}
            for one, said in zip(found, forecasts, strict=True)
        ]
        asked.json.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    rows = [[one.machine, one.command, *_cells(one, said)] for one, said in zip(found, forecasts, strict=True)]
    head = ["machine", "program", "sensitive", "forecast", "expected speed", "true speed", "best"]
    caption = "The forecast strategy, and speeds over that of the default:"
    print("\n".join(Table(head, rows, caption).markdown()).rstrip())


def _document(said: Forecast) -> dict[str, object]:
    return {
        "log_times": said.logs,
        "strategy": said.choice,
        "abstains": said.abstains,
        "second": said.second,
        "sensitive": said.sensitive,
    }


def _cells(one: Example, said: Forecast) -> list[str]:
    best = f"{strategy_name(one.best)}, {one.speeds[one.best]:.2f}"
    sensitive = {None: "-", False: "no", True: "yes"}[said.sensitive]
    if said.logs is None or said.choice is None:
        return [sensitive, f"none: {said.abstains}", "-", "-", best]
    expected = float(np.exp(-said.logs[said.choice]))
    return [sensitive, strategy_name(said.choice), f"{expected:.2f}", f"{one.speeds[said.choice]:.2f}", best]
