"""Accesses of a recording for a running program: `--profile`. tests/guest shows the resulting placement of pages."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, Pinfold, environment, eventually

FAILURE = 125
THREADS = "3"

#: How often a thread writes to its memory while it is recorded. These are nearly all of the program's accesses.
LAPS = "40"

#: The length of the format's version in bytes.
VERSION = slice(8, 12)


def record(binary: Path, file: Path, *command: str | Path) -> None:
    """Record a program."""
    words: list[str | Path] = [binary, "record", "-o", file, "--", *command]
    subprocess.run(words, check=True, capture_output=True, env=environment(), timeout=PATIENCE)


@pytest.fixture
def owners(compiled: Callable[..., Path]) -> Path:
    """Return the program whose threads have their own memory."""
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed (apt install qemu-user)")
    return compiled("owners")


@pytest.fixture
def recording(binary: Path, owners: Path, tmp_path: Path) -> Path:
    """Return a recording of it."""
    file = tmp_path / "owners.pft"
    record(binary, file, owners, LAPS, THREADS)
    return file


@pytest.fixture
def running(owners: Path, tmp_path: Path) -> Iterator[int]:
    """Return the running program, when all its memory exists."""
    file = tmp_path / "memory"
    process = subprocess.Popen([owners, "0", THREADS, file])
    eventually(file.exists, "the program has allocated its memory")
    yield process.pid
    process.kill()
    process.wait()


def pages(binary: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `pinfold pages ARGUMENTS`."""
    words: list[str | Path] = [binary, "pages", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)


def is_found(profile: dict[str, Any]) -> None:
    """Check that nearly all accesses of the threads have been mapped to the program."""
    assert profile["threads"] == int(THREADS) + 1
    assert profile["matched"] > 0.99 * profile["accesses"], profile["unmatched"]
    # Each thread has sixteen pages of each of three kinds, and of the fourth once, twice and three times as many.
    assert profile["pages"] >= 16 * (3 + 3 + 3 + 1 + 2 + 3)
    assert all(area["accesses"] > 0 and area["why"] for area in profile["unmatched"])


def test_the_accesses_of_a_recording_are_mapped_to_a_running_process(
    binary: Path, recording: Path, running: int, tmp_path: Path
) -> None:
    file = tmp_path / "pages.json"
    run = pages(binary, str(running), "--page-map", "locality", "--profile", recording, "--json", file)
    assert run.returncode == 0, run.stderr
    assert f"% of those in {recording} are to" in run.stdout
    document = json.loads(file.read_text())
    is_found(document["profiled"])
    assert document["profiled"]["recording"] == str(recording)
    assert document["sampled"] is None
    assert document["moves"]["goal"] == "locality"


def test_a_run_uses_the_accesses_of_a_recording_after_its_initialisation(
    pinfold: Pinfold, recording: Path, owners: Path
) -> None:
    options = ["--policy", "fixed", "--schedule", "0", "-t", "300ms", "--warm-up", "50ms", "--initialise", "200ms"]
    run = pinfold.record(*options, "--page-map", "balance", "--profile", recording, "--", owners, "120000", THREADS)
    (profile,) = run.json["page_profiles"]
    assert profile["at"] >= 0.2
    is_found(profile)
    assert run.json["page_samples"] == []
    assert run.said(f"the accesses in {recording} are mapped to its addresses") == 1


def test_a_recording_of_another_program_is_refused(
    binary: Path, running: int, compiled: Callable[..., Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.pft"
    record(binary, other, compiled("spin"), "1", "0.01")
    run = pages(binary, str(running), "--page-map", "balance", "--profile", other)
    assert run.returncode == FAILURE
    assert "is a recording of" in run.stderr
    assert "--profile" in run.stderr


def test_the_data_of_a_rebuilt_program_counts_as_changed(
    binary: Path, recording: Path, owners: Path, running: int, tmp_path: Path
) -> None:
    os.utime(owners, (0, 0))
    file = tmp_path / "pages.json"
    run = pages(binary, str(running), "--page-map", "balance", "--profile", recording, "--json", file)
    assert run.returncode == 0, run.stderr
    profile = json.loads(file.read_text())["profiled"]
    changed = {area["area"] for area in profile["unmatched"] if area["why"] == "file_changed"}
    assert f"zeroed data of {owners}" in changed
    assert 0 < profile["matched"] < 0.8 * profile["accesses"]


def test_a_recording_of_the_format_before_is_read_and_refused_as_a_profile(
    binary: Path, recording: Path, running: int, tmp_path: Path
) -> None:
    before = tmp_path / "before.pft"
    content = bytearray(recording.read_bytes())
    content[VERSION] = (2).to_bytes(4, "little")
    before.write_bytes(content)
    info = subprocess.run([binary, "trace", "info", before], capture_output=True, text=True, check=True)
    assert "it is of an older format version" in info.stdout
    run = pages(binary, str(running), "--page-map", "balance", "--profile", before)
    assert run.returncode == FAILURE
    assert "has no mappings: record the program again" in run.stderr


def test_trace_info_prints_the_mappings(binary: Path, recording: Path, owners: Path) -> None:
    words: list[str | Path] = [binary, "trace", "info", "--json", recording]
    document = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    by_backing: dict[str, int] = {}
    for area in document["areas"]:
        assert area["accesses"] > 0
        by_backing[area["backing"]] = by_backing.get(area["backing"], 0) + area["accesses"]
    # Each of the threads reads and writes a line of 64 bytes, and so does the first thread once.
    each = int(THREADS) * (int(LAPS) + 1) * 16 * 64 * 2
    kinds = {str(owners): 1, f"zeroed data of {owners}": 1, "[heap]": 1, "anonymous": 2}
    for backing, share in kinds.items():
        assert share * each <= by_backing[backing] < 1.2 * share * each, by_backing
    assert by_backing["[stack]"] > 0


@pytest.mark.parametrize(
    "options", [["--page-map", "interleave"], [], ["--page-map", "balance", "--sample-time", "1s"]]
)
def test_a_profile_that_would_not_be_used_is_refused(pinfold: Pinfold, options: list[str]) -> None:
    run = pinfold.run(*options, "--profile", "none.pft", "--", "echo", "it ran")
    assert run.status == FAILURE
    assert "--profile" in run.err
    assert run.out == ""
