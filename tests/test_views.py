"""`--policy hints` and `classify` as a user sees them: views of `auto` with fewer candidates, and their variants."""

import subprocess
from pathlib import Path

import pytest
from conftest import Pinfold

SCRIPT = """
topology = "synthetic:package:2 numa:1 l3:1 core:4 pu:1"
threads = 4
duration = 60.0
noise = 0.01

[[phase]]
start = 0.0
rate = 100.0

[[phase.pinning]]
pus = "PUS"
rate = 150.0
"""


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """Return a scripted machine on which four threads are fastest on one package."""
    return scripted(tmp_path, "0-3")


def scripted(folder: Path, pus: str) -> str:
    """Return a scripted machine on which four threads are fastest there."""
    file = folder / f"machine-{pus}.toml"
    file.write_text(SCRIPT.replace("PUS", pus))
    return f"scripted:{file}"


@pytest.mark.parametrize(
    ("policy", "pus"), [("hints", [0, 1, 2, 3]), ("classify", [0, 4, 1, 5]), ("auto", [0, 1, 2, 3])]
)
def test_the_fastest_placement_is_found_by_the_belief_that_ships(
    pinfold: Pinfold, tmp_path: Path, policy: str, pus: list[int]
) -> None:
    machine = scripted(tmp_path, ",".join(map(str, pus)))
    record = pinfold.record("--policy", policy, "--db", "none", "--machine", machine).json
    assert record["policy"] == policy
    assert record["chosen"]["pus"] == pus
    assert record["chosen"]["gain_over_first"] == pytest.approx(0.5, abs=0.05)
    assert len(record["beliefs"]) == len(record["comparisons"])


def test_a_view_is_explained(pinfold: Pinfold, machine: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    assert pinfold.run("--policy", "hints", "--db", "none", "--json", file, "--machine", machine).status == 0
    said = subprocess.run([str(pinfold.binary), "explain", str(file)], check=True, capture_output=True, text=True)
    assert "compares the placements of affinity hints in turns with the unpinned program" in " ".join(
        said.stdout.split()
    )
    assert "it is hint SLP" in said.stdout


@pytest.mark.parametrize(
    ("policy", "option", "remedy"),
    [
        ("hints", ("--observe", "SLP"), "--observe is for --policy hints:rules"),
        ("none", ("--rules", "rules.json"), "--rules is for --policy hints or hints:rules; take one"),
        ("hints:trees", (), "hints:rules"),
        ("hints:rules", ("--belief", "none"), "--belief is for --policy auto, hints, classify or react; take one"),
    ],
)
def test_options_of_variants_are_refused_elsewhere(
    pinfold: Pinfold, machine: str, policy: str, option: tuple[str, ...], remedy: str
) -> None:
    run = pinfold.run("--policy", policy, *option, "--machine", machine)
    assert run.status == 125
    assert remedy in run.err


@pytest.mark.parametrize("policy", ["hints", "classify"])
def test_a_program_that_is_faster_nowhere_is_left_alone(pinfold: Pinfold, tmp_path: Path, policy: str) -> None:
    file = tmp_path / "even.toml"
    file.write_text(SCRIPT.replace("150.0", "80.0").replace("PUS", "0-3"))
    record = pinfold.record("--policy", policy, "--db", "none", "--machine", f"scripted:{file}").json
    assert record["chosen"] is None or record["chosen"]["pus"] is None
    assert len(record["beliefs"]) > 0
