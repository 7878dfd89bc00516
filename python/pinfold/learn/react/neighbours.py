"""What a race tries beside its fastest configuration: those that differ from it by one choice.

The policy ``react`` does the same while a program runs (``crates/policy/src/react/neighbours.rs``): after the race, the
neighbours of the fastest configuration are tried one after the other. A faster one takes its place. That ends when no
neighbour is left that was not tried, or when :data:`MOST` were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinfold.learn.react.data import Configuration, Floats

MOST = 16
"""How many neighbours are tried at most."""

PAGES = ("locality", "balance", "interleave", "single")
"""Where pages may be with threads on several nodes."""

OTHER = {"0": "1", "1": "0"}
"""Of a prefetcher that is on, and of one that is off."""


@dataclass(frozen=True)
class Space:
    """The configurations of a machine.

    Attributes
    ----------
    configurations : tuple of Configuration
        All of them.
    """

    configurations: tuple[Configuration, ...]

    @cached_property
    def _places(self) -> dict[Configuration, int]:
        return {one: place for place, one in enumerate(self.configurations)}

    @cached_property
    def _sizes(self) -> list[tuple[int, int]]:
        return sorted({(one.threads, one.nodes) for one in self.configurations})

    def neighbours(self, place: int) -> list[int]:
        """Return what differs from a configuration by one choice, in the order in which it is tried.

        What moves pages comes last.
        """
        of = self.configurations[place]
        found = [of._replace(prefetch=_other(of.prefetch, number)) for number in range(len(of.prefetch))]
        if of.nodes > 1:
            found += [of._replace(thread_map=other) for other in ("compact", "scatter")]
        found += [_of_size(of, size) for size in self._sizes if size != (of.threads, of.nodes)]
        if of.nodes > 1:
            found += [of._replace(page_map=other) for other in PAGES]
        return [self._places[one] for one in found if one in self._places and one != of]

    def searched(self, gains: Floats, racers: Sequence[int], most: int = MOST) -> Floats:
        """Return what each region gains after a race and its neighbours; at least 0, which the baseline gains.

        Args:
            gains: of shape (regions, configurations).
            racers: the positions of the race's configurations.
            most: how many neighbours are tried at most.
        """
        near = {}
        reached = np.zeros(len(gains))
        for region, gained in enumerate(gains):
            tried = list(racers)
            fastest = max(tried, key=lambda place: float(gained[place]))
            while len(tried) < len(racers) + most:
                if fastest not in near:
                    near[fastest] = self.neighbours(fastest)
                new = next((place for place in near[fastest] if place not in tried), None)
                if new is None:
                    break
                tried.append(new)
                if gained[new] > gained[fastest]:
                    fastest = new
            reached[region] = max(float(gained[fastest]), 0.0)
        return reached


def _other(prefetch: str, number: int) -> str:
    return prefetch[:number] + OTHER[prefetch[number]] + prefetch[number + 1 :]


def _of_size(of: Configuration, size: tuple[int, int]) -> Configuration:
    """Return the configuration with another number of threads. Its pages are as alike as they can be."""
    threads, nodes = size
    if nodes == 1:
        return Configuration(threads, nodes, "compact", "local", of.prefetch)
    pages = "locality" if of.nodes == 1 else of.page_map
    return Configuration(threads, nodes, of.thread_map, pages, of.prefetch)
