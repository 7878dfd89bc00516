"""`pinfold sweep` on a machine of several NUMA nodes: each run has its threads and pages where its row says."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from guest_machine import CORES, CPUS, NODES, PACKAGES, Guest

pytestmark = pytest.mark.skipif(
    "LONG" not in os.environ, reason="takes ten minutes in the emulated machine; `make test-long` runs it"
)

#: What the check of each run writes: a line with the configuration, then the program's own.
PLACED = "/tmp/placed"

#: A warm-up run has no configuration.
CHECK = (
    'test -z "$PINFOLD_THREADS" || '
    f'{{ echo "= $PINFOLD_THREADS $PINFOLD_PINNING $PINFOLD_PAGE_MAP"; cat; }} >> {PLACED}'
)

#: Sampling that ends while the program runs.
SAMPLING = "--page-options sample-by=page-faults,sample-time=2s,sample-period=50ms"

#: The milliseconds of a run: emulated threads need a second to start, and the sampling follows.
LASTS = 6000

ALL = set(NODES)


@pytest.fixture
def guest(guest: Guest) -> Iterator[Guest]:
    """Return the guest, and end what a test has left running there."""
    yield guest
    guest.run(f"killall -KILL pinfold placed; pinfold reset --kept; rm -rf /run/pinfold {PLACED} /tmp/sweep*")


@dataclass(frozen=True)
class Placed:
    """A run: its configuration, and where its threads and pages were."""

    threads: int
    #: The CPU of each rank; None for the unpinned program.
    pinning: list[int] | None
    page_map: str
    masks: list[int]
    #: By thread: the nodes of its pages.
    nodes: list[set[int]]

    def home(self, rank: int) -> int:
        """Return the node of a rank."""
        assert self.pinning is not None
        return self.pinning[rank] // CORES


def cpus(text: str) -> list[int] | None:
    """Return the CPUs of a list such as `0,2,4-6`."""
    if text == "unpinned":
        return None
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def runs(text: str) -> list[Placed]:
    """Return the runs that the check has written."""
    found = []
    for part in text.split("= ")[1:]:
        head, *lines = part.splitlines()
        threads, pinning, page_map = head.split()
        counts = [[int(count) for count in line.split()[1:]] for line in lines]
        nodes = [{node for node, count in enumerate(row) if count > 0} for row in counts]
        masks = [int(line.split()[0], 16) for line in lines]
        found.append(Placed(int(threads), cpus(pinning), page_map, masks, nodes))
    return found


def sweep(guest: Guest, space: str, words: str) -> list[Placed]:
    """Sweep a space, and return all runs."""
    guest.check(
        f"rm -f {PLACED}; pinfold sweep --space {space} --runs 1 {SAMPLING} --check '{CHECK}' "
        f"--json /tmp/sweep.json -o /tmp/sweep.parquet {words}",
        patience=1800,
    )
    summary = json.loads(guest.check("cat /tmp/sweep.json"))
    assert summary["failed"] == []
    found = runs(guest.check(f"cat {PLACED}"))
    assert len({(run.threads, str(run.pinning), run.page_map) for run in found}) == summary["configurations"]
    return found


def check(run: Placed) -> None:
    """Check that threads and pages of a run are where its configuration says."""
    assert len(run.masks) == run.threads
    if run.pinning is None:
        assert set(run.masks) == {(1 << CPUS) - 1}
        return
    assert run.masks == [1 << run.pinning[rank % len(run.pinning)] for rank in range(run.threads)]
    homes = {run.home(rank) for rank in range(run.threads)}
    for rank, nodes in enumerate(run.nodes):
        match run.page_map:
            case "local" | "locality" | "first_touch":
                assert nodes == {run.home(rank)}, run
            case "remote":
                assert len(nodes) == 1, run
                assert not nodes & homes, run
            case "interleave":
                assert nodes == ALL, run
            case "single":
                assert nodes == {run.home(0)}, run
            case "balance":
                assert nodes, run
            case other:
                pytest.fail(f"an unknown page map: {other}")


def test_all_configurations_of_numa_have_their_threads_and_pages(guest: Guest) -> None:
    found = sweep(guest, "numa", f"--threads 4 -- placed 4 {LASTS}")
    for run in found:
        check(run)
    assert {run.page_map for run in found if run.pinning} == {"locality", "balance", "interleave", "single"}
    assert {len({run.home(rank) for rank in range(4)}) for run in found if run.pinning} == {2, PACKAGES}


def test_all_configurations_of_ics20_have_their_threads_and_pages(guest: Guest) -> None:
    found = sweep(guest, "ics20", f"-- placed {{threads}} {LASTS}")
    for run in found:
        check(run)
    assert {run.threads for run in found} == {CPUS // 4, CPUS // 2, CPUS}
    assert {"local", "remote"} <= {run.page_map for run in found}


def test_nothing_is_left_pinned_or_running_after_kills(guest: Guest) -> None:
    begin = (
        "pinfold sweep --force --space numa --threads 4 --runs 9 -o /tmp/sweep.parquet -- placed 4 60000 "
        "> /dev/null 2> /tmp/sweep.err &\n"
    )
    for kill in range(100):
        # The program is killed at some time of its start, or while it runs.
        left = guest.check(
            f"""
            {begin}
            sweep=$!
            while ! pidof placed > /dev/null; do usleep 10000; done
            usleep {kill % 10 * 50000}
            kill -KILL $sweep
            for wait in $(seq 1 500); do pidof placed pinfold > /dev/null || break; usleep 20000; done
            pidof placed pinfold || true
            """
        )
        assert left.strip() == "", f"kill {kill}"
    # The kernel's own threads, some of which have a CPU each, have no executable.
    masks = guest.check(
        "for process in /proc/[0-9]*; do\n"
        "    if readlink $process/exe > /dev/null; then grep Cpus_allowed: $process/status | cut -f2; fi\n"
        "done | sort -u"
    ).split()
    assert masks == [f"{(1 << CPUS) - 1:x}"]
    assert json.loads(guest.check("pinfold reset --json"))["journals"] == []
