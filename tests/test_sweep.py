"""`pinfold sweep`: recordings through spaces of configurations into a data set."""

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet
import pytest
from conftest import PATIENCE, ROOT, environment, eventually, unwrapped

#: The columns before the metrics, with their types (docs/formats/data-sets.md).
COLUMNS = {
    "machine": "string",
    "program": "string",
    "region": "string",
    "num_threads": "int32",
    "num_nodes": "int32",
    "threads_per_core": "int32",
    "thread_map": "string",
    "page_map": "string",
    "prefetch": "string",
    "time_s": "double",
    "pinning": "string",
    "simulated": "bool",
    "command": "string",
    "recording": "string",
    "window_bytes": "double",
    "footprint_bytes": "double",
    "llc_bytes": "double",
    "window_covers": "bool",
    "unrecorded_wait_share": "double",
    "time_error": "double",
    "simulated_share": "double",
    "node_bytes": "list<element: double not null>",
    "link_bytes": "list<element: double not null>",
}

#: A sweep that is long enough to be interrupted.
LONG = ("--machine", "e5-4650x4", "--space", "threads", "--space", "numa")

#: The columns whose values may be missing.
NULLABLE = {
    *("region", "num_nodes", "threads_per_core", "thread_map", "pinning", "recording"),
    *("window_bytes", "footprint_bytes", "llc_bytes", "window_covers"),
    *("unrecorded_wait_share", "time_error", "simulated_share", "node_bytes", "link_bytes"),
}


@dataclass(frozen=True)
class Sweep:
    """The binary, a recording, and a folder for a single test."""

    binary: Path
    recording: Path
    folder: Path

    @property
    def output(self) -> Path:
        """Return the data set."""
        return self.folder / "data.parquet"

    @property
    def partial(self) -> Path:
        """Return the partial result of an unfinished sweep."""
        return self.folder / "data.parquet.partial"

    def start(self, *arguments: str | Path) -> "subprocess.Popen[str]":
        """Start `pinfold sweep -o OUTPUT ARGUMENTS`."""
        words = [self.binary, "sweep", "-o", self.output, *arguments]
        return subprocess.Popen(
            list(map(str, words)), env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __call__(self, *arguments: str | Path, status: int = 0) -> str:
        """Run it to its end, and return its standard error."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, err
        # Standard output belongs to the recorded program.
        assert out == "" or "--" in arguments
        return unwrapped(err)

    def table(self) -> pyarrow.Table:
        """Return the data set."""
        return pyarrow.parquet.read_table(self.output)


@pytest.fixture(scope="module")
def recording(binary: Path, workload: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of a small program of four threads with parallel regions."""
    file = tmp_path_factory.mktemp("recording") / "stream.pft"
    command = [binary, "record", "-o", file, "--", workload("stream")]
    command += ["--threads", "4", "--size", "256K", "--iterations", "3"]
    subprocess.run(list(map(str, command)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)
    return file


@pytest.fixture
def sweep(binary: Path, recording: Path, tmp_path: Path) -> Sweep:
    """Return `pinfold sweep`."""
    return Sweep(binary, recording, tmp_path)


def test_the_data_set_has_the_schema_of_the_documentation(sweep: Sweep) -> None:
    sweep("--machine", "opteron-6164x4", "--space", "threads", "--limit", "3", sweep.recording)
    schema = pyarrow.parquet.read_schema(sweep.output)
    assert {name: str(schema.field(name).type) for name in schema.names[: len(COLUMNS)]} == COLUMNS
    assert {name for name in COLUMNS if schema.field(name).nullable} == NULLABLE
    metrics = json.loads(schema.metadata[b"pinfold.metrics"])
    assert [metric["name"] for metric in metrics] == schema.names[len(COLUMNS) :]
    assert all(str(schema.field(metric["name"]).type) == "double" for metric in metrics)
    assert {"ipc", "package_power_w", "dram_power_w", "event:instructions"} <= set(schema.names)
    # These are of the space ics20 alone.
    assert not {"joined_command", "baseline", "likwid:Power"} & set(schema.names)
    # These are of measured rows alone.
    assert not {"runs", "spread", "free_memory_bytes"} & set(schema.names)
    assert schema.metadata[b"pinfold.simulated"] == b"true"
    assert schema.metadata[b"pinfold.dataset"] == b"3"
    assert schema.metadata[b"pinfold.time_unit"] == b"s"


def test_the_space_placement_has_the_four_strategies_of_its_paper(sweep: Sweep) -> None:
    sweep("--machine", "platinum-8168x2", "--space", "placement", sweep.recording)
    rows = [row for row in sweep.table().to_pylist() if row["region"] is None]
    strategies = [(row["thread_map"], row["page_map"]) for row in rows]
    assert strategies == [
        ("compact", "first_touch"),
        ("compact", "interleave"),
        ("scatter", "first_touch"),
        ("scatter", "interleave"),
    ]
    assert {row["num_nodes"] for row in rows} == {2}


def test_a_row_has_the_counters_of_table_1_and_the_bytes_of_each_node_and_link(
    sweep: Sweep, workload: Callable[[str], Path]
) -> None:
    # More than the caches hold, so that memory is used when they are warm.
    program: list[str | Path] = [workload("stream"), "--threads", "4", "--size", "24M", "--iterations", "1"]
    sweep("--machine", "opteron-6164x4", "--space", "placement", "--", *program)
    rows = sweep.table().to_pylist()
    for row in rows:
        accesses = row["loads"] + row["stores"]
        assert row["LD_INSTANT"] / row["SR_INSTANT"] == pytest.approx(row["loads"] / row["stores"])
        assert 0 <= row["NODE_MISS_REL"] * accesses <= row["L3_MISS_REL"] * accesses + 1
        assert row["L3_MISS_REL"] <= row["L2_MISS_REL"] <= row["L1_MISS_REL"] <= 1
        assert row["stall_cycles"] >= 0
        # Eight nodes; the memory of all of them is the memory of the machine.
        assert len(row["node_bytes"]) == 8
        assert sum(row["node_bytes"]) == pytest.approx(row["memory_bytes_per_s"] * row["time_s"])
        assert row["link_bytes"]
    whole = {row["page_map"]: row for row in rows if row["region"] is None}
    used = {pages: sum(count > 0 for count in row["node_bytes"]) for pages, row in whole.items()}
    # Four threads on four nodes.
    assert used == {"first_touch": 4, "interleave": 8}
    assert sum(whole["interleave"]["link_bytes"]) > 2 * sum(whole["first_touch"]["link_bytes"])


def test_a_configuration_has_a_row_for_the_program_and_one_for_each_region(sweep: Sweep) -> None:
    sweep("--machine", "opteron-6164x4", "--space", "threads", "--limit", "3", sweep.recording)
    rows = sweep.table().to_pylist()
    assert {row["program"] for row in rows} == {"stream"}
    assert {row["num_threads"] for row in rows} == {4}
    assert all(row["simulated"] for row in rows)
    pinnings = {row["pinning"] for row in rows}
    assert len(pinnings) == 3
    for pinning in pinnings:
        mine = [row for row in rows if row["pinning"] == pinning]
        assert mine[0]["region"] is None
        assert len(mine) > 1
        assert all(row["region"].startswith("0x") for row in mine[1:])
        assert all(0 < row["time_s"] < mine[0]["time_s"] for row in mine[1:])
        assert sum(row["time_s"] for row in mine[1:]) < mine[0]["time_s"]


def test_a_sampled_row_says_how_uncertain_it_is_and_a_whole_one_is_exact(
    binary: Path, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    recording, data = tmp_path / "random.pft", tmp_path / "data.parquet"
    program = [workload("random_access"), "--threads", "2", "--size", "8M", "--iterations", "2"]
    record = [binary, "record", "-o", recording, "--", *program]
    subprocess.run(list(map(str, record)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)

    def swept(*options: str) -> list[dict[str, object]]:
        space = ["--machine", "e5-4650x4", "--space", "threads", "--limit", "2"]
        command = [binary, "sweep", "--force", "-o", data, *space, *options, recording]
        subprocess.run(list(map(str, command)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)
        rows: list[dict[str, object]] = pyarrow.parquet.read_table(data).to_pylist()
        return rows

    whole, sampled = swept(), swept("--sampled")
    assert all(row["time_error"] == 0 and row["simulated_share"] == 1 for row in whole)
    assert {row["region"] for row in sampled} == {row["region"] for row in whole}
    for row, exact in zip(sampled, whole, strict=True):
        assert row["cold_time_s"] is None
        assert row["executions"] == exact["executions"]
        assert isinstance(row["simulated_share"], float)
        assert row["simulated_share"] < 0.5


def recorded(binary: Path, file: Path, program: Sequence[str | Path], *window: str) -> Path:
    """Record a program, or a window of it."""
    command = [binary, "record", "-o", file, *window, "--", *program]
    subprocess.run(list(map(str, command)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)
    return file


def windows(binary: Path, whole: Path, program: Sequence[str | Path], folder: Path) -> list[Path]:
    """Record a window of a program four times: how far threads are in it depends on how a busy host schedules them."""
    info = subprocess.run([binary, "trace", "info", "--json", whole], check=True, capture_output=True, timeout=PATIENCE)
    instructions = sum(thread["instructions"] for thread in json.loads(info.stdout)["threads"])
    window = ("--from", str(instructions // 3), "--instructions", str(instructions // 20))
    return [recorded(binary, folder / f"cut{number}.pft", program, *window) for number in range(4)]


def test_a_window_that_cuts_threads_in_their_work_says_how_long_they_wait_for_what_is_not_recorded(
    binary: Path, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    """The threads of this program never meet at a barrier or at the border of a parallel region."""
    program: list[str | Path] = [workload("pairs"), "--threads", "4", "--size", "1M", "--iterations", "5"]
    whole = recorded(binary, tmp_path / "whole.pft", program)
    cuts = windows(binary, whole, program, tmp_path)
    sweep = Sweep(binary, whole, tmp_path)
    said = sweep("--machine", "opteron-6164x4", "--space", "threads", "--limit", "1", whole, *cuts)
    shares = [row["unrecorded_wait_share"] for row in sweep.table().to_pylist() if row["region"] is None]
    assert shares[0] < 0.01
    share, cut = max(zip(shares[1:], cuts, strict=True))
    assert 0.1 < share <= 1
    assert f"{cut}: in 1 configurations threads wait for what is not in the recording" in said
    assert "--region" in said
    assert f"{whole}: in" not in said

    told = tmp_path / "run.json"
    run = [binary, "run", "--machine", "opteron-6164x4", "--repeat", "3", "--json", told, cut]
    words = list(map(str, run))
    ran = subprocess.run(words, env=environment(), check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert "waits for what is not in the recording" in unwrapped(ran.stderr)
    (simulated,) = json.loads(told.read_text())["simulation"]["programs"]
    assert 0.1 < simulated["unrecorded_wait_share"] <= 1


def test_a_window_begins_and_ends_where_threads_meet(
    binary: Path, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    """No thread is cut in its share of a region, so all waiting is the program's own."""
    program: list[str | Path] = [workload("imbalance"), "--threads", "4", "--size", "4M", "--iterations", "3"]
    whole = recorded(binary, tmp_path / "whole.pft", program)
    region = recorded(binary, tmp_path / "region.pft", program, "--region", "0")
    cuts = windows(binary, whole, program, tmp_path)
    sweep = Sweep(binary, whole, tmp_path)
    said = sweep("--machine", "opteron-6164x4", "--space", "threads", "--limit", "1", whole, region, *cuts)
    shares = [row["unrecorded_wait_share"] for row in sweep.table().to_pylist() if row["region"] is None]
    assert all(share < 0.01 for share in shares), shares
    assert "wait for what is not in the recording" not in said


def test_a_window_that_accesses_little_of_the_memory_is_flagged(
    binary: Path, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    whole, part = tmp_path / "whole.pft", tmp_path / "part.pft"

    def record(file: Path, *window: str) -> None:
        program = [workload("random_access"), "--threads", "1", "--size", "16M", "--iterations", "1"]
        command = [binary, "record", "-o", file, *window, "--", *program]
        subprocess.run(list(map(str, command)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)

    record(whole)
    info = subprocess.run([binary, "trace", "info", "--json", whole], check=True, capture_output=True, timeout=PATIENCE)
    instructions = sum(thread["instructions"] for thread in json.loads(info.stdout)["threads"])
    # At nine tenths, the table is filled and the random accesses are not over.
    record(part, "--from", str(instructions * 9 // 10), "--instructions", "100k")
    sweep = Sweep(binary, whole, tmp_path)
    said = sweep("--machine", "opteron-6164x4", "--space", "threads", "--limit", "1", whole, part)
    rows = [row for row in sweep.table().to_pylist() if row["region"] is None]
    (flagged,) = [row for row in rows if not row["window_covers"]]
    (covered,) = [row for row in rows if row["window_covers"]]
    assert flagged["window_bytes"] < 8 << 20 < 16 << 20 <= flagged["footprint_bytes"]
    assert covered["window_bytes"] >= 15 << 20
    assert flagged["llc_bytes"] == 8 * 5 << 20
    assert f"{part}, `random_access`: the recorded window accesses" in said
    assert str(whole) not in said


def test_machines_with_other_events_leave_theirs_empty(sweep: Sweep) -> None:
    sweep("--machine", "opteron-6164x4,e5-4650x4", "--space", "numa", sweep.recording)
    rows = sweep.table().to_pylist()
    assert {row["machine"] for row in rows} == {"opteron-6164x4", "e5-4650x4"}
    for row in rows:
        here = row["machine"] == "opteron-6164x4"
        assert (row["event:RETIRED_INSTRUCTIONS"] is not None) == here
        assert (row["event:INST_RETIRED:ANY_P"] is None) == here
        assert row["event:instructions"] is not None


def test_the_numa_space_has_the_papers_configurations(sweep: Sweep) -> None:
    sweep("--machine", "e5-4650x4", "--space", "numa", sweep.recording)
    rows = [row for row in sweep.table().to_pylist() if row["region"] is None]
    found = {(row["num_nodes"], row["thread_map"], row["page_map"]) for row in rows}
    several = ("locality", "balance", "interleave", "single")
    # Four threads on four nodes are one per node with either thread map.
    expected = {(1, "compact", "local"), (1, "compact", "remote")}
    expected |= {(2, thread_map, page_map) for thread_map in ("compact", "scatter") for page_map in several}
    expected |= {(4, "compact", page_map) for page_map in several}
    assert found == expected
    assert len(rows) == len(expected)


def record_with(binary: Path, program: Path, folder: Path, *counts: int) -> list[Path]:
    """Record a program with these numbers of threads."""
    files = [folder / f"{program.name}-{threads}.pft" for threads in counts]
    for threads, file in zip(counts, files, strict=True):
        command = [binary, "record", "--region", "1", "-o", file, "--", program]
        command += ["--threads", threads, "--size", "256K", "--iterations", "2"]
        subprocess.run(list(map(str, command)), env=environment(), check=True, capture_output=True, timeout=PATIENCE)
    return files


def test_the_space_ics20_has_the_papers_configurations_with_the_regions_of_all_thread_counts_joined(
    sweep: Sweep, workload: Callable[[str], Path]
) -> None:
    recordings = record_with(sweep.binary, workload("stream"), sweep.folder, 8, 16, 32)
    said = sweep("--machine", "e5-4650x4", "--space", "ics20", *recordings)
    assert "region_complete" not in said
    rows = sweep.table().to_pylist()
    keys = ("num_threads", "num_nodes", "thread_map", "page_map", "prefetch")
    regions = {(row["region_object"], row["region_offset"]) for row in rows if row["region"]}
    assert {one for one, _ in regions} == {"stream"}
    assert all(offset.startswith("0x") for _, offset in regions)
    for region in (*regions, (None, None)):
        mine = [row for row in rows if (row["region_object"], row["region_offset"]) == region]
        assert len({tuple(row[key] for key in keys) for row in mine}) == len(mine) == 288
        assert {row["joined_command"] for row in mine} == {
            "stream --threads {threads} --size 256K --iterations 2",
        }
        assert all(row["region_complete"] for row in mine)
        (baseline,) = [row for row in mine if row["baseline"]]
        assert tuple(baseline[key] for key in keys) == (32, 4, "scatter", "locality", "0000")
        numa = Counter((row["num_threads"], row["num_nodes"]) for row in mine)
        assert numa == {(8, 1): 2 * 16, (16, 2): 8 * 16, (32, 4): 8 * 16}
    counters = [name for name in sweep.table().column_names if name.startswith("likwid:")]
    assert len(counters) == 19
    # Regions outside the window have no instructions.
    worked = [row for row in rows if row["likwid:CPI"] is not None]
    assert {row["region"] is None for row in worked} == {True, False}
    for row in worked:
        assert row["likwid:Power"] == pytest.approx(row["package_power_w"])
        assert row["likwid:Energy"] == pytest.approx(row["likwid:Power"] * row["time_s"])
        assert 0 < row["likwid:Energy PP0"] < row["likwid:Energy"]
        # Without write-backs, in bytes.
        volume = row["likwid:Local DRAM data volume"] + row["likwid:Remote DRAM data volume"]
        assert volume == pytest.approx(row["likwid:Memory data volume"])
        assert volume * 1e9 <= sum(row["node_bytes"]) * 1.01 + 1


def small_model(folder: Path) -> Path:
    """Write a model of four nodes of two cores with two hardware threads, without prefetchers."""
    text = (ROOT / "machines" / "e5-4650x4.toml").read_text(encoding="utf-8")
    for before, after in (
        ('name = "e5-4650x4"', 'name = "small"'),
        ("cores_per_package = { count = 8,", "cores_per_package = { count = 2,"),
        ("cores = { count = 8,", "cores = { count = 2,"),
        ("[[2, 3.3], [4, 3.2], [6, 3.1], [8, 2.9]]", "[[2, 3.3]]"),
        ('present = { names = ["dcu_ip", "dcu", "adjacent", "streamer"],', "present = { names = [],"),
    ):
        assert before in text
        text = text.replace(before, after)
    file = folder / "small.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_space_ics20_with_smt_also_has_teams_on_siblings(sweep: Sweep, workload: Callable[[str], Path]) -> None:
    recordings = record_with(sweep.binary, workload("stream"), sweep.folder, 2, 4, 8, 16)
    model = small_model(sweep.folder)
    said = sweep("--machine", str(model), "--space", "ics20+smt", *recordings)
    assert "settings of prefetchers are left out: small has no others" in said
    rows = [row for row in sweep.table().to_pylist() if row["region"] is None]
    keys = ("num_threads", "num_nodes", "threads_per_core")
    found = Counter(tuple(row[key] for key in keys) for row in rows)
    own_cores = {(2, 1, 1): 2, (4, 2, 1): 8, (8, 4, 1): 8}
    siblings = {(4, 1, 2): 2, (8, 2, 2): 8, (16, 4, 2): 8}
    assert found == own_cores | siblings
    (baseline,) = [row for row in rows if row["baseline"]]
    assert tuple(baseline[key] for key in keys) == (8, 4, 1)
    times = {tuple(row[key] for key in (*keys, "thread_map", "page_map")): row["time_s"] for row in rows}
    # The siblings of two cores share their caches and pipelines.
    assert times[8, 2, 2, "compact", "locality"] > times[8, 4, 1, "compact", "locality"]
    said = sweep("--machine", str(model), "--space", "ics20+smt", "--force", *recordings[:3], status=125)
    assert "has no recording with 16 threads: the configurations of --space ics20+smt on small have 2, 4, 8, 16" in said


def test_ranks_are_on_siblings_where_a_space_of_ones_own_says_so(sweep: Sweep) -> None:
    space = sweep.folder / "siblings.toml"
    space.write_text("[[configurations]]\nnodes = [1, 2]\nthreads_per_core = [1, 2, 4]\n")
    said = sweep("--machine", "e5-4650x4", "--space", str(space), sweep.recording)
    assert "4 threads on 1 node with 4 on a core are left out: e5-4650x4 has 8 cores with 16 CPUs there" in said
    rows = [row for row in sweep.table().to_pylist() if row["region"] is None]
    found = [(row["pinning"], row["threads_per_core"]) for row in rows]
    assert found == [("0-3", 1), ("0,1,32,33", 2), ("0,1,8,9", 1), ("0,32,8,40", 2)]


def test_recordings_that_the_space_ics20_cannot_join_are_named(sweep: Sweep, workload: Callable[[str], Path]) -> None:
    arguments = ("--machine", "e5-4650x4", "--space", "ics20")
    eight, thirty_two = record_with(sweep.binary, workload("stream"), sweep.folder, 8, 32)
    said = sweep(*arguments, eight, thirty_two, status=125)
    assert "`stream --threads {threads} --size 256K --iterations 2` has no recording with 16 threads" in said
    assert f"`{sweep.recording}` has 4 threads" in sweep(*arguments, sweep.recording, status=125)
    command = (workload("stream"), "--threads", "8", "--size", "64K", "--iterations", "1")
    assert "have 8, 16, 32 threads, each of a recording" in sweep(*arguments, "--", *command, status=125)
    arguments = ("--machine", "clovertown", "--space", "ics20")
    assert "clovertown has 1 nodes" in sweep(*arguments, eight, status=125)


def test_a_killed_sweep_continues_and_gives_the_same_bytes(sweep: Sweep) -> None:
    arguments = (*LONG, "--json", sweep.folder / "a.json", sweep.recording)
    process = sweep.start("--jobs", "1", *arguments)
    eventually(lambda: sweep.partial.exists() and sweep.partial.stat().st_size > 8000, "some results")
    process.kill()
    process.communicate()
    assert not sweep.output.exists()
    # As after a kill within a record.
    with sweep.partial.open("r+b") as partial:
        partial.truncate(sweep.partial.stat().st_size - 7)
    said = sweep(*arguments)
    assert "was cut off" in said
    summary = json.loads((sweep.folder / "a.json").read_text())
    assert 0 < summary["resumed"] < summary["configurations"]
    assert not sweep.partial.exists()
    resumed = sweep.output.read_bytes()
    sweep("--force", "--jobs", "3", *arguments)
    assert sweep.output.read_bytes() == resumed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_sweep_at_once_and_it_says_how_to_continue(sweep: Sweep, number: signal.Signals) -> None:
    arguments = (*LONG, sweep.recording)
    process = sweep.start("--jobs", "1", *arguments)
    eventually(lambda: sweep.partial.exists() and sweep.partial.stat().st_size > 8000, "some results")
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    # Where lines end depends on the length of the file's path.
    assert "the same command goes on from there" in " ".join(err.replace("pinfold:", "").split())
    assert not sweep.output.exists()
    assert "were done before" in sweep(*arguments)


def test_two_sweeps_on_one_output_are_refused(sweep: Sweep) -> None:
    arguments = (*LONG, sweep.recording)
    process = sweep.start("--jobs", "1", *arguments)
    eventually(lambda: sweep.partial.exists() and sweep.partial.stat().st_size > 8000, "some results")
    # Its lock ends with it, so it must not end before the other has tried.
    process.send_signal(signal.SIGSTOP)
    assert "another sweep is writing" in sweep(*arguments, status=125)
    process.kill()
    process.communicate()


def test_a_data_set_that_exists_is_kept(sweep: Sweep) -> None:
    sweep.output.write_text("precious")
    said = sweep("--machine", "barcelona", "--space", "numa", sweep.recording, status=125)
    assert "--force replaces it" in said
    assert sweep.output.read_text() == "precious"


def test_a_folder_is_not_a_data_set(sweep: Sweep) -> None:
    sweep.output.mkdir()
    said = sweep("--machine", "barcelona", "--space", "numa", sweep.recording, status=125)
    assert "it is a folder; name a file in it" in said


def test_more_threads_than_the_machine_has_take_turns_and_that_is_said_once(
    sweep: Sweep, workload: Callable[[str], Path]
) -> None:
    said = sweep(
        *("--machine", "clovertown", "--space", "threads", "--threads", "9", "--"),
        *(workload("stream"), "--threads", "9", "--size", "64K", "--iterations", "2"),
    )
    assert said.count("the threads take turns") == 1
    assert {row["num_threads"] for row in sweep.table().to_pylist()} == {9}


def test_a_program_is_recorded_first_and_only_its_data_set_stays(sweep: Sweep, workload: Callable[[str], Path]) -> None:
    command = (workload("stream"), "--threads", "2", "--size", "64K", "--iterations", "2")
    said = sweep("--machine", "barcelona", "--space", "threads", "--", *command)
    assert "recording" in said
    assert {row["command"] for row in sweep.table().to_pylist()} == {" ".join(map(str, command))}
    assert [file.name for file in sweep.folder.iterdir()] == ["data.parquet"]


def test_a_users_space_is_swept(sweep: Sweep) -> None:
    space = sweep.folder / "space.toml"
    space.write_text(
        '[[configurations]]\npinnings = ["0-3", "0,8,16,24"]\npage_map = ["first_touch", "balance"]\n'
        '[[configurations]]\nnodes = 2\nthread_map = "scatter"\nprefetch = "1111"\n'
    )
    sweep("--machine", "e5-4650x4", "--space", space, sweep.recording)
    rows = [row for row in sweep.table().to_pylist() if row["region"] is None]
    keys = ("pinning", "num_nodes", "thread_map", "page_map", "prefetch")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("0-3", 1, "compact", "first_touch", "0000"),
        ("0-3", 1, "compact", "balance", "0000"),
        ("0,8,16,24", 4, "compact", "first_touch", "0000"),
        ("0,8,16,24", 4, "compact", "balance", "0000"),
        ("0,8,1,9", 2, "scatter", "first_touch", "1111"),
    ]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--machine", "barcelona", "--space", "thread"), "did you mean `threads`?"),
        (("--machine", "barcelona", "--space", "absent.toml"), "the space `absent.toml` cannot be read"),
        (("--machine", "barcelonna", "--space", "numa"), "did you mean `barcelona`?"),
        (("--machine", "synthetic:core:2 pu:1", "--space", "numa"), "a sweep needs a model"),
        (("--machine", "barcelona,barcelona", "--space", "numa"), "name each once"),
        (("--machine", "barcelona", "--space", "numa", "--limit", "3"), "--limit is for"),
    ],
)
def test_invalid_input_of_a_sweep_is_refused_with_a_correction(
    sweep: Sweep, arguments: tuple[str, ...], part: str
) -> None:
    assert part in sweep(*arguments, sweep.recording, status=125)
    assert not sweep.output.exists()


def test_a_file_that_is_not_a_recording_and_a_repeated_one_are_named(sweep: Sweep) -> None:
    other = sweep.folder / "other.pft"
    other.write_text("nothing")
    arguments = ("--machine", "barcelona", "--space", "numa")
    assert str(other) in sweep(*arguments, sweep.recording, other, status=125)
    assert str(sweep.folder / "absent.pft") in sweep(*arguments, sweep.folder / "absent.pft", status=125)
    assert "the same recording" in sweep(*arguments, sweep.recording, sweep.recording, status=125)
    assert [file.name for file in sweep.folder.iterdir()] == ["other.pft"]
