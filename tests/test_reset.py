"""`pinfold reset` and the journals that it reads: which changes it rolls back, and which it leaves."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import CPUS, PATIENCE, Pinfold, environment, eventually, kill_with_guard, masks

pytestmark = pytest.mark.usefixtures("several_cpus")


@dataclass
class Left:
    """A pinfold with a program of two threads that outlives it, and its journals."""

    binary: Path
    journals: Path
    process: "subprocess.Popen[str]"
    program: int

    def reset(self, *options: str) -> "subprocess.CompletedProcess[str]":
        """Run `pinfold reset OPTIONS`."""
        return subprocess.run(
            [self.binary, "reset", "--journals", self.journals, *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def entries(self, *options: str) -> Any:
        """Return the output of `pinfold reset --json OPTIONS` for each journal."""
        return json.loads(self.reset("--json", *options).stdout)["journals"]

    def kill(self) -> None:
        """Kill pinfold together with its guard."""
        kill_with_guard(self.process)

    def all_free(self) -> bool:
        """Return whether each thread may run on all allowed CPUs."""
        return all(mask == set(CPUS) for mask in masks(self.program).values())


@pytest.fixture
def start(pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path) -> Iterator[Callable[..., Left]]:
    """Return a function that starts a program that is pinned and outlives pinfold."""
    begun = []

    def begin(*options: str) -> Left:
        journals = tmp_path / "journals"
        process = pinfold.start(
            "--journals", journals, "--policy", "fixed", *options, "--", compiled("spin"), "2", "600"
        )
        assert process.stdout
        begun.append(int(process.stdout.readline()))
        eventually(lambda: all(len(mask) == 1 for mask in masks(begun[-1]).values()), "the program is pinned")
        return Left(pinfold.binary, journals, process, begun[-1])

    yield begin
    for program in begun:
        with suppress(ProcessLookupError):
            os.kill(program, signal.SIGKILL)


def test_threads_that_a_killed_pinfold_and_guard_left_pinned_are_unpinned(start: Callable[..., Left]) -> None:
    left = start("--outlive")
    left.kill()
    assert not left.all_free()
    (entry,) = left.entries()
    assert (entry["state"], len(entry["calls"])) == ("undone", 2)
    assert left.all_free()
    assert list(left.journals.iterdir()) == []


def test_a_dry_run_prints_the_calls_and_makes_none(start: Callable[..., Left]) -> None:
    left = start("--outlive")
    left.kill()
    before = masks(left.program)
    said = left.reset("--dry-run").stdout
    for thread in before:
        assert f"sched_setaffinity({thread}, " in said, said
    assert masks(left.program) == before
    assert len(list(left.journals.iterdir())) == 1


def test_a_later_mask_of_another_program_stays(start: Callable[..., Left]) -> None:
    left = start("--outlive")
    left.kill()
    first, (pinned,) = left.program, os.sched_getaffinity(left.program)
    other = {next(cpu for cpu in CPUS if cpu != pinned)}
    os.sched_setaffinity(first, other)
    (entry,) = left.entries()
    assert len(entry["calls"]) == len(entry["left_alone"]) == 1
    assert str(first) in entry["left_alone"][0]
    assert os.sched_getaffinity(first) == other


def test_the_journal_of_a_running_pinfold_is_not_used(start: Callable[..., Left]) -> None:
    left = start("--outlive")
    before = masks(left.program)
    assert [entry["state"] for entry in left.entries()] == ["running"]
    assert masks(left.program) == before
    left.process.terminate()
    left.process.communicate(timeout=PATIENCE)
    assert list(left.journals.iterdir()) == []


def test_the_next_start_reports_remaining_changes_and_how_to_roll_them_back(
    start: Callable[..., Left], pinfold: Pinfold
) -> None:
    left = start("--outlive")
    left.kill()
    run = pinfold.run("--journals", left.journals, "--policy", "none", "--", "true")
    assert run.said("2 masks or registers changed; `pinfold reset`") == 1
    left.reset()
    run = pinfold.run("--journals", left.journals, "--policy", "none", "--", "true")
    assert run.said("`pinfold reset`") == 0


def test_the_part_of_a_journal_before_damage_is_rolled_back_and_the_journal_is_renamed(
    start: Callable[..., Left],
) -> None:
    left = start("--outlive")
    left.kill()
    (journal,) = left.journals.iterdir()
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([*lines, "this is no record", *lines[1:]]) + "\n")
    (entry,) = left.entries()
    assert f"line {len(lines) + 1}" in entry["damage"]
    assert entry["set_aside"].endswith(".damaged")
    assert left.all_free()
    assert left.entries() == []


def test_a_journal_of_an_earlier_boot_is_void(start: Callable[..., Left], tmp_path: Path) -> None:
    left = start("--outlive")
    left.kill()
    boot = tmp_path / "boot_id"
    boot.write_text("00000000-0000-0000-0000-000000000000\n")
    before = masks(left.program)
    command = [str(left.binary), "reset", "--journals", str(left.journals)]
    mounted = f'mount --bind {boot} /proc/sys/kernel/random/boot_id && exec "$@"'
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, "sh", *command], capture_output=True, text=True, check=False
    )
    if "nothing to roll back" not in run.stdout:
        pytest.skip(f"another boot cannot be simulated here: {run.stderr.strip()}")
    assert masks(left.program) == before
    assert list(left.journals.iterdir()) == []


def in_a_namespace(*flags: str) -> list[str]:
    """Return words that run a command as the first process of a new PID namespace; skip where that is forbidden."""
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *flags]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no namespace can be made here: {tried.stderr.strip()}")
    return words


@dataclass
class Container:
    """A PID namespace with a program that a killed pinfold has left pinned, seen from outside."""

    journals: Path
    init: int
    program: int

    def is_pinned(self) -> bool:
        """Return whether each thread of the program is on one CPU."""
        return all(len(mask) == 1 for mask in masks(self.program).values())


@pytest.fixture
def container(
    pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Container]:
    """Return a namespace, made with the test's flags, in which pinfold and its guard have been killed."""
    journals = tmp_path / "journals"
    words = [*in_a_namespace(*getattr(request, "param", ())), "sh", "-c", '"$@" & wait; exec sleep 600', "sh"]
    command = pinfold.command(
        "--journals", journals, "--outlive", "--policy", "fixed", "--", compiled("spin"), "2", "600"
    )
    outer = subprocess.Popen([*words, *command], stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert outer.stdout
        outer.stdout.readline()

        def child(process: int, name: str) -> int | None:
            # Each thread has its own children.
            for children in Path(f"/proc/{process}/task").glob("*/children"):
                for word in children.read_text().split():
                    if Path(f"/proc/{word}/comm").read_text() == f"{name}\n":
                        return int(word)
            return None

        init = child(outer.pid, "sh")
        assert init
        run = child(init, "pinfold")
        assert run
        program = child(run, compiled("spin").name)
        assert program
        guard = child(run, "pinfold-guard")
        assert guard
        one = Container(journals, init, program)
        eventually(one.is_pinned, "the program is pinned")
        os.kill(guard, signal.SIGKILL)
        os.kill(run, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{run}").exists(), "pinfold has ended")
        yield one
    finally:
        outer.kill()
        outer.wait()


#: A namespace with the host's clock, and one whose boot was a day earlier.
@pytest.mark.parametrize("container", [(), ("--time", "--boottime", "86400")], indirect=True)
def test_a_journal_of_another_namespace_is_rolled_back_only_by_the_named_command(
    container: Container, pinfold: Pinfold
) -> None:
    reset: list[str | Path] = [pinfold.binary, "reset", "--journals", container.journals]
    before = masks(container.program)
    said = subprocess.run(reset, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert said.returncode == 1
    assert "left alone" in said.stdout
    run = pinfold.run("--journals", container.journals, "--policy", "none", "--", "true")
    assert run.said("left by a pinfold elsewhere") == 1
    assert (masks(container.program), len(list(container.journals.iterdir()))) == (before, 1)
    found = re.search(r"`(nsenter [^`]*)`", said.stdout)
    assert found, said.stdout
    command = found[1].replace(" pinfold ", f" {pinfold.binary} ")
    undone = subprocess.run(command.split(), capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (undone.returncode, undone.stdout.splitlines()[-1]) == (0, "2 changes rolled back"), undone.stderr
    assert all(mask == set(CPUS) for mask in masks(container.program).values())
    assert list(container.journals.iterdir()) == []


def test_a_journal_of_a_namespace_that_has_ended_is_removed(container: Container, binary: Path) -> None:
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        pytest.skip("these tests run in a container, which does not see all processes")
    os.kill(container.init, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{container.init}").exists(), "the namespace has ended")
    run = subprocess.run(
        [binary, "reset", "--journals", container.journals], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "nothing to roll back\n")
    assert list(container.journals.iterdir()) == []


def test_a_proc_of_another_namespace_is_named_and_nothing_is_changed(container: Container, binary: Path) -> None:
    run = subprocess.run(
        ["nsenter", "-t", str(container.init), "-p", binary, "reset", "--journals", container.journals],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 125
    assert "unshare --mount-proc" in run.stderr
    assert container.is_pinned()


def test_threads_that_were_kept_pinned_are_unpinned_only_on_request(
    pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    process = pinfold.start(
        "--journals", tmp_path / "journals", "--policy", "fixed", "--keep-pinned", "--", compiled("heir")
    )
    assert process.stdout
    heir = int(process.stdout.readline())
    try:
        eventually(lambda: all(len(mask) == 1 for mask in masks(heir).values()), "the heir is pinned")
        process.communicate(timeout=PATIENCE)
        left = Left(pinfold.binary, tmp_path / "journals", process, heir)
        assert [entry["state"] for entry in left.entries()] == ["kept"]
        assert not left.all_free()
        (entry,) = left.entries("--kept")
        assert (entry["state"], len(entry["calls"])) == ("undone", 2)
        assert left.all_free()
    finally:
        os.kill(heir, signal.SIGKILL)


def test_a_journal_of_programs_that_have_ended_is_removed_by_the_next_start(
    pinfold: Pinfold, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    journals = tmp_path / "journals"
    process = pinfold.start("--journals", journals, "--policy", "fixed", "--keep-pinned", "--", compiled("heir"))
    assert process.stdout
    heir = int(process.stdout.readline())
    eventually(lambda: all(len(mask) == 1 for mask in masks(heir).values()), "the heir is pinned")
    process.communicate(timeout=PATIENCE)
    os.kill(heir, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{heir}/task").exists(), "the heir has ended")
    run = pinfold.run("--journals", journals, "--policy", "none", "--", "true")
    assert run.said("`pinfold reset`") == 0
    assert list(journals.iterdir()) == []


def test_a_directory_that_others_may_write_to_is_refused_with_the_remedy(pinfold: Pinfold, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    run = pinfold.run("--journals", tmp_path, "--outlive", "--", "true")
    assert run.status == 125
    assert "--journals" in run.err


def test_prefetchers_without_access_are_reported_and_the_program_runs(pinfold: Pinfold, tmp_path: Path) -> None:
    if Path("/dev/cpu/0/msr").exists():
        pytest.skip("this machine has model-specific registers, and tests are not to change them")
    run = pinfold.run("--journals", tmp_path, "--policy", "none", "--prefetch", "1111", "--", "true")
    assert run.status == 0
    assert run.said("the prefetchers stay as they are") == 1


def test_without_remaining_changes_there_is_nothing_to_roll_back(binary: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [binary, "reset", "--journals", tmp_path / "none"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (run.returncode, run.stdout) == (0, "nothing to roll back\n")


def test_a_dry_run_of_run_prints_the_first_candidate_and_runs_nothing(pinfold: Pinfold, tmp_path: Path) -> None:
    file = tmp_path / "touched"
    schedule = ",".join(map(str, reversed(CPUS[:2])))
    run = pinfold.run("--dry-run", "--schedule", schedule, "--", "touch", file)
    assert run.status == 0
    assert run.out.splitlines()[:2] == [
        f"sched_setaffinity(thread of rank 0, {CPUS[1]})",
        f"sched_setaffinity(thread of rank 1, {CPUS[0]})",
    ]
    run = pinfold.run("--dry-run", "--with", "scx", "--schedule", schedule, "--", "touch", file)
    assert run.out.splitlines()[:2] == [
        "sched_setscheduler(the program, SCHED_EXT)",
        f"the thread of rank 0 prefers the last-level cache of {CPUS[1]}",
    ]
    assert not file.exists()
