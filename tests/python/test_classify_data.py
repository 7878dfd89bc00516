"""Data sets of placements: what cannot be learned from is refused with its reason."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from pinfold.learn.classify.data import read, read_programs
from pinfold.learn.classify.features import MACHINE, PROGRAM
from pinfold.learn.classify.strategies import STRATEGIES
from pinfold.learn.tables import OBSERVED


def rows(program: str, *seconds: float, covers: bool = True) -> list[dict[str, Any]]:
    observed = {OBSERVED + name: 1.0 for name in (*PROGRAM, *MACHINE)}
    return [
        {
            **{"machine": "m", "program": program, "command": program, "num_threads": 24, "region": None},
            **{"thread_map": one.threads, "page_map": one.pages, "time_s": time, "window_covers": covers},
            **observed,
        }
        for one, time in zip(STRATEGIES, seconds, strict=True)
    ]


FAST, CALM, SLOW = rows("fast", 2, 1, 2, 1), rows("calm", 1, 1, 1, 1), rows("slow", 1, 2, 1, 2)


def write(file: Path, *programs: list[dict[str, Any]]) -> Path:
    table = pyarrow.Table.from_pylist([row for program in programs for row in program])
    pyarrow.parquet.write_table(table.replace_schema_metadata({"made": "here"}), file)
    return file


def test_the_same_rows_are_the_same_programs_however_they_are_split(tmp_path: Path) -> None:
    together = read([write(tmp_path / "all", SLOW, FAST, CALM)])
    apart = read([write(tmp_path / "a", CALM), write(tmp_path / "b", SLOW, FAST)])
    assert together == apart
    assert [one.program for one in together] == ["calm", "fast", "slow"]


def test_too_few_programs_are_refused(tmp_path: Path) -> None:
    hidden = rows("hidden", 1, 1, 1, 1, covers=False)
    with pytest.raises(ValueError, match=r"has 2 programs \(1 inputs are left out.*at least 3 are needed"):
        read([write(tmp_path / "few", FAST, CALM, hidden)])
    assert len(read_programs([tmp_path / "few"])) == 3


def test_one_class_only_is_refused(tmp_path: Path) -> None:
    calm = [rows(name, 1, 1, 1, 1) for name in ("a", "b", "c")]
    with pytest.raises(ValueError, match="all programs of the data are insensitive"):
        read([write(tmp_path / "calm", *calm)])


def test_another_kind_of_data_set_is_refused_by_name(tmp_path: Path) -> None:
    file = write(tmp_path / "other", [{"region": None, "program": "a"}])
    with pytest.raises(ValueError, match="other has no column `command`"):
        read([file])


def test_a_program_that_lacks_a_strategy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`slow` on m was not run with scatter and interleave"):
        read([write(tmp_path / "part", FAST, CALM, SLOW[:3])])
