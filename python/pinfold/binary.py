"""Finds and calls the binary ``pinfold``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def find_binary() -> Path:
    """Return the calling binary (``PINFOLD``), the one beside this interpreter, in a checkout, or in ``PATH``.

    Raises:
        FileNotFoundError: if there is none; the message says what to do.
    """
    if named := os.environ.get("PINFOLD"):
        return Path(named)
    for binary in (Path(sys.executable).with_name("pinfold"), CHECKOUT / "target/release/pinfold"):
        if binary.exists():
            return binary
    if found := shutil.which("pinfold"):
        return Path(found)
    raise FileNotFoundError(
        "the binary `pinfold` is neither beside Python nor in PATH: install it (`pip install .` in pinfold's source), "
        "or name it in the environment variable PINFOLD"
    )


class PinfoldError(Exception):
    """The binary failed. The text is its message."""


def call(words: Sequence[str | os.PathLike[str]], said: Callable[[str], None] | None = None) -> str:
    """Run the binary until it ends, and return its standard output.

    Args:
        words: its arguments.
        said: gets each line that it writes to standard error, without ``pinfold: `` in front.

    Raises:
        PinfoldError: it failed; the text is the last that it wrote.
        FileNotFoundError: the binary was not found.
    """
    command = [str(find_binary()), *(os.fspath(word) for word in words)]
    lines: list[str] = []
    # With two pipes the binary could wait for a reader of the one, and this process for the other.
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        with subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace") as child:
            assert child.stderr is not None
            try:
                for line in child.stderr:
                    lines.append(line.rstrip("\n").removeprefix("pinfold: "))
                    if said is not None:
                        said(lines[-1])
            except BaseException:
                child.terminate()
                raise
        if child.returncode != 0:
            raise PinfoldError("\n".join(lines) or f"pinfold ended with status {child.returncode}")
        output.seek(0)
        return output.read()
