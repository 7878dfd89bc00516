"""The section on measured tables: what policies gain of what is possible on a real machine, trial by trial.

Every other figure of policies in the evaluation comes from simulated machines. Here others have measured the times. A
way that learns does so from other programs; nothing was tuned on this table.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pinfold.evaluation.measured.foreign import MAP, SOURCE, VARIABLE, MeasuredTable, measured_table, named
from pinfold.evaluation.measured.known import Known
from pinfold.evaluation.measured.report import simulator_table, trials_table, worst_table
from pinfold.evaluation.measured.simulator import DATA, questions, transferred
from pinfold.evaluation.measured.trials import (
    JUDGED,
    TIMES,
    TRIAL_S,
    TRIALS,
    Curve,
    Table,
    offline,
    trials_at,
    unchecked,
)
from pinfold.evaluation.section import Promise, Section
from pinfold.learn.react.data import read

TEXT = f"""\
{SOURCE}

A trial is one execution of a region in one configuration, and the fastest configuration so far is kept. Trial 0 is the
baseline: a thread for each core of both nodes, scattered, pages after locality, all prefetchers on. So no way with the
baseline among its trials is slower than it. A gain is the logarithm of the speed-up over the baseline, and a share is
the sum of gains over the sum of possible gains. The 95 % intervals are of a bootstrap that draws programs. The possible
gain is that of the best of all medians, of which the luckiest wins, so shares are a little too low.

The table has two numberings of hardware threads. With the second, threads fill the siblings of a core before the next
core, so it is another placement (two threads on a core) unless all siblings have a thread anyway; then the rows of both
numberings are repetitions of one configuration.

`random` is the exact expectation. `best single configuration` and `greedy race` are learned from all other programs,
each program left out once. The control learns the greedy race from gains whose configurations were exchanged,
differently for each program. Run times of 10 s, 1 min and 10 min have {", ".join(map(str, map(trials_at, TIMES)))}
trials, at {TRIAL_S} s for each."""

ABOUT_SIMULATOR = """\
**The simulator beside the measurements.** The simulated regions are those of `models/data`: other programs, other
machines, the same questions."""


def missing() -> str | None:
    """Return why the section cannot be made; None if it can be."""
    return None if named() else f"{VARIABLE} does not name the measured table, which is no part of the project"


def measured(quick: bool) -> Section:
    """Judge all ways on the table that the environment names."""
    del quick
    file = named()
    if file is None:
        sys.exit(f"the section `measured` cannot be made: {missing()}")
    found = measured_table(file)
    table = Table(found.known)
    curves = offline(table)
    simulated = [Table(Known.of(one)) for data in DATA for one in read([data])]
    asked = questions(table, simulated)
    races = {one.known.machine: transferred(one, table) for one in simulated}
    date = datetime.date.today().isoformat()
    data = {
        "simulated": False,
        "date": date,
        "table": _about(found, table),
        "ways": [_of_way(table, curve) for curve in curves],
        "unchecked_worst": unchecked(table),
        "simulator": [asdict(one) for one in asked],
        "races_of_simulated_machines": {
            name: {**asdict(share), "trials": trials} for name, (share, trials) in races.items()
        },
    }
    machines = [one.known.machine for one in simulated]
    return Section(
        "measured",
        "Measured tables of others",
        f"{_sizes(found, table)}\n\n{TEXT}\n\n{ABOUT_SIMULATOR}",
        [
            f"pinfold learn import --columns {MAP} -o measured.parquet TABLE.csv.gz",
            f"{VARIABLE}=TABLE.csv.gz python -m pinfold.evaluation measured",
        ],
        [trials_table(table, curves), worst_table(table, curves), simulator_table(asked, machines, races, date)],
        data,
        promises=promises(table, curves),
    )


def _about(found: MeasuredTable, table: Table) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "regions": len(table.known.programs),
        "programs": len(table.programs),
        "configurations": len(table.known.settings),
        "possible_speed_up": float(np.exp(table.possible.mean())),
        "import_s": round(found.import_s, 1),
    }


def _sizes(found: MeasuredTable, table: Table) -> str:
    return (
        f"{found.rows:,} measured times: {len(table.known.programs)} regions of {len(table.programs)} programs in "
        f"{len(table.known.settings)} configurations of threads, nodes, pages and prefetchers, on a machine of two "
        "nodes of 16 cores with SMT. The geometric mean of the best speed-ups over the baseline is "
        f"{float(np.exp(table.possible.mean())):.2f}."
    )


def _of_way(table: Table, curve: Curve) -> dict[str, Any]:
    shares = [table.share(gained) for gained in curve.gains.T]
    return {
        "name": curve.name,
        "trials": {str(number): asdict(one) for number, one in zip(TRIALS, shares, strict=False)},
        "times_s": {str(seconds): asdict(one) for seconds, one in zip(TIMES, shares[len(TRIALS) :], strict=True)},
        "worst": curve.worst,
    }


def promises(table: Table, curves: Sequence[Curve]) -> list[Promise]:
    """Return the promises: what is learned is better than chance, and nothing that is learned makes a region slower."""
    by_name = {curve.name: curve for curve in curves}

    def share(name: str, number: int) -> float:
        return table.share(by_name[name].gains[:, JUDGED.index(number)]).share

    found = []
    for number in (5, 12):
        learned, chance = share("greedy race of other programs", number), share("random", number)
        found.append(
            Promise(
                f"share of the possible gain after {number} trials, greedy race of other programs",
                round(learned, 4),
                "",
                f"above random's, {chance:.3f}",
                learned > chance,
            )
        )
    return found
