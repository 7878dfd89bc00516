"""The work of ``pinfold learn ... belief`` after its arguments have been checked.

This import takes seconds: it loads numpy and scipy.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from pinfold.learn.belief import file
from pinfold.learn.belief.choice import CHOICES, choose, with_doubt
from pinfold.learn.belief.data import Times, enough, read
from pinfold.learn.belief.judging import BELIEF, TRIALS, Judged, given, nested
from pinfold.learn.belief.learning import learn
from pinfold.learn.origin import Origin
from pinfold.learn.progress import printer
from pinfold.learn.trained import Trained
from pinfold.split import refuse_judged
from pinfold.tables import Table

COSTLY = 8
"""The number of trials after which programs are listed that lack most."""

LISTED = 5


def _times(asked: argparse.Namespace) -> Times:
    if asked.weight and len(asked.weight) != len(asked.data):
        raise ValueError(
            f"there are {len(asked.data)} data sets and {len(asked.weight)} weights: give --weight once for each --data"
        )
    return read(asked.data, asked.weight)


def train(asked: argparse.Namespace) -> None:
    """Choose settings, learn a belief and write it."""
    show = printer(asked)
    origin = Origin.of(asked.data)
    # Whoever weighs data sets knows that they differ.
    origin.require_one_kind(asked.mixed or bool(asked.weight))
    times = enough(_times(asked))
    programs = sorted(set(times.programs.tolist()))
    refuse_judged(programs)
    show(f"learning from {origin.text()}")
    choices = [replace(one, most_bytes=asked.kib << 10) for one in CHOICES]
    settings = with_doubt(times, choose(times, choices))
    rows = int(np.isfinite(times.logs).sum())
    belief = learn(times, settings, lambda name: Trained.of(origin, times.machines, times.names, rows, name))
    asked.output.write_text(file.text(belief), encoding="utf-8")
    show(
        f"a belief about {len(belief.points)} of {len(times.points)} configurations, from {len(times.regions)} regions "
        f"of {len(programs)} programs: {belief.origin.learner}"
    )


def evaluate(asked: argparse.Namespace) -> None:
    """Judge beliefs by programs that they have not seen, and write and print the figures."""
    show = printer(asked)
    times = _times(asked)
    if asked.belief:
        belief = file.read(asked.belief)
        judged = given(times, belief)
        seen = sorted(set(belief.origin.programs) & set(times.names))
        if seen:
            show(f"the belief has seen programs with the names {', '.join(seen)}: leave them out if they are the same")
    else:
        seen, judged = [], nested(enough(times), show)
    if asked.json:
        asked.json.write_text(json.dumps(figures_of(judged, seen), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    for table in (curves_table(judged), losses_table(judged)):
        print("\n".join(table.markdown()).rstrip() + "\n")


def figures_of(judged: Judged, seen: list[str]) -> dict[str, Any]:
    """Return all figures as JSON has them."""
    times = judged.times
    return {
        "machines": times.machines,
        "regions": len(times.regions),
        "programs": len(set(times.programs.tolist())),
        "programs_of_the_belief": seen,
        "configurations": len(times.points),
        "possible_speed_up": float(np.exp(judged.possible.mean())),
        "ways": {
            way: {str(number): asdict(one) for number, one in zip(TRIALS, judged.shares(way), strict=True)}
            for way in judged.gains
        },
        "lost_after_8_trials": dict(judged.losses(BELIEF, COSTLY)),
    }


def curves_table(judged: Judged) -> Table:
    """Return the share of the possible gain of each way after each number of trials."""
    rows = [
        [way, *(f"{one.share:.3f} ({one.low:.3f} to {one.high:.3f})" for one in judged.shares(way))]
        for way in judged.gains
    ]
    caption = (
        f"The share of the possible gain after trials, with 95 % intervals over programs; "
        f"{len(judged.times.regions)} regions of {len(set(judged.times.programs.tolist()))} programs:"
    )
    return Table(["", *map(str, TRIALS)], rows, caption)


def losses_table(judged: Judged) -> Table:
    """Return the programs that lack most of the possible gain."""
    rows = [[program, f"{lost:.3f}"] for program, lost in judged.losses(BELIEF, COSTLY)[:LISTED]]
    return Table(["program", "share"], rows, f"The shares that programs lack most after {COSTLY} trials:")
