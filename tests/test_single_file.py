"""The binary is one file: a copy in an empty folder measures and records OpenMP programs like the original."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import AGENT_OF_COMMAND, MEASURED, PATIENCE, QUICK, ROOT, environment


@pytest.fixture
def alone(binary: Path, tmp_path: Path) -> Path:
    """Return a copy of the binary in its own folder."""
    folder = tmp_path / "alone"
    folder.mkdir()
    return Path(shutil.copy(binary, folder))


def run(binary: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run the binary in its own folder."""
    return subprocess.run(
        [str(binary), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=binary.parent,
        env=environment(),
        timeout=PATIENCE,
    )


def test_a_copy_alone_counts_the_regions_of_an_openmp_program(alone: Path, workload: Callable[[str], Path]) -> None:
    program = (str(workload("stream")), "--threads", "2", "--size", "256K", "--seconds", "2")
    done = run(alone, "run", "--json", "run.json", "--metric", "regions", *QUICK, "--", *program)
    assert done.returncode == 0, done.stderr
    assert "not counted" not in done.stderr
    record = json.loads((alone.parent / "run.json").read_text())
    assert record["metric"]["name"] == "regions"


def test_a_copy_alone_records_a_program(alone: Path, workload: Callable[[str], Path]) -> None:
    program = (str(workload("stream")), "--threads", "2", "--size", "256K", "--iterations", "1")
    done = run(alone, "record", "-o", "stream.pft", "--", *program)
    assert done.returncode == 0, done.stderr
    info = json.loads(run(alone, "trace", "info", "--json", "stream.pft").stdout)
    assert len(info["threads"]) == 2


def test_no_library_beside_the_binary_is_loaded(alone: Path) -> None:
    for folder in (alone.parent, alone.parent.parent / "lib" / "pinfold", alone.parent.parent / "agent"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "libpinfold_agent.so").write_text("not a library")
        (folder / "libpinfold_record.so").write_text("not a library")
    program = ["sh", "-c", f"agent=$({AGENT_OF_COMMAND}); echo $agent; cat $agent | head -c 4"]
    done = run(alone, "run", *MEASURED, "--", *program)
    preloaded, magic = done.stdout.split("\n", 1)
    assert str(alone.parent.parent) not in preloaded
    assert magic == "\x7fELF"


def glibc(library: Path) -> tuple[int, ...]:
    """Return the newest among the versions of glibc that a library names."""
    needs = subprocess.check_output(["readelf", "--version-info", "--wide", library], text=True)
    return max(tuple(map(int, one.split("."))) for one in re.findall(r"Name: GLIBC_([0-9.]+)", needs))


def test_the_documents_state_which_glibc_the_agent_needs(alone: Path) -> None:
    """It is read from the agent that the binary carries. The interposer of MPI, in ranks alone, needs no newer one."""
    agent, mpi = (alone.parent / name for name in ("agent.so", "mpi.so"))
    mpi_of_rank = "PMI_RANK=0 grep -o -m 1 '/.*mpi.so' /proc/self/maps"
    done = run(
        alone, "run", *MEASURED, "--", "sh", "-c", f"cp $({AGENT_OF_COMMAND}) {agent}; cp $({mpi_of_rank}) {mpi}"
    )
    assert done.returncode == 0, done.stderr
    newest = ".".join(map(str, glibc(agent)))
    for name in ("limits.md", "design/embedded-agent.md"):
        assert re.findall(r"glibc ([0-9.]+[0-9])", (ROOT / "docs" / name).read_text())[0] == newest, name
    assert glibc(mpi) <= glibc(agent)


def test_a_program_that_outlives_pinfold_or_changes_its_user_finds_the_agent(alone: Path) -> None:
    """Otherwise each program that it starts would print an error of the dynamic linker."""
    script = "read line; exec /bin/true"
    process = subprocess.Popen(
        [alone, "run", *MEASURED, "--outlive", "--", "sh", "-c", f"echo runs; {script}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    assert process.stdout
    assert process.stdin
    assert process.stdout.readline() == "runs\n"
    process.kill()
    process.wait()
    process.stdin.close()
    assert process.stderr
    # It ends when the program has ended.
    assert "ld.so" not in process.stderr.read()
    if os.geteuid() == 0:
        done = run(alone, "run", *MEASURED, "--", "setpriv", "--reuid=65534", "--clear-groups", "/bin/true")
        assert done.returncode == 0, done.stderr
        assert "ld.so" not in done.stderr
