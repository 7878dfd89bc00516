"""`pinfold run` and wrong input: each error names the failure, the value and the correction; and exit statuses."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import CPUS, QUICK, Pinfold, Run, cpu_list

#: A CPU that no machine of the tests has.
NO_CPU = 65_535

#: pinfold itself failed.
FAILURE = 125

#: The command line is not valid.
USAGE = 125


def refused(run: Run, *texts: str) -> None:
    """Check that pinfold failed before the program ran, in one sentence with these texts."""
    assert run.status == FAILURE
    assert run.out == ""
    assert run.err.startswith("pinfold: ")
    assert run.err.count("\n") == 1, run.err
    for text in texts:
        assert text in run.err


@pytest.fixture
def ran() -> list[str]:
    """Return a program whose output shows that it ran."""
    return ["echo", "it ran"]


@pytest.mark.parametrize("command", ["./not-there", "/not/there", "pinfold-test-not-there", ""])
def test_a_command_that_is_not_found_gives_127(pinfold: Pinfold, command: str) -> None:
    run = pinfold.run("--", command)
    assert run.status == 127
    assert run.err == f"pinfold: command not found: {command}\n"


def test_a_file_that_is_not_executable_gives_126(pinfold: Pinfold, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no program")
    run = pinfold.run("--", file)
    assert run.status == 126
    assert run.err.startswith(f"pinfold: cannot execute {file}: Permission denied")


def test_a_folder_gives_126(pinfold: Pinfold, tmp_path: Path) -> None:
    assert pinfold.run("--", tmp_path).status == 126


def test_a_missing_interpreter_gives_126_and_is_named(pinfold: Pinfold, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/not/there\n")
    script.chmod(0o755)
    run = pinfold.run("--", script)
    assert run.status == 126
    assert "the interpreter or the loader that it names does not exist" in run.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--bogus", "--", "true"],
        ["--policy", "best", "--", "true"],
        ["--policy", "hint:packed", "--", "true"],
        ["-t", "0", "--", "true"],
        ["-t", "soon", "--", "true"],
        ["--warm-up", "-1s", "--", "true"],
        ["--interval", "0", "--", "true"],
        ["--candidates", "0", "--", "true"],
        ["--threads", "0", "--", "true"],
        ["--search-again", "100", "--", "true"],
        ["--metric", "regions", "-e", "task-clock", "--", "true"],
        ["--candidates", "3", "--schedule", "0", "--", "true"],
        ["--membind", "0", "--interleave", "0", "--", "true"],
        ["--page-map", "everywhere", "--", "true"],
        ["--migrate-rate", "fast", "--", "true"],
        ["--numa-balancing", "sometimes", "--", "true"],
        ["--json"],
    ],
    ids=" ".join,
)
def test_an_invalid_command_line_gives_125(pinfold: Pinfold, arguments: list[str]) -> None:
    run = pinfold.run(*arguments)
    assert run.status == USAGE
    assert run.out == ""
    assert run.err.startswith("error: ")
    assert "'--help'" in run.err


def test_a_program_needs_no_dashes_before_it_and_gets_all_words_after_it(pinfold: Pinfold) -> None:
    run = pinfold.run("-q", "--policy", "none", "sh", "-c", "echo $0 $*; exit 3", "-q", "--", "--json")
    assert (run.status, run.out) == (3, "-q -- --json\n")


def test_a_word_that_is_neither_a_program_nor_a_recording_is_an_error(pinfold: Pinfold, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("notes")
    for word, status in ((tmp_path / "none", 127), (notes, 126), ("pinfold-test-not-there", 127)):
        run = pinfold.run(word, "-x")
        assert run.status == status
        assert run.said(f"`{word}` is neither a program, here or in PATH, nor a recording") == 1


def test_a_recording_without_a_machine_names_the_option(pinfold: Pinfold, tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    recording.write_bytes(b"PINFTRC\nmore")
    refused(pinfold.run(recording), f"`{recording}` is a recording", "name one with --machine")


def test_a_program_in_the_place_of_a_command_names_run(pinfold: Pinfold) -> None:
    run = subprocess.run([pinfold.binary, "sh", "-c", "true"], capture_output=True, text=True, check=False)
    assert run.returncode == USAGE
    assert "`sh` is a program; to run it: pinfold run sh -c true" in run.stderr


@pytest.mark.parametrize("command", ["topo", "compare", "trace", "daemon", "sweep", "learn", "man"])
def test_a_wrong_option_gives_125_in_every_command(pinfold: Pinfold, command: str) -> None:
    run = subprocess.run([pinfold.binary, command, "--no-such-option"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (USAGE, "")


@pytest.mark.parametrize(
    ("given", "meant"), [("task-clok", "task-clock"), ("page-fautls", "page-faults"), ("cyclse", "cycles")]
)
def test_the_error_for_an_unknown_event_has_the_nearest_names(
    pinfold: Pinfold, ran: list[str], given: str, meant: str
) -> None:
    run = pinfold.run("-e", given, "--", *ran)
    refused(run, f"`{given}`", "did you mean", "`pinfold events PATTERN` lists")
    assert meant in run.err.lower()


@pytest.mark.parametrize(
    ("given", "meant"), [("hartbeat", "heartbeat"), ("region", "regions"), ("barrier", "barriers")]
)
def test_the_error_for_an_unknown_metric_has_the_nearest_names(
    pinfold: Pinfold, ran: list[str], given: str, meant: str
) -> None:
    refused(pinfold.run("--metric", given, "--", *ran), f"there is no metric `{given}`; did you mean {meant}?")


def test_the_error_for_an_unknown_symbol_has_the_nearest_names(pinfold: Pinfold, compiled: Callable[..., Path]) -> None:
    program = compiled("spin")
    run = pinfold.run("--metric", "uprobe:stepp", "--", program, "1", "0")
    refused(run, f"{program} has no function `stepp`", "did you mean step")


def test_a_program_that_is_not_found_gives_127_before_its_symbols_are_read(pinfold: Pinfold) -> None:
    run = pinfold.run("--metric", "uprobe:main", "--", "pinfold-test-not-there")
    assert run.status == 127
    assert run.err == "pinfold: command not found: pinfold-test-not-there\n"


@pytest.fixture
def nobody(binary: Path) -> Iterator[Pinfold]:
    """Return a `pinfold run` that runs as a user without privileges, where such a user can reach it."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, and setpriv must be installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy2(binary, folder / "pinfold")
        (folder / "pinfold").chmod(0o755)
        yield Pinfold(folder / "pinfold", folder)


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]


def test_a_forbidden_uprobe_names_the_capability(nobody: Pinfold, compiled: Callable[..., Path]) -> None:
    program = shutil.copy2(compiled("spin"), nobody.folder)
    Path(program).chmod(0o755)
    run = nobody.run("--metric", f"uprobe:{program}:step", "--", program, "1", "0", prefix=NOBODY)
    refused(run, "may not be counted", "CAP_PERFMON")


def test_forbidden_counters_name_the_sysctl(nobody: Pinfold, ran: list[str]) -> None:
    """Kernel time of an event is the first that the usual setting of the sysctl forbids."""
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    if not paranoid.exists() or int(paranoid.read_text()) < 3:
        pytest.skip("kernel.perf_event_paranoid allows users to count their own programs here")
    run = nobody.run("-e", "task-clock", "--", *ran, prefix=NOBODY)
    refused(run, "may not be counted", "kernel.perf_event_paranoid", "CAP_PERFMON")


def test_the_error_for_missing_hardware_counters_names_metrics_without_them(pinfold: Pinfold, ran: list[str]) -> None:
    run = pinfold.run("-e", "cycles", "--", *ran)
    if run.status == 0:
        pytest.skip("this machine counts cycles")
    refused(run, "`cycles`", "regions, mpi, io, function, heartbeat, uprobe:SYMBOL")


def test_the_error_for_a_missing_cpu_names_it_and_the_allowed_ones(pinfold: Pinfold, ran: list[str]) -> None:
    listed = f"{CPUS[0]},{NO_CPU}"
    refused(
        pinfold.run("--schedule", listed, "--", *ran),
        f"--schedule {listed}: CPU {NO_CPU} does not exist",
        "allowed are",
    )


def test_the_error_for_a_forbidden_cpu_names_it_and_the_allowed_ones(
    pinfold: Pinfold, ran: list[str], several_cpus: list[int]
) -> None:
    ours, other = several_cpus[:2]
    run = pinfold.run("--schedule", str(other), "--", *ran, prefix=["taskset", "-c", str(ours)])
    refused(run, f"CPU {other} is not allowed", f"allowed are {ours}", "taskset")


def test_the_variable_of_the_paper_is_a_schedule(
    pinfold: Pinfold, compiled: Callable[..., Path], several_cpus: list[int], cpu_time: tuple[str, str]
) -> None:
    if max(several_cpus) > 9:
        pytest.skip("the variable has one digit for each CPU, and ours have more")
    forwards, backwards = ("".join(map(str, order)) for order in (several_cpus, several_cpus[::-1]))
    command = (*cpu_time, "--", compiled("spin"), "2", "600")
    run = pinfold.record_until(" 1/2 ", *QUICK, *command, env={"SCHEDULE": f"{forwards},{backwards}"})
    assert [one["pus"] for one in run.json["candidates"]] == [several_cpus, several_cpus[::-1]]


@pytest.mark.parametrize(("value", "texts"), [("0.", ["`.` is no CPU"]), ("0,,0", ["a candidate is empty"])])
def test_a_variable_that_is_no_schedule_is_refused(
    pinfold: Pinfold, ran: list[str], value: str, texts: list[str]
) -> None:
    refused(pinfold.run("--", *ran, env={"SCHEDULE": value}), f"SCHEDULE={value}", *texts)


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["--schedule", ""], ["--schedule", "is empty", "such as 0,1"]),
        (["--schedule", "a-b"], ["--schedule", "`a", "such as 0-3,8"]),
        (["--physcpubind", str(NO_CPU)], [f"--physcpubind {NO_CPU}: CPU {NO_CPU} does not exist", "allowed are"]),
        (["--physcpubind", ""], ["--physcpubind", "names no CPU"]),
        (["--physcpubind", "x"], ["--physcpubind", "`x`", "such as 0-3,8"]),
        (["--cpunodebind", "9999"], ["--cpunodebind 9999: there is no NUMA node 9999", "there are 0"]),
        (["--cpunodebind", ""], ["--cpunodebind", "names no NUMA node"]),
        (["--cpunodebind", "x"], ["--cpunodebind", "`x`"]),
        (["--membind", "255"], ["--membind 255: there is no NUMA node 255", "there are 0"]),
        (["--membind", ""], ["--membind", "names no NUMA node", "there are 0"]),
        (["--interleave", "x"], ["--interleave", "`x`", "such as 0-3,8"]),
        (["--preferred", "0-1"], ["--preferred 0-1", "only one"]),
        (["--page-map", "single:255"], ["--page-map single:255: there is no NUMA node 255"]),
        (["--skip", "1,,2"], ["--skip"]),
        (["--machine", "synthetic:core:2 pu:1"], ["no program can be run there", "leave --machine out"]),
        (["--machine", "xml:machine.xml"], ["no program can be run there", "`pinfold machines`"]),
        (["--machine", "scripted:"], ["lacks its FILE"]),
        (["--machine", "scripted:/not/there.toml"], ["/not/there.toml", "No such file"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_options_that_fit_no_machine_are_refused(
    pinfold: Pinfold, ran: list[str], arguments: list[str], texts: list[str]
) -> None:
    command = [] if arguments[1].startswith("scripted:") else ["--", *ran]
    refused(pinfold.run(*arguments, *command), *texts)


def test_the_error_for_an_unknown_machine_lists_the_known_ones(pinfold: Pinfold, ran: list[str]) -> None:
    run = pinfold.run("--machine", "opteron", "--", *ran)
    assert run.status == FAILURE
    assert run.out == ""
    for kind in ("xml:FILE", "fsroot:DIR", "synthetic:SPEC", "scripted:FILE"):
        assert kind in run.err


def test_a_schedule_must_be_within_the_requested_cpus(
    pinfold: Pinfold, ran: list[str], several_cpus: list[int]
) -> None:
    first, second = several_cpus[:2]
    run = pinfold.run("--physcpubind", str(first), "--schedule", cpu_list([first, second]), "--", *ran)
    refused(run, f"CPU {second}", "--physcpubind")


@pytest.mark.parametrize("file", ["/not/there/record.json", "/proc/record.json", "/"])
def test_an_unwritable_record_is_refused_before_the_program_runs(pinfold: Pinfold, ran: list[str], file: str) -> None:
    refused(pinfold.run("--json", file, "--", *ran), f"--json {file}")


def test_an_existing_tracer_is_reported(pinfold: Pinfold, ran: list[str]) -> None:
    """A process has one tracer: under strace with -f, the program cannot be followed."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    if subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("strace does not work here")
    refused(pinfold.run("--", *ran, prefix=["strace", "-f", "-o", "/dev/null"]), "ptrace")
