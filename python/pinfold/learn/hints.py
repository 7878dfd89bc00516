"""Affinity hints, and the hints that a placement corresponds to.

A hint says whether threads should be spread across packages and across last-level caches, and which of the two has
priority (Moore and Childers, 2012, section 2.1 and figure 4). For a number of threads on a machine each hint has one
best match, which GETAFFINITY finds (figure 5). This module has the reverse function, AFFINITYHINTFROMCONF (section
2.2): a placement corresponds to each hint whose best match is at most a few moved threads away.

For hints, a placement is the number of threads in each last-level-cache domain of each package, its *loads*.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

Loads = tuple[tuple[int, ...], ...]
"""Threads in each LLC domain, one tuple for each package: ``llc_loads`` of ``pinfold placements --json``."""


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


@dataclass(frozen=True)
class LlcDomains:
    """The package and the last-level-cache domain of each PU of a machine, as numbers from 0."""

    package: Mapping[int, int]
    domain: Mapping[int, int]

    @classmethod
    def of_topology(cls, topology: Mapping[str, Any]) -> LlcDomains:
        """Parse the output of ``pinfold topo --json``.

        A machine without packages is one package. A PU without a cache is a domain.
        """
        package: dict[int, int] = {}
        domain: dict[int, int] = {}
        packages, domains = itertools.count(1), itertools.count()

        def walk(item: Mapping[str, Any], in_package: int, in_domain: int | None) -> None:
            if item["kind"] == "package":
                in_package = next(packages)
            # The outermost cache is the last level. Instruction caches do not count.
            if in_domain is None and item["cache"] and item["cache"]["cache_type"] != "instruction":
                in_domain = next(domains)
            if item["kind"] == "pu":
                (pu,) = cpu_list(item["pus"])
                package[pu], domain[pu] = in_package, next(domains) if in_domain is None else in_domain
            for child in item["children"]:
                walk(child, in_package, in_domain)

        walk(topology["tree"], 0, None)
        return cls(package, domain)

    def loads(self, pus: Sequence[int]) -> Loads:
        """Return the loads of threads on these PUs, one thread on each, in the canonical order (:func:`canonical`).

        Raises:
            ValueError: if the machine does not have a PU.
        """
        if unknown := sorted(set(pus) - set(self.domain)):
            raise ValueError(
                f"PU {unknown[0]} is in the pinning and not in the topology: check that both are of the same machine"
            )
        counts = dict.fromkeys(self.domain.values(), 0)
        for pu in pus:
            counts[self.domain[pu]] += 1
        by_package: dict[int, dict[int, int]] = {}
        for pu, domain in self.domain.items():
            by_package.setdefault(self.package[pu], {})[domain] = counts[domain]
        return canonical(tuple(tuple(domains.values()) for domains in by_package.values()))


def cpu_list(text: str) -> list[int]:
    """Parse a list of PUs, in the order of the list.

    >>> cpu_list("0,6-8,3")
    [0, 6, 7, 8, 3]
    """
    ranges = [part.partition("-") for part in text.split(",")]
    return [pu for first, _, last in ranges for pu in range(int(first), int(last or first) + 1)]


def canonical(loads: Loads) -> Loads:
    """Return the representative of all isomorphic loads: domains and packages in descending order.

    >>> canonical(((0, 1), (2, 4)))
    ((4, 2), (1, 0))
    """
    return tuple(sorted((tuple(sorted(package, reverse=True)) for package in loads), reverse=True))


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
