"""Cpusets of version 2 of control groups, and CPUs that go offline and return, while pinfold works.

A program ends with the masks of one that runs beside it without pinfold. The guest's kernel is older than Linux 6.2: it
forgets masks with each change of a cpuset, and CPUs that are offline when a mask is set.

`STORMS` sets the number of storms; `make test-kills` sets 500.
"""

import os
import random
from collections.abc import Iterator

import pytest
from guest_machine import CPUS, Guest
from test_safety import KILL, kill, until

STORMS = int(os.environ.get("STORMS", "4"))

GROUP = "/sys/fs/cgroup/storm"

#: Ends when no pinfold runs. A guard may wait for masks that cannot be in force yet, and pidof(1) finds it, too.
UNTIL_ENDED = until("! grep -qx pinfold /proc/[0-9]*/comm")

#: Ends when no pinfold and no guard runs.
UNTIL_GONE = until("! grep -qxE 'pinfold|pinfold-guard' /proc/[0-9]*/comm")

#: Makes all CPUs usable.
ONLINE = (
    "for cpu in /sys/devices/system/cpu/cpu[1-9]/online; do echo 1 > $cpu; done; "
    f"echo 0-{CPUS - 1} > {GROUP}/cpuset.cpus"
)

THREADS = 3


@pytest.fixture
def guest(guest: Guest) -> Iterator[Guest]:
    """Return the guest with a group for storms, and end what a test has left running there."""
    guest.check(f"mkdir -p {GROUP}; {ONLINE}")
    yield guest
    guest.run(f"{ONLINE}; {KILL}; killall -KILL idle; pinfold reset; rm -rf /run/pinfold; rmdir {GROUP}")


def allowed(guest: Guest, program: int) -> set[str]:
    """Return the masks of a program's threads, with CPUs that are offline."""
    lines = guest.check(f"grep -h Cpus_allowed_list: /proc/{program}/task/*/status").splitlines()
    assert len(lines) == THREADS
    return {line.split()[1] for line in lines}


def start(guest: Guest, group: str) -> int:
    """Start a program in a control group; return its number."""
    move = f"echo 0 > {group}/cgroup.procs; exec idle {THREADS} > /tmp/number"
    said = guest.check(f"rm -f /tmp/number; {{ {move}; }} & " + until("[ -s /tmp/number ]") + "; cat /tmp/number")
    return int(said)


def attach(program: int) -> str:
    """Return a script that attaches a pinfold and waits until all threads are pinned."""
    single = f"grep -hE 'Cpus_allowed_list:.[0-9]$' /proc/{program}/task/*/status | wc -l"
    return f"pinfold run -p {program} --policy fixed > /tmp/said 2>&1 & " + until(f"[ $({single}) = {THREADS} ]")


def test_a_cpu_that_was_offline_when_pinfold_ended_comes_back_to_the_threads(guest: Guest) -> None:
    """The kernel forgets it, and the guard gives it back."""
    program = start(guest, "/sys/fs/cgroup")
    everything = allowed(guest, program)
    guest.check(attach(program), patience=300)
    guest.check("echo 0 > /sys/devices/system/cpu/cpu5/online; " + kill("pinfold", "INT") + UNTIL_ENDED)
    assert allowed(guest, program) != everything
    guest.check("echo 1 > /sys/devices/system/cpu/cpu5/online; " + UNTIL_GONE)
    assert allowed(guest, program) == everything
    assert guest.check("pinfold reset") == "nothing to roll back\n"


def storm(chance: random.Random) -> str:
    """Return a script that changes the cpuset and takes CPUs offline and online."""
    steps = []
    for _ in range(chance.randrange(1, 6)):
        if chance.randrange(2):
            first = chance.randrange(CPUS - 1)
            steps.append(f"echo {first}-{chance.randrange(first, CPUS)} > {GROUP}/cpuset.cpus")
        else:
            cpu = chance.randrange(1, CPUS)
            steps.append(f"echo {chance.randrange(2)} > /sys/devices/system/cpu/cpu{cpu}/online")
        steps.append(f"usleep {chance.randrange(50_000)}")
    return "; ".join(steps)


def test_no_storm_leaves_a_thread_narrower_than_without_pinfold(
    guest: Guest, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 31)))
    chance, narrower = random.Random(seed), []
    for number in range(STORMS):
        group = chance.choice([GROUP, "/sys/fs/cgroup"])
        program, control = start(guest, group), start(guest, group)
        guest.check(attach(program), patience=300)
        end = chance.choice(
            [kill("pinfold", "INT"), kill("pinfold"), KILL + "; pinfold reset > /tmp/reset || true"],
        )
        guest.check(f"{storm(chance)}; {end}\n{storm(chance)}; {UNTIL_ENDED}", patience=300)
        # What a reset could not give back while CPUs were offline it gives back now.
        guest.check(f"{ONLINE}; pinfold reset > /tmp/reset || true; {UNTIL_GONE}", patience=300)
        if allowed(guest, program) != allowed(guest, control):
            narrower.append((number, group, end, allowed(guest, program), allowed(guest, control)))
        guest.check("killall -KILL idle; " + until("! pidof idle"))
    with capsys.disabled():
        print(f" CHAOS_SEED={seed}: {len(narrower)} of {STORMS} ", end="", flush=True)
    assert narrower == []
