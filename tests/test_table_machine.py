"""`pinfold run --machine data:FILE.parquet`: programs whose times were measured before are replayed under policies."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT, Pinfold, Run, environment

#: Two nodes of four cores with two hardware threads each.
SYNTHETIC = {"synthetic": "pack:2 numa:1 core:4 pu:2"}

#: Threads, nodes, map of threads, and pages, with the times of `lu`'s two regions and of `cg`'s only one.
CONFIGURATIONS = [
    (8, 2, "scatter", "first_touch", (20.0, 10.0), 5.0),
    (8, 2, "compact", "first_touch", (18.0, 9.0), 5.5),
    (8, 2, "scatter", "interleave", (16.0, 9.0), 4.5),
    (8, 2, "compact", "interleave", (15.0, 8.0), 5.0),
    (8, 1, "compact", "first_touch", (10.0, 6.0), 9.0),
    (4, 1, "compact", "first_touch", (14.0, 7.0), 9.5),
    (4, 2, "scatter", "first_touch", (25.0, 12.0), 7.0),
]


def rows(machine: str = "server") -> list[dict[str, Any]]:
    """Return the rows of two programs."""
    found = []
    for threads, nodes, thread_map, page_map, of_lu, of_cg in CONFIGURATIONS:
        regions = [("lu", "rhs", of_lu[0]), ("lu", "solve", of_lu[1]), ("cg", "conj", of_cg)]
        found += [
            {
                "machine": machine,
                "program": program,
                "command": f"{program} --size 1",
                "region": region,
                "num_threads": threads,
                "num_nodes": nodes,
                "thread_map": thread_map,
                "page_map": page_map,
                "prefetch": "0000",
                "time": time,
                "spread": 0.01,
                "simulated": False,
            }
            for program, region, time in regions
        ]
    return found


Write = Callable[..., str]


@pytest.fixture
def table(tmp_path: Path) -> Write:
    """Return what writes a data set and names it as a machine."""

    def write(
        all_rows: Sequence[dict[str, Any]] | None = None,
        *,
        version: str = "3",
        unit: str = "none",
        topologies: Any = None,
        name: str = "measured.parquet",
    ) -> str:
        metadata = {
            "pinfold.dataset": version,
            "pinfold.simulated": "false",
            "pinfold.time_unit": unit,
            "pinfold.models": "{}",
            "pinfold.metrics": "[]",
            "pinfold.topologies": json.dumps({"server": SYNTHETIC} if topologies is None else topologies),
        }
        data = pa.Table.from_pylist(rows() if all_rows is None else list(all_rows))
        if unit == "s":
            data = data.rename_columns(["time_s" if column == "time" else column for column in data.column_names])
        pq.write_table(data.replace_schema_metadata(metadata), tmp_path / name, compression="zstd")
        return f"data:{tmp_path / name}"

    return write


def lu(pinfold: Pinfold, machine: str, *arguments: str) -> Run:
    """Run `lu` of a table, with times that fit in short windows."""
    return pinfold.record("--machine", machine, "--program", "lu", "--unit", "10ms", *arguments)


def nodes(pus: Sequence[int]) -> set[int]:
    """Return the nodes of these CPUs."""
    return {pu // 8 for pu in pus}


def test_the_default_policy_finds_the_fastest_placement_and_says_that_it_was_replayed(
    pinfold: Pinfold, table: Write
) -> None:
    run = lu(pinfold, table())
    assert run.status == 0
    record = run.json
    assert (record["machine_kind"], record["simulated"]) == ("table", True)
    assert "simulation" not in record
    assert "own_cpu_time" not in record
    # One node is fastest, with the threads on siblings.
    assert len(nodes(record["chosen"]["pus"])) == 1
    replay = record["replay"]
    assert [region["name"] for region in replay["regions"]] == ["rhs", "solve"]
    assert replay["regions"][0]["share"] == pytest.approx(2 / 3)
    assert replay["unpinned"].startswith("8 threads on 2 nodes, scatter, with pages first_touch")
    assert replay["unpinned_source"] == "assumed"
    assert replay["requests"] >= replay["refused"] > 0
    assert replay["moves"]["threads"] == {"seconds": 0.001, "source": "assumed"}
    assert {refusal["code"] for refusal in record["refused"]} <= {"unmeasured", "pages", "pages_too_long"}
    assert "replayed: " in run.err
    assert "(replayed)" in run.err
    assert "The table does not say how long moves take" in run.err


def test_the_same_seed_gives_the_same_run(pinfold: Pinfold, table: Write) -> None:
    machine = table()
    first, again, other = (lu(pinfold, machine, "--seed", seed).json for seed in ("1", "1", "2"))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("arguments", "policy"),
    [
        (("--policy", "none"), "none"),
        (("--policy", "packed"), "packed"),
        (("--policy", "scatter"), "scatter"),
        (("--policy", "autopin", "-t", "1s"), "autopin"),
        (("--policy", "hints", "-t", "1s"), "hints"),
        (("--policy", "classify", "-t", "1s"), "classify"),
        (("--by-region",), "auto"),
    ],
)
def test_each_policy_runs_unchanged(pinfold: Pinfold, table: Write, arguments: tuple[str, ...], policy: str) -> None:
    run = lu(pinfold, table(), *arguments)
    assert run.status == 0, run.err
    assert run.json["policy"] == policy
    assert run.json["replay"]["repetitions"] > 0


def test_react_configures_the_regions_of_a_table(pinfold: Pinfold, table: Write, tmp_path: Path) -> None:
    def configuration(threads: int, nodes: int, thread_map: str, page_map: str) -> dict[str, Any]:
        return {
            "threads": threads, "nodes": nodes, "thread_map": thread_map, "page_map": page_map, "prefetch": "0000",
        }  # fmt: skip

    model = {
        "react_model": 3, "machine": "server", "counted_on": "server",
        "trained": {"simulated": False, "machines": ["server"], "programs": ["cg"], "rows": 7, "learner": "by hand"},
        "score": {"nested": 0.0, "low": 0.0, "high": 0.0, "control": 0.0, "inside": 0.0, "seeds": 1},
        "baseline": configuration(8, 2, "scatter", "interleave"),
        "profiles": [configuration(8, 2, "scatter", "interleave"), configuration(4, 1, "compact", "local")],
        "features": [{"profile": profile, "counter": "CPI", "least": 0.0, "greatest": 9.0} for profile in (0, 1)],
        "outputs": [configuration(8, 2, "scatter", "interleave")], "tree": [[0, 1.0, 1, 2], [0], [0]],
    }  # fmt: skip
    file = tmp_path / "react.json"
    file.write_text(json.dumps(model))
    run = lu(pinfold, table(), "--policy", "react:tree", "--react-model", str(file), "-t", "1s")
    assert run.status == 0, run.err
    choices = run.json["regions"]["choices"]
    assert {choice["region"] for choice in choices} == {1, 2}
    assert all(choice["after"] < choice["before"] for choice in choices)


def test_a_policy_without_its_counters_says_so(pinfold: Pinfold, table: Write) -> None:
    run = pinfold.run("--machine", table(), "--program", "lu", "--policy", "sam")
    assert run.status == 125
    assert "a table of measurements has no events by which SAM could distinguish" in run.err


def test_times_in_seconds_are_kept(pinfold: Pinfold, table: Write) -> None:
    run = pinfold.record(
        "--machine", table(unit="s"), "--program", "cg", "--policy", "none", "--repeat", "4", "--noise", "0"
    )
    assert run.json["ran"] == pytest.approx(20)
    assert run.json["replay"]["unit"] == 1


def test_a_region_and_a_number_of_threads_are_chosen(pinfold: Pinfold, table: Write) -> None:
    run = lu(pinfold, table(), "--region", "solve", "--threads", "4", "--policy", "none", "--repeat", "10")
    assert run.json["tasks"] == 4
    assert [region["name"] for region in run.json["replay"]["regions"]] == ["solve"]
    assert run.json["replay"]["unpinned"].startswith("4 threads on 2 nodes, scatter")


def test_moves_cost_what_the_user_says(pinfold: Pinfold, table: Write) -> None:
    run = lu(pinfold, table(), "--policy", "packed", "--move-cost", "20ms,30ms", "--repeat", "100")
    costs = run.json["replay"]["moves"]
    assert [costs[kind]["seconds"] for kind in ("threads", "pages")] == [0.02, 0.03]
    assert {cost["source"] for cost in costs.values()} == {"given"}
    assert "does not say how long moves take" not in run.err


def test_a_table_of_simulated_rows_says_that_its_times_were_not_measured(pinfold: Pinfold, table: Write) -> None:
    simulated = [row | {"simulated": True} for row in rows()]
    run = lu(pinfold, table(simulated), "--policy", "none", "--repeat", "9")
    assert run.json["replay"]["simulated_times"] is True
    assert "simulated before, and not measured" in run.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ("--program", "lv"),
            r"no program `lv`; did you mean `lu`\?; it has `cg`, `lu`",
        ),
        ((), "the table has several programs, so name one with --program: `cg`, `lu`"),
        (("--program", "lu", "--region", "rsh"), r"no region `rsh` in the table; did you mean `rhs`\?"),
        (("--program", "lu", "--threads", "3"), "no row of `lu --size 1` with 3 threads .* it has 4, 8 threads"),
        (("--program", "lu", "--move-cost", "soon"), "not a time"),
        (("--program", "lu", "x.pft"), "the table says what runs"),
        (("--program", "lu", "--", "./solver"), "the table says what runs on a table of measurements"),
        (("--program", "lu", "--dry-run"), "--dry-run is about a real program, and a table of measurements runs none"),
    ],
)
def test_what_a_table_does_not_have_is_an_error_with_a_remedy(
    pinfold: Pinfold, table: Write, arguments: tuple[str, ...], why: str
) -> None:
    run = pinfold.run("--machine", table(), *arguments)
    assert run.status in (125, 2)
    assert re.search(why, " ".join(run.err.split())), run.err


def test_options_of_tables_are_refused_on_other_machines(pinfold: Pinfold) -> None:
    for option in ("--program=lu", "--region=rhs", "--unit=1s", "--move-cost=1s"):
        run = pinfold.run(option, "--machine", "e5-4650x4", "--", "true")
        assert run.status == 125
        assert f"{option.split('=')[0]} is about a table of measurements" in run.err


def test_files_that_cannot_be_replayed_are_refused_with_the_reason(
    pinfold: Pinfold, table: Write, tmp_path: Path
) -> None:
    text = tmp_path / "text.parquet"
    text.write_text("no table")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), other)
    for machine, why in [
        (f"data:{tmp_path / 'missing.parquet'}", "cannot read the table"),
        (f"data:{text}", "cannot be replayed"),
        (f"data:{other}", "not a data set"),
        (table(version="4", name="version.parquet"), "version 4"),
        (table(topologies={}, name="none.parquet"), "does not say where the CPUs, cores and nodes of `server` are"),
        (
            table(topologies={"server": {"synthetic": "nonsense:0"}}, name="synthetic.parquet"),
            "the topology of `server`",
        ),
        (table(topologies={"server": {"name": "x"}}, name="json.parquet"), "the topology of `server`"),
        (table([*rows(), *rows("laptop")], name="several.parquet"), "several machines, so name one"),
        (table() + "@laptop", "no machine `laptop`; it has `server`"),
        ("data:", "lacks its FILE"),
    ]:
        run = pinfold.run("--machine", machine, "--program", "lu")
        assert run.status == 125, machine
        assert why in " ".join(run.err.split()), run.err


def test_a_machine_of_several_is_named_after_the_file(pinfold: Pinfold, table: Write) -> None:
    machine = table([*rows(), *rows("laptop")], topologies={"server": SYNTHETIC, "laptop": SYNTHETIC})
    run = lu(pinfold, f"{machine}@laptop", "--policy", "none", "--repeat", "9")
    assert run.json["replay"]["machine"] == "laptop"


def test_a_data_set_of_a_model_has_the_topology_of_the_model(pinfold: Pinfold, table: Write) -> None:
    run = lu(pinfold, table(rows("e5-4650x4"), topologies={}), "--policy", "none", "--repeat", "9")
    assert run.status == 0, run.err
    assert "4 NUMA nodes" in run.json["topology"]


def test_the_topology_of_a_table_is_shown_and_read_as_json(pinfold: Pinfold, table: Write) -> None:
    def topo(machine: str, *arguments: str) -> str:
        command = [str(pinfold.binary), "topo", "--machine", machine, *arguments]
        return subprocess.run(command, env=environment(), check=True, capture_output=True, text=True).stdout

    written = json.loads(topo(table(), "--json"))
    again = json.loads(topo(table(topologies={"server": written}), "--json"))
    assert again == written
    assert len(again["nodes"]) == 2


def test_explain_and_report_say_that_the_times_were_replayed(pinfold: Pinfold, table: Write, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    run = lu(pinfold, table(), "--report", str(page))
    assert run.status == 0
    text = page.read_text()
    assert ">replayed</span>" in text
    assert "its times were measured before, and are replayed" in text
    command = [str(pinfold.binary), "explain", str(pinfold.folder / "record.json")]
    explained = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True).stdout
    explained = " ".join(explained.split())
    assert "`lu --size 1` was replayed from measured times, not run, on" in explained
    assert "the table lacked" in explained
    assert "would have run" in explained


def test_policies_are_compared_on_a_table(pinfold: Pinfold, table: Write, tmp_path: Path) -> None:
    file = tmp_path / "compared.json"
    machine = ("--machine", table(), "--program", "lu", "--unit", "10ms")
    command = [pinfold.binary, "compare", "--export-json", file, "--runs", "3", "--simulated-time", "2m", *machine]
    run = subprocess.run(
        [str(word) for word in (*command, "--policy", "auto,packed")],
        env=environment(), check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    compared = json.loads(file.read_text())
    assert (compared["machine_kind"], compared["simulated"]) == ("table", True)
    assert [result["command"] for result in compared["results"]] == ["alone", "auto", "packed"]
    alone, auto, packed = (result["mean"] for result in compared["results"])
    assert alone == pytest.approx(120, rel=0.1)
    # Packed threads have a core each, so they are compact on both nodes: 27 units of time instead of 30.
    assert packed == pytest.approx(alone * 27 / 30, rel=0.02)
    # On one node it is 16 units, and the search takes its time.
    assert auto < 0.8 * alone
    assert "replayed from a table of measurements of" in run.stdout


def test_a_policy_of_python_runs_on_a_table(pinfold: Pinfold, table: Write, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import sys
import pinfold
from pinfold import Configuration, Decision, Policy

class Packed(Policy):
    def start(self, topology, metrics):
        return Decision(wait=1.0)

    def decide(self, topology, sample, applied):
        if sample.at < 2.0:
            return Decision(Configuration([pu.number for pu in topology.pus if pu.node == 0]), wait=1.0)
        return Decision(wait=1.0, done=True)

table = sys.argv[1]
run = pinfold.replay(table, "lu", Packed(), unit=0.01, seed=3)
print(run.kind, run.repetitions > 10, run.refused, run.programs.num_rows, "replayed" in repr(run))
run = pinfold.replay(table, "lu", Configuration([0, 1, 2, 3, 4, 5, 6, 7]), unit=0.01, move_cost=0, noise=0)
print(round(run.seconds, 3), run.repetitions)
run = pinfold.replay(table, "lu", "none", region="rhs", unit=0.01, repeat=50, noise=0)
print(round(run.seconds, 3))
"""
    )
    file = table().removeprefix("data:")
    env = environment({"PINFOLD": str(pinfold.binary), "PYTHONPATH": str(ROOT / "python")})
    run = subprocess.run([sys.executable, script, file], env=env, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    replayed, kept, named = run.stdout.splitlines()
    assert replayed == "table True [] 1 True"
    # The baseline's 20 and 10 units of time are 10 ms each on average, and 10 and 6 units on one node.
    assert kept == "1.067 100.0"
    assert named == "0.5"


MEASURED = os.environ.get("PINFOLD_MEASURED")


@pytest.mark.skipif(not MEASURED, reason="PINFOLD_MEASURED names no folder with tables of measurements")
def test_the_default_policy_gains_on_regions_that_were_really_measured(pinfold: Pinfold, table: Write) -> None:
    assert MEASURED
    pages = {"ori": "first_touch", "loc": "locality", "bal": "balance"}
    with gzip.open(Path(MEASURED) / "ics20-regions.csv.gz", "rt") as file:
        read = [row for row in csv.DictReader(file) if row["program"] == "sp" and row["size"] == "1"]
    measured = [
        {
            "machine": "server", "program": row["program"], "command": row["program"], "region": row["region"],
            "num_threads": int(row["num_threads"]), "num_nodes": int(row["num_nodes"]),
            "thread_map": row["thread_map"], "page_map": pages[row["page_map"]], "prefetch": row["prefetch"],
            "time": float(row["time"]), "spread": float(row["spread"]), "simulated": False,
        }
        for row in read
    ]  # fmt: skip
    machine = table(measured, topologies={"server": {"synthetic": "pack:2 numa:1 core:16 pu:2"}})
    run = pinfold.record("--machine", machine)
    assert run.status == 0
    assert len(run.json["replay"]["regions"]) == 4
    assert run.json["replay"]["threads"] == 32
    chosen = run.json["chosen"]
    assert chosen is not None
    assert chosen["gain_over_first"] >= 0
