"""The default policy, `auto`: as the whole binary, on scripted and simulated machines and on this one."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Pinfold, Run

FASTER = """
topology = "synthetic:package:2 l3:1 core:4 pu:1"
threads = 4
duration = 60.0
noise = 0.01
[[phase]]
start = 0.0
rate = 900.0
unpinned = 1000.0
[[phase.pinning]]
pus = "0-3"
rate = {rate}
"""

FASTEST = [0, 1, 2, 3]


def said_by(pinfold: Pinfold, *words: str | Path) -> str:
    """Return the standard output of another command of pinfold."""
    done = subprocess.run([pinfold.binary, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def scripted(pinfold: Pinfold, tmp_path: Path) -> Callable[..., Run]:
    """Return a function that runs a program with a rate on CPUs 0 to 3; unpinned it has 1000, elsewhere 900."""

    def run(rate: float, *options: str) -> Run:
        script = tmp_path / "script.toml"
        script.write_text(FASTER.format(rate=rate))
        return pinfold.record("--machine", f"scripted:{script}", "--db", str(tmp_path / "behaviour.db"), *options)

    return run


def test_it_is_the_default_and_finds_what_is_faster(scripted: Callable[..., Run]) -> None:
    run = scripted(1300)
    assert run.json["policy"] == "auto"
    assert run.json["chosen"]["pus"] == FASTEST
    assert run.json["chosen"]["gain_over_first"] == pytest.approx(0.3, abs=0.03)
    assert run.json["candidates"][0]["pus"] is None
    assert {proposal["by"] for proposal in run.json["proposals"]} == {"topology"}
    faster = [one for one in run.json["comparisons"] if one["code"] == "faster"]
    assert all(one["with"] == 0 and one["turns"] >= 2 and one["error"] > 0 for one in faster)
    assert faster
    assert "times as fast as unpinned" in run.err


def test_what_is_found_is_explained(scripted: Callable[..., Run], pinfold: Pinfold) -> None:
    scripted(1300)
    said = said_by(pinfold, "explain", pinfold.folder / "record.json")
    assert "the topology proposed candidate" in said
    assert "times as fast: it is faster beyond the noise." in said


def test_nothing_is_pinned_where_nothing_is_faster(scripted: Callable[..., Run]) -> None:
    run = scripted(800)
    chosen = run.json["chosen"]
    assert chosen is None or chosen["pus"] is None


def test_options_of_one_policy_imply_it(scripted: Callable[..., Run]) -> None:
    assert scripted(1300, "--schedule", "0-3", "--threads", "4").json["policy"] == "autopin"
    assert scripted(1300, "--search", "racing").json["policy"] == "autopin"
    assert scripted(1300, "--policy", "auto").json["policy"] == "auto"
    assert scripted(1300, "--placement-model", "none").json["policy"] == "auto"


def test_who_is_not_asked_proposes_nothing(scripted: Callable[..., Run]) -> None:
    run = scripted(1300, "--do-not-ask", "topology,neighbours")
    assert "proposals" not in run.json
    assert run.json["chosen"]["pus"] is None


def belief(on_one_node: float) -> str:
    """A belief about half of the cores on both nodes and on one, which has this expected logarithm of the time."""
    maps = {"thread_map": "compact", "page_map": "first_touch", "prefetch": "0000"}
    shares = [{"threads": 0.5, "cores": 0.5, "nodes": nodes, "llcs": nodes} for nodes in (1.0, 0.5)]
    choices = ("threads", "cores", "nodes", "llcs", "thread_map", "page_map", "prefetch")
    document = {
        "pinfold": "belief",
        "version": 1,
        "origin": {"simulated": True, "machines": ["another"], "programs": ["a"], "rows": 2, "learner": "by hand"},
        "points": [share | maps for share in shares],
        "mean": [0.0, on_one_node],
        "factors": [[], []],
        "residual": [0.02, 0.02],
        "kernel": {"weight": 0.0, "variance": 0.0, "lengths": dict.fromkeys(choices, 1.0)},
        "noise": 0.0001,
        "doubt": {"machine": 0.0},
    }
    return json.dumps(document)


@pytest.mark.parametrize(("expected", "is_first"), [(-0.4, True), (0.2, False)])
def test_a_belief_says_what_is_tried_first(
    scripted: Callable[..., Run], pinfold: Pinfold, tmp_path: Path, expected: float, is_first: bool
) -> None:
    file = tmp_path / "belief.json"
    file.write_text(belief(expected))
    run = scripted(1300, "--belief", str(file))
    tried = run.json["candidates"][run.json["comparisons"][0]["candidate"]]["pus"]
    assert ({pu // 4 for pu in tried} in ({0}, {1})) == is_first
    assert run.json["policy"] == "auto"
    said = said_by(pinfold, "explain", pinfold.folder / "record.json")
    first = run.json["beliefs"][0]["candidate"] + 1
    assert f"Candidate {first} was expected to take " in said
    assert "was expected to take" not in run.err


def test_the_belief_that_ships_is_described_and_serves_any_machine(scripted: Callable[..., Run], binary: Path) -> None:
    shipped = Path(__file__).parents[1] / "models/belief.json"
    explained = subprocess.run([binary, "explain", shipped], capture_output=True, text=True, check=True).stdout
    assert "A belief about configurations, learned from" in explained
    with_it, without = scripted(1300), scripted(1300, "--belief", "none")
    beliefs, comparisons = with_it.json["beliefs"], with_it.json["comparisons"]
    assert [(one["at"], one["candidate"], one["with"] or 0) for one in beliefs] == [
        (one["at"], one["candidate"], one["with"]) for one in comparisons
    ]
    measured = [1 / (1 + one["gain"]) for one in comparisons]
    assert [one["measured"] for one in beliefs] == pytest.approx(measured)
    assert "belief" not in {one["code"] for one in with_it.json["notes"]}
    assert with_it.json["chosen"]["pus"] == without.json["chosen"]["pus"] == FASTEST


@pytest.mark.parametrize(
    ("options", "moves"), [((), True), (("--do-not-ask", "pages"), False), (("--page-map", "first_touch"), False)]
)
def test_pages_that_one_thread_has_touched_are_spread_unless_the_user_places_them(
    pinfold: Pinfold, workload: Callable[[str], Path], tmp_path: Path, options: tuple[str, ...], moves: bool
) -> None:
    words = (workload("stream"), "--threads", "4", "--size", "24M", "--iterations", "1", "--init", "serial")
    recording = tmp_path / "program.pft"
    said_by(pinfold, "record", "-o", recording, "--region", "1", "--", *words)
    simulated = ("--machine", "opteron-6164x4", "--physcpubind", "0,12,24,36", "--repeat", "6000")
    run = pinfold.record(*simulated, *options, recording)
    spread = [one for one in run.json["candidates"] if one.get("pages") == "interleave"]
    assert bool(spread) == bool(run.json["page_moves"]) == moves
    if moves:
        assert run.json["candidates"][run.json["chosen"]["candidate"]]["pages"] == "interleave"
        assert run.json["chosen"]["gain_over_first"] > 0.1


def test_on_a_simulated_machine_regions_have_places_of_their_own_where_the_user_asks(
    pinfold: Pinfold, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    words = (workload("phases"), "--threads", "4", "--mode", "threads", "--size", "24M", "--iterations", "2")
    recording, database = tmp_path / "program.pft", tmp_path / "behaviour.db"
    said_by(pinfold, "record", "-o", recording, "--", *words)
    simulated = ("--machine", "e5-4650x4", "--repeat", "12000", "--db", database, recording)
    whole = pinfold.record(*simulated, "--do-not-ask", "neighbours").json
    assert not any(one.get("regions") for one in whole["candidates"])
    assert "regions" not in whole
    # The first run is remembered, and says nothing of regions.
    database.unlink()
    run = pinfold.record(*simulated, "--do-not-ask", "neighbours", "--by-region")
    kept = run.json["candidates"][run.json["chosen"]["candidate"]]
    assert len(kept["regions"]) == 1
    assert kept["regions"][0]["pus"] != kept["pus"]
    (own,) = (one for one in run.json["regions"]["choices"] if one["code"] == "fastest_tried")
    assert own["region"] == kept["regions"][0]["region"]
    assert own["after"] < 0.5 * own["before"]
    assert run.json["ran"] < 0.9 * whole["ran"]
    assert "1 region elsewhere" in run.err
    explained = said_by(pinfold, "explain", pinfold.folder / "record.json")
    assert "the times of parallel regions proposed candidate" in explained
    assert "it was fastest there of all that was tried" in explained.lower()
    # The next run searches again, because a placement of regions is not remembered.
    again = pinfold.record(*simulated, "--do-not-ask", "neighbours", "--by-region").json
    assert again["candidates_code"] == "proposals"


def test_regions_cannot_be_placed_where_there_are_none(pinfold: Pinfold, tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text(FASTER.format(rate=1300))
    run = pinfold.run("--machine", f"scripted:{script}", "--by-region")
    assert run.status == 125
    assert "no parallel regions for --by-region" in run.err
    recording = tmp_path / "program.pft"
    said_by(pinfold, "record", "-o", recording, "--", "true")
    run = pinfold.run("--machine", "e5-4650x4", "--by-region", recording)
    assert run.status == 125
    assert "the recording marks no parallel region, so there is nothing that --by-region could configure" in run.err
    run = pinfold.run("--machine", "e5-4650x4", "--by-region", recording, recording)
    assert "--by-region is for one program" in run.err


def test_simulated_configurations_are_kept_for_other_runs(
    pinfold: Pinfold, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    words = (workload("false_sharing"), "--threads", "2", "--size", "64k", "--iterations", "3")
    recording, kept = tmp_path / "program.pft", tmp_path / "kept"
    said_by(pinfold, "record", "-o", recording, "--", *words)
    simulated = ("--machine", "e5-2660v2x2", "--repeat", "30000", "--policy")
    runs = [pinfold.record(*simulated, "none", "--simulations", kept, recording).json for _ in range(2)]
    files = sorted(kept.iterdir())
    assert runs[0] == runs[1] == pinfold.record(*simulated, "none", recording).json
    assert len(files) == runs[0]["simulation"]["windows"]
    # Other policies and models share the folder, and only the same program and model share a file.
    pinfold.record(*simulated, "close", "--simulations", kept, recording)
    assert len(sorted(kept.iterdir())) >= len(files)
    pinfold.record("--machine", "opteron-6164x4", "--policy", "none", "--simulations", kept, recording)
    assert len(sorted(kept.iterdir())) > len(files)


def test_a_program_is_remembered_and_starts_where_it_was_fastest(
    pinfold: Pinfold, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    database = ("--db", str(tmp_path / "behaviour.db"))
    words = (workload("false_sharing"), "--threads", "4", "--size", "64k", "--iterations", "3")
    options = ("--machine", "e5-2660v2x2", *database, "--repeat", "30000")
    recording = tmp_path / "program.pft"
    said_by(pinfold, "record", "-o", recording, "--", *words)
    first = pinfold.record(*options, recording)
    assert first.json["chosen"]["code"] == "faster_in_turns"
    second = pinfold.record(*options, recording)
    assert second.json["chosen"]["code"] == "known_program"
    assert second.json["chosen"]["pus"] == first.json["chosen"]["pus"]
    assert second.json["ran"] < first.json["ran"]
    assert "false_sharing" in said_by(pinfold, "db", "list", *database)


def test_what_is_known_of_another_machine_is_not_believed(
    scripted: Callable[..., Run], pinfold: Pinfold, tmp_path: Path
) -> None:
    assert scripted(1300).json["chosen"]["pus"] == FASTEST
    assert scripted(1300).json["chosen"]["code"] == "known_program"
    other = tmp_path / "other.toml"
    other.write_text(FASTER.format(rate=800).replace("package:2 l3:1 core:4", "package:4 l3:1 core:2"))
    run = pinfold.record("--machine", f"scripted:{other}", "--db", str(tmp_path / "behaviour.db"))
    assert run.json["chosen"]["code"] == "no_pinning_better"
    assert run.json["candidates"][0]["pus"] is None


def test_a_model_that_is_missing_is_named_before_the_program_starts(pinfold: Pinfold, tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    run = pinfold.run("--placement-model", str(missing), "--", "touch", str(tmp_path / "started"))
    assert run.status not in (0, None)
    assert run.said(str(missing)) == 1
    assert not (tmp_path / "started").exists()


def test_a_database_that_cannot_be_used_is_said_and_the_program_runs(pinfold: Pinfold, tmp_path: Path) -> None:
    strange = tmp_path / "notes.txt"
    strange.write_text("no database")
    run = pinfold.run("--db", str(strange), "--", "sleep", "0.1")
    assert run.status == 0
    assert run.said("Nothing is remembered of this run") == 1
    assert strange.read_text() == "no database"
