"""Data sets of different machines, joined."""

import json

import pyarrow

from pinfold.joined import joined


def table(machine: str, metric: str, value: float) -> pyarrow.Table:
    metadata = {
        "pinfold.dataset": "2",
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
    assert metadata[b"pinfold.dataset"] == b"2"
