"""The training data of a learned file, as each such file names it (docs/formats/models.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinfold.learn.origin import Origin


@dataclass(frozen=True)
class Trained:
    """The training data of rules."""

    simulated: bool | None
    """Whether any of it was simulated; None if this is unknown."""
    machines: Sequence[str]
    programs: Sequence[str]
    rows: int
    learner: str
    """The learner with its parameters, for a reader."""
    measured_rows: int | None = None
    """The number of measured rows of the data sets; None if this is unknown."""
    simulated_rows: int | None = None

    @classmethod
    def of(cls, origin: Origin, machines: Sequence[str], programs: Sequence[str], rows: int, learner: str) -> Trained:
        """Return training data of this origin."""
        return cls(origin.simulated > 0, machines, programs, rows, learner, origin.measured, origin.simulated)
