"""From measured times in a table of others to rules and models, for each method of learning."""

import csv
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from react_cases import BINARY, regions, rows_of, write

from pinfold.learn.classify.features import MACHINE, PROGRAM
from pinfold.learn.classify.strategies import STRATEGIES
from pinfold.learn.command import FAILURE, main
from pinfold.learn.tables import OBSERVED

TOPOLOGY = "package:2 numa:1 l3:2 core:2 pu:1"
THREADS = 4

MAP = """\
[time]
column = "time"
unit = "{unit}"

[columns]
machine = {{ constant = "measured" }}
program = "program"
region = {{ column = "region", optional = true }}
num_threads = "threads"
{placement}
page_map = {{ column = "pages", default = "first_touch" }}
prefetch = {{ column = "prefetch", default = "0000" }}

[topologies]
measured = "{topology}"
{metrics}
"""

LAYOUT = 'num_nodes = "nodes"\nthread_map = "map"'
PINNING = 'pinning = "pus"'


@pytest.fixture(autouse=True)
def own_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the binary of this checkout describe topologies, whatever is installed."""
    monkeypatch.setenv("PINFOLD", str(BINARY))


def imported(
    folder: Path, rows: Sequence[Mapping[str, Any]], placement: str, unit: str, metrics: Mapping[str, str]
) -> Path:
    """Import rows of a CSV table, whose metrics have columns of the same names; return the data set."""
    with (folder / "table.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    named = "".join(f'[metrics."{name}"]\ncolumn = "{name}"\nunit = "{unit}"\n' for name, unit in metrics.items())
    text = MAP.format(unit=unit, placement=placement, topology=TOPOLOGY, metrics=named)
    (folder / "map.toml").write_text(text)
    data = folder / "data.parquet"
    words = ["import", str(folder / "table.csv"), "--columns", str(folder / "map.toml"), "-o", str(data)]
    assert main(words) == 0
    return data


def trained(model: Path) -> dict[str, Any]:
    """Return what a learned file says of its training data."""
    found: dict[str, Any] = json.loads(model.read_text())["trained"]
    return found


def hints_rows() -> list[dict[str, Any]]:
    """Return programs in all placements: some are fastest together, and some apart, as their misses say."""
    command = [str(BINARY), "placements", "--machine", f"synthetic:{TOPOLOGY}", "--threads", str(THREADS), "--json"]
    placements = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["placements"]
    random = np.random.default_rng(0)
    rows = []
    for number in range(12):
        apart = number % 2 == 0
        for one in placements:
            used = sum(load > 0 for package in one["llc_loads"] for load in package)
            seconds = (1 / used if apart else used) * random.uniform(0.99, 1.01)
            rows.append(
                {
                    "program": f"program{number}",
                    "threads": THREADS,
                    "pus": ",".join(map(str, one["pus"])),
                    "time": seconds,
                    "event:instructions": 1e9 / seconds,
                    "event:misses": (1e7 if apart else 1e4) / seconds * random.uniform(0.9, 1.1),
                }
            )
    return rows


def test_hints_are_learned_from_measured_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = hints_rows()
    units = {"event:instructions": "1/s", "event:misses": "1/s"}
    data, rules = imported(tmp_path, rows, PINNING, "s", units), tmp_path / "rules.json"
    words = ["train", "hints", "--data", str(data), "--threads", str(THREADS), "--method", "regret-tree"]
    assert main([*words, "-o", str(rules)]) == 0
    assert f"learning from {len(rows)} measured rows" in capsys.readouterr().err
    found = trained(rules)
    assert (found["simulated"], found["measured_rows"], found["simulated_rows"]) == (False, len(rows), 0)
    written = json.loads(rules.read_text())
    assert "event:misses" in {metric["name"] for metric in written["metrics"]}
    assert len({rule["class"] for rule in (*written["rules"], written["default"])}) > 1


def classify_rows() -> tuple[list[dict[str, Any]], list[str]]:
    """Return programs in the four strategies, and the names of what was observed of them."""
    observed = [OBSERVED + name for name in (*PROGRAM, *MACHINE)]
    rows = []
    for number in range(9):
        share = number / 8
        for one in STRATEGIES:
            # The more unevenly memory is loaded, the more interleaved pages gain.
            gain = 1 + share if one.pages == "interleave" else 1.0
            values = dict.fromkeys(observed, 1.0) | {f"{OBSERVED}memory_imbalance": 1 + share}
            rows.append(
                {
                    **{"program": f"program{number}", "threads": 8, "nodes": 2, "map": one.threads},
                    **{"pages": one.pages, "time": 1000 / gain},
                    **values,
                }
            )
    return rows, observed


def test_a_model_of_strategies_is_learned_from_measured_times_and_forecasts_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, observed = classify_rows()
    # The times have no unit.
    data, model = imported(tmp_path, rows, LAYOUT, "none", dict.fromkeys(observed, "")), tmp_path / "model.json"
    assert main(["train", "classify", "--data", str(data), "--learner", "tree", "-o", str(model)]) == 0
    assert f"learning from {len(rows)} measured rows" in capsys.readouterr().err
    found = trained(model)
    assert (found["simulated"], found["measured_rows"], found["machines"]) == (False, len(rows), ["measured"])
    there = tmp_path / "there"
    there.mkdir()
    other, said = imported(there, rows[-8:], LAYOUT, "s", dict.fromkeys(observed, "")), tmp_path / "said.json"
    words = ["predict", "classify", "--model", str(model), "--data", str(other), "--json", str(said)]
    assert main(words) == 0
    assert len(json.loads(said.read_text())) == 2


def react_rows() -> list[dict[str, Any]]:
    """Return regions in placements of threads and pages, with prefetchers on and off."""
    random = np.random.default_rng(0)
    placements = [(4, 1, "compact"), (8, 2, "compact"), (8, 2, "scatter")]
    return [
        {
            **{"program": f"program{program}", "region": f"loop{region}", "threads": threads, "nodes": nodes},
            **{"map": order, "pages": pages, "prefetch": prefetch, "time": random.uniform(1, 2)},
            "ipc": random.uniform(0, 4),
        }
        for program in range(4)
        for region in range(2)
        for threads, nodes, order in placements
        for pages in ("locality", "balance")
        for prefetch in ("0000", "1111")
    ]


def test_a_tree_is_learned_from_measured_times_and_counters_and_chooses_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = react_rows()
    data, model = imported(tmp_path, rows, LAYOUT, "none", {"ipc": ""}), tmp_path / "react.json"
    assert main(["train", "react", "--data", str(data), "--seeds", "1", "-o", str(model)]) == 0
    assert f"learning from {len(rows)} measured rows" in capsys.readouterr().err
    found = trained(model)
    assert (found["simulated"], found["measured_rows"], found["rows"]) == (False, len(rows), len(rows))
    said = tmp_path / "said.json"
    assert main(["predict", "react", "--model", str(model), "--data", str(data), "--json", str(said)]) == 0
    assert len(json.loads(said.read_text())) == 8


def test_without_counters_no_tree_is_learned_and_the_remedy_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = imported(tmp_path, react_rows(), LAYOUT, "none", {})
    assert main(["train", "react", "--data", str(data), "-o", str(tmp_path / "react.json")]) == FAILURE
    said = capsys.readouterr().err
    assert "the data of measured has no counters" in said
    assert "`pinfold learn train belief`" in said


def test_measured_and_simulated_rows_are_mixed_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(regions("structured", programs=4, each=1, machine="measured"))
    files = []
    for name, simulated in (("measured", False), ("simulated", True)):
        kind = [row | {"simulated": simulated, "program": f"{name}-{row['program']}"} for row in rows]
        kind = [row | {"joined_command": f"{name} {row['joined_command']}"} for row in kind]
        files.append(write(tmp_path / f"{name}.parquet", kind))
    model = tmp_path / "model.json"
    words = ["train", "react", "--seeds", "1", "-o", str(model)]
    words += [word for file in files for word in ("--data", str(file))]
    assert main(words) == FAILURE
    number = len(rows)
    said = capsys.readouterr().err
    assert f"the data has {number} measured rows and {number} simulated rows" in said
    assert "give --mixed to learn from both" in said
    assert not model.exists()
    assert main([*words, "--mixed"]) == 0
    found = trained(model)
    assert (found["simulated"], found["measured_rows"], found["simulated_rows"]) == (True, number, number)


def test_unpinned_rows_are_not_learned_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = react_rows()
    data = imported(tmp_path, rows, LAYOUT, "none", {"ipc": ""})
    table = pyarrow.parquet.read_table(data)
    unpinned = table.slice(0, 3)
    for name in ("pinning", "num_nodes", "thread_map", "threads_per_core"):
        place = unpinned.column_names.index(name)
        field = unpinned.schema.field(place)
        unpinned = unpinned.set_column(place, field, pyarrow.nulls(unpinned.num_rows, field.type))
    pyarrow.parquet.write_table(pyarrow.concat_tables([table, unpinned]), data)
    model = tmp_path / "react.json"
    assert main(["train", "react", "--data", str(data), "--seeds", "1", "-o", str(model)]) == 0
    assert f"learning from {len(rows)} measured rows" in capsys.readouterr().err
