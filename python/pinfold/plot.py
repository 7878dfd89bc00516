"""Plots: the same figures give the same bytes."""

from __future__ import annotations

import io

import matplotlib as mpl
from matplotlib.figure import Figure

SIZE = (7.0, 3.6)  # Of a plot, in inches.


def figure(width: float = SIZE[0], height: float = SIZE[1]) -> Figure:
    """Give an empty figure, of the usual size unless it is told, in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def svg(drawn: Figure) -> str:
    """Give a figure as SVG: without a date, and with ids that are made of a fixed salt."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "pinfold", "svg.fonttype": "none"}):
        drawn.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
