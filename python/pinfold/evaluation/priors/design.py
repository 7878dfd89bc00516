"""The programs that the generator makes: a space-filling design over the options of ``workloads/synthetic``.

Each program is a point of a scrambled Sobol sequence, so the first programs of a design are a design themselves, and a
sweep that was interrupted can be used. A coordinate of a point is a quantile of the option's distribution. The
distributions are chosen and not measured:

- Sizes are uniform in their logarithms, from data that the first cache holds to more than the last ones hold together.
  Shared data may be as little as four lines, which threads write in turn. Such programs are fastest on siblings.
- Half of the accesses are sequential, as in most loops; the rest is for the two kinds that wait for memory.
- Barriers, critical sections and imbalance are rare in good programs, and each decides the speed if it is strong. So
  most programs have none or little of each, and a few have much.
- Most programs touch their data as they use it. One thread touches all of it in a fifth of the programs, which is a
  common mistake.

Windows have 16384 to 131072 accesses a thread. Data is not larger than what a window can go through once, so that a
repeated window does not fit the caches where the program does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from pinfold.learn.races import Floats

SEED = 20

PROGRAMS = 1000
"""The programs of the whole design."""

LINE = 64
"""The bytes of a node of the program's data."""

BURST = 64
"""The accesses of a burst, the smallest part of the program's work."""

SEQUENTIAL = "sequential"

FEWEST, MOST = 1 << 14, 1 << 17
"""The accesses of a thread in a window. Sequential accesses mostly hit the first cache and may be the most."""

MOST_ELSEWHERE = 3 << 13
"""The most accesses of a thread that are anywhere in its data: each may be another line."""


class Choice(NamedTuple):
    """A value of an option, and its share of the programs."""

    value: str
    share: float


THREADS = (Choice("8", 0.75), Choice("16", 0.25))
PATTERNS = (
    Choice("private", 0.25),
    Choice("read", 0.2),
    Choice("neighbours", 0.2),
    Choice("pipeline", 0.1),
    Choice("random", 0.25),
)
ACCESSES = (Choice(SEQUENTIAL, 0.5), Choice("gather", 0.25), Choice("chase", 0.25))
STRIDES = (Choice("8", 0.6), Choice("64", 0.25), Choice("256", 0.15))
CHAINS = (Choice("1", 0.4), Choice("2", 0.2), Choice("4", 0.2), Choice("8", 0.2))
OPERATIONS = (Choice("0", 0.3), Choice("1", 0.2), Choice("4", 0.25), Choice("16", 0.15), Choice("64", 0.1))
BETWEEN = (Choice("", 0.45), Choice("4096", 0.15), Choice("1024", 0.15), Choice("256", 0.15), Choice("64", 0.1))
CRITICAL = (Choice("0", 0.75), Choice("1", 0.08), Choice("3", 0.07), Choice("10", 0.06), Choice("30", 0.04))
IMBALANCE = (Choice("0", 0.5), Choice("10", 0.2), Choice("30", 0.2), Choice("80", 0.1))
TOUCH = (Choice("own", 0.6), Choice("spread", 0.2), Choice("first", 0.2))

OWN_BYTES = (4 << 10, 2 << 20)
"""The smallest and the largest data of a thread."""

SHARED_BYTES = (256, 16 << 20)
"""The smallest and the largest shared data."""

TO_SHARED = (10, 90)
"""The percent of accesses that go to shared data, if any."""

MOST_WRITES = 60
"""The percent of accesses that write, at most."""

DIMENSIONS = 14


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes
    ----------
    number : int
        Its place in the design, from 0.
    threads : int
        Its number of threads.
    options : dict of str to str
        The options of ``workloads/synthetic``, without the number of threads.
    """

    number: int
    threads: int
    options: dict[str, str]

    @property
    def name(self) -> str:
        """The name in data sets: the generator and the number."""
        return f"synthetic#{self.number}"

    @property
    def words(self) -> list[str]:
        """The words of its command line."""
        return self._words(str(self.threads))

    @property
    def joined_command(self) -> str:
        """The command without the number of threads, as data sets name it."""
        return " ".join(self._words("{threads}"))

    def divided(self, threads: int) -> Program:
        """Return the same work divided among another number of threads.

        The data of a thread, its accesses and those between two barriers change in proportion, so that all threads
        together have the same data, accesses and barriers. Shared data stays. At least a burst is left of each.
        """
        share = self.threads / threads
        sizes = {"size": LINE, "accesses": BURST, "between": BURST}
        changed = {
            name: str(max(int(int(self.options[name]) * share) // least * least, least))
            for name, least in sizes.items()
            if name in self.options
        }
        return replace(self, threads=threads, options=self.options | changed)

    def _words(self, threads: str) -> list[str]:
        given = {"threads": threads, **self.options}
        return ["target/workloads/synthetic", *(word for name, value in given.items() for word in (f"--{name}", value))]


def programs(number: int) -> list[Program]:
    """Return the first programs of the design."""
    sequence = qmc.Sobol(DIMENSIONS, scramble=True, rng=np.random.default_rng(SEED))
    points = sequence.random_base2(max(int(np.ceil(log2(max(number, 2)))), 1))[:number]
    return [_program(place, point) for place, point in enumerate(points)]


def _program(number: int, point: Floats) -> Program:
    threads, pattern, access, touch = (
        _chosen(choices, float(at)) for choices, at in zip((THREADS, PATTERNS, ACCESSES, TOUCH), point, strict=False)
    )
    own, shared = _size(OWN_BYTES, float(point[4])), _size(SHARED_BYTES, float(point[5]))
    to_shared = round(TO_SHARED[0] + float(point[6]) * (TO_SHARED[1] - TO_SHARED[0]))
    if pattern == "private":
        shared, to_shared = LINE, 0
    stride = int(_chosen(STRIDES, float(point[8])))
    in_line = max(LINE // stride, 1) if access == SEQUENTIAL else 1
    share, parts = to_shared / 100, _parts(pattern, int(threads))
    needed = in_line * max(own / LINE / (1 - share), parts * shared / LINE / share if share else 0)
    accesses = int(min(max(needed, FEWEST), MOST if access == SEQUENTIAL else MOST_ELSEWHERE))
    lines = accesses // in_line
    own = min(own, int(lines * (1 - share)) * LINE)
    if share:
        shared = min(shared, int(lines * share / parts) * LINE)
    options = {
        "size": str(own),
        "shared": str(shared),
        "pattern": pattern,
        "to-shared": str(to_shared),
        "writes": str(round(MOST_WRITES * float(point[7]))),
        "access": access,
        "stride": str(stride),
        "chains": _chosen(CHAINS, float(point[9])),
        "operations": _chosen(OPERATIONS, float(point[10])),
        "critical": _chosen(CRITICAL, float(point[12])),
        "imbalance": _chosen(IMBALANCE, float(point[13])),
        "accesses": str(accesses),
        "iterations": "1",
    }
    if between := _chosen(BETWEEN, float(point[11])):
        options["between"] = between
    options |= {"init": "serial"} if touch == "first" else {"touch": touch}
    return Program(number, int(threads), options)


def _parts(pattern: str, threads: int) -> float:
    """Return the share of the shared data that one thread has to access, so that all of it is accessed."""
    return (1 if pattern in ("read", "random") else 2) / threads


def _size(bounds: tuple[int, int], at: float) -> int:
    low, high = bounds
    return int(low * (high / low) ** at) // LINE * LINE


def _chosen(choices: Sequence[Choice], at: float) -> str:
    """Return the choice at a quantile.

    >>> _chosen((Choice("a", 0.25), Choice("b", 0.75)), 0.2), _chosen((Choice("a", 0.25), Choice("b", 0.75)), 0.3)
    ('a', 'b')
    """
    passed = 0.0
    for choice in choices:
        passed += choice.share
        if at < passed:
            return choice.value
    return choices[-1].value
