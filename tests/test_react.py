"""`--policy react` as a user sees it: models are checked, and the agent changes teams and places their threads."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Pinfold
from react_models import configuration, react_model

PROGRAMS = ROOT / "tests" / "programs"

QUICK = ("-t", "2s", "--initialise", "300ms")


def model_of(folder: Path, few: dict[str, Any], many: dict[str, Any]) -> Path:
    """Write a model that profiles two configurations and has the first for each region."""
    file = folder / "react.json"
    file.write_text(json.dumps(react_model(few, many, [few], [[0]])))
    return file


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_team_is_made_smaller_and_its_threads_are_pinned(
    pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path, compiler: str
) -> None:
    """The profiled configurations have one thread, and the program asks for two."""
    program = compiled("team_sizes", "-fopenmp", compiler=compiler)
    one = configuration(1, 1, "local")
    model = model_of(tmp_path, one, one)
    words = ("--policy", "react:tree", "--react-model", model, *QUICK)
    run = pinfold.record(*words, "--", program, "1", "30", env=os.environ | {"OMP_NUM_THREADS": "2"})
    assert run.status == 0, run.err
    assert run.out == "sizes: 1 2; pinned: yes\n", run.err
    assert "They are profiled under 1 thread on 1 node" in run.err


@pytest.mark.usefixtures("several_cpus")
def test_a_thread_with_real_time_priority_is_not_pinned_in_a_region(
    pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    two = configuration(2, 1, "local")
    words = ("--policy", "react:tree", "--react-model", model_of(tmp_path, two, two), *QUICK)
    run = pinfold.record(*words, "--", compiled("real_time_team", "-fopenmp"), "30", env={"OMP_NUM_THREADS": "2"})
    if "no real-time priority here" in run.out:
        pytest.skip(run.out)
    assert run.out == "pinned: 20, real-time: 0\n", run.err


def test_a_number_of_threads_that_the_program_names_stays_and_that_is_told(pinfold: Pinfold, tmp_path: Path) -> None:
    source = tmp_path / "named.c"
    source.write_text((PROGRAMS / "team_sizes.c").read_text().replace("omp parallel", "omp parallel num_threads(2)"))
    program = tmp_path / "named"
    subprocess.run(["gcc", "-O1", "-fopenmp", "-o", program, source], check=True)
    one = configuration(1, 1, "local")
    words = ("--policy", "react:tree", "--react-model", model_of(tmp_path, one, one), *QUICK)
    run = pinfold.record(*words, "--", program, "1", "4")
    assert run.status == 0, run.err
    assert run.out.startswith("sizes: 2;"), run.err
    assert "the program sets it with num_threads" in run.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["react:tree"], "train one with `pinfold learn train react`, and give it with --react-model"),
        (["react:tree", "--react-model", "none.json"], "cannot read the model `none.json`"),
        (["react", "--belief", "none.json"], "cannot read the belief `none.json`"),
        (["react", "--belief", "MODEL"], "this is no belief"),
        (
            ["react:tree", "--belief", "none.json", "--react-model", "MODEL"],
            "--belief is for --policy auto, hints, classify or react",
        ),
        (["react", "--react-model", "MODEL"], "--react-model is for --policy react:tree"),
        (["react:tree", "--react-model", "MODEL", "--page-map", "interleave"], "places pages itself"),
        (["react", "--page-map", "interleave"], "places pages itself"),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(
    pinfold: Pinfold, tmp_path: Path, words: list[str], expected: str
) -> None:
    one = configuration(1, 1, "local")
    model = model_of(tmp_path, one, one)
    given = [str(model) if word == "MODEL" else word for word in words]
    run = pinfold.run("--policy", *given, "--", "true")
    assert run.status == 125
    assert expected in run.err


def test_a_model_is_explained_in_words(binary: Path, tmp_path: Path) -> None:
    one = configuration(1, 1, "local")
    explained = subprocess.run(
        [binary, "explain", model_of(tmp_path, one, one)], capture_output=True, text=True, check=True
    )
    assert "A model of parallel regions for any" in explained.stdout
    assert "A region is profiled with:" in explained.stdout
    assert "It forecasts:" in explained.stdout


def test_a_race_of_an_earlier_version_is_refused_and_needs_no_successor(
    pinfold: Pinfold, binary: Path, tmp_path: Path
) -> None:
    profiles = [configuration(threads, 1, "local") for threads in range(1, 9)]
    race = react_model(profiles[0], profiles[1], [], []) | {"react_model": 2, "profiles": profiles, "features": []}
    file = tmp_path / "race.json"
    file.write_text(json.dumps(race))
    run = pinfold.run("--policy", "react:tree", "--react-model", file, "--", "true")
    explained = subprocess.run([binary, "explain", file], capture_output=True, text=True, check=False)
    for status, text in ((run.status, run.err), (explained.returncode, explained.stderr)):
        assert status not in {0, 101}
        assert "races are no longer read; `--policy react` needs no model" in text


def belief(version: int = 1) -> str:
    """A belief that lists all cores, and a half of them on a half of the nodes."""
    shares = [{"threads": share, "cores": share, "nodes": share} for share in (1.0, 0.5)]
    maps = {"thread_map": "compact", "page_map": "locality", "prefetch": "0000"}
    lengths = dict.fromkeys(("threads", "cores", "nodes", "thread_map", "page_map", "prefetch"), 1.0)
    document = {
        "pinfold": "belief",
        "version": version,
        "origin": {"simulated": True, "machines": ["e5-4650x4"], "programs": ["one"], "rows": 2, "learner": "by hand"},
        "points": [share | maps for share in shares],
        "mean": [0.0, -0.5],
        "factors": [[], []],
        "residual": [0.0, 0.1],
        "kernel": {"weight": 0.5, "variance": 0.2, "lengths": lengths},
        "noise": 0.0001,
        "doubt": {"machine": 0.01},
    }
    return json.dumps(document)


def test_a_belief_is_explained_in_words(binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "belief.json"
    file.write_text(belief(), encoding="utf-8")
    explained = subprocess.run([binary, "explain", file], capture_output=True, text=True, check=True).stdout
    assert "A belief about configurations, learned from 2 rows of 1 programs on e5-4650x4" in explained
    assert "threads on 50 % of the cores and 50 % of the nodes" in explained
    file.write_text(belief(version=2), encoding="utf-8")
    refused = subprocess.run([binary, "explain", file], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "this belief has version 2, and this pinfold reads version 1" in refused.stderr


def test_a_model_for_a_larger_machine_is_refused(pinfold: Pinfold, tmp_path: Path) -> None:
    large = configuration(4096, 64, "locality")
    run = pinfold.run("--policy", "react:tree", "--react-model", model_of(tmp_path, large, large), "--", "true")
    assert run.status == 125
    assert "this machine is too small" in run.err


def test_each_region_of_a_recording_is_configured_on_a_simulated_machine(
    pinfold: Pinfold, binary: Path, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    recording = tmp_path / "phases.pft"
    words = ("--mode", "threads", "--size", "16M", "--iterations", "4", "--threads", "16")
    recorded = subprocess.run(
        [binary, "record", "-o", recording, "--", workload("phases"), *words],
        check=False,
        capture_output=True,
        text=True,
    )
    assert recorded.returncode == 0, recorded.stderr
    model = model_of(tmp_path, configuration(8, 1, "local"), configuration(16, 4, "locality"))
    options = ("--policy", "react:tree", "--react-model", model, *QUICK, "--machine", "e5-4650x4")
    run = pinfold.record(*options, recording)
    assert run.status == 0, run.err
    assert run.json["regions"]["gain"] > 0, run.err
    assert run.json["regions"]["program"]["gain"] > 0, run.err
    choices = run.json["regions"]["choices"]
    assert any(choice["threads"] == 8 and choice["after"] < choice["before"] for choice in choices), choices
    file = tmp_path / "again.json"
    file.write_text(json.dumps(run.json))
    explained = subprocess.run([binary, "explain", file], capture_output=True, text=True, check=True).stdout
    assert "the time of all regions fell" in explained
    # The sentence has as many digits as the error of the gain allows, and the error differs between recordings.
    said = re.search(r"The whole program ran ([0-9.]+) ± ([0-9.]+) times as fast", explained)
    assert said, explained
    program = run.json["regions"]["program"]
    times, error = (float(number) for number in said.groups())
    assert times == pytest.approx(1 + program["gain"], abs=error)
    assert error == pytest.approx(program["error"], rel=0.5, abs=0.001)
    believed = pinfold.record("--policy", "react", "--machine", "e5-4650x4", "--repeat", "5", recording)
    assert believed.status == 0, believed.err
    assert "planned by the belief models/belief.json, which pinfold ships" in believed.err
