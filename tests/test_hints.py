"""`--policy hints` and `pinfold db`, on scripted machines: a run learns, and the next one uses the result."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Pinfold

#: Two threads that are faster packed.
SHARERS = """
topology = "synthetic:package:2 l3:1 core:4 pu:1"
threads = 2
duration = 30.0

[[phase]]
start = 0.0
rate = 100.0
[[phase.pinning]]
pus = "0,1"
rate = 150.0

[[metric]]
name = "regions"
unit = "region"
source = "regions"
scope = "program"
per_step = 1.0

[[metric]]
name = "event:l3_misses"
unit = "event"
source = "event"
scope = "task"
per_step = 1000.0
"""

RULES = {
    "rule_policy": 1,
    "trained": {"simulated": True, "machines": [], "programs": [], "rows": 1, "learner": "by hand"},
    "metrics": [{"name": "event:l3_misses", "unit": "1/s", "normalised": "per_thread_and_second"}],
    "rules": [
        {
            "conditions": [{"metric": "event:l3_misses", "operator": ">=", "threshold": 9e4}],
            "class": "slp",
            "coverage": 9,
            "errors": 0,
        }
    ],
    "default": {"class": "SLP", "coverage": 1, "errors": 0},
}


class Learning:
    """A scripted program, rules and a database."""

    def __init__(self, pinfold: Pinfold, folder: Path) -> None:
        self.pinfold = pinfold
        self.folder = folder
        self.script = folder / "sharers.toml"
        self.script.write_text(SHARERS)
        self.rules = folder / "rules.json"
        self.rules.write_text(json.dumps(RULES))
        self.db = folder / "state" / "behaviour.db"

    def run(self, *options: str, observe: str = "SLP") -> tuple[dict[str, Any], str]:
        """Run the program under the policy, by default as in AutoFinity; return the record and the printed text."""
        file = self.folder / "run.json"
        run = self.pinfold.run(
            "--machine", f"scripted:{self.script}", "--policy", "hints:rules", "--db", self.db, "-t", "2s",
            "--json", file, "--observe", observe, *options,
        )  # fmt: skip
        assert run.status == 0, run.err
        record: dict[str, Any] = json.loads(file.read_text())
        return record, run.err

    def db_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `pinfold db`."""
        command = [str(self.pinfold.binary), "db", "--db", str(self.db), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def learning(pinfold: Pinfold, tmp_path: Path) -> Learning:
    return Learning(pinfold, tmp_path)


def test_a_run_starts_with_the_result_of_the_one_before(learning: Learning) -> None:
    rules = ("--rules", str(learning.rules))
    first, printed = learning.run(*rules)
    assert [sample["says"] for sample in first["samples"]] == ["slp", None]
    assert first["chosen"]["pus"] == [0, 1]
    assert "the sample asks for slp: rule 1 of 1 says slp: event:l3_misses >= 90000" in printed
    second, _ = learning.run(*rules)
    assert len(second["candidates"]) == 1
    assert second["candidates"][0]["pus"] == [0, 1]
    assert "an earlier run was given it" in second["candidates_why"]
    # No time is spent in the other placement.
    assert second["rates"][0]["rate"] == pytest.approx(300, rel=0.01)


def test_the_rule_that_fired_is_explained_with_the_values_that_made_it(learning: Learning) -> None:
    learning.run("--rules", str(learning.rules))
    command = [str(learning.pinfold.binary), "explain", str(learning.folder / "run.json")]
    explained = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "2 threads were observed for 2 s while hint SLP placed them" in explained
    assert "the rules asked for hint slp:" in explained
    assert "rule 1 of 1 says slp: event:l3_misses >= 90000 1/s, it is" in explained


def test_a_hint_of_other_rules_is_dropped(learning: Learning) -> None:
    learning.run("--rules", str(learning.rules))
    other = json.loads(json.dumps(RULES))
    other["rules"][0]["conditions"][0]["threshold"] = 9e6
    learning.rules.write_text(json.dumps(other))
    record, _ = learning.run("--rules", str(learning.rules))
    assert record["samples"][0]["says"] == "SLP"
    assert record["chosen"]["pus"] == [0, 4]


def test_a_change_that_was_rolled_back_is_stored(learning: Learning) -> None:
    learning.script.write_text(SHARERS.replace("rate = 150.0", "rate = 50.0"))
    rules = ("--rules", str(learning.rules))
    first, printed = learning.run(*rules)
    assert first["chosen"]["candidate"] == 0
    assert "was rolled back" in printed
    second, _ = learning.run(*rules)
    assert second["candidates"][0]["pus"] == [0, 4]
    assert "faster with it than with what the rules said" in second["candidates_why"]


def test_a_program_is_observed_unpinned_by_default(learning: Learning) -> None:
    file = learning.folder / "run.json"
    run = learning.pinfold.run(
        "--machine", f"scripted:{learning.script}", "--policy", "hints:rules", "--db", learning.db, "-t", "2s",
        "--json", file, "--rules", learning.rules,
    )  # fmt: skip
    assert run.status == 0, run.err
    record = json.loads(file.read_text())
    assert [sample["hint"] for sample in record["samples"]] == [None, "slp"]
    assert [candidate["pus"] for candidate in record["candidates"]] == [None, [0, 1]]
    assert record["chosen"]["pus"] == [0, 1]
    explained = subprocess.run(
        [str(learning.pinfold.binary), "explain", str(file)], capture_output=True, text=True, check=True
    ).stdout
    assert "observed for 2 s while the operating system placed them" in explained


def test_a_program_without_a_faster_hint_stays_unpinned_in_the_next_run(learning: Learning) -> None:
    learning.script.write_text(SHARERS.replace("rate = 150.0", "rate = 100.0"))
    rules = ("--rules", str(learning.rules))
    first, printed = learning.run(*rules, observe="unpinned")
    assert first["chosen"]["pus"] is None
    assert "nothing is pinned" in printed
    second, _ = learning.run(*rules, observe="unpinned")
    assert [candidate["pus"] for candidate in second["candidates"]] == [None]
    assert "an earlier run was not faster with what the rules said" in second["candidates_why"]
    (program,) = json.loads(learning.db_command("export").stdout)
    assert program["choices"][0]["hint"] is None
    assert "2: unpinned" in learning.db_command("list").stdout
    assert "2 threads: unpinned, gone back to" in learning.db_command("show", "1").stdout


@pytest.mark.parametrize(
    ("options", "status", "expected"),
    [
        (["--policy", "hints:rules", "--observe", "packed"], 125, "or unpinned"),
        (["--observe", "SLP"], 125, "--policy hints"),
    ],
)
def test_where_to_observe_is_checked(learning: Learning, options: list[str], status: int, expected: str) -> None:
    run = learning.pinfold.run("--machine", f"scripted:{learning.script}", "--db", learning.db, *options)
    assert run.status == status
    assert expected in run.err


def test_without_rules_a_program_is_observed_and_stays(learning: Learning) -> None:
    record, printed = learning.run()
    assert "There are no learned rules" in printed
    assert record["chosen"]["pus"] == [0, 4]
    assert record["samples"][0]["says"] is None
    assert json.loads(learning.db_command("export").stdout)[0]["choices"] == []


def test_the_database_is_listed_shown_exported_and_forgotten(learning: Learning) -> None:
    learning.run("--rules", str(learning.rules))
    listed = learning.db_command("list").stdout
    assert "2: slp" in listed
    assert "(simulated)" in listed
    shown = learning.db_command("show", "1").stdout
    assert "hint slp, rate 2.0000e2 before and 3.0000e2 after" in shown
    assert "event:l3_misses 1.0000e5 events per thread and second" in shown.replace("event per", "events per")
    (program,) = json.loads(learning.db_command("export").stdout)
    assert program["identity"].startswith("xxh3:")
    assert [sample["hint"] for sample in program["samples"]] == ["SLP", "slp"]
    assert program["choices"][0]["kept"] is True
    refused = learning.db_command("forget", "nothing")
    assert refused.returncode == 125
    assert "`nothing`" in refused.stderr
    assert learning.db_command("forget", "1").stdout == "forgotten: 1\n"
    assert json.loads(learning.db_command("export").stdout) == []


def test_reading_does_not_create_a_database(learning: Learning) -> None:
    refused = learning.db_command("list")
    assert refused.returncode == 125
    assert "there is no behaviour database" in refused.stderr
    assert not learning.db.exists()


def test_a_damaged_database_is_renamed_and_the_program_runs(learning: Learning) -> None:
    learning.run("--rules", str(learning.rules))
    content = bytearray(learning.db.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    learning.db.write_bytes(content)
    _, printed = learning.run("--rules", str(learning.rules))
    assert "was damaged" in printed
    assert (learning.db.parent / "behaviour.db.damaged-1").exists()


def observe_sharing_and_streaming(learning: Learning) -> None:
    """Observe programs in two placements each: half of them are faster packed, and these have fewer misses."""
    sharing = [(150.0 + number, 1000.0 + 40 * number) for number in range(8)]
    greedy = [(60.0 + number, 9000.0 + 40 * number) for number in range(8)]
    for number, (packed, misses) in enumerate(sharing + greedy):
        learning.script = learning.folder / f"program-{number}.toml"
        text = SHARERS.replace("rate = 150.0", f"rate = {packed}")
        learning.script.write_text(text.replace("per_step = 1000.0", f"per_step = {misses}"))
        learning.run("--rules", str(learning.rules))


def test_rules_are_learned_from_observations(learning: Learning) -> None:
    observe_sharing_and_streaming(learning)
    rebuilt = learning.db_command("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    made = json.loads((learning.db.parent / "behaviour.hints.json").read_text())
    assert made["trained"]["simulated"] is True
    assert {made["default"]["class"], *(rule["class"] for rule in made["rules"])} == {"slp", "SLP"}
    # They are the default for new programs.
    for misses, expected in [(1050.0, [0, 1]), (9200.0, [0, 4])]:
        learning.script = learning.folder / f"new-{misses}.toml"
        learning.script.write_text(SHARERS.replace("per_step = 1000.0", f"per_step = {misses}"))
        record, _ = learning.run("--rebuild", "0")
        assert record["chosen"]["pus"] == expected


def test_rules_are_learned_again_when_the_database_has_grown(learning: Learning) -> None:
    observe_sharing_and_streaming(learning)
    learning.db_command("rebuild")
    before = (learning.db.parent / "behaviour.hints.json").stat().st_mtime_ns
    _, printed = learning.run("--rebuild", "500")
    assert "New rules" not in printed
    _, printed = learning.run("--rebuild", "1%")
    assert "New rules: " in printed
    assert (learning.db.parent / "behaviour.hints.json").stat().st_mtime_ns > before


def test_no_rules_are_learned_from_a_small_database(learning: Learning) -> None:
    learning.run()
    refused = learning.db_command("rebuild")
    assert refused.returncode == 125
    assert "no rules could be made of what was observed" in refused.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "holds no rules"),
        (json.dumps({**RULES, "default": {"class": "packed", "coverage": 1, "errors": 0}}), "no affinity hint"),
    ],
)
def test_rules_that_cannot_be_used_are_refused_before_the_program_starts(
    learning: Learning, text: str, expected: str
) -> None:
    learning.rules.write_text(text)
    run = learning.pinfold.run(
        "--machine",
        f"scripted:{learning.script}",
        "--policy",
        "hints:rules",
        "--db",
        learning.db,
        "--rules",
        learning.rules,
    )
    assert run.status == 125
    assert expected in run.err


def test_rules_for_another_machines_counters_are_named(learning: Learning) -> None:
    other = json.loads(json.dumps(RULES))
    other["trained"]["machines"] = ["opteron-6164x4"]
    other["metrics"][0]["name"] = "event:PROBE:HIT"
    other["rules"][0]["conditions"][0]["metric"] = "event:PROBE:HIT"
    learning.rules.write_text(json.dumps(other))
    record, printed = learning.run("--rules", str(learning.rules))
    assert "The rules look at event:PROBE:HIT, which is not counted here; they were made for opteron-6164x4" in printed
    assert record["samples"][0]["says"] == "SLP"
    assert "which is missing" in record["samples"][0]["why"]


def test_rules_of_a_newer_version_are_refused(learning: Learning) -> None:
    learning.rules.write_text(json.dumps({**RULES, "rule_policy": 2}))
    run = learning.pinfold.run("--machine", f"scripted:{learning.script}", "--policy", "hints:rules",
                               "--db", learning.db, "--rules", learning.rules)  # fmt: skip
    assert run.status == 125
    assert "2" in run.err
    assert str(learning.rules) in run.err


def test_a_run_does_not_fail_where_the_events_of_the_rules_cannot_be_counted(learning: Learning) -> None:
    run = learning.pinfold.run("--policy", "hints:rules", "--db", learning.db, "--rules", learning.rules, "-t", "100ms",
                               "--", "sleep", "0.3")  # fmt: skip
    assert run.status == 0, run.err


def test_rules_are_refused_with_another_policy(learning: Learning) -> None:
    run = learning.pinfold.run("--rules", learning.rules, "--", "true")
    assert run.status == 125
    assert "--policy hints" in run.err
