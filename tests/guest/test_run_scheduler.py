"""`pinfold run --with scx`: the program's threads have preferences in a scheduler of the kernel, and no mask is set.

The machine is the emulated one with a kernel that can load schedulers. Its packages have a last-level cache each.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from guest_machine import Guest
from test_safety import ALL, FROM_BIRTH, all_pinned, masks, until
from test_scheduler import BACK, STATE

#: The policies of the kernel's own scheduler, and of a scheduler that is loaded.
NORMAL, EXTENSION = "0", "7"

#: Two threads that begin on the last package. The kernel places them on other packages by itself.
RUN = f"pinfold run {FROM_BIRTH} --schedule 6,7 --json /tmp/record.json"

#: How often the places of threads are read, and the share of these readings that may be elsewhere. The programs that
#: read need CPUs as well and come before the threads. Threads without a preference would nearly always be elsewhere.
READINGS = 15
ELSEWHERE = 0.8


@pytest.fixture
def machine(scheduler_guest: Guest) -> Iterator[Guest]:
    """Return the machine, and end what a test has left running there."""
    yield scheduler_guest
    scheduler_guest.run(
        "killall -CONT pinfold; killall -KILL pinfold spin steps;"
        + until(f"[ $(cat {STATE}) = disabled ] && ! pidof pinfold")
        + "; rm -rf /run/pinfold /tmp/err /tmp/status /tmp/record.json"
    )


def start(machine: Guest, options: str, threads: int = 2) -> None:
    """Run a program of working threads under pinfold, in the background."""
    machine.check(
        f"rm -f /tmp/status; {{ set +e; {RUN} {options} -- spin {threads} 600 > /dev/null;"
        " echo $? > /tmp/status; } 2> /tmp/err & "
        + until(f"[ -s /tmp/status ] || [ $(masks spin | wc -l) = {threads} ]")
    )
    if "this build of pinfold has no scheduler" in said(machine):
        pytest.skip("this build of pinfold has no scheduler")


def said(machine: Guest) -> str:
    return machine.check("cat /tmp/err")


def end(machine: Guest) -> dict[str, Any]:
    """End the program and return the record of its run."""
    machine.check("killall -TERM spin; " + until("[ -s /tmp/status ]"))
    record: dict[str, Any] = json.loads(machine.check("cat /tmp/record.json"))
    return record


def field(machine: Guest, number: int) -> list[str]:
    """Return this field of the state of each thread of the program: 39 is the CPU, 41 the policy."""
    return machine.check(f"cut -d' ' -f{number} /proc/$(pidof spin)/task/*/stat").split()


def assert_in_packages(machine: Guest, packages: set[int]) -> None:
    """Assert that all threads of the program are in these packages, in several readings."""
    machine.check("sleep 1")
    readings = [{int(cpu) // 2 for cpu in field(machine, 39)} for _ in range(READINGS)]
    assert sum(not where <= packages for where in readings) <= ELSEWHERE * READINGS, readings


def state(machine: Guest) -> str:
    return machine.check(f"cat {STATE}").strip()


def test_threads_run_in_the_cache_that_they_prefer_and_no_mask_is_set(machine: Guest) -> None:
    start(machine, "--with scx")
    assert_in_packages(machine, {3})
    assert field(machine, 41) == [EXTENSION, EXTENSION]
    assert masks(machine, "spin") == [ALL, ALL]
    assert state(machine) == "enabled"
    assert machine.check("cut -d' ' -f41 /proc/$$/stat").strip() == NORMAL
    assert end(machine)["with"] == "scx"
    assert state(machine) == "disabled"
    assert "placed by a scheduler in the kernel" in said(machine)
    assert "placed by a scheduler in the kernel" in machine.check("pinfold explain /tmp/record.json")


def test_threads_go_elsewhere_while_other_programs_have_their_cache(machine: Guest) -> None:
    machine.check("for cpu in 6 7; do taskset $(printf %x $((1 << cpu))) steps 1 0 600 > /dev/null & done")
    start(machine, "--with scx")
    assert_in_packages(machine, {0, 1, 2})
    assert state(machine) == "enabled"
    machine.check("killall steps")
    assert_in_packages(machine, {3})
    assert masks(machine, "spin") == [ALL, ALL]


def test_a_program_goes_on_when_pinfold_is_killed(machine: Guest) -> None:
    start(machine, "--with scx --outlive")
    assert state(machine) == "enabled"
    machine.check(f"killall -KILL pinfold; sleep {BACK}")
    assert state(machine) == "disabled"
    assert len(field(machine, 39)) == 2
    assert masks(machine, "spin") == [ALL, ALL]
    assert "nothing" in machine.run("pinfold reset").out.lower()


def test_a_silent_pinfold_loses_its_scheduler_and_says_so(machine: Guest) -> None:
    for way, then in (("scx", "run unpinned"), ("auto", "are pinned")):
        start(machine, f"--with {way}")
        machine.check(f"killall -STOP pinfold; sleep {BACK}; [ $(cat {STATE}) = disabled ]; killall -CONT pinfold")
        if way == "auto":
            machine.check(until(all_pinned("spin", 2)))
        machine.check(until(f"[ $(cut -d' ' -f41 /proc/$(pidof spin)/stat) = {NORMAL} ]"))
        assert way == "auto" or masks(machine, "spin") == [ALL, ALL]
        assert f"threads {then} from now on" in str(end(machine)["notes"])


def test_one_scheduler_runs_at_a_time(machine: Guest) -> None:
    start(machine, "--with scx")
    refused = machine.run("pinfold run --with scx -- touch /tmp/started")
    assert refused.status == 125
    assert 'the scheduler "pinfold" runs already' in refused.out
    assert machine.run("[ -e /tmp/started ]").status == 1
    placed = machine.run(f"pinfold run --with auto {FROM_BIRTH} -- true")
    assert placed.status == 0
    assert "Threads are placed by masks" in placed.out
    end(machine)


@pytest.mark.parametrize(
    ("options", "why"), [("--keep-pinned", "nothing can be kept"), ("--policy react", "parallel regions")]
)
def test_what_preferences_cannot_do_is_refused(machine: Guest, options: str, why: str) -> None:
    refused = machine.run(f"pinfold run --with scx {options} -- touch /tmp/started")
    assert refused.status == 125
    assert why in refused.out
    assert machine.run("[ -e /tmp/started ]").status == 1


def test_a_kernel_without_such_schedulers_is_named_and_auto_pins(guest: Guest) -> None:
    refused = guest.run(f"pinfold run {FROM_BIRTH} --with scx -- touch /tmp/started")
    assert refused.status == 125
    assert "--with scx is not possible here" in refused.out
    assert guest.run("[ -e /tmp/started ]").status == 1
    start(guest, "--with auto")
    guest.check(until(all_pinned("spin", 2)))
    assert end(guest)["with"] == "masks"
    assert "Threads are placed by masks" in said(guest)
