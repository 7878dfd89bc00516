"""Sampling finds who accesses which pages, and pages are placed by it: locality and balance."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, environment
from guest_machine import FOLDER, NODES, Guest

#: Where the program writes its reports.
REPORT = "/tmp/accesses"

#: A sampling of about a second, for pages that are all accessed much more often.
SHORT = "--sample-period 50ms --sample-time 1s"

#: As many protections of all pages as the default sampling has.
ENOUGH = 30


@dataclass(frozen=True)
class Report:
    """A report of the program."""

    #: How often the slowest thread has done its work.
    laps: int
    #: The number of errors in its memory, or in a system call on it.
    failures: int
    #: The accesses, of one lap, to the pages on each node.
    nodes: dict[int, int]


@dataclass(frozen=True)
class Program:
    """A run of the program in the guest."""

    guest: Guest
    process: int
    threads: list[int]
    #: The start of each thread's memory.
    memory: list[int]

    def report(self) -> Report:
        """Let it write a report."""
        said = self.guest.check(
            f"rm -f {REPORT}.report; kill -USR1 {self.process}\n"
            f"while [ ! -e {REPORT}.report ]; do sleep 0.05; done; cat {REPORT}.report"
        )
        words = dict(line.split() for line in said.splitlines())
        laps, failures = int(words.pop("laps")), int(words.pop("failures"))
        return Report(laps, failures, {int(node): int(accesses) for node, accesses in words.items()})

    def after(self, laps: int) -> Report:
        """Let it write a report after this number of further laps."""
        wanted = self.report().laps + laps
        while (report := self.report()).laps < wanted:
            self.guest.check("sleep 0.1")
        return report

    def pages(self, options: str) -> dict[str, Any]:
        """Let pinfold move its pages and return the result."""
        self.guest.check(f"pinfold pages {self.process} {options} --json /tmp/moves.json")
        document: dict[str, Any] = json.loads(self.guest.check("cat /tmp/moves.json"))
        return document

    def minor_faults(self) -> int:
        """Return its number of page faults that needed no input."""
        return int(self.guest.check(f"cut -d ' ' -f 10 /proc/{self.process}/stat"))

    def settings(self) -> str:
        """Return the threads' masks and the areas' memory policies."""
        policies = f"while read -r start policy rest; do echo $start $policy; done < /proc/{self.process}/numa_maps"
        return self.guest.check(f"masks accesses; {policies}")


Start = Callable[..., Program]


@pytest.fixture
def start(guest: Guest) -> Iterator[Start]:
    """Return a function that starts the program, under a command, and ends it afterwards."""
    end = f"killall -q -9 accesses; while pidof pinfold accesses > /dev/null; do sleep 0.05; done; rm -f {REPORT}*"

    def start(pages: int, threads: int, under: str = "", options: str = "") -> Program:
        guest.run(end)
        said = guest.check(
            f"{under} accesses {REPORT} {pages} {threads} {options} > /tmp/out 2> /tmp/err &\n"
            f"while [ ! -e {REPORT} ]; do kill -0 $! || {{ cat /tmp/err; break; }}; sleep 0.05; done; cat {REPORT}"
        )
        process, *lines = said.splitlines()
        words = [line.split() for line in lines]
        threads_and_memory = [int(thread) for thread, _ in words], [int(address, 16) for _, address in words]
        return Program(guest, int(process), *threads_and_memory)

    yield start
    guest.run(end)


def is_balanced(nodes: dict[int, int]) -> bool:
    """Return whether the nodes of the machine have the same number of accesses within 5 %."""
    even = sum(nodes.values()) / len(NODES)
    return set(nodes) == set(NODES) and all(abs(accesses - even) <= 0.05 * even for accesses in nodes.values())


def bind(program: Program, cpus: list[int]) -> None:
    """Pin each thread to a CPU."""
    for thread, cpu in zip(program.threads, cpus, strict=True):
        program.guest.check(f"taskset -p {1 << cpu:x} {thread}")


def homes(program: Program) -> list[set[int]]:
    """Return the nodes of each thread's memory."""
    lines = program.guest.check(f"cat /proc/{program.process}/numa_maps").splitlines()
    areas = {int(line.split()[0], 16): line.split() for line in lines}
    words = [[word for word in areas[start] if word.startswith("N")] for start in program.memory]
    return [{int(word[1:].split("=")[0]) for word in area} for area in words]


@pytest.mark.quiet
def test_balance_gives_each_node_the_same_number_of_accesses(start: Start) -> None:
    program = start(1024, 2, "taskset 3")
    assert program.report().nodes == {0: 2 * 256 * (1 + 2 + 4 + 8)}
    # On a busy host the faults take so much of the program's time that pinfold protects its pages a few times only. One
    # page of a thousand is then seen much too early by chance, and counts for hundreds.
    seconds = 3
    sampled: dict[str, Any] = {"rounds": 0}
    while sampled["rounds"] < ENOUGH:
        sampled = program.pages(f"--page-map balance --sample-period 50ms --sample-time {seconds}s")["sampled"]
        seconds *= 2
    report = program.report()
    assert is_balanced(report.nodes), (report.nodes, sampled)
    assert report.failures == 0
    assert sampled["by"] == ["write_protection"]
    assert sampled["in_kernel"] is True
    assert sampled["pages"] >= 2 * 1024
    assert 0 < sampled["overhead"] < 1
    assert sampled["in_faults"] > 0


@pytest.mark.quiet
def test_locality_puts_pages_on_the_node_of_the_threads_that_use_them(start: Start) -> None:
    program = start(64, 3, "taskset 1")
    assert homes(program) == [{0}] * 3
    bind(program, [2, 6, 4])
    document = program.pages(f"--page-map locality {SHORT}")
    assert homes(program) == [{1}, {3}, {2}]
    assert document["moves"]["moved"]["pages"] >= 3 * 64
    assert program.report().failures == 0


@pytest.mark.quiet
@pytest.mark.usefixtures("small_pages")
def test_locality_puts_pages_by_the_accesses_of_a_recording(guest: Guest, binary: Path, tmp_path: Path) -> None:
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed (apt install qemu-user)")
    guest.check("true")
    program = FOLDER / "tree/programs/owners"
    recording = tmp_path / "owners.pft"
    words: list[str | Path] = [binary, "record", "-o", recording, "--", program, "20", "3"]
    subprocess.run(words, check=True, capture_output=True, env=environment(), timeout=PATIENCE)
    # A recording identifies its program by path and time; in the guest the program has another path. The pages of the
    # file are on node 0, to which it is copied; no assertion concerns them.
    modified = int(program.stat().st_mtime)
    guest.check(f"mkdir -p {program.parent}; taskset 1 cp /programs/owners {program}; touch -d @{modified} {program}")
    guest.check(f"echo {base64.b64encode(recording.read_bytes()).decode()} | base64 -d > /tmp/owners.pft")
    said = guest.check(
        f"rm -f /tmp/memory; taskset 1 {program} 0 3 /tmp/memory & while [ ! -e /tmp/memory ]; do sleep 0.05; done\n"
        "while [ $(ls /proc/$!/task | wc -l) -lt 4 ]; do sleep 0.05; done; echo $!; ls /proc/$!/task"
    )
    process, *tasks = map(int, said.split())
    threads = sorted(set(tasks) - {process})
    try:
        for thread, cpu in zip(threads, [2, 6, 4], strict=True):
            guest.check(f"taskset -p {1 << cpu:x} {thread}")
        options = "--page-map locality --profile /tmp/owners.pft --json /tmp/moves.json"
        guest.check(f"pinfold pages {process} {options}")
        document = json.loads(guest.check("cat /tmp/moves.json"))
    finally:
        guest.check(f"kill -9 {process}")
    assert document["profiled"]["matched"] > 0.99 * document["profiled"]["accesses"], document["profiled"]
    # Each thread has 16 pages of three kinds, and of the fourth 16, 32 or 48; its stack and other areas are a few.
    pages = {node: after // 4096 for node, after in document["after"].items()}
    for node, its in (("1", 64), ("3", 80), ("2", 96)):
        assert 0 <= pages[node] - its < 16, pages


@pytest.mark.quiet
def test_a_run_places_pages_by_its_own_samples_when_it_has_initialised(start: Start) -> None:
    run = f"pinfold run -q --policy fixed --schedule 7,0,2 --initialise 500ms -t 1s --json /tmp/run.json {SHORT}"
    program = start(256, 2, f"taskset ff {run} --page-map balance --")
    while len(program.report().nodes) < len(NODES):
        program.guest.check("sleep 0.1")
    report = program.after(1)
    program.guest.check(f"kill {program.process}; while pidof pinfold > /dev/null; do sleep 0.05; done")
    record = json.loads(program.guest.check("cat /tmp/run.json"))
    (sampled,) = record["page_samples"]
    assert sampled["at"] >= 0.5
    assert {moves["goal"] for moves in record["page_moves"]} == {"balance"}
    assert set(report.nodes) == set(NODES)
    assert report.failures == 0


def test_sampling_does_not_change_the_program(start: Start) -> None:
    program = start(128, 2)
    bind(program, [2, 6])
    before = program.settings()
    # All pages are in their places after this move.
    program.pages(f"--page-map locality {SHORT}")
    assert program.settings() == before
    assert program.after(2).failures == 0


@pytest.mark.parametrize("signal", ["INT", "KILL"])
def test_a_signal_that_ends_the_sampling_leaves_no_page_protected(start: Start, signal: str) -> None:
    program = start(128, 2)
    quiet = program.minor_faults()
    assert program.after(2).failures == 0
    program.guest.check(
        f"pinfold pages {program.process} --page-map balance --sample-period 50ms --sample-time 1h > /tmp/out 2>&1 &\n"
        f"while [ $(cut -d ' ' -f 10 /proc/{program.process}/stat) -lt {quiet + 1000} ]; do sleep 0.05; done\n"
        f"kill -{signal} $!; wait $! || true"
    )
    # Each page that is still protected causes one more fault. Reports and pipes also cause some, but fewer than one per
    # page.
    program.after(2)
    before = program.minor_faults()
    report = program.after(10)
    assert program.minor_faults() - before < 128
    assert report.failures == 0


def test_reads_are_seen_where_automatic_numa_balancing_is_on(start: Start) -> None:
    program = start(256, 2, options="read")
    guest = program.guest
    written = program.pages(f"--page-map balance {SHORT}")["sampled"]
    assert written["by"] == ["write_protection"]
    assert written["pages"] < 256
    guest.check("echo 1 > /proc/sys/kernel/numa_balancing")
    try:
        # It protects all pages at the same time here, every few seconds.
        while (read := program.pages("--page-map balance")["sampled"])["pages"] < 2 * 256:
            pass
    finally:
        guest.check("echo 0 > /proc/sys/kernel/numa_balancing")
    assert read["by"] == ["write_protection", "numa_hints"]
    assert program.report().failures == 0


def test_an_unprivileged_user_samples_own_processes_as_far_as_perf_events_are_allowed(start: Start) -> None:
    user = "/tmp/as_somebody"
    program = start(128, 2)
    guest = program.guest
    guest.check(
        "mkdir -p /etc; echo somebody:x:1000:1000::/tmp:/bin/sh > /etc/passwd\n"
        f"echo '#!/bin/sh\nexec su somebody -c \"$*\"' > {user}; chmod +x {user}"
    )
    paranoid = "/proc/sys/kernel/perf_event_paranoid"
    before = guest.check(f"cat {paranoid}")
    try:
        guest.check(f"echo 2 > {paranoid}")
        refused = guest.run(f"{user} pinfold pages {program.process} --page-map balance")
        assert refused.status == 125, "a process of another user"
        program = start(128, 2, user)
        balance = f"{user} pinfold pages {program.process} --page-map balance {SHORT}"
        guest.check(f"{balance} --json /tmp/user.json")
        document = json.loads(guest.check("cat /tmp/user.json"))
        guest.check(f"echo 3 > {paranoid}")
        forbidden = guest.run(balance)
    finally:
        guest.check(f"echo {before.strip()} > {paranoid}")
    assert document["sampled"]["pages"] >= 2 * 128
    assert document["sampled"]["in_kernel"] is False
    assert set(program.report().nodes) == set(NODES)
    assert forbidden.status == 125
    assert "kernel.perf_event_paranoid is 3 and must be 2 or lower" in forbidden.out


def test_an_idle_process_is_not_changed_and_reported_as_idle(guest: Guest) -> None:
    run = guest.run(f"sleep 1000 & pinfold pages $! --page-map balance {SHORT}; status=$?; kill $!; exit $status")
    assert run.status == 125
    assert "may be idle" in run.out
    assert "--sample-time" in run.out
