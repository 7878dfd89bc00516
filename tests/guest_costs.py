"""The costs of moving and sampling pages, measured in the emulated machine, as JSON on standard output.

`migration`: pages per second that `pinfold pages` moves, divided by those of one `migrate_pages(2)` call, in turns. The
best turn of each counts, because other programs on the host can only make it slower.

`sampling`: the time of a streaming program with sampled accesses divided by that without, by period, in small pages and
in huge ones. It is measured here because not every kernel tracks soft-dirty pages. Faults are slower here than on real
processors, and so is the program.

Where there is no guest, `missing` has the reason, and there are no other keys. Only ratios are given: times in the
guest have no meaning. Part of `make bench`.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from guest_machine import ROOT, Guest, LockupError, missing

#: How many turns each kind of moving has.
TURNS = 11
MEBIBYTES = 128

#: The distances between two protections of the pages, in milliseconds.
PERIODS = (10, 30, 100, 300, 1000)
#: The approximate time of the streaming program alone, in seconds.
SECONDS = 1.0
#: How often it is measured alone and sampled, in turns; the median of the ratios counts.
REPEATS = 3
STREAM = "stream --threads 1 --size 8M --iterations"

TRIES = 3
"""How often a measurement is made in which the guest locks up."""

T = TypeVar("T")


def pages_on(guest: Guest, process: int, start: int, node: int) -> int:
    """Return the number of small pages of the area at `start` that are on a node."""
    line = guest.check(f"grep '^{start:x} ' /proc/{process}/numa_maps")
    found = re.search(rf" N{node}=(\d+)", line)
    return int(found.group(1)) if found else 0


def migration(guest: Guest) -> float:
    """Return the pages per second of `pinfold pages` divided by those of one system call."""
    report = guest.check(
        f"taskset 1 first_touch /tmp/report {MEBIBYTES} 1 idle > /dev/null 2>&1 &\n"
        "while [ ! -e /tmp/report ]; do sleep 0.05; done; cat /tmp/report; rm /tmp/report"
    ).split()
    process, start = int(report[0]), int(report[2], 16)
    ours, theirs = 0.0, 0.0
    for _ in range(TURNS):
        document = (
            f"pinfold pages {process} --membind 1 --quiet --json /tmp/moves.json > /dev/null; cat /tmp/moves.json"
        )
        seconds = float(json.loads(guest.check(document))["moves"]["lasted"])
        ours = max(ours, pages_on(guest, process, start, 1) / seconds)
        seconds = float(guest.check(f"migrate {process} 1 0"))
        theirs = max(theirs, pages_on(guest, process, start, 0) / seconds)
    guest.run(f"kill -9 {process}")
    return ours / theirs


def stream(guest: Guest, iterations: int, period: int | None) -> float:
    """Return the time of the streaming program, by its own clock, sampled with a period (ms) or not at all."""
    sampler = (
        f"pinfold pages $! --page-map balance --sample-period {period}ms --sample-time 1h > /tmp/sampler 2>&1 || true"
        if period
        else "true"
    )
    said = guest.check(f"taskset 1 {STREAM} {iterations} > /tmp/out &\n{sampler}\nwait $!; cat /tmp/out")
    found = re.search(r"time (\S+) s", said)
    assert found, said
    if period:
        # The sampling has lasted until the program's end.
        assert "the program has ended" in guest.check("cat /tmp/sampler")
    return float(found.group(1))


def sampling(guest: Guest, huge: bool) -> list[dict[str, Any]]:
    """Return the slow-down by period."""
    guest.check(f"echo {'always' if huge else 'never'} > /sys/kernel/mm/transparent_hugepage/enabled")
    tried = 200
    iterations = max(1, round(tried * SECONDS / stream(guest, tried, None)))

    def slow_down(period: int) -> float:
        ratios = [1 / stream(guest, iterations, None) * stream(guest, iterations, period) for _ in range(REPEATS)]
        return statistics.median(ratios)

    kind = "huge" if huge else "small"
    return [{"period_ms": period, "pages": kind, "slow_down": slow_down(period)} for period in PERIODS]


def measured(measurement: Callable[[], T]) -> T:
    """Make a measurement, and make it again in a new guest where the guest locks up."""
    for _ in range(TRIES - 1):
        try:
            return measurement()
        except LockupError as error:
            print(f"{error}\nIt is measured again.", file=sys.stderr)
    return measurement()


def main() -> None:
    """Measure everything."""
    if why := missing():
        json.dump({"missing": why}, sys.stdout)
        return
    target = ROOT / "target"
    guest = Guest(target / "release" / "pinfold", target / "agent" / "libpinfold_agent.so", target / "workloads")
    try:
        costs = {
            "migration": measured(lambda: migration(guest)),
            "sampling": measured(lambda: sampling(guest, False)) + measured(lambda: sampling(guest, True)),
        }
    finally:
        guest.give_up()
    json.dump(costs, sys.stdout)


if __name__ == "__main__":
    main()
