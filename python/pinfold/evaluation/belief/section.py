"""The section on beliefs: the share of the possible gain after each trial, on measured and on simulated regions.

Programs are judged by beliefs that have not seen them. :mod:`pinfold.evaluation.belief.subjects` has the regions and
the shares that are asked for.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from pinfold.evaluation.belief import strategies
from pinfold.evaluation.belief.plots import trials_figure
from pinfold.evaluation.belief.report import beliefs_table, costly_table, counted, figures, shares_table, worst_table
from pinfold.evaluation.belief.subjects import (
    MEASURED,
    SHIPPED,
    SHIPS,
    Results,
    Subject,
    on_machine,
    shared_names,
    some,
    unfit,
)
from pinfold.evaluation.measured.foreign import MAP, SOURCE, VARIABLE, measured_table, named
from pinfold.evaluation.measured.simulator import DATA
from pinfold.evaluation.section import Section, Table
from pinfold.learn.belief import file
from pinfold.learn.belief.data import Times, read
from pinfold.learn.belief.judging import BELIEF, Judged, given, nested
from pinfold.learn.belief.learning import Settings

TEXT = f"""\
{SOURCE}

**Trials.** A trial is one execution of a region in one configuration, and the fastest configuration so far is kept.
Trial 0 is the baseline: a thread for each core of all nodes, scattered, pages after locality, all prefetchers on. A
gain is the logarithm of the speed-up over the baseline, and a share is the sum of gains over the sum of possible gains.
The 95 % intervals are of a bootstrap that draws programs.

**Nested.** A [belief](../design/belief.md) says what a program may gain in each configuration, and chooses the next
trial. Each program is left out once, with all arguments and on all machines. The belief is learned from the others, and
so is the variance of its kernel. The best single configuration and the greedy race are learned from the same programs.
The control is a belief that was learned from times whose configurations were exchanged, differently for each program.
It knows nothing of other programs, but still learns from its own trials, because similar configurations have similar
times. The number of factors, and the share and the lengths of the kernel, are constants of the learner. The lengths
were fixed with figures of this section in view.

**The slowest region.** The baseline is among the trials, and a trial has the time of the table, without noise. So a
region that is slower than the baseline after some trials would be an error of the search. The table also compares each
region with its best configuration: this shows how much the worst region can still gain. The time that the trials
themselves take is not counted.

**Simulated regions.** `models/data` has them. The machines are models of the two machines of Sánchez Barrera et al. A
belief is learned from the other programs of both machines. A *belief of other machines* is learned from other programs
on the other machine: it knows neither the judged program nor the judged machine. Beside these are beliefs of other
programs on the same machine only. If they gain more, the other machine teaches something that is wrong here.

**Strategies.** `--policy classify` is a view of the belief: it has four candidates, threads compact or scattered and
pages at first touch or interleaved. Here the belief that ships chooses among them for programs with a thread for each
core, on machines that it has not seen, without counters and without the model of `classify`. The first run is in the
default, compact with first touch. A program is sensitive if a strategy changes its speed by more than 10 %."""

REDUCED = "This is the reduced set: a few programs, with settings that were not chosen. Its figures say little."

FEW = 6
"""The number of programs of the reduced set."""

BOTH = "both machines, simulated, belief of other programs"

PANELS = {"measured: two nodes of 16 cores": MEASURED, "simulated: two machine models": BOTH}
"""The subjects of the plot, by the titles of its panels."""


def belief(quick: bool) -> Section:
    """Judge beliefs on the measured table and on simulated regions."""
    table = named()
    if table is None:
        sys.exit(f"the section `belief` cannot be made: {VARIABLE} does not name the measured table")
    found = measured_table(table)
    measured, simulated = read([found.data]), read(DATA)
    if quick:
        measured, simulated = some(measured, FEW), some(simulated, FEW)
    shipped, about = judged_shipped(SHIPPED, measured)

    def by_nested(name: str, times: Times) -> Judged:
        return nested(times, partial(_show, name), Settings() if quick else None)

    results = Results(
        measured=by_nested("measured", measured),
        shipped=shipped,
        about=about,
        simulated=by_nested("simulated", simulated),
        alone={name: by_nested(name, on_machine(simulated, name)) for name in simulated.machines},
        strategies=given(strategies.times(), file.read(SHIPPED)),
    )
    return judged_section(results, quick=quick)


def judged_shipped(model: Path, times: Times) -> tuple[Judged | None, str]:
    """Judge a belief that was learned from other machines.

    Args:
        model: the file of the belief.
        times: the measured regions.

    Returns:
        The judged regions, None if the belief cannot be judged; and a paragraph on the belief.
    """
    if not model.exists():
        return None, f"**The belief that ships.** There is none: `{model.name}` is not among the models."
    found = file.read(model)
    if why := unfit(found, times):
        return None, f"**The belief that ships** cannot be judged by the measured regions: {why}."
    names = shared_names(found, times)
    same = f" Programs of both have the names {', '.join(names)}." if names else ""
    return given(times, found), (
        f"**The belief that ships** (`{model.name}`) was learned from {len(found.origin.programs)} programs on "
        f"{', '.join(found.origin.machines)}, and not from the measured machine. It is judged in all configurations of "
        f"the table, siblings included.{same}"
    )


def judged_section(results: Results, *, quick: bool) -> Section:
    """Return the section on all judged regions."""
    every = results.subjects()
    both = Subject(BOTH, results.simulated, BELIEF, {})
    found = {one.name: figures(one) for one in (*every, both)}
    shown = [(title, of) for title, one in PANELS.items() if (of := found[one]) is not None]
    machines = " and ".join(results.simulated.times.machines)
    sizes = f"Measured: {counted(results.measured)}. Simulated, on {machines}: {counted(results.simulated)}."
    return Section(
        "belief",
        "Beliefs: trial by trial",
        "\n\n".join([sizes, *([REDUCED] if quick else []), results.about, TEXT]),
        [
            f"pinfold learn import --columns {MAP} -o measured.parquet TABLE.csv.gz",
            "pinfold learn evaluate belief --data measured.parquet",
            f"pinfold learn evaluate belief {' '.join(f'--data {one}' for one in DATA)}",
            f"{VARIABLE}=TABLE.csv.gz python -m pinfold.evaluation belief",
        ],
        _tables(results),
        {"shipped": results.about, "subjects": found, "strategies": strategies.figures(results.strategies)},
        plots=[trials_figure(shown)],
        promises=[
            *(promise for one in every for promise in one.promises()),
            every[0].worst_promise(),
            *strategies.promises(results.strategies),
        ],
        captions={"belief-trials": "Share of the possible gain, measured and simulated; the band is the interval:"},
    )


def _tables(results: Results) -> list[Table]:
    every = results.subjects()
    return [
        shares_table(results.measured, "measured regions, learned from other programs"),
        *([] if results.shipped is None else [shares_table(results.shipped, SHIPS)]),
        *(
            shares_table(one, f"{name}, simulated, learned from other programs")
            for name, one in results.by_machine.items()
        ),
        beliefs_table([one for one in every if "simulated" in one.name]),
        worst_table(every),
        costly_table(results.measured, "measured"),
        costly_table(results.simulated, "simulated"),
        strategies.table(results.strategies),
    ]


def _show(name: str, what: str) -> None:
    print(f"belief: {name}, {what}", file=sys.stderr, flush=True)
