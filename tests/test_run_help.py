"""`pinfold run --help`, and its lists."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import Pinfold

OPTIONS = [
    "--candidates",
    "--cpunodebind",
    "--event",
    "--for",
    "--initialise",
    "--interleave",
    "--interval",
    "--json",
    "--keep-pinned",
    "--localalloc",
    "--log",
    "--machine",
    "--membind",
    "--metric",
    "--migrate-files",
    "--migrate-rate",
    "--migrate-shared",
    "--numa-balancing",
    "--outlive",
    "--override",
    "--page-map",
    "--physcpubind",
    "--pid",
    "--policy",
    "--preferred",
    "--probe",
    "--quiet",
    "--schedule",
    "--search",
    "--search-again",
    "--skip",
    "--threads",
    "--verbose",
    "--warm-up",
    "--weighted-interleave",
    "-L",
    "-e",
    "-i",
    "-p",
    "-q",
    "-t",
    "-v",
    "-w",
]


def test_help_has_every_option_and_fits_a_terminal(pinfold: Pinfold) -> None:
    run = pinfold.run("--help")
    assert run.status == 0
    assert run.err == ""
    described = set(re.findall(r"(?:^|, | {2,})(--?[a-zA-Z][a-z-]*)", run.out, re.MULTILINE))
    assert described >= set(OPTIONS)
    assert max(map(len, run.out.splitlines())) <= 100


def test_the_short_help_has_the_usual_options_and_names_the_long_one(pinfold: Pinfold) -> None:
    run = pinfold.run("-h")
    assert run.status == 0
    for option in ("--policy", "--pid", "--json", "--machine"):
        assert option in run.out
    assert "--warm-up" not in run.out
    assert "`pinfold run --help` shows all options, and examples." in run.out


@pytest.mark.parametrize(
    ("words", "is_coloured"), [(["--color", "always"], True), (["--color=never"], False), ([], False)]
)
def test_help_and_errors_have_colours_where_they_are_asked_for(
    pinfold: Pinfold, words: list[str], is_coloured: bool
) -> None:
    assert ("\x1b[" in pinfold.run("--help", *words).out) is is_coloured
    wrong = pinfold.run("--no-such-option", *words)
    assert ("\x1b[" in wrong.err) is is_coloured
    assert "no-such-option" in wrong.err


def test_help_has_the_exit_statuses(pinfold: Pinfold) -> None:
    text = pinfold.run("--help").out
    for status in ("125", "126", "127", "128+n"):
        assert status in text


def test_help_names_every_kind_of_machine(pinfold: Pinfold) -> None:
    text = pinfold.run("--help").out
    for kind in ("xml:FILE", "fsroot:DIR", "synthetic:SPEC", "scripted:FILE"):
        assert kind in text


def test_the_list_of_events_is_that_of_pinfold_events(pinfold: Pinfold, binary: Path) -> None:
    listed = subprocess.run([binary, "events"], capture_output=True, text=True, check=True).stdout
    run = pinfold.run("-L")
    assert (run.status, run.out, run.err) == (0, listed, "")
    assert "task-clock" in listed.lower()
