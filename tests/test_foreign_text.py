"""Names of programs, machines and files reach the terminal without what it obeys, and make no lines of their own."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE, Pinfold, environment

#: It clears the screen, sets the title, turns the direction of text, and looks like two lines more.
HOSTILE = "solver\x1b[2J\x1b]0;owned\x07\x7f\x9b31m\u202e\nforged: line\r\npinfold: forged"

#: What a terminal obeys, without the newline at the end of a line.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")

FORGED = re.compile(r"^(pinfold: )?(forged|pinfold: forged)", re.MULTILINE)

XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1"
      complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <info name="CPUModel" value="{name}"/>
    <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
        gp_index="2" local_memory="1073741824" subtype="{name}"/>
    <object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
        gp_index="3">
      <info name="CPUModel" value="{name}"/>
      <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
          gp_index="4"/>
    </object>
  </object>
</topology>
"""


def shown(pinfold: Pinfold, *words: str | Path) -> str:
    """Run a command and return both its outputs, checked for what a terminal obeys and for forged lines."""
    done = subprocess.run(
        [str(pinfold.binary), *map(str, words)], env=environment(), capture_output=True, timeout=PATIENCE, check=False
    )
    text = (done.stdout + done.stderr).decode()
    check(text)
    return text


def check(text: str) -> None:
    """Check a text for what a terminal obeys and for forged lines."""
    assert not OBEYED.search(text), ascii(text)
    assert not FORGED.search(text), ascii(text)


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[str]"]:
    """Return a process whose command line is hostile."""
    process = subprocess.Popen([HOSTILE, "600"], executable="sleep", text=True)
    yield process
    process.kill()
    process.wait()


def test_the_command_line_of_another_process_is_one_line_of_the_run(
    pinfold: Pinfold, stranger: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    options = ("--journals", str(tmp_path / "journals"), "--policy", "close", "--for", "1s")
    run = pinfold.run("-v", "-p", str(stranger.pid), *options)
    check(run.err)
    command = r"solver\x1b[2J\x1b]0;owned\x07\u007f\u009b31m\u202e\nforged: line\r\npinfold: forged 600"
    assert run.said(f"attached to process {stranger.pid}: {command}") == 1, run.err
    assert run.said(f": {command}") == 2, run.err


def test_the_log_of_a_run_has_clean_lines(pinfold: Pinfold, tmp_path: Path) -> None:
    log = tmp_path / "log"
    pinfold.run("-v", "--log", str(log), "--policy", "fixed", "--", "true", HOSTILE)
    text = log.read_text()
    check(text)
    assert r"\x1b[2J" in text


def test_the_record_of_a_run_is_explained_without_its_control_characters(pinfold: Pinfold) -> None:
    run = pinfold.record("--policy", "fixed", "--", "true", HOSTILE)
    check(run.err)
    assert run.json["command"] == ["true", HOSTILE], "the record has the exact words"
    assert r"`true solver\x1b[2J" in shown(pinfold, "explain", pinfold.folder / "record.json")


def test_names_of_a_machine_are_one_line(pinfold: Pinfold, tmp_path: Path) -> None:
    file = tmp_path / "machine.xml"
    file.write_text(XML.format(name="EPYC\x1b[2J\x9b31m\u202e&#10;forged"))
    text = shown(pinfold, "topo", "--machine", f"xml:{file}")
    assert text.startswith(r"EPYC\x1b[2J\u009b31m\u202e forged: "), text
    assert r"\u202e\nforged, 1 GiB" in text, text
    document = json.loads(shown(pinfold, "topo", "--json", "--machine", f"xml:{file}"))
    assert document["name"] == r"EPYC\x1b[2J\u009b31m\u202e forged"


@pytest.mark.parametrize(
    "words",
    [
        ("explain", HOSTILE),
        ("topo", "--machine", f"xml:{HOSTILE}"),
        ("trace", "info", HOSTILE),
        ("run", "--policy", HOSTILE, "true"),
        ("run", f"--{HOSTILE}"),
        (HOSTILE,),
        ("--color", "always", "run", "--policy", HOSTILE, "true"),
        ("db", "show", HOSTILE),
        ("run", "--", HOSTILE),
    ],
)
def test_an_error_names_what_is_wrong_without_its_control_characters(pinfold: Pinfold, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [str(pinfold.binary), *words], env=environment(), capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode != 0
    text = done.stderr.decode()
    colours = re.sub("\x1b\\[[0-9;]*m", "", text) if words[0] == "--color" else text
    assert not OBEYED.search(colours), ascii(text)
