"""`pinfold sweep --shard` and `pinfold sweep merge`: parts of a sweep, and their data set."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest
from conftest import PATIENCE, environment, eventually

#: Two machines with other metrics, and more jobs than the highest number of shards divides.
SPACE = ("--machine", "opteron-6164x4,e5-4650x4", "--space", "threads", "--limit", "4", "--space", "placement")

#: A shard that is long enough to be interrupted.
LONG = ("--machine", "e5-4650x4", "--space", "threads", "--space", "numa")


class Shards:
    """The binary, two recordings, and a folder for a single test."""

    def __init__(self, binary: Path, recordings: tuple[Path, ...], folder: Path) -> None:
        """Keep them."""
        self.binary, self.recordings, self.folder = binary, recordings, folder

    def start(self, *words: str | Path) -> "subprocess.Popen[str]":
        """Start `pinfold sweep WORDS`."""
        command = [str(word) for word in (self.binary, "sweep", *words)]
        return subprocess.Popen(command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __call__(self, *words: str | Path, status: int = 0) -> str:
        """Run it to its end, and return its standard error."""
        process = self.start(*words)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, err
        return err

    def shard(self, number: int, of: int, *, space: tuple[str, ...] = SPACE, name: str = "") -> Path:
        """Simulate a shard, and return its file."""
        file = self.folder / f"{name}{number}-of-{of}"
        self("--shard", f"{number}/{of}", *space, "--json", f"{file}.json", "-o", file, *self.recordings)
        return file

    def refused(self, *shards: Path) -> str:
        """Return why these shards are not merged."""
        said = self("merge", "-o", self.folder / "refused.parquet", *shards, status=125)
        assert not (self.folder / "refused.parquet").exists()
        return said


@pytest.fixture(scope="module")
def recordings(
    binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ...]:
    """Return recordings of two small programs, with another number of threads each."""
    folder = tmp_path_factory.mktemp("recordings")
    files = []
    for name, threads in (("stream", "4"), ("random_access", "2")):
        files.append(folder / f"{name}.pft")
        program = [workload(name), "--threads", threads, "--size", "256K", "--iterations", "3"]
        command = [binary, "record", "-o", files[-1], "--", *program]
        subprocess.run(list(map(str, command)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)
    return tuple(files)


@pytest.fixture
def shards(binary: Path, recordings: tuple[Path, ...], tmp_path: Path) -> Shards:
    """Return `pinfold sweep`."""
    return Shards(binary, recordings, tmp_path)


@pytest.fixture(scope="module")
def whole(binary: Path, recordings: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data set of a sweep without shards."""
    data = tmp_path_factory.mktemp("whole") / "data.parquet"
    Shards(binary, recordings, data.parent)(*SPACE, "-o", data, *recordings)
    return data


@pytest.mark.parametrize("of", [1, 2, 5])
def test_merged_shards_are_the_bytes_of_one_sweep(shards: Shards, whole: Path, of: int) -> None:
    files = [shards.shard(number, of) for number in range(of, 0, -1)]
    summaries = [json.loads(Path(f"{file}.json").read_text()) for file in files]
    assert [one["shard"] for one in summaries] == [{"number": number, "of": of} for number in range(of, 0, -1)]
    counts = [one["configurations"] for one in summaries]
    assert max(counts) - min(counts) <= 1
    merged, told = shards.folder / "merged.parquet", shards.folder / "merged.json"
    said = shards("merge", "-o", merged, "--json", told, *files)
    assert f"of {of} shards" in said
    assert merged.read_bytes() == whole.read_bytes()
    summary = json.loads(told.read_text())
    assert summary["configurations"] == sum(counts)
    assert summary["rows"] == pyarrow.parquet.read_metadata(merged).num_rows == sum(one["rows"] for one in summaries)
    assert (summary["shards"], summary["machines"], summary["programs"]) == (of, 2, 2)


def test_a_sampled_sweep_is_merged_to_the_same_bytes(shards: Shards) -> None:
    sampled = (*SPACE, "--sampled")
    files = [shards.shard(number, 2, space=sampled) for number in (1, 2)]
    whole, merged = shards.folder / "whole.parquet", shards.folder / "merged.parquet"
    shards(*sampled, "-o", whole, *shards.recordings)
    shards("merge", "-o", merged, *files)
    assert merged.read_bytes() == whole.read_bytes()


def test_a_killed_shard_is_resumed_by_the_same_command(shards: Shards) -> None:
    file = shards.folder / "1-of-2"
    partial = Path(f"{file}.partial")
    words: tuple[str | Path, ...] = ("--shard", "1/2", *LONG, "--json", f"{file}.json", "-o", file, *shards.recordings)
    process = shards.start("--jobs", "1", *words)
    eventually(lambda: partial.exists() and partial.stat().st_size > 8000, "some results")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not file.exists()
    second = shards.shard(2, 2, space=LONG)
    said = shards.refused(file, second)
    assert f"the shard {file} cannot be read; its sweep is not finished: run the same" in said
    assert f"{partial} has the results of an unfinished sweep" in shards.refused(partial, second)

    assert "were done before" in shards(*words)
    summary = json.loads(Path(f"{file}.json").read_text())
    assert 0 < summary["resumed"] < summary["configurations"]
    assert not partial.exists()
    whole, merged = shards.folder / "whole.parquet", shards.folder / "merged.parquet"
    shards(*LONG, "-o", whole, *shards.recordings)
    shards("merge", "-o", merged, file, second)
    assert merged.read_bytes() == whole.read_bytes()


def test_two_writers_of_a_shard_are_refused(shards: Shards) -> None:
    file = shards.folder / "1-of-2"
    partial = Path(f"{file}.partial")
    words: tuple[str | Path, ...] = ("--shard", "1/2", *LONG, "-o", file, *shards.recordings)
    process = shards.start("--jobs", "1", *words)
    eventually(lambda: partial.exists() and partial.stat().st_size > 8000, "some results")
    # Its lock ends with it, so it must not end before the other has tried.
    process.send_signal(signal.SIGSTOP)
    assert f"another sweep is writing {partial}" in shards(*words, status=125)
    process.kill()
    process.communicate()


def test_missing_and_doubled_shards_are_named(shards: Shards) -> None:
    files = [shards.shard(number, 3) for number in (1, 2, 3)]
    again = shards.folder / "again"
    shutil.copy(files[1], again)
    assert re.search(r"missing: 2/3\. .*run `pinfold sweep --shard 2/3`", shards.refused(files[0], files[2]))
    assert f"{files[1]} and {again} are both shard 2/3: name one of them" in shards.refused(*files, again)


def test_shards_of_different_sweeps_are_refused_by_name(shards: Shards) -> None:
    first = shards.shard(1, 2)
    other_machine = shards.shard(2, 2, space=("--machine", "barcelona", *SPACE[2:]), name="machine-")
    other_space = shards.shard(2, 2, space=(*SPACE[:2], "--space", "placement"), name="space-")
    sampled = shards.shard(2, 2, space=(*SPACE, "--sampled"), name="sampled-")
    of_three = shards.shard(2, 3)
    alone = Shards(shards.binary, shards.recordings[:1], shards.folder).shard(2, 2, name="alone-")
    for other, difference in (
        (other_machine, "other machines"),
        (other_space, "other configurations (--space, --limit)"),
        (sampled, "a sweep with --sampled, and one without"),
        (alone, "other recordings"),
        (of_three, f"{first} is shard 1/2, and {of_three} is shard 2/3"),
    ):
        said = shards.refused(first, other)
        assert difference in said
        assert str(other) in said


def test_a_shard_of_another_binary_is_refused_and_its_results_are_not_resumed(shards: Shards) -> None:
    # The same program, and another file: bytes after its end change nothing but its hash.
    rebuilt = shards.folder / "pinfold"
    rebuilt.write_bytes(shards.binary.read_bytes() + b"\0")
    rebuilt.chmod(0o755)
    other = Shards(rebuilt, shards.recordings, shards.folder)
    first, second = shards.shard(1, 2), other.shard(2, 2)
    said = shards.refused(first, second)
    assert f"{second} is of another build of pinfold" in said
    assert "run `pinfold sweep --shard 2/2` again" in said
    assert f"{first} is of another build of pinfold" in other.refused(first, second)

    file = shards.folder / "unfinished"
    partial = Path(f"{file}.partial")
    words: tuple[str | Path, ...] = ("--shard", "1/2", *LONG, "-o", file, *shards.recordings)
    process = other.start("--jobs", "1", *words)
    eventually(lambda: partial.exists() and partial.stat().st_size > 8000, "some results")
    process.kill()
    process.communicate()
    said = shards(*words)
    assert "results of an earlier run are not used" in said
    assert "or of another build of pinfold" in said
    assert "were done before" not in said


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--shard", "0/2"), "give I/N"),
        (("--shard", "3/2"), "give I/N"),
        (("--shard", "2"), "give I/N"),
    ],
)
def test_an_invalid_shard_is_refused(shards: Shards, words: tuple[str, ...], part: str) -> None:
    assert part in shards(*words, *SPACE, "-o", shards.folder / "shard", *shards.recordings, status=125)


def test_a_program_that_each_shard_would_record_anew_is_refused(shards: Shards) -> None:
    said = shards("--shard", "1/2", *SPACE, "-o", shards.folder / "shard", "--", "true", status=125)
    assert "--shard needs recordings" in said
    assert not any(shards.folder.iterdir())


def test_an_output_that_exists_is_kept(shards: Shards) -> None:
    shard, data = shards.shard(1, 1), shards.folder / "data.parquet"
    written = shard.read_bytes()
    said = shards("--shard", "1/1", *SPACE, "-o", shard, *shards.recordings, status=125)
    assert "--force replaces it" in said
    assert shard.read_bytes() == written
    data.write_text("precious")
    assert "--force replaces it" in shards("merge", "-o", data, shard, status=125)
    assert data.read_text() == "precious"
    shards("merge", "--force", "-o", data, shard)
    assert data.read_bytes().startswith(b"PAR1")


def test_the_help_of_a_sweep_and_of_merge_name_each_other(shards: Shards) -> None:
    command = [str(shards.binary), "sweep", "--help"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    assert "pinfold sweep <COMMAND>" in shown
    assert "--shard <I/N>" in shown
    command[2:2] = ["merge"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    assert "pinfold sweep --shard" in shown
