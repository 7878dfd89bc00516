"""`pinfold run --pid`: attaching to a running process, and letting it go as it was."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, QUICK, Pinfold, eventually, kill_with_guard, masks, printed

#: Two threads that work beside the first one, and a line for each word on standard input.
PROGRAM = """
import os, subprocess, sys, threading
def work():
    while True:
        sum(range(1000))
def begin():
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread.native_id
workers = [begin(), begin()]
print(os.getpid(), *workers, flush=True)
for line in sys.stdin:
    word, *values = line.split()
    if word == "thread":
        print(begin(), flush=True)
    elif word == "child":
        print(subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL).pid, flush=True)
    elif word == "pin":
        os.sched_setaffinity(int(values[0]), {int(values[1])})
        print("done", flush=True)
    elif word == "end":
        os._exit(int(values[0]))
"""


@dataclass
class Victim:
    """A running program."""

    process: "subprocess.Popen[str]"
    number: int
    workers: list[int]

    def ask(self, *words: object) -> str:
        """Give the program a command, and return its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def state(self) -> tuple[dict[int, set[int]], set[str]]:
        """Return the mask of each thread, and the memory policies of its areas."""
        maps = Path(f"/proc/{self.number}/numa_maps")
        lines = maps.read_text().splitlines() if maps.exists() else []
        return masks(self.number), {line.split()[1] for line in lines}

    def tracers(self) -> set[str]:
        """Return the tracers of its threads."""
        fields = (task.read_text() for task in Path(f"/proc/{self.number}/task").glob("*/status"))
        return {line.split()[1] for text in fields for line in text.splitlines() if line.startswith("TracerPid")}


@pytest.fixture
def victim(python: str) -> Iterator[Victim]:
    """Return a program of three threads that pinfold did not start."""
    process = subprocess.Popen([python, "-c", PROGRAM], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    number, *workers = map(int, process.stdout.readline().split())
    yield Victim(process, number, workers)
    process.kill()
    process.communicate(timeout=PATIENCE)


@dataclass(frozen=True)
class Attaching:
    """Attaches to processes."""

    pinfold: Pinfold
    journals: Path

    def start(self, victim: Victim, *options: str | Path) -> "subprocess.Popen[str]":
        """Attach and wait until each thread is on one CPU."""
        process = self.pinfold.start("--journals", self.journals, "-p", str(victim.number), *options)
        eventually(lambda: all(len(mask) == 1 for mask in masks(victim.number).values()), "each thread is pinned")
        return process

    def refusal(self, number: int, *options: str) -> str:
        """Try to attach to a process that is refused, and return why."""
        run = self.pinfold.run("--journals", self.journals, "-p", str(number), *options)
        assert run.status == 125, run.err
        return run.err


@pytest.fixture
def attaching(pinfold: Pinfold, tmp_path: Path) -> Attaching:
    """Return `pinfold run --pid` with journals of its own."""
    return Attaching(pinfold, tmp_path / "journals")


@pytest.mark.usefixtures("several_cpus")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_the_process_go_as_it_was(
    attaching: Attaching, victim: Victim, number: signal.Signals, tmp_path: Path
) -> None:
    before = victim.state()
    record = tmp_path / "record.json"
    process = attaching.start(victim, "--policy", "close", "--json", record)
    new = int(victim.ask("thread"))
    assert len(masks(victim.number)[new]) == 1, "a new thread is pinned before it runs"
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    threads, policies = victim.state()
    assert threads == before[0] | {new: set(CPUS)}
    assert policies == before[1]
    assert victim.tracers() == {"0"}
    assert list(attaching.journals.iterdir()) == []
    assert "runs on" in err
    document = json.loads(record.read_text())
    assert document["attached"] == victim.number
    assert document["command"][-1] == PROGRAM
    assert document["exit_status"] is None
    explained = subprocess.run(
        [attaching.pinfold.binary, "explain", record], capture_output=True, text=True, check=True
    )
    assert f"as process {victim.number}, and pinfold attached to it" in explained.stdout
    assert "Then pinfold let it go" in explained.stdout


@pytest.mark.usefixtures("several_cpus")
def test_after_its_time_the_process_is_let_go(attaching: Attaching, victim: Victim) -> None:
    before = victim.state()
    process = attaching.start(victim, "--policy", "packed", "--for", "500ms")
    assert process.wait(timeout=PATIENCE) == 0
    assert victim.state() == before


def test_the_end_of_the_process_is_reported_and_no_failure(
    attaching: Attaching, victim: Victim, tmp_path: Path
) -> None:
    record = tmp_path / "record.json"
    process = attaching.start(victim, "--policy", "fixed", "--json", record)
    child = int(victim.ask("child"))
    victim.ask("end", 3)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "ended with status 3" in err
    assert json.loads(record.read_text())["exit_status"] == 3
    assert victim.process.wait(timeout=PATIENCE) == 3, "its parent still gets its status"
    assert os.sched_getaffinity(child) == set(CPUS)
    os.kill(child, signal.SIGKILL)


@pytest.mark.usefixtures("several_cpus")
def test_after_a_kill_the_guard_restores_the_masks(attaching: Attaching, victim: Victim) -> None:
    before = victim.state()
    process = attaching.start(victim, "--policy", "fixed")
    process.kill()
    process.wait(timeout=PATIENCE)
    eventually(lambda: victim.state() == before, "the guard has restored the masks")
    eventually(lambda: list(attaching.journals.iterdir()) == [], "the journal is removed")


@pytest.mark.usefixtures("several_cpus")
def test_after_a_kill_of_the_guard_reset_restores_the_masks(attaching: Attaching, victim: Victim) -> None:
    before = victim.state()
    kill_with_guard(attaching.start(victim, "--policy", "fixed"))
    new = int(victim.ask("thread"))
    assert "`pinfold reset`" in attaching.refusal(victim.number)
    subprocess.run(
        [attaching.pinfold.binary, "reset", "--journals", attaching.journals], check=True, capture_output=True
    )
    assert victim.state() == (before[0] | {new: set(CPUS)}, before[1])


@pytest.mark.usefixtures("several_cpus")
def test_masks_of_its_own_stay(attaching: Attaching, victim: Victim) -> None:
    """A thread with a mask from before is not moved out of it; one that sets its mask meanwhile is left alone."""
    first, second = victim.workers
    victim.ask("pin", first, CPUS[0])
    process = attaching.start(victim, "--schedule", str(CPUS[-1]), "--policy", "fixed", "--metric", "io")
    assert masks(victim.number)[first] == {CPUS[0]}
    victim.ask("pin", second, CPUS[0])
    printed(process, f"is not among the task's allowed PUs, {CPUS[0]}\\b")
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert masks(victim.number) == {victim.number: set(CPUS), first: {CPUS[0]}, second: {CPUS[0]}}


@pytest.mark.usefixtures("several_cpus")
def test_the_process_stays_on_its_own_cpus(attaching: Attaching, victim: Victim, tmp_path: Path) -> None:
    for thread in masks(victim.number):
        os.sched_setaffinity(thread, {CPUS[-1]})
    record = tmp_path / "record.json"
    process = attaching.start(victim, "--policy", "spread", "--json", record, "--for", "200ms")
    process.communicate(timeout=PATIENCE)
    assert json.loads(record.read_text())["allowed_pus"] == str(CPUS[-1])
    assert set(map(frozenset, masks(victim.number).values())) == {frozenset(CPUS[-1:])}


def test_a_search_measures_a_running_process(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int]
) -> None:
    """Events are counted, and calls of a function of the program; the unpinned process is the first candidate."""
    program = subprocess.Popen([compiled("spin"), "2", "600"], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout
        number = program.stdout.readline().strip()
        for metric in (("-e", "page-faults"), ("--metric", "uprobe:step")):
            run = pinfold.record("-p", number, *QUICK, *metric, "--for", "1500ms", "--candidates", "2")
            if not run.json["rates"] and "Permission denied" in run.err:
                pytest.skip(f"{metric[1]} cannot be counted here: {run.err}")
            assert run.json["candidates"][0]["pus"] is None
            assert run.json["candidates"][0]["rate"] > 0, run.err
        assert set(map(frozenset, masks(int(number)).values())) == {frozenset(several_cpus)}
    finally:
        program.kill()
        program.communicate()


def test_a_program_that_binds_its_threads_is_only_measured(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int]
) -> None:
    binds = {"OMP_PROC_BIND": "close"}
    program = subprocess.Popen(
        [compiled("spin"), "2", "600"], stdout=subprocess.PIPE, text=True, env=dict(os.environ) | binds
    )
    try:
        assert program.stdout
        run = pinfold.run("-p", program.stdout.readline().strip(), "--policy", "close", "--for", "100ms")
        assert run.said("OMP_PROC_BIND=close: the program binds its own threads") == 1
    finally:
        program.kill()
        program.communicate()


def test_processes_that_are_not_to_be_placed_are_refused(attaching: Attaching, victim: Victim) -> None:
    assert "there is no process 2147483647" in attaching.refusal(2147483647)
    assert "process 1 is the first process" in attaching.refusal(1)
    assert "has started this pinfold" in attaching.refusal(os.getpid())
    thread = victim.workers[0]
    assert f"{thread} is a thread of process {victim.number}" in attaching.refusal(thread)
    ended = subprocess.Popen(["true"])
    eventually(lambda: Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "it has ended")
    assert "has ended already" in attaching.refusal(ended.pid)
    ended.wait()
    assert masks(victim.number)[thread] == set(CPUS)


def test_a_thread_of_the_kernel_is_refused(attaching: Attaching) -> None:
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
        assert "is a kernel thread" in attaching.refusal(2)
    else:
        pytest.skip("no thread of the kernel can be seen here")


def test_a_process_of_another_user_is_refused_by_name(attaching: Attaching, victim: Victim, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can run pinfold as another user")
    journals = tmp_path / "of nobody"
    journals.mkdir()
    os.chown(journals, 65534, 65534)
    binary = tmp_path / "pinfold"
    binary.write_bytes(attaching.pinfold.binary.read_bytes())
    binary.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    run = subprocess.run(
        [binary, "run", "--journals", journals, "-p", str(victim.number)],
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 125
    assert "belongs to user root (0), and this pinfold runs as user nobody (65534)" in run.stderr


def test_a_process_in_another_pid_namespace_is_refused(attaching: Attaching) -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "sleep", "600"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        eventually(lambda: process.poll() is not None or children.read_text(), "the namespace has a process")
        if process.poll() is not None:
            assert process.stderr
            pytest.skip(f"no PID namespace can be made here: {process.stderr.read().strip()}")
        assert "is in another PID namespace" in attaching.refusal(int(children.read_text()))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("several_cpus")
def test_a_process_that_another_pinfold_places_is_refused(attaching: Attaching, victim: Victim) -> None:
    before = victim.state()
    process = attaching.start(victim, "--policy", "fixed")
    by = f"is placed by another pinfold already (process {process.pid})"
    assert by in attaching.refusal(victim.number)
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert victim.state() == before


@pytest.mark.parametrize(
    "options",
    [
        ("--", "true"),
        ("--membind", "0"),
        ("--interleave", "all"),
        ("--localalloc",),
        ("--numa-balancing", "off"),
        ("--override",),
        ("--outlive",),
        ("--keep-pinned",),
        ("--machine", "e5-4650x4"),
    ],
)
def test_options_of_a_launch_are_refused(pinfold: Pinfold, options: tuple[str, ...]) -> None:
    run = pinfold.run("-p", "1", *options)
    assert run.status != 0
    assert "'--pid <PID>' cannot be used with" in run.err


def test_what_comes_from_inside_the_program_is_refused_with_the_remedy(attaching: Attaching, victim: Victim) -> None:
    assert "start the program with `pinfold run -- CMD`" in attaching.refusal(victim.number, "--metric", "regions")
    assert "a process that runs already cannot be given to it" in attaching.refusal(victim.number, "--with", "scx")
    assert "--policy react needs pinfold's agent" in attaching.refusal(victim.number, "--policy", "react")
    refused = attaching.pinfold.run("--for", "1s", "--", "true")
    assert refused.status == 125
    assert "--for is about a process that --pid names" in refused.err
