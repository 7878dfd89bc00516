"""Data sets that others wrote: what is read of them, and what is refused by name."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from pinfold.learn import command, tables
from pinfold.learn.classify import data as classify_data
from pinfold.learn.hints import observations
from pinfold.learn.react import data as react_data

METADATA = {
    b"pinfold.metrics": b'[{"name": "ipc", "unit": "1"}]',
    b"pinfold.dataset": b"3",
    b"pinfold.simulated": b"true",
    b"pinfold.models": b"{}",
}


def columns(rows: int = 2) -> dict[str, Any]:
    """Return the columns of a data set."""
    texts = {name: ["a"] * rows for name in ("machine", "program", "page_map", "prefetch", "pinning", "command")}
    return texts | {
        "region": pyarrow.nulls(rows, pyarrow.string()),
        "num_threads": pyarrow.array([2] * rows, pyarrow.int32()),
        "time_s": [1.5] * rows,
        "window_covers": [True] * rows,
        "ipc": [0.5] * rows,
    }


def written(file: Path, changes: dict[str, Any], metadata: dict[bytes, bytes] = METADATA) -> Path:
    """Write a data set with these columns in place of others."""
    table = pyarrow.table(columns() | changes).replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(table, file)
    return file


def test_the_known_columns_and_the_metrics_are_read_and_others_are_left(tmp_path: Path) -> None:
    file = written(tmp_path / "data.parquet", {"nested": [[1], [2]], "remark": ["x", "y"]})
    table = tables.read(file)
    assert table.column_names == list(columns())
    assert table.to_pylist()[0]["machine"] == "a"
    assert table.schema.metadata == METADATA


def test_the_columns_of_measured_rows_are_read(tmp_path: Path) -> None:
    measured = {
        "runs": pyarrow.array([5, None], pyarrow.int32()),
        "spread": [0.01, None],
        "throttled": [False, None],
        "threads_per_core": pyarrow.array([1, 2], pyarrow.int32()),
        "pinning": ["0,1", None],
    }
    table = tables.read(written(tmp_path / "data.parquet", measured))
    assert table.select(list(measured)).to_pylist()[1] == {**dict.fromkeys(measured), "threads_per_core": 2}
    assert tables.pinned(table)["runs"].to_pylist() == [5]


def test_times_are_found_in_any_unit(tmp_path: Path) -> None:
    in_seconds = tables.read(written(tmp_path / "data.parquet", {}))
    assert tables.time_column(tmp_path, in_seconds) == "time_s"
    assert tables.time_column(tmp_path, in_seconds.rename_columns({"time_s": "time"})) == "time"
    with pytest.raises(ValueError, match="has no column `time_s`"):
        tables.time_column(tmp_path, in_seconds.drop_columns(["time_s"]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"time_s": ["fast", "slow"]}, "the column `time_s` has the type string, and has numbers in a data set"),
        ({"machine": [[1], [2]]}, "the column `machine` has the type list<element: int64>, and has text"),
        ({"num_threads": [1.5, 2.0]}, "the column `num_threads` has the type double, and has whole numbers"),
        ({"window_covers": ["yes", "no"]}, "the column `window_covers` has the type string, and has true or false"),
        ({"ipc": ["1", "2"]}, "the column `ipc` has the type string, and has numbers"),
        ({"program": ["a", None]}, "the column `program` has rows without a value"),
        ({"num_threads": [0, 1]}, "the column `num_threads` has a value that is no number of at least 1"),
        ({"time_s": [1.0, float("nan")]}, "the column `time_s` has a value that is no number of at least 0"),
    ],
)
def test_a_column_of_another_type_is_named_with_the_file_and_what_is_expected(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    file = written(tmp_path / "data.parquet", changes)
    for read in (observations.read_table, classify_data.read_programs, react_data.read):
        with pytest.raises(ValueError, match=r"data\.parquet: the column") as refused:
            read([file])
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("metadata", [b"no json", b"[" * 100_000, b'[{"name": 1}]', b"{}"])
def test_metrics_that_are_none_are_named(tmp_path: Path, metadata: bytes) -> None:
    file = written(tmp_path / "data.parquet", {}, METADATA | {b"pinfold.metrics": metadata})
    with pytest.raises(ValueError, match=r"data\.parquet does not say which metrics it has"):
        observations.read_table([file])


def test_a_text_that_all_rows_repeat_counts_in_each_row(tmp_path: Path) -> None:
    rows, length = 1 << 14, 1 << 18
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), ["x" * length])
    file = tmp_path / "data.parquet"
    table = pyarrow.table(columns(rows) | {"command": texts}).replace_schema_metadata(METADATA)
    pyarrow.parquet.write_table(table, file, compression="zstd")
    assert file.stat().st_size < 1 << 20
    before = pyarrow.total_allocated_bytes()
    with pytest.raises(ValueError, match=r"data\.parquet has more than 1024 MiB in memory"):
        tables.read(file)
    assert pyarrow.default_memory_pool().max_memory() - before < rows * length


def test_more_rows_and_columns_than_a_data_set_has_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "data.parquet", {})
    for limit in ("MOST_ROWS", "MOST_COLUMNS"):
        with monkeypatch.context() as changed:
            changed.setattr(tables, limit, 1)
            with pytest.raises(ValueError, match=r"data\.parquet has \d+ \w+, and a data set has at most 1: split it"):
                tables.read(file)


def test_the_command_prints_one_line_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "data.parquet", {"time_s": ["fast", "slow"]})
    status = command.main(["train", "react", "--data", str(file), "-o", str(tmp_path / "model.json")])
    said = capsys.readouterr().err
    assert status != 0
    assert said.startswith("pinfold learn: ")
    assert "column `time_s`" in said
    assert said.count("\n") == 1


def test_a_file_that_ends_early_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "data.parquet", {})
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"data\.parquet cannot be read as a data set: "):
        tables.read(file)


def test_the_models_of_a_changed_file_are_named(tmp_path: Path) -> None:
    file = written(tmp_path / "data.parquet", {}, METADATA | {b"pinfold.models": json.dumps([1]).encode()})
    with pytest.raises(ValueError, match=r"data\.parquet has no models of machines"):
        tables.read(file)
