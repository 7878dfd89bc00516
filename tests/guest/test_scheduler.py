"""`pinfold daemon --with scx`: tasks have preferences in a scheduler of the kernel, and no mask is set.

The machine is the emulated one with a kernel that can load schedulers. As in test_daemon_moves.py, the metric assumes
that threads of a process share data, so the daemon brings each program's threads into one package.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from guest_machine import CORES, CPUS, Guest
from test_daemon_moves import ALL, PROGRAMS, begin, together
from test_safety import masks, until

DAEMON = "pinfold daemon --interval 20ms --log /tmp/daemon.log --log-format json"
SHARING = "--metric sharing --name spin"

STATE = "/sys/kernel/sched_ext/state"

#: The seconds for which run time is counted, and the least share of it in preferred caches.
LASTS = 4
PREFERRED = 0.98

#: The share of the pairs that were meant which are found, and of those found which were meant.
FOUND = 0.95

#: Tasks for eight CPUs.
MANY = 200

#: The seconds in which the kernel's scheduler is back. On a real machine it takes less; CPUs are emulated one after the
#: other here.
BACK = 2


@pytest.fixture
def machine(scheduler_guest: Guest) -> Iterator[Guest]:
    """Return the machine, and end what a test has left running there."""
    yield scheduler_guest
    scheduler_guest.run(
        "killall -CONT pinfold; killall -KILL pinfold spin wakes pipeline; "
        "for cpu in /sys/devices/system/cpu/cpu*/online; do echo 1 > $cpu; done; "
        + until(f"[ $(cat {STATE}) = disabled ]")
        + "; rm -rf /run/pinfold /tmp/daemon.log /tmp/out"
    )


def start(machine: Guest, options: str = f"--with scx {SHARING}") -> dict[str, Any]:
    """Start the daemon in the background, and return what it logged of its start."""
    machine.check(
        f"{DAEMON} {options} > /tmp/out 2>&1 & " + until("[ -s /tmp/out ] || grep -q started /tmp/daemon.log")
    )
    if "this build of pinfold has no scheduler" in machine.check("cat /tmp/out"):
        pytest.skip("this build of pinfold has no scheduler")
    assert machine.run("grep -q started /tmp/daemon.log").status == 0, machine.check("cat /tmp/out")
    return events(machine, "started")[0]


def events(machine: Guest, name: str) -> list[dict[str, Any]]:
    lines = machine.check("cat /tmp/daemon.log").splitlines()
    return [one for one in map(json.loads, lines) if one["event"] == name]


def state(machine: Guest) -> Any:
    return json.loads(machine.check("pinfold top --json"))


def gathered(machine: Guest) -> None:
    """Begin programs with separated threads and the daemon, and wait until each program is in one package."""
    begin(machine)
    assert start(machine)["with"] == "scx"
    for _ in range(100):
        if together(machine):
            return
        machine.check("sleep 0.2")
    raise AssertionError(machine.check("cat /tmp/daemon.log"))


def test_threads_of_a_program_prefer_one_package_and_no_mask_is_set(machine: Guest) -> None:
    gathered(machine)
    found = state(machine)
    assert found["with"] == "scx"
    packages: dict[int, set[int]] = {}
    for task in found["tasks"]:
        packages.setdefault(task["process"], set()).add(task["pinned"] // CORES)
    assert len(packages) == PROGRAMS
    assert all(len(one) == 1 for one in packages.values()), packages
    assert set(masks(machine, "spin")) == {ALL}
    assert "nothing" in machine.run("pinfold reset").out.lower()


def test_nearly_all_run_time_is_in_preferred_caches_while_they_have_idle_cpus(machine: Guest) -> None:
    gathered(machine)
    machine.check("sleep 1.2")
    for _ in range(5):
        before = state(machine)["scheduler"]
        machine.check(f"sleep {LASTS}")
        after = state(machine)
        grown = {key: after["scheduler"][key] - before[key] for key in before if key != "pairs"}
        # The daemon withdraws preferences while it compares them with the unpinned machine.
        if grown["preferring_seconds"] > 0.5 * LASTS:
            break
    assert grown["preferring_seconds"] > 0.5 * LASTS, grown
    assert grown["preferred_seconds"] >= PREFERRED * grown["preferring_seconds"], grown
    spinning = [task["scheduled"] for task in after["tasks"] if task["name"] == "spin"]
    assert len(spinning) == 2 * PROGRAMS
    assert all(0 < task["preferred"] <= task["preferring"] <= task["ran"] for task in spinning), spinning
    table = machine.check("pinfold top --once --width 120")
    assert "% of run time in preferred caches" in table
    assert "%PREF" in table


@pytest.mark.parametrize("shape", ["pairs 3", "ring 6", "server 5", "pipeline 5"])
def test_who_wakes_whom_finds_the_tasks_that_pass_data_to_each_other(machine: Guest, shape: str) -> None:
    name, number = shape.split()
    command = "pipeline --threads 5 --seconds 300" if name == "pipeline" else f"wakes {shape}"
    machine.check(f"{command} > /tmp/pairs &\n" + until("[ -s /tmp/pairs ] || pidof pipeline"))
    if name == "pipeline":
        stages = until(f"[ $(ls /proc/$(pidof pipeline)/task | wc -l) = {number} ]")
        listed = machine.check(f"{stages}; ls /proc/$(pidof pipeline)/task").split()
        order = sorted(map(int, listed))
        meant = {tuple(sorted(pair)) for pair in zip(order, order[1:] + order[:1], strict=True)}
    else:
        lines = machine.check("cat /tmp/pairs").splitlines()
        meant = {tuple(sorted(map(int, line.split()))) for line in lines}
    start(machine, f"--with scx --metric wakeups --name {name if name == 'pipeline' else 'wakes'}")
    machine.check("sleep 5")
    tasks = {task for pair in meant for task in pair}
    pairs = {tuple(one["threads"]) for one in state(machine)["scheduler"]["pairs"]}
    found = {pair for pair in pairs if tasks.issuperset(pair)}
    assert len(found & meant) >= FOUND * max(len(found), len(meant)), (found, meant)


def test_a_second_scheduler_is_refused_and_the_first_stays(machine: Guest) -> None:
    start(machine)
    refused = machine.run(f"pinfold daemon --journals /tmp/other --with scx {SHARING}")
    assert refused.status == 125
    assert 'the scheduler "pinfold" runs already' in refused.out
    assert machine.check(f"cat {STATE}").strip() == "enabled"


def test_hundreds_of_tasks_survive_the_end_of_the_scheduler(machine: Guest) -> None:
    machine.check(f"spin {MANY} 600 > /dev/null & " + until(f"[ $(masks spin | wc -l) = {MANY} ]"))
    start(machine)
    machine.check("sleep 3")
    scheduler = state(machine)["scheduler"]
    machine.check(f"killall -KILL pinfold; sleep {BACK}; [ $(cat {STATE}) = disabled ]")
    found = masks(machine, "spin")
    assert (len(found), set(found)) == (MANY, {ALL})
    assert scheduler["waited_beside_idle"] == 0, scheduler


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
    guest.check(f"{DAEMON} {SHARING} --with auto > /tmp/out 2>&1 & " + until("grep -q started /tmp/daemon.log"))
    assert events(guest, "started")[0]["with"] == "masks"
    assert [one for one in events(guest, "note") if one["code"] == "no_scheduler"]
    guest.check("killall -TERM pinfold; while pidof pinfold; do sleep 0.1; done; rm -f /tmp/daemon.log")
