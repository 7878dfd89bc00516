"""Nominal features, from the parameter ``categorical_features`` of this package's estimators."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def nominal_mask(categorical_features: ArrayLike | None, features: int) -> NDArray[np.bool_]:
    """Return a mask of shape (features,) from indices, from a mask, or from None.

    Raises:
        ValueError: if it names a feature that does not exist, or has another type.
    """
    mask = np.zeros(features, dtype=bool)
    if categorical_features is None:
        return mask
    given = np.asarray(categorical_features)
    if given.dtype == bool:
        if given.shape != mask.shape:
            raise ValueError(f"categorical_features is a mask of shape {given.shape}: it must be ({features},)")
        return given
    if given.size == 0:
        return mask
    if not np.issubdtype(given.dtype, np.integer) or given.ndim != 1:
        raise ValueError(f"categorical_features is {categorical_features!r}: it must be indices, a mask, or None")
    if given.min() < 0 or given.max() >= features:
        raise ValueError(
            f"categorical_features names feature {given.max()}: there are {features} features, numbered from 0"
        )
    mask[given] = True
    return mask
