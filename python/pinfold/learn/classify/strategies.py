"""Programs in the four placement strategies of Denoyelle et al. (ICPP 2019, section 3.1), from a data set.

A strategy is a map of threads and a mapping of pages, on all nodes of a machine with a thread for each core. The
default is compact with first touch. A program is sensitive to placement if a strategy makes it more than 10 % faster or
slower than the default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow


class Strategy(NamedTuple):
    """A map of threads and a mapping of pages, as the columns ``thread_map`` and ``page_map`` name them."""

    threads: str
    pages: str

    @property
    def short(self) -> str:
        """The paper's abbreviation, such as ``CF`` for compact with first touch (figure 2)."""
        return self.threads[0].upper() + self.pages[0].upper()


STRATEGIES = tuple(
    Strategy(threads, pages) for threads in ("compact", "scatter") for pages in ("first_touch", "interleave")
)
"""All of them; the first is the default."""

SENSITIVE = 0.10
"""A program is sensitive if its speed in a strategy differs from that in the default by more than this share."""

COUNTERS = ("LD_INSTANT", "SR_INSTANT", "L1_MISS_REL", "L2_MISS_REL", "L3_MISS_REL", "NODE_MISS_REL")
"""The metrics of table 1."""


@dataclass(frozen=True)
class Example:
    """A program with one input on one machine, in all strategies.

    Attributes
    ----------
    program : str
        Its name: with other inputs it is the same program.
    command : str
        The program with its input and its number of threads.
    machine : str
        The machine.
    threads : int
        The number of threads.
    seconds : tuple of float, in the order of ``STRATEGIES``
        The time of a repetition.
    metrics : mapping of str to float
        What was observed under the default: the columns of the data set. A metric that is missing has no entry.
    covers : bool
        Whether the recorded window stands for the program (docs/formats.md, ``window_covers``).
    """

    program: str
    command: str
    machine: str
    threads: int
    seconds: tuple[float, ...]
    metrics: Mapping[str, float]
    covers: bool

    @property
    def input(self) -> tuple[str, str]:
        """The program with its input, without the number of threads: the same on all machines."""
        words = self.command.split()
        without = [
            word
            for before, word in zip(["", *words], words, strict=False)
            if word != "--threads" and before != "--threads"
        ]
        return self.program, " ".join(without)

    @property
    def speeds(self) -> tuple[float, ...]:
        """The speed in each strategy over that in the default."""
        return tuple(self.seconds[0] / seconds for seconds in self.seconds)

    @property
    def best(self) -> int:
        """The position of the fastest strategy; of equally fast ones the first."""
        return max(range(len(self.seconds)), key=lambda strategy: (self.speeds[strategy], -strategy))

    @property
    def most_different(self) -> float:
        """The largest difference of a speed from the default's, as a share of the default's."""
        return max(abs(speed - 1) for speed in self.speeds)

    @property
    def is_sensitive(self) -> bool:
        """Whether placement matters."""
        return self.most_different > SENSITIVE


def examples(table: pyarrow.Table) -> list[Example]:
    """Return the programs of a data set of ``--space placement``, in the order of its rows.

    Args:
        table: rows of whole programs in all strategies; rows of regions are left out.

    Raises:
        ValueError: if a program lacks a strategy; the message names it.
    """
    found: dict[tuple[str, str, str, int], dict[Strategy, dict[str, Any]]] = defaultdict(dict)
    for row in table.to_pylist():
        if row["region"] is None:
            key = row["machine"], row["program"], row["command"], row["num_threads"]
            found[key][Strategy(row["thread_map"], row["page_map"])] = row
    return [_example(key, rows) for key, rows in found.items()]


def _example(key: tuple[str, str, str, int], rows: Mapping[Strategy, dict[str, Any]]) -> Example:
    machine, program, command, threads = key
    if missing := [strategy for strategy in STRATEGIES if strategy not in rows]:
        raise ValueError(
            f"`{command}` on {machine} was not run with {' and '.join(missing[0])}: sweep it with --space placement"
        )
    default = rows[STRATEGIES[0]]
    numbers = {name: float(value) for name, value in default.items() if isinstance(value, int | float)}
    return Example(
        program=program,
        command=command,
        machine=machine,
        threads=threads,
        seconds=tuple(rows[strategy]["time_s"] for strategy in STRATEGIES),
        metrics=numbers,
        covers=default["window_covers"] is not False,
    )


def by_machine(found: Sequence[Example]) -> dict[str, list[Example]]:
    """Return the examples of each machine, in the order of the machines' first ones."""
    machines: dict[str, list[Example]] = defaultdict(list)
    for one in found:
        machines[one.machine].append(one)
    return dict(machines)
