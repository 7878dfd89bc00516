"""Parallel regions on a real kernel: teams, threads and pages of each one, and what is rolled back.

The kernel times regions and counts nothing of them. So with `--policy react` each region gets the faster of the two
profiled configurations, and with the default policy the place in which it was fastest.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from guest_machine import CPUS, OPENMP_COMPILERS, Guest
from react_models import configuration, react_model

pytestmark = pytest.mark.quiet

#: Of teams.c, whose memory is small pages.
PAGES = 4 * 256

REPORT = "/tmp/teams"

FEW = configuration(2, 1, "single")
MANY = configuration(4, 4, "interleave", "scatter")
MODEL = react_model(FEW, MANY, [FEW, MANY], [[0, 1.0, 1, 2], [0], [1]])

#: Where the threads of these are: CPUs 2n and 2n + 1 are node n.
FEW_CPUS = [0, 1]
MANY_CPUS = [0, 2, 4, 6]


@dataclass(frozen=True)
class Outcome:
    """A run of teams until some time after the choice."""

    record: dict[str, Any]
    #: What the program wrote: the sizes and CPUs of the teams of each region.
    few: dict[str, list[int]]
    many: dict[str, list[int]]
    #: The number of pages on each node before the first change, and at the end.
    before: dict[int, int]
    after: dict[int, int]
    #: The CPUs of each thread at the end, from /proc, and those of a process that the program left behind.
    threads: set[str]
    child: str

    def moves(self) -> list[str]:
        """Return the goals of moved pages, in their order."""
        return [one["goal"] for one in self.record["page_moves"] if one["moved"]["pages"] > PAGES // 2]


def run(guest: Guest, compiler: str, likes: str) -> Outcome:
    """Run teams under pinfold until it has chosen and some executions are over."""
    program = f"teams-{compiler}"
    if guest.run(f"test -x /programs/{program}").status != 0:
        pytest.skip(f"{compiler} is not installed, so there is no program with its OpenMP runtime")
    guest.check(f"cat > /tmp/model.json <<'END'\n{json.dumps(MODEL)}\nEND")
    options = "--policy react:tree --react-model /tmp/model.json --initialise 1s -t 6s --interval 200ms"
    begun = guest.check(
        f"rm -f {REPORT}*\n"
        f"OMP_WAIT_POLICY=passive pinfold run {options} --json /tmp/run.json "
        f"-- {program} {REPORT} {likes} > /tmp/out 2> /tmp/err &\n"
        f"while [ ! -s {REPORT}.begun ]; do kill -0 $!; sleep 0.05; done; cat {REPORT}.begun"
    )
    process, address = int(begun.split()[0]), int(begun.split()[1], 16)
    before = guest.pages(process)[address]
    guest.check("while ! grep -q 'regions: pages' /tmp/err; do pidof pinfold > /dev/null; sleep 0.1; done; sleep 1")
    after = guest.pages(process)[address]
    # GCC's runtime ends threads that a smaller team does not need.
    threads = guest.run(f"sed -n 's/^Cpus_allowed_list:\\t//p' /proc/{process}/task/*/status 2> /dev/null").out
    report = json.loads(
        guest.check(f"touch {REPORT}.stop; while pidof pinfold > /dev/null; do sleep 0.05; done; cat {REPORT}")
    )
    child = guest.check(f"sed -n 's/^Cpus_allowed_list:\\t//p' /proc/{report['child']}/status; kill {report['child']}")
    record = json.loads(guest.check("cat /tmp/run.json"))
    return Outcome(record, report["few"], report["many"], before, after, set(threads.split()), child.strip())


@pytest.fixture(scope="module", autouse=True)
def ended(guest: Guest) -> None:
    """End what an earlier test may have left."""
    guest.run("killall -q -9 " + " ".join(f"teams-{compiler}" for compiler in OPENMP_COMPILERS))


@pytest.mark.parametrize("compiler", OPENMP_COMPILERS)
def test_each_region_gets_its_team_and_pages_go_where_all_regions_are_fastest(guest: Guest, compiler: str) -> None:
    outcome = run(guest, compiler, "different")
    chosen = outcome.record["regions"]
    assert sorted(choice["threads"] for choice in chosen["choices"]) == [2, 4]
    assert chosen["gain"] > 0
    assert chosen["program"]["gain"] > 0
    # Both were profiled in both sizes, and each is now in its own.
    for region, size, cpus in ((outcome.few, 2, FEW_CPUS), (outcome.many, 4, MANY_CPUS)):
        assert set(region["sizes"]) == {CPUS, 2, 4}
        assert (region["sizes"][0], region["sizes"][-1]) == (CPUS, size)
        assert region["cpus"] == cpus
    # Two profiles, two places in the cross-evaluation, and the whole program as it was and back; then the pages stay.
    moves = outcome.moves()
    assert len(moves) <= 6, moves
    assert moves[-1] == "interleave"
    assert len(outcome.before) == 1
    assert all(outcome.after.get(node, 0) >= PAGES // 5 - 1 for node in range(4)), outcome.after
    assert outcome.child == f"0-{CPUS - 1}"


@pytest.mark.parametrize("compiler", OPENMP_COMPILERS)
def test_teams_threads_and_pages_go_back_where_no_region_is_faster(guest: Guest, compiler: str) -> None:
    outcome = run(guest, compiler, "all")
    assert {choice["code"] for choice in outcome.record["regions"]["choices"]} == {"not_faster"}
    for region in (outcome.few, outcome.many):
        assert {2, 4} < set(region["sizes"])
        assert region["sizes"][-1] == CPUS
        assert set(region["cpus"]) == {-1}
    assert outcome.after == outcome.before
    assert outcome.threads == {f"0-{CPUS - 1}"}
    assert outcome.child == f"0-{CPUS - 1}"


@pytest.mark.parametrize("compiler", OPENMP_COMPILERS)
def test_the_default_policy_gives_each_region_the_place_in_which_it_was_fastest(guest: Guest, compiler: str) -> None:
    program, report = f"pairs-{compiler}", "/tmp/pairs"
    if guest.run(f"test -x /programs/{program}").status != 0:
        pytest.skip(f"{compiler} is not installed, so there is no program with its OpenMP runtime")
    guest.check(
        f"rm -f {report}*\n"
        f"OMP_WAIT_POLICY=passive pinfold run --db {report}.db --json /tmp/run.json -- {program} {report} "
        "> /tmp/out 2> /tmp/err &\n"
        "until grep -q 'chosen: .* region' /tmp/err; do pidof pinfold > /dev/null; sleep 1; done; sleep 1",
        patience=400,
    )
    ended = guest.check(f"touch {report}.stop; while pidof pinfold > /dev/null; do sleep 0.05; done; cat {report}")
    nodes = json.loads(ended)
    child = guest.check(f"sed -n 's/^Cpus_allowed_list:\\t//p' /proc/{nodes['child']}/status; kill {nodes['child']}")
    record = json.loads(guest.check("cat /tmp/run.json"))
    candidates = record["candidates"]
    kept = candidates[record["chosen"]["candidate"]]
    # The rest of the program may be where one of them is, or where neither is.
    assert 1 <= len(kept["regions"]) <= 2, record["chosen"]
    assert record["chosen"]["gain_over_first"] > 0.2
    assert "fastest_tried" in {one["code"] for one in record["regions"]["choices"]}
    assert len(set(nodes["near"])) == 1
    assert len(set(nodes["far"])) == 2
    assert child.strip() == f"0-{CPUS - 1}"
