"""Makes inputs of applications from a seed: `inputs.py KIND [OPTION=VALUE]... > FILE`.

The environment's SEED is the seed. The same call gives the same bytes. Only numpy is needed, because this runs in the
Python environment of the applications.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import numpy as np

BASES = np.frombuffer(b"ACGT", dtype=np.uint8)
AMINO_ACIDS = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", dtype=np.uint8)

#: The share of letters that a copy of a sequence has changed.
MUTATIONS = 0.05


def _random() -> np.random.Generator:
    return np.random.default_rng(int(os.environ["SEED"]))


def _record(name: str, letters: np.ndarray) -> bytes:
    return b">" + name.encode() + b"\n" + letters.tobytes() + b"\n"


def _mutated(random: np.random.Generator, letters: np.ndarray, alphabet: np.ndarray, share: float) -> np.ndarray:
    changed = letters.copy()
    places = random.random(len(letters)) < share
    changed[places] = random.choice(alphabet, places.sum())
    return changed


def genome(length: int = 1_000_000, chromosomes: int = 1) -> Iterator[bytes]:
    """Yield random chromosomes, in FASTA. A tenth of each is copies of other parts, as repeats are."""
    random = _random()
    for number in range(chromosomes):
        letters = random.choice(BASES, length // chromosomes)
        for _ in range(len(letters) // 10_000):
            source, target = random.integers(0, len(letters) - 1000, 2)
            letters[target : target + 1000] = letters[source : source + 1000]
        yield _record(f"chromosome{number}", letters)


def reads(length: int = 1_000_000, count: int = 10_000, size: int = 100, errors: float = 0.01) -> Iterator[bytes]:
    """Yield reads of the genome of the same length and seed, in FASTQ."""
    letters = np.frombuffer(next(iter(genome(length))).split(b"\n")[1], dtype=np.uint8)
    random = np.random.default_rng(int(os.environ["SEED"]) + 1)
    for number, begin in enumerate(random.integers(0, len(letters) - size, count)):
        read = _mutated(random, letters[begin : begin + size], BASES, errors)
        yield b"@read%d\n%s\n+\n%s\n" % (number, read.tobytes(), b"I" * size)


def family(count: int = 60, size: int = 300, protein: int = 1, share: float = 0.3) -> Iterator[bytes]:
    """Yield related sequences, in FASTA: each is a changed copy of an earlier one, as on a tree."""
    random = _random()
    alphabet = AMINO_ACIDS if protein else BASES
    known = [random.choice(alphabet, size)]
    for number in range(count):
        one = _mutated(random, known[random.integers(0, len(known))], alphabet, share / 2)
        known.append(one)
        yield _record(f"sequence{number}", one)


def proteins(count: int = 1000, size: int = 300, families: int = 50) -> Iterator[bytes]:
    """Yield proteins of some families, in FASTA."""
    random = _random()
    founders = [random.choice(AMINO_ACIDS, size) for _ in range(families)]
    for number in range(count):
        letters = _mutated(random, founders[number % families], AMINO_ACIDS, 0.5 * random.random())
        yield _record(f"protein{number}", letters)


def text(size: int = 10_000_000, words: int = 5000) -> Iterator[bytes]:
    """Yield lines of words whose frequencies follow Zipf's law."""
    random = _random()
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
    known = [random.choice(letters, random.integers(2, 12)).tobytes() for _ in range(words)]
    ranks = 1 / np.arange(1, words + 1)
    while size > 0:
        line = b" ".join(known[place] for place in random.choice(words, 5000, p=ranks / ranks.sum()))
        line = line.replace(b" a", b"\n")[:size]
        size -= len(line) + 1
        yield line + b"\n"


def _picture(random: np.random.Generator, width: int, height: int, time: float) -> np.ndarray:
    """Return a picture of moving waves and noise, with values of 0 to 255."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    waves = np.sin(x / 17 + 3 * time) + np.sin(y / 23 - 2 * time) + np.sin((x + y) / 41 + time)
    noise = random.normal(0, 4, (height, width))
    picture: np.ndarray = np.clip(128 + 36 * waves + noise, 0, 255).astype(np.uint8)
    return picture


def video(width: int = 640, height: int = 352, frames: int = 30) -> Iterator[bytes]:
    """Yield a video in YUV4MPEG2, 4:2:0."""
    random = _random()
    yield b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n" % (width, height)
    for frame in range(frames):
        luma = _picture(random, width, height, frame / 10)
        yield b"FRAME\n" + luma.tobytes() + luma[::2, ::2].tobytes() + (255 - luma[1::2, 1::2]).tobytes()


def image(width: int = 1024, height: int = 768) -> Iterator[bytes]:
    """Yield a colour picture in PPM."""
    random = _random()
    planes = [_picture(random, width, height, time) for time in (0, 1, 2)]
    yield b"P6\n%d %d\n255\n" % (width, height) + np.stack(planes, axis=2).tobytes()


def elevation(width: int = 2000, height: int = 2000) -> Iterator[bytes]:
    """Yield heights in metres as an ASCII grid of ArcInfo."""
    random = _random()
    head = f"ncols {width}\nnrows {height}\nxllcorner 10\nyllcorner 50\ncellsize 0.001\nNODATA_value -9999\n"
    yield head.encode()
    for row in _picture(random, width, height, 0):
        yield b" ".join(b"%d" % value for value in row) + b"\n"


def satisfiability(variables: int = 250, clauses: int = 1065) -> Iterator[bytes]:
    """Yield a random formula of three literals a clause, in DIMACS; 4.26 clauses a variable are the hardest."""
    random = _random()
    yield b"p cnf %d %d\n" % (variables, clauses)
    for _ in range(clauses):
        chosen = random.choice(variables, 3, replace=False) + 1
        yield b" ".join(b"%d" % one for one in chosen * random.choice([-1, 1], 3)) + b" 0\n"


KINDS: dict[str, Callable[..., Iterator[bytes]]] = {
    maker.__name__: maker for maker in (genome, reads, family, proteins, text, video, image, elevation, satisfiability)
}


def main() -> None:
    """Write one input to standard output."""
    kind, *options = sys.argv[1:]
    values = dict(option.split("=", 1) for option in options)
    numbers = {name: float(value) if "." in value else int(value) for name, value in values.items()}
    for piece in KINDS[kind](**numbers):
        sys.stdout.buffer.write(piece)


if __name__ == "__main__":
    main()
