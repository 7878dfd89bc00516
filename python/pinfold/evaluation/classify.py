"""The study of four placement strategies: its data, its paper's models, and pinfold's model.

The sweep is that of :mod:`pinfold.evaluation.placement_sweep`. Nothing is learned before the gate is open.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import permutations
from os import sched_getaffinity
from pathlib import Path
from typing import Any

import pyarrow.parquet

from pinfold.evaluation import placement_sweep
from pinfold.evaluation.classify_plots import best_and_worst_figure, matrix_figure, violin_figure
from pinfold.evaluation.placement_sweep import PAPER_MACHINES
from pinfold.evaluation.section import Promise, Section, Table
from pinfold.learn import paper_study
from pinfold.learn.gate import Gate, gate
from pinfold.learn.paper_method import SENSITIVITY, STRATEGY, Aim
from pinfold.learn.paper_study import METRICS, Matrix, Metrics, Question, Result
from pinfold.learn.placement_judging import (
    CHOICES,
    Judged,
    Study,
    answers,
    covered,
    difference,
    harm,
    sensitivity,
    share,
)
from pinfold.learn.strategies import Example, by_machine, examples

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
SETS, TURNS = 4, 2
"""Random sets of metrics, and partners with which a program is removed. The paper has many sets and all partners."""

SAME, UNSEEN = "unseen program", "unseen program on an unseen machine"

ABOUT = """\
After Denoyelle et al. (ICPP 2019): with a thread for each core, a program runs in four strategies, {compact, scatter} x
{first_touch, interleave}, each abbreviated by two letters. The default is compact with first touch. A program is
*sensitive* if a strategy changes its speed by more than 10 %. The machines are the paper's three, with four nodes each,
and two later ones. All programs are pinfold's own; the paper's are proxy applications, PARSEC and NAS."""

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
where the model says; `two runs` measures that strategy and the default, and keeps the faster. Beside it are the
default, the best static strategy of the training programs, and the best pair of strategies of these, of which both run
and the faster is kept. The control has learned from times that were exchanged among programs."""


@dataclass(frozen=True)
class Run:
    """One way to judge, with one seed.

    Attributes
    ----------
    scenario : str
        ``SAME`` or ``UNSEEN``.
    shuffled : bool
        Whether it is the control.
    judged : list of Judged
        All programs.
    """

    scenario: str
    shuffled: bool
    judged: list[Judged]


def classify(quick: bool) -> Section:
    """Sweep, check the gate, and judge both ways to learn."""
    file = placement_sweep.sweep(quick)
    found = [one for one in examples(pyarrow.parquet.read_table(file)) if one.covers]
    opened = gate(found)
    text = [ABOUT, _gate_text(opened)]
    tables = [gate_table(opened)]
    machines = by_machine(found)
    data: dict[str, Any] = {"simulated": True, "gate": asdict(opened), "programs": _programs(found)}
    plots = [best_and_worst_figure(machines[SKYLAKE], SKYLAKE)] if SKYLAKE in machines else []
    if not opened.is_open:
        return _section("\n\n".join(text), tables, data, plots, promises([]))
    known = {name: machines[name] for name in PAPER_MACHINES if name in machines}
    cells, both = _asked(known)
    data["paper"] = {
        "same_class": paper_study.same_class(known),
        "best_elsewhere": paper_study.best_elsewhere(known),
        "cells": [asdict(one) for one in cells],
        "both": [asdict(one) for one in both],
    }
    text.append(PAPERS)
    tables += paper_tables(known, cells)
    plots += [
        matrix_figure(cells, "sensitivity", "classify-sensitivity"),
        violin_figure(both, "sensitivity", "classify-sensitivity-new"),
        matrix_figure(cells, "strategy", "classify-strategy"),
        violin_figure(both, "strategy", "classify-strategy-new"),
    ]
    runs = _runs(found)
    text.append(OURS)
    tables += our_tables(runs)
    data |= our_data(runs)
    return _section("\n\n".join(text), tables, data, plots, promises(runs))


def _section(
    text: str, tables: Sequence[Table], data: dict[str, Any], plots: Sequence[Path], promised: Sequence[Promise]
) -> Section:
    commands = [
        "pinfold sweep --machine e5-2680v3x2 --space placement -o rows.parquet FILE.pft",
        "pinfold trace metrics --paper denoyelle --machine e5-2680v3x2 FILE.pft",
    ]
    title = "Which placement strategy suits a program"
    return Section("classify", title, text, commands, tables, data, plots, promised)


def _gate_text(opened: Gate) -> str:
    if opened.is_open:
        return "The data set has what it must have before anything is learned from it:"
    missing = [condition.name for condition in opened.conditions if not condition.holds]
    return f"**The gate is closed**: nothing is learned from this data set. Not as it must be: {'; '.join(missing)}."


def gate_table(opened: Gate) -> Table:
    """Return all conditions of the gate."""
    rows = [
        [one.name, "-" if one.value is None else f"{one.value:g}", one.wanted, "holds" if one.holds else "**no**"]
        for one in opened.conditions
    ]
    return Table(["condition", "found", "wanted", ""], rows, "The gate:")


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
    print(f"classify: {metrics}, {aim.target}, {' to '.join(one[0].machine for one in machines)}", file=sys.stderr)
    question = Question(metrics, aim, SETS, TURNS)
    if len(machines) == 1:
        return question.new_program(*machines)
    return question.new_machine(*machines) if kind == "cells" else question.both_new(*machines)


def paper_tables(known: Mapping[str, list[Example]], cells: Sequence[Result]) -> list[Table]:
    """Return tables 5 to 7 of the paper's machines, the paper's figure in parentheses."""
    head = ["", *known]
    classes, speedups = paper_study.same_class(known), paper_study.best_elsewhere(known)
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


def _runs(found: Sequence[Example]) -> list[Run]:
    study = Study(found)
    runs = []
    for scenario in (SAME, UNSEEN):
        for shuffled in (False, True):
            for seed in SEEDS:
                print(f"classify: {scenario}, seed {seed}{', control' if shuffled else ''}", file=sys.stderr)
                judged = study.judge(seed, unseen_machine=scenario == UNSEEN, shuffled=shuffled)
                runs.append(Run(scenario, shuffled, judged))
    return runs


def _of(runs: Sequence[Run], scenario: str, *, shuffled: bool = False) -> list[Judged]:
    """Return the programs of all seeds: a program's seeds are alike, and count as inputs of one program."""
    chosen = [run for run in runs if (run.scenario, run.shuffled) == (scenario, shuffled)]
    return [one for run in chosen for one in run.judged]


def our_tables(runs: Sequence[Run]) -> list[Table]:
    """Return the shares of the best possible speed, and what the model knows of itself."""
    tables = []
    for scenario in (SAME, UNSEEN):
        judged, control = _of(runs, scenario), _of(runs, scenario, shuffled=True)
        sensitive = [one for one in judged if one.example.is_sensitive]
        rows = [[name, *(_share_text(of_group, name) for of_group in (judged, sensitive))] for name in CHOICES]
        rows += [
            [f"{name}, control", *(_share_text(of_group, name) for of_group in (control, _sensitive(control)))]
            for name in ("one run", "two runs")
        ]
        caption = f"{scenario.capitalize()}: share of the best possible speed, geometric mean (95 % interval), worst:"
        tables.append(Table(["", "all programs", "sensitive programs"], rows, caption))
    rows = []
    for scenario in (SAME, UNSEEN):
        for shuffled in (False, True):
            judged = _of(runs, scenario, shuffled=shuffled)
            found, said = sensitivity(judged), answers(judged)
            figures = [found["balanced_accuracy"], found["far_wrong"], said["abstains"], said["right"]]
            rows.append(
                [
                    f"{scenario}{', control' if shuffled else ''}",
                    *("-" if value is None else f"{value:.3f}" for value in (*figures, covered(judged), harm(judged))),
                ]
            )
    head = ["", "sensitivity, balanced accuracy", "wrong and far from the boundary", "abstains"]
    head += ["answers within 2 %", "programs inside their 90 % intervals", "least speed of an insensitive program"]
    return [*tables, Table(head, rows, "What the model knows of itself:")]


def _sensitive(judged: Sequence[Judged]) -> list[Judged]:
    return [one for one in judged if one.example.is_sensitive]


def _share_text(judged: Sequence[Judged], name: str) -> str:
    found = share(judged, CHOICES[name])
    if found.mean is None:
        return "-"
    return f"{found.mean:.1%} ({found.low:.1%} to {found.high:.1%}), {found.worst:.0%}"


def our_data(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the content of the JSON file."""
    found: dict[str, Any] = {"ours": {}, "baselines": {}, "control": {}}
    for scenario in (SAME, UNSEEN):
        judged, control = _of(runs, scenario), _of(runs, scenario, shuffled=True)
        shares = {name: asdict(share(judged, choice)) for name, choice in CHOICES.items()}
        ours = {name: shares.pop(name) for name in ("one run", "two runs")}
        found["ours"][scenario] = {
            **ours,
            **sensitivity(judged),
            **answers(judged),
            "covered": covered(judged),
            "harm": harm(judged),
            "learners": sorted({one.learner.text() for one in judged}),
            "programs": [
                {
                    "machine": one.example.machine,
                    "command": one.example.command,
                    "best": one.example.best,
                    "chosen": one.prediction.choice,
                    "sure": one.prediction.is_sure,
                    "share": one.example.speeds[one.prediction.choice] / max(one.example.speeds),
                }
                for one in judged
            ],
        }
        found["baselines"][scenario] = shares
        found["control"][scenario] = {name: asdict(share(control, CHOICES[name])) for name in ("one run", "two runs")}
    return found


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
        judged = _of(runs, scenario)
        told = sensitivity(judged) if judged else {"balanced_accuracy": None, "far_wrong": None}
        ask(f"sensitivity, balanced accuracy: {scenario}", told["balanced_accuracy"], accurate)
        ask(f"one run, share of the best possible speed: {scenario}", share(judged, CHOICES["one run"]).mean, shared)
    judged = _of(runs, SAME)
    one_run, two_runs = CHOICES["one run"], CHOICES["two runs"]
    ask("wrong and farther than 0.03 from the boundary", sensitivity(judged)["far_wrong"] if judged else None, most=0)
    ask("one run, share, sensitive programs", share(_sensitive(judged), one_run).mean, 0.96)
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
