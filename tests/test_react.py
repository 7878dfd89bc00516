"""`--policy react` as a user sees it: models are checked, and the agent changes teams and places their threads."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Pinfold

PROGRAMS = ROOT / "tests" / "programs"

QUICK = ("-t", "2s", "-i", "300ms")


def configuration(threads: int, nodes: int, page_map: str) -> dict[str, object]:
    """Return a configuration as a model has it."""
    return {
        "threads": threads,
        "nodes": nodes,
        "thread_map": "compact",
        "page_map": page_map,
        "prefetch": "0000",
    }


def model_of(folder: Path, few: dict[str, object], many: dict[str, object]) -> Path:
    """Write a model that profiles two configurations and has the first for each region."""
    file = folder / "react.json"
    trained = {"simulated": True, "machines": ["any"], "programs": [], "rows": 0, "learner": "by hand"}
    model = {
        "react_model": 1,
        "machine": "any",
        "counted_on": "any",
        "trained": trained,
        "score": {"nested": 0.0, "low": 0.0, "high": 0.0, "control": 0.0, "inside": 0.0, "seeds": 1},
        "baseline": many,
        "profiles": [few, many],
        "features": [
            {"profile": 0, "counter": "CPI", "least": 0.0, "greatest": 9.0},
            {"profile": 1, "counter": "Power", "least": 0.0, "greatest": 999.0},
        ],
        "outputs": [few],
        "tree": [[0]],
    }
    file.write_text(json.dumps(model))
    return file


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_team_is_made_smaller_and_its_threads_are_pinned(
    pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path, compiler: str
) -> None:
    """The profiled configurations have one thread, and the program asks for two."""
    program = compiled("team_sizes", "-fopenmp", compiler=compiler)
    one = configuration(1, 1, "local")
    model = model_of(tmp_path, one, one)
    words = ("--policy", "react", "--react-model", model, *QUICK)
    run = pinfold.record(*words, "--", program, "1", "30", env=os.environ | {"OMP_NUM_THREADS": "2"})
    assert run.status == 0, run.err
    assert run.out == "sizes: 1 2; pinned: yes\n", run.err
    assert "They are profiled under 1 thread on 1 node" in run.err


def test_a_number_of_threads_that_the_program_names_stays_and_that_is_told(pinfold: Pinfold, tmp_path: Path) -> None:
    source = tmp_path / "named.c"
    source.write_text((PROGRAMS / "team_sizes.c").read_text().replace("omp parallel", "omp parallel num_threads(2)"))
    program = tmp_path / "named"
    subprocess.run(["gcc", "-O1", "-fopenmp", "-o", program, source], check=True)
    one = configuration(1, 1, "local")
    words = ("--policy", "react", "--react-model", model_of(tmp_path, one, one), *QUICK)
    run = pinfold.record(*words, "--", program, "1", "4")
    assert run.status == 0, run.err
    assert run.out.startswith("sizes: 2;"), run.err
    assert "the program names it itself, by num_threads" in run.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "--react-model"),
        (["--react-model", "none.json"], "cannot read the model `none.json`"),
        (["--react-model", "MODEL", "--page-map", "interleave"], "places pages itself"),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(
    pinfold: Pinfold, tmp_path: Path, words: list[str], expected: str
) -> None:
    one = configuration(1, 1, "local")
    model = model_of(tmp_path, one, one)
    given = [str(model) if word == "MODEL" else word for word in words]
    run = pinfold.run("--policy", "react", *given, "--", "true")
    assert run.status == 125
    assert expected in run.err


def test_a_model_for_a_larger_machine_is_refused(pinfold: Pinfold, tmp_path: Path) -> None:
    large = configuration(4096, 64, "locality")
    run = pinfold.run("--policy", "react", "--react-model", model_of(tmp_path, large, large), "--", "true")
    assert run.status == 125
    assert "this machine is too small" in run.err


def test_each_region_of_a_recording_is_configured_on_a_simulated_machine(
    pinfold: Pinfold, binary: Path, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    program = compiled("two_regions", "-fopenmp")
    recording = tmp_path / "two_regions.pft"
    recorded = subprocess.run(
        [binary, "record", "-o", recording, "--", program, "threads", "3", "1024"],
        env=os.environ | {"OMP_NUM_THREADS": "16"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert recorded.returncode == 0, recorded.stderr
    model = model_of(tmp_path, configuration(4, 1, "local"), configuration(16, 4, "locality"))
    words = ("--policy", "react", "--react-model", model, *QUICK, "--machine", "e5-4650x4")
    run = pinfold.record(*words, recording)
    assert run.status == 0, run.err
    assert run.json["regions"]["gain"] > 0, run.err
    choices = run.json["regions"]["choices"]
    assert any(choice["threads"] == 4 and choice["after"] < choice["before"] for choice in choices), choices
    file = tmp_path / "again.json"
    file.write_text(json.dumps(run.json))
    explained = subprocess.run([binary, "explain", file], capture_output=True, text=True, check=True).stdout
    assert "the time of all regions fell" in explained
