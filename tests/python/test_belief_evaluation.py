"""The section on beliefs, on invented programs."""

from pathlib import Path

import numpy as np
import pytest
from belief_cases import MACHINE, data, rows

from pinfold.evaluation import pages, plot
from pinfold.evaluation.belief import section as belief_section
from pinfold.evaluation.belief.report import figures
from pinfold.evaluation.belief.section import BOTH, judged_section, judged_shipped
from pinfold.evaluation.belief.subjects import (
    MEASURED,
    OF_MEASURED,
    OF_SHIPPED,
    SHIPS,
    Results,
    Subject,
    of_machine,
    on_machine,
    some,
    worst,
    worst_over_best,
)
from pinfold.learn.belief import file
from pinfold.learn.belief.choice import learner
from pinfold.learn.belief.data import Times, read
from pinfold.learn.belief.judging import BELIEF, NEW, TRIALS, Judged, nested
from pinfold.learn.belief.learning import Settings

OTHER = "four-nodes"


def times(folder: Path, *machines: str, programs: int = 4) -> Times:
    every = [row for machine in machines for row in rows(programs, machine)]
    return read([data(folder, every)])


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """Return regions of one and of two machines, nested."""
    folder = tmp_path_factory.mktemp("data")
    return {
        name: nested(times(folder, *machines), lambda what: None, Settings())
        for name, machines in (("measured", ("measured",)), ("simulated", (MACHINE, OTHER)))
    }


def results(judged: dict[str, Judged], shipped: Judged | None) -> Results:
    """Return regions of which each simulated machine is also judged alone."""
    both = judged["simulated"]
    alone = {name: of_machine(both, name) for name in both.times.machines}
    return Results(judged["measured"], shipped, "About.", both, alone, judged["measured"])


def gaining(judged: Judged, gains: float, possible: float) -> Judged:
    """Return regions that all have this gain after each trial, and this possible gain."""
    logs = np.zeros_like(judged.times.logs)
    logs[:, 1 - judged.times.baselines[0]] = -possible
    known = Times(judged.times.regions, judged.times.points, judged.times.baselines, logs, judged.times.weights, 1e-4)
    return Judged(known, {BELIEF: np.full((len(logs), max(TRIALS)), gains)})


@pytest.mark.parametrize(("gains", "held"), [(0.95, [True, False, False, False]), (0.99, [True] * 4)])
def test_each_asked_share_is_a_promise(judged: dict[str, Judged], gains: float, held: list[bool]) -> None:
    found = Subject(MEASURED, gaining(judged["measured"], gains, 1.0), BELIEF, OF_MEASURED).promises()
    assert [one.value for one in found] == pytest.approx([gains] * 4)
    assert [one.promise for one in found] == [">= 0.94", ">= 0.965", ">= 0.975", ">= 0.985"]
    assert [one.held for one in found] == held


def test_what_was_not_judged_is_missing_and_not_zero() -> None:
    subject = Subject(SHIPS, None, BELIEF, OF_SHIPPED)
    assert [(one.value, one.held) for one in subject.promises()] == [(None, None)] * 3
    assert (subject.worst_promise().value, subject.worst_promise().held) == (None, None)
    assert figures(subject) is None


def test_the_slowest_region_is_found_after_each_number_of_trials(judged: dict[str, Judged]) -> None:
    found = gaining(judged["measured"], np.log(2), np.log(4))
    found.gains[BELIEF][1, :4] = np.log(0.5)
    assert list(worst(found, BELIEF).values()) == pytest.approx([0.5, 0.5, 0.5, 2, 2, 2, 2])
    assert list(worst_over_best(found, BELIEF).values()) == pytest.approx([0.125, 0.125, 0.125, 0.5, 0.5, 0.5, 0.5])
    promise = Subject(MEASURED, found, BELIEF, OF_MEASURED).worst_promise()
    assert (promise.value, promise.held) == (0.5, False)


def test_machines_are_judged_apart_and_beliefs_of_other_machines_beside_them(judged: dict[str, Judged]) -> None:
    both = judged["simulated"]
    parts = {name: of_machine(both, name) for name in (MACHINE, OTHER)}
    assert sum(len(one.times.regions) for one in parts.values()) == len(both.times.regions)
    assert all(one.times.machines == [name] for name, one in parts.items())
    assert sum(one.possible.sum() for one in parts.values()) == pytest.approx(both.possible.sum())
    assert parts[OTHER].gains[BELIEF].sum() + parts[MACHINE].gains[BELIEF].sum() == pytest.approx(
        both.gains[BELIEF].sum()
    )
    ways = {one.name: one.way for one in results(judged, None).subjects()}
    assert list(ways)[:2] == [MEASURED, SHIPS]
    assert [way for name, way in ways.items() if "belief of other machines" in name] == [NEW, NEW]


def test_a_machine_alone_has_its_own_regions_and_configurations(tmp_path: Path) -> None:
    both = times(tmp_path, MACHINE, OTHER)
    assert {one.machine for one in on_machine(both, OTHER).regions} == {OTHER}
    alone = nested(on_machine(both, OTHER), lambda what: None, Settings())
    assert NEW not in alone.gains


def test_the_reduced_set_has_programs_of_all_kinds(tmp_path: Path) -> None:
    found = times(tmp_path, MACHINE, programs=8)
    assert sorted(set(some(found, 3).programs)) == ["program0", "program3", "program7"]
    assert len(some(found, 100).regions) == len(found.regions)


def belief_of(folder: Path, machine: str) -> Path:
    """Write a belief that was learned on a machine."""
    model = folder / "belief.json"
    model.write_text(file.text(learner(Settings())(times(folder, machine))))
    return model


def test_a_belief_that_ships_is_judged_by_a_machine_that_it_has_not_seen(tmp_path: Path) -> None:
    found, about = judged_shipped(belief_of(tmp_path, MACHINE), times(tmp_path, "measured"))
    assert found is not None
    assert found.shares(BELIEF)[-1].share > 0.5
    assert f"was learned from 4 programs on {MACHINE}, and not from the measured machine" in about
    # The invented programs of both machines have the same names, and the page says so.
    assert "Programs of both have the names program0, program1, program2, program3." in about


def test_a_belief_that_has_seen_the_judged_machine_is_not_judged(tmp_path: Path) -> None:
    found, about = judged_shipped(belief_of(tmp_path, "measured"), times(tmp_path, "measured"))
    assert found is None
    assert (
        "cannot be judged by the measured regions: it was learned from times of the judged machine, measured" in about
    )


def test_without_a_belief_the_section_says_so(tmp_path: Path) -> None:
    found, about = judged_shipped(tmp_path / "belief.json", times(tmp_path, "measured"))
    assert found is None
    assert "There is none: `belief.json` is not among the models." in about


@pytest.mark.parametrize("shipped", [False, True])
def test_the_page_has_measured_regions_first_and_names_what_is_simulated(
    judged: dict[str, Judged], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    plot.PLOTS.mkdir(parents=True)
    made = judged_section(results(judged, judged["measured"] if shipped else None), quick=True)
    assert made.text.startswith("Measured: 4 regions of 4 programs")
    assert belief_section.REDUCED in made.text
    captions = [table.caption for table in made.tables]
    assert "measured regions" in captions[0]
    assert [SHIPS in caption for caption in captions[:2]] == [False, shipped]
    assert all("simulated" in table.caption for table in made.tables if any(row[0] == NEW for row in table.rows))
    (beside,) = [table for table in made.tables if "by different beliefs" in table.caption]
    assert [row[0] for row in beside.rows if row[0].endswith("same machine only")] == [
        f"{OTHER}, simulated, belief of other programs on the same machine only",
        f"{MACHINE}, simulated, belief of other programs on the same machine only",
    ]
    assert (tmp_path / made.plots[0]).exists()
    assert "![belief-trials](../plots/belief-trials.svg)" in pages.content(made)["figures"]
    of = made.data["subjects"]
    assert (of[SHIPS] is None) is not shipped
    assert of[BOTH]["machines"] == sorted([MACHINE, OTHER])
    # No invented program is insensitive to all strategies.
    unknown = [one.name for one in made.promises if one.value is None and "insensitive" not in one.name]
    assert unknown == ([] if shipped else [f"share of the possible gain after {n} trials, {SHIPS}" for n in OF_SHIPPED])
