"""Figures of a population of regions: what prefetchers, nodes, page mappings and siblings are worth on a machine.

The regions of a simulated and of a measured population are different programs. So a figure is a mean or a quantile over
regions, and what is asked for is a band around the measured one. Gains are logarithms of speeds over the baseline: a
thread on each core of both nodes, scattered, pages after locality, all prefetchers on. Means of speeds are geometric.

The *compared* configurations exist on both machines with a core for each thread: half of the cores on one and on two
nodes and all cores, pages after locality or spread evenly, and all settings of the prefetchers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pinfold.evaluation.measured.known import Known, Setting
from pinfold.learn.react.data import ALL_ON

ALL_OFF = "1111"

LOCAL = ("locality", "local")
"""The names of the mapping after locality: on several nodes, and on one."""

SPREAD = ("balance", "interleave")
"""The mappings that spread pages evenly over the nodes."""

PREFETCHERS = ("0000", "0010", "0011", "1111")
"""The settings of prefetchers whose mean speeds are compared."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

QUARTILES = (0.25, 0.5, 0.75)
"""The quantiles of which something is asked."""

FEWEST = 3
"""The least number of common configurations that a correlation needs."""

MATCHED = {"locality": "locality", "local": "locality", "balance": "balance"}
"""The mappings that both populations have, by one name for each."""


@dataclass(frozen=True)
class Asked:
    """What is asked for: that the simulated figure differs from the measured one by a limited amount, or is in a range.

    Attributes
    ----------
    most : float or None
        The largest difference; relative if ``relative``.
    relative : bool
        Whether ``most`` is a share of the measured figure.
    range : tuple of float or None
        The lowest and highest value, in place of ``most``.
    """

    most: float | None = None
    relative: bool = False
    range: tuple[float, float] | None = None

    def text(self) -> str:
        """Describe it."""
        if self.range is not None:
            low, high = self.range
            return f"at least {low}" if high == np.inf else f"{low} to {high}"
        return f"within {self.most:.0%}" if self.relative else f"within {self.most}"

    def holds(self, simulated: float, measured: float | None) -> bool:
        """Return whether a simulated figure is as asked for."""
        if self.range is not None:
            return self.range[0] <= simulated <= self.range[1]
        if self.most is None or measured is None:
            return False
        return abs(simulated - measured) <= self.most * (abs(measured) if self.relative else 1)


@dataclass(frozen=True)
class Figure:
    """A figure of the simulated population beside the measured one.

    Attributes
    ----------
    name : str
        The figure.
    measured : float or None
        Its value in the measured table; None for a comparison of both populations.
    simulated : float
        Its value in the simulated population.
    asked : Asked or None
        What is asked for; None if the figure only informs.
    """

    name: str
    measured: float | None
    simulated: float
    asked: Asked | None

    @property
    def held(self) -> bool | None:
        """Whether the simulated value is as asked for; None if nothing is asked for."""
        return None if self.asked is None else self.asked.holds(self.simulated, self.measured)


def figures(measured: Known, simulated: Known) -> list[Figure]:
    """Return all figures."""
    there, here = Population(measured), Population(simulated)
    ten_percent = Asked(0.1, relative=True)
    found = [
        Figure(
            f"all prefetchers on over all off, {quantile:.0%} of the regions below",
            there.on_over_off(quantile),
            here.on_over_off(quantile),
            Asked(0.08) if quantile in QUARTILES else None,
        )
        for quantile in QUANTILES
    ]
    found += [
        Figure(f"mean speed with prefetchers {one}", there.mean(prefetch=one), here.mean(prefetch=one), ten_percent)
        for one in PREFETCHERS
    ]
    for name, cores, nodes in (
        ("half of the cores on one node", 0.5, 1),
        ("half of the cores on two nodes", 0.5, 2),
        ("all cores", 1.0, 2),
    ):
        values = [one.mean(share=cores, nodes=nodes) for one in (there, here)]
        found.append(Figure(f"mean speed of {name}", values[0], values[1], ten_percent))
    found.append(
        Figure(
            "mean speed of pages after locality over pages spread evenly, two nodes",
            there.locality_over_spread(),
            here.locality_over_spread(),
            ten_percent,
        )
    )
    found.append(
        Figure(
            "share of the regions whose best pages are after locality, two nodes",
            there.best_after_locality(),
            here.best_after_locality(),
            Asked(0.15),
        )
    )
    for name, wanted in (
        ("only NUMA", {"prefetch": ALL_ON}),
        ("only prefetchers", None),
        ("NUMA and prefetchers", {}),
    ):
        values = [one.possible(wanted) for one in (there, here)]
        found.append(Figure(f"mean speed of the best configuration, {name}", values[0], values[1], Asked(0.08)))
    found.append(
        Figure(
            "share of the possible gain that needs siblings (SMT)",
            there.needs_siblings(),
            here.needs_siblings(),
            Asked(range=(0.2, 0.33)),
        )
    )
    means, covariances = correlations(measured, simulated)
    for name, value, least in (("mean vectors", means, 0.93), ("covariances", covariances, 0.85)):
        found.append(Figure(f"correlation of the {name} of gains", None, value, Asked(range=(least, np.inf))))
    return found


class Population:
    """Regions of a machine, and the compared configurations."""

    def __init__(self, known: Known) -> None:
        """Find the compared configurations."""
        self._known = known
        self._cores = known.settings[known.baseline].threads
        compared = (*LOCAL, *SPREAD)
        self._compared = [
            place
            for place, one in enumerate(known.settings)
            if one.threads_per_core == 1 and 2 * one.threads >= self._cores and one.page_map in compared
        ]

    def _where(
        self,
        share: float | None = None,
        nodes: int | None = None,
        prefetch: str | None = None,
        pages: Sequence[str] | None = None,
    ) -> list[int]:
        """Return the compared configurations with a share of the cores, and other values; None is any."""

        def fits(one: Setting) -> bool:
            return (
                (share is None or one.threads == share * self._cores)
                and (nodes is None or one.nodes == nodes)
                and (prefetch is None or one.prefetch == prefetch)
                and (pages is None or one.page_map in pages)
            )

        return [place for place in self._compared if fits(self._known.settings[place])]

    def mean(self, share: float | None = None, nodes: int | None = None, prefetch: str | None = None) -> float:
        """Return the geometric mean of the speeds of some compared configurations, over all regions."""
        return float(np.exp(self._known.gains[:, self._where(share, nodes, prefetch)].mean()))

    def on_over_off(self, quantile: float) -> float:
        """Return a quantile, over regions, of the mean speed with all prefetchers over that with none."""
        gains = self._known.gains
        on, off = (gains[:, self._where(prefetch=one)].mean(axis=1) for one in (ALL_ON, ALL_OFF))
        return float(np.exp(np.quantile(on - off, quantile)))

    def locality_over_spread(self) -> float:
        """Return the mean speed of pages after locality over that of pages spread evenly, on two nodes."""
        gains = self._known.gains
        local, spread = (gains[:, self._where(nodes=2, pages=pages)].mean() for pages in (LOCAL, SPREAD))
        return float(np.exp(local - spread))

    def best_after_locality(self) -> float:
        """Return the share of the regions that are fastest with pages after locality, on two nodes."""
        places = self._where(nodes=2)
        best = self._known.gains[:, places].argmax(axis=1)
        return float(np.mean([self._known.settings[places[one]].page_map in LOCAL for one in best]))

    def possible(self, wanted: dict[str, str] | None) -> float:
        """Return the mean speed of the best configuration of those with some values.

        Args:
            wanted: the values; None for the settings of prefetchers of the baseline's threads and pages.
        """
        known = self._known
        if wanted is None:
            base = known.settings[known.baseline]._asdict()
            wanted = {name: value for name, value in base.items() if name != "prefetch"}
        return float(np.exp(known.best(known.where(**wanted)).mean()))

    def needs_siblings(self) -> float:
        """Return the share of the possible gain that configurations with a core for each thread lack."""
        known = self._known
        alone = known.best(known.where(threads_per_core=1)).sum()
        return float(1 - alone / known.best(range(len(known.settings))).sum())


def matched(measured: Known, simulated: Known) -> list[tuple[int, int]]:
    """Return the positions of the configurations that both populations have, siblings included."""

    def key(one: Setting) -> Setting | None:
        pages = MATCHED.get(one.page_map)
        thread_map = one.thread_map if one.nodes > 1 else None
        return None if pages is None else one._replace(page_map=pages, thread_map=thread_map)

    there = {found: place for place, one in enumerate(measured.settings) if (found := key(one))}
    return [
        (there[found], place)
        for place, one in enumerate(simulated.settings)
        if (found := key(one)) is not None and found in there
    ]


def correlations(measured: Known, simulated: Known) -> tuple[float, float]:
    """Return the correlation of the mean gains of both populations, and that of the covariances of their gains.

    Raises:
        ValueError: if the populations have fewer than ``FEWEST`` configurations in common.
    """
    pairs = matched(measured, simulated)
    if len(pairs) < FEWEST:
        raise ValueError(
            f"{measured.machine} and {simulated.machine} have {len(pairs)} configurations in common: at least {FEWEST} "
            "are needed"
        )
    there = measured.gains[:, [one for one, _ in pairs]]
    here = simulated.gains[:, [one for _, one in pairs]]
    means = np.corrcoef(there.mean(axis=0), here.mean(axis=0))[0, 1]
    upper = np.triu_indices(len(pairs))
    covariances = np.corrcoef(np.cov(there, rowvar=False)[upper], np.cov(here, rowvar=False)[upper])[0, 1]
    return float(means), float(covariances)
