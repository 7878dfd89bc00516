"""The lines of a run: decisions, with `-v` rates, and the summary at the end; and the names of placements."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import QUICK, Pinfold, Run

#: Pinned threads are faster than unpinned ones. What is read varies.
FASTER = """
topology = "synthetic:package:2 numa:1 core:2 pu:1"
threads = 2
duration = 60.0
noise = 0.02
seed = 3

[[phase]]
start = 0.0
rate = 100.0
[[phase.pinning]]
pus = "0,1"
rate = 134.0
"""


@pytest.fixture
def scripted(pinfold: Pinfold, tmp_path: Path) -> Callable[..., Run]:
    """Return a function that runs a script on a scripted machine."""
    script = tmp_path / "faster.toml"
    script.write_text(FASTER)

    def run(*options: str) -> Run:
        return pinfold.record(
            "--machine", f"scripted:{script}", "-t", "4s", "--warm-up", "100ms", "--initialise", "1s", *options
        )

    return run


def summary(run: Run) -> dict[str, str]:
    """Return the lines of the summary by their names."""
    _, _, lines = run.err.partition("pinfold: the program ended with status ")
    return dict(re.findall(r"^pinfold:   ([a-z][a-z ]*?) {2,}(.*)$", lines, re.MULTILINE))


def test_the_gain_over_unpinned_has_its_error(scripted: Callable[..., Run]) -> None:
    run = scripted("--policy", "autopin")
    assert run.json["candidates"][0]["pus"] is None
    assert run.json["candidates"][0]["error"] > 0
    found = re.search(r"([\d.]+) ± ([\d.]+) times as fast as unpinned", summary(run)["result"])
    assert found, run.err
    ratio = run.json["chosen"]["rate"] / run.json["candidates"][0]["rate"]
    assert float(found[1]) == pytest.approx(ratio, abs=0.006)
    assert summary(run)["left pinned"] == "nothing"


def test_without_a_measured_baseline_no_gain_is_printed(scripted: Callable[..., Run]) -> None:
    for options in (("--schedule", "0,1", "--schedule", "0,2"), ("--policy", "close"), ("--policy", "none")):
        run = scripted(*options)
        assert "not compared with unpinned" in summary(run)["result"], run.err
        assert "times as fast" not in run.err


def test_rate_lines_are_for_verbose_only(scripted: Callable[..., Run]) -> None:
    quiet, loud = (scripted("--policy", "autopin", *options) for options in ((), ("-v",)))
    lines = len(loud.json["rates"])
    assert lines > 1
    assert (quiet.said("pinfold: at "), loud.said("pinfold: at ")) == (0, lines)
    assert f"in {lines} measurements" in summary(quiet)["afterwards"]
    assert quiet.said("chosen: ") == loud.said("chosen: ") == 1


def test_a_run_without_a_search_has_a_summary(pinfold: Pinfold) -> None:
    run = pinfold.run("--", "true")
    assert "not compared with unpinned" in summary(run)["result"]
    assert "of processor time for pinfold itself" in summary(run)["cost"]
    assert pinfold.run("-q", "--", "true").err == ""


def test_a_named_placement_is_there_from_the_start_and_in_the_record(scripted: Callable[..., Run]) -> None:
    expected = {
        "packed": "0,1",
        "distributed": "0,2",
        "close": "0,1",
        "spread": "0,2",
        "compact": "0,2",
        "scatter": "0,2",
    }
    for name, pus in expected.items():
        run = scripted("--policy", name, "--threads", "2")
        assert run.json["policy"] == name
        assert run.json["candidates"][0]["pus"] == [int(pu) for pu in pus.split(",")], name
        assert run.said(f"--policy {name} asks for it") == 1


def test_names_of_policies_are_listed_and_corrected(pinfold: Pinfold) -> None:
    listed = pinfold.run("--policy", "help")
    assert (listed.status, listed.err) == (0, "")
    assert {"- close", "- packed", "- scatter"} <= {" ".join(line.split()[:2]) for line in listed.out.splitlines()}
    assert "did you mean spread?" in pinfold.run("--policy", "spred", "--", "true").err


def test_names_are_candidates_of_a_search(scripted: Callable[..., Run]) -> None:
    run = scripted("--schedule", "close", "--schedule", "spread", "--threads", "2", *QUICK[-2:])
    assert [candidate["pus"] for candidate in run.json["candidates"]] == [[0, 1], [0, 2]]
