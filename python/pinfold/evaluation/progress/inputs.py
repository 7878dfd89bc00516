"""What programs read: a text, and a file of zeros that takes no room."""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path

PART = 16 << 20
"""Bytes of text that are generated. A longer text repeats them, at a greater distance than a compressor looks back."""

WORDS = 20_000
WORDS_IN_A_LINE = 12


def text(file: Path, size: int) -> Path:
    """Write a text of this size, unless it is there. All its parts can be compressed as well as each other."""
    if not (file.exists() and file.stat().st_size == size):
        part = _part()
        with file.open("wb") as out:
            for written in range(0, size, PART):
                out.write(part[: min(PART, size - written)])
    return file


def zeros(file: Path, size: int) -> Path:
    """Make a file of zeros of this size. It takes no room on the disk."""
    with file.open("wb") as out:
        out.truncate(size)
    return file


def memory() -> Path:
    """Return a folder for files without room. A file system in memory does not keep the pages that are read of them."""
    place = Path("/dev/shm")
    return place if os.access(place, os.W_OK) else Path("/tmp")


@cache
def _part() -> bytes:
    """Return text of random words, the frequent ones more often, as in a language."""
    chance = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(chance.choices(letters, range(26, 0, -1), k=chance.randint(2, 10))) for _ in range(WORDS)]
    weights = [1 / (rank + 1) for rank in range(WORDS)]
    chosen = chance.choices(words, weights, k=PART // 4)
    lines = (" ".join(chosen[first : first + WORDS_IN_A_LINE]) for first in range(0, len(chosen), WORDS_IN_A_LINE))
    return "\n".join(lines).encode()[:PART]
