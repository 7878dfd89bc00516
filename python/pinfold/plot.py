"""Plots: the same figures give the same bytes."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

SIZE = (7.0, 3.6)  # The size of a plot in inches.
TEXT = 9  # The size of text in points: 12 pixels.


def figure(width: float = SIZE[0], height: float = SIZE[1]) -> Figure:
    """Return an empty figure, of the usual size by default, in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def legend_above(drawn: Figure, columns: int) -> None:
    """Add a legend above the axes, so that it hides nothing."""
    drawn.legend(loc="outside upper left", ncols=columns, fontsize=TEXT, frameon=False)


@dataclass(frozen=True)
class Plot:
    """A drawing: a notebook shows it, and `save` writes it.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        The drawing, for changes of it.
    """

    figure: Figure

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the drawing in the form that the end of the name says, such as ``.svg`` or ``.png``."""
        self.figure.savefig(path)
        return Path(path)

    def _repr_svg_(self) -> str:
        return svg(self.figure)


def svg(drawn: Figure) -> str:
    """Return a figure as SVG, without a date, and with ids from a fixed salt."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "pinfold", "svg.fonttype": "none"}):
        drawn.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
