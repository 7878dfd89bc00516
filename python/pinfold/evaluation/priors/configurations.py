"""Configurations of a program with a given number of threads, on a machine: those that ``auto`` can choose.

Threads are on 1, 2, 4 … nodes, and on one or all last-level caches of each node; compact or
scattered; a thread on each core, and once on siblings of as few cores as possible. Pages are at first touch, or
interleaved over these nodes; on all nodes also after locality, and balanced. All prefetchers are on, because ``auto``
does not set them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pinfold.evaluation.priors.machines import Shape
from pinfold.learn.belief.point import ALL_ON, COMPACT, Point

SCATTER = "scatter"

FIRST_TOUCH, INTERLEAVE = "first_touch", "interleave"

ALL_PAGES = (FIRST_TOUCH, INTERLEAVE, "locality", "balance")


@dataclass(frozen=True)
class Placement:
    """A placement of threads.

    Attributes
    ----------
    pus : tuple of int
        The PU of each rank.
    pages : tuple of str
        The page maps that are swept with it.
    point : Point
        Its shares of the machine, with pages at first touch.
    """

    pus: tuple[int, ...]
    pages: tuple[str, ...]
    point: Point

    @property
    def text(self) -> str:
        """The PUs as a pinning of a space has them."""
        return ",".join(map(str, self.pus))


class Configuration(NamedTuple):
    """A placement of threads, where pages are, and which prefetchers are on."""

    placement: Placement
    page_map: str
    prefetch: str = ALL_ON


class Spread(NamedTuple):
    """How threads are spread: over nodes, over domains of each node, over cores, and their order."""

    nodes: int
    domains: int
    on_core: int
    order: str


def placements(shape: Shape, threads: int) -> list[Placement]:
    """Return all placements, each once; the first one is the baseline: scattered over all nodes and domains."""
    found: dict[tuple[int, ...], Placement] = {}
    points = set()
    for spread in _spreads(shape, threads):
        pus = pus_of(shape, threads, spread)
        placement = placement_of(shape, pus)
        if pus not in found and placement.point not in points:
            found[pus] = placement
            points.add(placement.point)
    return list(found.values())


def of_auto(shape: Shape, threads: int) -> list[Configuration]:
    """Return the configurations of all placements; the baseline comes first."""
    return [Configuration(one, page_map) for one in placements(shape, threads) for page_map in one.pages]


def space(configurations: Sequence[Configuration]) -> str:
    """Return the space of these configurations as TOML."""
    return "\n".join(
        f'[[configurations]]\npinnings = ["{one.placement.text}"]\npage_map = "{one.page_map}"\n'
        f'prefetch = "{one.prefetch}"\n'
        for one in configurations
    )


def _spreads(shape: Shape, threads: int) -> Iterator[Spread]:
    """Yield all possible ones; the baseline first."""
    every = node_counts(shape)
    for nodes in reversed(every):
        for domains in sorted({shape.domains, 1}, reverse=True):
            for order in (SCATTER, COMPACT):
                if fits(shape, threads, spread := Spread(nodes, domains, 1, order)):
                    yield spread
    for nodes in every if shape.siblings > 1 else []:
        for domains in sorted({1, shape.domains}):
            if fits(shape, threads, spread := Spread(nodes, domains, shape.siblings, COMPACT)):
                yield spread
                return


def node_counts(shape: Shape) -> list[int]:
    """Return the numbers of nodes that threads may be spread over, ascending.

    >>> node_counts(Shape(packages=2, nodes=8, domains=1, cores=2, siblings=1))
    [1, 2, 4, 8]
    """
    return [nodes for nodes in (2**power for power in range(7)) if nodes <= shape.nodes and shape.nodes % nodes == 0]


def fits(shape: Shape, threads: int, spread: Spread) -> bool:
    """Return whether each core can have as many threads as it shall, and each domain the same number."""
    each, rest = divmod(threads, spread.nodes * spread.domains)
    return rest == 0 and 0 < each <= shape.cores * spread.on_core and each % spread.on_core == 0


def pus_of(shape: Shape, threads: int, spread: Spread) -> tuple[int, ...]:
    """Return the PU of each rank: domain by domain, or round the nodes, and then round their domains."""
    nodes, domains = spread.nodes, spread.domains
    each = threads // (nodes * domains)
    pus = []
    for rank in range(threads):
        if spread.order == SCATTER:
            node, domain, slot = rank % nodes, rank // nodes % domains, rank // (nodes * domains)
        else:
            node, domain, slot = rank // (each * domains), rank // each % domains, rank % each
        core = (node * shape.domains + domain) * shape.cores + slot // spread.on_core
        pus.append(shape.pu(core, slot % spread.on_core))
    return tuple(pus)


def placement_of(shape: Shape, pus: tuple[int, ...]) -> Placement:
    """Return a placement with its shares of the machine, and the page maps that ``auto`` can choose with it."""
    cores = [pu % shape.all_cores for pu in pus]
    domains = [core // shape.cores for core in cores]
    nodes = [domain // shape.domains for domain in domains]
    apart = sum(one != other for one, other in pairwise(nodes))
    point = Point(
        threads=round(len(pus) / shape.all_cores, 4),
        cores=round(len(set(cores)) / shape.all_cores, 4),
        nodes=round(len(set(nodes)) / shape.nodes, 4),
        thread_map=SCATTER if 2 * apart > len(pus) - 1 else COMPACT,
        page_map=FIRST_TOUCH,
        prefetch=ALL_ON,
        llcs=round(len(set(domains)) / (shape.nodes * shape.domains), 4),
    )
    used = len(set(nodes))
    pages = ALL_PAGES if used == shape.nodes else (FIRST_TOUCH, INTERLEAVE) if used > 1 else (FIRST_TOUCH,)
    return Placement(pus, pages, point)
