"""`pinfold run` does not change what the program sees: streams, status, folder, environment, signal dispositions."""

import os
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import AGENT_OF_COMMAND, PATIENCE, ROOT, Pinfold, environment


def both(pinfold: Pinfold, *command: str, **options: Any) -> tuple[str, str]:
    """Return the output of a command alone, and under pinfold."""
    environ = environment()
    alone = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environ, timeout=PATIENCE, **options
    )
    return alone.stdout, pinfold.run("--", *command, **options).out


def test_standard_input_and_output_are_the_programs_alone(pinfold: Pinfold) -> None:
    content = os.urandom(1 << 20)
    run = subprocess.run(pinfold.command("--", "cat"), input=content, capture_output=True, check=True, timeout=PATIENCE)
    assert run.stdout == content
    assert b"pinfold: the program ended with status 0" in run.stderr


def test_standard_error_of_the_program_is_passed_through(pinfold: Pinfold) -> None:
    run = pinfold.run("--", "sh", "-c", "echo out; echo err >&2")
    assert run.out == "out\n"
    assert "err" in run.err.splitlines()


def test_quiet_leaves_standard_error_to_the_program(pinfold: Pinfold, workload: Callable[[str], Path]) -> None:
    run = pinfold.run("-qq", "-t", "50ms", "--", workload("barrier"), "--seconds", "0.3", "--threads", "2")
    assert run.status == 0
    assert run.err == ""
    assert run.out.startswith("barrier: ")


def test_closed_standard_streams_are_closed_for_the_program(pinfold: Pinfold) -> None:
    closed = "for fd in 0 1 2; do test -e /proc/$$/fd/$fd && exit 1; done; exit 7"
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    assert subprocess.run([*shell, "sh", "-c", closed], check=False).returncode == 7
    assert pinfold.run("--", "sh", "-c", closed, prefix=shell).status == 7


def test_an_unread_standard_error_does_not_disturb_the_run(pinfold: Pinfold) -> None:
    process = pinfold.start("--", "sh", "-c", "read line; echo $line; exit 5")
    assert process.stderr
    process.stderr.close()
    process.stderr = None
    out, _ = process.communicate("still here\n", timeout=PATIENCE)
    assert (process.returncode, out) == (5, "still here\n")


@pytest.mark.parametrize("status", [0, 1, 200, 255])
def test_the_exit_status_is_the_programs(pinfold: Pinfold, status: int) -> None:
    assert pinfold.run("--", "sh", "-c", f"exit {status}").status == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_program_that_a_signal_kills_gives_128_and_its_number(pinfold: Pinfold, number: signal.Signals) -> None:
    assert pinfold.run("--", "sh", "-c", f"kill -{number} $$").status == 128 + number


def test_the_working_directory_is_kept(pinfold: Pinfold, tmp_path: Path) -> None:
    assert pinfold.run("--", "pwd", "-P", cwd=tmp_path).out == f"{tmp_path.resolve()}\n"


def test_arguments_arrive_as_they_are(pinfold: Pinfold) -> None:
    words = ["-t", "--json", "--", "two words", "", "'\"$HOME"]
    assert pinfold.run("--", "printf", "%s\\n", *words).out.splitlines() == words


def test_the_environment_gains_channel_and_regions_and_nothing_else(pinfold: Pinfold) -> None:
    alone, placed = (
        dict(line.split("=", 1) for line in text.split("\0") if line) for text in both(pinfold, "env", "-0")
    )
    added = {name: value for name, value in placed.items() if alone.pop(name, None) != value}
    assert alone == {}
    assert added.pop("PINFOLD_CHANNEL").startswith("/proc/")
    assert added.pop("PINFOLD_REGIONS").startswith("/proc/")
    assert added == {}


@pytest.mark.parametrize("preload", [{}, {"LD_PRELOAD": ""}, {"LD_PRELOAD": "libm.so.6"}])
def test_programs_that_a_program_starts_also_have_the_agent_and_see_the_users_preloaded_libraries(
    pinfold: Pinfold, preload: dict[str, str]
) -> None:
    script = f"printenv LD_PRELOAD PINFOLD_PRELOADED; {AGENT_OF_COMMAND}; env -i sh -c '{AGENT_OF_COMMAND}'"
    run = pinfold.run("-qq", "--", "sh", "-c", script, env=preload)
    *users, first, without_environment = run.out.splitlines()
    assert users == list(preload.values())
    assert first.endswith("-agent.so")
    assert without_environment == first


def test_the_users_preloaded_libraries_precede_the_agent(pinfold: Pinfold, tmp_path: Path) -> None:
    library = tmp_path / "user.so"
    source = ROOT / "agent/tests/user_preload.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    # glibc lists preloaded libraries in the order in which it searches them.
    order = {"LD_PRELOAD": str(library), "LD_DEBUG": "scopes"}
    run = pinfold.run("-qq", "--", "true", env=order)
    scope = next(line for line in run.err.splitlines() if "-agent.so" in line).split()
    (agent,) = [place for place, name in enumerate(scope) if name.endswith("-agent.so")]
    assert scope[agent - 1] == str(library)
    assert "user's preload" in run.out


def test_the_users_tools_precede_the_agent(pinfold: Pinfold, agent: Path) -> None:
    """Also before the agent that `PINFOLD_AGENT` names."""
    variables = {"OMP_TOOL_LIBRARIES": "libm.so.6", "PINFOLD_AGENT": str(agent)}
    run = pinfold.run("--", "printenv", "OMP_TOOL_LIBRARIES", env=variables)
    assert run.out == f"libm.so.6:{agent.resolve()}\n"


@pytest.fixture
def program_of_32_bits(tmp_path: Path) -> Path:
    """Return a 32-bit program that a dynamic linker loads, and that prints a line."""
    program = tmp_path / "program_of_32_bits"
    command: list[str | Path] = [
        "gcc",
        "-m32",
        "-nostartfiles",
        "-nodefaultlibs",
        "-o",
        program,
        ROOT / "tests/programs/greets.c",
        "-lc",
    ]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("gcc cannot link 32-bit programs here (apt install libc6-dev-i386)")
    if subprocess.run([program], capture_output=True, check=False).returncode != 3:
        pytest.skip("no 32-bit program runs here")
    return program


def test_a_program_that_cannot_load_the_agent_runs_as_alone(pinfold: Pinfold, program_of_32_bits: Path) -> None:
    """The dynamic linker would print an error; and what the program starts has the agent again."""
    for command in ([program_of_32_bits], ["sh", "-c", f"{program_of_32_bits}; exit $?"]):
        run = pinfold.run("-qq", "--", *command)
        assert (run.status, run.out, run.err) == (3, "greetings\n", "")


def test_ldd_lists_the_libraries_of_a_program_and_not_the_agent(pinfold: Pinfold) -> None:
    alone, placed = both(pinfold, "ldd", "/bin/sh")
    names = [[line.split()[0] for line in text.splitlines()] for text in (alone, placed)]
    assert names[1] == names[0]


#: Each changes what a process finds under the agent's path, and then executes a program.
OTHER_FILES = {
    "another /run": f"mount -t tmpfs tmpfs $(dirname $({AGENT_OF_COMMAND})); exec true",
    "no execution": f"folder=$(dirname $({AGENT_OF_COMMAND})); mount --bind $folder $folder && "
    "mount -o remount,bind,noexec $folder; exec true",
    "another root": "mkdir root; for name in bin lib lib64 usr; do mkdir root/$name; mount --rbind /$name root/$name; "
    "done; exec chroot root true",
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount and change the root")
@pytest.mark.parametrize("script", OTHER_FILES.values(), ids=OTHER_FILES)
def test_a_program_that_finds_another_file_in_the_agents_place_runs_as_alone(
    pinfold: Pinfold, script: str, tmp_path: Path
) -> None:
    command = ("unshare", "--mount", "sh", "-e", "-c", script)
    alone = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if alone.returncode != 0:
        pytest.skip("no mount namespace can be created here")
    run = pinfold.run("-qq", "--", *command, cwd=tmp_path)
    assert (run.status, run.out, run.err) == (0, "", "")


def test_a_program_with_address_sanitizer_starts_and_sees_the_users_options(pinfold: Pinfold, tmp_path: Path) -> None:
    source, program = tmp_path / "options.c", tmp_path / "options"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        'const char *__asan_default_options(void) { return "detect_leaks=0"; }\n'
        'int main(void) { const char *options = getenv("ASAN_OPTIONS"); puts(options ? options : "none"); return 4; }\n'
    )
    command: list[str | Path] = ["gcc", "-fsanitize=address", "-o", program, source]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("gcc has no libasan here")
    for options in ({}, {"ASAN_OPTIONS": "verbosity=0"}):
        run = pinfold.run("-qq", "--", program, env=options)
        assert (run.status, run.out, run.err) == (4, options.get("ASAN_OPTIONS", "none") + "\n", "")


def test_without_the_agent_the_run_continues_and_names_what_is_missing(pinfold: Pinfold) -> None:
    run = pinfold.run("--", "sh", "-c", "exit 3", env={"PINFOLD_AGENT": "/nowhere/agent.so"})
    assert run.status == 3
    assert run.said("Parallel regions and MPI calls are not counted: the agent /nowhere/agent.so does not exist") == 1


@pytest.mark.parametrize("restore_signals", [True, False])
def test_signal_dispositions_are_as_inherited(pinfold: Pinfold, restore_signals: bool) -> None:
    """Python ignores SIGPIPE and so do the processes that it starts, unless it restores the default."""
    command = ("grep", "^Sig[BIC]", "/proc/self/status")
    alone, placed = both(pinfold, *command, restore_signals=restore_signals)
    assert placed == alone


def test_a_closed_reader_ends_the_program_by_sigpipe(pinfold: Pinfold) -> None:
    process = pinfold.start("--", "yes")
    assert process.stdout
    assert process.stdout.readline() == "y\n"
    process.stdout.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("limit", ["-n", "-c", "-s"])
def test_resource_limits_are_as_inherited(pinfold: Pinfold, limit: str) -> None:
    alone, placed = both(pinfold, "sh", "-c", f"ulimit -S {limit}; ulimit -H {limit}")
    assert placed == alone


def test_a_low_limit_of_open_files_is_the_programs_own(pinfold: Pinfold) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    lowered = ["sh", "-c", 'ulimit -S -n 100; exec "$@"', "sh"]
    run = pinfold.run("--", "sh", "-c", "ulimit -S -n; ulimit -H -n", prefix=lowered)
    assert run.out.split() == ["100", "unlimited" if hard == resource.RLIM_INFINITY else str(hard)]


def test_open_files_are_inherited_and_ours_are_not(pinfold: Pinfold) -> None:
    reading, writing = os.pipe()
    try:
        alone, placed = both(pinfold, "sh", "-c", "ls /proc/$$/fd", pass_fds=[writing])
    finally:
        os.close(reading)
        os.close(writing)
    assert str(writing) in placed.split()
    assert placed == alone


def test_a_script_without_an_interpreter_line_is_run_by_the_shell(pinfold: Pinfold, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo from a script: $1\n")
    script.chmod(0o755)
    assert pinfold.run("--", script, "argument").out == "from a script: argument\n"


def test_a_background_process_does_not_keep_us_waiting(pinfold: Pinfold) -> None:
    run = pinfold.run("--", "sh", "-c", "sleep 600 < /dev/null > /dev/null 2>&1 & echo $!; exit 4")
    os.kill(int(run.out), signal.SIGKILL)
    assert run.status == 4
