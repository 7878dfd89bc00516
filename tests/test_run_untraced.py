"""`pinfold run` and tasks that ptrace does not report: the kernel's threads of io_uring, and `CLONE_UNTRACED`."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, Pinfold, alive, environment, eventually, kill_with_guard, masks

pytestmark = pytest.mark.usefixtures("several_cpus")


def mask(task: int) -> set[int]:
    """Return the CPUs of a task."""
    return os.sched_getaffinity(task)


def all_stopped(process: int) -> bool:
    """Return whether each thread of a process is stopped."""
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{process}/task").glob("*/stat")]
    return set(states) == {"T"}


@dataclass
class Ring:
    """tests/programs/ring.c, and the pinfold or else the program itself that has its standard streams."""

    started: "subprocess.Popen[str]"
    number: int
    worker: int

    def make(self, what: str) -> list[int]:
        """Have the worker create something; return the numbers of the new tasks."""
        assert self.started.stdin
        self.started.stdin.write(f"{what}\n")
        self.started.stdin.flush()
        return self.read()

    def read(self) -> list[int]:
        """Return the numbers of the next line of the program."""
        assert self.started.stdout
        return [int(number) for number in self.started.stdout.readline().split()]

    def pinned(self) -> set[int]:
        """Wait until both threads are pinned; return the worker's CPU."""
        eventually(lambda: len(mask(self.number)) == len(mask(self.worker)) == 1, "the threads are pinned")
        return mask(self.worker)

    def end(self) -> None:
        """End the program."""
        assert self.started.stdin
        self.started.stdin.write("end\n")
        self.started.stdin.flush()
        self.started.wait(timeout=PATIENCE)


@pytest.fixture
def start(pinfold: Pinfold, compiled: Callable[..., Path]) -> Iterator[Callable[..., Ring]]:
    """Return a function that starts the program by `pinfold run OPTIONS`, or alone where there are none."""
    program = compiled("ring")
    tried = subprocess.run([program, "inherits"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(tried.stdout.strip())
    begun: list[Ring] = []

    def begin(*options: str | Path) -> Ring:
        pipe = subprocess.PIPE
        if options:
            started = pinfold.start(*options, "--", program, stderr=subprocess.DEVNULL)
        else:
            started = subprocess.Popen([program], text=True, env=environment(), stdin=pipe, stdout=pipe)
        assert started.stdout
        begun.append(Ring(started, *map(int, started.stdout.readline().split())))
        return begun[-1]

    yield begin
    for ring in begun:
        with suppress(ProcessLookupError):
            os.kill(ring.number, signal.SIGKILL)
        ring.started.kill()
        ring.started.communicate()


def test_the_thread_of_a_ring_runs_where_its_creator_would_run_unpinned(start: Callable[..., Ring]) -> None:
    ring = start("--policy", "fixed")
    cpu = ring.pinned()
    (thread,) = ring.make("ring")
    eventually(lambda: mask(thread) == set(CPUS), "the ring's thread may run on all CPUs")
    assert mask(ring.worker) == cpu
    ring.end()


def test_so_does_one_whose_creator_has_ended(start: Callable[..., Ring]) -> None:
    ring = start("--policy", "fixed")
    ring.pinned()
    (thread,) = ring.make("leave")
    eventually(lambda: mask(thread) == set(CPUS), "the ring's thread may run on all CPUs")
    eventually(lambda: ring.worker not in masks(ring.number), "the ring's creator has ended")
    ring.end()


def test_so_do_threads_and_processes_that_are_created_untraced(start: Callable[..., Ring]) -> None:
    ring = start("--policy", "fixed")
    cpu = ring.pinned()
    thread, process = ring.make("untraced")
    eventually(lambda: mask(thread) == mask(process) == set(CPUS), "both may run on all CPUs")
    assert mask(ring.worker) == cpu
    ring.end()


def test_the_thread_of_a_ring_stays_on_the_cpu_that_the_program_chose(start: Callable[..., Ring]) -> None:
    ring = start("--policy", "fixed")
    own = ring.pinned()
    other = mask(ring.number)
    assert other != own
    (chosen,) = ring.make(f"own {min(other)}")
    (later,) = ring.make("ring")
    eventually(lambda: mask(later) == set(CPUS), "a thread that was created later is found")
    assert mask(chosen) == other
    ring.end()


def test_what_was_created_just_before_the_end_is_unpinned(start: Callable[..., Ring]) -> None:
    ring = start("--policy", "fixed")
    heir, _ = ring.make("heir")
    try:
        ring.end()
        assert alive(heir)
        assert len(masks(heir)) == 3
        assert all(cpus == set(CPUS) for cpus in masks(heir).values())
    finally:
        os.kill(heir, signal.SIGKILL)


def test_of_a_running_process_the_threads_of_rings_are_not_pinned(start: Callable[..., Ring], pinfold: Pinfold) -> None:
    ring = start()
    (before,) = ring.make("ring")
    following = pinfold.start("--policy", "fixed", "--pid", str(ring.number))
    ring.pinned()
    (after,) = ring.make("ring")
    eventually(lambda: mask(after) == set(CPUS), "the new ring's thread may run on all CPUs")
    assert mask(before) == set(CPUS)
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=PATIENCE)
    assert len(masks(ring.number)) == 4
    assert all(cpus == set(CPUS) for cpus in masks(ring.number).values())


@pytest.mark.parametrize("killed", ["pinfold", "with its guard"])
def test_a_kill_leaves_no_ring_on_the_cpu_of_a_creator_that_has_ended(
    start: Callable[..., Ring], pinfold: Pinfold, tmp_path: Path, killed: str
) -> None:
    journals = tmp_path / "journals"
    ring = start("--policy", "fixed", "--outlive", "--journals", journals)
    cpu = ring.pinned()
    # A pinfold that is stopped finds nothing, and does not know of the creator's end.
    ring.started.send_signal(signal.SIGSTOP)
    eventually(lambda: all_stopped(ring.started.pid), "pinfold is stopped")
    (thread,) = ring.make("leave")
    eventually(lambda: not alive(ring.worker), "the ring's creator has ended")
    assert mask(thread) == cpu
    if killed == "pinfold":
        ring.started.kill()
        eventually(lambda: mask(thread) == set(CPUS), "the guard restores the mask")
        return
    kill_with_guard(ring.started)
    assert mask(thread) == cpu
    subprocess.run([pinfold.binary, "reset", "--journals", journals], check=True, timeout=PATIENCE)
    assert mask(thread) == set(CPUS)
