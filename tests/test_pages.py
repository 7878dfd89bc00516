"""Page mappings and `pinfold pages` on a machine with one NUMA node; tests/guest has the other tests."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, Pinfold

FAILURE = 125

#: Prints the memory policy with which it began.
TELL = ["sh", "-c", "grep stack /proc/self/numa_maps"]


@pytest.fixture(autouse=True)
def numa() -> None:
    """Skip where the kernel has no nodes."""
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel was built without NUMA")


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ([], "default"),
        (["--page-map", "first_touch"], "default"),
        (["--page-map", "interleave"], "interleave:"),
        (["--page-map", "bind:0"], "bind:0"),
        (["--page-map", "single:0"], "prefer:0"),
        (["--page-map", "local"], "local"),
        (["--membind", "0"], "bind:0"),
        (["-m", "all"], "bind:"),
        (["--interleave", "0"], "interleave:0"),
        (["--preferred", "0"], "prefer:0"),
        (["--localalloc"], "local"),
        (["-l"], "local"),
        (["--numa-balancing", "off"], "local"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_program_begins_with_the_memory_policy_of_its_mapping(
    pinfold: Pinfold, options: list[str], policy: str
) -> None:
    run = pinfold.run(*options, "--", *TELL)
    assert run.status == 0
    assert run.out.split()[1].startswith(policy)


@pytest.mark.parametrize("mapping", ["locality", "balance"])
def test_a_mapping_that_needs_samples_reports_when_it_samples_or_that_it_cannot(pinfold: Pinfold, mapping: str) -> None:
    run = pinfold.run("--page-map", mapping, "--", "echo", "it ran")
    if run.status == FAILURE:
        assert f"--page-map {mapping}" in run.err
        assert "kernel.numa_balancing=1" in run.err
        assert run.out == ""
    else:
        assert run.out == "it ran\n"
        assert "its accesses are sampled for 3s" in run.err


def test_missing_memory_events_are_an_error_that_names_the_other_source(pinfold: Pinfold) -> None:
    devices = Path("/sys/bus/event_source/devices")
    if (devices / "ibs_op").exists() or list(devices.glob("*/events/mem-loads")):
        pytest.skip("this machine has memory events")
    run = pinfold.run("--page-map", "balance", "--sample-by", "memory-events", "--", "echo", "it ran")
    assert run.status == FAILURE
    assert "neither a PMU with mem-loads or mem-stores (Intel's PEBS) nor ibs_op (AMD's IBS)" in run.err
    assert "--sample-by page-faults" in run.err
    assert run.out == ""


@pytest.mark.parametrize(
    "options",
    [
        ["--page-map", "balance", "--sample-by", "page-faults", "--sample-events", "5000"],
        ["--page-map", "balance", "--sample-by", "memory-events", "--sample-period", "10ms"],
    ],
)
def test_a_period_of_the_other_source_is_refused(pinfold: Pinfold, options: list[str]) -> None:
    run = pinfold.run(*options, "--", "echo", "it ran")
    assert run.status == FAILURE
    assert "or leave it out" in run.err
    assert run.out == ""


@pytest.mark.parametrize("options", [["--sample-period", "10ms"], ["--interleave", "all", "--sample-time", "1s"]])
def test_options_of_sampling_without_a_mapping_that_samples_are_refused(pinfold: Pinfold, options: list[str]) -> None:
    run = pinfold.run(*options, "--", "echo", "it ran")
    assert run.status == FAILURE
    assert "locality and balance" in run.err
    assert run.out == ""


def test_remote_needs_a_second_node(pinfold: Pinfold) -> None:
    nodes = list(Path("/sys/devices/system/node").glob("node[0-9]*"))
    if len(nodes) > 1:
        pytest.skip("this machine has several NUMA nodes")
    run = pinfold.run("--page-map", "remote", "--", "echo", "it ran")
    assert run.status == FAILURE
    assert "needs a second NUMA node" in run.err
    assert run.out == ""


def test_a_forbidden_set_mempolicy_is_a_warning_and_not_an_end(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    forbidden = [str(compiled("no_memory_policy"))]
    if subprocess.run([*forbidden, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("seccomp filters cannot be installed here")
    run = pinfold.run("--membind", "0", "--", *TELL, prefix=forbidden)
    assert run.status == 0
    assert run.out.split()[1] == "default"
    assert run.said("a container may forbid set_mempolicy(2)") == 1


def test_the_record_has_the_mapping_and_the_moves(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    run = pinfold.record("--policy", "none", "--page-map", "local", "--", compiled("spin"), "1", "0.2")
    assert run.json["page_map"] == "local"
    for moves in run.json["page_moves"]:
        assert moves.keys() >= {"at", "goal", "processes", "moved", "in_place", "left", "lasted", "broken_off"}
        assert moves["goal"] == "local"


def pages(binary: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `pinfold pages ARGUMENTS`."""
    command = [binary, "pages", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def sleeper() -> Iterator[int]:
    """Return a process that sleeps."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def test_pages_of_a_process_are_printed_by_node(binary: Path, sleeper: int, tmp_path: Path) -> None:
    file = tmp_path / "pages.json"
    run = pages(binary, str(sleeper), "--json", file)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("node 0: ")
    record: dict[str, Any] = json.loads(file.read_text())
    assert record["process"] == sleeper
    assert record["before"] == record["after"]
    assert record["before"]["0"] > 0
    assert record["moves"] is None


def test_pages_in_their_places_do_not_move(binary: Path, sleeper: int, tmp_path: Path) -> None:
    file = tmp_path / "pages.json"
    nodes = list(Path("/sys/devices/system/node").glob("node[0-9]*"))
    if len(nodes) > 1:
        pytest.skip("this machine has several NUMA nodes")
    run = pages(binary, str(sleeper), "--membind", "0", "--json", file)
    assert run.returncode == 0, run.stderr
    moves = json.loads(file.read_text())["moves"]
    assert moves["moved"] == {"pages": 0, "bytes": 0}
    assert moves["in_place"]["pages"] > 0


def test_a_missing_process_is_named(binary: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    run = pages(binary, str(gone.pid))
    assert run.returncode == FAILURE
    assert run.stderr == f"pinfold: there is no process {gone.pid}\n"


def test_a_mapping_that_moves_nothing_is_refused(binary: Path, sleeper: int) -> None:
    run = pages(binary, str(sleeper), "--page-map", "first_touch")
    assert run.returncode == FAILURE
    assert "first_touch" in run.stderr
