"""Affinity hints, and the hints that a placement corresponds to.

A hint says whether threads should be spread across packages and across last-level caches, and which of the two has
priority (Moore and Childers, 2012, section 2.1 and figure 4). For a number of threads on a machine each hint has one
best match, which GETAFFINITY finds (figure 5). This module has the reverse function, AFFINITYHINTFROMCONF (section
2.2): a placement corresponds to each hint whose best match is at most a few moved threads away.

For hints, a placement is the number of threads in each last-level-cache domain of each package, its *loads*.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from pinfold.learn.hints.llc_domains import Loads


@dataclass(frozen=True, order=True)
class Hint:
    """An affinity hint (figure 4)."""

    spread_across_sockets: bool
    spread_across_llcs: bool
    socket_option_gets_priority: bool

    def __str__(self) -> str:
        """Write it as the paper does, with a small letter for the paper's capital with a line over it.

        >>> str(Hint(True, False, True))
        'SlP'
        """
        values = (self.spread_across_sockets, self.spread_across_llcs, self.socket_option_gets_priority)
        return "".join(letter if value else letter.lower() for letter, value in zip("SLP", values, strict=True))

    @classmethod
    def parse(cls, text: str) -> Hint:
        """Parse the output of ``str``.

        Raises:
            ValueError: if it is not S, L and P in this order, each capital or small.
        """
        if text.upper() != "SLP":
            raise ValueError(
                f"{text!r} is not an affinity hint: write S, L and P, each capital for true or small for false"
            )
        return cls(*(letter.isupper() for letter in text))


HINTS = tuple(Hint(*values) for values in itertools.product((True, False), repeat=3))
"""All eight, SLP first: AutoFinity starts an unknown program with it (section 3)."""


def edit_distance(one: Loads, other: Loads) -> int:
    """Return how many threads have to move to other LLC domains to make the two isomorphic (section 2.2).

    Packages are paired so that the fewest threads move; in a pair of packages the fullest domains are paired.

    Raises:
        ValueError: if the two have different numbers of threads, of packages, or of domains in packages.
    """
    shapes = [sorted(len(package) for package in loads) for loads in (one, other)]
    threads = [sum(map(sum, loads)) for loads in (one, other)]
    if shapes[0] != shapes[1] or threads[0] != threads[1]:
        raise ValueError(f"{one} and {other} are not placements of the same threads on the same machine")
    impossible = 4 * threads[0] + 1
    costs = np.array(
        [
            [
                sum(abs(a - b) for a, b in zip(sorted(mine), sorted(yours), strict=True))
                if len(mine) == len(yours)
                else impossible
                for yours in other
            ]
            for mine in one
        ]
    )
    pairs = linear_sum_assignment(costs)
    # A moved thread is an excess in one domain and a deficit in another.
    return int(costs[pairs].sum()) // 2


def affinity_hints(loads: Loads, best_matches: Mapping[Hint, Loads], leeway: int) -> tuple[Hint, ...]:
    """Return the hints to which a placement corresponds, in the order of ``best_matches``: AFFINITYHINTFROMCONF.

    Args:
        loads: those of the placement.
        best_matches: the result of GETAFFINITY for each hint, with the same number of threads on the same machine.
        leeway: the highest number of moved threads; 0 gives the best matches themselves.

    Raises:
        ValueError: if the leeway is negative, or the placements are not of the same threads and machine.
    """
    if leeway < 0:
        raise ValueError(f"leeway is {leeway}: it must not be negative")
    return tuple(hint for hint, match in best_matches.items() if edit_distance(loads, match) <= leeway)
