"""Whether the rows of data sets were measured or simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute

from pinfold.learn import tables


@dataclass(frozen=True)
class Origin:
    """The numbers of rows to learn from.

    Attributes
    ----------
    measured, simulated : int
        The rows that were measured, and the rows that were simulated.
    """

    measured: int
    simulated: int

    @classmethod
    def of(cls, files: Sequence[Path]) -> Origin:
        """Count the rows of data sets. Rows of unpinned threads are not learned from, and do not count.

        Raises:
            ValueError: if a file is no data set; the message names it.
        """
        measured = simulated = 0
        for file in files:
            table = tables.to_learn(file)
            tables.require(file, table, ["simulated"], "rows: `pinfold sweep -o` writes one")
            computed = pyarrow.compute.sum(table["simulated"]).as_py() or 0
            simulated += computed
            measured += table.num_rows - computed
        return cls(measured, simulated)

    def text(self) -> str:
        """Return the numbers in words."""
        kinds = ((self.measured, "measured"), (self.simulated, "simulated"))
        return " and ".join(f"{number} {kind} rows" for number, kind in kinds if number) or "no rows"

    def require_one_kind(self, mixed: bool) -> None:
        """Refuse a mixture, unless the user wants one.

        Args:
            mixed: whether the user wants one.

        Raises:
            ValueError: if there are rows of both kinds.
        """
        if self.measured and self.simulated and not mixed:
            raise ValueError(
                f"the data has {self.text()}: what is learned from both describes neither; leave the files of one kind "
                "out, or give --mixed to learn from both"
            )
