"""Progress messages of ``pinfold-learn``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable


def printer(asked: argparse.Namespace) -> Callable[[str], None]:
    """Return what prints a message, unless the user asked for quiet."""

    def show(text: str) -> None:
        if not asked.quiet:
            print(f"pinfold learn: {text}", file=sys.stderr)

    return show
