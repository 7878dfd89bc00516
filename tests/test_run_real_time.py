"""`pinfold run` and threads with deadlines or real-time priority: none is pinned, and the kernel refuses none."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, Pinfold, eventually, printed

pytestmark = pytest.mark.usefixtures("several_cpus", "real_time")


def mask(task: int) -> set[int]:
    """Return the CPUs of a task."""
    return os.sched_getaffinity(task)


@dataclass
class RealTime:
    """tests/programs/real_time.c under a pinfold that pins its threads."""

    started: "subprocess.Popen[str]"
    first: int
    worker: int

    def ask(self, what: str) -> str:
        """Have the worker change a policy; return the answer."""
        assert self.started.stdin
        assert self.started.stdout
        self.started.stdin.write(f"{what}\n")
        self.started.stdin.flush()
        return self.started.stdout.readline().strip()

    def report(self) -> str:
        """Wait until pinfold reports that it leaves a thread alone; return what it said up to the reason."""
        return printed(self.started, r"is left alone\b.*\.")

    def pinned(self, task: int) -> set[int]:
        """Wait until a thread is pinned; return its CPU."""
        eventually(lambda: len(mask(task)) == 1, "the thread is pinned")
        return mask(task)

    def both_pinned(self) -> "RealTime":
        """Wait until both threads are pinned."""
        for task in (self.first, self.worker):
            self.pinned(task)
        return self


@pytest.fixture
def real_time(compiled: Callable[..., Path]) -> None:
    """Skip where no thread can have a deadline."""
    tried = subprocess.run([compiled("real_time")], input="deadline\nend\n", capture_output=True, text=True, check=True)
    if "done" not in tried.stdout:
        pytest.skip(f"no thread can have a deadline here: {tried.stdout.splitlines()[1]}")


@pytest.fixture
def start(pinfold: Pinfold, compiled: Callable[..., Path]) -> Iterator[Callable[..., RealTime]]:
    """Return a function that runs the program, compiled with these flags, after a prefix."""
    begun: list[RealTime] = []

    def begin(*flags: str, prefix: Sequence[str] = ()) -> RealTime:
        started = pinfold.start("--policy", "fixed", "--", *prefix, compiled("real_time", *flags))
        assert started.stdout
        begun.append(RealTime(started, *map(int, started.stdout.readline().split())))
        return begun[-1]

    yield begin
    for program in begun:
        program.started.kill()
        program.started.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("what", ["deadline", "attr", "fifo", "rr"])
def test_a_pinned_thread_that_asks_is_unpinned_before_and_reported_once(
    start: Callable[..., RealTime], what: str
) -> None:
    program = start().both_pinned()
    others = mask(program.first)
    assert program.ask(what) == "done"
    assert mask(program.worker) == set(CPUS)
    report = program.report()
    assert re.search(rf"\b{program.worker}\b", report)
    assert ("a deadline" if what == "deadline" else "real-time priority") in report
    # pinfold has looked at it, and did not pin it again.
    assert mask(program.worker) == set(CPUS)
    assert mask(program.first) == others
    _, rest = program.started.communicate("end\n", timeout=PATIENCE)
    assert "is left alone" not in rest


def test_so_is_one_for_which_another_thread_asks(start: Callable[..., RealTime]) -> None:
    program = start().both_pinned()
    assert [program.ask(f"first {what}") for what in ("deadline", "normal", "rr")] == ["done"] * 3
    assert mask(program.first) == set(CPUS)
    assert len(mask(program.worker)) == 1


def test_a_thread_that_gives_its_priority_up_is_pinned_again(start: Callable[..., RealTime]) -> None:
    program = start().both_pinned()
    cpu = mask(program.worker)
    assert program.ask("fifo") == "done"
    program.report()
    assert program.ask("normal") == "done"
    assert program.pinned(program.worker) == cpu


def test_a_mask_that_the_program_chose_is_not_widened(start: Callable[..., RealTime]) -> None:
    program = start().both_pinned()
    (cpu,) = mask(program.worker)
    assert program.ask(f"pin {cpu}") == "done"
    assert program.ask("deadline") == "Operation not permitted"
    assert mask(program.worker) == {cpu}


def test_a_static_program_gets_its_mask_back_when_pinfold_sees_the_priority(start: Callable[..., RealTime]) -> None:
    program = start("-static").both_pinned()
    assert program.ask("fifo") == "done"
    eventually(lambda: mask(program.worker) == set(CPUS), "the thread may run on all CPUs")
    assert len(mask(program.first)) == 1


def test_threads_that_begin_with_real_time_priority_are_never_pinned(start: Callable[..., RealTime]) -> None:
    program = start(prefix=["chrt", "-f", "1"])
    assert f"of process {program.first} is left alone, and so are others like it" in program.report()
    assert mask(program.first) == mask(program.worker) == set(CPUS)
