"""The evaluation's plots: files under docs/."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from pinfold.plot import figure, svg

__all__ = ["figure", "save"]

PLOTS = Path("docs/plots")


def save(drawn: Figure, name: str) -> Path:
    """Write a figure as ``docs/plots/NAME.svg``."""
    PLOTS.mkdir(exist_ok=True)
    path = PLOTS / f"{name}.svg"
    path.write_text(svg(drawn))
    return path
