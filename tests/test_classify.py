"""`--policy classify` as a user sees it: a bad model is refused, and without one nothing stays moved."""

import json
import subprocess
from pathlib import Path

from conftest import Pinfold

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

QUICK = ("-t", "1s", "-w", "500ms", "-i", "1s")


def script(tmp_path: Path) -> str:
    file = tmp_path / "machine.toml"
    file.write_text(SCRIPT)
    return f"scripted:{file}"


def test_without_a_model_a_program_is_observed_and_stays(pinfold: Pinfold, tmp_path: Path) -> None:
    record = tmp_path / "run.json"
    words = ("--policy", "classify", "--placement-model", "none", *QUICK, "--json", str(record))
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
    result = pinfold.run("--policy", "classify", *QUICK, "--machine", script(tmp_path))
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


def test_a_model_of_the_machine_that_cannot_be_used_is_refused_with_its_name(pinfold: Pinfold, tmp_path: Path) -> None:
    words = ("--policy", "classify", "--calibrated", str(tmp_path / "here.toml"))
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
        result = pinfold.run("--policy", "classify", "--placement-model", str(file), "--machine", script(tmp_path))
        assert result.status == 125
        assert str(file) in result.err
        assert expected in result.err


def test_the_flag_of_the_model_is_for_this_policy_alone(pinfold: Pinfold, tmp_path: Path) -> None:
    result = pinfold.run("--policy", "none", "--placement-model", "m.json", "--machine", script(tmp_path))
    assert result.status == 125
    assert "--placement-model is for --policy classify" in result.err
