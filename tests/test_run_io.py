"""The metric `io`: programs without OpenMP, heartbeats and counters, measured by the bytes that they read and write."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import QUICK, Pinfold, Run, patience

if not Path("/proc/self/io").exists():
    pytest.skip(
        "this kernel does not count the bytes of processes (CONFIG_TASK_IO_ACCOUNTING)", allow_module_level=True
    )

#: A compressor that never ends: it sets the pace of what it reads.
COMPRESSOR = """
import os, zlib
with open("/dev/zero", "rb", buffering=0) as source, open(os.devnull, "wb", buffering=0) as sink:
    while True:
        sink.write(zlib.compress(source.read(1 << 16)))
"""

#: A server in miniature: it answers a client that asks fifty times a second, and sleeps between the questions.
SERVER = """
import socket, threading, time
ours, theirs = socket.socketpair()
def serve():
    while True:
        theirs.send(theirs.recv(1000))
        end = time.process_time() + 0.002
        while time.process_time() < end:
            pass
threading.Thread(target=serve, daemon=True).start()
while True:
    ours.send(bytes(1000))
    ours.recv(1000)
    time.sleep(0.02)
"""

#: It computes without end, and writes a line of 100 bytes after each hundredth of a second of processor time.
WRITER = """
import os, time
line = bytes(100)
with open(os.devnull, "wb", buffering=0) as log:
    while True:
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        log.write(line)
"""

#: It computes without end, and writes a line each second, whatever it has done.
CLOCK = """
import os, time
with open(os.devnull, "wb", buffering=0) as log:
    while True:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass
        log.write(b"one second more\\n")
"""

#: Each of the processes that it starts, one after the other, moves 4 MB and ends within milliseconds.
PARENT = "for i in $(seq 600); do head -c 2000000 /dev/zero >/dev/null; done"

#: Bytes by calls that the kernel does not count.
SOCKETS = """
import socket, sys
one, other = socket.socketpair()
block = bytes(1000)
for _ in range(int(sys.argv[1])):
    one.sendall(block)
    other.recv(1000)
"""


def total(run: Run, name: str = "io") -> float:
    """Return the counts of a whole run. A rate is over the time since the last reading that has one."""
    line = run.json["timeline"]
    rates = next(metric["rates"] for metric in line["metrics"] if metric["name"] == name)
    counts, since = 0.0, 0.0
    for rate, at in zip(rates, line["at"], strict=True):
        if rate is not None:
            counts += rate * (at - since)
            since = at
    return counts


def test_a_compressor_is_measured_by_its_bytes(pinfold: Pinfold, python: str) -> None:
    run = pinfold.record_until("chosen: ", *QUICK, "--", python, "-c", COMPRESSOR)
    assert run.json["metric"] == {"name": "io", "unit": "byte", "scope": "program"}
    assert "the program reports no heartbeats" in run.json["metric_why"]
    [measured] = [one["rate"] for one in run.json["candidates"] if one["pus"] is None]
    assert measured > 1e6


def test_a_program_that_writes_steadily_as_it_computes_is_measured_by_that(pinfold: Pinfold, python: str) -> None:
    run = pinfold.record_until("chosen: ", *QUICK, "--", python, "-c", WRITER)
    assert run.json["metric"]["name"] == "io"


def test_a_program_that_writes_a_line_now_and_then_is_not_measured_by_that(pinfold: Pinfold, python: str) -> None:
    after_its_start = ("-t", "300ms", "--warm-up", "50ms", "--initialise", "4s", "--interval", "30ms")
    run = pinfold.record_until("too seldom", *after_its_start, "--", python, "-c", CLOCK)
    assert run.json["metric"] is None
    assert "`io` counts too seldom" in run.json["metric_why"]
    assert "nothing else counts" in run.json["metric_why"]


def test_a_server_whose_client_sets_the_pace_is_left_alone_and_that_is_said(pinfold: Pinfold, python: str) -> None:
    """Its rate is the client's, wherever it runs."""
    after_its_start = ("-t", "300ms", "--warm-up", "50ms", "--initialise", "4s", "--interval", "30ms")
    run = pinfold.record_until("set the pace", *after_its_start, "--", python, "-c", SERVER)
    assert run.json["metric"] is None
    assert "only `io` counts" in run.json["metric_why"]
    assert "waits" in run.json["metric_why"]
    assert not run.json["candidates"]


def test_a_flow_that_was_asked_for_is_taken_whoever_sets_the_pace(pinfold: Pinfold, python: str) -> None:
    run = pinfold.record_until("chosen: ", *QUICK, "--metric", "io", "--", python, "-c", SERVER)
    assert run.json["metric"]["name"] == "io"
    assert run.json["metric_why"].startswith("asked for")


def test_bytes_of_processes_that_have_ended_are_in_the_total(pinfold: Pinfold) -> None:
    """The kernel adds them to the process that has waited for them, and they count once all the same."""
    run = pinfold.record("--policy", "none", "--metric", "io", "--", "sh", "-c", PARENT)
    assert total(run) == pytest.approx(600 * 4_000_000, rel=0.1)


def test_bytes_of_sockets_are_in_the_total(pinfold: Pinfold, python: str) -> None:
    run = pinfold.record("--policy", "none", "--metric", "io", "--", python, "-c", SOCKETS, "300000")
    assert total(run) == pytest.approx(300_000 * 2_000, rel=0.1)


def test_a_running_process_is_measured_from_now_on(pinfold: Pinfold, python: str, tmp_path: Path) -> None:
    program = subprocess.Popen([python, "-c", WRITER], text=True)
    with patience(program):
        asked = ("--metric", "io", "--policy", "none", "--for", "2s", "--journals", str(tmp_path / "journals"))
        run = pinfold.record(*asked, "--pid", str(program.pid))
        program.kill()
        program.wait()
    assert run.status == 0, run.err
    # A line takes a hundredth of a second of processor time, so there are at most a hundred in a second.
    assert 0 < total(run) <= 2.2 * 100 * 100


def test_the_name_is_suggested(pinfold: Pinfold) -> None:
    refused = pinfold.run("--metric", "oi", "--", "true")
    assert refused.status == 125
    assert "did you mean mpi or io?" in refused.err


@pytest.mark.usefixtures("uprobes")
def test_a_function_that_an_idle_main_thread_calls_is_counted(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    """Who counts progress and who is placed are two questions."""
    program = compiled("hands_out", "-pthread")
    run = pinfold.record("--policy", "none", "--metric", "uprobe:step", "--", program, "4")
    assert total(run, "uprobe:step") == pytest.approx(200, rel=0.1)
    run = pinfold.record_until("chosen: ", *QUICK, "--metric", "uprobe:step", "--", program)
    assert run.json["metric"] == {"name": "uprobe:step", "unit": "call", "scope": "program"}
    assert run.json["candidates"][0]["rate"] > 0
