"""A configuration as shares of its machine, so that a belief serves machines of other sizes."""

from __future__ import annotations

from typing import NamedTuple

PREFETCHERS = 4
"""The digits of the column ``prefetch``."""

ALL_ON = "0" * PREFETCHERS

COMPACT = "compact"

PAGE_MAPS = ("first_touch", "interleave", "single", "local", "remote", "locality", "balance")


class Point(NamedTuple):
    """A configuration, as docs/formats/beliefs.md describes it.

    ``threads`` is the number of threads over the number of cores of the machine: 2.0 is a thread on each of two
    siblings. ``cores`` and ``nodes`` are the shares of cores and of NUMA nodes that have threads, and ``llcs`` the
    share of last-level-cache domains; None if it is not known.
    """

    threads: float
    cores: float
    nodes: float
    thread_map: str
    page_map: str
    prefetch: str
    llcs: float | None = None

    def text(self) -> str:
        """Describe it in a line.

        >>> Point(2.0, 1.0, 0.5, "compact", "balance", "0010").text()
        '2 threads on each of 100 % of the cores, 50 % of the nodes, compact, balance, prefetchers 0010'
        """
        on_core = self.threads / self.cores
        threads = "a thread" if on_core == 1 else f"{on_core:.3g} threads"
        caches = "" if self.llcs is None else f"{100 * self.llcs:.0f} % of the last-level caches, "
        return (
            f"{threads} on each of {100 * self.cores:.0f} % of the cores, {100 * self.nodes:.0f} % of the nodes, "
            f"{caches}{self.thread_map}, {self.page_map}, prefetchers {self.prefetch}"
        )
