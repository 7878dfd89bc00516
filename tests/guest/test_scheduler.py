"""`pinfold daemon --with scx`: tasks have preferences in a scheduler of the kernel, and no mask is set.

The machine is the emulated one with a kernel that can load schedulers. As in test_daemon_moves.py, the metric assumes
that threads of a process share data, so the daemon brings each program's threads into one package.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from guest_machine import CPUS, Guest
from test_daemon_moves import ALL, PROGRAMS, begin, together
from test_safety import masks, until

DAEMON = "pinfold daemon --metric sharing --interval 20ms --log /tmp/daemon.log --log-format json --name spin"

STATE = "/sys/kernel/sched_ext/state"

#: How often the places of threads are read, and the share of these readings that may be elsewhere: the reading programs
#: need CPUs as well, and a thread whose CPU they take goes elsewhere after its patience.
READINGS = 15
ELSEWHERE = 0.2

#: The seconds in which the kernel's scheduler is back. On a real machine it takes less; CPUs are emulated one after the
#: other here.
BACK = 2


@pytest.fixture
def machine(scheduler_guest: Guest) -> Iterator[Guest]:
    """Return the machine, and end what a test has left running there."""
    yield scheduler_guest
    scheduler_guest.run(
        "killall -CONT pinfold; killall -KILL pinfold spin; for cpu in /sys/devices/system/cpu/cpu*/online; do"
        " echo 1 > $cpu; done; rm -rf /run/pinfold /tmp/daemon.log"
    )


def start(machine: Guest, options: str = "--with scx") -> dict[str, Any]:
    """Start the daemon in the background, and return what it logged of its start."""
    machine.check(
        f"{DAEMON} {options} > /tmp/out 2>&1 & " + until("[ -s /tmp/out ] || grep -q started /tmp/daemon.log")
    )
    if "this build of pinfold has no scheduler" in machine.check("cat /tmp/out"):
        pytest.skip("this build of pinfold has no scheduler")
    return events(machine, "started")[0]


def events(machine: Guest, name: str) -> list[dict[str, Any]]:
    lines = machine.check("cat /tmp/daemon.log").splitlines()
    return [one for one in map(json.loads, lines) if one["event"] == name]


def gathered(machine: Guest) -> None:
    """Begin programs with separated threads and the daemon, and wait until each program is in one package."""
    begin(machine)
    assert start(machine)["with"] == "scx"
    for _ in range(100):
        if together(machine):
            return
        machine.check("sleep 0.2")
    raise AssertionError(machine.check("cat /tmp/daemon.log"))


def packages(machine: Guest) -> dict[str, set[int]]:
    """Return the packages in which the threads of each program ran last."""
    tasks = "$(for process in $(pidof spin); do echo /proc/$process/task/*; done)"
    read = f"for task in {tasks}; do echo $task $(cut -d' ' -f39 $task/stat); done"
    found: dict[str, set[int]] = {}
    for process, cpu in re.findall(r"/proc/(\d+)/task/\d+ (\d+)", machine.run(read).out):
        found.setdefault(process, set()).add(int(cpu) // 2)
    return found


def test_threads_run_where_they_prefer_and_no_mask_is_set(machine: Guest) -> None:
    gathered(machine)
    machine.check("sleep 1")
    readings = [packages(machine) for _ in range(READINGS)]
    assert all(len(one) == PROGRAMS for one in readings)
    elsewhere = [one for one in readings if any(len(where) > 1 for where in one.values())]
    assert len(elsewhere) <= ELSEWHERE * READINGS, elsewhere
    assert set(masks(machine, "spin")) == {ALL}
    assert "nothing" in machine.run("pinfold reset").out.lower()
    state = json.loads(machine.check("pinfold top --json"))
    assert state["with"] == "scx"


@pytest.mark.parametrize("signal", ["KILL", "STOP"])
def test_the_kernels_scheduler_is_back_when_the_daemon_is_gone(machine: Guest, signal: str) -> None:
    gathered(machine)
    assert machine.check(f"cat {STATE}").strip() == "enabled"
    machine.check(f"killall -{signal} pinfold; sleep {BACK}; [ $(cat {STATE}) = disabled ]")
    found = masks(machine, "spin")
    assert len(found) == 2 * PROGRAMS
    assert set(found) == {ALL}
    if signal == "STOP":
        machine.check("killall -CONT pinfold; " + until("grep -q scheduler_ended /tmp/daemon.log"))


def test_hotplug_and_a_smaller_cpuset_leave_no_mask(machine: Guest) -> None:
    gathered(machine)
    machine.check("echo 0 > /sys/devices/system/cpu/cpu3/online; echo 0-5 > /sys/fs/cgroup/apart/cpuset.cpus; sleep 1")
    assert machine.check(f"cat {STATE}").strip() == "enabled"
    machine.check(f"echo 1 > /sys/devices/system/cpu/cpu3/online; echo 0-{CPUS - 1} > /sys/fs/cgroup/apart/cpuset.cpus")
    machine.check("killall -TERM pinfold; " + until(f"[ $(cat {STATE}) = disabled ]"))
    assert set(masks(machine, "spin")) == {ALL}


def test_a_kernel_without_such_schedulers_is_named_and_auto_pins(guest: Guest) -> None:
    refused = guest.run("pinfold daemon --metric sharing --with scx")
    assert refused.status == 125
    assert "--with scx is not possible here" in refused.out
    guest.check(f"{DAEMON} --with auto > /tmp/out 2>&1 & " + until("grep -q started /tmp/daemon.log"))
    assert events(guest, "started")[0]["with"] == "masks"
    assert [one for one in events(guest, "note") if one["code"] == "no_scheduler"]
    guest.check("killall -TERM pinfold; while pidof pinfold; do sleep 0.1; done; rm -f /tmp/daemon.log")
