"""Plots of the evaluation: the same figures give the same bytes."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

PLOTS = Path("docs/plots")

SIZE = (7.0, 3.6)  # Of a plot, in inches.


def figure() -> Figure:
    """Give an empty figure of the usual size."""
    return Figure(figsize=SIZE, layout="constrained")


def save(drawn: Figure, name: str) -> Path:
    """Write a figure as ``docs/plots/NAME.svg``: without a date, and with ids that are made of a fixed salt."""
    PLOTS.mkdir(exist_ok=True)
    path = PLOTS / f"{name}.svg"
    with mpl.rc_context({"svg.hashsalt": "pinfold", "svg.fonttype": "none"}):
        drawn.savefig(path, metadata={"Date": None})
    return path
