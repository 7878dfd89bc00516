"""Machines on which no placement differs from another: pinfold says so, and the program runs as it is.

Each test describes the machine in hwloc's XML, and says that the description is of this machine.
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, environment, eventually

#: The answer of `pinfold run`.
ANSWER = "Placement cannot matter here: "

#: Prints whether the process is traced, and its mask.
STATE = ("grep", "-E", "TracerPid|Cpus_allowed_list", "/proc/self/status")


def machine(folder: Path, caches: int, nodes: int = 1) -> dict[str, str]:
    """Describe two CPUs in one package with this number of L3 caches and NUMA nodes."""
    if not {0, 1} <= set(CPUS):
        pytest.skip(f"CPUs 0 and 1 are described, and only {CPUS} may be used")
    every = hex((1 << nodes) - 1)
    identifiers = iter(range(1, 100))

    def begin(kind: str, cpus: str, more: str = "") -> str:
        sets = f'cpuset="{cpus}" complete_cpuset="{cpus}" nodeset="{every}" complete_nodeset="{every}"'
        return f'<object type="{kind}" os_index="0" {sets} gp_index="{next(identifiers)}" {more}>'

    def core(cpu: int) -> str:
        mask = hex(1 << cpu)
        pu = begin("PU", mask).replace('os_index="0"', f'os_index="{cpu}"')
        return begin("Core", mask).replace('os_index="0"', f'os_index="{cpu}"') + pu + "</object></object>"

    l3 = 'cache_size="1048576" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0"'
    memory = ""
    for number in range(nodes):
        sets = f'cpuset="0x3" complete_cpuset="0x3" nodeset="{hex(1 << number)}" complete_nodeset="{hex(1 << number)}"'
        what = f'type="NUMANode" os_index="{number}" gp_index="{next(identifiers)}" local_memory="1048576"'
        memory += f"<object {what} {sets}/>"
    inside = [core(0), core(1)] if caches == 2 else [core(0) + core(1)]
    masks = ["0x1", "0x2"] if caches == 2 else ["0x3"]
    parts = [begin("L3Cache", mask, l3) + part + "</object>" for mask, part in zip(masks, inside, strict=True)]
    whole = begin("Machine", "0x3", f'allowed_cpuset="0x3" allowed_nodeset="{every}"')
    file = folder / "machine.xml"
    file.write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<topology version="2.0">'
        + f"{whole}{memory}{begin('Package', '0x3')}{''.join(parts)}</object></object></topology>"
    )
    return {"HWLOC_XMLFILE": str(file), "HWLOC_THISSYSTEM": "1"}


def run(binary: Path, hwloc: dict[str, str], *words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [binary, *words], env=environment(hwloc), capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_the_program_runs_as_without_pinfold_after_one_sentence(binary: Path, tmp_path: Path) -> None:
    done = run(binary, machine(tmp_path, caches=1), "run", "--", "sh", "-c", f"{shlex.join(STATE)}; exit 7")
    assert done.returncode == 7
    assert "TracerPid:\t0\n" in done.stdout
    assert done.stderr.count(ANSWER) == 1
    assert "CPUs 0-1 share the only L3 cache and NUMA node and are alike" in done.stderr
    assert "--machine e5-4650x4" in done.stderr
    assert "decided" not in done.stderr


@pytest.mark.parametrize(("caches", "nodes"), [(2, 1), (1, 2)])
def test_two_caches_or_nodes_are_a_reason_to_measure(binary: Path, tmp_path: Path, caches: int, nodes: int) -> None:
    done = run(binary, machine(tmp_path, caches, nodes), "run", "--", *STATE)
    assert done.returncode == 0, done.stderr
    assert ANSWER not in done.stderr
    assert "TracerPid:\t0\n" not in done.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--policy", "auto"),
        ("--metric", "heartbeat"),
        ("-t", "1s"),
        ("--threads", "2"),
        ("--interleave", "all"),
    ],
)
def test_what_is_asked_for_is_done_on_every_machine(binary: Path, tmp_path: Path, options: Sequence[str]) -> None:
    done = run(binary, machine(tmp_path, caches=1), "run", *options, "--", *STATE)
    assert done.returncode == 0, done.stderr
    assert ANSWER not in done.stderr
    assert "TracerPid:\t0\n" not in done.stdout


def test_cpus_that_the_user_names_are_judged_and_obeyed(binary: Path, tmp_path: Path) -> None:
    hwloc = machine(tmp_path, caches=2)
    done = run(binary, hwloc, "run", "--physcpubind", "1", "--", *STATE)
    assert "CPU 1 is the only one allowed, and there is one NUMA node" in done.stderr
    assert "Cpus_allowed_list:\t1\n" in done.stdout


def test_the_record_has_the_answer_and_explain_says_it(binary: Path, tmp_path: Path) -> None:
    hwloc, file = machine(tmp_path, caches=1), tmp_path / "run.json"
    done = run(binary, hwloc, "run", "--json", file, "--", "sh", "-c", "exit 3")
    assert (done.returncode, done.stderr.count(ANSWER)) == (3, 1)
    assert "decided" not in done.stderr
    record = json.loads(file.read_text())
    assert record["nothing_to_gain"] == "CPUs 0-1 share the only L3 cache and NUMA node and are alike"
    assert (record["policy"], record["metric"], record["chosen"], record["exit_status"]) == ("auto", None, None, 3)
    explained = run(binary, hwloc, "explain", file).stdout
    assert "Placement cannot matter on this machine: CPUs 0-1 share" in explained
    page = tmp_path / "run.html"
    assert run(binary, hwloc, "report", file, "-o", page).returncode == 0
    assert "Placement cannot matter on this machine: CPUs 0-1 share" in page.read_text()


def test_quiet_says_the_answer_in_a_line_and_a_log_gets_the_sentence(binary: Path, tmp_path: Path) -> None:
    hwloc, log = machine(tmp_path, caches=1), tmp_path / "log"
    quiet = run(binary, hwloc, "run", "-q", "--", "true").stderr.splitlines()
    assert [line.startswith("pinfold: Placement cannot matter here: ") for line in quiet] == [True]
    assert run(binary, hwloc, "run", "-qq", "--", "true").stderr == ""
    assert run(binary, hwloc, "run", "--log", log, "--", "true").stderr == ""
    assert ANSWER in log.read_text()


def test_a_running_process_is_left_alone(binary: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        done = run(binary, machine(tmp_path, caches=1), "run", "-p", str(process.pid))
        assert done.returncode == 0, done.stderr
        assert ANSWER in done.stderr
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_program_that_is_not_there_is_an_error(binary: Path, tmp_path: Path) -> None:
    done = run(binary, machine(tmp_path, caches=1), "run", "--", "/no/program")
    assert done.returncode == 127
    assert "command not found: /no/program" in done.stderr


def test_a_dry_run_says_it(binary: Path, tmp_path: Path) -> None:
    done = run(binary, machine(tmp_path, caches=1), "run", "--dry-run", "--", "true")
    assert done.stdout.startswith(ANSWER)
    assert done.stdout.endswith("no thread is pinned\n")


def test_the_daemon_says_it_and_ends(binary: Path, tmp_path: Path) -> None:
    hwloc, journals = machine(tmp_path, caches=1), tmp_path / "journals"
    done = run(binary, hwloc, "daemon", "--journals", journals, "--log-format", "json")
    assert done.returncode == 0, done.stderr
    (event,) = map(json.loads, done.stderr.splitlines())
    assert event["event"] == "nothing_to_gain"
    assert "CPUs 0-1 share the only L3 cache and NUMA node and are alike" in event["text"]
    assert "--wait" in event["text"]


def test_a_daemon_that_waits_starts_when_placements_differ(binary: Path, tmp_path: Path) -> None:
    hwloc, log = machine(tmp_path, caches=1), tmp_path / "log"
    config = tmp_path / "daemon.toml"
    config.write_text('metric = "sharing"\n')
    files = ("--journals", tmp_path / "journals", "--log", log, "--config", config)
    process = subprocess.Popen([binary, "daemon", "--wait", *files], env=environment(hwloc), stderr=subprocess.PIPE)
    try:
        eventually(lambda: log.exists() and "event=nothing_to_gain" in log.read_text(), "the daemon waits")
        machine(tmp_path, caches=2)
        # Without the signal it looks once in a minute.
        os.kill(process.pid, signal.SIGHUP)
        eventually(lambda: "event=started" in log.read_text(), "the daemon has started")
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()
