"""The sweep of placement strategies: what fails is named and left out, and applications for judging stay apart."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from pinfold.applications.recording import FailedError
from pinfold.evaluation.classify import sweep as placement_sweep
from pinfold.evaluation.classify.programs import SCALED, SCALED_OF_THE_PAPER, Caches, Machine, own, real
from pinfold.evaluation.classify.sweep import Job, sweep
from pinfold.split import Part, part


@dataclass(frozen=True)
class Program:
    name: str
    fails: bool = False
    title: tuple[str, str] | None = None

    def command(self, threads: int) -> str:
        return f"{self.name} {threads}"

    def record(self, threads: int, file: Path) -> None:
        raise AssertionError


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a few programs in the place of the real ones; return the names of those that are swept."""
    calls: list[str] = []

    def swept(job: Job, data: Path) -> None:
        calls.append(f"{job.program.name} on {job.machine}")
        if job.program == Program("fails", fails=True):
            raise FailedError("it is not parallel")
        pyarrow.parquet.write_table(pyarrow.table({"program": [job.program.name]}, metadata={"a": "b"}), data)

    def reals(part: Part, root: Path) -> list[Program]:
        return [Program("real"), Program("fails", fails=True)] if part == "development" else [Program("hidden")]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(placement_sweep, "folder", lambda: placement_sweep.RESULTS / "build")
    monkeypatch.setattr(placement_sweep, "own", lambda machine, quick, one_input: [Program("own")])
    monkeypatch.setattr(placement_sweep, "real", reals)
    monkeypatch.setattr(placement_sweep, "WITH_APPLICATIONS", ("m",))
    monkeypatch.setattr(placement_sweep, "_sweep", swept)
    return calls


def programs(file: Path) -> list[str]:
    return list(pyarrow.parquet.read_table(file)["program"].to_pylist())


def test_each_part_has_a_file_and_what_fails_is_named_and_not_tried_again(made: list[str]) -> None:
    first = sweep(quick=False, machines=["m"])
    assert programs(first.files["development"]) == ["own", "real"]
    assert programs(first.files["judged"]) == ["hidden"]
    assert first.failed == {"fails on m": "it is not parallel"}
    assert sorted(made) == ["fails on m", "hidden on m", "own on m", "real on m"]
    assert sweep(quick=False, machines=["m"]) == first
    assert len(made) == 4


def test_the_reduced_set_has_no_applications(made: list[str]) -> None:
    assert {name: programs(file) for name, file in sweep(quick=True, machines=["m"]).files.items()} == {
        "development": ["own"]
    }


def test_sizes_suit_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = Caches(16 << 20, 4)
    (stream,) = [one for one in SCALED if one.program == "stream"]
    arguments = [one.arguments for one in stream.workloads(caches)]
    assert [words.split("--init ")[1] for words in arguments] == ["parallel", "parallel", "serial"]
    assert [int(words.split()[1].removesuffix("k")) >> 10 for words in arguments] == [8, 96, 96]
    (join,) = [one for one in SCALED if one.program == "hash_join"]
    larger = [words.arguments.split()[1] for words in join.workloads(Caches(256 << 20, 2))]
    assert larger == [f"{join.largest << 10}k"] * 2, "inside and beyond are the same size, once for each initialisation"


def test_where_each_program_has_one_input_sizes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "of", lambda name: Machine(112, Caches(105 << 20, 2)))
    every = {program.name: program for program in own("m", quick=False)}
    chosen = [program.name for program in own("m", quick=False, one_input=True)]
    assert "compute_size_2048k_iterations_2" in chosen, "four times the work for more than four times the cores"
    assert "barrier_size_400_iterations_2" in chosen
    assert {name.split("_size")[0] for name in chosen} == {name.split("_size")[0] for name in every}
    sized = [name for name in chosen if "init" in name]
    assert len(sized) == len(SCALED) + len(SCALED_OF_THE_PAPER)
    inside = sum(f"size_{105 << 9}k" in name for name in sized)
    serial = sum("init_serial" in name for name in sized)
    assert abs(inside - len(sized) / 3) <= 2
    assert abs(serial - len(sized) / 3) <= 2


def test_programs_of_a_data_set_are_observed_again_and_keep_their_times(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: dict[str, Any] = {
        "machine": "m",
        "command": "own 4",
        "program": "own",
        "region": None,
        "thread_map": "compact",
    }
    rows |= {"thread_map": "compact", "page_map": "first_touch", "time_s": 2.5, "sample:ipc": 1.0}
    columns = {name: [value] for name, value in rows.items()}
    known = pyarrow.table(columns, metadata={"a": "b"})
    pyarrow.parquet.write_table(known, tmp_path / "known.parquet")
    monkeypatch.setattr(Machine, "of", lambda name: Machine(4, Caches(1, 1)))
    monkeypatch.setattr(Program, "record", lambda self, threads, file: file.touch())
    asked: list[float] = []

    def sampled(binary: Path, recording: Path, machine: str, seconds: float) -> dict[str, float | None]:
        asked.append(seconds)
        return {"sample:ipc": 3.0, "sample:read_load": None}

    monkeypatch.setattr(placement_sweep, "sampled", sampled)
    swept = sweep(quick=True, machines=["m"], times_of=tmp_path / "known.parquet")
    (row,) = pyarrow.parquet.read_table(swept.files["development"]).to_pylist()
    assert row == rows | {"sample:ipc": 3.0, "sample:read_load": None}
    assert (asked, made) == ([2.5], []), "nothing is swept again"


def test_own_programs_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "of", lambda name: Machine(24, Caches(15 << 20, 4)))
    names = [program.name for program in own("m", quick=False)]
    assert len(set(names)) == len(names)
    assert {program.name for program in own("m", quick=True)} < set(names)


@dataclass(frozen=True)
class Pool:
    """A program with threads beside those that are asked for."""

    others: int
    name: str = "pool"
    title: None = None

    def command(self, threads: int) -> str:
        raise AssertionError

    def record(self, threads: int, file: Path) -> None:
        file.write_text(str(threads + self.others))


def test_a_pool_gets_fewer_threads_where_others_live_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observe(binary: Path, recording: Path, machine: str) -> pyarrow.Table:
        return pyarrow.table({"num_threads": [int(recording.read_text())]}, metadata={"a": "b"})

    monkeypatch.setattr(placement_sweep, "observe", observe)
    monkeypatch.setattr(Machine, "of", lambda name: Machine(24, Caches(15 << 20, 4)))
    placement_sweep._sweep(Job("m", Pool(2)), tmp_path / "rows.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet")["num_threads"].to_pylist() == [24]
    with pytest.raises(FailedError, match="it has 20 threads at the same time where it should have 24"):
        placement_sweep._sweep(Job("m", Pool(-4)), tmp_path / "fails.parquet")


def test_applications_are_those_of_the_part_with_one_phase() -> None:
    root = Path(__file__).parents[2]
    for of_part in ("development", "judged"):
        found = real(of_part, root)
        titles = [program.title for program in found if program.title]
        assert all(part(application) == of_part for application, _ in titles)
        assert len(set(titles)) == len(found)
