"""`pinfold run` and the ends of processes: what remains after either ends first, and after thousands of ends."""

import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, Pinfold, alive, eventually, masks


@contextmanager
def doomed(process: int) -> Iterator[int]:
    """Kill a process that a test has left running on purpose."""
    try:
        yield process
    finally:
        os.kill(process, signal.SIGKILL)


def all_pinned(process: int) -> bool:
    """Return whether each thread of a process may run on one CPU only."""
    return all(len(mask) == 1 for mask in masks(process).values())


def all_free(process: int) -> bool:
    """Return whether each thread of a process may run on all allowed CPUs."""
    return all(mask == set(CPUS) for mask in masks(process).values())


@pytest.mark.usefixtures("several_cpus")
def test_remaining_processes_of_the_program_are_unpinned(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    process = pinfold.start("--policy", "fixed", "--", compiled("heir"))
    assert process.stdout
    with doomed(int(process.stdout.readline())) as heir:
        eventually(lambda: all_pinned(heir), "the heir is pinned")
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert alive(heir)
        assert all_free(heir)


@pytest.mark.usefixtures("several_cpus")
def test_with_keep_pinned_they_stay_pinned(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    process = pinfold.start("--policy", "fixed", "--keep-pinned", "--", compiled("heir"))
    assert process.stdout
    with doomed(int(process.stdout.readline())) as heir:
        eventually(lambda: all_pinned(heir), "the heir is pinned")
        before = masks(heir)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert masks(heir) == before


def test_a_survivor_without_its_first_thread_does_not_hold_pinfold(
    pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    process = pinfold.start("--", compiled("headless_heir"))
    assert process.stdout
    with doomed(int(process.stdout.readline())) as heir:
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        first, other = sorted(os.listdir(f"/proc/{heir}/task"), key=int)
        assert (alive(int(first)), alive(int(other))) == (False, True)


def test_when_descriptors_run_out_no_thread_is_lost(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    few = ("sh", "-c", 'ulimit -n 100; exec "$@"', "sh")
    run = pinfold.record(
        "-e", "page-faults", "--initialise", "100ms", "-t", "100ms", "--", compiled("spin"), "200", "0.5", prefix=few
    )
    assert run.status == 0
    assert run.json["tasks"] == 200


def test_a_program_ends_with_a_killed_pinfold(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    process = pinfold.start("--", compiled("spin"), "2", "600")
    assert process.stdout
    program = int(process.stdout.readline())
    assert alive(program)
    process.kill()
    eventually(lambda: not alive(program), "the program has ended")
    process.communicate(timeout=PATIENCE)


@pytest.mark.usefixtures("several_cpus")
def test_with_outlive_the_program_continues_unpinned(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    process = pinfold.start("--outlive", "--policy", "fixed", "--", compiled("spin"), "2", "600")
    assert process.stdout
    with doomed(int(process.stdout.readline())) as program:
        eventually(lambda: all_pinned(program), "the program is pinned")
        process.kill()
        process.wait(PATIENCE)
        eventually(lambda: all_free(program), "the program is unpinned")
        assert alive(program)
        assert len(masks(program)) == 2


def test_with_outlive_an_undisturbed_run_is_like_any_other(pinfold: Pinfold) -> None:
    run = pinfold.run("--outlive", "--", "sh", "-c", "exit 9")
    assert run.status == 9


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_two_thousand_short_lives_leave_nothing_behind(
    pinfold: Pinfold, compiled: Callable[..., Path], kind: str, cpu_time: tuple[str, str]
) -> None:
    shared_memory = set(os.listdir("/dev/shm"))
    scratch = pinfold.folder / "scratch"
    scratch.mkdir()
    run = pinfold.record(*cpu_time, "--", compiled("burst"), kind, "2000", env={"TMPDIR": str(scratch)})
    assert run.status == 0, run.err
    left = re.fullmatch(r"ran 2000, tasks 1, children 0, more files (-?\d+), more siblings 0\n", run.out)
    assert left, run.out
    # pinfold opens some for the program's first task, which may not have existed at the first count.
    assert int(left[1]) < 10
    assert run.json["tasks"] == 2001
    assert list(scratch.iterdir()) == []
    assert not [name for name in set(os.listdir("/dev/shm")) - shared_memory if "pinfold" in name]


def test_two_thousand_simultaneous_threads_are_counted(
    pinfold: Pinfold, compiled: Callable[..., Path], cpu_time: tuple[str, str]
) -> None:
    """Counters need a file each, and 2,000 of them are more than the default limit of a process."""
    alone = subprocess.run([compiled("spin"), "2000", "0"], capture_output=True, check=False)
    if alone.returncode != 0 or resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 10_000:
        pytest.skip("2,000 simultaneous threads, or two files for each of them, exceed the limits here")
    few_files = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "sh"]
    run = pinfold.record(*cpu_time, "--", compiled("spin"), "2000", "0.1", prefix=few_files)
    assert run.status == 0, run.err
    assert run.json["tasks"] == 2000
    assert run.said("is not counted") == 0
