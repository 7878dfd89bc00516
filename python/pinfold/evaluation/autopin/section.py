"""autopin on the simulated machines of its paper."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from os import sched_getaffinity
from typing import Any

from pinfold.evaluation.autopin.runs import LASTS, WORKLOADS, Case, against_fixed
from pinfold.evaluation.judged.judging import NOISE
from pinfold.evaluation.section import Check, Section, Table, checks_table, promises_of
from pinfold.learn.hints.judging import geometric_mean

# The pinnings in the autopin paper (2008, table 2) for each of its machines, by number of threads.
SCHEDULES: dict[str, dict[int, tuple[str, ...]]] = {
    "clovertown": {2: ("2,6", "4,5", "4,6"), 4: ("4,5,6,7", "2,3,6,7", "1,3,5,7")},
    "caneland": {2: ("1,2", "1,7", "1,8"), 4: ("1,7,8,9", "1,8,2,11", "5,8,11,14", "8,9,11,12")},
    "barcelona": {2: ("4,5", "2,6", "4,6"), 4: ("2,6,3,7", "4,6,5,7", "1,3,5,7")},
}

# The greatest distances of autopin from the best pinning in the paper's tables 3 and 4, and of the worst pinning from
# autopin, in percent. The paper has no such table of Caneland; its section 4.2 says of the worst pinning of four
# threads that two programs differ from the best "even over 100 %".
PAPER: dict[str, tuple[float | None, float]] = {
    "clovertown": (2.71, 66.36),
    "caneland": (None, 100.0),
    "barcelona": (7.11, 56.6),
}

ABOUT = 1.5
"""A greatest gain is like the paper's when it is at most this multiple of it, and at least the paper's divided by it.
Of other programs on a model of the machine no more can be expected; as in the section on SAM."""


def autopin(quick: bool) -> Section:
    """Search on the simulated machines of the autopin paper, with the paper's pinnings."""
    cases = [
        Case(machine, workload, threads, schedule)
        for machine, schedules in SCHEDULES.items()
        for workload in (WORKLOADS[3::2] if quick else WORKLOADS)
        for threads, schedule in schedules.items()
    ]

    def run(case: Case) -> dict[str, Any]:
        print(f"autopin: {case.machine}, {case.workload}, {case.threads} threads", file=sys.stderr)
        return against_fixed(case)

    with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
        found = list(zip(cases, pool.map(run, cases), strict=True))
    programs = {machine: [one for case, one in found if case.machine == machine] for machine in SCHEDULES}
    data = {machine: summary(of_machine) for machine, of_machine in programs.items()}
    found_checks = checks(data)
    racing = ", ".join(
        f"{machine} {shown(of['racing_time_ratio'])} ({shown(of['racing_time_ratio_with_initialisation'])}; "
        f"{of['racing_choice_percent']:.2f} %)"
        for machine, of in data.items()
    )
    text = (
        "**Simulated**: recorded workloads on the models of the paper's three machines, with the pinnings of its "
        f"table 2, default times, and as many repetitions as last about {LASTS} virtual seconds; after the paper's "
        f"tables 3 and 4. What a search reads in a tenth of a second has {NOISE} % of noise. `stream`, "
        "`random_access`, `stencil` and `spmv` have twice the size of each machine's last-level caches; the others "
        "are small. The distance is autopin's run time over that of the best pinning, fixed from the start. "
        "`measured` is the baseline of two candidates, packed and distributed. Unpinned threads run a thirtieth of the "
        "repetitions. The ratio is the time that the full "
        "search loses to worse pinnings, divided by the time that `--search racing` loses, from the end of the "
        "program's initialisation; the least ratio of all programs is given. In parentheses are the ratio from the "
        "program's start (both searches keep the first pinning for 15 s), and by how much racing's choice is slower "
        f"than that of the full search, at most: {racing}. The simulated machines move pages with their threads, as "
        "the paper's did; most numbers of these three models' buses and memories are assumed (`pinfold machines "
        "clovertown`)."
        f"{unexpected(data)}"
    )
    command = "pinfold run --machine clovertown --schedule 2,6 --schedule 4,5 --schedule 4,6 --repeat N FILE.pft"
    return Section(
        "autopin",
        "autopin on the paper's machines",
        text,
        [command],
        [checks_table(found_checks, "Against the paper, on both sides:"), means(programs), table(programs)],
        {"simulated": True, "checks": [asdict(check) for check in found_checks], **data},
        promises=promises_of(found_checks),
    )


def summary(programs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summarise the programs of one machine."""
    distances = [program["distance_percent"] for program in programs]
    return {
        "worst_distance_percent": max(distances),
        "mean_distance_percent": sum(distances) / len(distances),
        "most_over_worst_percent": max(program["over_worst_percent"] for program in programs),
        "racing_choice_percent": max(program["racing_choice_percent"] for program in programs),
        **{key: least(programs, key) for key in ("racing_time_ratio", "racing_time_ratio_with_initialisation")},
        "programs": programs,
    }


def checks(data: Mapping[str, dict[str, Any]]) -> list[Check]:
    """Compare the greatest distance and the greatest gain of each machine with the paper's."""
    found = []
    for machine, (distance, gain) in PAPER.items():
        ours = data[machine]
        if distance is not None:
            found.append(
                Check(
                    f"{machine}: greatest distance from the best pinning",
                    f"{distance} %",
                    f"at most {ABOUT * distance:.1f} %",
                    f"{ours['worst_distance_percent']:.2f} %",
                    ours["worst_distance_percent"] <= ABOUT * distance,
                )
            )
        most = ours["most_over_worst_percent"]
        found.append(
            Check(
                f"{machine}: greatest gain over the worst pinning",
                f"{gain:.0f} %",
                f"{gain / ABOUT:.0f} to {gain * ABOUT:.0f} %",
                f"{most:.0f} %",
                gain / ABOUT <= most <= gain * ABOUT,
            )
        )
    return found


def unexpected(data: Mapping[str, dict[str, Any]]) -> str:
    """Name the programs that gain more than was expected, with both pinnings."""
    named = [
        f"{program['workload']} with {program['threads']} threads on {machine}: {program['over_worst_percent']:.0f} % "
        f"over `{program['worst']}`, with `{program['best']}`"
        for machine, of_machine in data.items()
        for program in of_machine["programs"]
        if program["over_worst_percent"] > ABOUT * PAPER[machine][1]
    ]
    if not named:
        return ""
    return (
        f" **Unexpected** gains, more than {ABOUT} times the paper's greatest: {'; '.join(named)}. The paper's "
        "programs have many phases; a workload has one, and does nothing but what placement decides."
    )


def means(programs: Mapping[str, Sequence[dict[str, Any]]]) -> Table:
    """Return the share of the best pinning that each policy reaches, by machine and number of threads."""
    policies = {
        "unpinned": "unpinned",
        "worst": "worst pinning",
        "measured": "packed and distributed measured, the faster kept",
        "autopin": "autopin, the paper's pinnings",
        "racing": "the same, racing",
    }
    columns, cells = ["policy"], []
    for machine, of_machine in programs.items():
        for threads in sorted({program["threads"] for program in of_machine}):
            chosen = [program for program in of_machine if program["threads"] == threads]
            columns.append(f"{machine}, {threads} threads")
            cells.append([_share(chosen, key) for key in policies])
    rows = [[name, *(column[row] for column in cells)] for row, name in enumerate(policies.values())]
    return Table(columns, rows, "Share of the best of the paper's pinnings, geometric mean, worst:")


def _share(programs: Sequence[dict[str, Any]], policy: str) -> str:
    shares = [program["best_s"] / program[f"{policy}_s"] for program in programs]
    return f"{geometric_mean(shares):.1%}, {min(shares):.0%}"


def table(programs: Mapping[str, Sequence[dict[str, Any]]]) -> Table:
    """Return the paper's tables 3 and 4, with our columns."""
    columns = ["machine", "workload", "threads", "best [s]", "autopin [s]", "diff [%]", "racing [s]"]
    columns += ["measured [s]", "unpinned [s]", "worst [s]", "over autopin [%]"]
    rows = [
        [
            machine,
            f"{program['workload']} {program['arguments']}",
            str(program["threads"]),
            f"{program['best_s']:.0f}",
            f"{program['autopin_s']:.0f}",
            f"{program['distance_percent']:.2f}",
            f"{program['racing_s']:.0f}",
            f"{program['measured_s']:.0f}",
            f"{program['unpinned_s']:.0f}",
            f"{program['worst_s']:.0f}",
            f"{program['over_worst_percent']:.1f}",
        ]
        for machine, of_machine in programs.items()
        for program in of_machine
    ]
    return Table(columns, rows)


def shown(number: float | None) -> str:
    """Format a ratio, or a dash where there is none."""
    return "-" if number is None else f"{number:.1f}"


def least(programs: Sequence[dict[str, Any]], key: str) -> float | None:
    """Return the least of the present values."""
    return min((program[key] for program in programs if program[key] is not None), default=None)
