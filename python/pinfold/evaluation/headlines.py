"""The headline figures: for each section what its paper claims, what we asked for, and what was found.

A headline names a promise of its section, or reads a figure from the section's data. A figure without a condition has
no ``asked``. The claims are those of the papers' abstracts and results (docs/papers.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pinfold.evaluation.section import Promise

Data = Mapping[str, Any]

SIMULATED = "simulated"
MEASURED = "measured"
COUNTED = "counted"


@dataclass(frozen=True)
class Headline:
    """A headline figure of a section.

    Attributes
    ----------
    kind : str
        ``simulated``, ``measured``, or ``counted``.
    machine : str or None
        The simulated machine; None for the machine on which the section was made.
    find : callable
        Finds the figure in the section's data.
    name : str
        The figure; empty for the promise's own name.
    claimed : str
        What the paper claims.
    """

    kind: str
    machine: str | None
    find: Callable[[Data], Promise | None]
    name: str = ""
    claimed: str = "-"


@dataclass(frozen=True)
class Row:
    """A headline figure as the pages show it.

    Attributes
    ----------
    figure, claimed, asked, value : str
        The figure's name, the paper's claim, the condition (empty without one), and what was found.
    held : bool or None
        Whether the condition holds; None without a condition or without a value.
    kind, machine : str
        Where the figure comes from.
    """

    figure: str
    claimed: str
    asked: str
    value: str
    held: bool | None
    kind: str
    machine: str


def promised(name: str) -> Callable[[Data], Promise | None]:
    """Return how to find the promise of this name."""

    def find(data: Data) -> Promise | None:
        return next((Promise(**promise) for promise in data["promises"] if promise["name"] == name), None)

    return find


def promised_of_regions(name: str) -> Callable[[Data], Promise | None]:
    """Return how to find a promise whose name may end with the regions of a part of a sweep."""

    def find(data: Data) -> Promise | None:
        return next((Promise(**one) for one in data["promises"] if one["name"].startswith(name)), None)

    return find


def placements_of_two_sizes(data: Data) -> Promise:
    """Return the numbers of placements that the paper has, beside those that its definition gives by brute force."""
    counts = [f"{case['count']:,}" for case in data["cases"] if case["paper"]]
    wanted = ["80", "1,979"]
    return Promise("", " and ".join(counts), "", f"{' and '.join(wanted)}, by brute force", counts == wanted)


def faster_chosen(data: Data) -> Promise:
    """Return in how many live runs the faster of both candidates was chosen."""
    records = [run["record"] for run in data["runs"]]
    right = sum(_is_fastest_chosen(record) for record in records)
    return Promise("", f"{right} of {len(records)} workloads", "", "", None)


def covering_windows(data: Data) -> Promise:
    """Return how many recorded windows cover their program."""
    windows = data["windows"]
    return Promise("", f"{sum(window['covers'] is True for window in windows)} of {len(windows)}", "", "", None)


def time_of_racing(data: Data) -> Promise:
    """Return the times in which both searches choose."""
    times = {search["search"]: search["mean_time_to_choice_s"] for search in data["searches"]}
    return Promise("", f"{times['racing']:.0f} s (exhaustive search: {times['exhaustive']:.0f} s)", "", "", None)


HEADLINES: Mapping[str, Sequence[Headline]] = {
    "placements": [
        Headline(
            COUNTED,
            "four Opterons",
            placements_of_two_sizes,
            "placements of 8 and 24 threads",
            "78 and 1,941 (AutoFinity)",
        )
    ],
    "live": [Headline(MEASURED, None, faster_chosen, "runs that keep the faster of two pinnings")],
    "progress": [
        Headline(MEASURED, None, promised("programs that are measured by their progress")),
    ],
    "host": [
        Headline(
            MEASURED,
            None,
            promised("time of workloads on this machine, median error"),
            "median error of simulated times on the model of this machine",
        )
    ],
    "windows": [Headline(SIMULATED, "two models", covering_windows, "windows that cover their program")],
    "autopin": [
        Headline(
            SIMULATED,
            "three models",
            promised("clovertown: greatest distance from the best pinning"),
            "greatest distance from the best pinning, clovertown",
            "2.71 % (autopin)",
        )
    ],
    "autofinity": [
        Headline(
            SIMULATED,
            "opteron-6164x4",
            promised("of the oracle's performance"),
            "share of the oracle's performance",
            "96 % (AutoFinity)",
        )
    ],
    "judged": [
        Headline(
            SIMULATED,
            "opteron-6164x4",
            promised(
                "speed of hints, two learned samples, over packed and distributed measured, the faster kept: "
                "applications for judging, any number of threads"
            ),
            "speed of learned hints over the faster of packed and distributed, real applications",
        )
    ],
    "sam": [
        Headline(
            SIMULATED,
            "e5-2660v2x2",
            promised("mixes of the paper's own microbenchmarks (the same programs), gain"),
            "gain over Linux, the paper's microbenchmarks",
            "about 25 %; 2 to 36 % for all mixes (SAM)",
        )
    ],
    "fairness": [
        Headline(
            SIMULATED,
            "e5-2660v2x2",
            promised("real applications, speed of the daemon over Linux, slowest application"),
            "speed of the slowest real application under the daemon, over Linux",
        )
    ],
    "classify": [
        Headline(
            SIMULATED,
            "three models",
            promised("placement, sensitivity, balanced accuracy: unseen program"),
            "accuracy of `sensitive`, an unseen program",
            "close to 80 % (Denoyelle et al.)",
        ),
        Headline(
            SIMULATED,
            "three models",
            promised("placement, one run, share of the best possible speed: unseen program"),
            "share of the best speed, an unseen program",
            "near-optimal (Denoyelle et al.)",
        ),
    ],
    "react": [
        Headline(
            SIMULATED,
            "e5-4650x4",
            promised("react, share of the possible gain against the paper's, e5-4650x4"),
            "share of the possible gain, the paper's model, unseen programs",
            "0.9086: 1.68x of 1.77x (Sánchez Barrera et al.)",
        ),
    ],
    "auto": [
        Headline(
            SIMULATED,
            "five models",
            promised("time over the oracle at 60 s, median"),
            "time of a 60 s run over the best static placement's, median",
        ),
        Headline(
            SIMULATED,
            "five models",
            promised("time over unpinned at 60 s, slowest program"),
            "time of a 60 s run over the unpinned one's, worst program",
        ),
    ],
    "regions": [
        Headline(
            SIMULATED,
            "e5-4650x4",
            promised("speed of phases by region over the best single placement, mean"),
            "speed by region over the best single placement, `phases`",
        )
    ],
    "searches": [Headline(SIMULATED, "four Opterons, scripted", time_of_racing, "time until racing chooses")],
    "validation": [
        Headline(
            SIMULATED,
            "two caches",
            promised("single-thread misses over cachegrind's, worst difference"),
            "difference of cache misses from cachegrind's, worst program",
        ),
        Headline(
            SIMULATED,
            "e5-4650x4",
            promised("intervals of sampled times that have the whole simulation's time"),
            "sampled intervals that contain the whole simulation's time",
        ),
    ],
    "measured": [
        Headline(
            MEASURED,
            "two nodes of 16 cores, by others",
            promised("share of the possible gain after 5 trials, greedy race of other programs"),
        ),
    ],
    "belief": [
        Headline(
            MEASURED,
            "two nodes of 16 cores, by others",
            promised("share of the possible gain after 5 trials, measured regions, belief of other programs"),
        ),
        Headline(
            MEASURED,
            "two nodes of 16 cores, by others",
            promised("share of the possible gain after 5 trials, measured regions, the belief that ships"),
        ),
        Headline(
            SIMULATED,
            "platinum-8168x2",
            promised("share of the possible gain after 5 trials, platinum-8168x2, simulated, belief of other machines"),
            "share of the possible gain after 5 trials, belief of other programs and machines",
        ),
    ],
    "reality": [
        Headline(
            SIMULATED,
            "gold-6142x2, beside a measured machine",
            promised_of_regions(f"correlation of the {what} of gains"),
        )
        for what in ("mean vectors", "covariances")
    ],
    "costs": [
        Headline(
            MEASURED,
            None,
            promised("processor time of two computing threads, with/without"),
            "processor time of two computing threads with pinfold over that without",
        )
    ],
}
"""The headlines by section. A section that is not here has only figures that other sections have, too."""


def headline_rows(section: str, data: Data) -> list[Row]:
    """Return the headline figures of a section from the content of its JSON file."""
    rows = []
    for headline in HEADLINES.get(section, []):
        found = headline.find(data)
        if found is None:
            continue
        rows.append(
            Row(
                headline.name or found.name,
                headline.claimed,
                found.promise,
                _shown(found),
                found.held,
                headline.kind,
                headline.machine or data["machine"].split(":")[0],
            )
        )
    return rows


def _shown(promise: Promise) -> str:
    if promise.value is None:
        return "not measured"
    value = f"{promise.value:.4g}" if isinstance(promise.value, float) else str(promise.value)
    unit = "" if promise.unit == "ratio" else promise.unit
    return f"{value} {unit}".rstrip() if unit else value


def _is_fastest_chosen(record: Data) -> bool:
    candidates = record["candidates"]
    fastest = max(candidates, key=lambda candidate: candidate["rate"] or 0.0)
    return bool(fastest["pus"] == record["chosen"]["pus"])
