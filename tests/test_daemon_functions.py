"""`pinfold daemon` compares its moves by the calls of a function, where no counter and no bytes show progress."""

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import eventually, kill_with_guard
from test_daemon import SHARING, Daemon, daemon, run
from test_run_functions import definitions, probes

__all__ = ["daemon", "definitions", "probes"]

#: What is in front of a command that may not mount tracefs, the kernel's file system for tracing.
REFUSED = (
    *("unshare", "--mount", "sh", "-c"),
    'umount -a -t tracefs; exec setpriv --bounding-set=-sys_admin "$@"',
    "sh",
)


@pytest.fixture
def steps(compiled: Callable[..., Path]) -> Iterator[Callable[[str], int]]:
    """Return a function that starts two threads that call `advance` at this rate, and returns the process."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(rate: str) -> int:
        process = subprocess.Popen([compiled("steps"), "2", rate, "600"], stdout=subprocess.DEVNULL)
        begun.append(process)
        return process.pid

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def progress_of(one: Daemon, process: int) -> list[dict[str, Any]]:
    return [event for event in one.log("progress") if event["process"] == process]


def found(one: Daemon, process: int) -> dict[str, Any]:
    """Wait until the daemon has said what shows the progress of a process."""
    eventually(lambda: bool(progress_of(one, process)), "the daemon says what shows the progress")
    return progress_of(one, process)[0]


@pytest.mark.usefixtures("probes")
def test_the_calls_of_a_function_show_the_progress_of_a_process(
    daemon: Callable[..., Daemon], steps: Callable[[str], int]
) -> None:
    process = steps("100")
    one = daemon(*SHARING, "--pid", str(process))
    said = found(one, process)
    assert (said["by"], said["function"]) == ("function", "advance")
    assert said["calls_per_second"] == pytest.approx(200, rel=0.2)
    assert 0 < said["cost"] < 0.005
    [state] = one.state()["progress"]
    assert (state["process"], state["by"], state["function"]["name"]) == (process, "function", "advance")
    assert "advance()" in one.top("--once", "--width", "160").stdout
    assert 'pinfold_processes_measured{by="function"} 1' in one.get("/metrics")[1]


@pytest.mark.usefixtures("probes")
def test_a_process_without_such_a_function_is_named_with_the_reason(
    daemon: Callable[..., Daemon], steps: Callable[[str], int]
) -> None:
    process = steps("0")
    one = daemon(*SHARING, "--pid", str(process))
    said = found(one, process)
    assert said["by"] == "nothing"
    assert "no function is called 20 to 2,000 times a second" in said["why"]


@pytest.mark.usefixtures("probes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", ["found", "searched"])
def test_no_probe_remains(
    daemon: Callable[..., Daemon],
    steps: Callable[[str], int],
    definitions: Callable[[], list[str]],
    number: int,
    moment: str,
) -> None:
    process = steps("100")
    one = daemon(*SHARING, "--pid", str(process))

    def own() -> set[str]:
        return {name for name in definitions() if name.startswith(f"pinfold_{one.process.pid}_")}

    if moment == "found":
        found(one, process)
    eventually(lambda: bool(own()), "a function is probed")
    assert one.end(number) == (0 if number == signal.SIGTERM else -number)
    if number == signal.SIGTERM:
        assert own() == set()
    eventually(lambda: not own(), "the probes are removed")
    eventually(lambda: not list(one.journals.glob("*.journal")), "the journal is removed")


@pytest.mark.usefixtures("probes")
def test_probes_of_a_daemon_that_was_killed_with_its_guards_are_removed_by_reset(
    daemon: Callable[..., Daemon],
    steps: Callable[[str], int],
    definitions: Callable[[], list[str]],
    binary: Path,
) -> None:
    process = steps("100")
    one = daemon(*SHARING, "--pid", str(process))
    found(one, process)
    own = {name for name in definitions() if name.startswith(f"pinfold_{one.process.pid}_")}
    assert own
    kill_with_guard(one.process)
    left = own & set(definitions())
    assert left
    told = run(binary, "reset", "--journals", one.journals)
    assert (told.returncode, told.stderr) == (0, "")
    assert all(f"uprobe_events, -:{name})" in told.stdout for name in left), told.stdout
    assert not own & set(definitions())
    assert not list(one.journals.glob("*.journal"))


def test_where_probes_are_refused_the_log_says_so_once_and_moves_go_on(
    daemon: Callable[..., Daemon], steps: Callable[[str], int]
) -> None:
    if shutil.which("setpriv") is None or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("no daemon can be started here without the right to mount")
    process = steps("100")
    one = daemon(*SHARING, "--pid", str(process), before=REFUSED)
    eventually(lambda: any(task["process"] == process for task in one.state()["tasks"]), "the process works")
    [note] = [note for note in one.log("note") if note["code"] == "no_functions"]
    assert "probes of functions need root and tracefs" in note["text"]
    assert one.log("progress") == []


def test_the_configuration_switches_the_search_off(
    daemon: Callable[..., Daemon], steps: Callable[[str], int], tmp_path: Path
) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text("functions = false\n")
    process = steps("100")
    one = daemon(*SHARING, "--pid", str(process), "--config", file)
    [state] = eventually(lambda: one.state().get("progress"), "the bytes are judged")
    assert state == {"process": process, "by": "nothing"}
    assert all(note["code"] != "no_functions" for note in one.log("note"))
