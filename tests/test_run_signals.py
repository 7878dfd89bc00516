"""`pinfold run` and signals: what is sent to it goes to the program, once, and a terminal works as without it."""

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE, Pinfold, Terminal, alive, eventually


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGWINCH, signal.SIGALRM],
)
def test_a_signal_to_pinfold_reaches_the_program_once(
    pinfold: Pinfold, compiled: Callable[..., Path], number: signal.Signals
) -> None:
    process = pinfold.start("--", compiled("signals"))
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline().startswith("ready")
    process.send_signal(number)
    assert process.stdout.readline() == f"signal {number.value}\n"
    # A pending first signal would arrive before this one.
    process.send_signal(signal.SIGUSR2)
    out, _ = process.communicate(timeout=PATIENCE)
    assert out == f"signal {signal.SIGUSR2.value}\n"
    assert process.returncode == 0


def test_a_signal_that_kills_the_program_ends_us_with_its_status(pinfold: Pinfold) -> None:
    process = pinfold.start("--", "sh", "-c", "echo ready; exec sleep 600")
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert "the program ended with status 143" in err


def test_a_signal_that_the_program_sends_to_its_parent_does_not_come_back(pinfold: Pinfold) -> None:
    program = "trap 'echo came back' USR1; kill -USR1 $PPID; kill -0 $$; echo done"
    assert pinfold.run("--", "sh", "-c", program).out == "done\n"


def test_a_stopped_pinfold_and_program_go_on_together(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    # In its own process group: the kernel does not stop a group that nobody in its session could continue.
    process = pinfold.start("--", compiled("signals"), preexec_fn=os.setpgrp)
    assert process.stdout
    program = int(process.stdout.readline().split()[1])
    process.send_signal(signal.SIGTSTP)
    eventually(lambda: stopped(program) and stopped(process.pid), "both are stopped")
    process.send_signal(signal.SIGCONT)
    eventually(lambda: not stopped(program) and not stopped(process.pid), "both go on")
    process.send_signal(signal.SIGUSR2)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def stopped(process: int) -> bool:
    """Return whether a process is stopped by a signal, or stopped so while it is traced."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"


def test_the_program_has_the_terminal(terminal: Callable[..., Terminal], pinfold: Pinfold) -> None:
    program = "test -t 0 && test -t 1 && test -t 2 && tty && stty size > /dev/null && echo all of it"
    one = terminal(*pinfold.command("--", "sh", "-c", program))
    one.until("/dev/pts/[0-9]+\nall of it\n")
    assert one.end() == 0


def test_the_program_reads_what_is_typed(terminal: Callable[..., Terminal], pinfold: Pinfold) -> None:
    one = terminal(*pinfold.command("--", "sh", "-c", "echo ready; read line; echo read: $line"))
    one.until("ready\n")
    one.type("words\n")
    one.until("read: words\n")
    assert one.end() == 0


def test_control_c_reaches_the_program_once(
    terminal: Callable[..., Terminal], pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    one = terminal(*pinfold.command("-qq", "--", compiled("signals")))
    one.until("ready [0-9]+\n")
    one.type("\x03")
    one.until("signal 2\n")
    # Signals to pinfold are forwarded in order: a second SIGINT would be shown before this one.
    eventually(lambda: not pending(one.process), "pinfold has received its own SIGINT")
    signal_to(one.process, signal.SIGUSR2)
    one.until("^signal 12\n")
    assert one.end() == 0


def pending(process: int) -> int:
    """Return the pending signals of a process, as bits."""
    shared = re.search(r"^ShdPnd:\s*([0-9a-f]+)$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert shared
    return int(shared[1], 16)


def signal_to(process: int, number: signal.Signals) -> None:
    """Send a signal from this process."""
    os.kill(process, number)


def test_control_c_ends_a_program_as_without_pinfold(terminal: Callable[..., Terminal], pinfold: Pinfold) -> None:
    one = terminal(*pinfold.command("--", "sh", "-c", "echo ready; exec sleep 600"))
    one.until("ready\n")
    one.type("\x03")
    assert one.end() == 128 + signal.SIGINT


def test_control_z_stops_both_and_fg_goes_on(
    terminal: Callable[..., Terminal], pinfold: Pinfold, compiled: Callable[..., Path]
) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed, and job control takes an interactive shell")
    shell = terminal("bash", "--norc", "--noediting", "-i")
    shell.type(" ".join(pinfold.command("-qq", "--", str(compiled("signals")))) + "; echo status $?\n")
    program = int(shell.until("ready ([0-9]+)\n")[1])
    shell.type("\x1a")
    shell.until("Stopped")
    eventually(lambda: stopped(program), "the program is stopped")
    shell.type("fg\n")
    eventually(lambda: not stopped(program), "the program continues")
    signal_to(program, signal.SIGUSR2)
    shell.until("signal 12\n")
    shell.until("\\$ ")
    shell.type("exit 0\n")
    shell.end()
    assert not alive(program)


def test_hanging_up_the_terminal_ends_the_program(terminal: Callable[..., Terminal], pinfold: Pinfold) -> None:
    one = terminal(*pinfold.command("-qq", "--", "sh", "-c", "echo $$; exec sleep 600"))
    program = int(one.until("(?m)^([0-9]+)\n")[1])
    one.hang_up()
    eventually(lambda: not alive(program), "the program has ended")
