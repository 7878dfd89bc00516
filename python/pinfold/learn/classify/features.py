"""The features of a model of ``classify``: a program under the default strategy, its machine, and a strategy.

``pinfold run --policy classify:forest`` observes programs and machines (``crates/policy/src/classify/features.rs`` has
the formulas). A data set has the observations as columns of these names, so a model learns from the same figures that
it gets in the loop. All are ratios: a model can also be used on a machine that it did not learn from.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pinfold._native import classify_features
from pinfold.learn.classify.strategies import STRATEGIES, Example, Strategy
from pinfold.learn.tables import OBSERVED

Floats = npt.NDArray[np.float64]

PROGRAM, MACHINE, OF_STRATEGY = map(tuple, classify_features())
"""The names of the features of a program, of its machine and of a strategy, as the policy has them.

``scatter`` is 1 if neighbouring threads are on different nodes, and ``interleave`` if pages are interleaved.
"""

FEATURES = (*PROGRAM, *MACHINE, *OF_STRATEGY)
"""All features, in their order."""


def features(example: Example) -> Floats:
    """Return the features of a program on a machine in each strategy but the default.

    Args:
        example: the program.

    Returns:
        Shape (3, number of features), in the orders of ``STRATEGIES`` and ``FEATURES``. NaN is not known.
    """
    common = [example.metrics.get(OBSERVED + name, math.nan) for name in (*PROGRAM, *MACHINE)]
    return np.array([[*common, *_strategy(strategy)] for strategy in STRATEGIES[1:]])


def _strategy(strategy: Strategy) -> tuple[float, float]:
    return float(strategy.threads == "scatter"), float(strategy.pages == "interleave")
