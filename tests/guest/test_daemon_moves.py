"""`pinfold daemon` with real programs on four packages, by a metric that needs no counters.

The metric assumes that threads of a process share data, so the daemon brings each process's threads into one package.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import eventually
from guest_machine import CPUS, Guest
from test_safety import KILL, masks, until

ALL = (1 << CPUS) - 1

#: Programs of two working threads each, which begin with one thread on each package.
PROGRAMS = 2

DAEMON = "pinfold daemon --metric sharing --interval 20ms --log /tmp/daemon.log --log-format json"


@pytest.fixture
def guest(guest: Guest) -> Iterator[Guest]:
    """Return the guest, and end what a test has left running there."""
    yield guest
    guest.run("killall -KILL pinfold spin; pinfold reset; rm -rf /run/pinfold /tmp/daemon.log")


@pytest.fixture
def daemon(guest: Guest) -> Callable[[str], None]:
    """Return a function that starts the daemon with options, in the background."""

    def start(options: str) -> None:
        guest.check(f"{DAEMON} {options} > /tmp/out 2>&1 & " + until("grep -q started /tmp/daemon.log"))

    return start


def begin(guest: Guest, threads: int = 2, group: str = "/sys/fs/cgroup/apart") -> None:
    """Start the programs with separated threads: on one CPU of each package at first, and then anywhere."""
    guest.check(
        f"""
        mkdir -p {group}
        [ -e {group}/cpuset.cpus ] || echo +cpuset > {group}/../cgroup.subtree_control
        echo 0,2,4,6 > {group}/cpuset.cpus
        for number in $(seq {PROGRAMS}); do
            {{ echo 0 > {group}/cgroup.procs; exec spin {threads} 600 > /dev/null; }} &
        done
        """
        + until(f"[ $(masks spin | wc -l) = {PROGRAMS * threads} ]")
        + f"; echo 0-{CPUS - 1} > {group}/cpuset.cpus"
    )


def state(guest: Guest) -> Any:
    return json.loads(guest.check("pinfold top --json"))


def events(guest: Guest, name: str) -> list[dict[str, Any]]:
    lines = guest.check("cat /tmp/daemon.log").splitlines()
    return [one for one in map(json.loads, lines) if one["event"] == name]


def together(guest: Guest) -> bool:
    """Return whether the threads of each program are in one package."""
    packages: dict[int, set[int]] = {}
    tasks = state(guest)["tasks"]
    for task in tasks:
        packages.setdefault(task["process"], set()).add(task["pu"] // 2)
    return len(tasks) == 2 * PROGRAMS and all(len(where) == 1 for where in packages.values())


def gather(
    guest: Guest, daemon: Callable[[str], None], options: str = "--name spin", group: str = "/sys/fs/cgroup/apart"
) -> list[dict[str, Any]]:
    """Begin the programs and the daemon, and return the moves with which it has brought threads together."""
    for _ in range(5):
        begin(guest, group=group)
        daemon(options)
        eventually(lambda: together(guest), "the threads of each program are in one package")
        if moved := [event for event in events(guest, "move") if event["outcome"] == "made"]:
            return moved
        # The scheduler itself has brought them together, before the daemon had read where they are.
        guest.check("killall -TERM pinfold; " + until("! pidof pinfold"))
        guest.check("killall -KILL spin; rm /tmp/daemon.log; " + until("! pidof spin"))
    raise AssertionError("the daemon had nothing to move")


def test_threads_of_each_program_come_together_and_go_free_at_the_end(
    guest: Guest, daemon: Callable[[str], None]
) -> None:
    moved = gather(guest, daemon)
    assert {event["reason"] for event in moved} == {"coherence"}
    assert any(mask != ALL for mask in masks(guest, "spin"))
    frame = guest.check("pinfold top --once --width 140")
    assert "package 3" in frame
    assert "coherence" in frame
    guest.check("killall -TERM pinfold; " + until("! pidof pinfold"))
    assert masks(guest, "spin") == [ALL] * 2 * PROGRAMS
    assert guest.check("ls /run/pinfold") == "daemon.lock\n"


def test_the_changes_of_a_killed_daemon_are_rolled_back_by_its_guard_or_the_next_daemon(
    guest: Guest, daemon: Callable[[str], None]
) -> None:
    gather(guest, daemon)
    guest.check("rm /tmp/daemon.log; " + KILL)
    assert any(mask != ALL for mask in masks(guest, "spin"))
    # The next daemon watches no task, so all its actions are rollbacks.
    daemon("--name nobody")
    assert masks(guest, "spin") == [ALL] * 2 * PROGRAMS
    (found,) = events(guest, "found_left")
    assert found["journal"].endswith(".journal")
    assert events(guest, "undone")[0]["masks"] > 0


def test_the_daemon_never_leaves_a_cpuset_that_shrinks(guest: Guest, daemon: Callable[[str], None]) -> None:
    gather(guest, daemon)
    guest.check("echo 0-3 > /sys/fs/cgroup/apart/cpuset.cpus")
    intervals = state(guest)["totals"]["intervals"]
    eventually(lambda: state(guest)["totals"]["intervals"] > intervals + 20, "the daemon continues")
    assert all(mask & ~0xF == 0 for mask in masks(guest, "spin"))
    guest.check("killall -TERM pinfold; " + until("! pidof pinfold"))
    assert masks(guest, "spin") == [0xF] * 2 * PROGRAMS


def test_the_tasks_of_a_container_alone_are_moved_and_their_moves_are_counted(
    guest: Guest, daemon: Callable[[str], None]
) -> None:
    """Its control group is named as Docker names it, and its name is in Docker's file."""
    container, files = "5ad0" * 16, "/var/lib/docker/containers"
    guest.check(f"sleep 600 > /dev/null & mkdir -p {files}/{container}")
    guest.check(f"""printf '{{"Name": "/web"}}' > {files}/{container}/config.v2.json""")
    moved = gather(guest, daemon, "--cgroup container:web", f"/sys/fs/cgroup/docker/{container}")
    (counts,) = state(guest)["containers"]
    assert (counts["name"], counts["watched"]) == ("web", 2 * PROGRAMS)
    assert state(guest)["totals"]["watched"] == 2 * PROGRAMS
    assert {event["container"] for event in moved} == {"web"}
    assert state(guest)["containers"][0]["moves"] >= len(moved) > 0
    frame = guest.check("pinfold top --once --width 140")
    assert "CONTAINER" in frame
    guest.check(f"killall -TERM pinfold; rm -r {files}; " + until("! pidof pinfold"))
    assert masks(guest, "spin") == [ALL] * 2 * PROGRAMS
