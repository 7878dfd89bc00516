"""`pinfold run` and programs that cannot be followed as others are.

These are programs that trace, that have a leak sanitizer, that forbid themselves system calls, or that create very many
threads. They run as without pinfold, and pinfold prints where it lets go.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE, ROOT, Pinfold, environment, eventually, masks, patience

SANITIZERS = [(compiler, kind) for compiler in ("gcc", "clang") for kind in ("address", "leak")]

#: What says that pinfold does not trace a process.
NOTE = "was let go"

Compiled = Callable[..., Path]


def tracers(process: int) -> set[str]:
    """Return the tracers of the threads of a process."""
    fields = (task.read_text() for task in Path(f"/proc/{process}/task").glob("*/status"))
    return {line.split()[1] for text in fields for line in text.splitlines() if line.startswith("TracerPid")}


def alone(*command: str | Path) -> tuple[int, str]:
    """Return the status and the output of a command without pinfold."""
    words = list(map(str, command))
    run = subprocess.run(words, capture_output=True, text=True, check=False, env=environment(), timeout=PATIENCE)
    return run.returncode, run.stdout


def installed(tool: str) -> str:
    """Return a tool's path; skip the test where it is not installed."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


@pytest.mark.parametrize("policy", ["none", "close"])
@pytest.mark.parametrize(("compiler", "kind"), SANITIZERS)
def test_a_program_with_a_leak_sanitizer_ends_as_without_pinfold(
    pinfold: Pinfold, compiled: Compiled, compiler: str, kind: str, policy: str
) -> None:
    program = compiled("sanitized", f"-fsanitize={kind}", compiler=compiler)
    run = pinfold.run("--policy", policy, "--", program)
    assert (run.status, run.out) == (0, "result 42\n"), run.err
    assert "LeakSanitizer" not in run.err
    assert run.said(NOTE) == 1


@pytest.mark.parametrize(("compiler", "kind"), SANITIZERS)
def test_a_leak_is_found_as_without_pinfold(pinfold: Pinfold, compiled: Compiled, compiler: str, kind: str) -> None:
    program = compiled("sanitized", f"-fsanitize={kind}", compiler=compiler)
    run = pinfold.run("--", program, "leak", "check")
    assert "detected memory leaks" in run.err
    assert (run.status, run.out) == alone(program, "leak", "check")
    assert run.status != 0


def test_where_leak_detection_is_off_the_program_is_followed_as_any_other(pinfold: Pinfold, compiled: Compiled) -> None:
    program = compiled("sanitized", "-fsanitize=address")
    run = pinfold.run("--", program, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert (run.status, run.out) == (0, "result 42\n")
    assert run.said(NOTE) == 0


def test_a_running_program_with_a_sanitizer_ends_as_without_pinfold(
    pinfold: Pinfold, compiled: Compiled, several_cpus: list[int], tmp_path: Path
) -> None:
    command = [str(compiled("sanitized", "-fsanitize=address")), "wait"]
    program = subprocess.Popen(command, text=True, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout
    first, number = program.stdout.readline(), int(program.stdout.readline())
    process = pinfold.start("--journals", tmp_path / "journals", "--policy", "close", "-p", str(number))
    with patience(process):
        eventually(lambda: any(len(mask) == 1 for mask in masks(number).values()), "a thread is pinned")
        assert tracers(number) == {"0"}
        program.communicate("", timeout=PATIENCE)
        _, err = process.communicate(timeout=PATIENCE)
    assert (program.returncode, first) == (0, "result 42\n"), several_cpus
    assert process.returncode == 0, err
    assert "Its exit status is not known" in err


@pytest.mark.parametrize("flags", [(), ("-static",), ("-DBY_SYSCALL",)])
def test_a_program_that_traces_can_do_so(pinfold: Pinfold, compiled: Compiled, flags: tuple[str, ...]) -> None:
    program = compiled("tracer", *flags)
    run = pinfold.run("--", program)
    assert (run.status, run.out) == (0, "asks: traced\nattach: traced\nseize: traced\n"), run.err
    assert run.said(NOTE) == 1


@pytest.mark.parametrize(
    "command",
    [
        ("strace", "-f", "-o", "/dev/null"),
        ("gdb", "-q", "-batch", "-ex", "run", "--args"),
        ("ltrace", "-o", "/dev/null"),
    ],
    ids=lambda command: command[0],
)
def test_tracers_work_inside(pinfold: Pinfold, command: tuple[str, ...]) -> None:
    installed(command[0])
    words = [*command, "sh", "-c", "(echo inside); exit 0"]
    status, out = alone(*words)
    assert "inside" in out
    run = pinfold.run("--", *words)
    assert (run.status, "inside" in run.out) == (status, True), run.err


def test_a_debugger_inside_attaches_to_another_process_of_the_program(pinfold: Pinfold, compiled: Compiled) -> None:
    gdb = installed("gdb")
    script = f'"{compiled("spin")}" 2 600 & n=$!; {gdb} -q -batch -p $n -ex "info threads"; kill $n; exit 0'
    run = pinfold.run("--policy", "close", "--", "sh", "-c", script)
    assert run.status == 0
    assert "not permitted" not in run.err, run.err
    assert "Thread" in run.out


def test_threads_of_a_traced_program_are_placed_and_get_their_masks_back(
    pinfold: Pinfold, compiled: Compiled, several_cpus: list[int], tmp_path: Path
) -> None:
    strace = installed("strace")
    words = (strace, "-f", "-e", "trace=none", "-o", "/dev/null", compiled("spin"), "2", "600")
    process = pinfold.start("--journals", tmp_path, "--initialise", "100ms", "--policy", "close", "--", *words)
    assert process.stdout
    with patience(process):
        program = int(process.stdout.readline())
        eventually(lambda: all(len(mask) == 1 for mask in masks(program).values()), "each thread is pinned")
        process.kill()
        process.wait()
        # The guard restores the masks: the program goes on, because pinfold does not trace it.
        eventually(lambda: set(map(frozenset, masks(program).values())) == {frozenset(several_cpus)}, "they are free")
    os.kill(program, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("policy", ["none", "close"])
@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_a_program_that_forbids_itself_system_calls_is_not_killed(
    pinfold: Pinfold, tmp_path: Path, compiler: str, policy: str
) -> None:
    source = ROOT / "agent/tests/sandboxed.c"
    language = ["-x", "c++", "-std=c++20"] if compiler == "g++" else []
    command = [compiler, *language, "-O1", "-fopenmp", "-pthread", str(source), "-o", str(tmp_path / "sandboxed")]
    subprocess.run(command, check=True)
    run = pinfold.run("--policy", policy, "--", tmp_path / "sandboxed")
    assert (run.status, run.out) == (0, "2 regions, the same PUs: 1\n")


#: Kills the process at the system calls that open files, and then calls the heartbeat.
SANDBOXED = """
import ctypes, os, struct
import pinfold
libc = ctypes.CDLL(None, use_errno=True)
calls = [2, 257, 234] if os.uname().machine == "x86_64" else [56, 131]
rules = [struct.pack("HBBI", 0x20, 0, 0, 0)]
for call in calls:
    rules += [struct.pack("HBBI", 0x15, 0, 1, call), struct.pack("HBBI", 0x06, 0, 0, 0x80000000)]
rules.append(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(rules))
program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
pinfold.heartbeat()
len(os.sched_getaffinity(os.getpid()))
os.write(1, b"done")
os._exit(0)
"""


@pytest.mark.parametrize("policy", ["none", "close"])
def test_a_python_program_that_forbids_itself_to_open_files_is_not_killed(pinfold: Pinfold, policy: str) -> None:
    run = pinfold.run("--policy", policy, "--", sys.executable, "-c", SANDBOXED)
    assert (run.status, run.out) == (0, "done"), run.err


@pytest.mark.parametrize("policy", ["none", "close"])
@pytest.mark.parametrize("lives", ["alive", "short"])
def test_a_program_with_very_many_threads_is_let_go_and_ends_as_ever(
    pinfold: Pinfold, compiled: Compiled, lives: str, policy: str
) -> None:
    run = pinfold.run("--policy", policy, "--", compiled("many_threads"), "6000", lives)
    assert (run.status, run.out[:12]) == (0, "6000 threads"), run.err
    assert run.said("creates threads too fast") == 1


def test_a_team_on_the_largest_machines_is_followed_as_any_other(pinfold: Pinfold, compiled: Compiled) -> None:
    run = pinfold.record("--policy", "none", "--", compiled("many_threads"), "1000", "alive")
    assert run.status == 0, run.err
    assert run.said("creates threads too fast") == 0
