"""Trees of scikit-learn as model files have them: a list of nodes, the root first (docs/formats/models.md).

``crates/policy/src/tree.rs`` reads and follows them in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Node = list[int | float]
"""A leaf, ``[value]``, or a split, ``[feature, threshold, low, high]``."""

SPLIT = 4
"""The length of a split."""


def nodes_of(tree: Any, leaf: Callable[[npt.NDArray[np.float64]], int | float]) -> list[Node]:
    """Return the nodes of a fitted tree. scikit-learn numbers children after their parent.

    Args:
        tree: the attribute ``tree_`` of an estimator.
        leaf: what a leaf has, from scikit-learn's value of it: the mean, or the share of each class.
    """
    nodes: list[Node] = []
    for node in range(tree.node_count):
        low, high = int(tree.children_left[node]), int(tree.children_right[node])
        if low == high:
            nodes.append([leaf(tree.value[node][0])])
        else:
            nodes.append([int(tree.feature[node]), float(tree.threshold[node]), low, high])
    return nodes


def leaf_of(nodes: Sequence[Sequence[int | float]], seen: Sequence[float]) -> int | float:
    """Follow a tree to a leaf, and return what that has.

    Args:
        nodes: the nodes.
        seen: the values of the features, in single precision.
    """
    node = nodes[0]
    while len(node) == SPLIT:
        feature, threshold, low, high = node
        node = nodes[int(low if seen[int(feature)] <= threshold else high)]
    return node[0]
