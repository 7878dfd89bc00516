"""Shared by the tests of the whole binary: the binary itself, programs for it to run, a terminal, and time limits.

The binary is `$PINFOLD`, else target/release/pinfold, else target/debug/pinfold. No test waits for a time to pass:
`eventually` waits for a condition, and fails only after a time that no working program needs.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from guest_machine import KERNEL, Guest, SchedulerGuest, missing, missing_scheduler

ROOT = Path(__file__).resolve().parent.parent

#: A search of about a second.
QUICK = ("-t", "300ms", "--warm-up", "50ms", "--initialise", "100ms", "--interval", "30ms")

#: The usual interval. The option asks for a measurement, also on a machine on which no placement differs from another.
MEASURED = ("--interval", "100ms")

#: The seconds after which a missing event counts as an error.
PATIENCE = 120

#: Variables for pinfold or an OpenMP runtime that tests must not inherit from the caller.
OPINIONS = re.compile(r"(OMP|GOMP|KMP|PINFOLD|SLURM|WORKLOAD)_(?!DB$|CLAIMS$).*|SCHEDULE|LD_PRELOAD|ASAN_OPTIONS")

#: A command that prints the path of the agent which it has itself.
AGENT_OF_COMMAND = 'grep -o -m 1 "/.*agent.so" /proc/self/maps'

CPUS = sorted(os.sched_getaffinity(0))

#: Locked by each test that uses an emulated machine.
SHARED_MACHINE = KERNEL.parent / "lock"

#: Where a line that was too long goes on.
CONTINUED = re.compile(r"\npinfold(\[rank \d+\])?: {5,}")

Value = TypeVar("Value")


def pytest_configure() -> None:
    """Restore the default of signals that the caller ignored, as nohup does, because programs inherit this."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End an emulated machine in which a test has failed: the next test boots another one."""
    report = yield
    guest = getattr(item, "funcargs", {}).get("guest")
    if report.failed and isinstance(guest, Guest):
        guest.give_up()
    return report


def eventually(condition: Callable[[], Value], what: str) -> Value:
    """Return the value of `condition` as soon as it is true."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.005)
    return value


def alive(process: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def masks(process: int) -> dict[int, set[int]]:
    """Return the CPUs of each thread of a process, by thread."""
    return {int(thread): os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{process}/task")}


def kill_with_guard(process: "subprocess.Popen[str]") -> None:
    """Kill a pinfold together with its guard, so that nothing is rolled back."""
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if Path(f"/proc/{child}/comm").read_text() == "pinfold-guard\n":
            os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.wait()


def cpu_list(cpus: Sequence[int]) -> str:
    """Format CPUs for the command line."""
    return ",".join(map(str, cpus))


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without variables that affect pinfold, and with `changes`."""
    return {name: value for name, value in os.environ.items() if not OPINIONS.fullmatch(name)} | dict(changes or {})


@contextmanager
def patience(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Kill a process after a time that no working program needs, so that no test waits endlessly."""
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def unwrapped(text: str) -> str:
    """Return pinfold's lines as they were before they were made to fit a terminal."""
    return CONTINUED.sub(" ", text)


def printed(process: "subprocess.Popen[str]", pattern: str) -> str:
    """Read what pinfold prints until it matches, also across wrapped lines; return all of it, unwrapped."""
    assert process.stderr
    lines = ""
    with patience(process):
        for line in process.stderr:
            lines += line
            if re.search(pattern, unwrapped(lines)):
                break
    assert re.search(pattern, unwrapped(lines)), f"pinfold ended without {pattern!r}:\n{lines}"
    return unwrapped(lines)


@dataclass(frozen=True)
class Run:
    """An ended run of pinfold. `err` is unwrapped."""

    status: int
    out: str
    err: str
    json: dict[str, Any] = field(default_factory=dict)

    def said(self, text: str) -> int:
        """Count how often pinfold printed this."""
        return sum(line.startswith("pinfold: ") and text in line for line in self.err.splitlines())


@dataclass(frozen=True)
class Pinfold:
    """The binary, and a folder for a single test."""

    binary: Path
    folder: Path

    def command(self, *arguments: str | Path) -> list[str]:
        """Return the words of `pinfold run ARGUMENTS`. The program is measured on every machine."""
        words = [str(word) for word in arguments]
        measured = () if "--interval" in words else MEASURED
        return [str(self.binary), "run", *measured, *words]

    def start(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None, prefix: Sequence[str] = (), **options: Any
    ) -> "subprocess.Popen[str]":
        """Start `pinfold run ARGUMENTS`, with pipes for the standard streams."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            [*prefix, *self.command(*arguments)], env=environment(env), text=True, **(pipes | options)
        )

    def run(
        self,
        *arguments: str | Path,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        **options: Any,
    ) -> Run:
        """Run `pinfold run ARGUMENTS` to its end."""
        process = self.start(*arguments, env=env, prefix=prefix, **options)
        out, err = process.communicate(stdin, timeout=PATIENCE)
        return Run(process.returncode, out or "", unwrapped(err or ""))

    def record(self, *arguments: str | Path, **options: Any) -> Run:
        """Run `pinfold run --json FILE ARGUMENTS` to its end, and read the file."""
        file = self.folder / "record.json"
        run = self.run("--json", file, *arguments, **options)
        assert file.exists(), run.err
        return Run(run.status, run.out, run.err, json.loads(file.read_text()))

    def record_until(self, pattern: str, *arguments: str | Path, **options: Any) -> Run:
        """Run `pinfold run -v --json FILE ARGUMENTS` until it prints this, and end the program; read the file."""
        file = self.folder / "record.json"
        process = self.start("-v", "--json", file, *arguments, **options)
        with patience(process):
            before = printed(process, pattern)
            process.terminate()
            out, err = process.communicate()
        return Run(process.returncode, out, unwrapped(before + err), json.loads(file.read_text()))


@pytest.fixture(scope="session")
def binary() -> Path:
    """Return the binary under test."""
    places = [ROOT / "target" / profile / "pinfold" for profile in ("release", "debug")]
    if given := os.environ.get("PINFOLD"):
        places = [Path(given).resolve()]
    found = next((place for place in places if place.exists()), None)
    assert found, f"there is no {' or '.join(map(str, places))}; `make build` builds the binary"
    return found


@pytest.fixture(autouse=True)
def own_database(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test an empty behaviour database and a folder of claims: no run depends on earlier or other ones."""
    monkeypatch.setenv("PINFOLD_CLAIMS", str(tmp_path_factory.mktemp("claims")))
    monkeypatch.setenv("PINFOLD_DB", str(tmp_path_factory.getbasetemp() / f"{uuid.uuid4()}.db"))


@pytest.fixture
def pinfold(binary: Path, tmp_path: Path) -> Pinfold:
    """Return `pinfold run`."""
    return Pinfold(binary, tmp_path)


@pytest.fixture(scope="session")
def agent(binary: Path) -> Path:
    """Return the agent that is built beside the binary. The binary contains a copy of it."""
    found = binary.parent.parent / "agent" / "libpinfold_agent.so"
    assert found.exists(), f"there is no {found}; `make -C agent` builds it"
    return found


@pytest.fixture(scope="session")
def workload(agent: Path) -> Callable[[str], Path]:
    """Return a function that finds a workload by its name."""
    folder = ROOT / "target" / "workloads"

    def find(name: str) -> Path:
        found = folder / name
        assert found.exists(), f"there is no {found}; `make -C workloads` builds it"
        return found

    return find


@dataclass(frozen=True)
class Sweep:
    """Records workloads and sweeps the recordings."""

    binary: Path
    workload: Callable[[str], Path]

    def __call__(
        self, folder: Path, programs: Mapping[str, Sequence[str]], threads: int, machine: str, *spaces: str
    ) -> Path:
        """Record `programs`, names with arguments, and return their data set of these spaces on a simulated machine."""
        recordings = [folder / f"{name}.pft" for name in programs]
        for recording, (name, arguments) in zip(recordings, programs.items(), strict=True):
            self._run("record", "-o", recording, "--", self.workload(name), "--threads", str(threads), *arguments)
        data = folder / "data.parquet"
        options = [word for space in spaces for word in ("--space", space)]
        self._run("sweep", "--machine", machine, *options, "-o", data, *recordings)
        return data

    def _run(self, *words: str | Path) -> None:
        command = [str(word) for word in (self.binary, *words)]
        subprocess.run(command, env=environment(), check=True, capture_output=True, timeout=PATIENCE)


@pytest.fixture(scope="session")
def sweep(binary: Path, workload: Callable[[str], Path]) -> Sweep:
    """Return a function that makes a data set of workloads."""
    return Sweep(binary, workload)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that compiles a program of tests/programs, once, by `compiler` with `flags`."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_once(name: str, *flags: str, compiler: str = "gcc") -> Path:
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
        program = folder / "-".join([name, compiler, *(flag.strip("-") for flag in flags)])
        if not program.exists():
            suffix = "cpp" if compiler.endswith("++") else "c"
            source = ROOT / "tests" / "programs" / f"{name}.{suffix}"
            options = ["-O1", "-g", "-Wall", "-Wextra", "-pthread", *flags]
            command = [compiler, *options, "-o", str(program), str(source)]
            built = subprocess.run(command, capture_output=True, text=True, check=False)
            if compiler != "gcc" and built.returncode != 0:
                pytest.skip(f"{compiler} {' '.join(flags)} does not work here: {built.stderr.splitlines()[0]}")
            assert built.returncode == 0, built.stderr
        return program

    return compile_once


@pytest.fixture(scope="session")
def several_cpus() -> list[int]:
    """Return the allowed CPUs, of which there are several."""
    if len(CPUS) < 2:
        pytest.skip("only one CPU is allowed here: pinned and unpinned threads cannot be distinguished")
    return CPUS


@pytest.fixture(scope="session")
def cpu_time(binary: Path) -> tuple[str, str]:
    """Return the option that compares by processor time, which every machine counts if it allows counting."""
    option = ("-e", "task-clock")
    tried = subprocess.run([binary, "run", *option, "--", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(tried.stderr.strip())
    return option


class Terminal:
    """A terminal with a program that is a session leader and has the terminal's foreground."""

    def __init__(self, *command: str, env: Mapping[str, str] | None = None) -> None:
        """Start the program."""
        self.shown = ""
        self.status: int | None = None
        variables = environment({"TERM": "dumb", "PS1": "$ ", **(env or {})})
        self.process, self._master = pty.fork()
        if self.process == 0:
            try:
                os.execvpe(command[0], command, variables)
            finally:
                os._exit(255)

    def type(self, text: str) -> None:
        """Type this."""
        os.write(self._master, text.encode())

    def _read(self) -> bool:
        """Read more of the terminal's output; return whether more may follow."""
        readable, _, _ = select.select([self._master], [], [], PATIENCE)
        assert readable, f"the terminal shows nothing more than {self.shown!r}"
        try:
            more = os.read(self._master, 65536)
        except OSError:
            return False  # No process has the terminal open any more.
        self.shown += more.decode(errors="replace").replace("\r\n", "\n")
        return bool(more)

    def until(self, pattern: str) -> re.Match[str]:
        """Wait until the terminal shows this, and drop all text up to its end."""
        while not (match := re.search(pattern, self.shown)):
            assert self._read(), f"the program has ended without showing {pattern!r}: {self.shown!r}"
        self.shown = self.shown[match.end() :]
        return match

    def end(self) -> int:
        """Wait for the program's end and return its exit status; `shown` has the terminal's output up to the end."""
        while self._read():
            pass
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return self.status

    def hang_up(self) -> None:
        """Close the terminal."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def close(self) -> None:
        """Close the terminal and kill the program."""
        self.hang_up()
        if self.status is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Return a function that runs a program in a terminal."""
    open_ones: list[Terminal] = []

    def start(*command: str | Path, env: Mapping[str, str] | None = None) -> Terminal:
        open_ones.append(Terminal(*map(str, command), env=env))
        return open_ones[-1]

    yield start
    for one in open_ones:
        one.close()


@pytest.fixture(scope="session")
def uprobes() -> None:
    """Skip where the kernel has no uprobes, or does not allow them."""
    if not Path("/sys/bus/event_source/devices/uprobe/type").exists():
        pytest.skip("this kernel offers no uprobes")
    capabilities = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    perfmon, sys_admin = 1 << 38, 1 << 21
    if not int(capabilities, 16) & (perfmon | sys_admin):
        pytest.skip("uprobes need CAP_PERFMON, which we lack")


@pytest.fixture(autouse=True)
def share_of_the_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test marked `quiet` run while no test beside it uses an emulated machine.

    Two emulated machines at once, of eight CPUs each, are slow and unsteady where few CPUs emulate them.
    """
    if not {"guest", "scheduler_guest"} & set(request.fixturenames):
        yield
        return
    is_quiet = request.node.get_closest_marker("quiet") is not None
    SHARED_MACHINE.parent.mkdir(parents=True, exist_ok=True)
    with SHARED_MACHINE.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if is_quiet else fcntl.LOCK_SH)
        yield


def _emulated(kind: type[Guest], why: str | None, parts: tuple[Path, Path, Path]) -> Iterator[Guest]:
    """Give an emulated machine to the tests, and end it after them; skip them where something is missing."""
    if why:
        pytest.skip(why)
    machine = kind(*parts)
    yield machine
    machine.give_up()


@pytest.fixture(scope="session")
def guest(binary: Path, agent: Path, workload: Callable[[str], Path]) -> Iterator[Guest]:
    """Return the emulated machine of four nodes, which all tests share."""
    yield from _emulated(Guest, missing(), (binary, agent, workload("stream").parent))


@pytest.fixture(scope="module")
def scheduler_guest(binary: Path, agent: Path, workload: Callable[[str], Path]) -> Iterator[Guest]:
    """Return an emulated machine whose kernel can load a scheduler (sched_ext), which the tests of a file share."""
    yield from _emulated(SchedulerGuest, missing_scheduler(), (binary, agent, workload("stream").parent))


@pytest.fixture
def small_pages(guest: Guest) -> Iterator[None]:
    """Let the kernel make no huge pages, in which pages of several threads or nodes would lie together."""
    setting = "/sys/kernel/mm/transparent_hugepage/enabled"
    before = guest.check(f"cat {setting}").partition("[")[2].partition("]")[0]
    guest.check(f"echo never > {setting}")
    yield
    guest.check(f"echo {before} > {setting}")


@pytest.fixture(scope="session")
def python() -> str:
    """Return the Python that runs the tests."""
    return sys.executable
