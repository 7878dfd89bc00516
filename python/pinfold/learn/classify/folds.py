"""Folds of programs: all inputs of a program are in the same fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pinfold.learn.classify.strategies import Example


def split(found: Sequence[Example], folds: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
    """Split examples by program: for each fold the positions of those outside and inside it."""
    names = sorted({one.program for one in found})
    shuffled = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[name]: place % min(folds, len(names)) for place, name in enumerate(shuffled)}
    for fold in sorted(set(fold_of.values())):
        inside = [place for place, one in enumerate(found) if fold_of[one.program] != fold]
        yield inside, [place for place, one in enumerate(found) if fold_of[one.program] == fold]
