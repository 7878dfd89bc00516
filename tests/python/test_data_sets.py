"""Data sets have the same content for every split of their rows into files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

from pinfold.learn.hints.judging import cases
from pinfold.learn.hints.llc_domains import LlcDomains
from pinfold.learn.hints.observations import KEY, behaviour_metrics, covered, read_observations, read_table

Row = dict[str, Any]

PUS = {"two": ("0,1", "0,2"), "four": ("0,1", "0,4", "0,8")}


def domains(size: int, caches: int) -> LlcDomains:
    """Return a machine of one package whose caches have `size` PUs each."""
    pus = range(size * caches)
    return LlcDomains(dict.fromkeys(pus, 0), {pu: pu // size for pu in pus})


DOMAINS = {"two": domains(2, 2), "four": domains(4, 3)}


def rows() -> list[Row]:
    """Return programs on two machines.

    Each machine has an event that the other lacks. One event equals another on one machine only.
    """
    random = np.random.RandomState(0)
    found: list[Row] = []
    for machine, pinnings in PUS.items():
        for program in ("a", "b", "c"):
            for pinning in pinnings:
                common = random.uniform()
                found.append(
                    {
                        "machine": machine,
                        "program": program,
                        "region": None,
                        "command": f"bin/{program}",
                        "num_threads": 2,
                        "page_map": "first_touch",
                        "prefetch": "0000",
                        "pinning": pinning,
                        "time_s": random.uniform(1, 2),
                        "unrecorded_wait_share": random.uniform(),
                        "ipc": random.uniform(),
                        "event:common": common,
                        # Equal to `common` on one machine only: a file of that machine alone cannot tell them apart.
                        "event:often_common": common if machine == "two" else random.uniform(),
                        "event:always_common": common,
                        f"event:only_{machine}": random.uniform(),
                    }
                )
    return found


def write(file: Path, of: list[Row]) -> Path:
    """Write rows as `pinfold sweep` does: a column exists where a row has it."""
    columns = list(dict.fromkeys(name for row in of for name in row))
    types = {name: pyarrow.string() for name in (*KEY, "program")} | {
        "num_threads": pyarrow.int32(),
        "window_covers": pyarrow.bool_(),
    }
    arrays = {
        name: pyarrow.array([row.get(name) for row in of], types.get(name, pyarrow.float64())) for name in columns
    }
    metrics = [{"name": name, "unit": "x"} for name in columns if name == "ipc" or name.startswith("event:")]
    table = pyarrow.table(arrays).replace_schema_metadata({"pinfold.metrics": json.dumps(metrics)})
    pyarrow.parquet.write_table(table, file)
    return file


@pytest.mark.parametrize("seed", range(20))
def test_the_same_rows_say_the_same_however_they_are_split_into_files(tmp_path: Path, seed: int) -> None:
    random = np.random.RandomState(seed)
    shuffled = [rows()[place] for place in random.permutation(len(rows()))]
    bounds = sorted(random.choice(np.arange(1, len(shuffled)), size=random.randint(0, 4), replace=False))
    parts = [shuffled[begin:end] for begin, end in zip([0, *bounds], [*bounds, len(shuffled)], strict=True)]
    whole = read_table([write(tmp_path / "whole.parquet", rows())])
    split = read_table([write(tmp_path / f"{number}.parquet", part) for number, part in enumerate(parts)])
    assert split.to_pylist() == whole.to_pylist()
    metrics = behaviour_metrics(whole)
    assert metrics == ["event:common", "event:often_common", "event:only_four", "event:only_two", "ipc"]
    assert behaviour_metrics(split) == metrics
    assert repr(read_observations(split, metrics, DOMAINS)) == repr(read_observations(whole, metrics, DOMAINS))


def test_rows_whose_window_does_not_stand_for_the_program_are_left_out(tmp_path: Path) -> None:
    flagged = [row | {"window_covers": {"a": True, "b": False, "c": None}[row["program"]]} for row in rows()]
    table = read_table([write(tmp_path / "flagged.parquet", flagged)])
    assert set(covered(table)["program"].to_pylist()) == {"a", "c"}
    with pytest.raises(ValueError, match=r"access too little of their programs' memory \(b\): record longer windows"):
        covered(table.filter(pyarrow.compute.equal(table["program"], "b")))


def test_a_metric_with_two_units_is_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "one.parquet", rows())
    other = pyarrow.parquet.read_table(one)
    metadata = other.schema.metadata[b"pinfold.metrics"].replace(b'"x"', b'"y"')
    pyarrow.parquet.write_table(
        other.replace_schema_metadata({"pinfold.metrics": metadata}), tmp_path / "other.parquet"
    )
    with pytest.raises(ValueError, match=r"other.parquet has ipc in y, another data set in x"):
        read_table([one, tmp_path / "other.parquet"])


def test_the_oracle_knows_the_orders_of_ranks_and_hints_the_order_of_the_pus(tmp_path: Path) -> None:
    first = next(row for row in rows() if row["pinning"] == "0,2")
    both = [first | {"pinning": "2,0", "time_s": 0.5}, first | {"time_s": 1.0}]
    table = read_table([write(tmp_path / "orders.parquet", both)])
    observations, _ = read_observations(table, ["ipc"], DOMAINS)
    (case,) = cases(observations, lambda machine, threads: {}, incomplete=True)
    assert case.oracle == 0.5
    assert [one.seconds for one in case.observed.values()] == [1.0]
