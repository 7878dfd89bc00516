"""`pinfold run` with a program that a launcher has forked, as the plugin for Slurm does."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE, QUICK, ROOT, Pinfold, environment

ALONE = "the program runs without pinfold"


def launch(pinfold: Pinfold, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run `pinfold run WORDS` as the launcher starts it."""
    command = [sys.executable, str(ROOT / "tests/programs/launcher.py"), *pinfold.command(*words)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_the_program_is_measured_with_the_agent_and_its_status_is_passed_on(
    pinfold: Pinfold, workload: Callable[[str], Path]
) -> None:
    record = pinfold.folder / "run.json"
    program = (workload("false_sharing"), "--threads", "2", "--size", "64k", "--iterations", "200")
    done = launch(pinfold, *QUICK, "--json", record, "--", *program)
    assert done.returncode == 0, done.stderr
    assert "LD_PRELOAD" in done.stdout
    written = json.loads(record.read_text())
    assert written["metric"]["name"] == "regions"
    assert written["exit_status"] == 0


def test_one_line_says_policy_and_result(pinfold: Pinfold) -> None:
    done = launch(pinfold, "--policy", "none", "--account-as", "job 7.0 task 1", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("pinfold: job 7.0 task 1: policy none: ")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="only one CPU may be used here")
def test_the_program_is_limited_though_its_launcher_is_not(pinfold: Pinfold) -> None:
    last = max(os.sched_getaffinity(0))
    # It may look before pinfold follows it.
    script = "until grep -q 'Cpus_allowed_list:\t[0-9]*$' /proc/self/status; do sleep 0.05; done; "
    script += "grep Cpus_allowed_list /proc/self/status"
    done = launch(pinfold, "--policy", "none", "--physcpubind", str(last), "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"Cpus_allowed_list:\t{last}"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--policy", "nonsense"), "nonsense"),
        (("--metric", "nonsense"), "there is no metric `nonsense`"),
        (("--physcpubind", "9999"), "CPU 9999 does not exist"),
        (("--json", "/nowhere/run.json"), "--json"),
    ],
)
def test_whatever_keeps_pinfold_from_it_the_program_runs(
    pinfold: Pinfold, options: tuple[str, str], error: str
) -> None:
    done = launch(pinfold, *options, "--", "sh", "-c", "echo ran; exit 3")
    assert done.returncode == 3
    assert done.stdout.splitlines() == ["changed:", "ran"]
    assert error in done.stderr
    assert ALONE in done.stderr


def test_a_program_that_cannot_be_executed_ends_as_its_launcher_says(pinfold: Pinfold) -> None:
    done = launch(pinfold, "--policy", "none", "--", "/proc/version")
    assert done.returncode == 44


def test_the_end_by_a_signal_is_passed_on(pinfold: Pinfold) -> None:
    for policy in ("none", "nonsense"):
        done = launch(pinfold, "--policy", policy, "--", "sh", "-c", "kill -TERM $$")
        assert done.returncode == 128 + signal.SIGTERM
