"""`pinfold compare`: variants in turns, the table, exports, failures, signals, and simulated machines."""

import csv
import json
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, QUICK, Terminal, alive, environment, eventually

#: Two policies that pin from the start, on any machine.
POLICIES = ("--policy", "fixed,hint:SLP", "--threads", "1")


@dataclass(frozen=True)
class Compared:
    """An ended comparison."""

    status: int
    out: str
    err: str
    json: dict[str, Any]

    def result(self, name: str) -> dict[str, Any]:
        """Return a result by its name."""
        return next(one for one in self.json["results"] if one["command"] == name)


@dataclass(frozen=True)
class Compare:
    """`pinfold compare`, and a folder for a single test."""

    binary: Path
    folder: Path

    def start(self, *arguments: str | Path) -> "subprocess.Popen[str]":
        """Start `pinfold compare --export-json FILE ARGUMENTS`."""
        words = [self.binary, "compare", "--export-json", self.folder / "compared.json", *arguments]
        return subprocess.Popen(
            [str(word) for word in words],
            env=environment({"XDG_STATE_HOME": str(self.folder), "PINFOLD_DB": str(self.folder / "behaviour.db")}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: "subprocess.Popen[str]") -> Compared:
        """Wait for the end of a comparison."""
        out, err = process.communicate(timeout=PATIENCE)
        file = self.folder / "compared.json"
        return Compared(process.returncode, out, err, json.loads(file.read_text()) if file.exists() else {})

    def __call__(self, *arguments: str | Path) -> Compared:
        """Compare to the end."""
        return self.end(self.start(*arguments))


@pytest.fixture
def compare(binary: Path, tmp_path: Path) -> Compare:
    """Return `pinfold compare`."""
    return Compare(binary, tmp_path)


def counting(folder: Path, then: str = "true") -> list[str]:
    """Return a program that writes a line to a file in each run, and then does this."""
    return ["sh", "-c", f'echo "${{PINFOLD_CHANNEL:+under pinfold}}" >> {folder}/runs; {then}']


def test_variants_run_in_turns_and_the_table_has_all(compare: Compare) -> None:
    done = compare(*POLICIES, "--runs", "2", "--", *counting(compare.folder))
    assert done.status == 0, done.err
    names = ["alone", "unpinned", "fixed", "hint:SLP"]
    assert [one["command"] for one in done.json["results"]] == names
    assert [len(one["times"]) for one in done.json["results"]] == [2] * 4
    # pinfold gives its program a channel, so a program under pinfold can be distinguished from the program alone.
    under = ["under pinfold"] * 3
    assert (compare.folder / "runs").read_text().splitlines() == ["", *under, "", *under]
    rows = {line.split()[0] for line in done.out.splitlines() if "±" in line}
    assert rows >= set(names)
    assert done.json["simulated"] is False
    assert done.json["ended_early"] is None


def test_every_figure_of_a_result_is_there(compare: Compare) -> None:
    done = compare("--policy", "none", "--runs", "3", "--", "true")
    alone, unpinned = done.result("alone"), done.result("unpinned")
    assert len(done.json["results"]) == 2, "`none` is the unpinned variant"
    for key in ("mean", "stddev", "median", "user", "system", "min", "max"):
        assert isinstance(alone[key], float), key
    assert alone["min"] <= alone["median"] <= alone["max"]
    assert alone["relative"] is None
    relative = unpinned["relative"]
    assert relative["times_as_fast"] == pytest.approx(alone["mean"] / unpinned["mean"])
    assert 0 <= relative["p_value"] <= 1
    assert relative["standard_error"] >= 0


def test_warm_up_runs_and_the_command_before_each_run_are_not_counted(compare: Compare) -> None:
    prepare = f"echo prepared >> {compare.folder}/prepared"
    done = compare("--policy", "none", "--runs", "1", "-w", "2", "--prepare", prepare, "--", "true")
    assert [len(one["times"]) for one in done.json["results"]] == [1, 1]
    assert (compare.folder / "prepared").read_text().count("prepared") == 6


def test_the_table_and_the_exports_have_the_same_figures(compare: Compare) -> None:
    table, markdown = compare.folder / "table.csv", compare.folder / "table.md"
    exports = ("--export-csv", table, "--export-markdown", markdown)
    done = compare(*exports, "--policy", "hint:SLP --threads 1", "--runs", "2", "--", "true")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["command"] for row in rows] == ["alone", "unpinned", "hint:SLP --threads 1"]
    for row, result in zip(rows, done.json["results"], strict=True):
        assert float(row["mean"]) == pytest.approx(result["mean"])
        assert row["simulated"] == "false"
    lines = markdown.read_text().splitlines()
    assert len(lines) == 2 + len(rows)
    assert all(line.count("|") == 7 for line in lines)


def test_a_policy_gets_its_options_and_says_what_it_chose(compare: Compare, cpu_time: tuple[str, str]) -> None:
    options = (*QUICK, *cpu_time, "--candidates", "1")
    done = compare(*options, "--policy", "autopin,hint:SLP", "--threads", "1", "--runs", "1", "--", "sleep", "0.01")
    autopin = done.result("autopin")
    assert "--candidates=1" in autopin["options"]
    assert "--candidates=1" not in done.result("hint:SLP")["options"]
    assert (autopin["decided"], autopin["choices"][0]["choice"]) == (0, "undecided")
    assert autopin["choices"][0]["why"]
    assert done.result("hint:SLP")["decided"] is None
    assert "autopin had decided in 0 of 1 runs" in " ".join(done.out.split())


def test_without_names_the_policies_that_work_here_are_compared(compare: Compare) -> None:
    done = compare("--runs", "1", "--", "true")
    assert done.status == 0, done.err
    compared = {one["command"] for one in done.json["results"]}
    left_out = {one["policy"] for one in done.json["left_out"]}
    assert {"autopin", "hints", "classify", "react"} <= compared | left_out
    assert not any(":" in name for name in compared | left_out), "variants are compared if they are named"
    assert "autopin" in compared
    assert not left_out & compared
    assert not {"none", "fixed", "hint"} & (left_out | compared)
    for one in done.json["left_out"]:
        assert f"{one['policy']} is left out: " in done.err


def test_a_program_that_fails_ends_the_comparison_and_what_was_measured_is_kept(compare: Compare) -> None:
    once = f"test ! -e {compare.folder}/ran || {{ echo broken >&2; exit 3; }}; touch {compare.folder}/ran"
    done = compare("--policy", "none", "--runs", "2", "--", "sh", "-c", once)
    assert done.status == 125
    for text in ("run 1 of the variant `unpinned`", "status 3", "--ignore-failure", "broken"):
        assert text in done.err
    assert len(done.result("alone")["times"]) == 1
    assert "status 3" in done.json["ended_early"]
    assert "the comparison is not complete" in done.out


def test_failures_count_where_the_user_wants_that(compare: Compare) -> None:
    done = compare("--policy", "none", "--runs", "2", "--ignore-failure", "--", "sh", "-c", "exit 3")
    assert done.status == 0
    assert [one["exit_codes"] for one in done.json["results"]] == [[3, 3], [3, 3]]
    assert "2 of 2 runs of alone failed, with status 3" in done.out


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("--", "no-such-program"), 127, "command not found: no-such-program"),
        (("--policy", "nosuch", "--", "true"), 125, "the variant `nosuch`"),
        (("--policy", "autopin --searc racing", "--", "true"), 125, "unexpected argument '--searc'"),
        (("--policy", "autopin,", "--", "true"), 125, "lacks a name"),
        (("--policy", "autopin --dry-run", "--", "true"), 125, "--dry-run is for a single run"),
        (("--min-runs", "5", "--max-runs", "3", "--", "true"), 125, "--max-runs 3 is less than"),
        (("--runs", "0", "--", "true"), 125, "--runs"),
        (("--seed", "1", "--", "true"), 125, "--seed is about a simulated machine"),
        (("program.pft",), 125, "name one with --machine"),
        (("--machine", "synthetic:pu:2", "--", "true"), 125, "not its speed"),
        (("--machine", "scripted:x.toml", "--", "true"), 125, "all policies take the same time"),
        (("--input", "/nonexistent", "--policy", "none", "--", "true"), 125, "--input /nonexistent cannot be read"),
        (("--prepare", "exit 4", "--policy", "none", "--", "true"), 125, "--prepare"),
        (("--export-csv", "/nonexistent/a.csv", "--", "true"), 125, "--export-csv /nonexistent/a.csv"),
        ((), 125, "<CMD>"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(
    compare: Compare, arguments: tuple[str, ...], status: int, text: str
) -> None:
    done = compare(*arguments)
    assert done.status == status, done.err
    assert text in " ".join(done.err.split())
    assert (done.out, done.json) == ("", {})


def test_a_program_that_cannot_be_executed_has_status_126(compare: Compare) -> None:
    file = compare.folder / "text"
    file.write_text("no program")
    done = compare("--policy", "none", "--", file)
    assert done.status == 126, done.err
    assert "cannot execute" in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_and_reports_what_is_complete(compare: Compare, number: signal.Signals) -> None:
    runs = compare.folder / "runs"
    wait = f"test $(wc -l < {runs}) -lt 2 || exec sleep 600"
    process = compare.start("--policy", "none", "--runs", "5", "--", *counting(compare.folder, wait))
    eventually(lambda: runs.exists() and len(runs.read_text().splitlines()) == 2, "the second run has begun")
    process.send_signal(number)
    done = compare.end(process)
    assert done.status == 128 + number
    assert [len(one["times"]) for one in done.json["results"]] == [1, 0]
    assert done.json["ended_early"] == f"{number.name} ended it"
    assert "the comparison is not complete" in done.out
    assert f"{number.name} ended the comparison" in done.err


def test_control_c_ends_the_program_and_the_comparison(
    terminal: Callable[..., Terminal], binary: Path, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    program = ("sh", "-c", f"echo $$ > {begun}; exec sleep 600")
    one = terminal(binary, "compare", "--policy", "none", "--", *program)
    eventually(lambda: begun.exists() and begun.read_text(), "the first run has begun")
    one.type("\x03")
    assert one.end() == 128 + signal.SIGINT
    assert "SIGINT ended the comparison" in one.shown
    assert not alive(int(begun.read_text()))


def test_output_is_discarded_shown_or_written(compare: Compare) -> None:
    options = ("--policy", "none", "--runs", "1")
    program = ("sh", "-c", "echo to-out; echo to-err >&2; cat")
    assert "to-out" not in compare(*options, "--", *program).out.splitlines()
    shown = compare(*options, "--show-output", "--", *program)
    assert shown.out.splitlines().count("to-out") == 2
    assert shown.err.splitlines().count("to-err") == 2
    read, written = compare.folder / "in", compare.folder / "out"
    read.write_text("from-in\n")
    compare(*options, "--input", read, "--stdout", written, "--", *program)
    assert written.read_text() == "to-out\nfrom-in\n"


def test_help_has_examples_and_the_options_of_run(binary: Path) -> None:
    shown = subprocess.run([binary, "compare", "--help"], capture_output=True, text=True, check=True).stdout
    for text in ("Examples:", "--probe", "--react-model", "--warmup", "--export-json"):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.fixture(scope="module")
def recording(binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of four threads that share cache lines."""
    file = tmp_path_factory.mktemp("recording") / "false_sharing.pft"
    program = (workload("false_sharing"), "--threads", "4", "--size", "4k", "--iterations", "2")
    command = [str(word) for word in (binary, "record", "-o", file, "--", *program)]
    subprocess.run(command, env=environment(), check=True, capture_output=True, timeout=PATIENCE)
    return file


SIMULATED = ("--machine", "e5-2660v2x2", "--policy", "autopin", "--candidates", "2", "--runs", "2")


def test_simulated_runs_say_so_and_have_seeds_of_their_own(compare: Compare, recording: Path) -> None:
    times = ("-t", "1s", "--warm-up", "100ms", "--initialise", "100ms")
    done = compare(*SIMULATED, *times, "--simulated-time", "20s", "--seed", "7", recording)
    assert done.status == 0, done.err
    assert "simulated on e5-2660v2x2" in done.out
    assert "measured on" not in done.out
    assert done.json["simulated"] is True
    assert (done.json["simulation"]["first_seed"], done.json["simulation"]["recording"]) == (7, str(recording))
    assert done.json["simulation"]["kernel"] == "6.1"
    assert done.json["simulation"]["numa_balancing"] is False
    assert "alone is unpinned on a simulated Linux 6.1" in done.out
    alone, autopin = done.result("alone"), done.result("autopin")
    assert alone["mean"] == pytest.approx(20, rel=0.2)
    assert (alone["user"], alone["system"]) == (None, None)
    assert autopin["choices"][0]["choice"] == "pinning"
    assert autopin["relative"]["times_as_fast"] > 1
    assert len(done.json["results"]) == 2, "the simulated operating system is both alone and unpinned"


def test_the_same_seeds_give_the_same_simulated_times(compare: Compare, recording: Path) -> None:
    one, other = (compare(*SIMULATED, "--repeat", "100", recording).json["results"] for _ in range(2))
    assert [result["times"] for result in one] == [result["times"] for result in other]
