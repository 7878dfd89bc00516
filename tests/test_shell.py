"""Completions and manual pages, which come from the definitions of `--help`."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Pinfold

SHELLS = ("bash", "zsh", "fish")

BASH = """
source /dev/stdin
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_pinfold pinfold "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What bash does to complete the last of its arguments."""


def said(pinfold: Pinfold, *words: str | Path) -> str:
    """Return the standard output of a command of pinfold that succeeds."""
    done = subprocess.run([pinfold.binary, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(pinfold: Pinfold, *words: str) -> set[str]:
    """Return what bash offers for the last of these words."""
    script = said(pinfold, "completions", "bash")
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", *words], input=script, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_their_values(pinfold: Pinfold) -> None:
    assert {"record", "report", "reset"} <= completed(pinfold, "pinfold", "re")
    assert completed(pinfold, "pinfold", "run", "--pol") == {"--policy"}
    assert completed(pinfold, "pinfold", "run", "--search", "") >= {"racing"}
    assert "read-topology" not in completed(pinfold, "pinfold", "re"), "it is no command for users"
    assert completed(pinfold, "pinfold", "run", "--page-") == {"--page-map", "--page-options"}


def test_bash_completes_policies_machines_metrics_and_formats(pinfold: Pinfold) -> None:
    for words, expected in (
        (("run", "--policy"), {"auto", "autopin", "close", "hint:SLP"}),
        (("compare", "--policy"), {"auto", "autopin", "close"}),
        (("topo", "--machine"), {"e5-4650x4", "clovertown", "xml:", "synthetic:"}),
        (("run", "--metric"), {"auto", "heartbeat", "regions", "barriers", "uprobe:", "event:"}),
        (("daemon", "--metric"), {"counters", "sharing"}),
        (("explain", "--format"), {"taskset", "numactl", "OMP_PLACES"}),
        (("placements", "--hint"), {"SLP", "slp"}),
        (("sweep", "--space"), {"threads", "hints"}),
    ):
        assert expected <= completed(pinfold, "pinfold", *words, ""), words
    assert completed(pinfold, "pinfold", "run", "--policy", "auto") == {"auto", "autopin"}
    assert not {"heartbeat"} & completed(pinfold, "pinfold", "calibrate", "--metric", "")


def test_bash_completes_models_in_files_and_devices_when_it_is_asked(
    pinfold: Pinfold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.toml").touch()
    (tmp_path / "notes.txt").touch()
    asked = tmp_path / "bin" / "pinfold"
    asked.parent.mkdir()
    asked.write_text('#!/bin/sh\n[ "$*" = "completions --devices" ] && echo net:made-up\n')
    asked.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(asked.parent), prepend=os.pathsep)
    offered = completed(pinfold, "pinfold", "topo", "--machine", "")
    assert "own.toml" in offered
    assert "notes.txt" not in offered
    assert completed(pinfold, "pinfold", "run", "--near", "") == {"net:made-up"}


def test_devices_are_listed_as_near_takes_them(pinfold: Pinfold) -> None:
    listed = said(pinfold, "completions", "--devices").split()
    topology = json.loads(said(pinfold, "topo", "--json"))
    assert listed == [name for device in topology["devices"] for name in device["near"]]


@pytest.mark.parametrize("shell", SHELLS)
def test_completions_are_a_script_of_the_shell(pinfold: Pinfold, shell: str) -> None:
    script = said(pinfold, "completions", shell)
    assert "physcpubind" in script
    assert not any(hidden in script for hidden in ("do-not-ask", "account-as", "help-experiments"))
    assert "sample-time" in script, "it is an option of pages"
    assert {"e5-4650x4", "autopin", "heartbeat", "GOMP_CPU_AFFINITY"} <= set(re.findall(r"[\w-]+", script))
    assert "pinfold completions --devices" in script
    assert not re.search(r"PINFOLD_(DEVICES|MODELS)", script), "a command stands there"
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed, so that it cannot read the script")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_every_command_has_a_manual_page(pinfold: Pinfold, tmp_path: Path) -> None:
    said(pinfold, "man", "--output", tmp_path / "man1")
    pages = {page.stem: page.read_text() for page in (tmp_path / "man1").iterdir()}
    commands = {
        line.split()[0]
        for line in said(pinfold, "--help").splitlines()
        if line.startswith("  ") and line[2:3].isalpha()
    }
    commands -= {"help", "effect"}
    assert {f"pinfold-{command}" for command in commands} <= set(pages)
    assert {"pinfold", "pinfold-db-forget", "pinfold-trace-metrics"} <= set(pages)
    assert not any("read-topology" in page or "-help" in page for page in pages)
    assert "page\\-options" in pages["pinfold-run"]
    assert "do\\-not\\-ask" not in pages["pinfold-run"], "it is for experiments"
    assert said(pinfold, "man", "run") == pages["pinfold-run"]
    assert said(pinfold, "man", "trace", "metrics") == pages["pinfold-trace-metrics"]


@pytest.mark.parametrize("command", ["run", "daemon"])
def test_manual_pages_are_formatted_without_a_warning(pinfold: Pinfold, command: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed, so that nothing formats manual pages")
    page = said(pinfold, "man", command)
    shown = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-rLL=100n"], input=page, capture_output=True, text=True, check=True
    )
    assert shown.stderr == ""
    # A terminal shows bold letters as each over itself.
    assert {"run": "physcpubind", "daemon": "cgroup"}[command] in re.sub(".\b", "", shown.stdout)


@pytest.mark.parametrize("command", ["run", "compare", "topo", "daemon", "man", "trace metrics"])
def test_a_manual_page_has_a_short_synopsis_and_the_usual_sections(pinfold: Pinfold, command: str) -> None:
    page = said(pinfold, "man", *command.split())
    synopsis = page.split(".SH SYNOPSIS\n")[1].split(".SH")[0]
    assert 1 <= len([line for line in synopsis.splitlines() if line != ".br"]) <= 3, synopsis
    headings = re.findall(r'^\.SH "?([A-Z ]+)', page, re.MULTILINE)
    for heading in ("ENVIRONMENT", "EXIT STATUS", "SEE ALSO"):
        assert heading in headings
    assert ("FILES" in headings) == (command in ("run", "compare", "daemon"))
    assert "EXTRA" not in headings


def test_the_page_of_run_has_its_variables_files_and_statuses(pinfold: Pinfold) -> None:
    page = said(pinfold, "man", "run")
    for entry in ("PINFOLD_DB", "OMP_PROC_BIND", "/var/lib/pinfold/behaviour.db", "125", "126", "127", "128+n"):
        assert f"\n.TP\n\\fB{entry}\\fR\n" in page
    assert "\\fBnumactl\\fR(8)" in page


def test_a_command_that_is_not_there_has_no_page(pinfold: Pinfold) -> None:
    run = subprocess.run([pinfold.binary, "man", "trace", "bogus"], capture_output=True, text=True, check=False)
    assert run.returncode == 125
    assert "`pinfold trace` has no command `bogus`" in run.stderr
