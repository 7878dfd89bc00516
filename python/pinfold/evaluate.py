"""Makes docs/evaluation.md and the JSON beside it: every figure from the program itself.

Run in the project's root after ``make build`` and ``make bench``::

    python -m pinfold.evaluate [--quick]

Each section runs commands, keeps what they print as ``evaluation/NAME.json`` and becomes a table in
``docs/evaluation.md``. A figure stands beside the paper's where there is one, with the machine that it was made on;
what was simulated says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PINFOLD = Path("target/release/pinfold")
WORKLOADS = ("stream", "random_access", "stencil", "compute", "pairs", "barrier", "imbalance", "false_sharing")

FACTOR = 9  # A gain by more is told as a factor.
LOST = 0.002  # A search that loses less than this share of the run time has next to nothing to lose.


@dataclass
class Section:
    """One table of the evaluation.

    Attributes
    ----------
    name : str
        The name of the JSON file.
    title : str
        The heading.
    text : str
        What was done and what the figures say, as Markdown.
    commands : list of str
        What anyone can run to get these figures.
    columns : list of str
        The table's heads.
    rows : list of list of str
        The table's cells.
    data : dict
        What goes into the JSON file.
    """

    name: str
    title: str
    text: str
    commands: list[str]
    columns: list[str]
    rows: list[list[str]]
    data: dict[str, Any] = field(default_factory=dict)

    def markdown(self) -> str:
        """Give the section as Markdown."""
        lines = [f"## {self.title}", "", self.text, ""]
        lines += ["    " + command for command in self.commands]
        lines += ["", "| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        lines += ["", f"As JSON: `evaluation/{self.name}.json`.", ""]
        return "\n".join(lines)


def output(command: Sequence[str]) -> str:
    """Run a command and give its standard output; its failure is ours, with what it said."""
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"`{' '.join(command)}` ended with status {result.returncode}:\n{result.stderr}")
    return result.stdout


def run_json(arguments: Sequence[str], program: Sequence[str]) -> dict[str, Any]:
    """Run ``pinfold run`` and give what it wrote to ``--json``."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "run.json"
        separator = ["--"] if program else []
        output([str(PINFOLD), "run", "--quiet", "--json", str(file), *arguments, *separator, *program])
        record: dict[str, Any] = json.loads(file.read_text())
        return record


def here() -> str:
    """Give the machine at hand in one line."""
    return output([str(PINFOLD), "topo"]).splitlines()[0]


def gain(share: float | None) -> str:
    """Write a rate's gain over another: in percent, or as a factor where it is large."""
    if share is None:
        return "-"
    return f"{100 * share:+.0f} %" if share < FACTOR else f"{1 + share:,.0f} times"


def placements(quick: bool) -> Section:
    """Count placements on the AutoFinity paper's machine and on a large one."""
    del quick
    opteron = "synthetic:package:4 numa:2 l3:1 core:6 pu:1"
    epyc = "synthetic:package:2 l3:12 core:8 pu:1"
    printed = {8: "78", 24: "1941"}
    cases = [(opteron, threads) for threads in (4, 8, 16, 24)] + [(epyc, 64)]
    rows, data = [], []
    for machine, threads in cases:
        count = int(output([str(PINFOLD), "placements", "--machine", machine, "--threads", str(threads), "--count"]))
        paper = printed.get(threads) if machine == opteron else None
        rows.append([f"`{machine}`", str(threads), f"{count:,}", paper or "-"])
        data.append({"machine": machine, "threads": threads, "count": count, "paper": paper and int(paper)})
    text = (
        "Pinnings up to the machine's symmetries. The AutoFinity paper (2012, section 3) prints 78 and 1941 for 8 and "
        "24 threads on its four Opterons; brute force over its own definition, kept as a test in "
        "`crates/core/tests`, gives 80 and 1979. Counting is arithmetic; no machine is measured here."
    )
    commands = [f"pinfold placements --machine '{opteron}' --threads 8 --count"]
    return Section(
        "placements", "Placements", text, commands, ["machine", "threads", "placements", "paper"], rows, {"cases": data}
    )


def costs(quick: bool) -> Section:
    """Take over what ``make bench`` measured."""
    del quick
    file = Path("target/bench.json")
    if not file.exists():
        sys.exit(f"{file} is missing: `make bench` writes it")
    measured = json.loads(file.read_text())
    rows = [
        [
            one["name"],
            f"{one['value']:.3f}",
            one["unit"],
            f"≤ {one['promise']}",
            "held" if one["held"] else "**broken**",
        ]
        for one in measured
    ]
    machine = here()
    text = f"Measured on: {machine}. Ratios and differences are taken within one run."
    columns = ["cost", "measured", "unit", "promised", ""]
    return Section("costs", "Costs", text, ["make bench"], columns, rows, {"machine": machine, "costs": measured})


def live(quick: bool) -> Section:
    """Place every workload on the machine at hand."""
    probe = "1s" if quick else "5s"
    allowed = sorted(os.sched_getaffinity(0))
    apart = f"{allowed[0]},{allowed[-1]}"
    together = str(allowed[0])
    arguments = ["-t", probe, "-w", "500ms", "-i", "1s", "--schedule", apart, "--schedule", together]
    seconds = "6" if quick else "16"
    rows, data = [], []
    for workload in WORKLOADS:
        record = run_json(arguments, [f"target/workloads/{workload}", "--threads", "2", "--seconds", seconds])
        metric = record["metric"]
        rates = [candidate["rate"] for candidate in record["candidates"]]
        spreads = [candidate["spread"] for candidate in record["candidates"]]
        chosen = record["chosen"]
        rows.append(
            [
                workload,
                metric["name"] if metric else "-",
                *(
                    "-" if rate is None else f"{rate:,.1f} ± {100 * (spread or 0):.0f} %"
                    for rate, spread in zip(rates, spreads, strict=True)
                ),
                ",".join(map(str, chosen["pus"])) if chosen else "-",
                gain(chosen["gain_over_worst"]) if chosen else "-",
            ]
        )
        data.append({"workload": workload, "record": record})
    machine = here()
    text = (
        f"Measured on: {machine}. Each workload runs with two threads; the two candidates put them on two CPUs "
        f"({apart}) and on one ({together}). Rates are counts per second of the metric that `auto` chose, with the "
        "coefficient of variation of their readings. The paper's machines, on which pinnings differ by caches and "
        "memory as well, come with the simulated machines."
    )
    commands = ["pinfold run " + " ".join(arguments) + f" -- target/workloads/stream --threads 2 --seconds {seconds}"]
    columns = ["workload", "metric", f"on {apart}", f"on {together}", "chosen", "over the worst"]
    return Section("live", "Live runs", text, commands, columns, rows, {"machine": machine, "runs": data})


SCRIPT = """
topology = "synthetic:package:4 numa:2 l3:1 core:6 pu:1"
threads = 8
seed = {seed}
noise = 0.03
warm_up = 2.0
duration = 3600.0

[[phase]]
start = 0.0
rate = 80.0
{pinnings}
"""


def searches(quick: bool) -> Section:
    """Compare the exhaustive search with racing on scripted rates."""
    seeds = 3 if quick else 10
    # The pinnings that the topology gives are found out first, so that the script can give each a rate.
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "machine.toml"
        file.write_text(SCRIPT.format(seed=0, pinnings=""))
        found = run_json(["--machine", f"scripted:{file}"], [])
        candidates = [candidate["pus"] for candidate in found["candidates"]]
        # Rates from 80 to 100, the best in the middle of the list.
        best = len(candidates) // 2
        rates = [100.0 if i == best else 80.0 + 12.0 * i / len(candidates) for i in range(len(candidates))]
        pinnings = "\n".join(
            f'[[phase.pinning]]\npus = "{",".join(map(str, pus))}"\nrate = {rate}'
            for pus, rate in zip(candidates, rates, strict=True)
        )
        rows, data = [], []
        for search in ("exhaustive", "racing"):
            right, measured = 0, 0.0
            for seed in range(1, seeds + 1):
                file.write_text(SCRIPT.format(seed=seed, pinnings=pinnings))
                record = run_json(["--machine", f"scripted:{file}", "--search", search], [])
                right += record["chosen"]["candidate"] == best
                measured += record["chosen"]["at"]
            rows.append([search, f"{right} of {seeds}", f"{measured / seeds:.0f} s"])
            data.append({"search": search, "right": right, "of": seeds, "mean_time_to_choice_s": measured / seeds})
    text = (
        f"**Simulated**: a scripted machine of the shape of four Opterons, {len(candidates)} candidates for 8 threads "
        "with rates from 80 to 100 per second, 3 % noise, and 2 s to warm up after each re-pinning; default times "
        "(t = 30 s, w = i = 15 s). Times are virtual."
    )
    commands = ["pinfold run --machine scripted:FILE.toml --search racing"]
    return Section(
        "searches",
        "Exhaustive search and racing",
        text,
        commands,
        ["search", "best candidate chosen", "time to the choice (simulated)"],
        rows,
        {"simulated": True, "candidates": candidates, "rates": rates, "searches": data},
    )


# The pinnings that the autopin paper (2008, table 2) tries on each of its machines, by number of threads.
AUTOPIN_SCHEDULES: dict[str, dict[int, tuple[str, ...]]] = {
    "clovertown": {2: ("2,6", "4,5", "4,6"), 4: ("4,5,6,7", "2,3,6,7", "1,3,5,7")},
    "caneland": {2: ("1,2", "1,7", "1,8"), 4: ("1,7,8,9", "1,8,2,11", "5,8,11,14", "8,9,11,12")},
    "barcelona": {2: ("4,5", "2,6", "4,6"), 4: ("2,6,3,7", "4,6,5,7", "1,3,5,7")},
}
# The greatest distances of autopin from the best pinning in the paper's tables 3 and 4, in percent.
AUTOPIN_PAPER = {"clovertown": "2.71", "caneland": "-", "barcelona": "7.11"}
# What is recorded of each workload: arguments that put its data beyond the small caches and keep recordings short.
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
LASTS = 900  # Virtual seconds that a program lasts, as the longer ones of the paper's tables 3 and 4 do.


def simulated_autopin(quick: bool) -> Section:
    """Search on the autopin paper's machines, simulated, with the paper's pinnings."""
    workloads = list(RECORDED)[:: 3 if quick else 1]
    rows: list[list[str]] = []
    data: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for machine, schedules in AUTOPIN_SCHEDULES.items():
            distances, ratios, programs = [], [], []
            for workload in workloads:
                for threads, schedule in schedules.items():
                    recording = Path(directory) / f"{workload}-{threads}.pft"
                    if not recording.exists():
                        program = [f"target/workloads/{workload}", "--threads", str(threads), *RECORDED[workload]]
                        output([str(PINFOLD), "record", "-o", str(recording), "--", *program])
                    found = autopin_against_fixed(machine, schedule, recording)
                    distances.append(found["distance_percent"])
                    ratios.append(found["racing_time_ratio"])
                    programs.append({"workload": workload, "threads": threads, **found})
            lost = [ratio for ratio in ratios if ratio is not None]
            data[machine] = {
                "worst_distance_percent": max(distances),
                "mean_distance_percent": sum(distances) / len(distances),
                "racing_time_ratio": min(lost) if lost else None,
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
    text = (
        "**Simulated**: recorded workloads on the models of the paper's three machines, with the pinnings of its "
        f"table 2, default times, and as many repetitions as last about {LASTS} virtual seconds; after the paper's "
        "tables 3 and 4. The distance is autopin's run time over that of the best pinning, fixed from the start. Its "
        f"greatest values: {worst}. The simulated machines move pages with their threads, as the paper's did; most "
        "numbers of these three models' buses and memories are assumed (`pinfold machines clovertown`)."
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
        "autopin", "autopin on the paper's machines", text, [command], columns, rows, {"simulated": True, **data}
    )


def autopin_against_fixed(machine: str, schedule: Sequence[str], recording: Path) -> dict[str, Any]:
    """Run one recording under autopin, exhaustive and racing, and under its best and worst pinning, fixed."""

    def simulated(pinnings: Sequence[str], *arguments: str) -> dict[str, Any]:
        schedules = [word for pinning in pinnings for word in ("--schedule", pinning)]
        return run_json(["--machine", machine, *schedules, *arguments, str(recording)], [])

    search = simulated(schedule)
    rates = [candidate["rate"] for candidate in search["candidates"]]
    best, worst = rates.index(max(rates)), rates.index(min(rates))
    speed = search["simulation"]["repetitions"] / search["ran"]
    # The search ran under all candidates; its mean speed is near enough to say how often makes about so long.
    repeat = ("--repeat", str(max(1, round(speed * LASTS))))
    ran = {
        "best": simulated([schedule[best]], "--policy", "fixed", *repeat)["ran"],
        "worst": simulated([schedule[worst]], "--policy", "fixed", *repeat)["ran"],
        "autopin": simulated(schedule, *repeat)["ran"],
        "racing": simulated(schedule, "--search", "racing", *repeat)["ran"],
    }
    lost, lost_racing = ran["autopin"] - ran["best"], ran["racing"] - ran["best"]
    return {
        "best": schedule[best],
        "worst": schedule[worst],
        **{f"{name}_s": seconds for name, seconds in ran.items()},
        "distance_percent": 100 * lost / ran["best"],
        # Where the pinnings hardly differ nothing is lost, and there is no ratio.
        "racing_time_ratio": lost / lost_racing if lost_racing > 0 and lost / ran["best"] > LOST else None,
    }


SECTIONS: tuple[Callable[[bool], Section], ...] = (placements, live, simulated_autopin, searches, costs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make every section."""
    parser = argparse.ArgumentParser(prog="python -m pinfold.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a reduced set, in minutes")
    quick = parser.parse_args(arguments).quick
    if not PINFOLD.exists():
        sys.exit(f"{PINFOLD} is missing: run this in the project's root after `make build`")
    Path("evaluation").mkdir(exist_ok=True)
    pages = [
        "# Evaluation",
        "",
        f"Generated by `make evaluation{'-quick' if quick else ''}`; do not edit. Every figure comes from the program "
        "itself, with the command that makes it. Simulated is said where it is.",
        "",
    ]
    for make in SECTIONS:
        print(f"evaluation: {make.__name__}", file=sys.stderr)
        section = make(quick)
        Path(f"evaluation/{section.name}.json").write_text(json.dumps(section.data, indent=2) + "\n")
        pages.append(section.markdown())
    Path("docs/evaluation.md").write_text("\n".join(pages))


if __name__ == "__main__":
    main()
