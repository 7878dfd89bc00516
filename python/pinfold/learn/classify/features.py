"""What a model of placements sees: a program under the default strategy, its machine, and a strategy.

``pinfold run --policy classify`` observes programs and machines (``crates/policy/src/classify/features.rs`` has the
formulas). A data set has what it observed as columns of these names, so that a model learns from the very figures that
it gets in the loop. All are ratios: a model can be used on a machine from which it was not learned.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pinfold.learn.classify.strategies import STRATEGIES, Example, Strategy
from pinfold.learn.tables import OBSERVED

Floats = npt.NDArray[np.float64]

PROGRAM = (
    "ipc",
    "llc_misses_per_instruction",
    "remote_share",
    "intra_package_coherence",
    "inter_package_coherence",
    "memory_load",
    "memory_imbalance",
    "busiest_memory_load",
    "miss_imbalance",
    "reads_per_instruction",
    "remote_reads_share",
    "read_load",
    "read_imbalance",
    "busiest_read_load",
)
"""Of a program."""

MACHINE = ("nodes", "cores_per_node", "latency_ratio", "memory_bytes_per_cycle", "link_over_memory")
"""Of a machine."""

OF_STRATEGY = ("scatter", "interleave")
"""1 if neighbouring threads are on different nodes, and 1 if pages are interleaved."""

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
