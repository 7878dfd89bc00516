"""`pinfold run --policy python:FILE.py` and `pinfold.run`: policies in Python, for programs on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CPUS, ROOT, Pinfold, eventually, masks, patience

#: Pins all threads to the last CPU, and prints what it sees.
LAST = """
from pinfold import Configuration, Decision, Policy

class Last(Policy):
    def start(self, topology, metrics):
        print("the policy prints this")
        self.last = max(pu.number for pu in topology.pus)
        self.seen = 0
        return Decision(Configuration([self.last]), wait=0.1)

    def decide(self, topology, sample, applied):
        self.seen += 1
        assert not sample.tasks or sample.tasks[0].cpu_time is not None
        return Decision(wait=0.1, note="It has seen a sample." if self.seen == 1 else None)

    def end(self):
        return [f"It has seen {self.seen > 0} samples."]
"""

FAILS = """
from pinfold import Configuration, Decision, Policy

class Fails(Policy):
    def start(self, topology, metrics):
        return Decision(Configuration([max(pu.number for pu in topology.pus)]), wait=0.3)

    def decide(self, topology, sample, applied):
        {what}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a policy and returns the value of `--policy` for it."""

    def write(text: str) -> str:
        (tmp_path / "mine.py").write_text(text)
        return f"python:{tmp_path / 'mine.py'}"

    return write


@pytest.mark.usefixtures("several_cpus")
def test_a_policy_in_a_file_pins_a_real_program(
    pinfold: Pinfold, compiled: Callable[..., Path], policy: Callable[[str], str]
) -> None:
    run = pinfold.record("--policy", policy(LAST), "--", compiled("spin"), "2", "1")
    assert run.status == 0, run.err
    assert run.json["policy"] == "python"
    notes = [note["text"] for note in run.json["notes"]]
    assert notes == ["It has seen a sample.", "It has seen True samples."]
    assert run.json["timeline"]["configurations"][0]["pus"] == [CPUS[-1]]
    assert "the policy prints this" in run.err
    assert "the policy prints this" not in run.out


@pytest.mark.usefixtures("several_cpus")
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raise LookupError('no such core')", "LookupError: no such core"),
        ("return Decision(Configuration([4095]))", "the policy wants PU 4095"),
        ("return None", "must answer with a pinfold.Decision"),
        ("import os; os._exit(3)", "its process has ended"),
    ],
)
def test_when_a_policy_fails_the_program_is_unpinned_and_goes_on(
    pinfold: Pinfold, compiled: Callable[..., Path], policy: Callable[[str], str], what: str, said: str
) -> None:
    file = pinfold.folder / "record.json"
    value = policy(FAILS.format(what=what))
    process = pinfold.start("--json", file, "--policy", value, "--", compiled("spin"), "2", "600")
    assert process.stdout
    with patience(process):
        program = int(process.stdout.readline())
        eventually(lambda: set(map(frozenset, masks(program).values())) == {frozenset(CPUS[-1:])}, "it is pinned")
        eventually(lambda: set(map(frozenset, masks(program).values())) == {frozenset(CPUS)}, "it is unpinned")
        process.terminate()
        process.communicate()
    (note,) = [note for note in json.loads(file.read_text())["notes"] if note["code"] == "policy_failed"]
    assert said in note["text"]


@pytest.mark.parametrize(
    ("text", "suffix", "said"),
    [
        ("", "", "must have one policy"),
        (LAST, ":First", "has no policy `First`; its subclasses of Policy: Last"),
        ("import nothing_of_this_name", "", "ModuleNotFoundError"),
    ],
)
def test_a_file_without_the_policy_says_so(
    pinfold: Pinfold, policy: Callable[[str], str], text: str, suffix: str, said: str
) -> None:
    run = pinfold.run("--policy", policy(text) + suffix, "--", "true")
    assert run.status == 0
    assert said in run.err


def test_a_file_that_is_not_there_is_refused_before_the_program_starts(pinfold: Pinfold) -> None:
    run = pinfold.run("--policy", "python:nowhere.py", "--", "touch", pinfold.folder / "made")
    assert run.status != 0
    assert "there is no such file" in run.err
    assert not (pinfold.folder / "made").exists()
    run = pinfold.run("--policy", "python:policy", "--", "true")
    assert run.status == 125
    assert "give FILE.py, FILE.py:CLASS, or unix:PATH" in run.err


def python(pinfold: Pinfold, text: str) -> "subprocess.CompletedProcess[str]":
    """Run a program in Python that uses the package and this binary."""
    environment = {**os.environ, "PINFOLD": str(pinfold.binary), "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(
        [sys.executable, "-c", text], cwd=pinfold.folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.usefixtures("several_cpus")
def test_a_policy_of_a_running_python_places_a_program(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    program = [str(compiled("spin")), "2", "1"]
    ended = python(
        pinfold,
        f"{LAST}\nimport pinfold\nrun = pinfold.run({program}, Last(), options=['--db', 'none'])\n"
        "print(run.policy, run.simulated, run.configurations['pus'][0].as_py(), run.notes[-1], run)",
    )
    assert ended.returncode == 0, ended.stderr
    assert f"python False [{CPUS[-1]}] It has seen True samples. <Run of python on " in ended.stdout


def test_what_a_policy_raises_reaches_its_python_and_ends_the_program(
    pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    program = [str(compiled("spin")), "2", "600"]
    ended = python(
        pinfold, f"{FAILS.format(what='raise LookupError(7)')}\nimport pinfold\npinfold.run({program}, Fails())"
    )
    assert "LookupError: 7" in ended.stderr.splitlines()[-1]


def test_a_program_that_cannot_start_is_an_error_in_python(pinfold: Pinfold) -> None:
    ended = python(pinfold, f"{LAST}\nimport pinfold\npinfold.run(['./nowhere'], Last())")
    assert "PinfoldError" in ended.stderr.splitlines()[-1]
    ended = python(pinfold, "import pinfold\npinfold.run(['true'], 'nobody')")
    assert "PinfoldError" in ended.stderr.splitlines()[-1]
