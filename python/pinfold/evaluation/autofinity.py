"""AutoFinity's figure 1 on the simulated machine of its paper: a program's time in every placement of its threads."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet

from pinfold.evaluation import plot
from pinfold.evaluation.section import PINFOLD, Check, Section, Table, checks_table, output, record

MACHINE = "opteron-6164x4"
THREADS = 8
LLC_DOMAIN = 6  # PUs under one L3.
PACKAGE = 12  # PUs of a package.
WITHIN = 1.05  # A placement that takes at most so many times as long as the best is as good as it.

# What the paper's shapes are taken to be: the worst placement at least so many times as slow as the best; at most this
# share of the placements as good as the best; at least that.
SPREAD, FEW, MOST = 1.5, 0.25, 0.8

# What is recorded, and the parallel region that is its work. The paper (Moore and Childers, 2012, figure 1) shows
# streamcluster of PARSEC, which makes frequent use of barriers, and swaptions, whose threads share nothing and fit
# their caches.
PROGRAMS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "barriers": ("barrier", 0, ("--size", "2000", "--iterations", "2")),
    "computing": ("monte_carlo", 0, ("--size", "1M", "--iterations", "2")),
    "shared data": ("fft", 1, ("--size", "512k", "--iterations", "4")),
    "memory": ("stream", 1, ("--size", "48M", "--iterations", "1")),
}
# Of the paper's text on figure 1: the worst placement's time over the best one's, and the share of good placements.
PAPER = {
    "barriers": {"program": "streamcluster", "worst_over_best": 450 / 150, "good_share": 0.05},
    "computing": {"program": "swaptions", "worst_over_best": 1.45, "good_share": None},
}


def times(recording: Path) -> list[dict[str, Any]]:
    """Simulate a recording in every placement of its threads: PUs and seconds of a repetition, the best first."""
    data = recording.with_suffix(".parquet")
    command = ["sweep", "--quiet", "--machine", MACHINE, "--space", "threads", "-o", str(data), str(recording)]
    output([str(PINFOLD), *command])
    rows = pyarrow.parquet.read_table(data, columns=["region", "pinning", "time_s"]).to_pylist()
    found = [{"pus": row["pinning"], "seconds": row["time_s"]} for row in rows if row["region"] is None]
    return sorted(found, key=lambda one: (float(one["seconds"]), str(one["pus"])))


def numbers(pus: str) -> list[int]:
    """Give the PUs of a list such as ``0,1,6-9``."""
    ranges = [part.partition("-") for part in pus.split(",")]
    return [pu for first, _, last in ranges for pu in range(int(first), int(last or first) + 1)]


def used(pus: str, size: int) -> int:
    """Count the groups of `size` PUs that a placement uses."""
    return len({pu // size for pu in numbers(pus)})


def shape(program: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Say what the sorted times of a program look like."""
    seconds = [one["seconds"] for one in found]
    return {
        "program": program,
        "worst_over_best": seconds[-1] / seconds[0],
        # The share of placements that are as good as the best: what a random choice has for a chance.
        "good_share": sum(one <= WITHIN * seconds[0] for one in seconds) / len(seconds),
        "best": found[0]["pus"],
        "best_packages": used(found[0]["pus"], PACKAGE),
        "best_llc_domains": used(found[0]["pus"], LLC_DOMAIN),
        "worst": found[-1]["pus"],
        "worst_packages": used(found[-1]["pus"], PACKAGE),
        "worst_llc_domains": used(found[-1]["pus"], LLC_DOMAIN),
    }


def autofinity(quick: bool) -> Section:
    """Run every placement of three programs and say where the shapes are the paper's."""
    kinds = list(PROGRAMS)[: 3 if quick else None]
    placements, shapes = {}, {}
    for kind in kinds:
        program, region, arguments = PROGRAMS[kind]
        with tempfile.TemporaryDirectory() as directory:
            recording = Path(directory) / f"{program}.pft"
            command = [f"target/workloads/{program}", "--threads", str(THREADS), *arguments]
            record(command, recording, "--region", str(region))
            placements[kind] = times(recording)
        shapes[kind] = shape(program, placements[kind])
    barriers, shared, computing = (shapes[kind] for kind in ("barriers", "shared data", "computing"))
    number = len(placements["barriers"])
    checks = [
        *(
            Check(
                f"worst over best, `{one['program']}`",
                "above 3 (streamcluster)",
                f"> {SPREAD}",
                f"{one['worst_over_best']:.2f}",
                one["worst_over_best"] > SPREAD,
            )
            for one in (barriers, shared)
        ),
        *(
            Check(
                f"placements as good as the best, `{one['program']}`",
                "5 % (streamcluster)",
                f"< {FEW:.0%}",
                f"{one['good_share']:.0%}",
                one["good_share"] < FEW,
            )
            for one in (barriers, shared)
        ),
        *(
            Check(
                f"packages of the best and of the worst, `{one['program']}`",
                "packed is better (streamcluster)",
                "fewer, more",
                f"{one['best_packages']}, {one['worst_packages']}",
                one["best_packages"] < one["worst_packages"],
            )
            for one in (barriers, shared)
        ),
        Check(
            f"placements as good as the best, `{computing['program']}`",
            "most (swaptions)",
            f"> {MOST:.0%}",
            f"{computing['good_share']:.0%}",
            computing["good_share"] > MOST,
        ),
        Check(
            f"worst over best, `{computing['program']}`",
            "1.45 (swaptions)",
            f"less than `{barriers['program']}`",
            f"{computing['worst_over_best']:.2f}",
            computing["worst_over_best"] < barriers["worst_over_best"],
        ),
    ]
    text = (
        f"**Simulated**: recorded workloads of {THREADS} threads on `{MACHINE}`, each in all {number} placements, "
        "sorted by time as in the paper's figure 1 (Moore and Childers, 2012). The paper shows streamcluster and "
        "swaptions of PARSEC. Here stand `barrier`, which does what makes streamcluster slow, and `monte_carlo`, which "
        "computes as swaptions does; and beside them `fft`, whose threads exchange all their data, and `stream`, which "
        "memory bounds. What is compared is the shape; both programs that share spread less than streamcluster, which "
        "exchanges data and passes barriers in turn. That a few placements slow swaptions down by 45 % has no "
        "counterpart here: threads that share nothing meet nowhere in the simulated machine, and no other program "
        "runs beside them."
    )
    program, region, arguments = PROGRAMS["barriers"]
    commands = [
        f"pinfold record --region {region} -o {program}.pft -- "
        f"target/workloads/{program} --threads {THREADS} {' '.join(arguments)}",
        f"pinfold sweep --machine {MACHINE} --space threads -o {program}.parquet {program}.pft",
    ]
    tables = [
        checks_table(checks, "What makes the figure's shape:"),
        Table(
            ["", "program", "best [ms]", "packages, LLCs", "median [ms]", "worst [ms]", "packages, LLCs", "within 5 %"],
            [
                [
                    kind,
                    shapes[kind]["program"],
                    f"{found[0]['seconds'] * 1e3:.2f}",
                    f"{shapes[kind]['best_packages']}, {shapes[kind]['best_llc_domains']}",
                    f"{found[len(found) // 2]['seconds'] * 1e3:.2f}",
                    f"{found[-1]['seconds'] * 1e3:.2f}",
                    f"{shapes[kind]['worst_packages']}, {shapes[kind]['worst_llc_domains']}",
                    f"{shapes[kind]['good_share']:.0%}",
                ]
                for kind, found in placements.items()
            ],
            f"Times of the recorded region in {number} placements:",
        ),
    ]
    data = {
        "simulated": True,
        "machine": MACHINE,
        "threads": THREADS,
        "paper": PAPER,
        "checks": [asdict(check) for check in checks],
        "shapes": shapes,
        "placements": placements,
    }
    return Section("autofinity", "AutoFinity's figure 1", text, commands, tables, data, [draw(placements)])


def draw(placements: dict[str, list[dict[str, Any]]]) -> Path:
    """Draw the sorted times, each over the best of its program."""
    drawn = plot.figure()
    axes = drawn.add_subplot()
    for kind, found in placements.items():
        axes.plot([one["seconds"] / found[0]["seconds"] for one in found], label=f"{kind} ({PROGRAMS[kind][0]})")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("placements, the best first")
    axes.set_ylabel("time over that of the best")
    axes.set_title(f"{THREADS} threads in every placement, simulated: {MACHINE}", fontsize=10)
    axes.legend(fontsize=8)
    return plot.save(drawn, "autofinity")
