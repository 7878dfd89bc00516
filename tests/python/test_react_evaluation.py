"""The section on configurations of regions."""

from pathlib import Path

import numpy as np
import pytest
from react_cases import own_binary, regions, rows_of, write

from pinfold.evaluation import plot
from pinfold.evaluation.react import online as react_online
from pinfold.evaluation.react import searches as react_searches
from pinfold.evaluation.react import section as react
from pinfold.evaluation.react.learners import SANDY_BRIDGE, SKYLAKE
from pinfold.evaluation.react.report import Nested, Pair
from pinfold.evaluation.section import Section
from pinfold.learn.react.data import read
from pinfold.learn.react.method import ALL_PAIRS, BASELINE, MODEL, STATIC, TWO, Judged, RandomPairs
from pinfold.learn.react.models import SLOW

__all__ = ["own_binary"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty project, in which no program runs online."""
    plots = tmp_path / "docs/plots"
    plots.mkdir(parents=True)
    monkeypatch.setattr(plot, "PLOTS", plots)
    monkeypatch.setattr(react_online, "run_online", lambda quick: [])
    monkeypatch.setattr("pinfold.evaluation.react.learners.SLOW", SLOW[-1:])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def section(project: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """Return the section on small data sets of both machines."""
    data = {}
    for machine in (SANDY_BRIDGE, SKYLAKE):
        found = regions("structured", programs=6, each=2, counters=2, settings=("0000", "1111"), machine=machine)
        data[write(project / f"{machine}.parquet", rows_of(found))] = "c0ffee"
    monkeypatch.setattr(react, "DATA", data)
    return react.react(quick=True)


def test_without_its_data_sets_the_section_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(react, "DATA", {project / "missing.parquet": "c0ffee", project / "neither.parquet": "c0ffee"})
    section = react.react(quick=True)
    assert "The data sets are missing" in section.text
    assert section.promises
    assert all(one.value is None and one.held is None for one in section.promises)


def test_the_section_has_the_papers_figures_beside_nested_ones(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = section(project, monkeypatch)
    assert {"space", "table1", "models", "nested", "control", "transfer", "online"} <= found.data.keys()
    pairs = [(one["counted_on"], one["machine"]) for one in found.data["nested"]]
    assert pairs == [(SANDY_BRIDGE,) * 2, (SKYLAKE,) * 2, (SANDY_BRIDGE, SKYLAKE)]
    assert {one["model"] for one in found.data["models"]} == {"Tree_s", "Tree_m"}
    assert all(one["nested"] <= 1 and one["paper_share"] <= 1 for one in found.data["models"])
    assert [one.name for one in found.promises if one.value is None] == [
        "react, online over offline, all costs included"
    ]
    assert all(path.exists() for path in found.plots)
    assert len(set(found.plots)) == len(found.plots)
    assert "(1.82)" in "\n".join(found.tables[0].markdown()), "the paper's figures are beside ours"


def test_the_section_names_the_commits_that_made_its_data_and_what_is_reduced(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = section(project, monkeypatch).text
    assert "by the build of commit c0ffee" in text
    assert "**Reduced**" in text


def test_the_shipped_data_sets_are_those_of_the_papers_machines() -> None:
    found = read([ROOT / file for file in react.DATA])
    assert [(one.machine, len(one.configurations)) for one in found] == [(SANDY_BRIDGE, 288), (SKYLAKE, 320)]
    page = (ROOT / "docs/design/react.md").read_text(encoding="utf-8")
    assert all(commit in page for commit in react.DATA.values())


def judged(model: float) -> Judged:
    """Return three programs for which a model gains as given, the best two 0.3, and one configuration 0.1."""
    gains = {MODEL: model, TWO: 0.3, STATIC: 0.1, BASELINE: 0.0}
    programs = ("a", "b", "c")
    return Judged(programs, np.full(3, 0.5), {name: np.full(3, gain) for name, gain in gains.items()}, ())


@pytest.mark.parametrize(
    ("gain", "held"),
    [
        (0.499, {"share of the possible gain, nested", "worst region", TWO, STATIC, "against the paper's"}),
        (0.2, {"worst region", STATIC}),
        (-0.1, set()),
    ],
)
def test_a_promise_holds_by_the_figure_that_is_asked_for(gain: float, held: set[str]) -> None:
    one = judged(gain)
    found = react.promises({Pair(SKYLAKE, SKYLAKE): Nested(one, one)}, {}, [])
    for promise in found:
        if not promise.name.endswith(SKYLAKE) or "learned on" in promise.name:
            assert promise.held is None
        else:
            assert promise.held == any(word in promise.name for word in held), promise


def test_a_search_is_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = regions("structured", programs=4, each=2, counters=1)
    values, _ = found.features()
    gains, folds = found.gains[:, :13], np.arange(len(values)) % 4
    monkeypatch.setattr(react_searches, "FOLDER", tmp_path)
    first = react_searches.TWO_FEATURES.search(values, gains, folds)
    assert first == ALL_PAIRS.search(values, gains, folds)
    monkeypatch.setattr(react_searches, "PairTreeClassifier", None)
    assert react_searches.TWO_FEATURES.search(values, gains, folds) == first
    assert set(first.features) <= set(react_searches.THREE_FEATURES.search(values, gains, folds).features)
    with pytest.raises(TypeError):
        react_searches.TWO_FEATURES.search(values, gains[::-1], folds)


def test_a_random_part_of_the_features_keeps_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = regions("structured", programs=4, each=2, counters=2)
    values, _ = found.features()
    gains, folds = found.gains[:, :13], np.arange(len(values)) % 4
    monkeypatch.setattr(react_searches, "FOLDER", tmp_path)
    part = react_searches.drawn(ALL_PAIRS, 4).search(values, gains, folds)
    again = RandomPairs(ALL_PAIRS.model, 1).judge(values, gains, folds, part.features)
    assert again.score == pytest.approx(part.score)
    assert part.score <= ALL_PAIRS.search(values, gains, folds).score
