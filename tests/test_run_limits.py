"""`pinfold run` under small resource limits: the program runs as without pinfold, with the limits of its user."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE, Pinfold, Run, environment

#: Limits for bash's `ulimit`, soft and hard. Each is too small for pinfold, or was in an earlier version.
SMALL = ["-s 64", "-s 100", "-f 0", "-f 1", "-n 10", "-n 20", "-v 300000", "-d 60000", "-l 0", "-i 0", "-c 0", "-t 60"]

#: Small limits of the address space, in KiB: the smallest that is promised, and others in which more of pinfold fits.
SMALL_SPACES = ["27000", "40000", "100000"]

#: The address space that pinfold takes at its exec, in bytes: the rest of 24,000 KiB is for its stack and its heap.
LARGEST_LOADED = 25 << 20

#: Another user than root, whose limits the kernel enforces.
USER = 65432

needs_another_user = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without other processes")


def limited(limit: str, *, as_user: bool) -> list[str]:
    """Return the words before a command that limit it, and that change the user where root runs the tests."""
    words = ["bash", "-c", f'ulimit {limit} && exec "$@"', "bash"]
    if as_user and os.geteuid() == 0:
        return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *words]
    return words


def both(pinfold: Pinfold, limit: str, *command: str | Path, as_user: bool) -> tuple[Run, Run]:
    """Run a command with a limit, alone and under a quiet pinfold."""
    prefix = limited(limit, as_user=as_user)
    words = [*prefix, *map(str, command)]
    # Other users may not enter the folder of the test.
    alone = subprocess.run(
        words, capture_output=True, text=True, check=False, env=environment(), timeout=PATIENCE, cwd="/"
    )
    placed = pinfold.run("-qq", "--", *command, prefix=prefix, cwd="/")
    return Run(alone.returncode, alone.stdout, alone.stderr), placed


@pytest.mark.parametrize("as_user", [False, True], ids=["own", "user"])
@pytest.mark.parametrize("limit", SMALL)
def test_a_script_runs_with_its_own_limits_and_its_own_status(pinfold: Pinfold, limit: str, as_user: bool) -> None:
    script = "ulimit -S -a; ulimit -H -a; /bin/true | cat; exit 3"
    alone, placed = both(pinfold, limit, "bash", "-c", script, as_user=as_user)
    assert alone.status == 3
    assert (placed.status, placed.out, placed.err) == (3, alone.out, alone.err)


@pytest.fixture
def static(binary: Path) -> Path:
    """Return the binary if it is linked as releases are; the loader of others and their libraries take more memory."""
    if "INTERP" in segments(binary):
        pytest.skip(f"{binary} is linked dynamically: `make build` builds the one that fits into small limits")
    return binary


def segments(binary: Path) -> str:
    """Return the segments of an executable file as readelf shows them."""
    return subprocess.check_output(["readelf", "--segments", "--wide", binary], text=True)


def test_the_loaded_part_of_the_binary_is_as_small_as_promised(static: Path) -> None:
    loaded = re.findall(r"^ +LOAD +\w+ (\w+) \w+ \w+ (\w+)", segments(static), re.MULTILINE)
    assert loaded
    assert max(int(address, 16) + int(size, 16) for address, size in loaded) <= LARGEST_LOADED


@pytest.mark.usefixtures("static")
@pytest.mark.parametrize("policy", ["none", "auto"])
@pytest.mark.parametrize("as_user", [False, True], ids=["own", "user"])
@pytest.mark.parametrize("kibibytes", SMALL_SPACES)
def test_a_program_runs_in_a_small_address_space(pinfold: Pinfold, kibibytes: str, as_user: bool, policy: str) -> None:
    words = ["sh", "-c", "ulimit -v; exit 3"]
    prefix = limited(f"-v {kibibytes}", as_user=as_user)
    run = pinfold.run("-qq", "--policy", policy, "--", *words, prefix=prefix, cwd="/")
    assert (run.status, run.out, run.err) == (3, f"{kibibytes}\n", "")


@needs_another_user
@pytest.mark.usefixtures("static")
def test_where_the_address_space_is_too_small_one_sentence_says_so(pinfold: Pinfold) -> None:
    run = pinfold.run("--", "true", prefix=limited("-v 27000", as_user=True), cwd="/")
    assert run.status == 0
    assert run.err.splitlines() == [
        "pinfold: stepped aside: 27000 KiB of address space (ulimit -v) are too few for it; "
        "the program runs without pinfold"
    ]


@pytest.mark.parametrize("limit", ["-s 64", "-f 0", "-n 10", "-d 60000"])
def test_a_parallel_program_ends_as_without_pinfold(
    pinfold: Pinfold, compiled: Callable[..., Path], limit: str
) -> None:
    program = compiled("team", "-fopenmp")
    alone, placed = both(pinfold, limit, program, as_user=False)
    assert alone.status == 0
    assert (placed.status, placed.err) == (0, alone.err)
    assert len(placed.out.splitlines()) == len(alone.out.splitlines())


@needs_another_user
@pytest.mark.parametrize("processes", [1, 3, 4, 8])
def test_a_limit_of_processes_leaves_the_program_as_many_as_without_pinfold(pinfold: Pinfold, processes: int) -> None:
    # A shell and as many others at once as the limit permits.
    script = "echo done" + " | cat" * max(processes - 2, 0) + "; exit 3"
    alone, placed = both(pinfold, f"-u {processes}", "bash", "-c", script, as_user=True)
    assert (placed.status, placed.out, placed.err) == (alone.status, alone.out, alone.err)


@needs_another_user
def test_stepping_aside_is_said_in_one_sentence_with_the_limit(pinfold: Pinfold) -> None:
    run = pinfold.run("--", "sh", "-c", "exit 3", prefix=limited("-u 2", as_user=True), cwd="/")
    assert run.status == 3
    assert run.err.splitlines() == [
        "pinfold: stepped aside: 2 processes (ulimit -u) are too few for the program and for it; "
        "the program runs without pinfold"
    ]


@needs_another_user
def test_what_limits_the_cpus_of_the_program_is_never_dropped(pinfold: Pinfold) -> None:
    cpu = str(min(os.sched_getaffinity(0)))
    prefix = limited("-u 1", as_user=True)
    run = pinfold.run("--physcpubind", cpu, "--", "echo", "runs", prefix=prefix, cwd="/")
    assert (run.status, run.out) == (125, "")
    assert "cannot start a thread" in run.err


@needs_another_user
def test_a_command_that_is_not_found_has_its_status_where_pinfold_steps_aside(pinfold: Pinfold) -> None:
    run = pinfold.run("-qq", "--", "/nowhere/program", prefix=limited("-u 1", as_user=True), cwd="/")
    assert (run.status, run.out) == (127, "")
