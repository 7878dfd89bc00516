"""Prints text that others wrote, such as names in data sets, files and records, in single lines.

The rules are the same as in the binary (``crates/core/src/text.rs``): the output has no control characters for a
terminal, and a name is one line. Escapes replace such characters; none is removed.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]"
)
"""What a terminal obeys instead of showing it, and halves of characters, which cannot be written."""

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    r"""Return the text without characters that a terminal obeys or that begin another line.

    >>> print(one_line("solver\x1b[2J\nforged\u202e"))
    solver\x1b[2J\nforged\u202e
    """
    return _OBEYED.sub(lambda found: _escape(found[0]), text)


def clean(text: str) -> str:
    """Return the text without characters that a terminal obeys. Newlines and tabs stay."""
    return _OBEYED.sub(lambda found: found[0] if found[0] in "\n\t" else _escape(found[0]), text)


def _escape(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if ord(character) < ord(" "):
        return f"\\x{ord(character):02x}"
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index : index + 2].hex()}" for index in range(0, len(units), 2))


class _Clean(io.TextIOBase):
    """A stream that cleans its text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(clean(text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()


@contextmanager
def cleaned_output() -> Iterator[None]:
    """Clean the text on standard output and standard error."""
    with redirect_stdout(_Clean(sys.stdout)), redirect_stderr(_Clean(sys.stderr)):
        yield


def redraw(line: str) -> None:
    """Replace the last line of the terminal that standard error is."""
    if sys.__stderr__ is not None:
        sys.__stderr__.write(f"\r\033[K{one_line(line)}")
        sys.__stderr__.flush()
