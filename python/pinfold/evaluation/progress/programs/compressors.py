"""Programs that read a file: compressors, ciphers and hashes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pinfold.evaluation.progress import inputs
from pinfold.evaluation.progress.figures import Figure, Offset
from pinfold.evaluation.progress.program import Program, path_of
from pinfold.evaluation.progress.quota import Group

GIGABYTE = 1 << 30
ENOUGH_TEXT = 2 * GIGABYTE
ENOUGH_ZEROS = 400 * GIGABYTE


class Reader(Program):
    """A program that reads a file from its beginning to its end."""

    figure_is = "its position in the input file"

    def __init__(self, kind: str, words: str, *, name: str = "", size: int = ENOUGH_TEXT) -> None:
        """Describe it.

        Args:
            kind: what it is.
            words: its command line, without the file.
            name: what it is called in the table, if not by its first word.
            size: the size of the text that it reads.
        """
        self.kind = kind
        self._words = words.split()
        self._size = size
        self.name = name or self._words[0]
        self.needs = (self._words[0],)

    def prepare(self, folder: Path) -> None:
        """Make the file."""
        self._input(folder, None)

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line with the file."""
        first, *rest = self._words
        return [path_of(first), *rest, str(self._input(folder, amount))]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the position in the file."""
        return Offset(group, self._input(folder, None))

    def _input(self, folder: Path, amount: int | None) -> Path:
        # All programs share the text.
        name = "whole" if amount is None else "part"
        return inputs.text(folder.parent / name, self._size if amount is None else amount)


class FastReader(Reader):
    """A program that reads zeros, because its speed is high and does not depend on what it reads."""

    def clean(self, folder: Path) -> None:
        """Remove the files of zeros."""
        del folder
        for file in inputs.memory().glob(f"pinfold-progress-{os.getpid()}-*"):
            file.unlink()

    def _input(self, folder: Path, amount: int | None) -> Path:
        del folder
        name = "whole" if amount is None else "part"
        file = inputs.memory() / f"pinfold-progress-{os.getpid()}-{name}"
        return inputs.zeros(file, ENOUGH_ZEROS if amount is None else amount)


# Blocks are so small that a program at a third of its speed reads several dozen of them within a window.
READERS: tuple[Program, ...] = (
    Reader("compressor", "gzip -9 -c"),
    Reader("compressor", "bzip2 -1 -k -c"),
    Reader("compressor", "pigz -9 -p 2 -c"),
    Reader("compressor", "pbzip2 -b1 -m8 -p2 -k -c"),
    Reader("compressor", "zstd -9 -T2 -B512K -q -c", name="zstd -T2"),
    Reader("compressor", "xz -1 -T2 --block-size=128KiB -c", name="xz -T2"),
    Reader("compressor", "lz4 -9 -B5 -q -c"),
    FastReader("cipher", "openssl enc -aes-256-cbc -pass pass:a -nosalt -iter 1 -out /dev/null -in"),
    FastReader("hash", "sha256sum"),
    Reader("sort", "sort --parallel=2 -S 2M -o /dev/null"),
)
