"""The section on placement strategies: a closed gate gives no headline, and each wanted figure is a promise."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from pinfold.evaluation import plot
from pinfold.evaluation.classify import section
from pinfold.evaluation.classify import sweep as classify_sweep
from pinfold.evaluation.classify.section import SEEDS, SKYLAKE, promises, study_tables
from pinfold.learn.classify.features import MACHINE, PROGRAM
from pinfold.learn.classify.gate import gate
from pinfold.learn.classify.judging import Judged, Known
from pinfold.learn.classify.model import Learner, Prediction
from pinfold.learn.classify.report import (
    OUTLOOK,
    OUTLOOK_UNSEEN,
    SAME,
    UNSEEN,
    Run,
    document,
    report,
    summary,
    tables,
    worst,
)
from pinfold.learn.classify.strategies import STRATEGIES, Example
from pinfold.learn.tables import OBSERVED


def example(name: str, machine: str, *seconds: float) -> Example:
    return Example(name, name, machine, 24, seconds, {}, covers=True)


def judged(name: str, seconds: tuple[float, ...], logs: tuple[float, ...], *, sure: bool = True) -> Judged:
    widths = np.array([0.0, 0.1, 0.1, 0.1])
    second, sensitivity = 1 + int(np.argmin(logs)), float(max(map(abs, logs)) > 0.1)
    said = Prediction(np.array([0.0, *logs]), widths, 0.0, sure, second, sensitivity)
    return Judged(example(name, "one", *seconds), said, Learner("tree", 2, 0.03), Known(1, (0, 1)))


def runs(*programs: Judged) -> list[Run]:
    return [Run(scenario, shuffled, list(programs)) for scenario in (SAME, UNSEEN) for shuffled in (False, True)]


RIGHT = judged("gains", (1.0, 0.5, 1.0, 1.0), (-0.69, 0.0, 0.0))
CALM = judged("calm", (1.0, 1.01, 1.0, 1.01), (0.01, 0.0, 0.0))
WRONG = judged("loses", (1.0, 2.0, 1.0, 1.0), (-0.5, 0.0, 0.0))


def test_a_closed_gate_is_said_and_nothing_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {
            **{"machine": SKYLAKE, "program": "stream", "command": "stream --threads 36", "num_threads": 36},
            **{"region": None, "thread_map": strategy.threads, "page_map": strategy.pages, "time_s": time},
            "window_covers": True,
        }
        for strategy, time in zip(STRATEGIES, (2.0, 1.0, 2.0, 1.0), strict=True)
    ]
    file = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    swept = classify_sweep.Swept({"development": file}, {})
    monkeypatch.setattr(classify_sweep, "sweep", lambda quick, machines: swept)
    monkeypatch.setattr(plot, "PLOTS", tmp_path)
    found = section.classify(quick=True)
    assert "**The gate is closed**" in found.text
    assert "programs" in found.text
    assert not {"paper", "ours"} & found.data.keys()
    assert found.promises
    assert all(promise.value is None and promise.held is None for promise in found.promises)
    assert [plot.stem for plot in found.plots] == ["classify-best-and-worst"]
    assert found.captions["classify-best-and-worst"].startswith("Figure 2")
    assert found.plots[0].exists()
    json.dumps(found.data)


def programs_on(machine: str, number: int) -> list[Example]:
    """Return programs that a gate lets pass: of each five, three are sensitive, each to another strategy."""
    times = [(1.0, 0.5, 2.0, 2.0), (1.0, 2.0, 0.5, 2.0), (1.0, 2.0, 2.0, 0.5), (1.0, 1.05, 1.05, 1.05), (1.0,) * 4]
    return [replace(example(f"p{place}", machine, *times[place % len(times)]), metrics=SEEN) for place in range(number)]


SEEN = {OBSERVED + name: 0.5 for name in (*PROGRAM, *MACHINE)}


def test_on_the_outlook_nothing_is_judged_behind_a_closed_gate() -> None:
    said, tables, data, runs = section.judged_on_outlook(programs_on("known", 40), programs_on("newer", 39))
    assert "The gate is closed on `newer`" in said
    assert [table.rows[0] for table in tables] == [["programs", "39", ">= 40", "**no**"]]
    newer = data["newer"]
    assert (newer["gate"]["conditions"][0]["holds"], len(newer["programs"]), runs) == (False, 39, [])


def test_on_the_outlook_programs_are_judged_with_others_there_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "SEEDS", (0,))
    outlook = [*programs_on("newer", 40), *programs_on("closed", 39)]
    said, tables, data, runs = section.judged_on_outlook(programs_on("known", 40), outlook)
    assert "The gate is closed on `closed`" in said
    assert "judged on `newer` have learned" in said
    assert (len(tables), list(data)) == (2, ["newer", "closed"])
    assert [(run.scenario, run.shuffled) for run in runs] == [
        (scenario, shuffled) for scenario in (OUTLOOK, OUTLOOK_UNSEEN) for shuffled in (False, True)
    ]
    assert all({one.example.machine for one in run.judged} == {"newer"} for run in runs)
    assert {len(run.judged) for run in runs} == {40}


def test_a_model_that_is_always_right_holds_what_it_can() -> None:
    found = {promise.name: promise for promise in promises(runs(RIGHT, CALM))}
    assert found[f"placement, one run, share of the best possible speed: {SAME}"].held
    assert found["placement, one run, share, worst program"].value == 1.0
    assert found["placement, abstains"].value == 0.0
    assert found["placement, speed of insensitive programs over the default, least"].held


def test_a_wrong_choice_breaks_the_promises_that_it_breaks() -> None:
    found = {promise.name: promise for promise in promises(runs(RIGHT, CALM, WRONG))}
    assert found["placement, one run, share, worst program"].held is False
    assert found["placement, one run, share, worst program"].value == 0.5
    assert found["placement, two runs, share"].value == 1.0, "the default is one of the two"
    assert found["placement, answers within 2 % of the best"].held is False


def test_all_scenarios_have_tables_and_data_with_baselines_and_control() -> None:
    one, other, itself = tables(runs(RIGHT, CALM))
    assert [row[0] for row in one.rows] == [row[0] for row in other.rows]
    assert {"default", "best static", "run two, keep the better", "one run, control"} <= {row[0] for row in one.rows}
    assert len(itself.rows) == 4
    data = document(runs(RIGHT, CALM))
    json.dumps(data)
    assert data["ours"][SAME]["programs"][0]["share"] == 1.0
    assert data["baselines"][UNSEEN]["default"]["mean"] == pytest.approx(0.5**0.5)


def test_the_programs_that_cost_most_come_first() -> None:
    rows = worst(runs(RIGHT, CALM, WRONG), 2).rows
    assert [(row[0], row[2], row[3]) for row in rows] == [(SAME, "loses", "50.0%"), (UNSEEN, "loses", "50.0%")]


def test_a_report_has_all_tables_and_needs_no_other_file() -> None:
    opened = gate([one.example for one in (RIGHT, CALM)])
    text = report(opened, runs(RIGHT, CALM))
    assert text.count("<table>") == 5
    assert text.count("<details><summary>Table: ") == 4, "what a plot shows is folded"
    assert text.count('role="img"') == 2
    assert "src=" not in text
    assert "2 programs on one" in summary(runs(RIGHT, CALM))


def test_without_an_unseen_machine_its_figures_are_left_out() -> None:
    one_machine = [run for run in runs(RIGHT, CALM) if run.scenario == SAME]
    assert len(tables(one_machine)) == 2
    assert list(document(one_machine)["ours"]) == [SAME]


def test_figures_of_the_paper_are_beside_ours() -> None:
    known = {SKYLAKE: [example("a", SKYLAKE, 1.0, 0.5, 1.0, 1.0)]}
    five, six, seven = study_tables(known, [])
    assert five.rows == [[SKYLAKE, "1.00 (0.48)"]]
    assert six.rows == [[SKYLAKE, "2.00 (1.12)"]]
    assert seven.rows == [[SKYLAKE, "- (0.05)", "- (0.07)", "- (0.02)"]], "missing is not zero"


def test_there_are_five_seeds() -> None:
    assert len(set(SEEDS)) == 5
