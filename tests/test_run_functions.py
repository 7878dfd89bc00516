"""`pinfold run` finds a function that shows progress, where no other metric counts."""

import ctypes
import os
import re
import subprocess
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Pinfold, Run, eventually, patience, printed

#: Rate lines of a second after a short initialisation.
TIMES = ("--initialise", "600ms", "-t", "1s", "--interval", "50ms")

#: How long a program runs whose rate is compared: the search takes some seconds, and then there is a line a second.
SECONDS = "20"


@pytest.fixture(scope="session")
def probes(binary: Path) -> None:
    """Skip where functions cannot be probed, with pinfold's reason."""
    tried = subprocess.run(
        [binary, "run", "--metric", "function", "--", "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        pytest.skip(tried.stderr.strip())


@pytest.fixture
def definitions(tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """Return a function that lists pinfold's probes in the kernel."""
    tracing = Path("/sys/kernel/tracing")
    mounted = not (tracing / "uprobe_events").exists()
    if mounted:
        tracing = tmp_path / "tracing"
        tracing.mkdir()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"tracefs", os.fsencode(tracing), b"tracefs", 0, None) != 0:
            pytest.skip(f"tracefs cannot be mounted: {os.strerror(ctypes.get_errno())}")

    def listed() -> list[str]:
        return re.findall(r"pinfold_\S+", (tracing / "uprobe_events").read_text())

    yield listed
    if mounted:
        libc.umount(os.fsencode(tracing))


def own_rate(run: Run) -> tuple[float, float]:
    """Return the mean rate of the rate lines after the first one, and that of the program's own figures then."""
    own = [tuple(map(float, line.split())) for line in run.out.splitlines()]
    times = [at for at, _ in own]

    def steps(at: float) -> float:
        after = min(max(bisect(times, at), 1), len(own) - 1)
        (first, before), (second, then) = own[after - 1], own[after]
        return before + (then - before) * (at - first) / (second - first)

    lines = [line for line in run.json["rates"] if line["rate"] is not None]
    assert len(lines) > 2, run.err
    begin, end = lines[0]["at"], lines[-1]["at"]
    counted = sum(line["rate"] * (line["at"] - before["at"]) for before, line in pairwise(lines))
    return counted / (end - begin), (steps(end) - steps(begin)) / (end - begin)


@pytest.mark.usefixtures("probes")
def test_a_function_that_threads_call_steadily_is_found_and_counted(
    pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    run = pinfold.record(*TIMES, "-v", "--", compiled("steps"), "2", "100", SECONDS)
    assert run.json["metric"]["name"] == "function"
    assert run.json["metric"]["scope"] == "program"
    function = run.json["metric"]["function"]
    assert (function["name"], function["threads"]) == ("advance", 2)
    assert function["file"].startswith("steps")
    assert 0 < function["cost"] < 0.005
    assert run.said(f"metric: function: advance of {function['file']}, ") == 1
    counted, own = own_rate(run)
    assert counted == pytest.approx(own, rel=0.05)


@pytest.mark.usefixtures("probes")
def test_a_cpp_function_has_its_readable_name(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    run = pinfold.record(*TIMES, "--metric", "function", "--", compiled("sweeps", compiler="g++"), "2", SECONDS)
    assert run.json["metric"]["function"]["name"] == "solver::Grid::sweep"
    counted, own = own_rate(run)
    assert counted == pytest.approx(own, rel=0.05)


@pytest.mark.usefixtures("probes")
def test_a_function_of_a_stripped_program_is_named_by_its_address(
    pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    run = pinfold.record_until("metric: function: ", *TIMES, "--", compiled("steps", "-s"), "2", "100", "600")
    assert re.match("the function at 0x[0-9a-f]+$", run.json["metric"]["function"]["name"])


@pytest.mark.usefixtures("probes")
def test_where_no_function_shows_progress_that_is_said(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    run = pinfold.record_until("nothing is measured", *TIMES, "--", compiled("steps"), "2", "0", "600")
    assert run.json["metric"] is None
    assert run.json["metric_code"] == "nothing_counted"
    assert "no function is called 20 to 2,000 times a second" in run.json["metric_why"]


@pytest.mark.usefixtures("probes")
def test_no_function_is_looked_for_if_another_metric_counts(pinfold: Pinfold, workload: Callable[[str], Path]) -> None:
    run = pinfold.record_until("chosen: ", *TIMES, "--", workload("pairs"), "--seconds", "600", "--threads", "2")
    assert run.json["metric"]["name"] == "heartbeat"
    assert all(note["code"] != "looks_for_function" for note in run.json["notes"])


@pytest.mark.usefixtures("probes")
@pytest.mark.parametrize("killed", [False, True])
def test_no_probe_remains(
    pinfold: Pinfold, compiled: Callable[..., Path], definitions: Callable[[], list[str]], killed: bool
) -> None:
    process = pinfold.start(*TIMES, "--", compiled("steps"), "2", "100", "600")
    assert process.stderr
    with patience(process):
        printed(process, "metric: function: ")
        own = [name for name in definitions() if name.startswith(f"pinfold_{process.pid}_")]
        assert own
        if killed:
            process.kill()
        else:
            process.terminate()
        process.communicate()
    eventually(lambda: not set(own) & set(definitions()), "the probes are removed")


def test_without_permission_the_reason_is_one_sentence(binary: Path, compiled: Callable[..., Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user can only be tried as root")
    command: list[str | Path] = [
        "setpriv",
        "--reuid",
        "65534",
        "--clear-groups",
        binary,
        "run",
        "--metric",
        "function",
        "--",
        "true",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if "Permission denied" in run.stderr or "setpriv" in run.stderr:
        pytest.skip(f"another user cannot start pinfold here: {run.stderr.strip()}")
    assert run.returncode == 125
    assert "--metric function: probes of functions need root and tracefs" in run.stderr
