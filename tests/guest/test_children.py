"""Children of tasks that the daemon has pinned: they never see its masks, and none stays pinned.

`CHILDREN` and `KILLS` set the number of children and of kills of the daemon; `make test-kills` sets 500 and 200.
"""

import json
import os
import random
from collections.abc import Iterator

import pytest
from guest_machine import CPUS, Guest
from test_safety import KILL, kill, masks, until

ALL = (1 << CPUS) - 1

CHILDREN = int(os.environ.get("CHILDREN", "60"))

KILLS = int(os.environ.get("KILLS", "5"))

#: A third of the children only counts the CPUs.
SLEEPERS = CHILDREN - CHILDREN // 3

GROUP = "/sys/fs/cgroup/apart"


@pytest.fixture
def guest(guest: Guest) -> Iterator[Guest]:
    """Return the guest, and end what a test has left running there."""
    yield guest
    guest.run("killall -KILL pinfold breeder sleep; pinfold reset; rm -rf /run/pinfold /tmp/daemon.log /tmp/seen")


def breed(guest: Guest, children: int, seconds: int) -> None:
    """Start a program of two threads, which begin on different packages and may then run anywhere."""
    guest.check(
        f"""
        mkdir -p {GROUP}; echo 0,2,4,6 > {GROUP}/cpuset.cpus; rm -f /tmp/seen /tmp/said
        {{ echo 0 > {GROUP}/cgroup.procs; exec breeder 2 {children} {seconds} /tmp/seen > /tmp/said; }} &
        """
        + until("[ $(masks breeder | wc -l) = 2 ]")
        + f"; echo 0-{CPUS - 1} > {GROUP}/cpuset.cpus"
    )


def pinned(program: str) -> str:
    """Return a command that prints the number of a program's threads that may not run on all CPUs."""
    return f"masks {program} | grep -vc ' {ALL:x}$' || true"


def start_daemon(interval: str) -> str:
    """Return a script that starts the daemon."""
    return (
        f"rm -f /tmp/daemon.log; pinfold daemon --metric sharing --name breeder --interval {interval} "
        "--log /tmp/daemon.log --log-format json > /tmp/out 2>&1 & " + until("grep -q started /tmp/daemon.log")
    )


def until_pinned(program: str) -> str:
    """Return a script that waits until a thread of a program is pinned."""
    return until(f"[ $({pinned(program)}) != 0 ]")


def pinning_time(guest: Guest) -> float:
    """Return how long after its start the daemon pins the first thread, in seconds, and end the daemon again."""
    clock = "$(cut -d' ' -f1 /proc/uptime)"
    waits = f"started={clock}; {until_pinned('breeder')}; pinning={clock}"
    said = guest.check(
        f"{start_daemon('20ms')}; {waits}; {KILL}; pinfold reset > /tmp/reset; echo $started $pinning", patience=300
    )
    started, pinning = (float(time) for time in said.split()[-2:])
    return pinning - started


@pytest.mark.parametrize("interval", ["20ms", "100ms", "1s"])
@pytest.mark.parametrize("end", ["in order", "by a kill"])
def test_no_child_sees_or_keeps_a_mask_of_the_daemon(guest: Guest, interval: str, end: str) -> None:
    breed(guest, CHILDREN, 300)
    guest.check(f"{start_daemon(interval)}; {until_pinned('breeder')}", patience=300)
    log = guest.check("cat /tmp/daemon.log")
    assert json.loads(log.splitlines()[0])["children"] == "at_birth", log
    guest.check("killall -USR1 breeder; " + until("grep -q begun /tmp/said"), patience=600)
    # The children were counted before any change was rolled back.
    if end == "in order":
        guest.check("killall -TERM pinfold; " + until("! pidof pinfold"))
    else:
        guest.check(KILL + "; pinfold reset")
    sleepers = masks(guest, "sleep")
    assert len(sleepers) == SLEEPERS
    assert [mask for mask in sleepers if mask != ALL] == []
    assert masks(guest, "breeder") == [ALL] * 2
    seen = guest.check("cat /tmp/seen").split()
    assert seen == [str(CPUS)] * (CHILDREN // 3)


def test_after_kills_of_the_daemon_at_random_moments_nothing_is_left_pinned(
    guest: Guest, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 31)))
    with capsys.disabled():
        print(f" CHAOS_SEED={seed} ", end="", flush=True)
    chance = random.Random(seed)
    breed(guest, 1_000_000, 2)
    guest.check("killall -USR1 breeder")
    # A loaded host takes many times as long as an idle one until the daemon pins something.
    took = pinning_time(guest)
    caught = 0
    for number in range(KILLS):
        # The moments cover the times before and after that evenly, at random within each part.
        moment = int((number + chance.random()) / KILLS * 3 * took * 1e6)
        # Three of four kills also kill the guard.
        killed = KILL if chance.randrange(4) else kill("pinfold") + "while pidof pinfold; do usleep 10000; done"
        left = f"left=$({pinned('breeder')})"
        script = f"{start_daemon('20ms')}; usleep {moment}; {left}; {killed}; pinfold reset > /tmp/reset; echo $left"
        caught += guest.check(script, patience=300).split()[-1] != "0"
        # A new process may not have its mask yet.
        assert guest.check(f"{pinned('breeder')}; {pinned('sleep')}; {pinned('sh')}").split() == ["0", "0", "0"]
    # Otherwise the kills came at unsuitable moments, and the test has shown nothing.
    assert caught > 0
