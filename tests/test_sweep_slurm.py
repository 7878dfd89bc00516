"""`pinfold learn sweep --slurm`, on a real Slurm of one node that the tests start."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from conftest import CPUS, PATIENCE, ROOT, environment, eventually
from slurm_cluster import Slurm, missing

#: Each shard is long enough to be stopped in the middle.
SPACE = ("--machine", "e5-4650x4", "--space", "threads", "--space", "numa")

#: In place of pinfold: shard 1, at its first start, stops when it has a result (16 bytes are the head of the file),
#: until the job gets a signal to end.
STOPPING = """#!/bin/bash
case " $* " in *" --shard 1/3 "*)
    if mkdir {folder}/started 2> /dev/null; then
        {binary} "$@" &
        child=$!
        trap 'kill -KILL $child; exit 143' TERM
        until [[ $(stat -c %s {partial} 2> /dev/null || echo 0) -gt 16 ]]; do kill -0 $child || exit 9; done
        kill -STOP $child || exit 9
        touch {folder}/stopped
        while true; do sleep 1; done
    fi
esac
exec {binary} "$@"
"""

FAILING = """#!/bin/bash
case " $* " in *" --shard 2/3 "*) echo the disk is on fire >&2; exit 3 ;; esac
exec {binary} "$@"
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Return a running Slurm; skip where there cannot be one."""
    if why := missing():
        pytest.skip(why)
    cluster = Slurm(tmp_path_factory.mktemp("slurm") / "slurm", cpus=3)
    try:
        if why := cluster.start():
            pytest.skip(f"Slurm does not start here: {why}")
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def recording(binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of a small program of four threads."""
    file = tmp_path_factory.mktemp("recording") / "stream.pft"
    program = [workload("stream"), "--threads", "4", "--size", "1M", "--iterations", "3"]
    command = [binary, "record", "-o", file, "--", *program]
    subprocess.run(list(map(str, command)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)
    return file


def start(recording: Path, folder: Path, pinfold: Path, variables: dict[str, str]) -> "subprocess.Popen[str]":
    """Start `pinfold learn sweep --slurm` of three shards, with the shortest time limit."""
    words = ["sweep", "--slurm", "--shards", "3", "--time", "2", *SPACE, "-o", folder / "data.parquet", recording]
    command = [sys.executable, "-m", "pinfold.learn.command", *map(str, words)]
    variables = {"PYTHONPATH": str(ROOT / "python")} | variables
    return subprocess.Popen(
        command, env=environment(variables | {"PINFOLD": str(pinfold)}), text=True, stderr=subprocess.PIPE
    )


def script(text: str, folder: Path, binary: Path) -> Path:
    """Write a script that stands for pinfold."""
    file = folder / "pinfold"
    partial = folder / "data.parquet.slurm/1-of-3.shard.partial"
    file.write_text(text.format(folder=folder, binary=binary, partial=partial))
    file.chmod(0o755)
    return file


def whole(recording: Path, folder: Path, binary: Path) -> bytes:
    """Return the bytes of a plain sweep."""
    data = folder / "whole.parquet"
    command = [str(word) for word in (binary, "sweep", *SPACE, "-o", data, recording)]
    subprocess.run(command, env=environment(), check=True, capture_output=True, timeout=PATIENCE)
    return data.read_bytes()


@pytest.mark.skipif("TIME_LIMIT" not in os.environ, reason="it waits two minutes: `make test-cluster` runs it")
def test_a_job_at_its_time_limit_is_resubmitted_and_the_data_set_is_that_of_one_sweep(
    slurm: Slurm, recording: Path, binary: Path, tmp_path: Path
) -> None:
    process = start(recording, tmp_path, script(STOPPING, tmp_path, binary), slurm.variables)
    _, said = process.communicate(timeout=5 * PATIENCE)
    assert process.returncode == 0, said + slurm.logs()
    assert (tmp_path / "stopped").exists()
    logs = {file.name: file.read_text() for file in (tmp_path / "data.parquet.slurm").glob("*.out")}
    assert len(logs) == 3
    assert sum("this job is timed-out" in text and "Requeued job" in text for text in logs.values()) == 1
    assert "resubmitted at the time limit" in said
    assert "3 of 3 shards done" in said
    assert (tmp_path / "data.parquet").read_bytes() == whole(recording, tmp_path, binary)
    assert not list((tmp_path / "data.parquet.slurm").glob("*.shard*"))


def test_a_failed_shard_cancels_the_others_and_names_its_log(
    slurm: Slurm, recording: Path, binary: Path, tmp_path: Path
) -> None:
    process = start(recording, tmp_path, script(FAILING, tmp_path, binary), slurm.variables)
    _, said = process.communicate(timeout=5 * PATIENCE)
    assert process.returncode == 125, said
    (error,) = [line for line in said.splitlines() if "2-of-3 has failed" in line]
    assert "the disk is on fire" in Path(error.split("see its log ")[1]).read_text()
    eventually(lambda: not slurm.ask("squeue", "--noheader").strip(), "the end of the other jobs")
    assert not (tmp_path / "data.parquet").exists()


def test_ctrl_c_cancels_the_jobs_and_the_same_command_goes_on(
    slurm: Slurm, recording: Path, binary: Path, tmp_path: Path
) -> None:
    pinfold = script(STOPPING, tmp_path, binary)
    process = start(recording, tmp_path, pinfold, slurm.variables)
    eventually((tmp_path / "stopped").exists, "some results of a shard")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "is cancelled; the same command goes on" in said
    eventually(lambda: not slurm.ask("squeue", "--noheader").strip(), "the end of the jobs")
    assert (tmp_path / "data.parquet.slurm/1-of-3.shard.partial").stat().st_size > 16
    process = start(recording, tmp_path, pinfold, slurm.variables)
    _, said = process.communicate(timeout=5 * PATIENCE)
    assert process.returncode == 0, said + slurm.logs()
    assert (tmp_path / "data.parquet").read_bytes() == whole(recording, tmp_path, binary)


def learn_sweep(*words: object, variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run `pinfold learn sweep --slurm`."""
    command = [sys.executable, "-m", "pinfold.learn.command", "sweep", "--slurm", *map(str, words)]
    variables = {"PYTHONPATH": str(ROOT / "python")} | variables
    return subprocess.run(
        command, env=environment(variables), check=False, capture_output=True, text=True, timeout=5 * PATIENCE
    )


def test_a_program_is_measured_in_jobs_that_have_a_node_for_themselves(
    slurm: Slurm, workload: Callable[[str], Path], binary: Path, tmp_path: Path
) -> None:
    (tmp_path / "space.toml").write_text(f'[[configurations]]\npinnings = ["{CPUS[0]}", "{CPUS[-1]}"]\n')
    (tmp_path / "check").write_text("grep -q .\n")
    words = ["--shards", "2", "--time", "2", "--space", tmp_path / "space.toml", "-o", tmp_path / "data.parquet"]
    words += ["--threads", "1", "--runs", "2", "--warmup-runs", "1", "--check", f"sh {tmp_path / 'check'}"]
    program = ("--", workload("compute"), "--threads", "1", "--size", "16k", "--iterations", "5")
    variables = slurm.variables | {"PINFOLD": str(binary)}
    done = learn_sweep(*words, *program, variables=variables)
    assert done.returncode == 0, done.stderr + slurm.logs()
    assert "2 of 2 shards done" in done.stderr
    rows = pyarrow.parquet.read_table(tmp_path / "data.parquet").to_pylist()
    assert {row["pinning"] for row in rows} == {None, str(CPUS[0]), str(CPUS[-1])}
    assert all(row["runs"] >= 2 and not row["simulated"] for row in rows)
    submissions = list((tmp_path / "data.parquet.slurm").glob("*submission.sh"))
    assert submissions
    assert all("#SBATCH --exclusive" in submission.read_text() for submission in submissions)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--machine", "e5-4650x4", "--", "./solver"), "`./solver` is not a recording (FILE.pft)"),
        (("--machine", "e5-4650x4", "--runs", "2", "a.pft"), "--runs is for programs that are measured"),
        (("a.pft",), "`a.pft` is a recording: --machine says where it is simulated"),
        (("--sampled", "--", "./solver"), "--sampled is for simulated machines"),
    ],
)
def test_options_of_a_measured_and_of_a_simulated_sweep_are_told_apart(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    done = learn_sweep("--shards", "2", "--space", "threads", "-o", tmp_path / "data.parquet", *words, variables={})
    assert done.returncode == 125
    assert says in done.stderr
    assert not any(tmp_path.iterdir())


def test_without_slurm_the_error_says_so(recording: Path, binary: Path, tmp_path: Path) -> None:
    process = start(recording, tmp_path, binary, {"PATH": "/nowhere"})
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 125
    assert "`sbatch` is not found, so there is no Slurm here" in said
    assert not any(tmp_path.iterdir())
