"""The pages of the evaluation are those of its JSON files, and begin with the figures that matter."""

import re
from pathlib import Path
from typing import Any

import pytest

from pinfold.evaluation import headlines, pages
from pinfold.evaluation.__main__ import DERIVED, NEEDS, SECTIONS, committed
from pinfold.evaluation.headlines import HEADLINES, headline_rows

ROOT = Path(__file__).resolve().parents[2]
FOUND = committed(ROOT / "evaluation")


def promise(held: bool | None, value: float | None = 0.5) -> dict[str, Any]:
    return {"name": "speed", "value": value, "unit": "", "promise": "at least 1", "held": held}


def made(promises: list[dict[str, Any]]) -> dict[str, Any]:
    page = {"title": "One", "text": ["How."], "commands": ["pinfold topo"], "figures": ["| a |", "|---|", ""]}
    origin = {"commit": "c", "build": "b", "machine": "AMD EPYC: 2 cores", "reduced": False}
    return origin | {"promises": promises, "page": page}


@pytest.fixture
def one_headline(monkeypatch: pytest.MonkeyPatch) -> None:
    headline = headlines.Headline(headlines.MEASURED, None, headlines.promised("speed"), claimed="2 (a paper)")
    monkeypatch.setattr(headlines, "HEADLINES", {"one": [headline]})
    monkeypatch.setattr(pages, "HEADLINES", {"one": [headline]})


def test_the_committed_pages_are_those_of_the_json_files() -> None:
    """`python -m pinfold.evaluation --pages` would change nothing."""
    texts = {f"{name}.md": pages.page(name, data) for name, data in FOUND.items()}
    texts[pages.SUMMARY] = pages.summary(FOUND, SECTIONS)
    kept = {file.name: file.read_text() for file in (ROOT / pages.FOLDER).glob("*.md")}
    assert kept == texts


def test_every_section_has_a_headline_unless_it_only_reads_others() -> None:
    assert HEADLINES.keys() == SECTIONS.keys() - DERIVED


def test_every_section_is_there_unless_it_needs_what_few_machines_have() -> None:
    assert SECTIONS.keys() - FOUND.keys() <= NEEDS.keys()


@pytest.mark.parametrize("section", sorted(HEADLINES.keys() & FOUND.keys()))
def test_every_headline_finds_its_figure(section: str) -> None:
    rows = headline_rows(section, FOUND[section])
    assert len(rows) == len(HEADLINES[section])


def test_the_first_page_fits_a_screen() -> None:
    """A row for each headline, and little beside the table."""
    lines = (ROOT / pages.FOLDER / pages.SUMMARY).read_text().splitlines()
    rows = [line for line in lines if line.startswith("| [")]
    assert len(rows) == sum(len(HEADLINES[name]) for name in HEADLINES.keys() & FOUND.keys())
    assert len(lines) <= 40


@pytest.mark.usefixtures("one_headline")
def test_a_page_begins_with_its_figure() -> None:
    lines = pages.page("one", made([promise(held=False), promise(held=True)])).splitlines()
    figure = "**Speed: 0.5.** Asked: at least 1; held: **no**. Claimed: 2 (a paper). Measured: AMD EPYC."
    assert lines[:5] == ["# One", "", figure, "", "Figures of this section that hold: 1 of 2."]


@pytest.mark.usefixtures("one_headline")
def test_the_first_page_has_claim_condition_value_and_machine_in_a_row() -> None:
    text = pages.summary({"one": made([promise(held=True)])}, ["one", "two"])
    row = "| [One](one.md) | 2 (a paper) | speed: at least 1 | 0.5 | yes | 1 of 1 | measured, AMD EPYC |"
    assert row in text.splitlines()
    assert "Not made by this build yet: `two`." in text


@pytest.mark.usefixtures("one_headline")
def test_a_figure_that_was_not_measured_has_no_answer() -> None:
    (row,) = headline_rows("one", made([promise(held=None, value=None)]))
    assert (row.value, row.held) == ("not measured", None)


@pytest.mark.parametrize("regions", ["", " (3 of 79 regions)"])
def test_a_headline_of_a_part_of_a_sweep_says_how_many_regions_there_are(regions: str) -> None:
    named = [{**promise(held=True), "name": f"speed{regions}"}]
    found = headlines.promised_of_regions("speed")(made(named))
    assert found is not None
    assert found.name == f"speed{regions}"
    assert headlines.promised_of_regions("time")(made(named)) is None


def test_pages_of_sections_that_are_gone_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    pages.write({"one": made([]), "two": made([])}, ["one", "two"])
    pages.write({"two": made([])}, ["one", "two"])
    assert {file.name for file in tmp_path.iterdir()} == {"README.md", "two.md"}


def test_a_plot_on_a_page_exists() -> None:
    for name, data in FOUND.items():
        for plot in re.findall(r"!\[.*?\]\((.*?)\)", "\n".join(data["page"]["figures"])):
            assert (ROOT / pages.FOLDER / plot).exists(), (name, plot)
