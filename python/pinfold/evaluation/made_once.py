"""Files that are made once: an interrupted evaluation goes on with those that are there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path


def made_once(file: Path, make: Callable[[Path], object]) -> Path:
    """Return a file; make it unless it exists.

    It is made under another name, which it keeps until it is complete. Several processes and threads may make the same
    file at the same time.

    Args:
        file: the file, in a folder that is created.
        make: writes a file of the given name.
    """
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        make(unfinished)
        unfinished.rename(file)
    return file
