"""`pinfold sweep --within-run`: all configurations of a program while it runs once, into a data set."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from conftest import CPUS, PATIENCE, alive, environment, eventually, unwrapped

#: A short sweep of a program that starts at once.
QUICK = ("--initialise", "400ms", "--rounds", "2")

SCRIPT = """
topology = "synthetic:package:2 l3:1 core:2 pu:1"
threads = 2
duration = {duration}
noise = 0.01
[[phase]]
start = 0.0
rate = 100.0
[[phase.pinning]]
pus = "0,1"
rate = 125.0
"""


@dataclass(frozen=True)
class Within:
    """The binary, and a folder for a single test."""

    binary: Path
    folder: Path

    @property
    def output(self) -> Path:
        """Return the data set."""
        return self.folder / "data.parquet"

    @property
    def partial(self) -> Path:
        """Return the journal of an unfinished sweep."""
        return self.folder / "data.parquet.partial"

    def start(self, *words: str | Path, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        """Start `pinfold sweep --within-run -o OUTPUT WORDS`."""
        command = [self.binary, "sweep", "--within-run", "-o", self.output, "--json", self.folder / "json", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(list(map(str, command)), env=environment(env), text=True, stdout=pipe, stderr=pipe)

    def __call__(self, *words: str | Path, status: int = 0) -> str:
        """Run it to its end, and return its standard error."""
        process = self.start(*words)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, err
        return unwrapped(err)

    @property
    def summary(self) -> dict[str, Any]:
        """Return the summary of the sweep."""
        return dict(json.loads((self.folder / "json").read_text()))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the data set."""
        return list(pyarrow.parquet.read_table(self.output).to_pylist())

    def script(self, duration: float) -> str:
        """Write a script, and return the machine that plays it."""
        file = self.folder / "script.toml"
        file.write_text(SCRIPT.format(duration=duration))
        return f"scripted:{file}"


def child_of(process: "subprocess.Popen[str]", name: str) -> int:
    """Return the child with this name. One of pinfold's threads has started it."""
    lists = Path(f"/proc/{process.pid}/task").glob("*/children")
    children = [int(child) for one in lists for child in one.read_text().split()]
    (found,) = (child for child in children if Path(f"/proc/{child}/comm").read_text() == f"{name}\n")
    return found


@pytest.fixture
def within(binary: Path, tmp_path: Path) -> Within:
    """Return `pinfold sweep --within-run`."""
    return Within(binary, tmp_path)


def test_the_rates_of_a_script_are_the_times_of_the_rows(within: Within) -> None:
    err = within("--machine", within.script(100.0), "--space", "threads", *QUICK)
    times = {row["pinning"]: row["time_s"] for row in within.rows}
    assert len(times) == len(within.rows) == within.summary["configurations"]
    fastest = min(times, key=lambda pinning: times[pinning])
    assert fastest == "0,1"
    others = [time for pinning, time in times.items() if pinning != "0,1"]
    assert all(time / times["0,1"] == pytest.approx(1.25, rel=0.05) for time in others)
    assert "The sweep is complete" in err
    assert within.summary["complete"]


def test_a_program_that_ends_early_keeps_its_rows_and_what_is_missing_is_said(within: Within) -> None:
    err = within("--machine", within.script(1.5), "--space", "threads", *QUICK)
    summary = within.summary
    assert not summary["complete"]
    assert 0 < len(within.rows) < summary["configurations"]
    assert "The program has ended before the sweep." in err
    assert f"of {summary['configurations']} configurations are measured" in err


def test_a_program_that_ends_before_anything_is_measured_writes_nothing(within: Within) -> None:
    err = within("--machine", within.script(0.3), "--space", "threads", *QUICK, status=125)
    assert "nothing was measured" in err
    assert not within.output.exists()


def test_regions_of_a_simulated_program_are_named_as_in_a_simulated_sweep(
    within: Within, workload: Callable[[str], Path]
) -> None:
    recording = within.folder / "hydro.pft"
    record = [within.binary, "record", "-o", recording, "--", workload("hydro")]
    record += ["--threads", "4", "--size", "1M", "--iterations", "2"]
    subprocess.run(list(map(str, record)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)
    swept = within.folder / "swept.parquet"
    sweep = [within.binary, "sweep", "-q", "-o", swept, "--machine", "e5-4650x4", "--space", "placement", recording]
    subprocess.run(list(map(str, sweep)), env=environment(), check=True, timeout=PATIENCE)
    within("--machine", "e5-4650x4", "--space", "placement", "--initialise", "1s", recording)
    wanted = {
        (row["region"], row["pinning"], row["page_map"]): row["time_s"]
        for row in pyarrow.parquet.read_table(swept).to_pylist()
        if row["region"] is not None
    }
    measured = {
        (row["region"], row["pinning"], row["page_map"]): row["time_s"] for row in within.rows if row["pinning"]
    }
    assert measured
    assert measured.keys() <= wanted.keys()
    for region in {region for region, *_ in measured}:
        ratios = [measured[key] / wanted[key] for key in measured if key[0] == region]
        # A row of the simulated sweep is of all executions of a repetition, and one within a run of one execution.
        assert max(ratios) / min(ratios) == pytest.approx(1.0, abs=0.1), region


def test_regions_of_a_program_are_measured_here_and_the_program_ends_when_asked(
    within: Within, compiled: Callable[..., Path]
) -> None:
    program = compiled("three_regions", "-fopenmp")
    err = within("--space", "threads", *QUICK, "--end", "--", program, "100")
    rows, summary = within.rows, within.summary
    assert (summary["regions"], summary["complete"]) == (3, True), err
    regions = {row["region"] for row in rows}
    assert len(regions) == 3
    assert len(rows) == 3 * summary["configurations"]
    assert all(row["time_s"] > 0 and not row["simulated"] for row in rows)
    # A busy machine can hold a region back for so long that the sweep goes on without a measurement of it.
    assert sum(row["runs"] < 2 for row in rows) <= 1, rows
    assert {row["region_object"] for row in rows} == {program.name}
    assert len({row["region_offset"] for row in rows}) == 3
    assert sum(row["baseline"] for row in rows) == 3
    assert summary["exit_status"] == 128 + signal.SIGTERM


def test_a_program_without_regions_is_measured_by_its_metric(within: Within, workload: Callable[[str], Path]) -> None:
    program = (workload("pairs"), "--seconds", "30")
    within("--space", "threads", *QUICK, "--end", "--by", "program", "--", *program)
    summary = within.summary
    assert (summary["regions"], summary["complete"]) == (0, True)
    assert summary["metric"]
    assert all(row["region"] is None for row in within.rows)


def test_nothing_stays_pinned_when_the_sweep_is_over(within: Within, workload: Callable[[str], Path]) -> None:
    program = (workload("hydro"), "--size", "2M", "--seconds", "100")
    process = within.start("--space", "threads", *QUICK, "--", *program)
    assert process.stderr
    lines = ""
    for line in process.stderr:
        lines += line
        if "The sweep is complete" in lines:
            break
    child = child_of(process, "hydro")

    def is_free() -> bool:
        threads = os.listdir(f"/proc/{child}/task")
        return all(os.sched_getaffinity(int(thread)) == set(CPUS) for thread in threads)

    eventually(is_free, "all threads have all CPUs")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert len(within.rows) == within.summary["rows"] > 0


def records(file: Path) -> list[dict[str, Any]]:
    """Return the whole records of a journal."""
    _, _, rest = file.read_bytes().partition(b"\n")
    found = []
    while len(rest) >= 8:
        length = int.from_bytes(rest[:4], "little")
        if len(rest) < 8 + length:
            break
        found.append(json.loads(rest[8 : 8 + length])["outcome"])
        rest = rest[8 + length :]
    return found


def turns(file: Path) -> int:
    """Return the number of measurements in a journal; 0 before it exists."""
    return sum("Turn" in record for record in records(file)) if file.exists() else 0


def test_a_program_that_ended_early_is_measured_to_the_end_in_further_runs(within: Within) -> None:
    words = ("--machine", within.script(2.5), "--space", "threads", *QUICK)
    err = within(*words)
    assert "the same command goes on from there" in err
    first = within.summary
    assert (first["complete"], first["resumed"]) == (False, 0)
    assert within.partial.exists()
    for _ in range(20):
        err = within(*words)
        assert "measurements were made before" in err
        if within.summary["complete"]:
            break
    summary = within.summary
    assert summary["complete"]
    assert summary["resumed"] > 0
    assert not within.partial.exists()
    times = {row["pinning"]: row["time_s"] for row in within.rows}
    assert len(times) == summary["configurations"] == summary["measured"]
    others = [time for pinning, time in times.items() if pinning != "0,1"]
    assert all(time / times["0,1"] == pytest.approx(1.25, rel=0.05) for time in others)


def test_the_second_run_says_beforehand_that_the_program_will_end_too_early(within: Within) -> None:
    endless = ("--rounds", "1000", "--precision", "0.001%")
    words = ("--machine", within.script(6.0), "--space", "threads", "--initialise", "400ms", *endless)
    within(*words)
    err = within(*words)
    assert "if it runs as long as before" in err


def test_a_sweep_killed_in_the_middle_goes_on_with_what_it_had_measured(
    within: Within, compiled: Callable[..., Path]
) -> None:
    program = compiled("three_regions", "-fopenmp")
    words = ("--space", "threads", "--initialise", "400ms", "--rounds", "20", "--end", "--", program, "100")
    process = within.start(*words)
    eventually(lambda: turns(within.partial) >= 3, "something is measured")
    process.kill()
    process.communicate()
    assert not within.output.exists()
    before = turns(within.partial)
    # A kill in the middle of a record leaves a part of it.
    within.partial.write_bytes(within.partial.read_bytes()[:-1])
    err = within(*words)
    summary = within.summary
    assert "was cut off" in err
    assert (summary["complete"], summary["regions"]) == (True, 3), err
    assert before - 1 <= summary["resumed"] <= before
    # Regions have other addresses in each run, and are recognised by their code.
    assert len(within.rows) == 3 * summary["configurations"]
    assert len({row["region_offset"] for row in within.rows}) == 3
    assert not within.partial.exists()


def test_a_complete_journal_becomes_a_data_set_without_a_run(within: Within, compiled: Callable[..., Path]) -> None:
    program = compiled("three_regions", "-fopenmp")
    words = ("--space", "threads", *QUICK, "--", program, "100")
    process = within.start(*words)
    assert process.stderr
    for line in process.stderr:
        if "The sweep is complete" in line:
            break
    process.kill()
    process.communicate()
    assert not within.output.exists()
    measured = turns(within.partial)
    err = within(*words)
    summary = within.summary
    assert (summary["complete"], summary["resumed"], summary["exit_status"]) == (True, measured, None), err
    assert len(within.rows) == 3 * summary["configurations"]
    assert {row["region_object"] for row in within.rows} == {program.name}
    assert sum(row["runs"] for row in within.rows) == measured
    assert not within.partial.exists()


def test_a_journal_of_another_program_or_kind_of_sweep_is_refused_and_kept(
    within: Within, compiled: Callable[..., Path]
) -> None:
    program = compiled("three_regions", "-fopenmp")
    process = within.start("--space", "threads", *QUICK, "--", program, "100")
    eventually(lambda: turns(within.partial) >= 3, "something is measured")
    process.kill()
    process.communicate()
    kept = within.partial.read_bytes()
    err = within("--space", "threads", *QUICK, "--", program, "101", status=125)
    assert "other arguments of the program" in err
    assert "choose another output" in err
    err = within("--space", "threads", *QUICK, "--", "true", status=125)
    assert "another program" in err
    whole = [within.binary, "sweep", "--space", "threads", "-o", within.output, "--", program, "1"]
    refused = subprocess.run(list(map(str, whole)), env=environment(), capture_output=True, text=True, check=False)
    assert "not a partial result of this kind of sweep" in unwrapped(refused.stderr)
    assert within.partial.read_bytes() == kept


def test_options_that_do_not_fit_are_refused(within: Within) -> None:
    machine = within.script(1.0)
    err = within("--machine", machine, "--space", "threads", "--shard", "1/2", status=125)
    assert "--shard is for sweeps of many runs" in err
    assert "goes on in another run" in err
    err = within("--machine", machine, "--space", "threads", "--", "true", status=125)
    assert "leave out the command" in err
    err = within("--space", "threads", status=125)
    assert "there is no program to measure" in err


def test_a_killed_sweep_leaves_neither_a_pinned_program_nor_a_file(
    within: Within, workload: Callable[[str], Path]
) -> None:
    program = (workload("hydro"), "--size", "2M", "--seconds", "100")
    process = within.start("--space", "threads", "--initialise", "400ms", "--rounds", "1000", "--", *program)
    assert process.stderr
    for line in process.stderr:
        if "configurations of" in line:
            break
    child = child_of(process, "hydro")
    process.kill()
    process.wait()
    eventually(lambda: not alive(child), "the program has ended with pinfold")
    assert not within.output.exists()
