"""`pinfold run --json`: the complete record, for every end of the program."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, QUICK, Pinfold, cpu_list

KEYS = {"machine", "simulated", "policy", "metric", "candidates", "chosen", "exit_status"}


def test_a_whole_run_has_every_key(pinfold: Pinfold, compiled: Callable[..., Path], cpu_time: tuple[str, str]) -> None:
    schedules = [word for order in (CPUS, CPUS[::-1]) for word in ("--schedule", cpu_list(order))]
    run = pinfold.record_until("chosen: ", *QUICK, *schedules, *cpu_time, "--", compiled("spin"), "2", "600")
    record = run.json
    assert record.keys() >= KEYS
    assert record["simulated"] is False
    assert record["policy"] == "autopin"
    assert record["metric"]["name"] == "event:task-clock"
    assert record["exit_status"] == run.status == 128 + signal.SIGTERM
    assert record["command"][1:] == ["2", "600"]
    assert [one["pus"] for one in record["candidates"]] == [CPUS, CPUS[::-1]]
    for one in record["candidates"]:
        assert one["rate"] > 0
        assert one["spread"] >= 0
    assert record["chosen"]["pus"] in (CPUS, CPUS[::-1])
    assert record["chosen"]["rate"] == max(one["rate"] for one in record["candidates"])
    assert record["ended_early"] is None
    assert record["tasks"] == 2


@pytest.mark.parametrize("program", [["true"], ["sh", "-c", "exit 3"], ["sh", "-c", "kill -9 $$"]], ids=" ".join)
def test_a_program_that_ends_at_once_leaves_a_complete_record(pinfold: Pinfold, program: list[str]) -> None:
    run = pinfold.record("--", *program)
    assert run.json.keys() >= KEYS
    assert run.json["exit_status"] == run.status
    assert run.json["candidates"] == []
    assert run.json["chosen"] is None
    assert "ended" in run.json["ended_early"]["why"]


def test_a_program_that_ends_during_the_search_gets_the_results_so_far(
    pinfold: Pinfold, compiled: Callable[..., Path], cpu_time: tuple[str, str]
) -> None:
    """It has a thousand candidates and time for two."""
    schedules = ["--schedule", cpu_list(CPUS)] * 1000
    run = pinfold.record_until(" 2/1000 ", *QUICK, *schedules, *cpu_time, "--", compiled("spin"), "1", "600")
    measured = [one["rate"] for one in run.json["candidates"] if one["rate"] is not None]
    assert len(run.json["candidates"]) == 1000
    assert 0 < len(measured) < 1000
    assert run.json["chosen"] is None
    assert run.json["ended_early"]["rate"] == max(measured)
    assert run.json["candidates"][run.json["ended_early"]["best"]]["rate"] == max(measured)
    assert run.said(run.json["ended_early"]["why"]) == 1
    assert run.said("The best so far: ") == 1


def test_a_program_that_is_killed_during_the_search_also_gets_them(
    pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    file = pinfold.folder / "record.json"
    process = pinfold.start("--json", file, "--", compiled("spin"), "1", "600")
    assert process.stdout
    os.kill(int(process.stdout.readline()), signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGKILL
    record = json.loads(file.read_text())
    assert record.keys() >= KEYS
    assert record["exit_status"] == 128 + signal.SIGKILL
    assert record["ended_early"]


def test_the_record_can_be_written_to_a_pipe(pinfold: Pinfold) -> None:
    """A pipe can be written only once."""
    run = pinfold.run("--json", "/dev/stdout", "--", "true")
    assert json.loads(run.out)["exit_status"] == 0


def test_a_record_that_was_there_is_replaced(pinfold: Pinfold) -> None:
    file = pinfold.folder / "record.json"
    file.write_text("x" * 100_000)
    assert pinfold.record("--", "true").json["exit_status"] == 0


def test_a_program_that_cannot_be_started_does_not_change_an_old_record(pinfold: Pinfold) -> None:
    file = pinfold.folder / "record.json"
    file.write_text("old")
    assert pinfold.run("--json", file, "--", "/not/there").status == 127
    assert file.read_text() == "old"


def test_a_killed_pinfold_leaves_no_record_or_the_old_one(pinfold: Pinfold) -> None:
    new, old = pinfold.folder / "new.json", pinfold.folder / "old.json"
    old.write_text("old")
    for file in (new, old):
        process = pinfold.start("--json", file, "--", "sh", "-c", "echo runs; exec sleep 600")
        assert process.stdout
        assert process.stdout.readline() == "runs\n"
        process.kill()
        process.wait()
    assert not new.exists()
    assert old.read_text() == "old"


def test_unavailable_numbers_are_null(pinfold: Pinfold) -> None:
    run = pinfold.record("--", "true")
    assert run.json["metric"] is None
    assert run.json["metric_why"] is None
    assert run.json["threads"] is None
