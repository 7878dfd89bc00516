"""The section on the simulator's reality: its population of regions beside a measured one, on machines of one shape."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from pinfold.evaluation.measured.foreign import SOURCE, VARIABLE, measured_table, named
from pinfold.evaluation.measured.known import Known
from pinfold.evaluation.reality.figures import Figure, figures
from pinfold.evaluation.reality.sweep import MACHINE, SPACE, Progress, partial, sweep
from pinfold.evaluation.section import Promise, Section, Table
from pinfold.learn.react.data import read

TEXT = f"""\
{SOURCE}

**Measured beside simulated.** The measured machine has two nodes of 16 cores with SMT, and `{MACHINE}` is a model of
such a machine. Its regions are those of pinfold's own workloads, simulated in all configurations of `{SPACE}`. They are
other programs than the measured ones, so single regions are not compared. Populations are: what prefetchers, nodes,
mappings of pages and siblings are worth in the mean, for how many regions, and how gains vary together. Nothing in the
model was chosen by this table.

Gains are over a thread for each core of both nodes, scattered, pages after locality, all prefetchers on. Means of
speeds are geometric, over regions and over the configurations with a core for each thread, at least half of the cores,
and pages after locality or spread evenly. The best configurations and the share of siblings are over the whole space.
Correlations are over the configurations that both populations have, siblings included."""

PARTIAL = "partial"
"""The key of the section's data that says whether it was made from a part of its sweep."""

FEWEST_REGIONS = 2
"""The least number of regions that have a covariance."""

REDUCED = "This is the reduced set: a few small regions, whose figures say little."


def reality(quick: bool) -> Section:
    """Sweep the missing regions, and compare the simulated population with the measured one."""
    return _section(sweep, quick)


def partial_reality(quick: bool) -> Section:
    """Compare the simulated regions that are swept already with the measured ones; the section says how many."""
    return _section(partial, quick)


def _section(regions: Callable[[bool], Progress], quick: bool) -> Section:
    file = named()
    if file is None:
        sys.exit(f"the comparison cannot be made: {VARIABLE} does not name the measured table")
    found = regions(quick)
    if found.swept.file is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in found.swept.failed.items())
        sys.exit(f"the comparison cannot be made: none of {found.regions} regions has rows{reasons and f': {reasons}'}")
    simulated = simulated_regions(found.swept.file)
    if len(simulated.names) < FEWEST_REGIONS:
        sys.exit(
            f"the comparison cannot be made: {with_rows(found)} regions have rows, and gains vary together in "
            f"{FEWEST_REGIONS} or more"
        )
    return compared(measured_table(file).known, simulated, found, quick=quick)


def simulated_regions(file: Path) -> Known:
    """Read the regions of a sweep: a region has another command with each number of threads."""
    (found,) = read([file])
    return Known.of(found)


def compared(measured: Known, simulated: Known, progress: Progress, *, quick: bool) -> Section:
    """Return the section on two populations.

    Args:
        measured: the measured regions.
        simulated: the simulated regions.
        progress: the sweep that has them.
        quick: whether it is the reduced set.
    """
    found = figures(measured, simulated)
    texts = [*incomplete(progress), sizes(measured, simulated), TEXT, *([REDUCED] if quick else [])]
    return Section(
        "reality",
        "The simulator beside a measured machine",
        "\n\n".join(texts),
        [f"{VARIABLE}=TABLE.csv.gz python -m pinfold.evaluation{' --partial' if progress.missing else ''} reality"],
        [shown(found)],
        {
            PARTIAL: bool(progress.missing),
            "simulated": {
                "machine": MACHINE,
                "space": SPACE,
                "regions": len(simulated.names),
                "of": progress.regions,
                "failed": dict(progress.swept.failed),
                "missing": list(progress.missing),
            },
            "measured": {"machine": measured.machine, "regions": len(measured.names)},
            # As text, because JSON has no number for a range without an upper end.
            "figures": [asdict(one) | {"asked": one.asked and one.asked.text(), "held": one.held} for one in found],
        },
        promises=promises(found, f" ({with_rows(progress)} regions)" if progress.missing else ""),
    )


def with_rows(progress: Progress) -> str:
    """Return how many regions have rows, and of how many."""
    without = len(progress.missing) + len(progress.swept.failed)
    return f"{progress.regions - without} of {progress.regions}"


def incomplete(progress: Progress) -> list[str]:
    """Say which regions have no rows: those that were not swept, and those that failed. Empty if all have rows."""
    failed, missing = progress.swept.failed, progress.missing
    texts = []
    if missing:
        texts.append(
            f"**The sweep is not complete.** {with_rows(progress)} regions have rows, and {len(missing)} were not "
            "swept: `simulated.missing` of the JSON file has them. Regions are swept in a random order, so the swept "
            "ones are a sample of all."
        )
    if failed:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        texts.append(f"{len(failed)} of {progress.regions} regions failed: {reasons}.")
    return texts


def sizes(measured: Known, simulated: Known) -> str:
    """Say how large the populations are."""
    return (
        f"{len(measured.names)} measured regions of {len(set(measured.programs))} programs in {len(measured.settings)} "
        f"configurations, and {len(simulated.names)} simulated ones of {len(set(simulated.programs))} programs in "
        f"{len(simulated.settings)}."
    )


def shown(found: list[Figure]) -> Table:
    """Return the figures as a table, the measured ones first."""

    def held(one: Figure) -> str:
        return "" if one.held is None else "holds" if one.held else "**does not hold**"

    rows = [
        [
            one.name,
            "-" if one.measured is None else f"{one.measured:.3f}",
            f"{one.simulated:.3f}",
            one.asked.text() if one.asked else "",
            held(one),
        ]
        for one in found
    ]
    return Table(["", "measured", f"{MACHINE}, simulated", "asked", ""], rows, "Populations of regions:")


def promises(found: list[Figure], regions: str = "") -> list[Promise]:
    """Return the figures of which something is asked.

    Args:
        found: all figures.
        regions: what their names say of the regions; empty for all regions.
    """
    made = []
    for one in found:
        if one.asked is None:
            continue
        measured = "" if one.measured is None or one.asked.range else f" of the measured {one.measured:.3f}"
        made.append(Promise(one.name + regions, round(one.simulated, 4), "", one.asked.text() + measured, one.held))
    return made
