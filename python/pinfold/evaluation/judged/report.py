"""The tables, the text and the promises of policies that were judged by running them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pinfold.evaluation.judged.judging import (
    BASELINE,
    NOISE,
    POLICIES,
    TIMES,
    TWO_SAMPLES,
    UNPINNED,
    Outcome,
    Share,
    Time,
    gain,
    share,
)
from pinfold.evaluation.section import Promise, Table

OWN, DEVELOPMENT, JUDGED = "own workloads", "applications for development", "applications for judging"

Groups = Mapping[str, Sequence[Outcome]]
"""Outcomes by the group of programs."""

BEYOND_CACHES = 2.0
"""A subject whose footprint is less than this multiple of all last-level caches may fit them in some placements."""


def shown(found: Share | None) -> str:
    """Write a share: the mean, its interval, and the worst."""
    if found is None:
        return "-"
    return f"{found.mean:.1%} ({found.low:.1%} to {found.high:.1%}), {found.worst:.0%}"


LEAST_SUBJECTS = 5
"""Where fewer subjects have some number of threads, those of all numbers are shown together."""


def threads_of(outcomes: Sequence[Outcome]) -> list[int | None]:
    """Return the numbers of threads by which the subjects are shown; only None where they are shown together."""
    subjects = Counter(subject.threads for subject in {one.subject for one in outcomes})
    if subjects and min(subjects.values()) < LEAST_SUBJECTS:
        return [None]
    return [*sorted(subjects)]


def named(count: int | None) -> str:
    """Return the name of a number of threads, or of any."""
    return "any number of threads" if count is None else f"{count} threads"


def of(outcomes: Sequence[Outcome], time: Time, threads: int | None, policy: str | None = None) -> list[Outcome]:
    """Return the outcomes of a time, a number of threads, and a policy; None for any."""
    return [
        one
        for one in outcomes
        if one.time == time and threads in (None, one.subject.threads) and policy in (None, one.policy)
    ]


def table(groups: Groups, time: Time) -> Table:
    """Return a row for each policy, and a column for each group and number of threads."""
    columns, cells = ["policy"], []
    for group, outcomes in groups.items():
        timed = of(outcomes, time, None)
        for count in threads_of(timed):
            number = len({one.subject for one in of(timed, time, count)})
            columns.append(f"{group}, {named(count)} ({number})")
            cells.append([shown(share(of(timed, time, count, policy))) for policy in POLICIES])
    rows = [[policy, *(column[row] for column in cells)] for row, policy in enumerate(POLICIES)]
    caption = (
        f"Share of the oracle's performance in {time.seconds} s with probes of {time.probe}: geometric mean (95 % "
        "interval over programs), worst:"
    )
    return Table(columns, rows, caption)


def tables(groups: Groups) -> list[Table]:
    """Return a table for each judged time that was run."""
    return [table(groups, time) for time in TIMES if any(of(outcomes, time, None) for outcomes in groups.values())]


def inside_caches(groups: Groups) -> str:
    """Say how many subjects may fit the caches of the machine."""
    subjects = {one.subject for outcomes in groups.values() for one in outcomes}
    known = [one.footprint_over_caches for one in subjects if one.footprint_over_caches is not None]
    inside = sum(ratio < BEYOND_CACHES for ratio in known)
    return (
        f"{inside} of {len(subjects)} recordings use less than {BEYOND_CACHES:.0f} times the memory of all last-level "
        "caches of the machine, and may fit these in some placements (`footprint_over_caches`)."
    )


def promises(group: str, outcomes: Sequence[Outcome]) -> list[Promise]:
    """Return the figures that are asked for: with the same two samples a learned policy must beat the baseline."""
    found = []
    time = next((time for time in TIMES if of(outcomes, time, None)), TIMES[0])
    for count in threads_of(outcomes):
        ratio = gain(of(outcomes, time, count), TWO_SAMPLES, BASELINE)
        name = f"speed of {TWO_SAMPLES}, over {BASELINE}: {group}, {named(count)}"
        value = None if ratio is None else round(ratio[0], 4)
        found.append(Promise(name, value, "", "> 1", None if ratio is None else ratio[0] > 1))
    return found


def data(groups: Groups) -> dict[str, Any]:
    """Return the content of the JSON file."""
    return {
        "noise_percent": float(NOISE),
        "times": [asdict(time) for time in TIMES],
        "groups": {
            group: {
                "shares": [
                    {
                        "seconds": time.seconds,
                        "threads": count,
                        "policy": policy,
                        **({} if (found := share(of(outcomes, time, count, policy))) is None else asdict(found)),
                    }
                    for time in TIMES
                    for count in threads_of(outcomes)
                    for policy in POLICIES
                ],
                "over_baseline": [
                    {"seconds": time.seconds, "threads": count, "policy": policy, "ratio_low_high": ratio}
                    for time in TIMES
                    for count in threads_of(outcomes)
                    for policy in (*POLICIES[4:], UNPINNED)
                    if (ratio := gain(of(outcomes, time, count), policy, BASELINE)) is not None
                ],
                "runs": runs(outcomes),
            }
            for group, outcomes in groups.items()
        },
    }


def runs(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the runs for the JSON file."""
    return [
        {
            "program": one.subject.label,
            "machine": one.subject.machine,
            "threads": one.subject.threads,
            "footprint_over_caches": one.subject.footprint_over_caches,
            "policy": one.policy,
            "judged_s": one.time.seconds,
            "seconds": one.seconds,
            "oracle_s": one.oracle,
            "oracle": one.subject.oracle,
            "chosen": one.chosen,
        }
        for one in outcomes
    ]
