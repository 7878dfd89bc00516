"""`pinfold sweep` without `--machine`: a program in configurations of this machine, by whole runs."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from conftest import CPUS, PATIENCE, alive, environment, eventually, unwrapped

#: The fewest runs: a test that needs no certain times.
ONCE = ("--runs", "1")

#: Each configuration is a list of CPUs, one for each rank.
Pinnings = list[list[int]]


@dataclass(frozen=True)
class Here:
    """The binary, and a folder for a single test."""

    binary: Path
    folder: Path

    @property
    def output(self) -> Path:
        """Return the data set."""
        return self.folder / "data.parquet"

    @property
    def partial(self) -> Path:
        """Return the runs of an unfinished sweep."""
        return self.folder / "data.parquet.partial"

    def space(self, pinnings: Pinnings) -> tuple[str, str]:
        """Return the options for these placements."""
        file = self.folder / "space.toml"
        lists = [",".join(map(str, cpus)) for cpus in pinnings]
        file.write_text(f"[[configurations]]\npinnings = {json.dumps(lists)}\n")
        return "--space", str(file)

    def start(self, *arguments: str | Path, changes: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        """Start `pinfold sweep -o OUTPUT ARGUMENTS`."""
        words = [self.binary, "sweep", "-o", self.output, "--json", self.folder / "summary.json", *arguments]
        return subprocess.Popen(
            list(map(str, words)),
            env=environment(changes),
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __call__(self, *arguments: str | Path, status: int = 0, changes: dict[str, str] | None = None) -> str:
        """Run it to its end, and return its standard error."""
        process = self.start(*arguments, changes=changes)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, err
        assert out == ""
        return unwrapped(err)

    def table(self) -> pyarrow.Table:
        """Return the data set."""
        return pyarrow.parquet.read_table(self.output)

    def rows(self) -> dict[str | None, dict[str, Any]]:
        """Return the rows by their pinning; the unpinned program has none."""
        return {row["pinning"]: row for row in self.table().to_pylist()}

    def summary(self) -> dict[str, Any]:
        """Return the summary."""
        summary: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return summary


@pytest.fixture
def here(binary: Path, tmp_path: Path) -> Here:
    """Return `pinfold sweep`."""
    return Here(binary, tmp_path)


@pytest.fixture
def pair(several_cpus: list[int]) -> tuple[int, int]:
    """Return two CPUs."""
    return several_cpus[0], several_cpus[1]


def script(folder: Path, text: str) -> Path:
    """Return a program of the shell."""
    file = folder / "program"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def test_a_measured_row_says_how_it_was_measured(here: Here, workload: Callable[[str], Path]) -> None:
    cpu = CPUS[0]
    program = (workload("compute"), "--threads", "1", "--seconds", "0.3")
    here(*here.space([[cpu]]), "--runs", "3", "--", *program)
    rows = here.rows()
    assert list(rows) == [None, str(cpu)]
    for row in rows.values():
        assert row["program"] == "compute"
        assert row["simulated"] is False
        assert (row["num_threads"], row["region"]) == (1, None)
        assert row["command"] == " ".join(map(str, program))
        assert row["runs"] >= 3
        assert row["time_s"] >= 0.3
        assert row["spread"] >= 0
        assert row["time_error"] >= 0
        assert row["load_of_others"] >= 0
        assert len(row["free_memory_bytes"]) >= 1
        assert row["simulated_share"] is None
    assert rows[str(cpu)]["num_nodes"] == 1
    schema = here.table().schema
    assert schema.metadata[b"pinfold.simulated"] == b"false"
    topologies = json.loads(schema.metadata[b"pinfold.topologies"])
    assert list(topologies) == [rows[None]["machine"]]
    assert not here.partial.exists()
    summary = here.summary()
    assert (summary["configurations"], summary["failed"], summary["complete"]) == (2, [], True)


def test_the_time_of_a_row_is_that_of_its_configuration(here: Here, pair: tuple[int, int]) -> None:
    one, other = pair
    # It sleeps for longer on one of the CPUs, so that a busy machine does not change the order.
    on_other = f"grep -qw 'Cpus_allowed_list:.{other}' /proc/$$/status"
    program = script(here.folder, f"sleep 0.3; if {on_other}; then sleep 3; fi")
    here(*here.space([[one], [other]]), *ONCE, "--threads", "1", "--", program)
    rows = here.rows()
    assert rows[str(one)]["time_s"] < rows[str(other)]["time_s"]
    assert rows[str(other)]["time_s"] >= 3


def test_the_program_is_pinned_in_its_configuration_alone(here: Here, pair: tuple[int, int]) -> None:
    program = script(here.folder, "sleep 0.3; grep Cpus_allowed_list /proc/$$/status")
    said = here.folder / "masks"
    one, other = pair
    here(
        *here.space([[one], [other]]),
        *(*ONCE, "--threads", "1", "--check", f"cat >> {said}", "--", program),
    )
    masks = sorted(line.split()[1] for line in said.read_text().splitlines())
    unpinned = [mask for mask in masks if mask not in {str(one), str(other)}]
    assert len(unpinned) >= 1
    assert {str(one), str(other)} <= set(masks)


def test_a_run_whose_check_fails_has_no_row(here: Here, pair: tuple[int, int]) -> None:
    program = script(here.folder, "sleep 0.3; grep Cpus_allowed_list /proc/$$/status")
    one, other = pair
    said = here(
        *here.space([[one], [other]]),
        *(*ONCE, "--threads", "1", "--check", f"! grep -qw 'Cpus_allowed_list:.{other}'", "--", program),
        status=125,
    )
    assert f"1 thread on {other}: its check" in said
    assert "the configuration is left out" in said
    assert list(here.rows()) == [None, str(one)]
    (failed,) = here.summary()["failed"]
    assert "its check" in failed["why"]


def test_a_program_that_fails_in_one_configuration_is_named_and_the_others_have_rows(
    here: Here, pair: tuple[int, int]
) -> None:
    one, other = pair
    text = f"sleep 0.3; if grep -qw 'Cpus_allowed_list:.{other}' /proc/$$/status; then echo broken >&2; exit 7; fi"
    program = script(here.folder, text)
    said = here(*here.space([[one], [other]]), *ONCE, "--threads", "1", "--", program, status=125)
    assert "the program ended with status 7" in said
    assert "broken" in said
    assert list(here.rows()) == [None, str(one)]


def test_a_program_that_fails_unpinned_is_refused_before_anything_is_measured(here: Here) -> None:
    program = script(here.folder, "echo no input >&2; exit 3")
    said = here("--space", "threads", "--threads", "1", "--", program, status=125)
    assert "the unpinned program fails before anything is measured" in said
    assert "status 3" in said
    assert "no input" in said
    assert not here.output.exists()


def test_an_interrupted_sweep_goes_on_where_it_was(here: Here, pair: tuple[int, int]) -> None:
    runs = here.folder / "runs"
    program = script(here.folder, f"echo run >> {runs}; sleep 0.2")
    arguments = (*here.space([[pair[0]], [pair[1]]]), "--runs", "4", "--threads", "1", "--", program)
    process = here.start(*arguments)
    eventually(lambda: runs.exists() and len(runs.read_text().split()) >= 5, "five runs")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert "the same command goes on from there" in unwrapped(said)
    assert here.partial.exists()
    said = here(*arguments)
    assert "runs were made before" in said
    assert not here.partial.exists()
    assert all(row["runs"] >= 4 for row in here.rows().values())
    assert here.summary()["resumed"] > 0


def test_runs_of_another_command_are_not_used(here: Here) -> None:
    program = script(here.folder, "sleep 0.2")
    space = here.space([[CPUS[0]]])
    process = here.start(*space, "--runs", "50", "--threads", "1", "--", program)
    eventually(lambda: here.partial.exists() and here.partial.stat().st_size > 1000, "runs in the journal")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    said = here(*space, *ONCE, "--threads", "1", "--", program, "another argument")
    assert "of an earlier sweep are not used" in said


def test_nothing_is_left_after_the_sweep_was_killed(here: Here, pair: tuple[int, int]) -> None:
    numbers = here.folder / "numbers"
    program = script(here.folder, f"sleep 1000 & echo $! $$ >> {numbers}; wait")
    process = here.start(*here.space([[pair[0]], [pair[1]]]), "--threads", "1", "--", program)
    eventually(lambda: numbers.exists() and numbers.read_text().endswith("\n"), "the program's start")
    process.kill()
    process.communicate(timeout=PATIENCE)
    started = [int(number) for number in numbers.read_text().split()]
    eventually(lambda: not any(map(alive, started)), "the end of the program")


def test_a_time_limit_keeps_what_was_measured_and_the_same_command_goes_on(here: Here) -> None:
    program = script(here.folder, "sleep 0.2")
    arguments = (*here.space([[CPUS[0]]]), "--runs", "8", "--threads", "1")
    said = here(*arguments, "--time-limit", "1500ms", "--", program)
    assert "--time-limit ended the sweep" in said
    assert here.output.exists()
    assert not here.summary()["complete"]
    here(*arguments, "--", program)
    assert here.summary()["complete"]
    assert all(row["runs"] >= 8 for row in here.rows().values())


def test_shards_become_one_data_set(here: Here, pair: tuple[int, int]) -> None:
    program = script(here.folder, "sleep 0.2")
    space = here.space([[pair[0]], [pair[1]]])
    shards = []
    for number in (1, 2):
        here(*space, *ONCE, "--threads", "1", "--shard", f"{number}/2", "--", program)
        shards.append(here.output.rename(here.folder / f"shard{number}"))
    command = [here.binary, "sweep", "merge", "-o", here.output, *shards]
    merged = subprocess.run(list(map(str, command)), env=environment(), check=True, capture_output=True, text=True)
    assert "of 2 shards: 3 rows" in unwrapped(merged.stderr)
    assert list(here.rows()) == [None, str(pair[0]), str(pair[1])]
    # The references ran in both.
    assert here.rows()[None]["runs"] == 2


def test_each_run_has_a_folder_of_its_own(here: Here) -> None:
    results = here.folder / "results"
    program = script(
        here.folder, 'echo "$1" "$PINFOLD_OUTPUT_DIR"; echo said >&2; echo result > "$1/result"; sleep 0.1'
    )
    check = 'grep -q result "$PINFOLD_OUTPUT_DIR/result"'
    space = here.space([[CPUS[0]]])
    words = ("--output-dir", results, "--check", check, "--", program, "{output}")
    here(*space, "--runs", "2", "--threads", "1", *words)
    folders = sorted(results.iterdir())
    # A warm-up run, and two of each configuration.
    assert len(folders) >= 5
    for folder in folders:
        assert (folder / "stdout").read_text() == f"{folder} {folder}\n"
        assert (folder / "stderr").read_text() == "said\n"
        assert (folder / "result").exists()


def test_a_command_before_each_run_is_run_and_its_failure_is_an_error(here: Here) -> None:
    program = script(here.folder, "sleep 0.1; test ! -e cache && touch cache")
    space = here.space([[CPUS[0]]])
    here(*space, *ONCE, "--threads", "1", "--before", "rm -f cache", "--", program)
    here.output.unlink()
    said = here(*space, *ONCE, "--threads", "1", "--before", "exit 4", "--", program, status=125)
    assert "the command of --before, `exit 4`, ended with status 4" in said


def test_the_program_reads_the_input_that_the_user_names(here: Here) -> None:
    program = script(here.folder, 'read -r word && test "$word" = data && sleep 0.1')
    space = here.space([[CPUS[0]]])
    said = here(*space, *ONCE, "--threads", "1", "--", program, status=125)
    assert "--input FILE" in said
    (here.folder / "input").write_text("data\n")
    here(*space, *ONCE, "--threads", "1", "--input", "input", "--", program)


def test_a_program_that_does_not_take_the_number_of_threads_is_told_apart(
    here: Here, workload: Callable[[str], Path], pair: tuple[int, int]
) -> None:
    program = (workload("compute"), "--seconds", "0.3", "--threads", "1")
    said = here(*here.space([list(pair)]), *ONCE, "--threads", "2", "--", *program, status=125)
    assert "the program had 1 threads and not 2" in said
    assert "{threads}" in said
    program = (workload("compute"), "--seconds", "0.3", "--threads", "{threads}")
    here(*here.space([list(pair)]), *ONCE, "--threads", "2", "--", *program)
    assert here.rows()[None]["num_threads"] == 2


def test_a_program_that_binds_its_threads_is_refused(here: Here) -> None:
    said = here("--space", "threads", "--", "true", status=125, changes={"OMP_PROC_BIND": "close"})
    assert "OMP_PROC_BIND=close binds the program's threads" in said
    assert "unset it" in said


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--runs", "3", "--machine", "e5-4650x4", "a.pft"), "--runs is about runs on this machine"),
        (("--sampled", "--", "true"), "--sampled is about simulated machines"),
        (("--precision", "4%", "--machine", "e5-4650x4", "a.pft"), "give --sampled with it"),
        (("--precision", "0", "--sampled", "--machine", "e5-4650x4", "a.pft"), "cannot be reached by a sample"),
        (("a.pft",), "name a machine with --machine"),
        (("--precision", "0", "--", "true"), "--precision 0 cannot be reached"),
        (("--", "true", "{output}"), "--output-dir DIR"),
        (("--", "no-such-program"), "command not found"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_remedy(here: Here, words: tuple[str, ...], part: str) -> None:
    process = here.start("--space", "threads", *words)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode in {125, 127}
    assert part in unwrapped(said)
    assert not here.output.exists()


def test_progress_is_lines_for_a_program_that_calls_the_sweep(here: Here) -> None:
    program = script(here.folder, "sleep 0.1")
    said = here(*here.space([[CPUS[0]]]), "--runs", "2", "--threads", "1", "--progress", "lines", "--", program)
    shown = [tuple(map(int, pair)) for pair in re.findall(r"\b(\d+)/(\d+)\b", said)]
    assert shown[0] == (0, 4)
    # Runs that others disturbed are repeated, but not for ever.
    done, planned = shown[-1]
    assert 4 <= done <= planned


def test_an_output_that_exists_is_kept(here: Here) -> None:
    here.output.write_text("precious")
    said = here("--space", "threads", "--threads", "1", "--", "true", status=125)
    assert "--force replaces it" in said
    assert here.output.read_text() == "precious"


def test_pinfold_itself_is_not_pinned(here: Here) -> None:
    before = os.sched_getaffinity(0)
    program = script(here.folder, "sleep 0.1")
    here(*here.space([[CPUS[0]]]), *ONCE, "--threads", "1", "--", program)
    assert os.sched_getaffinity(0) == before


def test_policies_run_on_what_was_measured_here(
    here: Here, workload: Callable[[str], Path], pair: tuple[int, int]
) -> None:
    program = (workload("compute"), "--threads", "1", "--seconds", "0.1")
    here(*here.space([[pair[0]], [pair[1]]]), "--threads", "1", "--runs", "2", "--", *program)
    record = here.folder / "record.json"
    words = [
        "--machine",
        f"data:{here.output}",
        "--program",
        "compute",
        "--policy",
        "fixed",
        "--schedule",
        str(pair[1]),
    ]
    run = subprocess.run(
        [here.binary, "run", *words, "--repeat", "3", "--json", record], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    replayed = json.loads(record.read_text())
    assert replayed["machine_kind"] == "table"
    assert replayed["refused"] == []
