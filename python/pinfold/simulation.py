"""Recordings on simulated machines, under policies of pinfold and policies of your own."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pinfold import _native, binary
from pinfold._native import Configuration
from pinfold.policy import Kept, Policy

if TYPE_CHECKING:
    from pinfold.plot import Plot

SomeFile = str | os.PathLike[str]


class Run:
    """A run that has ended: what ``pinfold run --json`` writes, with the keys of docs/formats/run.md.

    Times are in seconds of the machine, a simulated one or this one, and rates in the unit of the metric per second.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        """Store the document."""
        self.document = document

    @property
    def machine(self) -> str:
        """The name of the machine."""
        return str(self.document["machine"])

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return str(self.document["policy"])

    @property
    def seconds(self) -> float:
        """How long the program ran, with all that the policy cost."""
        return float(self.document["ran"])

    @property
    def simulated(self) -> bool:
        """Whether the program did not really run: nothing was measured in this run."""
        return bool(self.document["simulated"])

    @property
    def kind(self) -> str:
        """Where the values come from: ``live``, ``simulated`` or ``table``."""
        return str(self.document.get("machine_kind", "simulated" if self.simulated else "live"))

    def _word(self) -> str:
        return "replayed" if self.kind == "table" else "simulated"

    @property
    def repetitions(self) -> float:
        """The repetitions of the recorded or measured work, of all programs together.

        Only runs that are simulated or replayed have them.
        """
        return float(self.document["replay" if self.kind == "table" else "simulation"]["repetitions"])

    @property
    def speed(self) -> float:
        """Repetitions per second, over the whole run."""
        return self.repetitions / self.seconds

    @property
    def notes(self) -> list[str]:
        """The sentences of the policy and of the machine."""
        return [note["text"] for note in self.document["notes"]]

    @property
    def refused(self) -> list[str]:
        """Why the machine did not carry out decisions of the policy, each reason once."""
        return [refusal["why"] for refusal in self.document["refused"]]

    @property
    def programs(self) -> pa.Table:
        """A row for each program: ``name``, ``tasks``, ``pus``, ``repetitions``, ``speed``, ``paused`` and its events.

        A column of an event has the count of all tasks of the program. A replayed program has no ``pus`` and no events.
        """
        if self.kind == "table":
            replay = self.document["replay"]
            row = {"name": replay["program"], "tasks": replay["threads"], "repetitions": self.repetitions}
            return pa.Table.from_pylist([row | {"speed": self.speed, "paused": replay["paused"]}])
        rows = [
            {key: value for key, value in program.items() if key != "events"} | program["events"]
            for program in self.document["simulation"]["programs"]
        ]
        return pa.Table.from_pylist(rows)

    @property
    def rates(self) -> pa.Table:
        """The course of the run: ``at`` in seconds, and the rate of each metric; null if it was not read."""
        timeline = self.document["timeline"]
        metrics = {metric["name"]: pa.array(metric["rates"], pa.float64()) for metric in timeline["metrics"]}
        return pa.table({"at": pa.array(timeline["at"], pa.float64()), **metrics})

    @property
    def configurations(self) -> pa.Table:
        """What was applied when: ``at``, ``pus`` (null: unpinned), ``pages`` and ``prefetch`` (null: left alone)."""
        schema = pa.schema(
            [("at", pa.float64()), ("pus", pa.list_(pa.int64())), ("pages", pa.string()), ("prefetch", pa.string())]
        )
        return pa.Table.from_pylist(self.document["timeline"]["configurations"], schema)

    def save(self, path: SomeFile) -> None:
        """Write the record, for ``pinfold explain`` and ``pinfold report``."""
        Path(path).write_text(json.dumps(self.document) + "\n")

    def explain(self) -> str:
        """Return the reasons for each decision, as text."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "run.json")
            self.save(file)
            return binary.call(["explain", file])

    def report(self, path: SomeFile) -> Path:
        """Write a page that draws the machine with threads and pages on it over time, and return its path."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "run.json")
            self.save(file)
            binary.call(["report", file, "--output", path])
        return Path(path)

    def plot(self) -> Plot:
        """Draw the rate, the threads by node and the pages by node over time.

        Raises:
            ValueError: the record has no time line.
        """
        from pinfold import displays  # noqa: PLC0415 - matplotlib takes a second to load

        return displays.of_run(self.document)

    def __repr__(self) -> str:
        """Return the main figures."""
        if not self.simulated:
            return f"<Run of {self.policy} on {self.machine}: {self.seconds:.3f} s>"
        return (
            f"<Run of {self.policy} on {self.machine}, {self._word()}: {self.repetitions:.0f} repetitions in "
            f"{self.seconds:.3f} s, {self.speed:.4g} a second>"
        )

    def _repr_html_(self) -> str:
        """Return the main figures and the notes, for a notebook."""
        figures = {
            "machine": f"{self.machine} ({self._word()})" if self.simulated else self.machine,
            "policy": self.policy,
            "time": f"{self.seconds:.3f} s",
        }
        if self.simulated:
            figures |= {"repetitions": f"{self.repetitions:.0f}", "repetitions a second": f"{self.speed:.4g}"}
        rows = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in figures.items())
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return f"<table>{rows}</table>" + (f"<ul>{notes}</ul>" if notes else "")


def simulate(  # noqa: PLR0913 - each is a property of the run
    recordings: SomeFile | Sequence[SomeFile],
    machine: str,
    policy: str | Policy | Configuration = "auto",
    *,
    repeat: int | None = None,
    seed: int = 0,
    noise: float = 0.0,
    kernel: str | None = None,
    numa_balancing: bool = False,
    salvage: bool = False,
    db: SomeFile | None = None,
    options: Sequence[str] = (),
) -> Run:
    """Run a recording, or several side by side, on a simulated machine.

    Args:
        recordings: a recording, or several that run at the same time; a recording may be named more than once.
        machine: a name of `machines`, or the path of a model, ``FILE.toml``.
        policy: the name of a policy of pinfold (``pinfold run --policy help`` lists them), a `Policy` of your own, or a
            `Configuration` for the whole run.
        repeat: how often to repeat the recorded work. None repeats it until the policy has chosen. A `Policy` of your
            own signals its choice by ``Decision(done=True)``. A `Configuration` runs a hundred times.
        seed: of the scheduler and the noise; without `db`, the same seed gives the same run.
        noise: the standard deviation of a metric over a tenth of a second, in percent.
        kernel: the version of the simulated Linux, which places unpinned threads: ``"2.6.39"``, ``"3.10"``, ``"6.1"``
            (None), ``"6.12"`` or ``"7.2"``.
        numa_balancing: whether the automatic NUMA balancing of that Linux is on. It needs 6.1 or later.
        salvage: run a damaged recording up to the damage.
        db: with the name of a policy, the behaviour database that the run reads and adds to. A program that it knows
            starts where an earlier run was fastest. By default a simulated run has none.
        options: with the name of a policy, further options of ``pinfold run``, such as ``["--metric", "regions"]``.

    Returns:
        what happened.

    Raises:
        PinfoldError: a policy of pinfold cannot be run so; the text says why.
        ValueError: an unknown machine, a file that is no recording, a wrong value, or a decision that the machine
            cannot follow.
        Exception: whatever your policy raises; the run ends there.

    Caches and pages stay as they are between repetitions.
    """
    single = isinstance(recordings, str | os.PathLike)
    files: list[str] = [os.fspath(recordings)] if single else [os.fspath(file) for file in recordings]  # type: ignore[arg-type, union-attr]
    if isinstance(policy, str):
        known = [] if db is None else ["--db", os.fspath(db)]
        given = [*_given(repeat, seed, noise, salvage), *_linux(kernel, numa_balancing), *known]
        return _by_name(files, machine, policy, given, options)
    if options or db is not None:
        raise ValueError("options and db are for policies of pinfold, and this policy is your own: leave them out")
    if isinstance(policy, Configuration):
        policy, repeat = Kept(policy), 100 if repeat is None else repeat
    name = policy.name or type(policy).__name__
    document = _native.simulate(
        policy,
        name,
        files,
        machine,
        repeat=repeat,
        seed=seed,
        noise=noise,
        kernel=kernel,
        numa_balancing=numa_balancing,
        salvage=salvage,
    )
    return Run(json.loads(document))


def _given(repeat: int | None, seed: int, noise: float, salvage: bool) -> list[str]:
    """Return the options of ``pinfold run`` for these."""
    repeated = [] if repeat is None else ["--repeat", str(repeat)]
    noisy = ["--noise", f"{noise:g}"] if noise else []
    return [*repeated, "--seed", str(seed), *noisy, *(["--salvage"] if salvage else [])]


def _linux(kernel: str | None, numa_balancing: bool) -> list[str]:
    """Return the options of ``pinfold run`` for the simulated Linux."""
    placed = [] if kernel is None else ["--kernel", kernel]
    return [*placed, *(["--numa-balancing", "on"] if numa_balancing else [])]


def _by_name(files: Sequence[str], machine: str, policy: str, given: Sequence[str], options: Sequence[str]) -> Run:
    """Return the run under a policy of pinfold."""
    with tempfile.TemporaryDirectory() as folder:
        json_file = Path(folder, "run.json")
        words = ["run", "--machine", machine, "--policy", policy, *given, *options, "--json", str(json_file), *files]
        binary.call(words)
        return Run(json.loads(json_file.read_text()))
