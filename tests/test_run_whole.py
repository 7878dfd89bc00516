"""Whole runs on this machine: what is refused, and what is said where the placement of a run cannot matter.

tests/guest/test_whole_runs.py has runs on a machine with several nodes.
"""

import subprocess
from pathlib import Path

import pytest
from conftest import CPUS, Pinfold, Run


def whole(pinfold: Pinfold, database: Path, *command: str) -> Run:
    """Run a command on one CPU, where no placement differs from another."""
    one = ("--physcpubind", str(CPUS[0]))
    return pinfold.record("--metric", "run", *one, "--db", str(database), "--", *command)


def test_a_run_is_the_metric(pinfold: Pinfold, tmp_path: Path) -> None:
    run = whole(pinfold, tmp_path / "behaviour.db", "true")
    assert run.json["policy"] == "auto"
    assert run.json["metric"] == {"name": "run", "unit": "run", "scope": "program"}
    assert run.json["metric_code"] == "asked_for"
    assert not run.json.get("candidates")


def test_where_placement_cannot_matter_nothing_is_remembered(pinfold: Pinfold, tmp_path: Path) -> None:
    run = whole(pinfold, tmp_path / "behaviour.db", "true")
    assert "nothing is remembered" in run.json["metric_why"]
    listed = subprocess.run(
        [pinfold.binary, "db", "--db", tmp_path / "behaviour.db", "list"], capture_output=True, text=True, check=True
    )
    assert "true" not in listed.stdout


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (("--policy", "none"), "leave --policy out"),
        (("--outlive",), "--outlive does so too"),
        (("--keep-pinned",), "--keep-pinned does so too"),
    ],
)
def test_other_policies_and_placements_that_stay_are_refused(
    pinfold: Pinfold, options: tuple[str, ...], remedy: str
) -> None:
    words = [str(pinfold.binary), "run", "--metric", "run", *options, "--", "true"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 125
    assert remedy in refused.stderr


def test_a_simulated_program_has_no_whole_runs(pinfold: Pinfold) -> None:
    words = [str(pinfold.binary), "run", "--metric", "run", "--machine", "e5-2660v2x2", "none.pft"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 125
    assert "pinfold run --metric run -- CMD" in refused.stderr
