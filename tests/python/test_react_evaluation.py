"""The section on configurations of regions."""

from pathlib import Path

import pytest
from reaction_cases import own_binary, regions, rows_of, write

from pinfold.evaluation import plot, react
from pinfold.learn.reaction_models import SLOW

__all__ = ["own_binary"]


def test_without_its_data_set_the_section_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(react, "DATA", tmp_path / "missing.parquet")
    section = react.react(quick=True)
    assert "The data set is missing" in section.text
    assert section.promises
    assert all(one.value is None and one.held is None for one in section.promises)


def test_the_section_has_the_papers_figures_beside_nested_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = regions("structured", programs=6, each=2, counters=2, settings=("0000", "1111"))
    there = regions("structured", programs=6, each=2, counters=2, settings=("0000", "1111"), machine=react.SKYLAKE)
    file = write(tmp_path / "regions.parquet", [*rows_of(here), *rows_of(there)])
    plots = tmp_path / "docs/plots"
    plots.mkdir(parents=True)
    monkeypatch.setattr(react, "DATA", file)
    monkeypatch.setattr(plot, "PLOTS", plots)
    monkeypatch.setattr("pinfold.evaluation.react.SLOW", SLOW[-1:])
    monkeypatch.chdir(tmp_path)
    section = react.react(quick=True)
    assert {"space", "table1", "models", "nested", "control"} <= section.data.keys()
    pairs = [(one["counted_on"], one["machine"]) for one in section.data["nested"]]
    assert pairs == [(react.SANDY_BRIDGE,) * 2, (react.SKYLAKE,) * 2, (react.SANDY_BRIDGE, react.SKYLAKE)]
    assert {one["model"] for one in section.data["models"]} == {"Tree_s", "Tree_m"}
    assert all(one["nested"] <= 1 and one["paper_share"] <= 1 for one in section.data["models"])
    assert all(one.value is not None for one in section.promises)
    assert all(path.exists() for path in section.plots)
    assert "(1.82)" in "\n".join(section.tables[0].markdown()), "the paper's figures are beside ours"
