"""Cpusets that shrink and grow while pinfold works: a program ends with the masks that it has without pinfold.

`STORMS` sets the number of storms; `make test-kills` sets 500.
"""

import os
import random
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE, Pinfold, environment, eventually, kill_with_guard

STORMS = int(os.environ.get("STORMS", "8"))


def allowed(process: int) -> dict[int, set[int]]:
    """Return the mask of each thread of a process, with CPUs that are offline."""
    found = {}
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("Cpus_allowed_list:"))
        found[int(status.parent.name)] = cpus(line.split()[1])
    return found


def cpus(text: str) -> set[int]:
    """Parse a CPU list."""
    ranges = [part.split("-") for part in text.strip().split(",")]
    return {cpu for first, *last in ranges for cpu in range(int(first), int((last or [first])[0]) + 1)}


class Cpuset:
    """A control group with a cpuset of its own, in either version of control groups."""

    def __init__(self, hierarchy: Path, version: int) -> None:
        self.version = version
        self.path = hierarchy / f"pinfold-test-{uuid.uuid4().hex[:8]}"
        self.path.mkdir()
        if version == 1:
            (self.path / "cpuset.mems").write_text((hierarchy / "cpuset.mems").read_text())

    def set(self, allowed: set[int]) -> None:
        """Change the CPUs that it allows."""
        (self.path / "cpuset.cpus").write_text(",".join(map(str, sorted(allowed))))

    @property
    def within(self) -> tuple[str, ...]:
        """Return the start of a command whose process moves there first."""
        return ("sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh")

    def remove(self) -> None:
        """End what still runs there, and remove it."""
        for process in (self.path / "cgroup.procs").read_text().split():
            os.kill(int(process), signal.SIGKILL)
        eventually(lambda: not (self.path / "cgroup.procs").read_text(), "the processes of the group end")
        self.path.rmdir()


def hierarchies() -> list[tuple[Path, int]]:
    """Return where hierarchies with cpusets are mounted, and their versions."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, file_system = line.partition(" - ")
        at, kind, options = Path(mount.split()[4]), file_system.split()[0], file_system.split()[-1].split(",")
        if kind == "cgroup" and "cpuset" in options:
            found.append((at, 1))
        if kind == "cgroup2" and "cpuset" in (at / "cgroup.subtree_control").read_text().split():
            found.append((at, 2))
    return found


@pytest.fixture
def cpuset(several_cpus: list[int]) -> Iterator[Cpuset]:
    """Return a control group that allows all CPUs."""
    if os.geteuid() != 0:
        pytest.skip("only root may change cpusets")
    found = hierarchies()
    if not found:
        pytest.skip("no hierarchy of control groups with cpusets is mounted here, or it gives its groups none")
    group = Cpuset(*found[0])
    try:
        group.set(set(several_cpus))
        yield group
    finally:
        group.remove()


class Started:
    """A program of two threads in a cpuset, and a pinfold that places it."""

    def __init__(self, pinfold: Pinfold, program: Path, cpuset: Cpuset, folder: Path) -> None:
        self.pinfold, self.cpuset, self.journals = pinfold, cpuset, folder / "journals"
        self.process = subprocess.Popen([*cpuset.within, program, "2"], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.number = int(self.process.stdout.readline())
        eventually(lambda: len(allowed(self.number)) == 2, "the program has its threads")

    def attach(self, *options: str) -> "subprocess.Popen[str]":
        """Attach a pinfold that pins the threads."""
        command = [str(self.pinfold.binary), "run", "--journals", str(self.journals), "-p", str(self.number)]
        return subprocess.Popen(
            [*command, "--policy", "fixed", *options],
            env=environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def attach_and_pin(self) -> "subprocess.Popen[str]":
        """The same, and wait until both threads are pinned."""
        attached = self.attach()
        eventually(lambda: all(len(mask) == 1 for mask in allowed(self.number).values()), "the threads are pinned")
        return attached

    def reset(self) -> "subprocess.CompletedProcess[str]":
        """Run `pinfold reset`."""
        command = [str(self.pinfold.binary), "reset", "--journals", str(self.journals)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def becomes(self, mask: set[int]) -> None:
        """Wait until all threads have this mask."""
        eventually(lambda: set(map(frozenset, allowed(self.number).values())) == {frozenset(mask)}, f"it has {mask}")


@pytest.fixture
def start(pinfold: Pinfold, compiled: Callable[..., Path], cpuset: Cpuset, tmp_path: Path) -> Callable[[], Started]:
    """Return a function that starts a program in the cpuset."""
    return lambda: Started(pinfold, compiled("idle"), cpuset, tmp_path)


@pytest.mark.parametrize("options", [("--policy", "none"), ("--policy", "fixed"), ()])
def test_a_cpuset_that_grows_reaches_a_program_that_was_run(
    pinfold: Pinfold, compiled: Callable[..., Path], cpuset: Cpuset, several_cpus: list[int], options: tuple[str, ...]
) -> None:
    """The sleeper outlives the program, and with it pinfold."""
    one = {several_cpus[0]}
    cpuset.set(one)
    run = pinfold.run(*options, "--", "sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!", prefix=cpuset.within)
    sleeper = int(run.out)
    assert allowed(sleeper) == {sleeper: one}
    cpuset.set(set(several_cpus))
    assert allowed(sleeper) == {sleeper: set(several_cpus)}


@pytest.mark.parametrize("policy", ["none", "fixed"])
def test_a_cpuset_that_grows_reaches_the_threads_of_llvms_openmp_as_without_pinfold(
    pinfold: Pinfold, compiled: Callable[..., Path], cpuset: Cpuset, several_cpus: list[int], policy: str
) -> None:
    """The agent gives the thread in which LLVM's runtime begins the mask that it had."""
    program = compiled("openmp_waits", "-fopenmp", compiler="clang")
    cpuset.set({several_cpus[0]})
    alone = subprocess.Popen([*cpuset.within, program], stdout=subprocess.PIPE, text=True)
    placed = pinfold.start("--policy", policy, "--", program, prefix=cpuset.within)
    assert alone.stdout
    assert placed.stdout
    numbers = int(alone.stdout.readline()), int(placed.stdout.readline())
    cpuset.set(set(several_cpus))
    without, within = (allowed(number)[number] for number in numbers)
    assert within == without or (policy == "fixed" and len(within) == 1)
    for process in (alone, placed):
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_what_the_user_chose_stays_when_a_cpuset_grows(
    pinfold: Pinfold, cpuset: Cpuset, several_cpus: list[int]
) -> None:
    one, command = {several_cpus[0]}, "sleep 600 > /dev/null 2>&1 & echo $!"
    chosen = ("taskset", "-c", str(several_cpus[0]))
    run = pinfold.run("--policy", "none", "--", "sh", "-c", command, prefix=(*cpuset.within, *chosen))
    assert allowed(int(run.out)) == {int(run.out): one}
    run = pinfold.run("--physcpubind", str(several_cpus[0]), "--", "sh", "-c", command, prefix=cpuset.within)
    assert allowed(int(run.out)) == {int(run.out): one}


def test_threads_that_pinfold_lets_go_in_a_small_cpuset_get_the_cpus_that_it_gains(
    start: Callable[[], Started], cpuset: Cpuset, several_cpus: list[int]
) -> None:
    cpuset.set({several_cpus[0]})
    program = start()
    attached = program.attach_and_pin()
    attached.send_signal(signal.SIGINT)
    attached.communicate(timeout=PATIENCE)
    cpuset.set(set(several_cpus))
    program.becomes(set(several_cpus))


@pytest.mark.parametrize("end", ["in order", "by a kill", "by a kill of both"])
def test_a_pinning_that_a_cpuset_hides_does_not_return(
    start: Callable[[], Started], cpuset: Cpuset, several_cpus: list[int], end: str
) -> None:
    program = start()
    attached = program.attach_and_pin()
    # One of the two pinnings is hidden.
    cpuset.set({several_cpus[0]})
    if end == "in order":
        attached.send_signal(signal.SIGINT)
        attached.communicate(timeout=PATIENCE)
    elif end == "by a kill":
        attached.kill()
        attached.wait()
        eventually(lambda: not list(program.journals.iterdir()), "the guard has rolled the changes back")
    else:
        kill_with_guard(attached)
        assert program.reset().returncode == 0
    cpuset.set(set(several_cpus))
    program.becomes(set(several_cpus))
    assert program.reset().stdout == "nothing to roll back\n"


def test_a_mask_that_somebody_sets_in_a_small_cpuset_stays(
    start: Callable[[], Started], cpuset: Cpuset, several_cpus: list[int]
) -> None:
    program = start()
    attached = program.attach_and_pin()
    pinned = {cpu: thread for thread, (cpu,) in allowed(program.number).items()}
    thread, other = pinned[several_cpus[0]], {several_cpus[1]}
    os.sched_setaffinity(thread, other)
    attached.send_signal(signal.SIGINT)
    attached.communicate(timeout=PATIENCE)
    assert allowed(program.number)[thread] == other


@pytest.mark.parametrize("removed", ["before the kill", "while it runs"])
def test_the_guard_finds_changes_whose_journal_was_removed(
    start: Callable[[], Started], several_cpus: list[int], removed: str
) -> None:
    program = start()
    attached = program.attach_and_pin()
    subprocess.run(["rm", "-r", program.journals], check=True)
    if removed == "while it runs":
        eventually(lambda: list(program.journals.glob("*.journal")), "pinfold writes the journal again")
        kill_with_guard(attached)
        assert program.reset().returncode == 0
    else:
        attached.kill()
    program.becomes(set(several_cpus))
    attached.wait()


def narrower(chance: random.Random, start: Callable[[], Started], several_cpus: list[int]) -> tuple[bool, bool]:
    """Let a storm pass over a program that pinfold places and one that it does not.

    Returns whether a thread of the first ends narrower than those of the other, and whether one was pinned meanwhile.
    """
    program, control = start(), start()
    cpuset, pinned = program.cpuset, False
    sets = [{several_cpus[0]}, {several_cpus[1]}, set(several_cpus)]
    cpuset.set(chance.choice([*sets, sets[-1]]))
    # Threads cannot be pinned while the cpuset forbids it.
    everything = allowed(control.number)[control.number] == sets[-1]
    attached = program.attach_and_pin() if everything else program.attach()
    for _ in range(chance.randrange(2, 40)):
        cpuset.set(chance.choice(sets))
        pinned |= allowed(program.number) != allowed(control.number)
    end = chance.choice(["in order", "by a kill", "by a kill of both"])
    if end == "in order":
        attached.send_signal(signal.SIGINT)
    elif end == "by a kill":
        attached.kill()
    else:
        kill_with_guard(attached)
    # The storm goes on while changes are rolled back.
    for _ in range(chance.randrange(40)):
        cpuset.set(chance.choice(sets))
    attached.communicate(timeout=PATIENCE)
    if end == "by a kill of both":
        program.reset()
    cpuset.set(sets[-1])
    eventually(lambda: not list(program.journals.glob("*")), "all changes are rolled back")
    masks = allowed(program.number), allowed(control.number)
    for each in (program, control):
        each.process.kill()
        each.process.communicate()
    return any(mask != sets[-1] for mask in masks[0].values()), pinned


def test_no_storm_of_cpusets_leaves_a_thread_narrower_than_without_pinfold(
    start: Callable[[], Started], several_cpus: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 31)))
    chance = random.Random(seed)
    storms = [narrower(chance, start, several_cpus) for _ in range(STORMS)]
    with capsys.disabled():
        print(f" CHAOS_SEED={seed}: {sum(left for left, _ in storms)} of {STORMS} ", end="", flush=True)
    assert [number for number, (left, _) in enumerate(storms) if left] == []
    # Otherwise no storm has met a pinned thread, and the test has shown nothing.
    assert any(pinned for _, pinned in storms)
