"""The sweep of the space `ics20`: enough regions, the region with the work, and what fails is named."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from pinfold.applications.recording import FailedError
from pinfold.evaluation.classify.programs import Caches, Machine
from pinfold.evaluation.react import sweep as react_sweep
from pinfold.evaluation.react.programs import REDUCED, beyond_caches, workloads
from pinfold.evaluation.react.sweep import Job, sweep, thread_counts, work
from pinfold.evaluation.workloads import Workload


def rows(*regions: tuple[str | None, float, bool]) -> pyarrow.Table:
    """Return the baseline and another configuration of regions: offset, time of the baseline, completeness."""
    both = [(*region, baseline) for region in regions for baseline in (True, False)]
    columns = {
        "joined_command": ["stream"] * len(both),
        "region_object": [offset and "stream" for offset, *_ in both],
        "region_offset": pyarrow.array([offset for offset, *_ in both], pyarrow.string()),
        "region_complete": [complete for _, _, complete, _ in both],
        "time_s": [time for _, time, _, _ in both],
        "baseline": [baseline for *_, baseline in both],
    }
    return pyarrow.table(columns, metadata={"a": "b"})


def test_there_are_as_many_regions_as_published_of_at_least_twenty_programs_each_once() -> None:
    all_of_them = workloads(quick=False)
    assert len({one.name for one in all_of_them}) == len(all_of_them) >= 57
    assert len({one.program for one in all_of_them}) >= 20
    reduced = workloads(quick=True)
    assert {one.program for one in reduced} == set(REDUCED)
    assert {one.name for one in reduced} < {one.name for one in all_of_them}


def test_programs_are_those_of_the_folder_workloads() -> None:
    sources = {file.name for file in (Path(__file__).parents[2] / "workloads").iterdir()}
    assert {one.program for one in workloads(quick=False)} <= sources


def test_data_beyond_all_caches_is_another_size_of_regions_that_fit_them() -> None:
    larger, fitting = beyond_caches(), workloads(quick=False)
    assert len({one.name for one in larger}) == len(larger) >= 8
    assert not {one.name for one in larger} & {one.name for one in fitting}
    assert {(one.program, one.region) for one in larger} <= {(one.program, one.region) for one in fitting}


def test_the_region_with_the_work_is_the_longest_complete_one() -> None:
    table = rows((None, 9.0, True), ("0x10", 1.0, True), ("0x20", 2.0, True), ("0x30", 3.0, False))
    assert work(table)["region_offset"].to_pylist() == ["0x20", "0x20"]
    with pytest.raises(ValueError, match="no region"):
        work(rows((None, 9.0, True), ("0x30", 3.0, False)))


def test_numbers_of_threads_are_a_quarter_a_half_and_all_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "of", lambda name: Machine(48, Caches(33 << 20, 2)))
    assert thread_counts("m") == (12, 24, 48)


def test_what_fails_is_named_and_nothing_is_swept_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def swept(job: Job, data: Path) -> None:
        calls.append(job.workload.program)
        if job.workload.program == "fails":
            raise FailedError("it has too few threads")
        pyarrow.parquet.write_table(rows(("0x10", 1.0, True)), data)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(react_sweep, "folder", lambda results: results / "build")
    programs = [Workload("works", 1, "--size 1"), Workload("fails", 1, "--size 1")]
    monkeypatch.setattr(react_sweep, "workloads", lambda quick: programs)
    monkeypatch.setattr(react_sweep, "_sweep", swept)
    first = sweep(quick=False, machines=["m"])
    assert first.file
    assert pyarrow.parquet.read_table(first.file).num_rows == 2
    assert first.failed == {"fails_size_1 on m": "it has too few threads"}
    assert sweep(quick=False, machines=["m"]) == first
    assert calls == ["works", "fails"]
