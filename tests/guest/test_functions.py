"""Functions that show progress, found on the emulated machine: its kernel is Debian's, and its programs are static."""

import json
import os
import re
from itertools import pairwise

import pytest
from guest_machine import Guest
from test_safety import KILL, kill, until

pytestmark = pytest.mark.skipif(
    "LONG" not in os.environ, reason="takes five minutes in the emulated machine; `make test-long` runs it"
)

#: Emulated threads are slow, and share the host's processors.
TIMES = "--initialise 1s -t 2s --interval 100ms"

#: The definitions of pinfold's probes in the guest's kernel.
DEFINED = (
    "mkdir -p /tmp/tracing; mount -t tracefs tracefs /tmp/tracing; cat /tmp/tracing/uprobe_events; umount /tmp/tracing"
)


def test_a_function_is_found_and_its_calls_are_the_programs_own(guest: Guest) -> None:
    guest.check(f"pinfold run {TIMES} --json /tmp/run.json -- steps 4 50 90 > /tmp/own 2> /tmp/said", patience=300)
    run = json.loads(guest.check("cat /tmp/run.json"))
    assert run["metric"]["name"] == "function", guest.check("cat /tmp/said")
    assert run["metric"]["function"]["name"] == "advance"
    assert run["metric"]["function"]["file"] == "steps"
    rates = next(metric["rates"] for metric in run["timeline"]["metrics"] if metric["name"] == "function")
    points = [(at, rate) for at, rate in zip(run["timeline"]["at"], rates, strict=True) if rate is not None]
    own = [(float(at), int(steps)) for at, steps in re.findall(r"(\S+) (\d+)", guest.check("cat /tmp/own"))]
    during = [(at, steps) for at, steps in own if points[0][0] <= at <= points[-1][0]]
    begin, end = during[0][0], during[-1][0]
    counted = sum(rate * max(0, min(at, end) - max(before, begin)) for (before, _), (at, rate) in pairwise(points))
    assert counted / (during[-1][1] - during[0][1]) == pytest.approx(1, abs=0.05)


def test_where_nothing_is_called_steadily_nothing_is_found(guest: Guest) -> None:
    guest.check(
        f"pinfold run {TIMES} -- steps 4 0 600 > /tmp/own 2> /tmp/said & "
        + until("grep -q 'nothing is measured' /tmp/said")
        + f"; {KILL}",
        patience=300,
    )
    said = guest.check("cat /tmp/said")
    assert "no function is called 20 to 2,000 times a second" in said


def test_a_kill_removes_the_probes(guest: Guest) -> None:
    """The guard removes the definitions, and the kernel has removed the breakpoints."""
    guest.check(
        f"pinfold run -v {TIMES} -- steps 4 50 600 > /tmp/own 2> /tmp/said & "
        + until("grep -q 'metric: function: advance' /tmp/said"),
        patience=300,
    )
    assert "pinfold_" in guest.check(DEFINED)
    guest.check(kill("pinfold") + until(f"! {{ {DEFINED}; }} | grep -q pinfold_"))
    guest.run(KILL)
