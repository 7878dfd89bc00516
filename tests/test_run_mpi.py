"""Programs of MPI: the counts of their calls, and other runs of pinfold on the same machine."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import PATIENCE, Pinfold, environment, eventually, masks

#: A program with MPI, whose ranks print their CPUs. With an argument they first wait until they are pinned to one. The
#: system call is made here, because pinfold's agent answers for the function of the C library.
SOURCE = """
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words)
{
    int rank, tries = 0;
    cpu_set_t mine;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    do {
        CPU_ZERO(&mine);
        syscall(SYS_sched_getaffinity, 0, sizeof mine, &mine);
    } while (count > 1 && CPU_COUNT(&mine) > 1 && tries++ < 2000 && usleep(10000) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &mine))
            printf("rank %d on %d\\n", rank, cpu);
    MPI_Finalize();
    return 0;
}
"""
#: Root may run it.
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
#: One thread that is pinned from its first instruction on.
FIRST = ("--policy", "packed", "--threads", "1", "--initialise", "0", "-t", "200ms")


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest) -> str:
    """Return the suffix of the commands of an MPI."""
    suffix: str = request.param
    for command in (f"mpirun.{suffix}", f"mpicc.{suffix}"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed (Debian: {suffix} and its -dev package)")
    return suffix


@pytest.fixture
def program(mpi: str, tmp_path: Path) -> Path:
    """Return the program, compiled for this MPI."""
    source, built = tmp_path / "ranks.c", tmp_path / "ranks"
    source.write_text(SOURCE)
    subprocess.run([f"mpicc.{mpi}", "-o", built, source], check=True, capture_output=True)
    return built


@pytest.fixture
def stencil(mpi: str, compiled: Callable[..., Path]) -> Path:
    """Return tests/programs/mpi_stencil.c, compiled for this MPI."""
    return compiled("mpi_stencil", compiler=f"mpicc.{mpi}")


def run(claims: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a command with a folder of claims of its own."""
    variables = environment(OPEN_MPI | {"PINFOLD_CLAIMS": str(claims)})
    return subprocess.run(
        list(map(str, words)), env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def child(process: int) -> int | None:
    """Return the program of a pinfold."""
    for thread in os.listdir(f"/proc/{process}/task"):
        for word in Path(f"/proc/{process}/task/{thread}/children").read_text().split():
            if Path(f"/proc/{word}/comm").read_text() == "sleep\n":
                return int(word)
    return None


def single(process: int) -> frozenset[int] | None:
    """Return the CPUs of a process where it is pinned to one."""
    (mask,) = masks(process).values()
    return frozenset(mask) if len(mask) == 1 else None


def pinned(process: int) -> frozenset[int]:
    """Wait until the program of a pinfold is pinned to one CPU, and return it."""
    program = eventually(lambda: child(process), "the program")
    assert program
    mask = eventually(lambda: single(program), "its pinning")
    assert mask
    return mask


def launcher(mpi: str) -> list[str]:
    """Return the words that start two ranks, on any number of CPUs."""
    return [f"mpirun.{mpi}", *(["--oversubscribe", "--bind-to", "none"] if mpi == "openmpi" else []), "-n", "2"]


def calls(record: Path) -> float:
    """Return the MPI calls of a run, from the rates of all its readings."""
    timeline = json.loads(record.read_text())["timeline"]
    (metric,) = (metric for metric in timeline["metrics"] if metric["name"] == "mpi")
    lengths = (end - begin for begin, end in pairwise([0, *timeline["at"]]))
    total: float = sum((rate or 0) * length for rate, length in zip(metric["rates"], lengths, strict=True))
    return total


def steps(output: str) -> int:
    """Return the steps in the last line of tests/programs/mpi_stencil.c: all."""
    return int(output.rsplit(maxsplit=1)[-1])


def test_runs_that_begin_at_once_pin_to_different_cpus(
    pinfold: Pinfold, several_cpus: list[int], tmp_path: Path
) -> None:
    variables = {"PINFOLD_CLAIMS": str(tmp_path)}
    runs = [pinfold.start(*FIRST, "--", "sleep", "1000", env=variables) for _ in range(2)]
    try:
        assert len({pinned(one.pid) for one in runs}) == 2
    finally:
        for one in runs:
            one.terminate()
            one.communicate(timeout=PATIENCE)


def test_a_run_without_a_free_cpu_is_left_unpinned_and_says_which_run_has_them(
    pinfold: Pinfold, several_cpus: list[int], tmp_path: Path
) -> None:
    variables = {"PINFOLD_CLAIMS": str(tmp_path)}
    cpu = str(several_cpus[0])
    first = pinfold.start(
        "--policy", "fixed", "--schedule", cpu, "--initialise", "0", "--", "sleep", "1000", env=variables
    )
    try:
        pinned(first.pid)
        other = pinfold.run(
            "--policy", "fixed", "--schedule", cpu, "--initialise", "0", "--", "sleep", "0.5", env=variables
        )
        assert other.status == 0
        assert f"another pinfold (process {first.pid}) has pinned its program to CPU {cpu}" in other.err
        alone = pinfold.run(
            "--claims", "none", "--policy", "fixed", "--schedule", cpu, "--", "sleep", "0.1", env=variables
        )
        assert "another pinfold" not in alone.err
    finally:
        first.kill()
        first.communicate(timeout=PATIENCE)
    again = pinfold.run("--policy", "fixed", "--schedule", cpu, "--", "sleep", "0.1", env=variables)
    assert "another pinfold" not in again.err


def test_ranks_under_a_pinfold_each_are_pinned_to_different_cpus(
    mpi: str, program: Path, pinfold: Pinfold, several_cpus: list[int], tmp_path: Path
) -> None:
    unbound = ["--bind-to", "none"] if mpi == "openmpi" else []
    done = run(tmp_path, f"mpirun.{mpi}", "-n", "2", *unbound, *pinfold.command(*FIRST), "--", program, "pinned")
    assert done.returncode == 0, done.stderr
    ranks = dict(line.split(" on ") for line in done.stdout.splitlines())
    assert sorted(ranks) == ["rank 0", "rank 1"], done.stdout
    assert len(set(ranks.values())) == 2, done.stdout


def test_the_ranks_of_one_run_are_tasks_of_one_program(
    mpi: str, program: Path, pinfold: Pinfold, tmp_path: Path
) -> None:
    record = tmp_path / "run.json"
    command = pinfold.command("--policy", "none", "--json", record)
    done = run(tmp_path, *command, "--", f"mpirun.{mpi}", "-n", "2", program)
    assert done.returncode == 0, done.stderr
    assert {line.split(" on ")[0] for line in done.stdout.splitlines()} == {"rank 0", "rank 1"}
    assert json.loads(record.read_text())["tasks"] >= 3


def test_ranks_that_the_launcher_binds_stay_bound(
    program: Path, mpi: str, pinfold: Pinfold, several_cpus: list[int], tmp_path: Path
) -> None:
    if mpi != "openmpi":
        pytest.skip("MPICH binds no ranks by itself")
    bound = ("mpirun.openmpi", "-n", "2", "--bind-to", "core", program)
    alone = run(tmp_path, *bound)
    if alone.returncode != 0:
        pytest.skip(f"mpirun cannot bind here: {alone.stderr.strip()[-200:]}")
    under = run(tmp_path, *pinfold.command("--policy", "scatter", "--initialise", "0"), "--", *bound)
    assert under.returncode == 0, under.stderr
    assert sorted(under.stdout.splitlines()) == sorted(alone.stdout.splitlines())


def test_a_solver_without_openmp_is_measured_by_its_mpi_calls(
    mpi: str, stencil: Path, pinfold: Pinfold, tmp_path: Path
) -> None:
    record = tmp_path / "run.json"
    done = run(tmp_path, *pinfold.command("--json", record), "--", *launcher(mpi), stencil, "5", "200")
    assert done.returncode == 0, done.stderr
    assert json.loads(record.read_text())["metric"] == {"name": "mpi", "unit": "call", "scope": "program"}
    assert "metric: mpi, in calls/s" in done.stderr
    # Two ranks make six calls in each step.
    assert calls(record) == pytest.approx(2 * 6 * steps(done.stdout), rel=0.05)


def test_a_pinfold_for_each_rank_counts_the_calls_of_its_rank(
    mpi: str, stencil: Path, pinfold: Pinfold, tmp_path: Path
) -> None:
    rank = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}[mpi]
    command = shlex.join(map(str, [*pinfold.command("--json", tmp_path), "--", stencil, "5", "200"]))
    # Each rank writes a record of its own.
    command = command.replace(str(tmp_path), f"{tmp_path}/${rank}.json", 1)
    done = run(tmp_path, *launcher(mpi), "sh", "-c", f"exec {command}")
    assert done.returncode == 0, done.stderr
    for number in (0, 1):
        assert calls(tmp_path / f"{number}.json") == pytest.approx(6 * steps(done.stdout), rel=0.05)


def test_a_program_without_mpi_finds_no_function_of_mpi(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    """Only programs that have MPI get the library with the names of its functions."""
    done = pinfold.run("--policy", "none", "--", compiled("mpi_weak", "-ldl"))
    assert done.out == "weak references: 0, dlsym: 0, MPI 4: 0\n"
