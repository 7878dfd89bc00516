"""What changed in the headlines since the evaluation before, and why.

The figures before are constants. They come from an evaluation without checks of windows, with assumed times of
instructions, and with learned policies that were judged by known times. The figures now are read from the other
sections' JSON files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinfold.evaluation.sam.mixes import MICROBENCHMARK_MIXES
from pinfold.evaluation.section import Section, Table
from pinfold.learn.hints.judging import geometric_mean

FOLDER = Path("evaluation")

Data = Mapping[str, Any]

DECODED = "times of instructions come from the decoded code, not from a constant for all programs"
COVERED = "windows that do not cover their program are left out, and pages keep their first touch"
SCHEDULED = (
    "the simulated scheduler keeps new tasks on their parent's node as Linux does since 5.18 and as a real kernel was "
    "seen to do: its best order already places sharers on one package"
)


@dataclass(frozen=True)
class Headline:
    """A figure of the evaluation before, and how to find it now.

    Attributes
    ----------
    name : str
        The figure.
    section : str
        The section whose JSON file has it.
    now : callable
        Finds it in the section's data.
    before : float
        Its value in the evaluation before.
    shown : str
        The format of the value.
    why : str
        The reasons of a change.
    """

    name: str
    section: str
    now: Callable[[Data], float | None]
    before: float
    shown: str
    why: str


def _mixes(data: Data) -> list[float]:
    return [1 + mix["geomean_gain"] for mix in data["mixes"]]


def _microbenchmarks(data: Data) -> float:
    gains = [1 + mix["geomean_gain"] for mix in data["mixes"] if mix["mix"] in MICROBENCHMARK_MIXES]
    return geometric_mean(gains) - 1


def _value(key: str) -> Callable[[Data], float | None]:
    return lambda data: None if data.get(key) is None else float(data[key])


HEADLINES = (
    Headline(
        "SAM over Linux's best order, geometric mean of 26 mixes",
        "sam",
        lambda data: geometric_mean(_mixes(data)) - 1,
        0.713,
        "+.1%",
        f"{SCHEDULED}; {DECODED}",
    ),
    Headline(
        "SAM over Linux's best order, geometric mean of the mixes of the paper's own microbenchmarks",
        "sam",
        _microbenchmarks,
        0.569,
        "+.1%",
        SCHEDULED,
    ),
    Headline(
        "SAM over Linux's best order, largest gain of a mix",
        "sam",
        lambda data: max(_mixes(data)) - 1,
        1.506,
        "+.1%",
        f"{SCHEDULED}; {DECODED}",
    ),
    Headline(
        "SAM over Linux's best order, least gain of a mix",
        "sam",
        lambda data: min(_mixes(data)) - 1,
        -0.007,
        "+.1%",
        f"{SCHEDULED}; tasks stay longer where Linux takes them away",
    ),
    Headline(
        "hints, verified, of the oracle's performance on known times",
        "autofinity",
        _value("oracle_ratio"),
        0.987,
        ".1%",
        f"{COVERED}; {DECODED}",
    ),
    Headline(
        "hints with one sample, of the oracle's performance on known times",
        "autofinity",
        lambda data: data["one_sample"]["oracle_ratio"],
        0.987,
        ".1%",
        f"{COVERED}; {DECODED}",
    ),
    Headline(
        "autopin on clovertown, greatest distance from the best pinning in percent",
        "autopin",
        lambda data: data["clovertown"]["worst_distance_percent"],
        16.7,
        ".1f",
        "readings have noise; sizes suit each machine's caches",
    ),
    Headline(
        "autopin on barcelona, greatest distance from the best pinning in percent",
        "autopin",
        lambda data: data["barcelona"]["worst_distance_percent"],
        4.7,
        ".1f",
        "readings have noise; sizes suit each machine's caches",
    ),
    Headline(
        "time of workloads on this machine, median error in percent",
        "host",
        _value("host_median_time_error_percent"),
        27.4,
        ".0f",
        f"{DECODED}; another machine",
    ),
    Headline(
        "relative time of workloads on this machine, median error in percent",
        "host",
        _value("host_median_error_percent"),
        9.5,
        ".1f",
        f"{DECODED}; runs with stolen time are thrown away; another machine",
    ),
    Headline(
        "pairs of placements in the order of this machine",
        "host",
        _value("host_order_agreement"),
        0.925,
        ".0%",
        f"{DECODED}; runs with stolen time are thrown away; another machine",
    ),
)

TEXT = """\
The evaluation before rested on short windows that fitted the caches, on one constant time for every instruction, and on
learned policies that were judged by the better of two known times. These figures are not comparable one by one; the
table says what each was, what it is now, and why. Figures that fell because the evidence is better stay as they are.
The section on policies that were judged by running them has no figures from before."""


def changes(quick: bool) -> Section:
    """Compare the headlines with those of the evaluation before."""
    found = {name: _data(name) for name in {one.section for one in HEADLINES}}
    rows, data = [], []
    for one in HEADLINES:
        of_section = found[one.section]
        now = None if of_section is None else one.now(of_section)
        known = now is not None and math.isfinite(now)
        shown = format(now, one.shown) if known else "-"
        rows.append([one.name, format(one.before, one.shown), shown, one.why])
        data.append({"name": one.name, "before": one.before, "now": now if known else None, "why": one.why})
    reduced = "A reduced set (`make evaluation-quick`).\n\n" if quick else ""
    table = Table(["headline", "before", "now", "why"], rows)
    text = f"{reduced}{TEXT}"
    return Section("changes", "What changed in the headlines", text, [], [table], {"headlines": data})


def _data(section: str) -> Data | None:
    file = FOLDER / f"{section}.json"
    if not file.exists():
        return None
    found: Data = json.loads(file.read_text())
    return found
