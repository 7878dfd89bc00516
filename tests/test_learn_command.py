"""`pinfold learn`: from recordings over a sweep to a policy, figures and a report."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE, Pinfold, Sweep

MACHINE = "opteron-6164x4"
THREADS = 4
#: Small programs that take seconds. The placement matters for all of them.
PROGRAMS = {
    "barrier": ("--size", "60", "--iterations", "1"),
    "bfs": ("--size", "256k", "--iterations", "1"),
    "hubench": ("--size", "2k", "--iterations", "1"),
    "random_access": ("--size", "512k", "--iterations", "2"),
}


@pytest.fixture(scope="module")
def data(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set of all placements of four threads."""
    return sweep(tmp_path_factory.mktemp("learn"), PROGRAMS, THREADS, MACHINE, "threads", "hints")


def learn(binary: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `pinfold learn`."""
    command = [str(word) for word in (binary, "learn", *words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("train", "hints", "--data", "nosuch.parquet", "-o", "policy.json"), "nosuch.parquet"),
        (("train", "hints", "--data", "other.parquet", "-o", "policy.json"), "other.parquet is not a data set"),
        (("train", "hints", "--data", "good.parquet", "-o", "nosuch/policy.json"), "no folder nosuch"),
        (("train", "hints", "--data", "good.parquet", "-o", "policy.json", "--machine", "nosuch.toml"), "nosuch.toml"),
        (("evaluate", "hints", "--data", "good.parquet", "--threads", "all"), "--threads all is for training"),
        (("evaluate", "hints", "--data", "good.parquet", "--threads", "+8"), "a whole number of 1 or more"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_imported(
    tmp_path: Path, words: tuple[str, ...], named: str
) -> None:
    (tmp_path / "other.parquet").write_text("something else")
    (tmp_path / "good.parquet").write_bytes(b"PAR1")
    program = (
        "import sys; from pinfold.learn.command import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('numpy' in sys.modules)"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert named in done.stderr
    assert done.stdout == "False\n"


def test_hints_are_evaluated_from_a_sweep(binary: Path, data: Path, tmp_path: Path) -> None:
    figures, report = tmp_path / "figures.json", tmp_path / "report.html"
    done = learn(
        binary, "evaluate", "hints", "--data", data, "--threads", str(THREADS), "--json", figures, "--report", report
    )
    assert done.returncode == 0, done.stderr
    assert "variant 1 of" in done.stderr
    assert done.stdout.startswith("Simulated on opteron-6164x4: 4 programs, 4 cases")
    document = json.loads(figures.read_text())
    assert document["simulated"] is True
    assert 0 < document["oracle_ratio"] <= 1
    assert document["interesting_within_1_percent"] <= document["interesting_cases"] <= len(PROGRAMS)
    assert {one["program"] for one in document["judgements"]} == set(PROGRAMS)
    best = next(one for one in document["variants"] if one["name"] == "best hint of each program")
    assert all(one["oracle_ratio"] <= best["oracle_ratio"] for one in document["variants"])
    page = report.read_text()
    assert page.count("<svg") == 4
    assert 'name="viewport"' in page
    assert "<dt>Packed</dt>" in page
    assert "Figure 1" not in page
    # The page loads nothing else.
    assert "src=" not in page
    assert "<link" not in page


@pytest.mark.parametrize("method", ["pinfold", "paper", "regret-tree", "two-samples"])
def test_a_trained_policy_names_its_training_data(binary: Path, data: Path, tmp_path: Path, method: str) -> None:
    policy = tmp_path / "policy.json"
    done = learn(binary, "train", "hints", "--data", data, "--threads", str(THREADS), "--method", method, "-o", policy)
    assert done.returncode == 0, done.stderr
    written = json.loads(policy.read_text())
    assert written["trained"]["programs"] == sorted(PROGRAMS)
    assert written["trained"]["simulated"] is True
    normalised = "per_instruction" if method in ("pinfold", "two-samples") else "per_thread_and_second"
    assert all(metric["normalised"] == normalised for metric in written["metrics"])
    # The rules are also printed.
    assert "otherwise => " + written["default"]["class"] in done.stderr


def test_unusable_training_data_is_named(binary: Path, data: Path, tmp_path: Path) -> None:
    def refused(*words: str | Path) -> str:
        done = learn(binary, "evaluate", "hints", *words)
        assert done.returncode == 125
        return done.stderr

    assert "no program has 8 threads, only 4: see --threads" in refused("--data", data)
    missing = tmp_path / "missing.parquet"
    assert f"{missing} cannot be read as a data set" in refused("--data", missing)
    text = tmp_path / "text.parquet"
    text.write_text("no Parquet")
    assert "`pinfold sweep -o` writes one" in refused("--data", text)


XEONS, CORES = "e5-2680v3x2", 24
PLACED = {
    "barrier": ("--size", "60", "--iterations", "1"),
    "compute": ("--size", "32k", "--iterations", "1"),
    "hubench": ("--size", "4k", "--iterations", "1"),
    "monte_carlo": ("--size", "32k", "--iterations", "1"),
}


def test_a_model_of_classify_is_learned_judged_and_used(
    binary: Path, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    recordings = []
    for program, arguments in PLACED.items():
        file = tmp_path / f"{program}.pft"
        command = [workload(program), "--threads", str(CORES), *arguments]
        recorded = [str(word) for word in (binary, "record", "-o", file, "--region", "0", "--", *command)]
        subprocess.run(recorded, check=True, capture_output=True, timeout=PATIENCE)
        recordings.append(file)
    data, model, said = tmp_path / "data.parquet", tmp_path / "model.json", tmp_path / "said.json"
    done = learn(binary, "observe", "classify", "--machine", XEONS, "-o", data, *recordings)
    assert done.returncode == 0, done.stderr
    done = learn(binary, "train", "classify", "--data", data, "--learner", "tree", "-o", model)
    assert done.returncode == 0, done.stderr
    assert "this data is not enough for figures that others can rely on: programs: 4, wanted >= 40" in done.stderr
    assert json.loads(model.read_text())["trained"]["programs"] == sorted(PLACED)
    done = learn(binary, "predict", "classify", "--model", model, "--data", data, "--json", said)
    assert done.returncode == 0, done.stderr
    forecasts = json.loads(said.read_text())
    assert len(forecasts) == len(PLACED)
    assert all((one["strategy"] is None) == (one["abstains"] is not None) for one in forecasts)
    figures, report = tmp_path / "figures.json", tmp_path / "report.html"
    words = ("--data", data, "--seeds", "1", "--json", figures, "--report", report)
    done = learn(binary, "evaluate", "classify", *words)
    assert done.returncode == 0, done.stderr
    assert "4 programs on e5-2680v3x2" in done.stdout
    found = json.loads(figures.read_text())
    assert list(found["ours"]) == ["unseen program"], "there is one machine only"
    assert 0 < found["ours"]["unseen program"]["one run"]["worst"] <= 1
    assert report.read_text().startswith("<!DOCTYPE html>")
    # What Python forecasts is what the policy forecasts.
    record = tmp_path / "run.json"
    policy = ("--policy", "classify:forest", "--placement-model", model, "--initialise", "1s", "--probe", "1s")
    more = (
        "--quiet",
        "--machine",
        XEONS,
        *policy,
        "--warm-up",
        "1s",
        "--repeat",
        "600000",
        "--json",
        record,
        tmp_path / "hubench.pft",
    )
    run = [str(word) for word in (binary, "run", *more)]
    subprocess.run(run, check=True, capture_output=True, timeout=PATIENCE)
    (hubench,) = [one for one in forecasts if "hubench" in one["command"]]
    told = json.loads(record.read_text())["forecast"]["strategies"]
    ratios = [math.exp(one) for one in hubench["log_times"]]
    assert [one["time_ratio"] for one in told] == pytest.approx(ratios, rel=1e-6)


def test_what_cannot_be_observed_or_read_is_refused_by_name(binary: Path, data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pft"
    broken.write_text("something else")
    done = learn(binary, "observe", "classify", "--machine", XEONS, "-o", tmp_path / "o.parquet", broken)
    assert done.returncode == 125
    assert f"{broken} on {XEONS}" in done.stderr
    assert not (tmp_path / "o.parquet").exists()
    done = learn(binary, "train", "classify", "--data", data, "-o", tmp_path / "model.json")
    assert "has no column `sample:ipc`, so it is no data set of placements" in done.stderr
    done = learn(binary, "predict", "classify", "--model", broken, "--data", data)
    assert f"{broken} is no placement model that can be used" in done.stderr


def test_help_and_exit_status_are_those_of_the_learner(binary: Path) -> None:
    assert "pinfold learn evaluate hints" in learn(binary, "evaluate", "hints", "--help").stdout
    assert learn(binary, "evaluate", "hunts").returncode == 125


def test_without_the_python_package_the_remedy_is_named(binary: Path, tmp_path: Path) -> None:
    alone = tmp_path / "pinfold"
    alone.write_bytes(binary.read_bytes())
    alone.chmod(0o755)
    command = [str(alone), "learn", "train"]
    done = subprocess.run(
        command, env=os.environ | {"PATH": "/nowhere"}, check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 125
    assert "`pinfold-learn` is not installed" in done.stderr
    assert "pip install" in done.stderr


def test_rules_are_learned_from_what_runs_have_left_in_the_database(
    pinfold: Pinfold, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    database, rules = tmp_path / "behaviour.db", tmp_path / "rules.json"
    empty = learn(pinfold.binary, "train", "hints", "--from-db", database, "-o", rules)
    assert empty.returncode == 125
    assert "the behaviour database has no data set" in empty.stderr
    words = (workload("false_sharing"), "--threads", "4", "--size", "64k", "--iterations", "3")
    pinfold.record("--machine", "e5-2660v2x2", "--repeat", "30000", "--db", database, "--", *words)
    done = learn(pinfold.binary, "train", "hints", "--from-db", database, "-o", rules)
    assert done.returncode == 0, done.stderr
    trained = json.loads(rules.read_text())
    assert "false_sharing" in json.dumps(trained)
    both = learn(pinfold.binary, "train", "hints", "--from-db", database, "--data", rules, "-o", rules)
    assert "not allowed with" in both.stderr
