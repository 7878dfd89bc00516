"""Plots: the same figures give the same bytes."""

from __future__ import annotations

import io

import matplotlib as mpl
from matplotlib.figure import Figure

SIZE = (7.0, 3.6)  # The size of a plot in inches.


def figure(width: float = SIZE[0], height: float = SIZE[1]) -> Figure:
    """Return an empty figure, of the usual size by default, in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def svg(drawn: Figure) -> str:
    """Return a figure as SVG, without a date, and with ids from a fixed salt."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "pinfold", "svg.fonttype": "none"}):
        drawn.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
