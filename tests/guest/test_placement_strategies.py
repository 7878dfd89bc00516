"""`--policy classify` on a real kernel: threads and pages that are in memory go to the forecast strategy, or back."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from guest_machine import CPUS, NODES, Guest

pytestmark = pytest.mark.quiet

MIB = 8
PAGES = MIB * 256

#: By this model compact with interleave takes half of the default's time, whatever the program does.
MODEL = {
    "placement_model": 2,
    "trained": {"simulated": True, "machines": ["none"], "programs": ["none"], "rows": 3, "learner": "by hand"},
    "features": [
        {"name": "scatter", "least": 0.0, "greatest": 1.0},
        {"name": "interleave", "least": 0.0, "greatest": 1.0},
    ],
    "strategies": [
        {"threads": "compact", "pages": "interleave"},
        {"threads": "scatter", "pages": "first_touch"},
        {"threads": "scatter", "pages": "interleave"},
    ],
    "times": {"base": 0.0, "factor": 1.0, "trees": [[[0, 0.5, 1, 2], [-0.7], [0.0]]]},
    "errors": {"base": 0.01, "factor": 1.0, "trees": []},
    "least_error": 0.001,
    "width": 2.0,
    "limit": 1.0,
    "close": 0.02,
    "sensitivity": {"base": 1.0, "factor": 1.0, "trees": []},
    "deviations": [[1.0, 0.0, 0.0, 0.0]],
}


@dataclass(frozen=True)
class Outcome:
    """A run of picky."""

    record: dict[str, Any]
    #: The number of pages on each node, at the start and at the end.
    before: list[int]
    after: list[int]
    #: The number of CPUs that the program might use at its end.
    cpus: int


def run(guest: Guest, *, likes_spread: bool) -> Outcome:
    """Run picky, which likes its pages on several nodes or on one."""
    guest.check(f"cat > /tmp/model.json <<'END'\n{json.dumps(MODEL)}\nEND")
    times = "--initialise 2s -t 3s --warm-up 1s --threads 1 --metric heartbeat"
    command = f"picky /tmp/picky {MIB} {int(likes_spread)} 24"
    said = guest.check(
        f"pinfold run --policy classify:forest --placement-model /tmp/model.json {times} --json /tmp/run.json"
        f" -- {command}\n"
        "cat /tmp/picky"
    )
    before, after, cpus = said.splitlines()[-3:]
    record = json.loads(guest.check("cat /tmp/run.json"))
    return Outcome(record, [int(one) for one in before.split()], [int(one) for one in after.split()], int(cpus))


def moved(record: dict[str, Any]) -> dict[str, int]:
    """Return the number of moved pages for each goal."""
    return {one["goal"]: one["moved"]["pages"] for one in record["page_moves"]}


def measured(record: dict[str, Any]) -> str:
    """Return what was measured of each candidate, for the message of a failure."""
    return json.dumps({key: record[key] for key in ("candidates", "chosen")}, indent=1)


@pytest.fixture(scope="module", autouse=True)
def ended(guest: Guest) -> None:
    """End what an earlier test may have left."""
    guest.run("killall -q -9 picky")


def run_view(guest: Guest, *, likes_spread: bool) -> Outcome:
    """Run picky under the view of the default policy that has the four strategies, without the model."""
    command = f"picky /tmp/picky {MIB} {int(likes_spread)} 24"
    policy = "--policy classify --placement-model none --threads 1 --metric heartbeat -t 400ms"
    said = guest.check(f"pinfold run {policy} --json /tmp/run.json -- {command}\ncat /tmp/picky")
    before, after, cpus = said.splitlines()[-3:]
    record = json.loads(guest.check("cat /tmp/run.json"))
    return Outcome(record, [int(one) for one in before.split()], [int(one) for one in after.split()], int(cpus))


def test_the_belief_that_ships_finds_the_strategy_without_a_model(guest: Guest) -> None:
    outcome = run_view(guest, likes_spread=True)
    assert outcome.record["policy"] == "classify"
    assert outcome.record["chosen"]["gain_over_first"] > 1, measured(outcome.record)
    assert all(outcome.after[node] >= PAGES // len(NODES) - 1 for node in NODES)
    assert {one["by"] for one in outcome.record["proposals"]} == {"topology"}


def test_the_view_leaves_threads_and_pages_where_no_strategy_helps(guest: Guest) -> None:
    for _ in range(3):
        outcome = run_view(guest, likes_spread=False)
        # A program that ends while a strategy is tried does not show where it was left.
        if outcome.cpus == CPUS:
            break
    assert outcome.record["chosen"] is None or outcome.record["chosen"]["pus"] is None, measured(outcome.record)
    assert outcome.after == outcome.before
    assert outcome.cpus == CPUS


def test_pages_in_memory_go_to_the_forecast_strategy_and_stay_where_that_helps(guest: Guest) -> None:
    outcome = run(guest, likes_spread=True)
    assert outcome.record["forecast"]["code"] == "strategy"
    assert outcome.record["chosen"]["code"] == "strategy_kept", measured(outcome.record)
    assert outcome.record["chosen"]["gain_over_first"] > 1
    assert sum(count > 0 for count in outcome.before) == 1
    assert all(outcome.after[node] >= PAGES // len(NODES) - 1 for node in NODES)
    assert outcome.cpus == 1


def test_threads_and_pages_go_back_where_the_strategy_does_not_help(guest: Guest) -> None:
    outcome = run(guest, likes_spread=False)
    assert outcome.record["chosen"]["code"] == "strategy_rolled_back"
    assert outcome.after == outcome.before
    assert outcome.cpus == CPUS
    pages = moved(outcome.record)
    assert pages["interleave"] > PAGES // 2
    assert pages["back to where they were"] >= pages["interleave"]


def run_auto(guest: Guest, *, likes_spread: bool, options: str = "") -> Outcome:
    """Run picky under the default policy, which has no model."""
    command = f"picky /tmp/picky {MIB} {int(likes_spread)} 14"
    policy = "--threads 1 --metric heartbeat --placement-model none --do-not-ask topology -t 400ms"
    said = guest.check(
        f"pinfold run {policy} --db /tmp/behaviour.db {options} --json /tmp/run.json -- {command}\n"
        "rm -f /tmp/behaviour.db*\ncat /tmp/picky"
    )
    before, after, cpus = said.splitlines()[-3:]
    record = json.loads(guest.check("cat /tmp/run.json"))
    return Outcome(record, [int(one) for one in before.split()], [int(one) for one in after.split()], int(cpus))


def test_auto_spreads_pages_that_one_thread_has_touched_where_that_helps(guest: Guest) -> None:
    outcome = run_auto(guest, likes_spread=True)
    chosen = outcome.record["candidates"][outcome.record["chosen"]["candidate"]]
    assert chosen["pages"] == "interleave"
    assert outcome.record["chosen"]["gain_over_first"] > 1
    assert all(outcome.after[node] >= PAGES // len(NODES) - 1 for node in NODES)


def test_auto_takes_pages_back_where_spreading_them_does_not_help(guest: Guest) -> None:
    outcome = run_auto(guest, likes_spread=False)
    assert {"interleave", "back to where they were"} <= set(moved(outcome.record))
    assert outcome.after == outcome.before


def test_auto_does_not_move_pages_where_that_would_take_too_long(guest: Guest) -> None:
    outcome = run_auto(guest, likes_spread=True, options="--migrate-rate 1M")
    assert {refused["code"] for refused in outcome.record["refused"]} == {"pages_too_long"}
    assert "page_moves" not in outcome.record or not outcome.record["page_moves"]
    assert outcome.after == outcome.before
