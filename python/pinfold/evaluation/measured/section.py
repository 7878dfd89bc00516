"""The section on measured tables: what policies gain of what is possible on a real machine, trial by trial.

Every other figure of policies in the evaluation comes from simulated machines. Here others have measured the times. A
way that learns does so from other programs; nothing was tuned on this table.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pinfold.evaluation.measured.foreign import MAP, SOURCE, VARIABLE, MeasuredTable, measured_table, named
from pinfold.evaluation.measured.known import Known
from pinfold.evaluation.measured.policies import Machine, Ran, policies
from pinfold.evaluation.measured.report import runs_table, simulator_table, trials_table, worst_table
from pinfold.evaluation.measured.simulator import DATA, questions
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

REDUCED = """\
This is the reduced set: pinfold's policies did not run on the table. `make measured` runs them."""

ABOUT_POLICIES = """\
**pinfold's policies** run on the table as on a machine (`--machine data:FILE`), each region as a program, with the
spread of the table as noise and with assumed costs of moves: 1 ms for threads, 100 ms for pages. Their trials are the
different configurations that a run of 10 minutes applied, and the shares above are those of the best one so far. The
table of whole runs has the speed of the run instead, over that of a run without a policy and with the same noise: it
has all that the policy costs. Probes of `autopin` and `classify:forest` take a twentieth of the run. Policies
that plan trials by a belief have the one that ships."""

ABOUT_SIMULATOR = """\
**The simulator beside the measurements.** The simulated regions are those of `models/data`: other programs, other
machines, the same questions."""


AUTO = "auto"

STATIC = ("compact", "scatter")
"""Policies that measure nothing."""

LEAST = 0.98
"""The least speed of a run over the baseline that is asked for. Looking costs something."""

MOST_S = 60
"""The most processor time for the import and a run of `auto` on every region, in seconds."""


def missing() -> str | None:
    """Return why the section cannot be made; None if it can be."""
    return None if named() else f"{VARIABLE} does not name the measured table, which is no part of the project"


def measured(quick: bool) -> Section:
    """Judge all ways on the table that the environment names; the reduced set has no runs of pinfold."""
    file = named()
    if file is None:
        sys.exit(f"the section `measured` cannot be made: {missing()}")
    found = measured_table(file)
    table = Table(found.known)
    ran, refused, auto_s = ([], {}, None) if quick else _policies(found, table)
    curves = [*offline(table), *(one.curve() for one in ran)]
    simulated = [Table(Known.of(one)) for data in DATA for one in read([data])]
    asked = questions(table, simulated)
    date = datetime.date.today().isoformat()
    data = {
        "simulated": False,
        "date": date,
        "table": _about(found, table),
        "ways": [_of_way(table, curve) for curve in curves],
        "policies": [_of_policy(table, one) for one in ran],
        "policies_that_cannot_run": refused,
        "auto_processor_s": auto_s and round(auto_s, 1),
        "unchecked_worst": unchecked(table),
        "simulator": [asdict(one) for one in asked],
    }
    machines = [one.known.machine for one in simulated]
    about = [REDUCED] if quick else [ABOUT_POLICIES]
    return Section(
        "measured",
        "Measured tables of others",
        "\n\n".join([_sizes(found, table), TEXT, *about, *_refused(refused), ABOUT_SIMULATOR]),
        [
            f"pinfold learn import --columns {MAP} -o measured.parquet TABLE.csv.gz",
            f"{VARIABLE}=TABLE.csv.gz python -m pinfold.evaluation measured",
        ],
        [
            trials_table(table, curves),
            worst_table(table, curves),
            *([] if quick else [runs_table(table, ran)]),
            simulator_table(asked, machines, date),
        ],
        data,
        promises=promises(table, curves, ran, auto_s and found.processor_s + auto_s),
    )


def _policies(found: MeasuredTable, table: Table) -> tuple[list[Ran], dict[str, str], float | None]:
    """Run all policies; return their runs, why others cannot run, and the processor time of `auto`'s longest runs."""
    machine, refused, ran = Machine(found), {}, []
    auto_s: float | None = None
    for policy in policies():
        print(f"measured: {policy.name}", file=sys.stderr, flush=True)
        if why := machine.refusal(policy):
            refused[policy.name] = why
            continue
        ran.append(machine.run(policy))
        if policy.name == AUTO:
            auto_s = ran[-1].processor_s
    return ran, refused, auto_s


def _refused(refused: Mapping[str, str]) -> list[str]:
    """Return a sentence about the policies that cannot run, as a list; an empty list without any."""
    reasons = "; ".join(f"`{name}`: {why}" for name, why in refused.items())
    return [f"Policies that cannot run on the table: {reasons}."] if refused else []


def _of_policy(table: Table, ran: Ran) -> dict[str, Any]:
    return {
        "name": ran.name,
        "times_s": {
            str(seconds): {**asdict(table.share(ran.gains(seconds))), "worst": float(np.exp(ran.gains(seconds).min()))}
            for seconds in TIMES
        },
        "refused": ran.refused(),
        "processor_s": round(ran.processor_s, 1),
    }


def _about(found: MeasuredTable, table: Table) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "regions": len(table.known.programs),
        "programs": len(table.programs),
        "configurations": len(table.known.settings),
        "possible_speed_up": float(np.exp(table.possible.mean())),
        "import_processor_s": round(found.processor_s, 1),
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


def promises(table: Table, curves: Sequence[Curve], ran: Sequence[Ran], processor_s: float | None) -> list[Promise]:
    """Return the promises: what is learned is better than chance, no policy harms a region, and the table is cheap.

    Args:
        table: the measured regions.
        curves: what all ways gain.
        ran: the runs of policies.
        processor_s: the processor time of the import and of a run of `auto` on every region; None without such runs.
    """
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
    for name in ("react", AUTO):
        if name in by_name:
            value, chance = share(name, 12), share("random", 12)
            found.append(
                Promise(
                    f"share of the possible gain after 12 trials, {name}",
                    round(value, 4),
                    "",
                    f"above random's, {chance:.3f}",
                    value > chance,
                )
            )
    for one in ran:
        worst = float(np.exp(one.gains(max(TIMES)).min()))
        name = f"worst region of runs of 10 minutes over the baseline, {one.name}"
        if one.name not in STATIC:
            found.append(Promise(name, round(worst, 4), "", f"at least {LEAST}", worst >= LEAST))
    if processor_s is not None:
        name = "processor time of the import and of a run of auto on every region"
        found.append(Promise(name, round(processor_s, 1), " s", f"at most {MOST_S}", processor_s <= MOST_S))
    return found
