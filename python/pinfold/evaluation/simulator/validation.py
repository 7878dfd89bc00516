"""The simulator compared with other simulators, with published figures, with a real kernel, and with this machine.

The comparison with this machine is a section of its own: it measures, and must run on an idle machine.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.provenance import build
from pinfold.evaluation.section import Part, Promise, Section, Table
from pinfold.evaluation.simulator.determinism import determinism
from pinfold.evaluation.simulator.host import FOLDER, far_table
from pinfold.evaluation.simulator.host import host as compared
from pinfold.evaluation.simulator.misses import misses
from pinfold.evaluation.simulator.published import published
from pinfold.evaluation.simulator.sampling import sampling
from pinfold.evaluation.simulator.scheduler import scheduler

Asked = tuple[tuple[str, str, str, str, float], ...]
"""Figures that are asked for: the key in the data, the name, the unit, and the largest or the least value."""

ASKED_FOR: Asked = (
    ("cachegrind_worst_percent", "single-thread misses over cachegrind's, worst difference", "%", "<=", 3.0),
    ("sampling_coverage", "intervals of sampled times that have the whole simulation's time", "", ">=", 0.95),
    ("sampling_million_accesses_per_second", "sampled dependent random accesses a second and core", "M/s", ">=", 100.0),
    ("scheduler_least_agreement", "tasks spread over packages as under Linux, least share of runs", "", ">=", 0.5),
)
ASKED_OF_HOST: Asked = (
    ("host_median_time_error_percent", "time of workloads on this machine, median error", "%", "<=", 12.0),
    ("host_median_error_percent", "relative time of workloads on this machine, median error", "%", "<=", 7.0),
    ("host_order_agreement", "share of pairs of placements in the order of this machine", "", ">=", 0.97),
    ("host_unexplained", "times of workloads on this machine that are off by more than 50 %, unexplained", "", "<=", 0),
)

HOLDS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}

PARTS: tuple[Callable[[bool], Part], ...] = (misses, published, determinism, sampling, scheduler)


def validation(quick: bool) -> Section:
    """Run all checks."""
    parts = [kept(make, quick) for make in PARTS]
    data: dict[str, Any] = {}
    for part in parts:
        data |= part.data
    return Section(
        "validation",
        "Validation of the simulator",
        "\n\n".join([*(["A reduced set (`make evaluation-quick`)."] if quick else []), *(part.text for part in parts)]),
        [command for part in parts for command in part.commands],
        [part.table for part in parts],
        data,
        promises=promises(data, ASKED_FOR),
    )


def kept(make: Callable[[bool], Part], quick: bool) -> Part:
    """Make a part unless it is there, of this build.

    The parts take minutes each, and nothing else keeps what they find.
    """
    file = FOLDER / f"{make.__name__}-{'quick' if quick else 'whole'}-{build(Path())}.json"
    if not file.exists():
        print(f"validation: {make.__name__}", file=sys.stderr)
        made_once(file, lambda unfinished: unfinished.write_text(json.dumps(asdict(make(quick))) + "\n"))
    found = json.loads(file.read_text())
    promised = [Promise(**one) for one in found["promises"]]
    return Part(found["data"], Table(**found["table"]), found["text"], found["commands"], promised)


def host(quick: bool) -> Section:
    """Compare this machine with its own model."""
    part = compared(quick)
    text = "\n\n".join([*(["A reduced set (`make evaluation-quick`)."] if quick else []), part.text])
    promised = promises(part.data, ASKED_OF_HOST)
    tables = [part.table, far_table(part.data["host_far"])]
    return Section("host", "This machine and its model", text, part.commands, tables, part.data, promises=promised)


def promises(data: Mapping[str, Any], asked: Asked) -> list[Promise]:
    """Compare the figures of all parts with what is asked for. A figure that a part could not measure is missing."""
    found = []
    for key, name, unit, sign, limit in asked:
        value = data.get(key)
        held = None if value is None else HOLDS[sign](value, limit)
        found.append(Promise(name, value, unit, f"{sign} {limit:g}", held))
    return found
