"""Where `pinfold run` prints its lines: a log, or a terminal that a program may use itself."""

import os
import pty
import subprocess
from pathlib import Path

import pytest
from conftest import QUICK, Pinfold, patience

#: Switches the terminal to raw mode as an editor does, works until `QUICK` has passed the choice of a metric,
#: and restores the mode.
EDITOR = """
import termios, time, tty
before = termios.tcgetattr(0)
tty.setraw(0)
print("drawing", flush=True)
while time.process_time() < 1.5:
    pass
print("drawn", flush=True)
termios.tcsetattr(0, termios.TCSANOW, before)
"""


def read_until(terminal: int, words: bytes) -> bytes:
    """Read from a terminal until it has shown this text."""
    shown = b""
    while words not in shown:
        shown += os.read(terminal, 4096)
    return shown


def test_lines_wait_until_a_program_gives_the_terminal_back(pinfold: Pinfold, python: str) -> None:
    terminal, program_side = pty.openpty()
    process = subprocess.Popen(
        pinfold.command(*QUICK, "--", python, "-c", EDITOR),
        stdin=program_side,
        stdout=program_side,
        stderr=program_side,
        start_new_session=True,
        text=True,
    )
    os.close(program_side)
    with patience(process):
        before = read_until(terminal, b"drawing")
        drawn, _, after = read_until(terminal, b"the program ended with status 0").partition(b"drawn")
        process.wait()
    assert b"pinfold: " in before
    assert b"pinfold: " not in drawn
    # That line is due as soon as the program has initialised.
    assert b"nothing is measured" in after or b"metric: " in after


def test_lines_go_to_the_log_and_not_to_the_terminal(pinfold: Pinfold, tmp_path: Path) -> None:
    log = tmp_path / "pinfold.log"
    for _ in range(2):
        run = pinfold.run("--log", log, "--", "sh", "-c", "echo to standard error >&2")
        assert (run.status, run.err) == (0, "to standard error\n")
    assert log.read_text().count("the program ended with status 0") == 2


@pytest.mark.parametrize(("options", "expected"), [
    (["--log", "/nowhere/pinfold.log"], "--log /nowhere/pinfold.log cannot be written"),
    (["--log", "x", "--quiet"], "cannot be used with"),
])  # fmt: skip
def test_a_log_that_cannot_be_written_is_refused_before_the_program_starts(
    pinfold: Pinfold, options: list[str], expected: str
) -> None:
    run = pinfold.run(*options, "--", "echo", "it ran")
    assert run.status != 0
    assert run.out == ""
    assert expected in run.err
