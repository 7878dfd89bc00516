"""The section on the simulator's reality: its population of regions beside a measured one, on machines of one shape."""

from __future__ import annotations

import sys
from dataclasses import asdict

from pinfold.evaluation.measured.foreign import SOURCE, VARIABLE, measured_table, named
from pinfold.evaluation.measured.known import Known
from pinfold.evaluation.reality.figures import Figure, figures
from pinfold.evaluation.reality.sweep import MACHINE, SPACE, sweep
from pinfold.evaluation.section import Promise, Section, Table

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

REDUCED = "This is the reduced set: a few small regions, whose figures say little."


def reality(quick: bool) -> Section:
    """Compare the simulated population with the measured one."""
    file = named()
    if file is None:
        sys.exit(f"the comparison cannot be made: {VARIABLE} does not name the measured table")
    swept = sweep(quick)
    if swept.file is None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in swept.failed.items())
        sys.exit(f"the comparison cannot be made: no region was swept: {reasons}")
    measured, simulated = measured_table(file).known, Known.read(swept.file)
    found = figures(measured, simulated)
    texts = [sizes(measured, simulated), TEXT, *([REDUCED] if quick else [])]
    if swept.failed:
        texts.append("Without rows: " + "; ".join(f"{name}: {reason}" for name, reason in swept.failed.items()) + ".")
    data = {
        "simulated": {
            "machine": MACHINE,
            "space": SPACE,
            "regions": len(simulated.names),
            "failed": dict(swept.failed),
        },
        "measured": {"machine": measured.machine, "regions": len(measured.names)},
        "figures": [asdict(one) | {"held": one.held} for one in found],
    }
    return Section(
        "reality",
        "The simulator beside a measured machine",
        "\n\n".join(texts),
        [f"{VARIABLE}=TABLE.csv.gz python -m pinfold.evaluation.reality"],
        [shown(found)],
        data,
        promises=promises(found),
    )


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


def promises(found: list[Figure]) -> list[Promise]:
    """Return the figures of which something is asked."""
    made = []
    for one in found:
        if one.asked is None:
            continue
        measured = "" if one.measured is None or one.asked.range else f" of the measured {one.measured:.3f}"
        made.append(Promise(one.name, round(one.simulated, 4), "", one.asked.text() + measured, one.held))
    return made
