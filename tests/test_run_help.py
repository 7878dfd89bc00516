"""`pinfold run --help`, its lists, and the guide, which has every option that the help shows."""

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
    "--numa-balancing",
    "--outlive",
    "--override",
    "--page-map",
    "--page-options",
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
    "--with",
    "-C",
    "-L",
    "-N",
    "-e",
    "-i",
    "-p",
    "-q",
    "-t",
    "-v",
]


#: Options that vary one part of a policy, for studies.
EXPERIMENTS = ["--by-region", "--compared", "--do-not-ask", "--known", "--unverified", "--without"]
#: Options of `pinfold pages`, which `--page-options` takes as a list.
OF_PAGES = [
    "--migrate-files",
    "--migrate-rate",
    "--migrate-shared",
    "--profile",
    "--sample-by",
    "--sample-events",
    "--sample-period",
    "--sample-time",
]
GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide"


def listed(text: str) -> set[str]:
    """Return the options that a help text lists: each begins a line, perhaps after its short form."""
    pairs = re.findall(r"^ {2,6}(-\w)?(?:, )?(--[a-z][a-z-]*)?", text, re.MULTILINE)
    return {option for pair in pairs for option in pair if option}


def test_help_has_every_option_and_fits_a_terminal(pinfold: Pinfold) -> None:
    run = pinfold.run("--help")
    assert run.status == 0
    assert run.err == ""
    assert listed(run.out) >= set(OPTIONS)
    assert max(map(len, run.out.splitlines())) <= 100


def test_every_option_of_the_help_is_in_a_guide(pinfold: Pinfold) -> None:
    guide = "\n".join(page.read_text(encoding="utf-8") for page in sorted(GUIDE.glob("*.md")))
    named = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", guide))
    assert listed(pinfold.run("--help").out) - {"-h", "--help", "-V"} <= named


def test_the_help_leaves_experiments_and_the_options_of_pages_to_their_own_help(pinfold: Pinfold) -> None:
    hidden = set(EXPERIMENTS) | set(OF_PAGES)
    assert not listed(pinfold.run("--help").out) & hidden
    experiments = pinfold.run("--help-experiments")
    assert (experiments.status, experiments.err) == (0, "")
    assert listed(experiments.out) == set(EXPERIMENTS)
    assert "`pinfold run --help-experiments`" in pinfold.run("--help").out


@pytest.mark.parametrize(
    "words",
    [
        ["--page-map", "interleave", "--page-options", "migrate-rate=1GiB/s,migrate-files"],
        ["--page-map", "interleave", "--migrate-rate", "1GiB/s", "--migrate-files"],
    ],
)
def test_page_options_may_be_a_list_or_spelled_out(pinfold: Pinfold, words: list[str]) -> None:
    run = pinfold.run(*words, "--policy", "none", "--", "echo", "it ran")
    assert (run.status, run.out) == (0, "it ran\n"), run.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--page-options", "migrate-rate=fast"], "migrate-rate"),
        (["--page-options", "interleave=all"], "interleave"),
        (["--page-options", "migrate-files", "--migrate-rate", "1GiB/s"], "--migrate-rate"),
    ],
)
def test_a_wrong_list_of_page_options_is_refused(pinfold: Pinfold, words: list[str], named: str) -> None:
    run = pinfold.run(*words, "--", "echo", "it ran")
    assert (run.status, run.out) == (125, "")
    assert named in run.err


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
