"""SAM's table 2 and figures 7 and 8: programs side by side, compared with the best result of Linux's scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from pinfold.evaluation import plot
from pinfold.evaluation.finished import Run
from pinfold.evaluation.sam.runs import MACHINE, best_static, linux, sam
from pinfold.evaluation.sam.standalone import metrics
from pinfold.evaluation.sam.workloads import ALL, MIXES, QUICK_MIXES, Application, mix
from pinfold.evaluation.section import Check, Part, Table
from pinfold.evaluation.side_by_side import at_once

SEEDS = range(3)
"""Each is another order of task creation. For Linux the best counts, as in the paper; for SAM the median."""

UNEXPECTED = 1.5
"""A gain of more than this multiple of the paper's largest is unexpected and needs an explanation."""

MICROBENCHMARK_MIXES, MICROBENCHMARK_GAIN = (1, 2, 3), 0.25
"""The mixes of the paper's own microbenchmarks, which are the same programs here, and their gain (section 4.3)."""

ABOUT = 2
"""A gain of the same programs is about the paper's when it differs by at most this factor."""

PAPER: dict[str, Any] = {"least_gain": 0.02, "most_gain": 0.36, "linux": (0.69, 0.87), "sam": (0.83, 0.96)}
"""Gains over Linux of all mixes; geometric means over all mixes of the worst and of the best application."""


def files(applications: Sequence[Application]) -> list[Path]:
    """Return the recordings of a mix, one for each process."""
    return [application.file for application in applications for _ in range(application.processes)]


def relative(applications: Sequence[Application], run: Run, alone: Mapping[Application, float]) -> list[float]:
    """Return each application's speed relative to its best static one alone; the mean of its processes."""
    speeds = iter(run.speeds)
    return [
        sum(next(speeds) for _ in range(application.processes)) / application.processes / alone[application]
        for application in applications
    ]


def judged(number: int, alone: Mapping[Application, float], *options: str) -> dict[str, Any]:
    """Run one mix with each seed, under Linux and under SAM."""
    applications = mix(MIXES[number])
    recordings = files(applications)

    def ordered(runs: Sequence[Run]) -> list[tuple[list[float], Run]]:
        judged = [(relative(applications, run, alone), run) for run in runs]
        return sorted(judged, key=lambda one: geometric_mean(one[0]))

    by_linux = ordered([linux(recordings, seed) for seed in SEEDS])
    by_sam = ordered([sam(recordings, seed, *options) for seed in SEEDS])
    best, usual, middle = by_linux[-1], by_linux[len(by_linux) // 2], by_sam[len(by_sam) // 2]
    means = [geometric_mean(one[0]) for one in by_sam]
    return {
        "mix": number,
        "applications": MIXES[number],
        "linux": geometric_mean(best[0]),
        "sam": geometric_mean(middle[0]),
        "sam_least": means[0],
        "sam_most": means[-1],
        "geomean_gain": geometric_mean(middle[0]) / geometric_mean(best[0]) - 1,
        "gain_over_median_order": geometric_mean(middle[0]) / geometric_mean(usual[0]) - 1,
        "min": {"linux": min(best[0]), "sam": min(middle[0])},
        "max": {"linux": max(best[0]), "sam": max(middle[0])},
        "by_application": {
            application.name: {"linux": slow, "sam": quick}
            for application, slow, quick in zip(applications, best[0], middle[0], strict=True)
        },
        "moves": middle[1].moves,
        "metrics": {
            name: [metrics(run, program) for program in range(len(recordings))]
            for name, run in (("linux", best[1]), ("sam", middle[1]))
        },
    }


def speeds_alone(numbers: Sequence[int]) -> dict[Application, float]:
    """Return each application's best static speed when it runs alone."""
    wanted = sorted({one for number in numbers for one in mix(MIXES[number])}, key=lambda one: (one.name, one.tasks))
    recordings = [one.file for one in wanted]
    found = at_once(
        [
            partial(best_static, file, application.tasks // application.processes)
            for file, application in zip(recordings, wanted, strict=True)
        ]
    )
    return {application: speed for application, (speed, _) in zip(wanted, found, strict=True)}


def mixes(quick: bool, thresholds: Path) -> Part:
    """Judge SAM on mixes."""
    numbers = QUICK_MIXES if quick else tuple(MIXES)
    alone = speeds_alone(numbers)
    rows = at_once([partial(judged, number, alone, "--thresholds", str(thresholds)) for number in numbers])
    means = fairness(rows)
    data = {"mixes": rows, "fairness": means, "paper_mixes": PAPER}
    return Part(data, table(rows), text(rows, means), commands())


def fairness(rows: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Return, for both, the geometric means of each mix's worst and best application."""
    return {
        name: [geometric_mean(row[which][name] for row in rows) for which in ("min", "max")]
        for name in ("linux", "sam")
    }


def text(rows: Sequence[dict[str, Any]], means: Mapping[str, Sequence[float]]) -> str:
    """Describe the experiment and its results."""
    below = [f"#{row['mix']} ({row['geomean_gain']:+.1%})" for row in rows if row["geomean_gain"] < 0]
    gains = [row["geomean_gain"] for row in rows]
    over_median = [row["gain_over_median_order"] for row in rows]
    stand = "; ".join(f"{name}: `{workload.program} {workload.arguments}`" for name, workload in ALL.items())
    return (
        f"**Mixes** (table 2, figures 7 and 8), simulated on `{MACHINE}`: the paper's mixes with workloads of this "
        f"project in place of its programs (`sam_workloads.py` gives the reasons): {stand}. Each program repeats its "
        "recorded region on its own. Its speed is relative to that of its best static mapping alone, and a mix's is "
        f"the geometric mean of its applications. As in the paper, Linux's result is the best of {len(SEEDS)} orders "
        f"of task creation; SAM's is the median of the same. Gains over Linux: {min(gains):+.1%} to "
        f"{max(gains):+.1%}, geometric mean {geometric_mean(1 + gain for gain in gains) - 1:+.1%} (paper: "
        f"{PAPER['least_gain']:+.0%} to {PAPER['most_gain']:+.0%}). Worst and best application of a mix, geometric "
        f"means over all: SAM {means['sam'][0]:.2f} and {means['sam'][1]:.2f}, Linux {means['linux'][0]:.2f} and "
        f"{means['linux'][1]:.2f} (paper: 0.83 and 0.96; Linux 0.69 and 0.87). Mixes below Linux's best order: "
        f"{', '.join(below) or 'none'}. Over Linux's median order: {min(over_median):+.1%} to {max(over_median):+.1%}, "
        f"geometric mean {geometric_mean(1 + gain for gain in over_median) - 1:+.1%}. Linux since 5.18, which the "
        "simulated scheduler follows, keeps new tasks on the node of their parent while few run there. In one order or "
        "another it so places a whole program that shares on one package, and SAM can then gain nothing. The paper's "
        "kernel had no such rule, so its gains over the best order are larger than these."
    )


def mixes_checks(data: Mapping[str, Any]) -> list[Check]:
    """Compare SAM's results with the targets.

    The largest gain is bounded on both sides: a gain far above the paper's says that a program is purer than real
    ones, or that the scheduler in the model is worse.
    """
    gains = [row["geomean_gain"] for row in data["mixes"]]
    means = data["fairness"]
    found = [
        Check(
            "largest gain",
            f"{PAPER['most_gain']:+.0%}",
            f"at least {PAPER['most_gain']:+.0%}",
            f"{max(gains):+.1%}",
            max(gains) >= PAPER["most_gain"],
        ),
        Check(
            "largest gain, not far above the paper's",
            f"{PAPER['most_gain']:+.0%}",
            f"at most {UNEXPECTED * PAPER['most_gain']:+.0%}",
            f"{max(gains):+.1%}",
            max(gains) <= UNEXPECTED * PAPER["most_gain"],
        ),
        Check("least gain", f"{PAPER['least_gain']:+.0%}", "none below 0", f"{min(gains):+.1%}", min(gains) >= 0),
    ]
    same = [1 + row["geomean_gain"] for row in data["mixes"] if row["mix"] in MICROBENCHMARK_MIXES]
    gain = geometric_mean(same) - 1
    least, most = MICROBENCHMARK_GAIN / ABOUT, MICROBENCHMARK_GAIN * ABOUT
    found.append(
        Check(
            "mixes of the paper's own microbenchmarks (the same programs), gain",
            f"about {MICROBENCHMARK_GAIN:+.0%}",
            f"{least:+.1%} to {most:+.0%}",
            f"{gain:+.1%}",
            least <= gain <= most,
        )
    )
    for which, name in enumerate(("worst", "best")):
        paper = PAPER["sam"][which] / PAPER["linux"][which]
        ours = means["sam"][which] / means["linux"][which]
        found.append(
            Check(
                f"{name} application of a mix, SAM over Linux",
                f"{paper:.2f}",
                f"at least {paper:.2f}",
                f"{ours:.2f}",
                ours >= paper,
            )
        )
    return found


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Compare all mixes."""
    head = [
        *("mix", "applications", "Linux", "SAM", "of other orders", "gain", "gain over Linux's median order"),
        *("Linux min, max", "SAM min, max", "moves"),
    ]
    body = [
        [
            str(row["mix"]),
            row["applications"],
            f"{row['linux']:.3f}",
            f"{row['sam']:.3f}",
            f"{row['sam_least']:.3f} to {row['sam_most']:.3f}",
            f"{row['geomean_gain']:+.1%}",
            f"{row['gain_over_median_order']:+.1%}",
            *(f"{row['min'][name]:.2f}, {row['max'][name]:.2f}" for name in ("linux", "sam")),
            ", ".join(f"{number} {reason}" for reason, number in row["moves"].items()) or "none",
        ]
        for row in rows
    ]
    return Table(head, body, "Mixes: geometric mean of speeds relative to the best static ones alone:")


def commands() -> list[str]:
    """Return commands that run one mix."""
    return [
        f"pinfold run --machine {MACHINE} --policy sam --thresholds thresholds.toml membench-12.pft hubench-8.pft",
        f"pinfold run --machine {MACHINE} --policy none --seed 3 membench-12.pft hubench-8.pft",
    ]


def plot_mixes(rows: Sequence[dict[str, Any]]) -> Path:
    """Draw figure 7."""
    drawn = plot.figure(10.0, 3.6)
    axes = drawn.add_subplot()
    for offset, name, label in ((-0.2, "linux", "Linux, best order"), (0.2, "sam", "SAM")):
        heights = [row[name] for row in rows]
        errors = [
            [row[name] - row["min"][name] for row in rows],
            [row["max"][name] - row[name] for row in rows],
        ]
        places = [place + offset for place in range(len(rows))]
        axes.bar(places, heights, 0.4, yerr=errors, capsize=2, label=label)
    axes.set_xticks(range(len(rows)), [f"#{row['mix']}" for row in rows], fontsize=7)
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_ylabel("speed over best static alone")
    axes.set_title(f"Mixes, simulated: {MACHINE}", fontsize=10)
    axes.legend(fontsize=8, loc="upper left")
    return plot.save(drawn, "sam-mixes")
