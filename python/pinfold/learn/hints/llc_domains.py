"""The last-level-cache domains of a machine, and how many threads of a placement each of them has."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pinfold.learn.cpu_list import cpu_list

Loads = tuple[tuple[int, ...], ...]
"""Threads in each LLC domain, one tuple for each package: ``llc_loads`` of ``pinfold placements --json``."""


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


def canonical(loads: Loads) -> Loads:
    """Return the representative of all isomorphic loads: domains and packages in descending order.

    >>> canonical(((0, 1), (2, 4)))
    ((4, 2), (1, 0))
    """
    return tuple(sorted((tuple(sorted(package, reverse=True)) for package in loads), reverse=True))
