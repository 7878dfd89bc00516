"""The section on four placement strategies: its data, the models of Denoyelle et al. (ICPP 2019), and pinfold's model.

The data sets of :mod:`pinfold.evaluation.classify.sweep` are committed. The reduced section sweeps a few programs
itself. Nothing is learned before the gate is open.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from os import sched_getaffinity
from pathlib import Path
from typing import Any

import pyarrow.parquet

from pinfold.evaluation.classify import study, sweep
from pinfold.evaluation.classify.plots import best_and_worst_figure, matrix_figure, violin_figure
from pinfold.evaluation.classify.programs import OF_THE_PAPER
from pinfold.evaluation.classify.study import METRICS, Matrix, Metrics, Question, Result
from pinfold.evaluation.classify.study_method import SENSITIVITY, STRATEGY, Aim
from pinfold.evaluation.classify.sweep import PAPER_MACHINES
from pinfold.evaluation.section import Promise, Section, Table
from pinfold.learn.classify import report
from pinfold.learn.classify.data import ordered
from pinfold.learn.classify.file import classify_model
from pinfold.learn.classify.gate import Gate, gate
from pinfold.learn.classify.jobs import learned
from pinfold.learn.classify.judging import (
    CHOICES,
    Study,
    answers,
    difference,
    harm,
    judged_by,
    sensitivity,
    share,
)
from pinfold.learn.classify.model import LEARNERS
from pinfold.learn.classify.report import (
    JUDGING,
    NEW,
    OUTLOOK,
    OUTLOOK_UNSEEN,
    SAME,
    UNSEEN,
    Run,
    gate_table,
    of,
    runs_of,
    sensitive,
)
from pinfold.learn.classify.strategies import STRATEGIES, Example, by_machine, examples
from pinfold.learn.origin import Origin
from pinfold.split import Part

HASWELL, BROADWELL, SKYLAKE = PAPER_MACHINES

PAPER_CLASS: Matrix = {
    HASWELL: {HASWELL: 0.59, BROADWELL: 0.74, SKYLAKE: 0.67},
    BROADWELL: {HASWELL: None, BROADWELL: 0.41, SKYLAKE: 0.85},
    SKYLAKE: {HASWELL: None, BROADWELL: None, SKYLAKE: 0.48},
}
"""Table 5 of the paper."""

PAPER_SPEEDUP: Matrix = {
    HASWELL: {HASWELL: 1.16, BROADWELL: 1.03, SKYLAKE: 1.06},
    BROADWELL: {HASWELL: 1.06, BROADWELL: 1.06, SKYLAKE: 1.08},
    SKYLAKE: {HASWELL: 1.10, BROADWELL: 1.04, SKYLAKE: 1.12},
}
"""Table 6 of the paper."""

PAPER_DISTANCE: dict[str, dict[Metrics, float]] = {
    HASWELL: {"counters": 0.04, "instrumentation": 0.06, "all": 0.04},
    BROADWELL: {"counters": 0.05, "instrumentation": 0.07, "all": 0.04},
    SKYLAKE: {"counters": 0.05, "instrumentation": 0.07, "all": 0.02},
}
"""Table 7 of the paper."""

SEEDS = (0, 1, 2, 3, 4)
DATA: Mapping[Part, Path] = {
    "development": Path("models/data/classify.parquet"),
    "judged": Path("models/data/classify-judged.parquet"),
}
"""The programs of each part of the split."""

OUTLOOK_DATA = Path("models/data/classify-outlook.parquet")
"""Programs for development on machines of the paper's outlook."""

SHIPPED = Path("models/classify.json")
INPUTS = ("models/classify.json", "models/data/classify*.parquet")
TRAINING, SIZE = 120, 200
"""The longest time of training in seconds, and the largest file in KiB."""

SETS, GROUPS = 2, 5
"""Random sets of metrics, each with sixteen models, and groups of programs. The paper has many sets and removes all
pairs of single programs: that would take days here."""

ABOUT = """\
After Denoyelle et al. (ICPP 2019): with a thread for each core, a program runs in four strategies, {compact, scatter} x
{first_touch, interleave}, each abbreviated by two letters. The default is compact with first touch. A program is
*sensitive* if a strategy changes its speed by more than 10 %. The machines are the paper's three, with four nodes each.
Programs are pinfold's own, in sizes inside one last-level cache and beyond all of them on each machine, and on the
first machine real applications; the paper's are proxy applications, PARSEC and NAS. All rows are in `models/data`."""

OBSERVED = """\
The data set is `models/data/classify.parquet`. Times are of the build of commit c2d2cd0. Programs were observed
again, on new recordings of the same commands, by the build of commit 8011836, whose policy sees lines from memory. One
program, `lu` on `e5-2650lv4x2`, has the times of its new recording: the first one had stood still for 7 ms."""

PAPERS = """\
**The paper's models** are random forests, logistic regressions, support vector machines and networks of four neurons on
random sets of its metrics. Its figure is *leaky*: each model is scored on the programs on which the best of them is
elected, and over all pairs of programs test and validation are the same predictions. Beside it is the figure without
that leak (*honest*): a model chosen by cross-validation without the judged programs, and for another machine without
that machine. The paper counts NAS's classes as programs of their own. Here all inputs of a program are left out
together."""

OURS = """\
**Pinfold's model** predicts, for each strategy, the logarithm of the time over that in the default, from one run under
the default: counts per instruction, access and cycle, traffic over what the machine can carry, and the machine itself.
It is judged nested: whole programs are left out with all inputs and on all machines, and the learner is chosen, fitted
and calibrated with the others. On an unseen machine, the others are known from other machines alone. `one run` goes
where the model says; `two runs` measures one more strategy beside the default, and keeps the faster. Beside it are the
default, the best static strategy of the training programs, and the best pair of strategies of these, of which both run
and the faster is kept. The control has learned from times that were exchanged among programs.

Learners, parameters and rules were chosen after nested results of forty of the programs had been seen, so their figures
are optimistic. Fourteen programs, which follow the paper's table 3 by kind, were added after that; their part of the
figures is apart ("had no part in any choice")."""


LINES = "Dashed is the baseline, dotted the best possible."

CAPTIONS = {
    "classify-best-and-worst": "Figure 2: the speed of each program in its best and its worst strategy, over that in "
    "the default. Beyond a dashed line a program is sensitive. In brackets are both strategies: C is compact, S "
    "scatter, F first touch, I interleave.",
    "classify-sensitivity": "Figure 3: share of right answers to whether a program is sensitive. On the diagonal a new "
    "program is judged, elsewhere the same programs on another machine (rows: the machine learned from; columns: the "
    f"judged one). Grey is the model that the paper's method elects, blue one elected without its leak. {LINES}",
    "classify-sensitivity-new": "Figure 4: the same for a new program on a new machine. Above are all models on the "
    f"test programs, below the elected ones on the judged programs. {LINES}",
    "classify-strategy": "Figure 5: speed in the strategy that a model answers, over that in the default, of sensitive "
    "programs; rows, columns, colours and lines as in figure 3.",
    "classify-strategy-new": "Figure 6: the same for a new program on a new machine, as in figure 4.",
}
"""Above the plots; the numbers are the paper's."""

OUTLOOKS = """\
**The outlook** of the paper is newer machines. `models/data/classify-outlook.parquet` has the programs on {machines}.
On {single} each is in one input: inside the caches, beyond them, or beyond them on the first thread's node, in turns.
The model that ships has not learned from these rows, and no learner, parameter or rule was chosen with them."""

JUDGED_THERE = """\
Models that are judged on {machines} have learned from other programs on the paper's machines. In one case they have
also learned from other programs on the judged machine."""

CLOSED_THERE = "The gate is closed on {machines}, so no model is judged there, and none learns from there."


def classify(quick: bool) -> Section:
    """Check the gate, and judge both ways to learn."""
    files = sweep.sweep(quick, PAPER_MACHINES).files if quick else DATA
    found = _covering(files.get("development"))
    opened = gate(found)
    text = [ABOUT, *([] if quick else [OBSERVED]), _gate_text(opened)]
    tables = [gate_table(opened)]
    machines = by_machine(found)
    data: dict[str, Any] = {"simulated": True, "gate": asdict(opened), "programs": _programs(found)}
    plots = [best_and_worst_figure(machines[SKYLAKE], SKYLAKE)] if SKYLAKE in machines else []
    if not opened.is_open:
        return _section("\n\n".join(text), tables, data, plots, promises([]))
    known = {name: machines[name] for name in PAPER_MACHINES if name in machines}
    cells, both = _asked(known)
    data["paper"] = {
        "same_class": study.same_class(known),
        "best_elsewhere": study.best_elsewhere(known),
        "cells": [asdict(one) for one in cells],
        "both": [asdict(one) for one in both],
    }
    text.append(PAPERS)
    tables += study_tables(known, cells)
    plots += [
        matrix_figure(cells, "sensitivity", "classify-sensitivity"),
        violin_figure(both, "sensitivity", "classify-sensitivity-new"),
        matrix_figure(cells, "strategy", "classify-strategy"),
        violin_figure(both, "strategy", "classify-strategy-new"),
    ]
    runs = runs_of(Study(found), (SAME, UNSEEN), SEEDS, _progress)
    runs += [
        Run(NEW, run.shuffled, [one for one in run.judged if one.example.program in OF_THE_PAPER])
        for run in runs
        if run.scenario == SAME
    ]
    began = time.monotonic()
    simulated = Origin(measured=0, simulated=len(found) * len(STRATEGIES))
    model, trained = learned(found, LEARNERS, 0, simulated)
    ships = Ships(time.monotonic() - began, classify_model(model, trained))
    if judging := _covering(files.get("judged")):
        runs.append(Run(JUDGING, shuffled=False, judged=judged_by(model, found, judging)))
    text += [OURS, ships.text()]
    if outlook := [] if quick else _covering(OUTLOOK_DATA):
        said, of_outlook, data["outlook"], more = judged_on_outlook(found, outlook)
        text.append(said)
        tables += of_outlook
        runs += more
    tables += [*report.tables(runs), report.worst(runs, 20)]
    data |= report.document(runs) | {"ships": ships.data()}
    return _section("\n\n".join(text), tables, data, plots, [*promises(runs), *ships.promises()])


def judged_on_outlook(
    found: Sequence[Example], outlook: Sequence[Example]
) -> tuple[str, list[Table], dict[str, Any], list[Run]]:
    """Judge programs on the machines of the outlook whose gate is open, with other programs there and without.

    Args:
        found: programs on other machines.
        outlook: programs on machines of the outlook.

    Returns:
        A paragraph, the gate of each machine as a table and with the programs as JSON, and the runs.
    """
    machines = by_machine(outlook)
    gates = {name: gate(programs) for name, programs in machines.items()}
    tables = [gate_table(one, f"The gate of `{name}`, a machine of the outlook:") for name, one in gates.items()]
    data = {name: {"gate": asdict(gates[name]), "programs": _programs(programs)} for name, programs in machines.items()}
    said = [OUTLOOKS.format(machines=_listed(machines), single=_listed(sweep.WITH_ONE_INPUT))]
    if closed := [name for name, one in gates.items() if not one.is_open]:
        said.append(CLOSED_THERE.format(machines=_listed(closed)))
    opened = [name for name in machines if name not in closed]
    if not opened:
        return " ".join(said), tables, data, []
    said.append(JUDGED_THERE.format(machines=_listed(opened)))
    study = Study(ordered([*found, *(one for one in outlook if one.machine in opened)]), machines=opened)
    scenarios = {SAME: OUTLOOK, UNSEEN: OUTLOOK_UNSEEN}
    runs = runs_of(study, list(scenarios), SEEDS, _progress)
    return " ".join(said), tables, data, [replace(run, scenario=scenarios[run.scenario]) for run in runs]


def _listed(machines: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in machines)


def _covering(file: Path | None) -> list[Example]:
    """Return the programs of a data set whose windows cover them."""
    found = examples(pyarrow.parquet.read_table(file)) if file else []
    return ordered([one for one in found if one.covers])


@dataclass(frozen=True)
class Ships:
    """The model that is learned from all programs, and the one that ships.

    Attributes
    ----------
    seconds : float
        The time of its training.
    model : str
        Its file.
    """

    seconds: float
    model: str

    def text(self) -> str:
        """Say how it was made."""
        return (
            "The model that ships (`models/classify.json`) is learned from all development programs by `pinfold learn "
            f"train classify --data {DATA['development']} -o models/classify.json`, in "
            f"{self.seconds:.0f} s; it has {len(self.model.encode()) / 1024:.0f} KiB. `pinfold explain` puts it into "
            "words. By this model applications for judging are judged: they had no part in any choice."
        )

    def data(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            "training_s": self.seconds,
            "bytes": len(self.model.encode()),
            "same": SHIPPED.exists() and SHIPPED.read_text() == self.model,
        }

    def promises(self) -> list[Promise]:
        """Return the promises."""
        found = self.data()
        size, same = found["bytes"] / 1024, found["same"]
        return [
            Promise("placement, training", round(self.seconds, 1), "s", "<= 120", held=self.seconds <= TRAINING),
            Promise("placement, size of the model's file", round(size, 1), "KiB", "<= 200", held=size <= SIZE),
            Promise("placement, the model that ships is the one learned here", same, "", "True", same),
        ]


def _progress(text: str) -> None:
    print(f"classify: {text}", file=sys.stderr, flush=True)


def _section(
    text: str, tables: Sequence[Table], data: dict[str, Any], plots: Sequence[Path], promised: Sequence[Promise]
) -> Section:
    commands = [
        "pinfold sweep --machine e5-2680v3x2 --space placement -o rows.parquet FILE.pft",
        "pinfold trace metrics --paper denoyelle --machine e5-2680v3x2 FILE.pft",
    ]
    title = "Which placement strategy suits a program"
    return Section("classify", title, text, commands, tables, data, plots, promised, CAPTIONS)


def _gate_text(opened: Gate) -> str:
    if opened.is_open:
        return "The data set has what it must have before anything is learned from it:"
    missing = [condition.name for condition in opened.conditions if not condition.holds]
    return f"**The gate is closed**: nothing is learned from this data set. Not as it must be: {'; '.join(missing)}."


def _programs(found: Sequence[Example]) -> list[dict[str, Any]]:
    return [
        {"machine": one.machine, "command": one.command, "speeds": one.speeds, "sensitive": one.is_sensitive}
        for one in found
    ]


def _asked(known: Mapping[str, list[Example]]) -> tuple[list[Result], list[Result]]:
    """Ask the paper's questions of its machines: the cells of figures 3 and 5, and the columns of figures 4 and 6."""
    asked: list[tuple[str, Metrics, Aim, tuple[list[Example], ...]]] = []
    for metrics in METRICS:
        for aim in (SENSITIVITY, STRATEGY):
            asked += [("cells", metrics, aim, (found,)) for found in known.values()]
            for chosen in permutations(known.values(), 3):
                asked += [(kind, metrics, aim, chosen) for kind in ("cells", "both")]
    with ProcessPoolExecutor(len(sched_getaffinity(0))) as pool:
        results = list(zip(asked, pool.map(_ask, asked), strict=True))
    of_kind = {kind: [result for (of, *_), result in results if of == kind] for kind in ("cells", "both")}
    return of_kind["cells"], of_kind["both"]


def _ask(asked: tuple[str, Metrics, Aim, tuple[list[Example], ...]]) -> Result:
    kind, metrics, aim, machines = asked
    _progress(f"{metrics}, {aim.target}, {' to '.join(one[0].machine for one in machines)}")
    question = Question(metrics, aim, SETS, GROUPS)
    if len(machines) == 1:
        return question.new_program(*machines)
    return question.new_machine(*machines) if kind == "cells" else question.both_new(*machines)


def study_tables(known: Mapping[str, list[Example]], cells: Sequence[Result]) -> list[Table]:
    """Return tables 5 to 7 of the paper's machines, the paper's figure in parentheses."""
    head = ["", *known]
    classes, speedups = study.same_class(known), study.best_elsewhere(known)
    tables = [
        Table(
            head,
            [[one, *(_beside(classes[one][other], PAPER_CLASS[one][other]) for other in known)] for one in known],
            "Table 5: the share of sensitive programs, and of those of the same class on both machines (the paper's):",
        ),
        Table(
            head,
            [[one, *(_beside(speedups[one][other], PAPER_SPEEDUP[one][other]) for other in known)] for one in known],
            "Table 6: speedup of sensitive programs in the best strategy of another machine (the paper's):",
        ),
    ]
    rows = []
    for machine in known:
        of_machine = {
            one.metrics: one
            for one in cells
            if (one.known, one.judged, one.aim) == (machine, machine, SENSITIVITY.target)
        }
        distances = {metrics: of_machine[metrics].distance if metrics in of_machine else None for metrics in METRICS}
        rows.append([machine, *(_beside(distances[name], PAPER_DISTANCE[machine][name]) for name in METRICS)])
    caption = "Table 7: mean distance of wrong answers from the boundary of sensitivity, honest models (the paper's):"
    return [*tables, Table(["", *METRICS], rows, caption)]


def _beside(ours: float | None, paper: float | None) -> str:
    return f"{'-' if ours is None else f'{ours:.2f}'}{'' if paper is None else f' ({paper:.2f})'}"


def promises(runs: Sequence[Run]) -> list[Promise]:
    """Return the figures that are asked for; without runs, because the gate is closed, none was measured."""
    found = []

    def ask(name: str, value: float | None, least: float | None = None, most: float | None = None) -> None:
        wanted = f">= {least:g}" if least is not None else f"<= {most:g}"
        held = None
        if value is not None:
            held = value >= least if least is not None else most is not None and value <= most
        found.append(Promise(f"placement, {name}", None if value is None else round(value, 4), "", wanted, held))

    for scenario, accurate, shared in ((SAME, 0.88, 0.98), (UNSEEN, 0.82, 0.97)):
        judged = of(runs, scenario)
        told = sensitivity(judged) if judged else {"balanced_accuracy": None, "far_wrong": None}
        ask(f"sensitivity, balanced accuracy: {scenario}", told["balanced_accuracy"], accurate)
        ask(f"one run, share of the best possible speed: {scenario}", share(judged, CHOICES["one run"]).mean, shared)
    judged = of(runs, SAME)
    one_run, two_runs = CHOICES["one run"], CHOICES["two runs"]
    ask("wrong and farther than 0.03 from the boundary", sensitivity(judged)["far_wrong"] if judged else None, most=0)
    ask("one run, share, sensitive programs", share(sensitive(judged), one_run).mean, 0.96)
    over_static = difference(judged, one_run, CHOICES["best static"])[1] if judged else None
    ask("one run over the best static strategy, lower end of the interval", over_static, 1)
    ask("two runs, share", share(judged, two_runs).mean, 0.995)
    over_two = difference(judged, two_runs, CHOICES["run two, keep the better"])[0] if judged else None
    ask("two runs over running two and keeping the better", over_two, 1)
    ask("one run, share, worst program", share(judged, one_run).worst, 0.90)
    ask("speed of insensitive programs over the default, least", harm(judged), 0.99)
    said = answers(judged) if judged else {"abstains": None, "right": None}
    ask("abstains", said["abstains"], most=0.15)
    ask("answers within 2 % of the best", said["right"], 0.95)
    return found
