"""The description of an application: ``applications/NAME/application.toml``.

docs/formats/internals/applications.md describes the keys. A description has either runs, or the reason why the
application is not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from pinfold.split import APPLICATIONS, Part, part

FOLDER = Path("applications")
FILE = "application.toml"

FIELDS = (
    "benchmarks",
    "bioinformatics",
    "compression",
    "databases and servers",
    "earth and sky",
    "engineering",
    "linear algebra and machine learning",
    "molecular simulation",
    "search and optimisation",
    "tools",
    "video and images",
)

THREADS_OF = ("OpenMP", "pool", "server")
"""Who makes the threads: an OpenMP runtime, whose regions are known; the program itself; a server with clients."""

INSTRUCTIONS = re.compile(r"[0-9]+[kMG]?")

_TEXTS = ("summary", "field", "licence")
_RUN_TEXTS = ("input", "threads_of", "recorded")
_OPTIONAL: dict[str, Any] = {"packages": [], "python": [], "prepare": "", "load": "", "port": None, "other_threads": 0}
_RUN = {"name", "threads", "command", "phases"}


@dataclass(frozen=True)
class Phase:
    """A part of a run: so many instructions from an instruction on, counted over all threads."""

    name: str
    begin: str
    length: str


@dataclass(frozen=True)
class Run:
    """One run of an application, with one input and one number of threads.

    Attributes
    ----------
    application, name : str
        The application, and the run without its number of threads.
    threads : int
        The threads that exist at the same time.
    command : str
        The command line; ``{threads}``, ``{workers}``, ``{here}``, ``{python}`` and ``{phase}`` are replaced.
    environment : mapping of str to str
        More variables of its environment.
    phases : tuple of Phase
        The parts of it that are recorded.
    """

    application: str
    name: str
    threads: int
    command: str
    environment: Mapping[str, str]
    phases: tuple[Phase, ...]

    def title(self, phase: Phase) -> str:
        """Return the name of a phase of it, which is the value of ``command`` in data sets."""
        return f"{self.application} {self.name} {self.threads} {phase.name}"


@dataclass(frozen=True)
class Application:
    """A real application (docs/formats/internals/applications.md has the meaning of the keys)."""

    name: str
    file: Path
    summary: str
    field: str
    licence: str
    input: str
    threads_of: str
    recorded: str
    packages: tuple[str, ...]
    python: tuple[str, ...]
    prepare: str
    load: str
    port: int | None
    other_threads: int
    not_recorded: str | None
    runs: tuple[Run, ...]

    @property
    def part(self) -> Part:
        """The part of the split that it is in."""
        return part(self.name)


def read(root: Path) -> list[Application]:
    """Read all descriptions, in the order of the names.

    Raises:
        ValueError: if one is not valid, or the split lists other applications.
    """
    found = [read_one(file) for file in sorted((root / FOLDER).glob(f"*/{FILE}"))]
    names = {application.name for application in found}
    if missing := sorted(set(APPLICATIONS) - names):
        raise ValueError(f"{FOLDER} has no {missing[0]}/{FILE}, but pinfold.split names {missing[0]}")
    if unknown := sorted(names - set(APPLICATIONS)):
        raise ValueError(f"{FOLDER}/{unknown[0]} is not in pinfold.split: add the name there, before it is recorded")
    return found


def read_one(file: Path) -> Application:
    """Read one description.

    Raises:
        ValueError: if it is not valid; it names the file and the key.
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        return _application(file, table)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from error


def _application(file: Path, table: dict[str, Any]) -> Application:
    for key in ("name", *_TEXTS, *(_RUN_TEXTS if "run" in table else ["not_recorded"])):
        if not isinstance(table.get(key), str) or not table[key]:
            raise ValueError(f"`{key}` is missing, or no text")
    if unknown := sorted(set(table) - {"name", *_TEXTS, *_RUN_TEXTS, *_OPTIONAL, "run", "not_recorded"}):
        raise ValueError(f"`{unknown[0]}` is no key of an application")
    name = table["name"]
    if file.parent.name != name:
        raise ValueError(f"`name` is {name}, and the folder {file.parent.name}")
    _one_of("field", table["field"], FIELDS)
    if "run" in table:
        _one_of("threads_of", table["threads_of"], THREADS_OF)
    values: dict[str, Any] = {key: table.get(key, default) for key, default in _OPTIONAL.items()}
    runs = tuple(run for entry in table.get("run", []) for run in _runs(name, entry))
    if bool(runs) == ("not_recorded" in table):
        raise ValueError("give either `run` tables or `not_recorded` with the reason")
    if not values["packages"] and not values["python"]:
        raise ValueError("give the `packages` of Debian or `python`, the packages of PyPI")
    return Application(
        name=name,
        file=file,
        **{key: table.get(key, "") for key in (*_TEXTS, *_RUN_TEXTS)},
        **(values | {"packages": tuple(values["packages"]), "python": tuple(values["python"])}),
        not_recorded=table.get("not_recorded"),
        runs=runs,
    )


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"`{key}` is {value}; it is one of {', '.join(allowed)}")


def _runs(application: str, entry: Mapping[str, Any]) -> Iterator[Run]:
    if missing := sorted(_RUN - set(entry)):
        raise ValueError(f"a run has no `{missing[0]}`")
    if unknown := sorted(set(entry) - _RUN - {"environment"}):
        raise ValueError(f"`{unknown[0]}` is no key of a run")
    phases = tuple(Phase(name, *_window(name, bounds)) for name, bounds in entry["phases"].items())
    if not phases:
        raise ValueError(f"run {entry['name']} has no phase")
    for threads in entry["threads"]:
        yield Run(application, entry["name"], threads, entry["command"], entry.get("environment", {}), phases)


def _window(phase: str, bounds: list[str]) -> tuple[str, str]:
    begin, length = bounds
    if not (INSTRUCTIONS.fullmatch(begin) and INSTRUCTIONS.fullmatch(length)):
        raise ValueError(f"phase {phase} is {bounds}: give its begin and length in instructions, as 200M")
    return begin, length
