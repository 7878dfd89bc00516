"""A simulated run depends only on the recording, the model and the seed: the same ones give the same bytes."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Pinfold

#: A program whose ten threads are more than the eight PUs of `clovertown`.
WORK = ("--threads", "10", "--size", "16k", "--iterations", "2")


def record(binary: Path, file: Path, *program: str | Path) -> Path:
    """Record a program, or skip the test where none can be recorded."""
    command = [str(binary), "record", "-o", str(file), "--", *map(str, program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"programs cannot be recorded here: {done.stderr.strip()}")
    return file


@pytest.fixture(scope="module")
def recording(binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the recording of a program of ten threads."""
    return record(binary, tmp_path_factory.mktemp("recording") / "stream.pft", workload("stream"), *WORK)


RUNS = {
    "pinned": ("--machine", "opteron-6164x4", "--policy", "fixed", "--schedule", "0-9"),
    "unpinned, with more tasks than CPUs": ("--machine", "clovertown", "--policy", "none", "--repeat", "2000"),
    "under the default policy": ("--machine", "e5-2660v2x2"),
    "searching": ("--machine", "e5-2660v2x2", "--search", "racing", "--schedule", "0-9", "--schedule", "0-4,10-14"),
}


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS.keys())
def test_the_same_seed_gives_the_same_bytes(pinfold: Pinfold, recording: Path, arguments: tuple[str, ...]) -> None:
    def written() -> bytes:
        pinfold.record(*arguments, "--seed", "7", recording)
        return (pinfold.folder / "record.json").read_bytes()

    assert written() == written()


def test_only_a_run_that_names_a_database_learns_from_another_run(pinfold: Pinfold, recording: Path) -> None:
    def candidates(*options: str | Path) -> str:
        return str(pinfold.record(*RUNS["under the default policy"], *options, recording).json["candidates_code"])

    named = ("--db", pinfold.folder / "behaviour.db")
    assert [candidates(*named) for _ in range(2)] == ["proposals", "known_program"]
    usual = Path(os.environ["PINFOLD_DB"])
    assert [candidates() for _ in range(2)] == ["proposals", "proposals"]
    assert not usual.exists()
    assert candidates("--db", "none") == "proposals"
    assert not (pinfold.folder / "none").exists()


def test_another_seed_gives_the_scheduler_other_choices(pinfold: Pinfold, recording: Path) -> None:
    arguments = RUNS["unpinned, with more tasks than CPUs"]
    lasted = {seed: pinfold.record(*arguments, "--seed", seed, recording).json["ran"] for seed in ("1", "2")}
    assert lasted["1"] != lasted["2"]


def test_another_seed_gives_transfers_between_caches_other_latencies(pinfold: Pinfold, recording: Path) -> None:
    """The pinned threads of the recording meet at barriers, whose lines go from cache to cache."""
    lasted = {seed: pinfold.record(*RUNS["pinned"], "--seed", seed, recording).json["ran"] for seed in ("1", "2")}
    assert lasted["1"] != lasted["2"]


def test_a_program_of_one_thread_is_recorded_with_the_same_accesses_each_time(pinfold: Pinfold) -> None:
    """QEMU gives a program the same addresses under every kernel; only the thread's id differs."""

    def simulated() -> bytes:
        file = record(pinfold.binary, pinfold.folder / "true.pft", "/bin/true")
        pinfold.record("--machine", "e5-2660v2x2", "--policy", "fixed", "--schedule", "0", file)
        return (pinfold.folder / "record.json").read_bytes()

    assert simulated() == simulated()
