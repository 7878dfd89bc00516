"""Regions whose times are known in all configurations, measured or simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pinfold.learn import tables
from pinfold.learn.races import Floats
from pinfold.learn.react.data import Regions


class Setting(NamedTuple):
    """A configuration, in the words of the columns of data sets."""

    threads: int
    nodes: int
    thread_map: str | None
    page_map: str
    prefetch: str
    threads_per_core: int


@dataclass(frozen=True)
class Known:
    """Regions in all configurations of a machine.

    Attributes
    ----------
    machine : str
        The machine.
    programs : tuple of str
        The program of each region: with other arguments it is the same program.
    names : tuple of tuple of str
        The command and the name of each region.
    settings : tuple of Setting
        All configurations.
    baseline : int
        The position of the configuration that the others are compared with.
    gains : array of shape (regions, configurations)
        The logarithms of the speed-ups over the baseline.
    """

    machine: str
    programs: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    settings: tuple[Setting, ...]
    baseline: int
    gains: Floats

    @classmethod
    def of(cls, found: Regions) -> Known:
        """Return regions as learning reads them."""
        settings = tuple(Setting(*one) for one in found.configurations)
        return cls(found.machine, found.programs, found.names, settings, found.baseline, found.gains)

    @classmethod
    def read(cls, file: Path) -> Known:
        """Read the regions of one machine from a data set that marks the baseline.

        Raises:
            ValueError: if a region lacks a configuration that another one has; the message names both.
        """
        rows = tables.to_learn(file).to_pylist()
        settings = sorted({_setting(row) for row in rows}, key=lambda one: tuple(map(str, one)))
        names = sorted({(row["command"], row["region"] or "") for row in rows})
        place, region = ({one: number for number, one in enumerate(found)} for found in (settings, names))
        seconds = np.full((len(names), len(settings)), np.nan)
        programs: dict[int, str] = {}
        for row in rows:
            here = region[row["command"], row["region"] or ""]
            seconds[here, place[_setting(row)]] = row["time_s"]
            programs[here] = row["program"]
        for here, there in np.argwhere(np.isnan(seconds))[:1]:
            raise ValueError(f"{file}: {' '.join(names[here])} has no time in {settings[there]}")
        (baseline,) = {place[_setting(row)] for row in rows if row["baseline"]}
        return cls(
            machine=rows[0]["machine"],
            programs=tuple(programs[number] for number in range(len(names))),
            names=tuple(names),
            settings=tuple(settings),
            baseline=baseline,
            gains=np.log(seconds[:, [baseline]] / seconds),
        )

    def where(self, **wanted: Any) -> list[int]:
        """Return the positions of the configurations with these values."""
        return [
            place
            for place, one in enumerate(self.settings)
            if all(getattr(one, name) == value for name, value in wanted.items())
        ]

    def best(self, places: Sequence[int]) -> Floats:
        """Return the gain of each region in the best of some configurations and the baseline."""
        most: Floats = np.maximum(self.gains[:, list(places)].max(axis=1), 0)
        return most


def _setting(row: dict[str, Any]) -> Setting:
    return Setting(
        row["num_threads"],
        row["num_nodes"],
        row["thread_map"],
        row["page_map"],
        row["prefetch"],
        row["threads_per_core"],
    )
