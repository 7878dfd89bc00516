"""`--policy classify` as a user sees it: a model that cannot be used is refused, and without one nothing moves."""

import json
import subprocess
from pathlib import Path

from conftest import Pinfold

SCRIPT = """
topology = "synthetic:package:2 numa:1 core:2 pu:1"
threads = 4
duration = 8.0

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
    result = pinfold.run("--policy", "classify", *QUICK, "--json", str(record), "--machine", script(tmp_path))
    assert result.status == 0, result.err
    assert "forecast: there is no model" in result.err
    assert "cannot be counted, so no program is moved: a scripted machine counts no events" in result.err
    found = json.loads(record.read_text())
    assert found["forecast"]["code"] == "no_model"
    assert {one["name"]: one["value"] for one in found["forecast"]["observed"]}["nodes"] == 2.0
    assert found["chosen"]["code"] == "default_strategy"
    explained = subprocess.run(
        [str(pinfold.binary), "explain", str(record)], check=True, capture_output=True, text=True
    ).stdout
    assert "Forecast at" in explained
    assert "There is no model" in explained


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
