"""Programs in other languages: what counts their progress, and whether their threads are pinned.

docs/guide/languages.md has the same table. `make test-release` runs this, with RELEASE=1 in the environment; what is
not installed is skipped. Each program (tests/programs/languages) prints how many CPUs its runtime sees, and works in
two threads. LANGUAGES=FILE in the environment writes what was found to a file, as JSON, one line for each language.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import CPUS, PATIENCE, QUICK, ROOT, Pinfold, cpu_list, environment, patience

PROGRAMS = ROOT / "tests/programs/languages"
PAGE = ROOT / "docs/guide/languages.md"


@dataclass(frozen=True)
class Language:
    """A language, and what was tried.

    Attributes
    ----------
    name : str
        As in the table.
    tools : tuple of str
        The programs that building and running it needs.
    version : tuple of str
        The command that prints its version.
    metric : str
        What counts the program's progress.
    build : callable
        Builds the program in a folder, and returns its command without the number of seconds.
    """

    name: str
    tools: tuple[str, ...]
    version: tuple[str, ...]
    metric: str
    build: Callable[[Path], list[str]]


def made(folder: Path, *command: str | Path) -> None:
    env = environment({"GOCACHE": str(folder / "go"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"})
    done = subprocess.run(list(map(str, command)), cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def of_python(_: Path) -> list[str]:
    return [sys.executable, str(PROGRAMS / "work.py")]


def of_java(folder: Path) -> list[str]:
    home = Path(str(shutil.which("javac"))).resolve().parent.parent / "include"
    headers = [f"-I{folder}" for folder in (home, home / "linux", ROOT / "agent")]
    made(folder, "cc", "-O2", "-shared", "-fPIC", *headers, "-o", "libheartbeat.so", PROGRAMS / "heartbeat.c")
    made(folder, "javac", "-d", folder, PROGRAMS / "Work.java")
    return ["java", f"-Djava.library.path={folder}", "-cp", str(folder), "Work"]


def of_go(folder: Path) -> list[str]:
    made(folder, "go", "build", "-o", "work", PROGRAMS / "work.go")
    return [str(folder / "work")]


def of_rust(folder: Path) -> list[str]:
    made(folder, "rustc", "-O", "--edition", "2024", "-o", "work", PROGRAMS / "work.rs")
    return [str(folder / "work")]


def of_fortran(folder: Path) -> list[str]:
    made(folder, "gfortran", "-O2", "-fopenmp", "-o", "work", PROGRAMS / "work.f90")
    return [str(folder / "work")]


LANGUAGES = (
    Language("Fortran", ("gfortran",), ("gfortran", "--version"), "regions", of_fortran),
    Language("Python", (), (sys.executable, "--version"), "heartbeat", of_python),
    Language("Java", ("java", "javac"), ("java", "-version"), "heartbeat", of_java),
    Language("Go", ("go",), ("go", "version"), "uprobe:main.piece", of_go),
    Language("Rust", ("rustc",), ("rustc", "--version"), "uprobe:piece", of_rust),
)


#: Databases, with what counts their work.
DATABASES = {"PostgreSQL": "uprobe:ExecutorRun", "Redis": "uprobe:processCommand"}


@dataclass(frozen=True)
class Found:
    """What was found of a language."""

    language: Language
    record: dict[str, object]
    #: The CPUs that the program's runtime saw, and the number of threads that were pinned at the same time.
    seen: int
    pinned: int


def pinned_threads(process: int) -> int:
    """Return how many threads of a process may run on one CPU only."""
    masks = []
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        try:
            masks.append(re.search(r"Cpus_allowed_list:\s*(\S+)", status.read_text()))
        except OSError:
            continue
    return sum(mask is not None and mask[1].isdigit() for mask in masks)


@pytest.fixture(params=LANGUAGES, ids=[language.name for language in LANGUAGES])
def found(request: pytest.FixtureRequest, pinfold: Pinfold, several_cpus: list[int]) -> Found:
    """Run the program of a language under pinfold, pinned to two CPUs."""
    language: Language = request.param
    if "RELEASE" not in os.environ:
        pytest.skip("it takes 5 s; `make test-release` runs it")
    if lacking := [tool for tool in language.tools if shutil.which(tool) is None]:
        pytest.skip(f"{' and '.join(lacking)} not installed")
    if language.metric.startswith("uprobe:") and os.geteuid() != 0:
        pytest.skip("only root may set uprobes")
    command = language.build(pinfold.folder)
    file = pinfold.folder / "run.json"
    options = ["--policy", "fixed", "--schedule", cpu_list(several_cpus[1::-1]), "--metric", language.metric]
    process = pinfold.start(*options, *QUICK, "--json", file, "--", *command, "4")
    most, end = 0, time.monotonic() + PATIENCE
    with patience(process):
        while process.poll() is None and time.monotonic() < end:
            # A thread of pinfold has forked the program.
            for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
                try:
                    most = max([most, *(pinned_threads(int(child)) for child in children.read_text().split())])
                except OSError:
                    continue
            time.sleep(0.05)
        out, err = process.communicate()
    assert process.returncode == 0, err
    seen = re.search(r"cpus (\d+)", out)
    assert seen, out
    return Found(language, json.loads(file.read_text()), int(seen[1]), most)


def test_progress_is_counted_and_threads_are_pinned(found: Found) -> None:
    metric = found.record["metric"]
    assert isinstance(metric, dict)
    assert metric["name"] == found.language.metric
    rates = found.record["rates"]
    assert isinstance(rates, list)
    assert any(line["rate"] for line in rates), rates
    assert found.pinned >= 2
    # A runtime that starts pinned would make a thread for one CPU.
    assert found.seen == len(CPUS)
    done = subprocess.run(found.language.version, capture_output=True, text=True, check=True)
    version = (done.stdout or done.stderr).splitlines()[0]
    if path := os.environ.get("LANGUAGES"):
        line = {"language": found.language.name, "version": version, "metric": found.language.metric}
        with Path(path).open("a") as file:
            file.write(json.dumps(line | {"pinned": found.pinned}) + "\n")


def released(*tools: str | Path) -> None:
    """Skip a test of a database where it cannot run."""
    if "RELEASE" not in os.environ:
        pytest.skip("it takes 5 s; `make test-release` runs it")
    if lacking := [str(tool) for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"{' and '.join(lacking)} not installed")
    if os.geteuid() != 0:
        pytest.skip("only root may set uprobes")


def counted(file: Path, symbol: str) -> bool:
    """Return whether the calls of a function were counted in a run."""
    record = json.loads(file.read_text())
    name: str = record["metric"]["name"]
    return name == f"uprobe:{symbol}" and any(line["rate"] for line in record["rates"])


def test_redis_is_counted_by_its_commands(pinfold: Pinfold) -> None:
    released("redis-server", "redis-benchmark", "redis-cli")
    file, socket = pinfold.folder / "run.json", pinfold.folder / "redis"
    server = ("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", pinfold.folder)
    process = pinfold.start("--policy", "packed", "--metric", DATABASES["Redis"], *QUICK, "--json", file, "--", *server)
    with patience(process):
        while not socket.exists():
            assert process.poll() is None
            time.sleep(0.05)
        benchmark = ["redis-benchmark", "-s", str(socket), "-t", "get", "-n", "100000", "-c", "4", "-q"]
        subprocess.run(benchmark, check=True, capture_output=True, timeout=PATIENCE)
        subprocess.run(["redis-cli", "-s", str(socket), "shutdown", "nosave"], check=True, capture_output=True)
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert counted(file, "processCommand"), err


def test_postgresql_is_counted_by_its_statements(pinfold: Pinfold) -> None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    released("setpriv", *(folders[-1:] and [folders[-1] / "postgres", folders[-1] / "pgbench"]))
    if not folders:
        pytest.skip("PostgreSQL is not installed")
    programs = folders[-1]
    owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"
        made(folder, *owner, programs / "initdb", "-D", data, "-A", "trust")
        file = pinfold.folder / "run.json"
        metric = f"uprobe:{programs / 'postgres'}:ExecutorRun"
        server: list[str | Path] = [*owner, programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
        process = pinfold.start(
            "--policy", "packed", "--threads", "2", "--metric", metric, *QUICK, "--json", file, "--", *server
        )
        with patience(process):
            while not (folder / ".s.PGSQL.5432").exists():
                assert process.poll() is None
                time.sleep(0.05)
            client: list[str | Path] = [*owner, programs / "pgbench", "-h", folder]
            ready = [*map(str, owner), str(programs / "pg_isready"), "-q", "-h", str(folder)]
            while subprocess.run(ready, check=False).returncode != 0:
                time.sleep(0.05)
            made(folder, *client, "-i", "postgres")
            made(folder, *client, "-S", "-c", "2", "-T", "4", "postgres")
            made(folder, *owner, programs / "pg_ctl", "-D", data, "stop", "-m", "fast")
            _, err = process.communicate()
        assert process.returncode == 0, err
        assert counted(file, "ExecutorRun"), err


def test_the_table_has_each_language_with_its_metric() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    table = {row[0].strip("| "): row[2] for row in rows}
    for language in LANGUAGES:
        kind, _, symbol = language.metric.partition(":")
        assert f"`{kind}{':SYMBOL' if symbol else ''}`" in table[language.name], language.name
    for database, metric in DATABASES.items():
        assert f"`{metric}`" in table[database]
