"""The daemon moves the pages of a process whose tasks it has moved away, and puts them back if that is in vain.

No event of the guest's kernel tells who is slowed down by remote memory, so the program `away` pretends it: it makes
progress as its threads and its pages are placed, and page faults count it.

The emulated machine hangs in one of ten runs while events of tasks are counted there. So these tests run only with
`PAGES=1`, which `make test-pages` sets.
"""

import os
from collections.abc import Callable, Iterator

import pytest
from conftest import eventually
from guest_machine import CPUS, Guest
from test_daemon_moves import events, state
from test_safety import masks, until

pytestmark = pytest.mark.skipif(
    "PAGES" not in os.environ,
    reason="the emulated machine hangs now and then with counted tasks; `make test-pages` runs it",
)

#: MiB of the program's memory, and the node where it is. Its threads begin on CPUs of two others, and the second stays.
MEBIBYTES, NODE, CPU, OTHER = 16, 1, 4, 0

#: The masks of the threads without the daemon.
FREE = [1 << OTHER, (1 << CPUS) - 1]

CONFIGURATION = """
metric = "inter_package_coherence=context-switches,progress=minor-faults"
[thresholds]
coherence = 1e-6
[mapper]
validation = false
learn_groups = true
faint_sharers = false
learn_homes = false
"""


@pytest.fixture
def guest(guest: Guest) -> Iterator[Guest]:
    """Return the guest, in which the daemon may count events, and end what a test has left running there."""
    paranoid = "/proc/sys/kernel/perf_event_paranoid"
    before = guest.check(f"cat {paranoid}; echo 2 > {paranoid}").strip()
    yield guest
    guest.run(f"echo {before} > {paranoid}")
    guest.run("killall -KILL pinfold away; pinfold reset; rm -rf /run/pinfold /tmp/daemon.*")


@pytest.fixture
def begin(guest: Guest) -> Callable[..., int]:
    """Return a function that starts the program and the daemon, and returns the program's number."""

    def start(words: str = "", pages: str = "") -> int:
        guest.check(
            f"away {MEBIBYTES} {NODE} {CPU} {OTHER} {words} > /dev/null & " + until("[ $(masks away | wc -l) = 2 ]")
        )
        guest.check(f"cat > /tmp/daemon.toml <<'END'\n{CONFIGURATION}{pages}END")
        guest.check(
            "pinfold daemon --config /tmp/daemon.toml --name away --log /tmp/daemon.log --log-format json "
            "> /tmp/daemon.out 2>&1 & " + until("grep -q started /tmp/daemon.log")
        )
        return int(guest.check("pidof away"))

    return start


def outcomes(guest: Guest) -> list[str]:
    return [one["outcome"] for one in events(guest, "compared")]


def memory(guest: Guest, process: int) -> dict[int, int]:
    """Return the pages on each node of the program's large area."""
    areas = guest.pages(process).values()
    return max(areas, key=lambda pages: sum(pages.values()))


def test_pages_follow_and_stay_with_the_tasks(guest: Guest, begin: Callable[..., int]) -> None:
    process = begin()
    assert set(memory(guest, process)) == {NODE}
    eventually(lambda: outcomes(guest) == ["kept"], "the moves are kept")
    (compared,) = events(guest, "compared")
    assert "and the pages of process" in compared["text"]
    assert compared["gain"] > 0.2
    now = state(guest)
    node = OTHER // 2
    assert {task["pu"] // 2 for task in now["tasks"]} == {node}
    assert now["followed"] == [process]
    eventually(lambda: set(memory(guest, process)) == {node}, "the pages are on the node of the tasks")
    moved = events(guest, "pages")
    assert all("code" not in one for one in moved), moved
    # In turns: to the tasks, and back.
    assert {one["goal"] for one in moved} == {"after their threads", "back to where they were"}
    assert now["totals"]["pages"]["bytes"] >= sum(one["bytes"] for one in moved[:3]) >= 3 * MEBIBYTES << 20
    guest.check("killall -TERM pinfold; " + until("! pidof pinfold"))
    assert sorted(masks(guest, "away")) == FREE
    assert set(memory(guest, process)) == {node}, "pages stay with the tasks"


def test_pages_go_back_when_they_do_not_help(guest: Guest, begin: Callable[..., int]) -> None:
    process = begin("never")
    eventually(lambda: outcomes(guest) == ["slower"], "the moves are withdrawn")
    assert "and the pages of process" in events(guest, "compared")[0]["text"]
    eventually(lambda: set(memory(guest, process)) == {NODE}, "the pages are where they were")
    assert sorted(masks(guest, "away")) == FREE
    assert "followed" not in state(guest)


def test_pages_that_would_take_too_long_stay(guest: Guest, begin: Callable[..., int]) -> None:
    process = begin(pages='[pages]\nrate = "1MiB/s"\n')
    eventually(lambda: outcomes(guest) == ["slower"], "the moves are withdrawn")
    (refused,) = events(guest, "pages")
    assert refused["code"] == "pages_too_long"
    assert "copying 16 MiB would take about 16" in refused["why"]
    assert set(memory(guest, process)) == {NODE}
