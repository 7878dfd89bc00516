"""SAM's section 4.5, the sensitivity to its thresholds, and larger machines than the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import tomllib

from pinfold.evaluation.sam.mixes import files
from pinfold.evaluation.sam.runs import MACHINE, RECORDINGS, linux, recording, sam
from pinfold.evaluation.sam.workloads import ALL, CPU, MIXES, mix
from pinfold.evaluation.section import PINFOLD, Part, Table, output
from pinfold.evaluation.side_by_side import at_once

FACTORS = (0.1, 0.3, 0.5, 1, 2, 3)
QUICK_FACTORS = (0.1, 1, 3)
KEYS = {"coherence": ("coherence", "remote"), "memory": ("memory", "package_memory")}
"""The thresholds that are changed together."""
STANDALONE = {"HuBench": 8, "LuBench": 8, "TunkRank": 8, "SGD": 8, "MemBench": 8}
SENSITIVE_MIXES = (9, 24)
SEED = 0

SHARERS, SHARED_BY = "SVD", 8
"""The program that shares on large machines, and its tasks: half of all tasks are such programs, and half compute."""
# AMD's family 10h has no events that show sharing, so the Opterons are not among them.
MACHINES = (
    "e5-2660v2x2",
    "e5-4650x4",
    "e5-4650x8",
    "gold-6140x2",
    "xeon-8480x2",
    "epyc-7763x2",
    "epyc-9654x2",
)
FULL = {"epyc-9654x2": 384}
"""The number of tasks where it is not one per core."""
EIGHT = "[[0, 1], [1, 3], [3, 2], [2, 0], [4, 5], [5, 7], [7, 6], [6, 4], [0, 4], [1, 5], [2, 6], [3, 7]]"
"""Links of eight packages at the corners of a cube."""


def calibrated(machine: str, file: Path) -> Path:
    """Write the thresholds of a machine."""
    output([str(PINFOLD), "calibrate", "--quiet", "--thresholds", "--machine", machine, "-o", str(file)])
    return file


def changed(thresholds: Path, which: str, factor: float) -> Path:
    """Write thresholds with one kind multiplied."""
    values = tomllib.loads(thresholds.read_text())
    for key in KEYS[which]:
        values[key] *= factor
    file = thresholds.with_name(f"{which}-{factor}.toml")
    values["source"] += f", {which} times {factor}"
    written = {key: f'"{value}"' if isinstance(value, str) else f"{value:.6e}" for key, value in values.items()}
    file.write_text("".join(f"{key} = {value}\n" for key, value in written.items()))
    return file


def sensitivity(quick: bool, thresholds: Path) -> Part:
    """Multiply thresholds and measure the loss."""
    cases = {f"{name} {tasks}t": [recording(ALL[name], tasks)] for name, tasks in STANDALONE.items()}
    cases |= {f"mix #{number}": files(mix(MIXES[number])) for number in SENSITIVE_MIXES}
    factors = [factor for factor in FACTORS if factor in QUICK_FACTORS or not quick]
    if quick:
        cases = dict(list(cases.items())[:2])
    settings = [(which, factor) for which in KEYS for factor in factors]
    jobs = [
        partial(sam, recordings, SEED, "--thresholds", str(changed(thresholds, which, factor)))
        for which, factor in settings
        for recordings in cases.values()
    ]
    speeds = iter([geometric_mean(ran.speeds) for ran in at_once(jobs)])
    rows = [
        {"thresholds": which, "factor": factor, "speeds": {name: next(speeds) for name in cases}}
        for which, factor in settings
    ]
    return Part({"sensitivity": rows}, sensitivity_table(rows), sensitivity_text(rows), [])


def over_calibrated(rows: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Return each case's speed relative to that with the measured thresholds, row by row."""
    base = {row["thresholds"]: row["speeds"] for row in rows if row["factor"] == 1}
    return [[speed / base[row["thresholds"]][name] for name, speed in row["speeds"].items()] for row in rows]


def sensitivity_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Compare all settings."""
    body = [
        [row["thresholds"], f"{row['factor']:g}", *(f"{speed:.3f}" for speed in speeds)]
        for row, speeds in zip(rows, over_calibrated(rows), strict=True)
    ]
    return Table(
        ["thresholds", "factor", *rows[0]["speeds"]],
        body,
        "Speeds with changed thresholds relative to the measured ones; for a mix the geometric mean:",
    )


def sensitivity_text(rows: Sequence[dict[str, Any]]) -> str:
    """Describe the results."""
    worst = min(
        (speed, row["thresholds"], row["factor"], name)
        for row, speeds in zip(rows, over_calibrated(rows), strict=True)
        for speed, name in zip(speeds, row["speeds"], strict=True)
    )
    return (
        f"**Sensitivity** (section 4.5), simulated on `{MACHINE}`: coherence thresholds (those for remote memory with "
        "them) and memory thresholds are multiplied. In the paper coherence may be 0.1 to 2 times its threshold; "
        "outside this range some programs lose up to 30 %. The largest loss here is with the thresholds of "
        f"{worst[1]} times {worst[2]:g}: {worst[3]} has {worst[0]:.1%} of its speed."
    )


def model(machine: str) -> str:
    """Return the value of ``--machine``; the model of eight packages is derived from that of four."""
    if machine != "e5-4650x8":
        return machine
    text = Path("machines/e5-4650x4.toml").read_text()
    file = RECORDINGS / f"{machine}.toml"
    before = text.index("between = ") + len("between = ")
    text = text[:before] + EIGHT + text[text.index("]]", before) + 2 :]
    for key in ("packages", "nodes"):
        text = text.replace(f"{key} = {{ count = 4", f"{key} = {{ count = 8", 1)
    file.write_text(text)
    return str(file)


def grown(machine: str, thresholds: Path | None) -> dict[str, Any]:
    """Run programs that share and programs that compute on all cores of a machine."""
    name = model(machine)
    shape = tomllib.loads((Path(name) if "/" in name else Path(f"machines/{name}.toml")).read_text())["shape"]
    cores = shape["packages"]["count"] * shape["cores_per_package"]["count"]
    tasks = FULL.get(machine, cores)
    number = tasks // SHARED_BY // 2
    recordings = [recording(ALL[SHARERS], SHARED_BY), recording(CPU, SHARED_BY)] * number
    options = () if thresholds is None else ("--thresholds", str(thresholds))
    by_linux = linux(recordings, SEED, machine=name)
    by_sam = sam(recordings, SEED, *options, machine=name)
    sharers = [quick / slow for quick, slow in zip(by_sam.speeds[::2], by_linux.speeds[::2], strict=True)]
    return {
        "machine": machine,
        "packages": shape["packages"]["count"],
        "cores": cores,
        "tasks": 2 * number * SHARED_BY,
        "gain": geometric_mean(quick / slow for quick, slow in zip(by_sam.speeds, by_linux.speeds, strict=True)) - 1,
        "gain_of_sharers": geometric_mean(sharers) - 1,
        "least_gain_of_sharers": min(sharers) - 1,
        "moves": by_sam.moves,
    }


def scale(quick: bool) -> Part:
    """Test larger machines."""
    machines = MACHINES[:2] if quick else MACHINES
    recording(ALL[SHARERS], SHARED_BY)
    recording(CPU, SHARED_BY)
    rows = at_once([partial(grown, machine, None) for machine in machines])
    return Part({"scale": rows}, scale_table(rows), scale_text(), [])


def scale_text() -> str:
    """Describe the experiment."""
    return (
        f"**Scale**: half of all tasks are programs of {SHARED_BY} tasks that share (the workload for "
        f"{SHARERS}), half compute; "
        "there is one task per core, and 384 on the largest machine. Eight packages are those of `e5-4650x4`, at the "
        "corners of a cube. "
        "Thresholds are the default ones of `--policy sam` for each model. Gains are over one order of "
        "task creation."
    )


def scale_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Compare all machines."""
    return Table(
        [
            "machine",
            "packages",
            "cores",
            "tasks",
            "gain over Linux",
            "of sharing programs",
            "least of these",
            "moves",
        ],
        [
            [
                row["machine"],
                str(row["packages"]),
                str(row["cores"]),
                str(row["tasks"]),
                f"{row['gain']:+.1%}",
                f"{row['gain_of_sharers']:+.1%}",
                f"{row['least_gain_of_sharers']:+.1%}",
                ", ".join(f"{number} {reason}" for reason, number in row["moves"].items()) or "none",
            ]
            for row in rows
        ],
        "Larger machines, simulated:",
    )
