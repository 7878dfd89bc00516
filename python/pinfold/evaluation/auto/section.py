"""The default policy on simulated machines: whole runs with all costs, beside its parts and the best placement."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from os import sched_getaffinity
from typing import Any

from pinfold.evaluation.auto.plots import gain_figure
from pinfold.evaluation.auto.runs import (
    AUTO,
    BELIEF,
    COUNTED,
    FOR_MODEL,
    MACHINES,
    PARTS,
    QUICK_MACHINES,
    SOURCES,
    TIMES,
    UNKNOWN,
    UNPINNED,
    Runs,
    Subject,
    model_without_judged,
    subjects,
)
from pinfold.evaluation.judged.judging import BASELINE, NOISE
from pinfold.evaluation.judged.subjects import APPLICATION_THREADS, NO_APPLICATIONS
from pinfold.evaluation.section import Promise, Section, Table

KNOWN = "auto, second run"
UNCOUNTED = "auto, no counters"
POLICIES = (UNPINNED, BASELINE, *PARTS, AUTO)

WITHIN: Mapping[int, tuple[float, float]] = {10: (1.04, 1.50), 60: (1.004, 1.08), 600: (1.001, 1.03)}
"""By judged time: the greatest time over the oracle, in the median and of the worst program."""

DETAILED = 60
"""The judged time of second runs and of the sources of proposals."""

FOUND = (2.0, 10.0)
"""When the placement that is kept was chosen, in seconds: at the latest in the median, and for any program."""

LONGEST_NAME = 40
"""A pinning with a longer list is not shown."""

SLOWER: Mapping[int, float] = {10: 1.03, 60: 1.01, 600: 1.01, 3600: 1.01}
"""By judged time: the greatest time over unpinned of any program."""

HINTS = 1.005
"""The least speed of ``hints`` over that of the faster of packed and distributed, in the mean."""

BEHIND = 1.01
"""The greatest time over the best of its parts, in the median."""

SECOND = 1.005
"""The greatest time of a known program over the oracle, in the median."""

LONG = 600
"""The judged time of ``auto`` without hardware counters."""

WITHOUT_COUNTERS = 1.04
"""The greatest time over the oracle without hardware counters, in the median."""

ABOUT = f"""\
Every run is a whole one: initialisation, windows, trials, moves of threads and pages, cold caches after a move, and
noise of {NOISE} % on what is read in a tenth of a second. The oracle is the fastest of all static placements: the named
ones, unpinned threads and what any policy chose, each with pages at first touch and interleaved (unpinned threads with
interleaved pages up to 10 minutes only); it is fixed from the start and knows the program. `hints` and `classify` are
`auto` with the placements of their papers and the same belief; `autopin` has probes of a twentieth of the judged time.
`react` places single regions, and has [a section of its own](react.md). Progress is counted by the agent: regions or
iterations. Without counters, neither the placement model nor SAM's mapper has anything to say, and the rest is the
same. The belief is the one that pinfold ships, learned from generated programs only. The placement model of `classify`
and `auto` is trained without the judged programs, by the same rules as the shipped one. Real applications are those of
the split that are for judging and recorded with {APPLICATION_THREADS} threads; a run repeats the recorded window, and
that is an iteration."""


@dataclass
class Judged:
    """What was measured of one subject in a judged time, in virtual seconds."""

    subject: Subject
    time: int
    oracle: float
    best: str
    seconds: dict[str, float] = field(default_factory=dict)
    found_at: float | None = None
    """When ``auto`` chose the placement that it kept; 0 if that is the unpinned program, None without a choice."""

    def over(self, policy: str, other: str | None = None) -> float:
        """Return the time of a policy over the time of the oracle, or of another policy."""
        return self.seconds[policy] / (self.oracle if other is None else self.seconds[other])

    def over_parts(self) -> float:
        """Return the time over the time of the best part."""
        return self.seconds[AUTO] / min(self.seconds[part] for part in PARTS)

    def data(self) -> dict[str, Any]:
        """Return it for the JSON file."""
        of = self.subject
        named = {"machine": of.machine, "program": of.program, "arguments": of.arguments, "real": of.is_real}
        found = {"oracle_s": self.oracle, "oracle": self.best, "seconds": self.seconds, "found_at_s": self.found_at}
        return {**named, "threads": of.threads, "time_s": self.time, **found}


def auto(quick: bool) -> Section:
    """Judge the default policy."""
    model = model_without_judged()
    jobs = [one for machine in (QUICK_MACHINES if quick else MACHINES) for one in subjects(machine, quick)]

    def run(subject: Subject) -> list[Judged]:
        print(f"auto: {subject.machine}, {subject.label}", file=sys.stderr, flush=True)
        return judge(Runs(subject, model), (DETAILED,) if quick else TIMES)

    with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
        found = [one for of_subject in pool.map(run, jobs) for one in of_subject]
    promises = promises_of(found)
    missed = [promise.name for promise in promises if not promise.held]
    reduced = "A reduced set (`make evaluation-quick`). " if quick else ""
    absent = "" if quick or any(one.subject.is_real for one in found) else f"{NO_APPLICATIONS} "
    unknown = " and ".join(f"`{one}`" for one in UNKNOWN)
    text = (
        f"**Simulated.** {reduced}{ABOUT} {unknown} are in no training set of a model.\n\n"
        f"{absent}Not reached: {'; '.join(missed) or 'nothing'}."
    )
    command = f"pinfold run --machine {MACHINES[0]} --noise {NOISE} --placement-model {FOR_MODEL} --repeat N FILE.pft"
    data = [one.data() for one in found]
    return Section(
        "auto",
        "The default policy",
        text,
        [command],
        [*summaries(found), ablation(found), table(found)],
        {"simulated": True, "noise_percent": float(NOISE), "runs": data},
        [] if quick else [gain_figure(data)],
        promises=promises,
    )


def judge(runs: Runs, times: Sequence[int]) -> list[Judged]:
    """Run everything in each judged time."""
    found = []
    for time in times:
        done = {policy: runs.of_policy(policy, time) for policy in POLICIES}
        if time == DETAILED:
            done[KNOWN] = runs.known(time)
            done |= {without(source): runs.without([source], time) for source in SOURCES}
            done[without(BELIEF)] = runs.ignorant(time)
        if time == LONG:
            done[UNCOUNTED] = runs.without(COUNTED, time)
        oracle, best = runs.oracle(time, [run.chosen for run in done.values()])
        seconds = {policy: run.seconds for policy, run in done.items()}
        found.append(Judged(runs.subject, time, oracle, best, seconds, done[AUTO].chosen_at))
    return found


def without(source: str) -> str:
    """Return the name of the policy that does not ask a source of proposals, or has no belief."""
    return f"auto without {source}"


def at(found: Sequence[Judged], time: int) -> list[Judged]:
    """Return the figures of a judged time."""
    return [one for one in found if one.time == time]


def promises_of(found: Sequence[Judged]) -> list[Promise]:
    """Compare with the promises."""
    promises = []

    def add(name: str, value: float, limit: float, words: str = "at most") -> None:
        held = {"at most": value <= limit, "at least": value >= limit, "above": value > limit}[words]
        promises.append(Promise(name, value, "", f"{words} {limit:g}", held))

    for time, (median, most) in WITHIN.items():
        if timed := at(found, time):
            over = [one.over(AUTO) for one in timed]
            add(f"time over the oracle at {time} s, median", statistics.median(over), median)
            add(f"time over the oracle at {time} s, worst", max(over), most)
    if settled := [one.found_at for one in at(found, LONG) if one.found_at is not None]:
        name = f"seconds until the kept placement was chosen, runs of {LONG} s"
        add(f"{name}, median", statistics.median(settled), FOUND[0])
        add(f"{name}, latest", max(settled), FOUND[1])
    for time, limit in SLOWER.items():
        if timed := at(found, time):
            slowest = max(one.over(AUTO, UNPINNED) for one in timed)
            add(f"time over unpinned at {time} s, slowest program", slowest, limit)
    for time in TIMES:
        if timed := at(found, time):
            behind = statistics.median(one.over_parts() for one in timed)
            add(f"time over the best of its parts at {time} s, median", behind, BEHIND)
            hints = statistics.geometric_mean(one.over(BASELINE, "hints") for one in timed)
            add(f"speed of hints over {BASELINE} at {time} s, mean", hints, HINTS, "at least")
            for part in PARTS:
                ahead = statistics.geometric_mean(one.over(part, AUTO) for one in timed)
                add(f"{part}'s time over that of auto at {time} s, mean", ahead, 1.0, "above")
    if known := [one.over(KNOWN) for one in found if KNOWN in one.seconds]:
        add("time of a known program over the oracle at 60 s, median", statistics.median(known), SECOND)
    if uncounted := [one.over(UNCOUNTED) for one in found if UNCOUNTED in one.seconds]:
        name = f"time without counters over the oracle at {LONG} s, median"
        add(name, statistics.median(uncounted), WITHOUT_COUNTERS)
    return promises


def summaries(found: Sequence[Judged]) -> list[Table]:
    """Return the time over the oracle of each policy in each judged time, and the same for real applications alone."""
    caption = "Time of the whole run over that of the oracle, median and worst (programs):"
    tables = [summary(found, caption)]
    if real := [one for one in found if one.subject.is_real]:
        tables.append(summary(real, "Of these, real applications:"))
    return tables


def summary(found: Sequence[Judged], caption: str) -> Table:
    """Return the time over the oracle of each policy in each judged time."""
    times = sorted({one.time for one in found})
    rows = []
    for policy in (*POLICIES, KNOWN, UNCOUNTED):
        cells = []
        for time in times:
            timed = [one for one in at(found, time) if policy in one.seconds]
            over = [one.over(policy) for one in timed]
            cells.append(f"{statistics.median(over):.3f}, {max(over):.2f}" if over else "-")
        rows.append([policy, *cells])
    columns = ["policy", *(f"{time} s ({len(at(found, time))})" for time in times)]
    return Table(columns, rows, caption)


def ablation(found: Sequence[Judged]) -> Table:
    """Return what each source of proposals is worth."""
    left_out = (BELIEF, *SOURCES)
    timed = [one for one in found if all(without(source) in one.seconds for source in left_out)]
    rows = []
    for source in left_out:
        over = [one.over(without(source), AUTO) for one in timed]
        rows.append(
            [source, f"{statistics.geometric_mean(over):.3f}" if over else "-", f"{max(over, default=1.0):.2f}"]
        )
    caption = (
        "Time in 60 s without the belief, or without a source of proposals, over that with all, geometric mean and "
        "worst program:"
    )
    return Table(["without", "mean", "worst"], rows, caption)


def table(found: Sequence[Judged]) -> Table:
    """Return a row for each subject and judged time."""
    rows = [
        [
            one.subject.machine,
            one.subject.label,
            f"{one.time}",
            one.best if len(one.best) < LONGEST_NAME else "chosen by a policy",
            *(f"{one.over(policy):.3f}" if policy in one.seconds else "-" for policy in (*POLICIES, KNOWN, UNCOUNTED)),
        ]
        for one in found
    ]
    columns = ["machine", "program", "time [s]", "oracle", *POLICIES, KNOWN, UNCOUNTED]
    return Table(columns, rows, "Time over that of the oracle:")
