"""``classify`` as a view of a belief: four strategies of threads and pages, on the data set of ``classify``.

The first run of a program is in the default strategy, and each trial adds one. The data set has programs with a thread
for each core in all strategies (:mod:`pinfold.learn.classify.strategies`), on machines of which the belief that ships
has seen none. It was learned from no row of this data set.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet

from pinfold.evaluation.section import Promise, Table
from pinfold.learn.belief.data import NEEDED, SHARES, Times, read
from pinfold.learn.belief.judging import BELIEF, Judged
from pinfold.learn.classify.strategies import SENSITIVE, STRATEGIES
from pinfold.learn.races import Floats

DATA = Path("models/data/classify.parquet")

NUMBERS = (0, 1, 2)
"""The trials after which speeds are shown. After three all strategies were tried."""

ASKED = {"all": 0.985, "sensitive": 0.97}
"""The asked speed over the best after one trial, as geometric means."""

WORST = 0.85
"""The asked speed of the slowest program after one trial."""

INSENSITIVE = 0.99
"""The asked speed of the slowest insensitive program over the default."""


@dataclass(frozen=True)
class Speeds:
    """Speeds over the best strategy after a number of trials.

    Attributes
    ----------
    every : float
        The geometric mean of all programs.
    sensitive : float or None
        That of the sensitive ones; None if there are none.
    worst : float
        The least.
    """

    every: float
    sensitive: float | None
    worst: float


def times(file: Path = DATA) -> Times:
    """Return the programs that fill their machine, in all strategies; the default is the baseline."""
    rows = [row for row in pyarrow.parquet.read_table(file).to_pylist() if row["region"] is None]
    cores = {machine: 0 for machine in sorted({row["machine"] for row in rows})}
    for row in rows:
        cores[row["machine"]] = max(cores[row["machine"]], row["num_threads"])
    default, *_ = STRATEGIES
    strategies = set(STRATEGIES)
    kept = [
        {
            **{name: row[name] for name in (*NEEDED, "time_s", "simulated", "window_covers")},
            **dict.fromkeys(SHARES, 1.0),
            "baseline": (row["thread_map"], row["page_map"]) == default,
        }
        for row in rows
        if (row["thread_map"], row["page_map"]) in strategies and row["num_threads"] == cores[row["machine"]]
    ]
    with TemporaryDirectory() as folder:
        marked = Path(folder) / file.name
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(kept), marked)
        return read([marked])


def sensitive(found: Times) -> npt.NDArray[np.bool_]:
    """Return which programs a strategy makes faster or slower than the default by more than the paper's share."""
    differences: Floats = np.abs(np.expm1(-found.logs))
    return np.asarray(np.nanmax(differences, axis=1) > SENSITIVE, dtype=bool)


def speeds(one: Judged, way: str, trials: int) -> Speeds:
    """Return the speeds over the best strategy after a number of trials; after none, those of the default."""
    gained = one.gains[way][:, trials - 1] if trials else np.zeros(len(one.times.regions))
    lost = one.possible - gained
    matters = sensitive(one.times)
    return Speeds(
        every=float(np.exp(-lost.mean())),
        sensitive=float(np.exp(-lost[matters].mean())) if matters.any() else None,
        worst=float(np.exp(-lost.max())),
    )


def over_default(one: Judged, way: str) -> float | None:
    """Return the least speed of an insensitive program over the default after one trial; None if there is none."""
    gains = one.gains[way][~sensitive(one.times), 0]
    return float(np.exp(gains.min())) if len(gains) else None


def table(one: Judged) -> Table:
    """Return the speeds over the best strategy, by way and number of trials."""
    programs, matter = len(set(one.times.programs.tolist())), int(sensitive(one.times).sum())
    rows = []
    for way in one.gains:
        found = [speeds(one, way, number) for number in NUMBERS]
        rows += [
            [f"{way}, all", *(f"{each.every:.3f}" for each in found)],
            [f"{way}, sensitive", *("" if each.sensitive is None else f"{each.sensitive:.3f}" for each in found)],
            [f"{way}, slowest", *(f"{each.worst:.3f}" for each in found)],
        ]
    caption = (
        f"Speed over the best of four strategies after trials, geometric means, {len(one.times.regions)} cases of "
        f"{programs} programs ({matter} cases are sensitive) on {', '.join(one.times.machines)}, simulated:"
    )
    return Table(
        ["", "the default", *(f"{number} trial{'s' if number > 1 else ''}" for number in NUMBERS[1:])], rows, caption
    )


def figures(one: Judged) -> dict[str, dict[str, dict[str, float]]]:
    """Return the speeds over the best strategy for the JSON file, by way and number of trials."""
    return {way: {str(number): asdict(speeds(one, way, number)) for number in NUMBERS} for way in one.gains}


def promises(one: Judged) -> list[Promise]:
    """Return what is asked of the belief that ships after one trial."""
    found = speeds(one, BELIEF, 1)
    name = "classify with the belief that ships, one trial"

    def ask(what: str, value: float | None, least: float) -> Promise:
        held = None if value is None else value >= least
        return Promise(f"{name}, {what}", None if value is None else round(value, 4), "", f">= {least}", held)

    return [
        ask("share of the best speed, all", found.every, ASKED["all"]),
        ask("share of the best speed, sensitive", found.sensitive, ASKED["sensitive"]),
        ask("slowest program", found.worst, WORST),
        ask("insensitive programs over the default, least", over_default(one, BELIEF), INSENSITIVE),
    ]
