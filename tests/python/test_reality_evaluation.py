"""Figures of two populations of regions: each says what it is named for."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from react_cases import write

from pinfold.evaluation.measured.foreign import VARIABLE
from pinfold.evaluation.measured.known import Known, Setting
from pinfold.evaluation.react import sweep as react_sweep
from pinfold.evaluation.react.sweep import Job, Swept
from pinfold.evaluation.reality import section, sweep
from pinfold.evaluation.reality.figures import Asked, Figure, Population, correlations, figures, matched
from pinfold.evaluation.reality.section import PARTIAL, compared, promises, simulated_regions
from pinfold.evaluation.reality.sweep import MACHINE, Progress
from pinfold.evaluation.workloads import Workload
from pinfold.learn.races import Floats

PREFETCH = ("0000", "0010", "0011", "1111")


def settings() -> tuple[Setting, ...]:
    """Return the configurations of two nodes of two cores with two PUs each."""
    places = [
        *((2, 1, "compact", pages, 1) for pages in ("local", "remote")),
        *((2, 2, "scatter", pages, 1) for pages in ("locality", "balance", "interleave")),
        *((4, 2, "scatter", pages, 1) for pages in ("locality", "balance", "interleave")),
        *((8, 2, "scatter", pages, 2) for pages in ("locality", "balance", "interleave")),
    ]
    return tuple(
        Setting(threads, nodes, thread_map, pages, prefetch, per_core)
        for (threads, nodes, thread_map, pages, per_core), prefetch in product(places, PREFETCH)
    )


def population(gains: Floats | None = None, regions: int = 8, seed: int = 1) -> Known:
    """Return regions with these gains, or with random ones."""
    known = settings()
    baseline = known.index(Setting(4, 2, "scatter", "locality", "0000", 1))
    if gains is None:
        gains = np.random.default_rng(seed).normal(0, 0.1, (regions, len(known)))
    gains = gains - gains[:, [baseline]]
    names = tuple((f"program{number}", "loop") for number in range(len(gains)))
    return Known("made", tuple(name for name, _ in names), names, known, baseline, gains)


def gained(by: Mapping[str, object], gain: float, regions: int = 8) -> Known:
    """Return regions whose configurations with some values gain something, and all others nothing."""
    fits = [all(getattr(one, name) == value for name, value in by.items()) for one in settings()]
    return population(np.tile(np.where(fits, np.log(gain), 0.0), (regions, 1)))


def test_all_prefetchers_are_compared_with_none() -> None:
    slower = Population(gained({"prefetch": "1111"}, 0.5))
    assert [slower.on_over_off(one) for one in (0.05, 0.5, 0.95)] == pytest.approx([2, 2, 2])
    assert slower.mean(prefetch="1111") == pytest.approx(0.5)
    assert slower.mean(prefetch="0010") == pytest.approx(1)


def test_halves_of_the_cores_are_told_apart_by_their_nodes() -> None:
    one = Population(gained({"threads": 2, "nodes": 1}, 0.8))
    assert (one.mean(share=0.5, nodes=1), one.mean(share=0.5, nodes=2)) == pytest.approx((0.8, 1))
    assert one.mean(share=1.0, nodes=2) == pytest.approx(1)


def test_pages_of_another_node_and_siblings_are_in_no_mean() -> None:
    cases: tuple[Mapping[str, object], ...] = ({"page_map": "remote"}, {"threads_per_core": 2})
    for by in cases:
        found = Population(gained(by, 0.1))
        assert found.mean() == pytest.approx(1)
        assert found.locality_over_spread() == pytest.approx(1)


def test_pages_after_locality_are_compared_on_two_nodes() -> None:
    found = Population(gained({"page_map": "balance"}, 0.5))
    # Half of the configurations with spread pages are balanced, and the others are interleaved.
    assert found.locality_over_spread() == pytest.approx(np.sqrt(2))
    assert Population(gained({"page_map": "interleave"}, 2)).best_after_locality() == 0
    assert Population(gained({"page_map": "locality"}, 2)).best_after_locality() == 1


def test_the_part_of_siblings_is_what_cores_alone_lack() -> None:
    gains = np.zeros((2, len(settings())))
    for place, one in enumerate(settings()):
        gains[0, place] = np.log(2) if one.threads_per_core == 2 else 0
        gains[1, place] = np.log(2) if one.nodes == 1 else 0
    found = Population(population(gains))
    assert found.needs_siblings() == pytest.approx(0.5)
    assert found.possible({}) == pytest.approx(2)
    assert found.possible(None) == pytest.approx(1)
    assert found.possible({"prefetch": "0000"}) == pytest.approx(2)


def test_a_population_agrees_with_itself_and_not_with_another() -> None:
    same = figures(population(), population())
    assert all(one.held or one.name.startswith("share of the possible gain") for one in same if one.asked)
    assert [one.simulated for one in same[-2:]] == pytest.approx([1, 1])
    other = figures(population(), population(seed=2))
    assert not all(one.held for one in other if one.asked)


def test_configurations_match_by_all_values_and_one_node_has_no_map_of_threads() -> None:
    one = population()
    renamed = replace(
        one,
        settings=tuple(
            setting._replace(thread_map=None, page_map="locality") if setting.page_map == "local" else setting
            for setting in one.settings
        ),
    )
    pairs = matched(one, renamed)
    assert [place for _, place in pairs] == [place for place, _ in pairs]
    assert {one.settings[place].page_map for place, _ in pairs} == {"local", "locality", "balance"}


def test_populations_without_common_configurations_are_refused() -> None:
    one = population()
    other = replace(one, settings=tuple(setting._replace(threads=2 * setting.threads) for setting in one.settings))
    other = replace(other, settings=tuple(setting._replace(prefetch="0100") for setting in other.settings))
    with pytest.raises(ValueError, match="made and made have 0 configurations in common: at least 3 are needed"):
        correlations(one, other)


@pytest.mark.parametrize(
    ("asked", "simulated", "measured", "holds"),
    [
        (Asked(0.08), 1.07, 1.0, True),
        (Asked(0.08), 1.09, 1.0, False),
        (Asked(0.1, relative=True), 0.46, 0.5, True),
        (Asked(0.1, relative=True), 0.44, 0.5, False),
        (Asked(range=(0.2, 0.33)), 0.34, 0.3, False),
        (Asked(range=(0.93, np.inf)), 0.94, None, True),
        (Asked(0.08), 1.0, None, False),
    ],
)
def test_what_is_asked_for(asked: Asked, simulated: float, measured: float | None, holds: bool) -> None:
    assert asked.holds(simulated, measured) is holds


def test_promises_name_the_measured_figure_and_leave_out_what_only_informs() -> None:
    found = promises([Figure("a", 1.0, 1.05, Asked(0.08)), Figure("b", 1.0, 2.0, None)])
    assert [(one.name, one.promise, one.held) for one in found] == [("a", "within 0.08 of the measured 1.000", True)]


def region(workload: str, seconds: float) -> list[dict[str, object]]:
    """Return the rows of a workload's region in all configurations; one node takes twice the time."""
    return [
        {
            **{"machine": MACHINE, "program": workload, "joined_command": workload},
            **{"command": f"{workload} --threads {one.threads}", "region": f"0x4000{one.threads:04x}"},
            **{"region_object": workload, "region_offset": "0x1ab0", "region_complete": True, "window_covers": True},
            **{"num_threads": one.threads, "num_nodes": one.nodes, "thread_map": one.thread_map},
            **{"page_map": one.page_map, "prefetch": one.prefetch, "threads_per_core": one.threads_per_core},
            **{"pinning": "0", "simulated": True, "baseline": one.threads == 4 and one.page_map == "locality"},
            "time_s": seconds * (2 if one.nodes == 1 else 1),
        }
        for one in settings()
        if one.prefetch == "0000"
    ]


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Put three small regions in the place of the real ones. None of them is swept."""
    monkeypatch.setattr(react_sweep, "folder", lambda results: tmp_path)
    monkeypatch.setattr(sweep, "RESULTS", tmp_path)
    regions = [Workload(name, None, "") for name in ("one", "two", "three")]
    monkeypatch.setattr(sweep, "workloads", lambda quick: regions)
    return sweep._jobs(quick=True)


def test_a_part_of_a_sweep_has_the_regions_that_are_there(jobs: list[Job]) -> None:
    nothing = sweep.partial(quick=True)
    assert (nothing.swept.file, nothing.missing, nothing.regions) == (None, ("one", "three", "two"), 3)
    by_name = {job.workload.name: job for job in jobs}
    write(by_name["two"].data, region("two", 1.0))
    by_name["one"].failure.write_text("too many threads")
    found = sweep.partial(quick=True)
    assert found.missing == ("three",)
    assert found.swept.failed == {f"one on {MACHINE}": "too many threads"}
    assert found.swept.file is not None
    known = simulated_regions(found.swept.file)
    assert known.programs == ("two",)
    assert known.settings[known.baseline] == Setting(4, 2, "scatter", "locality", "0000", 1)
    one_node = [place for place, setting in enumerate(known.settings) if setting.nodes == 1]
    assert known.gains[0, one_node] == pytest.approx(-np.log(2))


def test_a_sweep_makes_what_is_missing_and_is_then_no_part(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    for job in jobs[:2]:
        write(job.data, region(job.workload.name, 1.0))
    part = sweep.partial(quick=True)
    monkeypatch.setattr(react_sweep, "_sweep", lambda job, data: write(data, region(job.workload.name, 1.0)))
    whole = sweep.sweep(quick=True)
    assert (part.missing, whole.missing) == ((jobs[2].workload.name,), ())
    assert whole.swept.file is not None
    assert len(simulated_regions(whole.swept.file).names) == len(jobs)
    # Another sweep may be at work on the file of all regions.
    assert part.swept.file != whole.swept.file


def test_a_section_of_a_part_of_the_sweep_says_so_in_its_text_its_data_and_its_promises() -> None:
    swept = Swept(Path("regions.parquet"), {"five on m": "too many threads"})
    part = compared(population(), population(), Progress(swept, ("six",), 10), quick=False)
    assert part.text.startswith("**The sweep is not complete.** 8 of 10 regions have rows, and 1 were not swept")
    assert "1 of 10 regions failed: five on m: too many threads." in part.text
    assert part.data[PARTIAL] is True
    assert part.data["simulated"]["missing"] == ["six"]
    assert part.promises
    assert all(one.name.endswith(" (8 of 10 regions)") for one in part.promises)
    assert "--partial" in part.commands[0]
    whole = compared(population(), population(), Progress(replace(swept, failed={}), (), 10), quick=False)
    assert "not complete" not in whole.text
    assert whole.data[PARTIAL] is False
    assert json.loads(json.dumps(whole.data, allow_nan=False))["figures"][-1]["asked"] == "at least 0.85"
    assert [f"{one.name} (8 of 10 regions)" for one in whole.promises] == [one.name for one in part.promises]


def test_without_rows_or_without_the_table_there_is_no_section(
    tmp_path: Path, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(SystemExit, match="PINFOLD_MEASURED does not name the measured table"):
        section.partial_reality(quick=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "table.csv"))
    with pytest.raises(SystemExit, match="none of 3 regions has rows"):
        section.partial_reality(quick=True)
    jobs[0].failure.write_text("too many threads")
    with pytest.raises(SystemExit, match=r"none of 3 regions has rows: .*: too many threads"):
        section.partial_reality(quick=True)
    write(jobs[1].data, region(jobs[1].workload.name, 1.0))
    with pytest.raises(SystemExit, match="1 of 3 regions have rows, and gains vary together in 2 or more"):
        section.partial_reality(quick=True)
