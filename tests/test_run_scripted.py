"""`pinfold run` on a scripted machine: every policy decides there as it would here, without any time passing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Pinfold

#: Eight cores in two packages; the two threads are fastest next to each other in the second.
SCRIPT = """
topology = "synthetic:package:2 l3:1 core:4 pu:1"
threads = 2
duration = 1500.0
noise = 0.02
warm_up = 1.0
seed = {seed}
exit_status = 7

[[phase]]
start = 0.0
rate = 100.0
[[phase.pinning]]
pus = "4,5"
rate = 150.0
"""

BEST = [4, 5]
SCHEDULES = ("--schedule", "0,1", "--schedule", "0,4", "--schedule", "4,5", "--schedule", "3,7")


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., str]:
    """Return what writes a script and names its machine."""

    def write(text: str = SCRIPT, seed: int = 1) -> str:
        file = tmp_path / f"machine-{seed}.toml"
        file.write_text(text.format(seed=seed))
        return f"scripted:{file}"

    return write


@pytest.mark.parametrize("search", ["exhaustive", "racing"])
def test_the_best_of_the_script_is_chosen(pinfold: Pinfold, machine: Callable[..., str], search: str) -> None:
    run = pinfold.record("--machine", machine(), "--search", search, *SCHEDULES)
    assert run.status == 7
    assert run.json["simulated"] is True
    assert run.json["policy"] == "autopin"
    assert run.json["exit_status"] == 7
    assert run.json["chosen"]["pus"] == BEST
    assert run.json["chosen"]["rate"] == pytest.approx(150, rel=0.1)
    assert run.json["chosen"]["gain_over_first"] == pytest.approx(0.5, abs=0.1)


def test_racing_spends_less_time_on_losers(pinfold: Pinfold, machine: Callable[..., str]) -> None:
    schedules = ("--schedule", "4,5", "--schedule", "0,1", "--schedule", "0,4")
    run = pinfold.record("--machine", machine(), "--search", "racing", *schedules)
    winner, *losers = run.json["candidates"]
    assert not winner["dropped"]
    assert all(loser["dropped"] and loser["measured"] < winner["measured"] for loser in losers)


def test_candidates_come_from_the_scripts_topology(pinfold: Pinfold, machine: Callable[..., str]) -> None:
    run = pinfold.record("--machine", machine(), "--candidates", "8")
    unpinned, *placements = [candidate["pus"] for candidate in run.json["candidates"]]
    assert unpinned is None
    assert len(placements) > 1
    assert all(len(set(pus)) == 2 and set(pus) <= set(range(8)) for pus in placements)


def test_fixed_keeps_the_first_and_measures(pinfold: Pinfold, machine: Callable[..., str]) -> None:
    run = pinfold.record("--machine", machine(), "--policy", "fixed", "--schedule", "4,5", "--schedule", "0,1")
    assert run.json["policy"] == "fixed"
    assert run.json["chosen"] is None
    assert {round(line["rate"], -1) for line in run.json["rates"]} == {150}


def test_none_measures_only(pinfold: Pinfold, machine: Callable[..., str]) -> None:
    run = pinfold.record("--machine", machine(), "--policy", "none")
    assert run.json["policy"] == "none"
    assert run.json["chosen"] is None
    assert {round(line["rate"], -1) for line in run.json["rates"]} == {100}


@pytest.mark.parametrize("policy", ["autopin", "fixed", "none"])
def test_the_same_seed_gives_the_same_bytes(pinfold: Pinfold, machine: Callable[..., str], policy: str) -> None:
    def record(seed: int) -> bytes:
        pinfold.record("--machine", machine(seed=seed), "--policy", policy)
        return (pinfold.folder / "record.json").read_bytes()

    first = record(1)
    assert record(1) == first
    assert record(2) != first


def test_it_is_said_that_nothing_was_measured_here(pinfold: Pinfold, machine: Callable[..., str]) -> None:
    assert pinfold.run("--machine", machine()).err.startswith("pinfold: simulated: ")


def test_a_falling_rate_is_searched_again(pinfold: Pinfold, machine: Callable[..., str]) -> None:
    later = '\n[[phase]]\nstart = 500.0\nrate = 100.0\n[[phase.pinning]]\npus = "0,1"\nrate = 140.0\n'
    run = pinfold.record("--machine", machine(SCRIPT + later), *SCHEDULES)
    assert run.json["earlier_searches"][0]["chosen"]["pus"] == BEST
    assert run.json["chosen"]["pus"] == [0, 1]
    assert run.said("searching again") >= 1


def test_a_program_is_refused_where_the_scripts_own_runs(pinfold: Pinfold, machine: Callable[..., str]) -> None:
    run = pinfold.run("--machine", machine(), "--", "echo", "it ran")
    assert (run.status, run.out) == (125, "")
    assert "the script says what runs on a scripted machine" in run.err


@pytest.mark.parametrize("option", ["--outlive", "--keep-pinned", "--override", "--with=scx", "--event=task-clock"])
def test_options_for_a_real_program_are_refused(pinfold: Pinfold, machine: Callable[..., str], option: str) -> None:
    run = pinfold.run("--machine", machine(), option)
    assert run.status == 125
    assert f"{option.partition('=')[0]} is about a real program" in run.err


def test_an_unknown_metric_is_answered_with_those_of_the_script(pinfold: Pinfold, machine: Callable[..., str]) -> None:
    run = pinfold.run("--machine", machine(), "--metric", "scriptet")
    assert run.status == 125
    assert "there is no metric `scriptet` (did you mean `scripted`?)" in run.err


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (("duration = 1500.0", ""), ["duration", "work"]),
        (("noise", "nois"), ["unknown field `nois`"]),
        (("synthetic:package:2", "synthetic:nonsense"), ["the key `topology`"]),
        (('"4,5"', '"4,55"'), ["PU 55", "0-7"]),
        (("threads", "= threads"), ["is no script of a machine"]),
    ],
    ids=["endless", "unknown key", "wrong topology", "wrong PU", "no TOML"],
)
def test_a_script_that_makes_no_sense_is_refused(
    pinfold: Pinfold, machine: Callable[..., str], change: tuple[str, str], texts: list[str]
) -> None:
    run = pinfold.run("--machine", machine(SCRIPT.replace(*change)))
    assert run.status == 125
    for text in texts:
        assert text in run.err
