"""autopin on the simulated machines of its paper."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinfold.evaluation.section import Section, Table, record, run_json

LOST = 0.002  # A loss below this share of the run time is too small for a ratio.

# The pinnings in the autopin paper (2008, table 2) for each of its machines, by number of threads.
AUTOPIN_SCHEDULES: dict[str, dict[int, tuple[str, ...]]] = {
    "clovertown": {2: ("2,6", "4,5", "4,6"), 4: ("4,5,6,7", "2,3,6,7", "1,3,5,7")},
    "caneland": {2: ("1,2", "1,7", "1,8"), 4: ("1,7,8,9", "1,8,2,11", "5,8,11,14", "8,9,11,12")},
    "barcelona": {2: ("4,5", "2,6", "4,6"), 4: ("2,6,3,7", "4,6,5,7", "1,3,5,7")},
}
# The greatest distances of autopin from the best pinning in the paper's tables 3 and 4, in percent.
AUTOPIN_PAPER = {"clovertown": "2.71", "caneland": "-", "barcelona": "7.11"}
# The recorded arguments of each workload: they put its data beyond the small caches and keep recordings short.
RECORDED = {
    "stream": ("--size", "12M", "--iterations", "6"),
    "random_access": ("--size", "4M", "--iterations", "6"),
    "stencil": ("--size", "3M", "--iterations", "6"),
    "compute": ("--size", "256k", "--iterations", "6"),
    "barrier": ("--size", "200", "--iterations", "4"),
    "imbalance": ("--size", "256k", "--iterations", "6"),
    "false_sharing": ("--size", "40k", "--iterations", "6"),
    "spmv": ("--size", "4M", "--iterations", "6"),
}
INITIALISES = 15  # Virtual seconds for which the program initialises, by default.
LASTS = 900  # Virtual seconds that a program lasts, as the longer ones of the paper's tables 3 and 4 do.


def autopin(quick: bool) -> Section:
    """Search on the simulated machines of the autopin paper, with the paper's pinnings."""
    workloads = list(RECORDED)[:: 3 if quick else 1]
    rows: list[list[str]] = []
    data: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for machine, schedules in AUTOPIN_SCHEDULES.items():
            programs = []
            for workload in workloads:
                for threads, schedule in schedules.items():
                    recording = Path(directory) / f"{workload}-{threads}.pft"
                    if not recording.exists():
                        program = [f"target/workloads/{workload}", "--threads", str(threads), *RECORDED[workload]]
                        record(program, recording)
                    found = autopin_against_fixed(machine, schedule, recording)
                    programs.append({"workload": workload, "threads": threads, **found})
            distances = [program["distance_percent"] for program in programs]
            data[machine] = {
                "worst_distance_percent": max(distances),
                "mean_distance_percent": sum(distances) / len(distances),
                "racing_choice_percent": max(program["racing_choice_percent"] for program in programs),
                **{key: least(programs, key) for key in ("racing_time_ratio", "racing_time_ratio_with_initialisation")},
                "programs": programs,
            }
            rows += [
                [
                    machine,
                    program["workload"],
                    str(program["threads"]),
                    f"{program['best_s']:.0f}",
                    f"{program['autopin_s']:.0f}",
                    f"{program['distance_percent']:.2f}",
                    f"{program['racing_s']:.0f}",
                    f"{program['worst_s']:.0f}",
                    f"{100 * (program['worst_s'] / program['best_s'] - 1):.1f}",
                ]
                for program in programs
            ]
    worst = ", ".join(
        f"{machine} {found['worst_distance_percent']:.2f} % (paper: {AUTOPIN_PAPER[machine]} %)"
        for machine, found in data.items()
    )
    racing = ", ".join(
        f"{machine} {shown(found['racing_time_ratio'])} ({shown(found['racing_time_ratio_with_initialisation'])}; "
        f"{found['racing_choice_percent']:.2f} %)"
        for machine, found in data.items()
    )
    text = (
        "**Simulated**: recorded workloads on the models of the paper's three machines, with the pinnings of its "
        f"table 2, default times, and as many repetitions as last about {LASTS} virtual seconds; after the paper's "
        "tables 3 and 4. The distance is autopin's run time over that of the best pinning, fixed from the start. Its "
        f"greatest values: {worst}. The ratio is the time that the full search loses to worse pinnings, divided by "
        "the time that `--search racing` loses, from the end of the program's initialisation; the least ratio of all "
        "programs is given. In parentheses are the ratio from the program's start (both searches keep the first "
        "pinning for 15 s), and by how much racing's choice is slower than that of the full search, at most: "
        f"{racing}. The simulated machines move pages with their threads, as the paper's did; most numbers of these "
        "three models' buses and memories are assumed (`pinfold machines clovertown`)."
    )
    columns = [
        "machine",
        "workload",
        "threads",
        "best [s]",
        "autopin [s]",
        "diff [%]",
        "racing [s]",
        "worst [s]",
        "diff [%]",
    ]
    command = "pinfold run --machine clovertown --schedule 2,6 --schedule 4,5 --schedule 4,6 --repeat N FILE.pft"
    return Section(
        "autopin",
        "autopin on the paper's machines",
        text,
        [command],
        [Table(columns, rows)],
        {"simulated": True, **data},
    )


def shown(number: float | None) -> str:
    """Format a ratio, or a dash where there is none."""
    return "-" if number is None else f"{number:.1f}"


def least(programs: Sequence[dict[str, Any]], key: str) -> float | None:
    """Return the least of the present values."""
    return min((program[key] for program in programs if program[key] is not None), default=None)


def ratio(lost: float, lost_racing: float, whole: float) -> float | None:
    """Return the ratio of two losses; None where the first is too small for a ratio."""
    return lost / lost_racing if lost_racing > 0 and lost / whole > LOST else None


def autopin_against_fixed(machine: str, schedule: Sequence[str], recording: Path) -> dict[str, Any]:
    """Run one recording under autopin, exhaustive and racing, and under its best and worst pinning, fixed."""

    def simulated(pinnings: Sequence[str], *arguments: str) -> dict[str, Any]:
        schedules = [word for pinning in pinnings for word in ("--schedule", pinning)]
        return run_json(["--machine", machine, *schedules, *arguments, str(recording)], [])

    search = simulated(schedule)
    rates = [candidate["rate"] for candidate in search["candidates"]]
    best, worst = rates.index(max(rates)), rates.index(min(rates))
    speed = search["simulation"]["repetitions"] / search["ran"]
    # The search ran under all candidates, so its mean speed is a good estimate of the number of repetitions.
    repeat = ("--repeat", str(max(1, round(speed * LASTS))))
    exhaustive = simulated(schedule, *repeat)
    racing = simulated(schedule, "--search", "racing", *repeat)
    ran = {
        "best": simulated([schedule[best]], "--policy", "fixed", *repeat)["ran"],
        "worst": simulated([schedule[worst]], "--policy", "fixed", *repeat)["ran"],
        "autopin": exhaustive["ran"],
        "racing": racing["ran"],
    }
    lost, lost_racing = ran["autopin"] - ran["best"], ran["racing"] - ran["best"]
    # While the program initialises, both keep the first pinning, and neither searches.
    initialising = INITIALISES * (1 - rates[0] / rates[best])
    searching, searching_racing = lost - initialising, lost_racing - initialising
    chosen = [rates[run["chosen"]["candidate"]] for run in (exhaustive, racing)]
    return {
        "best": schedule[best],
        "worst": schedule[worst],
        **{f"{name}_s": seconds for name, seconds in ran.items()},
        "distance_percent": 100 * lost / ran["best"],
        "racing_choice_percent": 100 * (1 - chosen[1] / chosen[0]),
        "racing_time_ratio": ratio(searching, searching_racing, ran["best"]),
        "racing_time_ratio_with_initialisation": ratio(lost, lost_racing, ran["best"]),
    }
