"""The results of judging placement models, as tables, as JSON, and as one self-contained web page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from matplotlib.figure import Figure

from pinfold import plot
from pinfold.learn.classify.gate import Gate
from pinfold.learn.classify.judging import (
    CHOICES,
    Judged,
    Study,
    answers,
    covered,
    harm,
    sensitivity,
    share,
)
from pinfold.learn.report import Section, page, plotted
from pinfold.tables import Table

Scenario = Literal[
    "unseen program",
    "unseen program on an unseen machine",
    "unseen program that had no part in any choice",
    "application for judging",
    "unseen program on a machine of the outlook",
    "unseen program on an unseen machine of the outlook",
]
SAME: Scenario = "unseen program"
UNSEEN: Scenario = "unseen program on an unseen machine"
NEW: Scenario = "unseen program that had no part in any choice"
"""Those of the unseen programs that were added after everything else had been chosen."""

JUDGING: Scenario = "application for judging"
"""Programs that no choice has ever seen, by the model of all others."""

OUTLOOK: Scenario = "unseen program on a machine of the outlook"
OUTLOOK_UNSEEN: Scenario = "unseen program on an unseen machine of the outlook"
"""On machines that had no part in any choice: models learn from other programs on them as well, or not."""

MODELS = ("one run", "two runs")
"""The ways to choose that need a model; the others are baselines."""


@dataclass(frozen=True)
class Run:
    """One way to judge, with one seed.

    Attributes
    ----------
    scenario : str
        One of those above.
    shuffled : bool
        Whether it is the control.
    judged : list of Judged
        All programs.
    """

    scenario: Scenario
    shuffled: bool
    judged: list[Judged]


def runs_of(
    study: Study, scenarios: Sequence[Scenario], seeds: Sequence[int], progress: Callable[[str], None]
) -> list[Run]:
    """Judge a study in all scenarios, with all seeds, and the control of each.

    Args:
        study: the programs and learners.
        scenarios: the ways to judge. An unseen machine needs two machines.
        seeds: of folds, learners and control.
        progress: receives progress messages.
    """
    runs = []
    for scenario in scenarios:
        for shuffled in (False, True):
            for seed in seeds:
                progress(f"{scenario}, seed {seed}{', control' if shuffled else ''}")
                judged = study.judge(seed, unseen_machine=scenario == UNSEEN, shuffled=shuffled)
                runs.append(Run(scenario, shuffled, judged))
    return runs


def of(runs: Sequence[Run], scenario: Scenario, *, shuffled: bool = False) -> list[Judged]:
    """Return the programs of all seeds: a program's seeds are alike, and count as inputs of one program."""
    chosen = [run for run in runs if (run.scenario, run.shuffled) == (scenario, shuffled)]
    return [one for run in chosen for one in run.judged]


def sensitive(judged: Sequence[Judged]) -> list[Judged]:
    """Return the programs that are sensitive to placement."""
    return [one for one in judged if one.example.is_sensitive]


def _scenarios(runs: Sequence[Run]) -> list[Scenario]:
    return list(dict.fromkeys(run.scenario for run in runs))


def gate_table(opened: Gate, caption: str = "The gate:") -> Table:
    """Return all conditions of a gate."""
    rows = [
        [one.name, "-" if one.value is None else f"{one.value:g}", one.wanted, "holds" if one.holds else "**no**"]
        for one in opened.conditions
    ]
    return Table(["condition", "found", "wanted", ""], rows, caption)


def tables(runs: Sequence[Run]) -> list[Table]:
    """Return the shares of the best possible speed, and how sure the model is."""
    found = []
    for scenario in _scenarios(runs):
        judged, control = of(runs, scenario), of(runs, scenario, shuffled=True)
        rows = [[name, *(_share(group, name) for group in (judged, sensitive(judged)))] for name in CHOICES]
        if control:
            rows += [
                [f"{name}, control", *(_share(group, name) for group in (control, sensitive(control)))]
                for name in MODELS
            ]
        caption = f"{scenario.capitalize()}: share of the best possible speed, geometric mean (95 % interval), worst:"
        found.append(Table(["", "all programs", "sensitive programs"], rows, caption))
    rows = []
    for scenario in _scenarios(runs):
        for shuffled in (False, True):
            judged = of(runs, scenario, shuffled=shuffled)
            if not judged:
                continue
            told, said = sensitivity(judged), answers(judged)
            figures = [told["balanced_accuracy"], told["far_wrong"], said["abstains"], said["right"]]
            values = ("-" if value is None else f"{value:.3f}" for value in (*figures, covered(judged), harm(judged)))
            rows.append([f"{scenario}{', control' if shuffled else ''}", *values])
    head = ["", "sensitivity, balanced accuracy", "wrong and far from the boundary", "abstains"]
    head += ["answers within 2 %", "programs inside their 90 % intervals", "least speed of an insensitive program"]
    return [*found, Table(head, rows, "What the model knows of itself:")]


def worst(runs: Sequence[Run], number: int) -> Table:
    """Return the programs that cost most: in one run, the mean of all seeds."""
    rows: list[tuple[float, list[str]]] = []
    for scenario in _scenarios(runs):
        programs: dict[tuple[str, str], list[Judged]] = {}
        for one in of(runs, scenario):
            programs.setdefault((one.example.machine, one.example.command), []).append(one)
        for (machine, command), judged in programs.items():
            mean = share(judged, CHOICES["one run"]).mean
            assert mean is not None
            sure = sum(one.prediction.is_sure for one in judged)
            best = judged[0].example
            gain = best.speeds[best.best]
            rows.append((mean, [scenario, machine, command, f"{mean:.1%}", f"{gain:.2f}", f"{sure} of {len(judged)}"]))
    ordered = sorted(rows, key=lambda row: row[0])[:number]
    head = ["", "machine", "program", "share of the best", "best over default", "seeds in which it is sure"]
    return Table(head, [row for _, row in ordered], "The programs that cost most:")


def _share(judged: Sequence[Judged], name: str) -> str:
    found = share(judged, CHOICES[name])
    if found.mean is None:
        return "-"
    return f"{found.mean:.1%} ({found.low:.1%} to {found.high:.1%}), {found.worst:.0%}"


def document(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the figures as JSON: of the model (``ours``), of what needs none (``baselines``), and ``control``."""
    found: dict[str, Any] = {"ours": {}, "baselines": {}, "control": {}}
    for scenario in _scenarios(runs):
        judged, control = of(runs, scenario), of(runs, scenario, shuffled=True)
        shares = {name: asdict(share(judged, choice)) for name, choice in CHOICES.items()}
        ours = {name: shares.pop(name) for name in MODELS}
        found["ours"][scenario] = {
            **ours,
            "sensitive": {name: asdict(share(sensitive(judged), CHOICES[name])) for name in MODELS},
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
        found["control"][scenario] = {name: asdict(share(control, CHOICES[name])) for name in MODELS}
    return found


def summary(runs: Sequence[Run]) -> str:
    """Summarise the main figures in a paragraph."""
    judged = of(runs, SAME)
    programs = {one.example.program for one in judged}
    machines = sorted({one.example.machine for one in judged})
    one_run, static, two = (share(judged, CHOICES[name]) for name in ("one run", "best static", "two runs"))
    said = answers(judged)
    right = "-" if said["right"] is None else f"{said['right']:.0%}"
    return (
        f"{len(programs)} programs on {', '.join(machines)}, each judged by models that were learned without it. After "
        f"one run the model reaches {one_run.mean:.1%} of the best possible speed, the best static strategy "
        f"{static.mean:.1%}, and the model with a second run {two.mean:.1%}. It abstains for {said['abstains']:.0%} of "
        f"the programs; {right} of its answers are within 2 % of the best."
    )


def draw_shares(runs: Sequence[Run]) -> Figure:
    """Draw the share of the best possible speed of each way to choose, with its interval, and of the control."""
    scenarios = _scenarios(runs)
    rows = [*CHOICES, *(f"{name}, control" for name in MODELS)]
    drawn = plot.figure(height=1.0 + 0.24 * len(rows) * max(len(scenarios), 1))
    every = drawn.subplots(max(len(scenarios), 1), 1, sharex=True, squeeze=False)
    for axes, scenario in zip(every[:, 0], scenarios, strict=False):
        for place, name in enumerate(rows):
            kind = name.removesuffix(", control")
            found = share(of(runs, scenario, shuffled=kind != name), CHOICES[kind])
            if found.mean is None or found.low is None or found.high is None:
                continue
            colour = "C0" if name in MODELS else "0.5"
            axes.plot([found.low, found.high], [place, place], color=colour, linewidth=2)
            axes.plot([found.mean], [place], "o", color=colour, markersize=5)
            place_of_text = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(f"{found.mean:.1%}", (found.high, place), fontsize=plot.TEXT, **place_of_text)
        axes.set_yticks(range(len(rows)), rows, fontsize=plot.TEXT)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_title(scenario, fontsize=plot.TEXT, loc="left")
        axes.tick_params(labelsize=plot.TEXT)
        axes.margins(x=0.15)
    every[-1, 0].set_xlabel("share of the best possible speed, with its 95 % interval", fontsize=plot.TEXT)
    return drawn


def draw_worst(runs: Sequence[Run], number: int) -> Figure:
    """Draw the share of the best possible speed of the programs that cost most."""
    rows = worst(runs, number).rows
    drawn = plot.figure(height=1.0 + 0.22 * max(len(rows), 3))
    axes = drawn.add_subplot()
    axes.barh(range(len(rows)), [float(row[3].removesuffix("%")) for row in rows], 0.7, color="C0")
    axes.axvline(100, color="black", linewidth=1, linestyle="dotted")
    axes.set_yticks(range(len(rows)), [f"{row[2]}, {row[1]}" for row in rows], fontsize=plot.TEXT)
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xlabel("share of the best possible speed [%]", fontsize=plot.TEXT)
    axes.tick_params(labelsize=plot.TEXT)
    return drawn


def report(opened: Gate, runs: Sequence[Run]) -> str:
    """Return all results as one HTML page, which loads nothing else."""
    shares = plotted(
        draw_shares(runs),
        "How good the choices are",
        "The mean share of the best possible speed of each way to choose, with its interval. The tables say more.",
    )
    costly = worst(runs, 20)
    cost = plotted(
        draw_worst(runs, 20), "The programs that cost most", "The speed that each reaches. The table has the values."
    )
    sections = [
        Section("shares", "How good the choices are", "\n".join([shares, *(one.folded() for one in tables(runs))])),
        Section("worst", "The programs that cost most", f"{cost}\n{costly.folded()}"),
        Section("gate", "Is the model good enough?", gate_table(opened).html()),
        Section("words", "Words on this page", WORDS),
    ]
    # `pinfold learn observe` simulates each program.
    return page("Evaluation of placement models", summary(runs), sections, simulated=True)


WORDS = """
<dl>
<dt>Strategy</dt>
<dd>Where threads and pages are. Threads are <i>compact</i> (kept together) or <i>scattered</i> over the packages.
Pages are on the node of the thread that touches them first, or <i>interleaved</i> over all nodes.</dd>
<dt>Share of the best possible speed</dt>
<dd>The speed in the chosen strategy over that in the fastest one.</dd>
<dt>Sensitive program</dt>
<dd>A program whose speed depends on the strategy.</dd>
<dt>One run, two runs</dt>
<dd>The choice of the model after one observation of the program, or after a second one in another strategy.</dd>
<dt>Control</dt>
<dd>The same with shuffled answers: what chance alone reaches.</dd>
</dl>
"""
