"""The lines of a run: changes, the result, with `-v` trials, rates and a summary; and the names of placements."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import QUICK, Pinfold, Run, environment

#: The columns of a line.
WIDTH = 100

#: The exit status of a command line that does not fit the machine.
FAILED = 125

#: Pinned threads are faster than unpinned ones. What is read varies.
FASTER = """
topology = "synthetic:package:2 numa:1 core:2 pu:1"
threads = 2
duration = 60.0
noise = 0.02
seed = 3

[[phase]]
start = 0.0
rate = 100.0
[[phase.pinning]]
pus = "0,1"
rate = 134.0
"""


@pytest.fixture
def scripted(pinfold: Pinfold, tmp_path: Path) -> Callable[..., Run]:
    """Return a function that runs a script on a scripted machine."""
    script = tmp_path / "faster.toml"
    script.write_text(FASTER)

    def run(*options: str) -> Run:
        return pinfold.record(
            "--machine", f"scripted:{script}", "-t", "4s", "--warm-up", "100ms", "--initialise", "1s", *options
        )

    return run


def summary(run: Run) -> dict[str, str]:
    """Return the rows of the summary by their names."""
    _, _, lines = run.err.partition("pinfold: the program ended with status ")
    return dict(re.findall(r"^pinfold:   ([a-z][a-z ]*?) {2,}(.*)$", lines, re.MULTILINE))


def result(run: Run) -> str:
    """Return the line before the one on the program's end."""
    said = [line.removeprefix("pinfold: ") for line in run.err.splitlines()]
    (end,) = [number for number, line in enumerate(said) if line.startswith("the program ended with status ")]
    return said[end - 1]


def test_the_result_is_the_gain_over_unpinned_with_its_error(scripted: Callable[..., Run]) -> None:
    run = scripted("--policy", "autopin")
    assert run.json["candidates"][0]["pus"] is None
    assert run.json["candidates"][0]["error"] > 0
    found = re.fullmatch(r"([\d.]+) ± ([\d.]+) times as fast as unpinned, on (\d,\d) \(simulated\)", result(run))
    assert found, run.err
    ratio = run.json["chosen"]["rate"] / run.json["candidates"][0]["rate"]
    assert float(found[1]) == pytest.approx(ratio, abs=0.006)
    assert found[3] == ",".join(map(str, run.json["chosen"]["pus"]))


def test_without_a_measured_baseline_no_gain_is_printed(scripted: Callable[..., Run]) -> None:
    for options in (("--schedule", "0,1", "--schedule", "0,2"), ("--policy", "close"), ("--policy", "none")):
        run = scripted(*options, "-v")
        assert result(run).endswith("; not compared with unpinned (simulated)"), run.err
        assert "times as fast" not in run.err


def test_a_run_says_what_it_changes_and_with_v_everything(scripted: Callable[..., Run]) -> None:
    usual, everything = (scripted("--policy", "autopin", *options) for options in ((), ("-v",)))
    assert usual.said("chosen: ") == everything.said("chosen: ") == 1
    assert result(usual) == result(everything)
    assert summary(usual) == {}
    lines = len(everything.json["rates"])
    assert lines > 1
    for verbose, times in (("pinfold: at ", lines), (" candidates for 2 threads: ", 1), ("  unpinned  ", 1)):
        assert (usual.said(verbose), everything.said(verbose) >= times) == (0, True), verbose
    assert f"in {lines} measurements" in summary(everything)["afterwards"]
    assert summary(everything)["left pinned"] == "nothing"
    assert len(usual.err.splitlines()) <= 6, usual.err


def test_quiet_is_the_result_and_twice_nothing(scripted: Callable[..., Run], pinfold: Pinfold) -> None:
    usual, quiet = scripted("--policy", "autopin"), scripted("--policy", "autopin", "-q")
    assert quiet.err == f"pinfold: {result(usual)}\n"
    assert scripted("--policy", "autopin", "-qq").err == ""
    assert (
        pinfold.run("-q", "--policy", "autopin", "--", "true").err
        == "pinfold: nothing was decided before the program ended\n"
    )
    assert pinfold.run("-qq", "--", "true").err == ""
    assert pinfold.run("-qq", "--", "/no/such/program").said("/no/such/program") == 1


def test_a_run_without_a_search_has_a_summary(pinfold: Pinfold) -> None:
    run = pinfold.run("-v", "--policy", "autopin", "--", "true")
    assert "of processor time for pinfold itself" in summary(run)["cost"]
    assert run.said("the program ended with status 0 after ") == 1


#: Options of runs that differ in what they say.
RUNS: tuple[tuple[str, ...], ...] = (
    (),
    ("-v",),
    ("-q",),
    ("--policy", "autopin"),
    ("--policy", "autopin", "-v"),
    ("--policy", "autopin", "-v", "--search", "racing"),
    ("--policy", "hints", "-v"),
    ("--policy", "classify", "-v"),
    ("--policy", "close", "--threads", "2"),
    ("--policy", "none", "-v"),
    ("--schedule", "0,1", "--schedule", "0,2", "-v"),
    ("--schedule", ",".join("0123" * 40), "--schedule", "0,2", "-v"),
)


@pytest.mark.parametrize("options", RUNS, ids=" ".join)
def test_lines_fit_a_hundred_columns(pinfold: Pinfold, tmp_path: Path, options: tuple[str, ...]) -> None:
    script = tmp_path / "faster.toml"
    script.write_text(FASTER)
    runs = (
        ("--machine", f"scripted:{script}", "-t", "4s", "--warm-up", "100ms", "--initialise", "1s"),
        (*QUICK, "--", "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done", *["argument"] * 20),
    )
    for words in runs:
        ended = subprocess.run(
            pinfold.command(*options, *words), env=environment(), capture_output=True, text=True, check=False
        )
        if ended.returncode == FAILED:
            continue
        lines = ended.stderr.splitlines()
        assert lines
        for line in lines:
            (_, *text) = line.split()
            assert len(line) <= WIDTH or len(text) == 1, line
            assert line.startswith("pinfold: ")


def test_ranks_of_a_job_are_named(pinfold: Pinfold) -> None:
    rank = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
    run = pinfold.run("-q", "--", "true", env=rank)
    assert run.err.startswith("pinfold[rank 3]: ")
    failed = pinfold.run("--", "/no/such/program", env={"PMI_RANK": "0", "PMI_SIZE": "2"})
    assert failed.err.startswith("pinfold[rank 0]: ")
    alone = pinfold.run("-q", "--", "true", env={"PMI_RANK": "0", "PMI_SIZE": "1"})
    assert alone.err.startswith("pinfold: ")


def test_a_named_placement_is_there_from_the_start_and_in_the_record(scripted: Callable[..., Run]) -> None:
    expected = {
        "packed": "0,1",
        "distributed": "0,2",
        "close": "0,1",
        "spread": "0,2",
        "compact": "0,2",
        "scatter": "0,2",
    }
    for name, pus in expected.items():
        run = scripted("--policy", name, "--threads", "2")
        assert run.json["policy"] == name
        assert run.json["candidates"][0]["pus"] == [int(pu) for pu in pus.split(",")], name
        assert run.said(f"--policy {name} asks for it") == 1


def test_names_of_policies_are_listed_and_corrected(pinfold: Pinfold) -> None:
    listed = pinfold.run("--policy", "help")
    assert (listed.status, listed.err) == (0, "")
    assert {"- close", "- packed", "- scatter"} <= {" ".join(line.split()[:2]) for line in listed.out.splitlines()}
    assert "did you mean spread?" in pinfold.run("--policy", "spred", "--", "true").err


def test_names_are_candidates_of_a_search(scripted: Callable[..., Run]) -> None:
    run = scripted("--schedule", "close", "--schedule", "spread", "--threads", "2", *QUICK[-2:])
    assert [candidate["pus"] for candidate in run.json["candidates"]] == [[0, 1], [0, 2]]
