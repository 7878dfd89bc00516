"""The training data of a learned file, as each such file names it (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Trained:
    """The training data of rules."""

    simulated: bool | None
    """Whether the data was simulated; None where this is not known."""
    machines: Sequence[str]
    programs: Sequence[str]
    rows: int
    learner: str
    """The learner with its parameters, for a reader."""
