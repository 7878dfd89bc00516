"""Data sets of different machines, joined."""

import json

import pyarrow
import pytest

from pinfold.joined import joined


def table(machine: str, metric: str, value: float) -> pyarrow.Table:
    metadata = {
        "pinfold.dataset": "3",
        "pinfold.metrics": json.dumps(
            [{"name": "ipc", "unit": "instruction per cycle"}, {"name": metric, "unit": "s"}]
        ),
        "pinfold.models": json.dumps({machine: "ab"}),
    }
    columns = {"machine": [machine], "ipc": [1.0], metric: [value]}
    return pyarrow.table(columns).replace_schema_metadata(metadata)


def test_a_column_that_a_data_set_does_not_have_is_null_in_its_rows() -> None:
    together = joined([table("one", "event:a", 1.0), table("other", "event:b", 2.0)])
    assert together["event:a"].to_pylist() == [1.0, None]
    assert together["event:b"].to_pylist() == [None, 2.0]


def test_the_metadata_has_the_metrics_and_models_of_all() -> None:
    metadata = joined([table("one", "event:a", 1.0), table("other", "event:b", 2.0)]).schema.metadata
    metrics = json.loads(metadata[b"pinfold.metrics"])
    assert [metric["name"] for metric in metrics] == ["ipc", "event:a", "event:b"]
    assert json.loads(metadata[b"pinfold.models"]) == {"one": "ab", "other": "ab"}
    assert metadata[b"pinfold.dataset"] == b"3"


def described(**metadata: str) -> pyarrow.Table:
    named = {f"pinfold.{key}": value for key, value in metadata.items()}
    return pyarrow.table({"machine": ["a"]}).replace_schema_metadata(named)


def test_the_highest_version_and_any_simulated_row_count_for_all() -> None:
    old, measured = described(dataset="2", simulated="true"), described(dataset="3", simulated="false", time_unit="s")
    for tables in ([old, measured], [measured, old]):
        metadata = joined(tables).schema.metadata
        assert metadata[b"pinfold.dataset"] == b"3"
        assert metadata[b"pinfold.simulated"] == b"true"
    assert joined([measured]).schema.metadata[b"pinfold.simulated"] == b"false"


def test_the_metadata_has_the_topologies_of_all_machines() -> None:
    one, other = described(topologies='{"a": {"synthetic": "pack:2 pu:2"}}'), described(topologies='{"b": {}}')
    found = json.loads(joined([described(), one, other]).schema.metadata[b"pinfold.topologies"])
    assert found == {"a": {"synthetic": "pack:2 pu:2"}, "b": {}}


def test_times_of_different_units_are_not_joined() -> None:
    with pytest.raises(ValueError, match=r"different units \(none and s\)"):
        joined([described(time_unit="none"), described()])
