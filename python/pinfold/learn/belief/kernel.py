"""The similarity of configurations: a product over their choices, the same as that of ``crates/policy/src/belief``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pinfold.learn.belief.point import PAGE_MAPS, PREFETCHERS, Point
from pinfold.learn.races import Floats


class Lengths(NamedTuple):
    """How far apart values of each choice may be for configurations to be alike.

    Numbers of threads, cores, nodes and last-level caches are in doublings; None: caches are not compared. Different
    maps of threads or of pages have a distance of 1. The distance of prefetchers is the root of the number of them that
    differ.
    """

    threads: float
    cores: float
    nodes: float
    thread_map: float
    page_map: float
    prefetch: float
    llcs: float | None = None

    def scaled(self, factor: float) -> Lengths:
        """Return all lengths multiplied by a factor.

        >>> Lengths(1, 1, 1, 1, 1, 2).scaled(2).prefetch
        4
        """
        return self._replace(**{name: factor * length for name, length in self.given().items()})

    def given(self) -> dict[str, float]:
        """Return the lengths of the choices that are compared, by name."""
        return {name: length for name, length in self._asdict().items() if length is not None}


def similarity(one: Sequence[Point], other: Sequence[Point], lengths: Lengths) -> Floats:
    """Return exp(-s / 2) for each pair; s is the sum of the squares of distances over their lengths.

    Returns:
        An array of shape (one, other).

    Raises:
        ValueError: if last-level caches are compared, and a configuration has no share of them.

    >>> lengths = Lengths(1, 1, 1, 1, 1, 1)
    >>> whole = Point(1.0, 1.0, 1.0, "scatter", "locality", "0000")
    >>> float(similarity([whole], [whole._replace(prefetch="0011")], lengths)[0, 0]) == float(np.exp(-1))
    True
    """
    here, there = _places(one, lengths), _places(other, lengths)
    squares = (here**2).sum(axis=1)[:, None] + (there**2).sum(axis=1) - 2 * here @ there.T
    alike: Floats = np.exp(-0.5 * np.maximum(squares, 0))
    return alike


def _places(points: Sequence[Point], lengths: Lengths) -> Floats:
    """Return the coordinates of configurations: each choice has its own, in its length."""
    shares = np.array([one[:3] for one in points], dtype=np.float64)
    scattered = [[one.thread_map == "scatter"] for one in points]
    # Two page maps differ in two coordinates, by a root of a half each.
    pages = [[np.sqrt(0.5) * (one.page_map == name) for name in PAGE_MAPS] for one in points]
    off = [[digit == "1" for digit in one.prefetch] for one in points]
    coordinates = [np.log2(shares), np.array(scattered), np.array(pages), np.array(off)]
    widths = [*lengths[:4], *[lengths.page_map] * len(PAGE_MAPS), *[lengths.prefetch] * PREFETCHERS]
    if lengths.llcs is not None:
        coordinates.append(np.log2([[_caches(one)] for one in points]))
        widths.append(lengths.llcs)
    places: Floats = np.hstack(coordinates, dtype=np.float64) / np.array(widths, dtype=np.float64)
    return places


def _caches(point: Point) -> float:
    if point.llcs is None:
        raise ValueError(f"the share of last-level caches of a configuration is not known: {point.text()}")
    return point.llcs
