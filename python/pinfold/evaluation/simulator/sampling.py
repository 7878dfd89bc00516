"""Sampled simulation compared with whole simulation: error, interval and speed.

Each window is recorded once and swept twice over a few configurations, whole and with ``--sampled``. The interval of a
row should have the time of the whole simulation in 19 of 20 cases. The speed is the accesses of all configurations over
the processor time of the sweep, which includes both readings of the recording.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

from pinfold.evaluation.section import PINFOLD, Part, Table, output, record

MACHINE = "e5-4650x4"

#: Threads on one node and on all, with pages where they are touched and spread.
SPACE = """
[[configurations]]
nodes = [1, 4]
thread_map = "scatter"
page_map = ["first_touch", "interleave"]
"""

#: Programs of workloads/ with sizes beyond the private caches, and numbers of threads: 20 windows.
PROGRAMS = (
    ("stream --size 96M --iterations 2", (4, 8)),
    ("stencil --size 64M --iterations 2", (4, 8)),
    ("spmv --size 64M --iterations 3", (8,)),
    ("graph_chase --size 64M --iterations 2", (4, 8)),
    ("fft --size 8M --iterations 2", (4, 8)),
    ("multigrid --size 9M --iterations 2", (8,)),
    ("hash_join --size 32M --iterations 1", (4, 8)),
    ("kmeans --size 4M --iterations 2", (8,)),
    ("sort --iterations 1", (4, 8)),
    ("histogram --iterations 1", (8,)),
    ("lu --iterations 1", (8,)),
    ("nbody --iterations 1", (8,)),
    ("random_access --size 64M --iterations 20 --mode dependent", (8,)),
    ("random_access --size 64M --iterations 20 --mode independent", (8,)),
)

#: The windows of ``make evaluation-quick``.
QUICK = 2


@dataclass(frozen=True)
class Pair:
    """One configuration of one window, simulated whole and sampled.

    Attributes
    ----------
    window : str
        The program with its arguments.
    whole : float
        Seconds of the whole simulation.
    sampled : float
        Seconds by the sample.
    half_width : float or None
        Half of the width of the interval over the time; None if the sample does not say it.
    share : float
        The share of the accesses that was simulated.
    """

    window: str
    whole: float
    sampled: float
    half_width: float | None
    share: float

    @property
    def error(self) -> float:
        """The relative error of the sample."""
        return self.sampled / self.whole - 1

    @property
    def held(self) -> bool:
        """Whether the interval has the time of the whole simulation."""
        return self.half_width is not None and abs(self.whole - self.sampled) <= self.half_width * self.sampled


@dataclass(frozen=True)
class Window:
    """A window with its configurations, its accesses, and the processor time of both sweeps in seconds."""

    pairs: Sequence[Pair]
    accesses: int
    whole_seconds: float
    sampled_seconds: float


def paired(window: str, whole: Iterable[dict[str, Any]], sampled: Iterable[dict[str, Any]]) -> list[Pair]:
    """Compare the rows of whole programs, configuration by configuration."""
    pairs = []
    for one, other in zip(whole, sampled, strict=True):
        if one["region"] is None and other["simulated_share"] < 1:
            pair = Pair(window, one["time_s"], other["time_s"], other["time_error"], other["simulated_share"])
            pairs.append(pair)
    return pairs


def swept(recording: Path, space: str, *options: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Sweep a recording; return the rows of the whole program and the summary."""
    data, summary = recording.with_suffix(".parquet"), recording.with_suffix(".json")
    arguments = ["--quiet", "--force", "--machine", MACHINE, "--space", space, "-o", str(data), "--json", str(summary)]
    output([str(PINFOLD), "sweep", *arguments, *options, str(recording)])
    rows = pyarrow.parquet.read_table(data).to_pylist()
    written: dict[str, Any] = json.loads(summary.read_text())
    return [row for row in rows if row["region"] is None], written


def accesses_of(recording: Path) -> int:
    """Return the number of data accesses in a recording."""
    info = json.loads(output([str(PINFOLD), "trace", "info", "--json", str(recording)]))
    return sum(thread["reads"] + thread["writes"] for thread in info["threads"])


def window_of(command: str, threads: int, folder: Path) -> Window:
    """Record a window and sweep it both ways."""
    name, *arguments = command.split()
    recording, space = folder / f"{name}-{threads}.pft", folder / "space.toml"
    space.write_text(SPACE)
    record([f"target/workloads/{name}", "--threads", str(threads), *arguments], recording)
    whole, whole_summary = swept(recording, str(space))
    sampled, sampled_summary = swept(recording, str(space), "--sampled")
    pairs = paired(f"{command}, {threads} threads", whole, sampled)
    seconds = (whole_summary["processor_seconds"], sampled_summary["processor_seconds"])
    return Window(pairs, accesses_of(recording), *seconds)


def speed(quick: bool, folder: Path) -> float:
    """Return millions of accesses a second and core of dependent random accesses, over many configurations."""
    iterations = 5 if quick else 40
    command = ["random_access", "--threads", "8", "--size", "64M", "--mode", "dependent"]
    recording = folder / "speed.pft"
    record([f"target/workloads/{command[0]}", *command[1:], "--iterations", str(iterations)], recording)
    _, summary = swept(recording, "numa" if quick else "numa+prefetch", "--sampled")
    return float(accesses_of(recording) * summary["configurations"] / summary["processor_seconds"] / 1e6)


def figures(windows: Sequence[Window]) -> dict[str, Any]:
    """Return the figures of all windows that were sampled; a figure of no window is missing."""
    pairs = [pair for window in windows for pair in window.pairs]
    if not pairs:
        return {"sampling_coverage": None, "sampling_median_error_percent": None}
    errors = [100 * abs(pair.error) for pair in pairs]
    return {
        "sampling_coverage": statistics.mean(pair.held for pair in pairs),
        "sampling_median_error_percent": statistics.median(errors),
        "sampling_worst_error_percent": max(errors),
        "sampling_windows": len({pair.window for pair in pairs}),
        "sampling": {"simulated": True, "machine": MACHINE, "rows": [rounded(pair) for pair in pairs]},
    }


def rounded(pair: Pair) -> dict[str, Any]:
    """Return a row of the JSON file."""
    return {
        "window": pair.window,
        "whole_s": pair.whole,
        "sampled_s": pair.sampled,
        "error": pair.error,
        "time_error": pair.half_width,
        "simulated_share": pair.share,
        "held": pair.held,
    }


def sampling(quick: bool) -> Part:
    """Sweep all windows whole and sampled."""
    wanted = [(command, threads) for command, counts in PROGRAMS for threads in counts]
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        windows = [window_of(*window, folder) for window in (wanted[:QUICK] if quick else wanted)]
        data = figures(windows)
        data["sampling_million_accesses_per_second"] = speed(quick, folder)
    rows = []
    for window in windows:
        for pair in window.pairs[:1]:
            widest = max((each.half_width or 0.0 for each in window.pairs), default=0.0)
            worst = max(window.pairs, key=lambda each: abs(each.error))
            held = sum(each.held for each in window.pairs)
            figures_of = (f"{100 * worst.error:+.1f} %", f"{100 * widest:.1f} %", f"{held} of {len(window.pairs)}")
            rows.append([pair.window, f"{window.accesses / 1e6:.0f} M", f"{100 * pair.share:.1f} %", *figures_of])
    columns = ["window", "accesses", "simulated", "worst error", "widest half-width", "held"]
    text = (
        f"**Simulated**: `pinfold sweep --sampled` against the whole simulation on {MACHINE}, in "
        f"{len(rows)} windows of 4 configurations. The time of the whole simulation should be in 95 % of the intervals."
    )
    command = f"pinfold sweep --sampled --machine {MACHINE} --space numa+prefetch -o data.parquet random_access.pft"
    return Part(data, Table(columns, rows), text, [command])
