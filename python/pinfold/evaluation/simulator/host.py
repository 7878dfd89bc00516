"""The workloads on this machine, executed natively and simulated on the machine's own model.

`pinfold calibrate --model` measures the machine once. Then, for every workload at three sizes, with one thread, two
threads on one PU, and two threads on two PUs:

1. It is executed natively, in several turns with all the others. The least time of an iteration counts, by the
   program's own clock. A run during which a hypervisor took processor time is thrown away and repeated. Only masks
   bind the threads, as with `taskset`.
2. Its iterations alone are recorded, and one of them is simulated after another one has warmed the caches.

The compared figures are the time itself, and the time relative to one thread at the same size, which decides between
placements.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.provenance import build
from pinfold.evaluation.section import PINFOLD, Part, Table, here, output, record, run_json

KIBI = 1024

# Sizes: inside the private caches, inside the last cache, beyond it. Where a size is an amount of work and not a
# working set, or work grows faster than the working set, three sizes that take about as long as those of the others.
BYTES = ("private", "shared", "beyond")
SIZES: dict[str, tuple[str, str, str]] = {
    "stream": BYTES,
    "random_access": BYTES,
    "stencil": BYTES,
    "compute": ("64k", "256k", "1M"),
    "pairs": ("16k", "256k", "1M"),
    "barrier": ("100", "400", "1000"),
    "imbalance": ("64k", "256k", "1M"),
    "false_sharing": ("8k", "32k", "128k"),
    "spmv": BYTES,
    "fft": BYTES,
    "lu": ("32k", "256k", "1M"),
    "kmeans": BYTES,
    "bfs": BYTES,
    "sort": BYTES,
    "nbody": ("12k", "24k", "48k"),
    "mandelbrot": ("4k", "16k", "64k"),
    "hash_join": BYTES,
    "graph_chase": BYTES,
    "pipeline": ("64k", "512k", "4M"),
    "monte_carlo": ("64k", "256k", "1M"),
    "histogram": BYTES,
    "multigrid": BYTES,
    "hubench": ("4k", "16k", "64k"),
    "lubench": ("64k", "256k", "1M"),
    "membench": BYTES,
}
# Threads that are not an OpenMP team have no regions that mark iterations.
WITHOUT_REGIONS = ("pairs", "pipeline")

RECORDED = 4  # Iterations of a recording: an even number, because some programs alternate between two arrays.
RUNS = 2  # Runs in a row of a turn.
TRIES = 5  # The most runs for one without stolen time.
LASTS = 0.05  # The least duration of a native run in seconds, without set-up.
REPEAT = 1000  # Simulated repetitions; only the first has cold caches.
DIFFERENT = 0.1  # Measured times with a smaller difference are not ordered.
FAR = 0.5  # A time, or a time relative to one thread, that is off by more is far off.
LARGEST = 128 << 20  # The largest size in bytes: recordings of larger ones take hours.


FOLDER = Path("target/evaluation/parts")
"""What was measured and simulated."""

EXPLANATIONS: dict[str, str] = {}
"""Why the simulated times of a workload are far off, by workload."""


@dataclass(frozen=True)
class Setting:
    """A number of threads and their PUs."""

    name: str
    pus: tuple[int, ...]

    @property
    def threads(self) -> int:
        """Return the number of threads."""
        return len(self.pus)


@dataclass
class Row:
    """One workload at one size: seconds per iteration by setting, measured and simulated."""

    workload: str
    size: str
    turns: dict[str, list[float]] = field(default_factory=dict)
    simulated: dict[str, float] = field(default_factory=dict)
    disturbed: int = 0
    """Measurements during which time was stolen in every try."""

    @property
    def real(self) -> dict[str, float]:
        """Return the least measured times."""
        return {name: min(times) for name, times in self.turns.items()}

    @property
    def spread(self) -> dict[str, float]:
        """Return the excess of the median measured times over the least, as a share."""
        return {name: statistics.median(times) / min(times) - 1 for name, times in self.turns.items()}

    def relative(self, times: dict[str, float], setting: str) -> float:
        """Return the time relative to one thread."""
        return times[setting] / times["one"]


def settings() -> list[Setting]:
    """Return the three settings, on the first and the last allowed CPU."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:  # noqa: PLR2004
        sys.exit("the comparison of two threads on one CPU and on two needs two CPUs; only one is allowed")
    first, last = allowed[0], allowed[-1]
    return [Setting("one", (first,)), Setting("together", (first, first)), Setting("apart", (first, last))]


def reported_last_level() -> int:
    """Return the size of the last-level cache in bytes, as the machine reports it.

    Calibration may find less, because other programs use the rest at that time, or because pinfold may not use it. What
    is to be beyond the cache at any time is beyond all of it.
    """

    def sizes(item: dict[str, Any]) -> list[tuple[int, int]]:
        cache = item["cache"]
        return [*([(cache["level"], cache["size"])] if cache else []), *itertools.chain(*map(sizes, item["children"]))]

    _, size = max(sizes(json.loads(output([str(PINFOLD), "topo", "--json"]))["tree"]))
    return size


def sizes_of(workload: str, model: dict[str, Any], reported: int) -> list[str]:
    """Return a workload's sizes, as in its command line; not the one beyond a last-level cache that is too large.

    Args:
        workload: its name.
        model: the model of the machine.
        reported: the size of the last-level cache that the machine reports.
    """
    caches = [cache["size"]["value"] for cache in model["cache"]]
    private, last = caches[-2], caches[-1]
    shared = private + min(last // 4, 4 * private)
    named = {"private": private // 8, "shared": shared, "beyond": 2 * (private + max(last, reported))}
    sizes = [(named[size], f"{named[size] // KIBI}k") if size in named else (0, size) for size in SIZES[workload]]
    return [words for size, words in sizes if size <= LARGEST]


def run_once(workload: str, size: str, setting: Setting, iterations: int) -> float:
    """Run a workload natively; the seconds of its iterations, by its own clock."""
    result = subprocess.run(
        program(workload, size, setting.threads, iterations),
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, set(setting.pus)),
        env={**os.environ, "OMP_PROC_BIND": "true" if len(set(setting.pus)) > 1 else "false"},
    )
    found = re.search(r"time ([0-9.e+-]+) s", result.stdout)
    if found is None:
        sys.exit(f"{workload} printed no time: {result.stdout}")
    return float(found[1])


def stolen() -> int:
    """Return the time that a hypervisor has taken from all processors, in ticks since the start (proc_stat(5))."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8])


def undisturbed(run: Callable[[], float]) -> tuple[float, bool]:
    """Repeat a run until no time was stolen during it, or the tries are over; its result, and whether that is so."""
    least: tuple[int, float] | None = None
    for _ in range(TRIES):
        before = stolen()
        seconds = run()
        taken = stolen() - before
        if taken == 0:
            return seconds, True
        least = min(least, (taken, seconds)) if least else (taken, seconds)
    assert least is not None
    return least[1], False


def iterations_of(workload: str, size: str, setting: Setting) -> int:
    """Return a number of iterations that lasts long enough for a measurement."""
    number = RECORDED
    while (time := run_once(workload, size, setting, number)) < LASTS:
        number = max(2 * number, min(100 * number, math.ceil(number * 1.2 * LASTS / max(time, 1e-6))))
    return number


def measure(rows: Sequence[Row], turns: int) -> None:
    """Measure all rows under all settings; a time is the least of all turns.

    A turn goes through all rows, so the turns of a row are minutes apart: on a shared machine disturbances come and go
    within minutes.
    """
    numbers: dict[tuple[str, str, str], int] = {}
    for _, row, setting in itertools.product(range(turns), rows, settings()):
        key = (row.workload, row.size, setting.name)
        if key not in numbers:
            numbers[key] = iterations_of(row.workload, row.size, setting)
        for _ in range(RUNS):
            seconds, calm = undisturbed(partial(run_once, row.workload, row.size, setting, numbers[key]))
            row.turns.setdefault(setting.name, []).append(seconds / numbers[key])
            row.disturbed += not calm


def program(workload: str, size: str, threads: int, iterations: int) -> list[str]:
    """Return a workload's command line."""
    command = [f"target/workloads/{workload}", "--threads", str(threads), "--size", size]
    return [*command, "--iterations", str(iterations)]


def region_of_iterations(workload: str, threads: int, file: Path) -> int:
    """Return the number of the region that is executed once in each iteration."""
    smallest = "64k" if SIZES[workload] is BYTES else SIZES[workload][0]
    # A number of iterations that no other region of any program has.
    iterations = 3
    record(program(workload, smallest, threads, iterations), file)
    info = json.loads(output([str(PINFOLD), "trace", "info", "--json", str(file)]))
    numbers = [number for number, region in enumerate(info["regions"]) if region["executions"] == iterations]
    if len(numbers) != 1:
        sys.exit(f"{workload} has {len(numbers)} regions that are executed once in an iteration")
    return numbers[0]


def simulated_seconds(machine: Path, setting: Setting, repeat: int, recording: Path) -> float:
    """Simulate a recording `repeat` times and return the seconds of a repetition."""
    schedule = ",".join(map(str, setting.pus))
    arguments = ["--machine", str(machine), "--policy", "fixed", "--schedule", schedule, "--repeat", str(repeat)]
    seconds: float = run_json([*arguments, str(recording)], [])["ran"]
    return seconds / repeat


def simulate(row: Row, machine: Path, folder: Path) -> None:
    """Record a row's workload and simulate it under all settings."""
    for threads in (1, 2):
        ours = [setting for setting in settings() if setting.threads == threads]
        if row.workload in WITHOUT_REGIONS:
            # The difference of two runs. More repetitions are simulated where an iteration is short.
            shortest = RECORDED << (len(SIZES[row.workload]) - 1 - SIZES[row.workload].index(row.size))
            files = {number: folder / f"{number}.pft" for number in (shortest, 2 * shortest)}
            for number, file in files.items():
                record(program(row.workload, row.size, threads, number), file)
            for setting in ours:
                times = [simulated_seconds(machine, setting, 1, file) for file in files.values()]
                row.simulated[setting.name] = (times[1] - times[0]) / shortest
        else:
            file = folder / "iterations.pft"
            region = region_of_iterations(row.workload, threads, file)
            record(program(row.workload, row.size, threads, RECORDED), file, "--region", str(region))
            for setting in ours:
                row.simulated[setting.name] = simulated_seconds(machine, setting, REPEAT, file) / RECORDED


def order_agreement(rows: Sequence[Row]) -> tuple[float | None, int]:
    """Return the share of correctly ordered pairs of settings, each at one workload and size, and the number of pairs.

    Only pairs whose measured times differ by more than `DIFFERENT` count.
    """
    right = []
    for row in rows:
        for one, other in itertools.combinations(row.real, 2):
            less, more = sorted((one, other), key=row.real.__getitem__)
            if row.real[more] > (1 + DIFFERENT) * row.real[less]:
                right.append(row.simulated[more] > row.simulated[less])
    return (sum(right) / len(right) if right else None), len(right)


def errors(rows: Sequence[Row]) -> list[float]:
    """Return the errors of all times relative to one thread, in percent."""
    return [
        100 * abs(row.relative(row.simulated, setting) / row.relative(row.real, setting) - 1)
        for row in rows
        for setting in row.real
        if setting != "one"
    ]


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the figures that show the accuracy of the simulator."""
    agreement, pairs = order_agreement(rows)
    absolute = [100 * abs(row.simulated[name] / row.real[name] - 1) for row in rows for name in row.real]
    return {
        "host_order_agreement": agreement,
        "host_order_pairs": pairs,
        "host_median_error_percent": statistics.median(errors(rows)),
        "host_median_time_error_percent": statistics.median(absolute),
    }


def far_off(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the workloads, sizes and settings whose time, or relative time, is far off, with the explanation."""
    found = []
    for row in rows:
        for name in row.real:
            of_time = row.simulated[name] / row.real[name] - 1
            of_relative = row.relative(row.simulated, name) / row.relative(row.real, name) - 1
            if max(abs(of_time), abs(of_relative)) > FAR:
                found.append(
                    {
                        **{"workload": row.workload, "size": row.size, "setting": name},
                        **{"time_error": of_time, "relative_error": of_relative},
                        "explanation": EXPLANATIONS.get(row.workload),
                    }
                )
    return found


def far_table(found: Sequence[dict[str, Any]]) -> Table:
    """Return what is far off as a table."""
    cells = [
        [
            *(one["workload"], one["size"], one["setting"]),
            *(f"{one['time_error']:+.0%}", f"{one['relative_error']:+.0%}"),
            one["explanation"] or "**not known**",
        ]
        for one in found
    ]
    columns = ["workload", "size", "threads", "error of the time", "of the time relative to one thread", "why"]
    return Table(columns, cells, f"Times that are off by more than {FAR:.0%}:")


def table(rows: Sequence[Row]) -> Table:
    """Return all rows as a table."""
    cells = []
    for row in rows:
        line = [row.workload, row.size, f"{1e6 * row.real['one']:,.0f}", f"{1e6 * row.simulated['one']:,.0f}"]
        for setting in ("together", "apart"):
            real, simulated = row.relative(row.real, setting), row.relative(row.simulated, setting)
            error = 100 * (simulated / real - 1)
            line += [f"{real:.2f}", f"{simulated:.2f}", f"{error:+.0f} %"]
        cells.append(line)
    columns = ["workload", "size", "one thread [µs]", "simulated [µs]"]
    for name in ("on one PU", "on two PUs"):
        columns += [f"two threads {name}, relative", "simulated", "error"]
    caption = "Time per iteration with one thread, and that of two threads relative to it, measured and simulated."
    return Table(columns, cells, caption)


def _left_out(model: dict[str, Any], reported: int) -> str:
    """Return what to say of sizes beyond the last-level cache; nothing if they were run."""
    if len(sizes_of("stream", model, reported)) == len(BYTES):
        return ""
    return (
        f" The last-level cache of this machine has {reported >> 20} MiB. Sizes beyond it are left out: "
        f"a recording of more than {LARGEST >> 20} MiB takes hours."
    )


@dataclass(frozen=True)
class Comparison:
    """What was measured and simulated."""

    rows: list[Row]
    left_out: str
    """What to say of sizes that were left out."""

    @classmethod
    def kept(cls, quick: bool) -> Comparison:
        """Compare, unless this build has done it on this machine: a change of the text measures nothing again."""
        machine = hashlib.sha256(here().encode()).hexdigest()[:8]
        file = FOLDER / f"host-{'quick' if quick else 'whole'}-{build(Path())}-{machine}.json"
        made_once(file, lambda unfinished: unfinished.write_text(json.dumps(asdict(cls.made(quick))) + "\n"))
        found = json.loads(file.read_text())
        return cls([Row(**row) for row in found["rows"]], found["left_out"])

    @classmethod
    def made(cls, quick: bool) -> Comparison:
        """Calibrate, measure and simulate."""
        workloads = list(SIZES)[:: 4 if quick else 1]
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            machine = folder / "here.toml"
            output([str(PINFOLD), "calibrate", "--model", "--quiet", "-o", str(machine)])
            model = json.loads(output([str(PINFOLD), "machines", "--json", str(machine)]))
            reported = reported_last_level()
            # All measurements come first, so that no simulation disturbs them.
            rows = [
                Row(workload, size)
                for workload in workloads
                for size in sizes_of(workload, model, reported)[:: 2 if quick else 1]
            ]
            measure(rows, 2 if quick else 5)
            for row in rows:
                simulate(row, machine, folder)
        return cls(rows, _left_out(model, reported))


def host(quick: bool) -> Part:
    """Compare this machine with its own model."""
    compared = Comparison.kept(quick)
    rows = compared.rows
    found = summary(rows)
    counted = sum(len(times) for row in rows for times in row.turns.values())
    off = sum(error > 15 for error in errors(rows))  # noqa: PLR2004
    agreement = found["host_order_agreement"]
    share = "-" if agreement is None else f"{100 * agreement:.0f} %"
    text = (
        f"Measured on: {here()}; **simulated** on its model, which `pinfold calibrate --model` made. Where two "
        "measured times of a workload at one size differ by more than 10 %, the simulated ones are in the same order "
        f"in {share} of {found['host_order_pairs']} pairs. The median error of the time relative to one thread is "
        f"{found['host_median_error_percent']:.1f} %, and of the time itself "
        f"{found['host_median_time_error_percent']:.0f} %. In {off} of {2 * len(rows)} cells the relative time is off "
        f"by more than 15 %. In {sum(row.disturbed for row in rows)} of {counted} measurements a hypervisor took "
        f"processor time in each of {TRIES} tries; the others had none.{compared.left_out}"
    )
    far = far_off(rows)
    data = {
        **found,
        "host_far": far,
        "host_unexplained": sum(one["explanation"] is None for one in far),
        "host": here(),
        "host_rows": [
            {
                "workload": row.workload,
                "size": row.size,
                "measured_s": row.real,
                "spread": row.spread,
                "disturbed": row.disturbed,
                "simulated_s": row.simulated,
            }
            for row in rows
        ],
    }
    commands = [
        "pinfold calibrate --model -o here.toml",
        "pinfold record -o iterations.pft --region 1 -- target/workloads/stream --threads 2 --size 256k --iterations 4",
        "pinfold run --machine here.toml --policy fixed --schedule 0,1 --repeat 1000 iterations.pft",
    ]
    return Part(data, table(rows), text, commands)
