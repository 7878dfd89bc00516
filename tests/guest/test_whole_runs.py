"""Whole runs of a program that counts nothing are compared, and an area that is faster is used."""

import json
import os

import pytest
from guest_machine import Guest

#: A child of the program works for 0.6 s and sleeps for 0.6 s, on more than one node for 1.8 s.
PROGRAM = "at_home 600 600"

#: Eighteen unpinned runs pay for the first trial, and three turns follow.
ENOUGH = 60


#: Prints pinfold's lines as they were before they were made to fit a terminal.
UNWRAPPED = r"sed -e ':a' -e N -e '$!ba' -e 's/\npinfold:     */ /g'"

pytestmark = pytest.mark.skipif(
    "LONG" not in os.environ, reason="takes five minutes in the emulated machine; `make test-long` runs it"
)


def run_until(guest: Guest, text: str, runs: int, options: str = "", program: str = PROGRAM) -> list[str]:
    """Run the program until pinfold says this at the end of a run. Return what the program printed in each run."""
    printed = guest.check(
        f"""
        rm -f /tmp/said
        run=0
        while [ $run -lt {runs} ]; do
            run=$((run + 1))
            pinfold run --db /tmp/whole.db {options} -- {program} 2> /tmp/lines
            {UNWRAPPED} /tmp/lines | grep 'whole runs:' >> /tmp/said || true
            if tail -n 1 /tmp/said | grep -q '{text}'; then break; fi
        done
        """,
        patience=600,
    )
    said = guest.check("cat /tmp/said")
    assert text in said.splitlines()[-1], said
    return printed.split()


def test_a_program_that_is_faster_on_one_node_runs_there(guest: Guest) -> None:
    guest.check("rm -f /tmp/whole.db*")
    masks = run_until(guest, "times as fast as unpinned", ENOUGH)
    # Nothing is placed before it was measured.
    assert masks[:15] == ["8"] * 15
    assert "2" in masks
    kept = guest.check(
        f"pinfold run --db /tmp/whole.db --json /tmp/run.json -- {PROGRAM} 2> /tmp/lines; {UNWRAPPED} /tmp/lines"
    )
    assert kept.splitlines()[0] == "2"
    assert "1 node" in kept
    record = json.loads(guest.check("cat /tmp/run.json"))
    assert record["metric"]["name"] == "run"
    assert record["metric_code"] == "earlier_runs"
    assert record["chosen"]["within"] == "0-1"
    assert record["chosen"]["gain_over_first"] > 0.3
    shown = guest.check("pinfold db --db /tmp/whole.db show at_home")
    assert "times as fast as unpinned" in shown
    assert "whole runs in /tmp" in shown
    assert "whole runs: 1 node" in guest.check("pinfold db --db /tmp/whole.db list")
    (program,) = json.loads(guest.check("pinfold db --db /tmp/whole.db export at_home"))
    assert program["histories"][0]["works"][0]["used"] == "1 node"
    assert {run["how"] for run in program["runs"]} == {"whole"}


def test_beside_another_run_and_after_a_change_the_program_is_unpinned(guest: Guest) -> None:
    if guest.run("pinfold db --db /tmp/whole.db show at_home | grep -q 'times as fast'").status != 0:
        guest.check("rm -f /tmp/whole.db*")
        run_until(guest, "times as fast as unpinned", ENOUGH)
    # The first run lasts longer than those that were compared, so what is known of the program is opened again. A copy
    # of the database serves both runs.
    both = guest.check(
        f"""
        mkdir -p /tmp/copy && rm -f /tmp/copy/* && cp /tmp/whole.db* /tmp/copy/
        AT_HOME_TIMES=5 pinfold run --db /tmp/copy/whole.db -- {PROGRAM} > /tmp/first 2> /dev/null &
        while ! pidof at_home > /dev/null; do usleep 20000; done; sleep 2
        pinfold run --db /tmp/copy/whole.db -- {PROGRAM} 2> /tmp/lines
        wait
        {UNWRAPPED} /tmp/lines
        """
    )
    assert both.splitlines()[0] == "8"
    assert "another run of this program" in both
    # A run that does more work than those that were compared is unpinned before its end.
    longer = guest.check(
        f"AT_HOME_TIMES=7 pinfold run --db /tmp/whole.db -- {PROGRAM} 2> /tmp/lines; {UNWRAPPED} /tmp/lines"
    )
    assert "so the program is unpinned" in longer, longer
    assert "stopped" in guest.check("pinfold db --db /tmp/whole.db export at_home")


def test_a_failed_run_does_not_count(guest: Guest) -> None:
    guest.check("rm -f /tmp/failed.db*")
    run = guest.run("pinfold run --db /tmp/failed.db --metric run -- false")
    assert run.status == 1
    assert "does not count" in run.out
    (program,) = json.loads(guest.check("pinfold db --db /tmp/failed.db export false"))
    assert [one["how"] for one in program["runs"]] == ["failed"]
    assert program["histories"][0]["works"] == []
