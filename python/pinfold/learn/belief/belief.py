"""A belief: what a program's time may be in any configuration, before it was tried in one.

z is the logarithm of a time over the time in the baseline, and normal. Its mean and covariance are known at *points*,
and those of other configurations are interpolated. docs/formats/beliefs.md has the formulas, which
``crates/policy/src/belief`` follows, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pinfold.learn.belief.kernel import Lengths, similarity
from pinfold.learn.belief.point import Point
from pinfold.learn.races import Floats
from pinfold.learn.trained import Trained

SAME = 1e-9
"""Configurations whose similarity is at least 1 less this are the same."""


@dataclass(frozen=True)
class Kernel:
    """The part of the covariance that depends on the similarity of configurations alone.

    Attributes
    ----------
    weight : float
        Its share of the covariance, from 0 to 1.
    variance : float
        The variance of one configuration.
    lengths : Lengths
        The length of each choice.
    """

    weight: float
    variance: float
    lengths: Lengths


@dataclass(frozen=True)
class Prior:
    """What is believed of some configurations: the mean and the covariance of z."""

    mean: Floats
    covariance: Floats

    def relative_to(self, place: int) -> Prior:
        """Return what is believed of the differences of z to that of one configuration.

        >>> prior = Prior(np.array([0.5, 0.25]), np.array([[1.0, 0.5], [0.5, 2.0]]))
        >>> relative = prior.relative_to(0)
        >>> relative.mean.tolist(), relative.covariance.tolist()
        ([0.0, -0.25], [[0.0, 0.0], [0.0, 2.0]])
        """
        row = self.covariance[place]
        return Prior(self.mean - self.mean[place], self.covariance - row - row[:, None] + row[place])


@dataclass(frozen=True)
class Belief:
    """What is known at points.

    Attributes
    ----------
    points : tuple of Point
        The configurations that it lists.
    mean : array of shape (points,)
        The mean of z over training programs.
    factors : array of shape (points, factors)
        The products of their rows are covariances.
    residual : array of shape (points,)
        The variance that the factors leave and no other point shares.
    kernel : Kernel
        What similar configurations have in common.
    noise : float
        The variance of one trial.
    doubt : float
        The variance that a machine adds from which nothing was learned.
    origin : Trained
        The training data.
    """

    points: tuple[Point, ...]
    mean: Floats
    factors: Floats
    residual: Floats
    kernel: Kernel
    noise: float
    doubt: float
    origin: Trained

    def over(self, points: Sequence[Point], machine: str) -> Prior:
        """Return the prior of some configurations of a machine.

        A listed configuration has its own mean, factors and residual. Those of another one are interpolated, with
        weights k / (1 - k) of its similarity k to each point, and what is far from all points has a larger variance.
        Shares of last-level caches are compared if all configurations have one.
        """
        known = all(one.llcs is not None for one in (*points, *self.points))
        lengths = self.kernel.lengths if known else self.kernel.lengths._replace(llcs=None)
        near = similarity(points, self.points, lengths)
        weights = near / np.maximum(1 - near, 1e-15)
        same = near >= 1 - SAME
        listed = same.any(axis=1)
        # Several are the same if they differ only by a choice that is not compared.
        weights[listed] = same[listed]
        # A configuration that is far from all points has weights that vanish: it is like the nearest one.
        lost = weights.sum(axis=1) <= np.finfo(np.float64).tiny
        weights[lost] = np.eye(len(self.points))[near[lost].argmax(axis=1)]
        weights /= weights.sum(axis=1, keepdims=True)
        factors = weights @ self.factors
        far = np.where(listed, 0, 1 - near.max(axis=1))
        own = weights @ self.residual + far * self.kernel.variance
        learned = factors @ factors.T + np.diag(own)
        doubt = 0.0 if machine in self.origin.machines else self.doubt
        alike = similarity(points, points, lengths)
        weight = self.kernel.weight
        covariance = (1 - weight) * learned + (weight * self.kernel.variance + doubt) * alike
        return Prior(weights @ self.mean, covariance)
