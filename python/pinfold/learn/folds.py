"""Folds for cross-validation, by programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def folds_of(programs: Sequence[str], folds: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the fold of each region: all regions of a program are in the same one."""
    names = sorted(set(programs))
    order = np.random.default_rng(seed).permutation(len(names))
    fold = {names[name]: place % min(folds, len(names)) for place, name in enumerate(order)}
    return np.array([fold[program] for program in programs], dtype=np.int64)
