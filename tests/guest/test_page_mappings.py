"""The nodes of pages on a real kernel: at launch, in a running process, and after their threads have moved."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import unwrapped
from guest_machine import NODES, Guest

ALL = set(NODES)

#: Where the program writes its report.
REPORT = "/tmp/first_touch"


@dataclass(frozen=True)
class Program:
    """A run of first_touch in the guest."""

    guest: Guest
    process: int
    #: The start of each thread's memory.
    memory: list[int]

    def pages(self) -> list[dict[int, int]]:
        """Count the pages of each thread's memory by node."""
        areas = self.guest.pages(self.process)
        return [areas[address] for address in self.memory]

    def on(self) -> list[set[int]]:
        """Return the nodes of each thread's memory."""
        return [set(pages) for pages in self.pages()]

    def move(self, *options: str) -> dict[str, Any]:
        """Move its pages and return the result."""
        self.guest.check(f"pinfold pages {self.process} {' '.join(options)} --json /tmp/moves.json")
        moves: dict[str, Any] = json.loads(self.guest.check("cat /tmp/moves.json"))["moves"]
        return moves

    def lives(self) -> bool:
        """Return whether the program runs."""
        return self.guest.run(f"kill -0 {self.process}").status == 0


def left(moves: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return why pages stayed, by the reason's name."""
    return {one["why"]: one for one in moves["left"]}


class Programs:
    """Starts first_touch, and ends it."""

    def __init__(self, guest: Guest) -> None:
        """Store the guest."""
        self.guest = guest

    def start(self, words: str, under: str = "") -> Program:
        """Start `first_touch FILE WORDS`, under a command, and return when its memory is touched."""
        self.end()
        report = self.guest.check(
            f"{under} first_touch {REPORT} {words} > /tmp/out 2> /tmp/err &\n"
            f"while [ ! -e {REPORT} ]; do kill -0 $! || break; sleep 0.05; done; cat /tmp/err >&2; cat {REPORT}"
        )
        lines = [line for line in report.splitlines() if not line.startswith("pinfold: ")]
        return Program(self.guest, int(lines[0]), [int(line.split()[1], 16) for line in lines[1:]])

    def run(self, options: str, words: str) -> Program:
        """Start it under `pinfold run`."""
        return self.start(words, f"pinfold run {options} --")

    def end(self) -> None:
        """End the running programs."""
        gone = "while pidof pinfold first_touch > /dev/null; do sleep 0.05; done"
        self.guest.run(f"killall -q -9 first_touch; {gone}; rm -f {REPORT}")


@pytest.fixture
def programs(guest: Guest) -> Iterator[Programs]:
    """Return a starter of programs, and end them afterwards."""
    programs = Programs(guest)
    yield programs
    programs.end()


#: The options, and the resulting nodes of the memory of a thread on node 0 and of one on node 1.
MAPPINGS = [
    ("--page-map first_touch", [{0}, {1}]),
    ("--localalloc", [{0}, {1}]),
    ("--interleave all", [ALL, ALL]),
    ("--page-map interleave:1,3", [{1, 3}, {1, 3}]),
    ("--membind 3", [{3}, {3}]),
    ("--membind 1-2", [{1}, {1}]),
    ("--preferred 4", [{4}, {4}]),
    ("--page-map single:2", [{2}, {2}]),
]


@pytest.mark.parametrize(("options", "expected"), MAPPINGS, ids=[options for options, _ in MAPPINGS])
def test_a_program_begins_with_its_page_mapping(programs: Programs, options: str, expected: list[set[int]]) -> None:
    program = programs.run(f"-q --policy fixed --schedule 0,2 {options}", "2 2 idle")
    pages = program.pages()
    if options == "--membind 1-2":
        # Node 0 is as near to 1 as to 2.
        assert [set(one) <= {1, 2} for one in pages] == [True, True]
        return
    assert [set(one) for one in pages] == expected
    for one in pages:
        assert max(one.values()) <= 1.05 * min(one.values())


def test_remote_is_the_nearest_other_node(programs: Programs) -> None:
    program = programs.run("-q --policy fixed --schedule 6,7 --page-map remote", "2 2 idle")
    assert program.on() == [{4}, {4}]


def test_remote_for_threads_on_several_nodes_is_refused_before_the_program_runs(guest: Guest) -> None:
    run = guest.run("pinfold run --policy fixed --schedule 0,2 --page-map remote -- echo it ran")
    assert run.status == 125
    assert "--cpunodebind" in run.out
    assert "it ran" not in run.out


def test_weighted_interleaving_is_refused_where_the_kernel_has_none(guest: Guest) -> None:
    run = guest.run("pinfold run --weighted-interleave all -- echo it ran")
    if guest.run("test -e /sys/kernel/mm/mempolicy/weighted_interleave").status == 0:
        assert run.status == 0
        return
    assert run.status == 125
    assert "Linux 6.9" in run.out
    assert "it ran" not in run.out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--membind 3", {3}),
        ("--interleave all", ALL),
        ("--page-map single:4", {4}),
        ("--preferred 1", {1}),
        ("--page-map bind:1,2", {1, 2}),
        ("--localalloc", {0}),
        ("--page-map remote", {1}),
    ],
)
def test_the_pages_of_a_running_process_are_moved(programs: Programs, options: str, expected: set[int]) -> None:
    program = programs.start("2 2 idle", "taskset 1 pinfold run -q --policy none --")
    assert program.on() == [{0}, {0}]
    moves = program.move(options)
    assert program.on() == [expected, expected]
    for pages in program.pages():
        assert max(pages.values()) <= 1.05 * min(pages.values())
    assert moves["moved"]["pages"] >= (1024 if 0 not in expected else 0)
    assert moves["broken_off"] is None
    again = program.move(options)
    assert again["moved"]["pages"] == 0


def test_huge_pages_are_moved_whole(programs: Programs) -> None:
    program = programs.start("8 1 huge idle", "taskset 1")
    split = "grep -E 'thp_split_page |thp_split_pmd ' /proc/vmstat"
    huge = f"grep AnonHugePages /proc/{program.process}/smaps | grep -v ' 0 kB'"
    before = program.guest.check(split), program.guest.check(huge)
    assert program.on() == [{0}]
    moves = program.move("--membind 1")
    assert program.on() == [{1}]
    assert (program.guest.check(split), program.guest.check(huge)) == before
    # Each counts as one.
    assert moves["moved"]["bytes"] >= 8 << 20
    assert moves["moved"]["pages"] < 100


def test_pages_that_another_process_has_mapped_stay_without_migrate_shared(programs: Programs) -> None:
    program = programs.start("2 1 shared idle", "taskset 1")
    assert program.on() == [{0}]
    moves = program.move("--membind 1")
    assert left(moves)["shared"]["errno"] == "EACCES"
    assert left(moves)["shared"]["pages"] >= 512
    assert program.on() == [{0}]
    program.move("--membind 1 --migrate-shared")
    assert program.on() == [{1}]


def test_memory_to_which_the_program_gave_a_policy_stays_unless_overridden(programs: Programs) -> None:
    program = programs.start("2 2 own idle")
    moves = program.move("--membind 2")
    assert left(moves)["own_policy"]["pages"] == 512
    assert program.on() == [{1}, {2}]
    program.move("--membind 2 --override")
    assert program.on() == [{2}, {2}]


def test_pages_of_files_stay_without_migrate_files(programs: Programs) -> None:
    program = programs.start("2 1 idle")
    moves = program.move("--membind 2")
    assert left(moves)["file"]["pages"] > 0
    assert "file" not in left(program.move("--membind 3 --migrate-files --migrate-shared"))


def test_a_full_node_gets_no_more_pages_and_no_process_is_killed(programs: Programs) -> None:
    program = programs.start("300 1 idle", "taskset 1")
    moves = program.move("--membind 4")
    assert left(moves)["full"]["errno"] == "ENOMEM"
    assert left(moves)["full"]["node"] == 4
    pages = program.pages()[0]
    assert pages[4] > 20_000
    assert pages[4] + left(moves)["full"]["pages"] >= 300 * 256
    assert program.lives()


def moved_slowly(program: Program, then: str) -> dict[str, Any]:
    """Move pages to node 2, run `then` when the first have arrived, and return the result of the moving."""
    options = "--membind 2 --migrate-rate 100kB/s --json /tmp/moves.json"
    arrived = f"grep -q '^{program.memory[0]:x} .* N2=' /proc/{program.process}/numa_maps"
    program.guest.check(
        "rm -f /tmp/moves.json\n"
        f"pinfold pages {program.process} {options} > /tmp/out &\n"
        f"while ! {arrived}; do sleep 0.05; done\n"
        f"{then}; wait $!"
    )
    moves: dict[str, Any] = json.loads(program.guest.check("cat /tmp/moves.json"))["moves"]
    return moves


def test_moving_keeps_its_rate_and_ends_on_a_signal(programs: Programs) -> None:
    program = programs.start("64 1 idle", "taskset 1")
    moves = moved_slowly(program, "kill -INT $!")
    assert moves["broken_off"]["code"] == "interrupted"
    assert 0 < moves["moved"]["bytes"] <= 32 << 20
    assert left(moves)["unfinished"]["bytes"] >= 32 << 20
    assert program.lives()


def test_moving_ends_with_the_process(programs: Programs) -> None:
    program = programs.start("64 1 idle", "taskset 1")
    moves = moved_slowly(program, f"kill -9 {program.process}")
    assert moves["broken_off"]["code"] == "ended"


#: A search of some seconds. The first three are enough for touching the memory, even on a busy host. Each page that
#: moves while threads run interrupts each of their processors, which is slow where these are emulated. So the tests of
#: searches use few and large pages.
SEARCH = "-v --metric event:task-clock -t 400ms --initialise 3s --interval 100ms --search-again 0"


def searched(programs: Programs, options: str, words: str) -> tuple[Program, dict[str, Any]]:
    """Run a search until it has chosen; return the program in that state, and the record."""
    program = programs.run(f"{SEARCH} {options} --json /tmp/run.json", words)
    # The choice is reported before it is applied, and the first rate afterwards.
    program.guest.check("while ! grep -q '^pinfold: at ' /tmp/err; do sleep 0.1; done")
    # The places of the pages are read while the program runs, and the record after its end.
    pages = program.pages()
    program.guest.check(f"kill -9 {program.process}; while pidof pinfold > /dev/null; do sleep 0.05; done")
    record = json.loads(program.guest.check("cat /tmp/run.json"))

    @dataclass(frozen=True)
    class Ended(Program):
        def pages(self) -> list[dict[int, int]]:
            return pages

    return Ended(program.guest, program.process, program.memory), record


def home(pus: list[int], rank: int) -> int:
    """Return the node of a rank."""
    return pus[rank] // 2


def test_pages_follow_threads_that_change_their_node(programs: Programs) -> None:
    program, record = searched(programs, "--warm-up 1s --schedule 0,2,4 --schedule 2,6,0", "2 3 huge")
    assert program.on() == [{home(record["chosen"]["pus"], rank)} for rank in range(3)]
    assert {moves["goal"] for moves in record["page_moves"]} == {"after their threads"}
    assert sum(moves["moved"]["bytes"] for moves in record["page_moves"]) >= 3 * 2 << 20


def test_threads_that_separate_after_sharing_a_node_keep_their_own_pages(programs: Programs) -> None:
    program, record = searched(programs, "--warm-up 1s --schedule 0,2 --schedule 4,5 --schedule 2,6", "2 2 huge")
    assert program.on() == [{home(record["chosen"]["pus"], rank)} for rank in range(2)]


def test_pages_that_need_longer_than_the_warm_up_stay(programs: Programs) -> None:
    program, record = searched(programs, "--warm-up 1ms --schedule 0,1 --schedule 4,5", "8 2 huge")
    assert program.on() == [{0}, {0}]
    # A few pages that the program touched before may follow: they take less time.
    assert sum(moves["moved"]["bytes"] for moves in record["page_moves"]) < 2 << 20
    assert any("--warm-up" in refused["why"] for refused in record["refused"])


def test_the_first_touch_of_a_parallel_initialisation_is_kept(programs: Programs) -> None:
    program = programs.run("-q --policy fixed --schedule 0,2,4,6", "2 4 idle")
    assert program.on() == [{0}, {1}, {2}, {3}]


def test_automatic_numa_balancing_can_be_disabled_for_a_program(programs: Programs) -> None:
    guest = programs.guest
    guest.check("echo 1 > /proc/sys/kernel/numa_balancing")
    try:
        scanned = "awk '/^numa_pte_updates/ { print $2 }' /proc/vmstat"
        program = programs.run("--policy none --page-map first_touch", "4 2")
        assert "--numa-balancing off" in unwrapped(guest.check("cat /tmp/err"))
        before = int(guest.check(scanned))
        took = guest.check(f"cut -d ' ' -f 1 /proc/uptime; while [ $({scanned}) = {before} ]; do sleep 0.1; done")
        took += guest.check("cut -d ' ' -f 1 /proc/uptime")
        assert program.lives()
        programs.run("--policy none --numa-balancing off", "4 2")
        assert "leaves the program's memory alone" in unwrapped(guest.check("cat /tmp/err"))
        before = int(guest.check(scanned))
        first, last = map(float, took.split())
        guest.check(f"sleep {last - first + 1}")
        assert int(guest.check(scanned)) == before
    finally:
        programs.end()
        guest.check("echo 0 > /proc/sys/kernel/numa_balancing")


def test_a_cpuset_is_never_widened(guest: Guest) -> None:
    group = "/sys/fs/cgroup/two_nodes"
    guest.check(f"mkdir {group}; echo 0-3 > {group}/cpuset.cpus; echo 0-1 > {group}/cpuset.mems")
    within = f"echo 'echo $$ > {group}/cgroup.procs; exec \"$@\"' > /tmp/within; sh /tmp/within"
    try:
        run = guest.run(f"{within} pinfold run --membind 3 -- echo it ran")
        assert run.status == 125
        assert "NUMA node 3 is not allowed" in run.out
        assert "0-1" in run.out
        assert "it ran" not in run.out
        policy = guest.check(f"{within} pinfold run -q --interleave all -- head -n 1 /proc/self/numa_maps")
        assert "interleave:0-1" in policy
    finally:
        guest.check(f"while ! rmdir {group}; do sleep 0.1; done")
