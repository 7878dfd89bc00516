"""`pinfold learn import`: foreign tables become data sets, and errors name the place, the value and the remedy."""

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from react_cases import BINARY

from pinfold.learn import tables
from pinfold.learn.command import FAILURE, main
from pinfold.learn.foreign import column_map

TOPOLOGY = "package:2 numa:1 l3:1 core:4 pu:2"

LONG = """\
about = "a test"
merge = ["smt"]

[time]
column = "time"
unit = "none"

[columns]
machine = { constant = "m" }
program = "program"
command = { text = "{program} size {size}" }
region = "region"
num_threads = "threads"
num_nodes = "nodes"
thread_map = "map"
page_map = { column = "pages", levels = { ori = "first_touch", loc = "locality" } }
prefetch = "off"
spread = { column = "spread", optional = true }

[topologies]
m = "package:2 numa:1 l3:1 core:4 pu:2"
"""

HEAD = "size,program,region,threads,nodes,map,smt,pages,off,time,spread"
ROWS = (
    "1,bt,solve,4,1,compact,0,ori,0000,200,0.01",
    "1,bt,solve,4,1,compact,1,ori,0000,240,",
    "1,bt,solve,8,2,scatter,0,loc,0101,100,0.02",
    "2,bt,solve,8,2,scatter,0,loc,0101,300,0.02",
    "1,bt,solve,16,2,scatter,0,loc,0000,90,0.03",
)


@pytest.fixture(autouse=True)
def own_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the binary of this checkout describe topologies, whatever is installed."""
    monkeypatch.setenv("PINFOLD", str(BINARY))


def imported(folder: Path, text: str, map_text: str, *words: str) -> list[dict[str, Any]]:
    """Import a table, and return the rows of the data set."""
    (folder / "table.csv").write_text(text)
    (folder / "map.toml").write_text(map_text)
    output = folder / "data.parquet"
    command = ["import", str(folder / "table.csv"), "--columns", str(folder / "map.toml"), "-o", str(output)]
    assert main([*command, *words]) == 0
    rows: list[dict[str, Any]] = tables.read(output).to_pylist()
    return rows


def refused(folder: Path, capsys: pytest.CaptureFixture[str], text: str, map_text: str = LONG, *words: str) -> str:
    """Return the error of an import."""
    (folder / "table.csv").write_text(text)
    (folder / "map.toml").write_text(map_text)
    output = folder / "data.parquet"
    command = ["import", str(folder / "table.csv"), "--columns", str(folder / "map.toml"), "-o", str(output)]
    assert main([*command, *words]) == FAILURE
    assert not output.exists()
    return capsys.readouterr().err


def lines(*rows: str) -> str:
    return "\n".join([HEAD, *rows]) + "\n"


def test_a_long_table_becomes_a_data_set(tmp_path: Path) -> None:
    rows = imported(tmp_path, lines(*ROWS), LONG)
    assert [(row["command"], row["num_threads"], row["time"]) for row in rows] == [
        ("bt size 1", 4, 220.0),
        ("bt size 1", 8, 100.0),
        ("bt size 1", 16, 90.0),
        ("bt size 2", 8, 300.0),
    ]
    first, second, third, _ = rows
    assert (first["page_map"], first["prefetch"], first["region"], first["simulated"]) == (
        "first_touch",
        "0000",
        "solve",
        False,
    )
    assert (second["page_map"], second["prefetch"]) == ("locality", "0101")
    # A thread on each core, and then on the siblings; the second node has the PUs from 8 on.
    assert (first["pinning"], first["threads_per_core"]) == ("0,2,4,6", 1)
    assert (second["pinning"], second["threads_per_core"]) == ("0,8,2,10,4,12,6,14", 1)
    assert (third["threads_per_core"], third["num_nodes"], third["thread_map"]) == (2, 2, "scatter")


def test_rows_that_the_map_calls_repetitions_are_merged(tmp_path: Path) -> None:
    first = imported(tmp_path, lines(*ROWS), LONG)[0]
    assert first["time"] == 220
    # Half of their difference is the median absolute deviation: 20 of 220.
    assert first["spread"] == pytest.approx(1.4826 * 20 / 220)


def test_the_metadata_name_unit_topology_and_origin(tmp_path: Path) -> None:
    imported(tmp_path, lines(*ROWS), LONG)
    metadata = pyarrow.parquet.read_schema(tmp_path / "data.parquet").metadata
    assert metadata[b"pinfold.dataset"] == b"3"
    assert metadata[b"pinfold.simulated"] == b"false"
    assert metadata[b"pinfold.time_unit"] == b"none"
    assert json.loads(metadata[b"pinfold.topologies"]) == {"m": {"synthetic": TOPOLOGY}}
    assert json.loads(metadata[b"pinfold.imported"])["file"] == "table.csv"


def test_the_same_table_gives_the_same_bytes_from_any_kind_of_file(tmp_path: Path) -> None:
    text = lines(*ROWS)
    imported(tmp_path, text, LONG)
    rows = pyarrow.parquet.read_table(tmp_path / "data.parquet")
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(text.encode()))
    cells = [dict(zip(HEAD.split(","), line.split(","), strict=True)) for line in ROWS]
    typed = [
        {**one, "time": float(one["time"]), "threads": float(one["threads"]), "spread": float(one["spread"] or "nan")}
        for one in cells
    ]
    typed[1]["spread"] = None
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(typed), tmp_path / "table.parquet")
    for name in ("table.csv.gz", "table.parquet"):
        output = tmp_path / "other.parquet"
        words = ["import", str(tmp_path / name), "--columns", str(tmp_path / "map.toml"), "-o", str(output)]
        assert main(words) == 0
        assert pyarrow.parquet.read_table(output).to_pylist() == rows.to_pylist()
    before = (tmp_path / "data.parquet").read_bytes()
    imported(tmp_path, text, LONG)
    assert (tmp_path / "data.parquet").read_bytes() == before


WIDE = "program,region,4t1n_compact,8t2n_scatter_interleave,8t2n_scatter_interleave_0011,comment\n"


def test_a_wide_table_has_a_configuration_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "table.csv").write_text(WIDE + "cg,,2,1.5,,first\nft,fft,4,3,2.5,\n")
    output, figures = tmp_path / "data.parquet", tmp_path / "figures.json"
    words = ["import", str(tmp_path / "table.csv"), "--columns", "wide", "-o", str(output), "--json", str(figures)]
    assert main([*words, "--set", "machine=node7", "--topology", TOPOLOGY]) == 0
    rows = tables.read(output).to_pylist()
    assert [(row["program"], row["region"], row["num_threads"], row["page_map"], row["time_s"]) for row in rows] == [
        ("cg", None, 4, "first_touch", 2.0),
        ("cg", None, 8, "interleave", 1.5),
        ("ft", "fft", 4, "first_touch", 4.0),
        ("ft", "fft", 8, "interleave", 3.0),
        ("ft", "fft", 8, "interleave", 2.5),
    ]
    assert rows[-1]["prefetch"] == "0011"
    assert {row["machine"] for row in rows} == {"node7"}
    found = json.loads(figures.read_text())
    assert (found["rows"], found["unused_columns"], found["time_unit"]) == (5, ["comment"], "s")
    assert "the map does not use the columns comment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("places", "bind", "pinning", "thread_map", "nodes"),
    [
        ("cores", "close", "0,2,4,6", "compact", 1),
        # OpenMP spreads neighbouring threads over neighbouring places: the first two stay on the first node.
        ("cores", "spread", "0,4,8,12", "compact", 2),
        ("sockets", "spread", "0,2,8,10", "compact", 2),
        ("threads", "close", "0-3", None, 1),
        ("{0},{8},{2},{10}", "close", "0,8,2,10", "scatter", 2),
        ("{0}:2:8", "close", "0,0,8,8", None, 2),
        ("cores", "master", "0,1,0,1", None, 1),
    ],
)
def test_openmps_variables_are_placements(  # noqa: PLR0913, PLR0917 - each is a column
    tmp_path: Path, places: str, bind: str, pinning: str, thread_map: str | None, nodes: int
) -> None:
    text = f'program,OMP_NUM_THREADS,OMP_PROC_BIND,OMP_PLACES,time_s\na,4,{bind},"{places}",1\n'
    (row,) = imported(tmp_path, text, column_map.text_of("openmp"), "--set", "machine=m", "--topology", f"m={TOPOLOGY}")
    assert (row["pinning"], row["thread_map"], row["num_nodes"]) == (pinning, thread_map, nodes)


def test_threads_that_openmp_does_not_bind_are_unpinned(tmp_path: Path) -> None:
    text = "program,OMP_NUM_THREADS,OMP_PROC_BIND,time_s\na,4,false,1\na,4,close,2\n"
    words = ("--set", "machine=m", "--topology", TOPOLOGY)
    rows = imported(tmp_path, text, column_map.text_of("openmp"), *words)
    assert [row["pinning"] for row in rows] == [None, "0,2,4,6"]
    assert rows[0]["num_nodes"] is None


def test_policies_of_pages_have_the_names_of_other_tools(tmp_path: Path) -> None:
    text = "program,threads,policy,time_s\na,8,default,2\na,8,--interleave=all,1\na,8,membind:0,3\n"
    words = ["--set", "machine=m", "--topology", TOPOLOGY]
    rows = imported(tmp_path, text, column_map.text_of("pages"), *words)
    assert [row["page_map"] for row in rows] == ["first_touch", "interleave", "single"]
    assert {row["pinning"] for row in rows} == {None}
    words += ["--set", "num_nodes=2", "--set", "thread_map=scatter"]
    rows = imported(tmp_path, text, column_map.text_of("pages"), *words)
    assert {row["pinning"] for row in rows} == {"0,8,2,10,4,12,6,14"}


def test_rows_can_be_left_out_and_times_have_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_units = LONG.replace('unit = "none"', 'unit = { column = "unit" }') + (
        '[[skip]]\ncolumn = "unit"\nvalues = ["failed"]\nwhy = "the run failed"\n'
        '[metrics."event:cycles"]\ncolumn = "cycles"\nunit = "1/s"\n'
    )
    text = f"{HEAD},unit,cycles\n{ROWS[0]},ms,7\n{ROWS[2]},s,8\n{ROWS[3]},failed,9\n"
    rows = imported(tmp_path, text, of_units)
    assert [(row["time_s"], row["event:cycles"]) for row in rows] == [(0.2, 7.0), (100.0, 8.0)]
    assert "1 rows are left out: unit is failed: the run failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            lines(ROWS[0], ROWS[2].replace("loc", "bal")),
            ["table.csv, line 3: `pages` is 'bal'", "it knows ori, loc; add it to `columns.page_map.levels`"],
        ),
        (lines(ROWS[0]).replace("region", "loop", 1), ["has no column `region`", "`columns.region`", "loop"]),
        (lines(ROWS[0], ROWS[0]), ["line 3: the same configuration is in line 2; remove one of them"]),
        (lines(ROWS[0].replace(",200,", ",0,")), ["line 2: the time is '0': it must be a number above 0"]),
        (lines(ROWS[0].replace(",200,", ",fast,")), ["line 2: `time` is 'fast': it must be a finite number"]),
        (lines(ROWS[0].replace(",200,", ",inf,")), ["`time` is 'inf'"]),
        (lines(ROWS[0].replace("0000", "000")), ["`prefetch` is '000': it must be four digits"]),
        (lines(ROWS[0].replace(",4,1,", ",four,1,")), ["`num_threads` is 'four': it must be a whole number"]),
        (
            lines(ROWS[0].replace("compact", "random")),
            ["line 2: `random` is no map of threads: give compact or scatter"],
        ),
        (
            lines(ROWS[0].replace(",4,1,", ",4,3,")),
            ["4 threads on 3 nodes are impossible on m, which has 2 nodes"],
        ),
        (lines(ROWS[0] + ",7"), ["line 2: it has 12 cells, and the first line has 11", "delimiter"]),
        (lines(ROWS[0].replace("solve", "")), ["line 2: the column `region` is empty"]),
        (HEAD + "\n", ["table.csv has no rows"]),
        ("", ["has no names of columns in its first line"]),
        ("a,a\n1,2\n", ["has the column `a` twice"]),
    ],
)
def test_a_bad_table_is_refused_with_place_value_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, parts: Sequence[str]
) -> None:
    said = refused(tmp_path, capsys, text)
    for part in parts:
        assert part in said


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('merge = ["smt"]', "", ["line 3: the same configuration is in line 2; they differ in `smt`"]),
        ('merge = ["smt"]', 'merge = ["smc"]', ["has no column `smc`", "`merge`"]),
        ('unit = "none"', 'unit = "cycles"', ["`time.unit`: 'cycles' is not one of ns, us, ms, s, min, h, none"]),
        ('unit = "none"', "", ["`time.unit`: it is one of"]),
        ('prefetch = "off"', 'prefetchers = "off"', ["`columns.prefetchers`: a data set has no such column"]),
        ('prefetch = "off"', "prefetch = { colum = 'off' }", ["`columns.prefetch.colum`: there is no such key"]),
        ('prefetch = "off"', "prefetch = { default = '0' }", ["exactly one of `column`, `text` and `constant`"]),
        ("about", "abuot", ["`abuot`: there is no such key; the keys are about, layout"]),
        ("[time]", "[time", ["map.toml is not TOML"]),
        ('thread_map = "map"', "", ["does not say where the threads are, there is no `thread_map`"]),
        ('program = "program"', "", ["gives no `program`: add its column, or --set program=VALUE"]),
        ("core:4", "core:0", ["the topology of m", "is not a synthetic description"]),
        ("\nm = ", "\nn = ", ["the topology of the machine `m` is not known: give --topology 'm="]),
        ('"{program} size {size}"', '"{program} {class}"', ["has no column `class`"]),
    ],
)
def test_a_bad_map_is_refused_with_the_key_and_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, parts: Sequence[str]
) -> None:
    said = refused(tmp_path, capsys, lines(*ROWS), LONG.replace(old, new, 1))
    for part in parts:
        assert part in said


def test_times_with_and_without_a_unit_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_units = LONG.replace('unit = "none"', 'unit = { column = "unit" }')
    said = refused(tmp_path, capsys, f"{HEAD},unit\n{ROWS[0]},none\n{ROWS[2]},s\n", of_units)
    assert "line 3: the unit of the time is s, and in line 2 it is another one" in said
    said = refused(tmp_path, capsys, f"{HEAD},unit\n{ROWS[0]},cycles\n", of_units)
    assert "line 2: the unit of the time is 'cycles'" in said


def test_wrong_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert main(["import", *words]) == FAILURE
        return capsys.readouterr().err

    table = tmp_path / "table.csv"
    table.write_text(lines(*ROWS))
    assert "FILE, the table to import, is missing" in said("--columns", "wide")
    assert "give -o another name" in said(str(table), "--columns", "wide", "-o", str(table))
    output = ("-o", str(tmp_path / "data.parquet"))
    assert "give a file, or one of numa-prefetch, openmp, pages, wide" in said(str(table), "--columns", "no", *output)
    assert "--set tiem: a data set has no such column" in said(
        str(table), "--columns", "wide", "--set", "tiem=3", *output
    )
    assert "--topology does not say of which machine" in said(
        str(table), "--columns", "openmp", "--topology", TOPOLOGY, *output
    )


def test_maps_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--help"]) == 0
    listed = capsys.readouterr().out
    for name, about in column_map.shipped().items():
        assert f"{name} " in listed
        assert about in listed
        assert main(["import", "--columns", name, "--show-map"]) == 0
        assert capsys.readouterr().out == column_map.text_of(name)
        column_map.read(name)


def test_the_measured_table_is_imported(tmp_path: Path) -> None:
    named = os.environ.get("PINFOLD_MEASURED")
    if not named:
        pytest.skip("PINFOLD_MEASURED does not name the measured table, which is no part of the project")
    path = Path(named)
    file = next(path.glob("*.csv.gz")) if path.is_dir() else path
    output, figures = tmp_path / "data.parquet", tmp_path / "figures.json"
    words = ["import", str(file), "--columns", "numa-prefetch", "-o", str(output), "--json", str(figures)]
    assert main(words) == 0
    found = json.loads(figures.read_text())
    with gzip.open(file, "rt") as text:
        assert found["read"] == sum(1 for _ in text) - 1
    assert found["rows"] + found["merged"] == found["read"]
    table = tables.read(output)
    assert table.num_rows == found["regions"] * found["configurations"]
    assert not any(table["simulated"].to_pylist())
