"""Placements as other tools take them: each form is given to its tool, where it is installed."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CPUS, QUICK, Pinfold, cpu_list

FORMS = ("hwloc-calc", "taskset", "likwid", "numactl", "slurm", "OMP_PLACES", "KMP_AFFINITY", "GOMP_CPU_AFFINITY")


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def kept(pinfold: Pinfold, several_cpus: list[int], workload: Callable[[str], Path]) -> Path:
    """Return the record of a run that kept two CPUs, the second one first."""
    record = pinfold.folder / "run.json"
    cpus = cpu_list(several_cpus[1::-1])
    program = (workload("compute"), "--threads", "2", "--size", "64k", "--seconds", "2")
    done = pinfold.run("--policy", "fixed", *QUICK, "--schedule", cpus, "--json", record, "--", *program)
    assert done.status == 0, done.err
    return record


def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, check=False)


def form(pinfold: Pinfold, record: Path, name: str) -> str:
    done = run(pinfold.binary, "explain", record, "--format", name)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def masks(words: list[str], variables: str = "") -> list[set[int]]:
    """Run tests/programs/team.c; return the CPUs of the first thread at its start, and then of each thread."""
    added = dict(word.split("=", 1) for word in shlex.split(variables))
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    done = subprocess.run(words, env=env | {"OMP_NUM_THREADS": "2"} | added, capture_output=True, text=True, check=True)
    return [set(map(int, line.split(":")[1].split(","))) for line in done.stdout.splitlines()]


def test_taskset_and_hwloc_bind_take_the_set(
    pinfold: Pinfold, kept: Path, several_cpus: list[int], compiled: Callable[..., Path]
) -> None:
    team = compiled("team", "-fopenmp")
    cpus = set(several_cpus[:2])
    taskset = [tool("taskset"), *form(pinfold, kept, "taskset").split(), str(team)]
    assert masks(taskset) == [cpus] * 3
    hwloc = [tool("hwloc-bind"), form(pinfold, kept, "hwloc-calc"), "--", str(team)]
    assert masks(hwloc) == [cpus] * 3


@pytest.mark.parametrize(
    ("compiler", "names"),
    [("gcc", ("OMP_PLACES", "GOMP_CPU_AFFINITY")), ("clang", ("OMP_PLACES", "KMP_AFFINITY"))],
)
def test_openmp_runtimes_take_the_order_of_the_ranks(
    pinfold: Pinfold, kept: Path, compiled: Callable[..., Path], compiler: str, names: tuple[str, str]
) -> None:
    team = compiled("team", "-fopenmp", compiler=compiler)
    first, second = CPUS[:2]
    for name in names:
        assert masks([str(team)], form(pinfold, kept, name))[1:] == [{second}, {first}], name


def test_each_placement_of_a_list_has_each_form(binary: Path) -> None:
    for name in FORMS:
        words = ("placements", "--machine", "e5-2660v2x2", "--threads", "3")
        lines = run(binary, *words, "--format", name).stdout.splitlines()
        counted = run(binary, *words, "--count").stdout
        assert len(lines) == int(counted)
        assert len(set(lines)) == len(lines) or name in {"hwloc-calc", "taskset", "numactl", "slurm"}
    assert re.fullmatch(r"GOMP_CPU_AFFINITY='\d+ \d+ \d+'", lines[0])


def document(kept: Path, **changes: object) -> Path:
    changed = json.loads(kept.read_text()) | changes
    file = kept.with_name("changed.json")
    file.write_text(json.dumps(changed))
    return file


def test_pages_are_told_to_numactl_and_noted_for_others(pinfold: Pinfold, kept: Path) -> None:
    pages = document(kept, page_map="interleave")
    assert form(pinfold, pages, "numactl").endswith(" --interleave=all")
    done = run(pinfold.binary, "explain", pages, "--format", "taskset")
    assert done.stderr == "pinfold: The pages of the run were interleave, which taskset does not take.\n"


@pytest.mark.parametrize(
    ("candidate", "name", "error"),
    [
        ({"pus": None}, "taskset", "the program was fastest unpinned, so another tool has nothing to do"),
        ({"pus": None, "pages": "interleave"}, "taskset", "taskset takes no places of pages; numactl does"),
        ({"pus": None, "within": "0-1"}, "likwid", "threads ran unpinned on some CPUs, which likwid does not take"),
        ({"pus": None}, "lstopo", "`lstopo` is no form of another tool: there are hwloc-calc, taskset,"),
    ],
)
def test_what_a_tool_cannot_take_is_an_error(
    pinfold: Pinfold, kept: Path, candidate: dict[str, object], name: str, error: str
) -> None:
    of_run = json.loads(kept.read_text())
    candidates = [of_run["candidates"][0] | candidate]
    chosen = {"candidate": 0, "pus": None, "at": 1.0, "code": "highest_rate", "rate": None, "spread": None}
    chosen |= {"gain_over_first": None, "gain_over_worst": None}
    done = run(pinfold.binary, "explain", document(kept, candidates=candidates, chosen=chosen), "--format", name)
    assert done.returncode != 0
    assert error in done.stderr
    assert done.stdout == ""


def test_a_run_that_kept_nothing_says_so(pinfold: Pinfold, kept: Path) -> None:
    of_run = json.loads(kept.read_text())
    of_run["candidates"] = []
    of_run.pop("chosen", None)
    file = kept.with_name("nothing.json")
    file.write_text(json.dumps(of_run))
    done = run(pinfold.binary, "explain", file, "--format", "taskset")
    assert done.returncode != 0
    assert "the run kept no placement of all threads (--policy fixed)" in done.stderr
