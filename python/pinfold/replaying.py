"""Tables of measurements as machines, under policies of pinfold and policies of your own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pinfold._native import Configuration
from pinfold.launching import recorded
from pinfold.policy import Policy
from pinfold.simulation import Run

SomeFile = str | os.PathLike[str]


def replay(  # noqa: PLR0913 - each is a property of the run
    table: SomeFile,
    program: str | None = None,
    policy: str | Policy | Configuration = "auto",
    *,
    region: str | None = None,
    machine: str | None = None,
    threads: int | None = None,
    unit: float | None = None,
    move_cost: float | tuple[float, float] | None = None,
    repeat: int | None = None,
    seed: int = 0,
    noise: float | None = None,
    options: Sequence[str] = (),
) -> Run:
    """Replay a program whose times were measured in many configurations, under a policy.

    Args:
        table: a data set, of measured or simulated rows.
        program: the program, by its name or its whole command. None: the only one.
        policy: the name of a policy of pinfold (``pinfold run --policy help`` lists them), a `Policy` of your own, or a
            `Configuration` for the whole run.
        region: this parallel region alone. None: all regions of the program in turn.
        machine: the machine, if the table has several.
        threads: the number of threads. None: that of the table's baseline.
        unit: how long an execution of a region takes in the unpinned program, on average, in seconds. None: the table's
            seconds, or half a second if its times have no unit.
        move_cost: how long the program stands still when its threads move and when its pages move, in seconds: one
            time, or one for each. None: what the table says, or else an assumption that the notes of the run name.
        repeat: how often to repeat the regions. None repeats them until the policy has chosen. A `Policy` of your own
            signals its choice by ``Decision(done=True)``. A `Configuration` runs a hundred times.
        seed: of the noise. The same seed gives the same run.
        noise: the standard deviation of the time of an execution, in percent. None: the table's own.
        options: further options of ``pinfold run``, such as ``["--by-region"]``.

    Returns:
        what happened. ``refused`` has what the policy wanted and the table lacks.

    Raises:
        PinfoldError: the program cannot be replayed so.
        Exception: whatever your policy raises.
    """
    if isinstance(policy, Configuration) and repeat is None:
        repeat = 100
    of_machine = "" if machine is None else f"@{machine}"
    costs = (move_cost,) if isinstance(move_cost, int | float) else move_cost
    given = {
        "--program": program,
        "--region": region,
        "--threads": threads,
        "--unit": None if unit is None else f"{unit:f}",
        "--move-cost": None if costs is None else ",".join(f"{cost:f}" for cost in costs),
        "--repeat": repeat,
        "--seed": seed,
        "--noise": None if noise is None else f"{noise:g}",
    }
    words = [f"{option}={value}" for option, value in given.items() if value is not None]
    return recorded(policy, ["-qq", f"--machine=data:{os.fspath(table)}{of_machine}", *words, *options])
