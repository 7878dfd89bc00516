"""`--policy classify` as a user sees it: a bad model is refused, and without one nothing stays moved."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE, ROOT, Pinfold

SCRIPT = """
topology = "synthetic:package:2 numa:1 core:2 pu:1"
threads = 4
duration = 12.0

[[phase]]
start = 0.0
rate = 100.0

[[metric]]
name = "regions"
unit = "region"
source = "regions"
scope = "program"
per_step = 1.0
"""

QUICK = ("-t", "1s", "--warm-up", "500ms", "--initialise", "1s")


def script(tmp_path: Path) -> str:
    file = tmp_path / "machine.toml"
    file.write_text(SCRIPT)
    return f"scripted:{file}"


def test_without_a_model_a_program_is_observed_and_stays(pinfold: Pinfold, tmp_path: Path) -> None:
    record = tmp_path / "run.json"
    words = ("--policy", "classify:forest", "--placement-model", "none", *QUICK, "--json", str(record))
    result = pinfold.run(*words, "--machine", script(tmp_path))
    assert result.status == 0, result.err
    assert "forecast: there is no model" in result.err
    assert "cannot be counted, so no strategy is forecast: a scripted machine counts no events" in result.err
    found = json.loads(record.read_text())
    assert found["forecast"]["code"] == "no_model"
    assert {one["name"]: one["value"] for one in found["forecast"]["observed"]}["nodes"] == 2.0
    assert found["chosen"]["code"] == "no_pinning_better"
    explained = subprocess.run(
        [str(pinfold.binary), "explain", str(record)], check=True, capture_output=True, text=True
    ).stdout
    assert "Forecast at" in explained
    assert "There is no model" in explained


def test_the_model_that_ships_is_used_unless_another_is_named_and_says_what_it_lacks(
    pinfold: Pinfold, tmp_path: Path
) -> None:
    result = pinfold.run("--policy", "classify:forest", *QUICK, "--machine", script(tmp_path))
    assert result.status == 0, result.err
    assert "placement model models/classify.json, which pinfold ships, learned from" in result.err
    assert "not known here" in result.err


def test_a_model_is_explained_in_words(pinfold: Pinfold) -> None:
    shipped = Path(__file__).parents[1] / "models/classify.json"
    explained = subprocess.run(
        [str(pinfold.binary), "explain", str(shipped)], check=True, capture_output=True, text=True
    ).stdout
    assert "A placement model, learned from" in explained
    assert "It looks at:" in explained
    assert "used only within" in explained


@pytest.fixture
def lines(pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path) -> Path:
    """Return a recording of a program of 32 threads that is in no training set, and whose pages are on one node."""
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed (apt install qemu-user)")
    file = tmp_path / "lines.pft"
    words = [str(pinfold.binary), "record", "-o", str(file), "--", str(compiled("lines", "-fopenmp")), "96"]
    environment = os.environ | {"OMP_NUM_THREADS": "32"}
    subprocess.run(words, check=True, capture_output=True, env=environment, timeout=PATIENCE)
    return file


@pytest.fixture
def unseen(tmp_path: Path) -> Path:
    """Return a machine in no training set: a Xeon E5-2683 v4, the Broadwell of the training set with more cores.

    It keeps the name, by which its events are found.
    """
    model = (ROOT / "machines/e5-2650lv4x2.toml").read_text()
    pus = ", ".join(str(pu) for pu in (*range(0, 32, 2), *range(1, 32, 2)))
    for before, after in (
        (r"cores_per_package = \{ count = 14", "cores_per_package = { count = 16"),
        (r"pus = \[[\d,\s]*\]", f"pus = [{pus}]"),
        (r"ghz = 1\.7", "ghz = 2.1"),
        (r"\[5, 2\.1\], \[14, 2\.0\]", "[16, 2.1]"),
        (r"kib = 17920", "kib = 20480"),
        (r"cores = \{ count = 7", "cores = { count = 8"),
    ):
        model, found = re.subn(before, after, model)
        assert found == 1, before
    file = tmp_path / "e5-2683v4x2.toml"
    file.write_text(model)
    return file


def test_the_model_that_ships_places_a_program_on_a_machine_that_it_has_not_seen(
    pinfold: Pinfold, lines: Path, unseen: Path
) -> None:
    words = ("--policy", "classify:forest", "--noise", "2", "--repeat", "500", *QUICK)
    record = pinfold.record(*words, "--machine", unseen, lines).json
    assert record["forecast"]["code"] in {"unsure", "strategy"}
    times = {(one["threads"], one["pages"]): one["time_ratio"] for one in record["forecast"]["strategies"]}
    assert times["compact", "interleave"] < 0.9, "its pages are on one node"
    assert record["chosen"]["code"] == "strategy_kept"
    assert record["chosen"]["gain_over_first"] > 0.1


def test_on_a_machine_outside_of_the_training_data_the_model_says_so_and_abstains(
    pinfold: Pinfold, lines: Path
) -> None:
    words = ("--policy", "classify:forest", "--noise", "2", "--repeat", "1500", *QUICK)
    record = pinfold.record(*words, "--machine", "xeon-8480x2", lines).json
    assert record["forecast"]["code"] == "other_machine"
    assert record["forecast"]["strategies"] == []
    assert "the model was learned on machines with" in record["forecast"]["why"]


@pytest.mark.parametrize("policy", ["classify", "auto"])
def test_a_model_of_the_machine_that_cannot_be_used_is_refused_with_its_name(
    pinfold: Pinfold, tmp_path: Path, policy: str
) -> None:
    words = ("--policy", policy, "--calibrated", str(tmp_path / "here.toml"))
    result = pinfold.run(*words, "--", "true")
    assert result.status == 125
    assert "cannot read the model" in result.err
    assert "here.toml" in result.err
    result = pinfold.run(*words, "--machine", script(tmp_path))
    assert result.status == 125
    assert "leave --calibrated or --machine out" in result.err


def test_a_file_that_is_no_model_is_refused_with_its_name_and_the_remedy(pinfold: Pinfold, tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    rules = tmp_path / "rules.json"
    rules.write_text('{"rule_policy": 1}')
    for file, expected in ((missing, "cannot read the placement model"), (rules, "pinfold learn train classify")):
        result = pinfold.run(
            "--policy", "classify:forest", "--placement-model", str(file), "--machine", script(tmp_path)
        )
        assert result.status == 125
        assert str(file) in result.err
        assert expected in result.err


def test_the_flag_of_the_model_is_for_this_policy_alone(pinfold: Pinfold, tmp_path: Path) -> None:
    result = pinfold.run("--policy", "none", "--placement-model", "m.json", "--machine", script(tmp_path))
    assert result.status == 125
    assert "--placement-model is for --policy auto, classify or classify:forest" in result.err
