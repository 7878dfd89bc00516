"""Progress messages of ``pinfold-learn``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from pinfold.learn.origin import Origin


def printer(asked: argparse.Namespace) -> Callable[[str], None]:
    """Return what prints a message, unless the user asked for quiet."""

    def show(text: str) -> None:
        if not asked.quiet:
            print(f"pinfold learn: {text}", file=sys.stderr)

    return show


def checked_origin(asked: argparse.Namespace) -> Origin:
    """Return the origin of the rows to learn from, and print it.

    Raises:
        ValueError: if some were measured and others simulated, and the user did not ask for a mixture.
    """
    origin = Origin.of(asked.data)
    origin.require_one_kind(asked.mixed)
    printer(asked)(f"learning from {origin.text()}")
    return origin
