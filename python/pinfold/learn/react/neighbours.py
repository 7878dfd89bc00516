"""How far a race gets that also tries the neighbours of its fastest configuration.

A neighbour differs from a configuration by one choice. After the race the policy ``react`` tries the neighbours of the
fastest configuration one after the other. A faster neighbour becomes the fastest configuration. The search ends when
all neighbours were tried, or :data:`~pinfold._native.MOST_NEIGHBOURS` of them. The neighbours and their order come from
the policy itself (``crates/policy/src/react/neighbours.rs``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pinfold._native import MOST_NEIGHBOURS, neighbours
from pinfold.learn.races import Floats
from pinfold.learn.react.data import Configuration, Size, sizes


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
    def _sizes(self) -> list[Size]:
        return sizes(self.configurations)

    def neighbours(self, place: int) -> list[int]:
        """Return the positions of the neighbours of a configuration, in the order of trial.

        A configuration whose map of threads has no name has no neighbours, because no policy can request it.
        """
        one = self.configurations[place]
        if one.thread_map is None:
            return []
        words = (one.threads, one.nodes, one.thread_map, one.page_map, one.prefetch, one.threads_per_core)
        near = neighbours(words, self._sizes)
        return [self._places[one] for one in map(Configuration._make, near) if one in self._places]

    def searched(self, gains: Floats, racers: Sequence[int], most: int = MOST_NEIGHBOURS) -> Floats:
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
