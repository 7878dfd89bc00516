"""The split of the real applications into development and judging, fixed by their names alone.

A third of the applications is for judging only: no parameter, threshold or variant is chosen on it, and nothing is
learned from it. The SHA-256 of the name decides, so that nobody chooses. The list was written before any of the
applications had been recorded. An application that cannot be recorded stays in the list; ``applications/NAME`` has the
reason. A new application is added here, in a separate commit, before it is recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

Part = Literal["development", "judged"]

JUDGED_ONE_IN = 3
"""One name in this number is for judging, on average."""

APPLICATIONS = (
    # Molecular simulation
    *("autodock-vina", "cp2k", "gromacs", "lammps", "openmm", "pyscf", "quantum-espresso"),
    # Engineering
    *("calculix", "gmsh", "ngspice", "openfoam"),
    # Bioinformatics
    *("blast", "bowtie2", "bwa", "cd-hit", "clustalo", "fasttree", "hmmer", "iqtree", "mafft", "megahit", "minimap2"),
    *("raxml", "samtools", "vsearch"),
    # Video and images
    *("ffmpeg", "graphicsmagick", "imagemagick", "libjxl", "libvips", "povray", "svt-av1", "tachyon", "x264", "x265"),
    # Compression
    *("7zip", "lbzip2", "par2", "pbzip2", "pigz", "plzip", "xz", "zstd"),
    # Linear algebra and machine learning
    *("faiss", "fftw", "lightgbm", "networkit", "numpy", "octave", "openblas", "scikit-learn", "xgboost"),
    # Databases and servers
    *("duckdb", "mariadb", "memcached", "postgresql", "redis", "rocksdb", "unbound"),
    # Search and optimisation
    *("cbc", "clasp", "cryptominisat", "stockfish"),
    # Tools of developers and administrators
    *("b3sum", "john", "lld", "mold", "ripgrep"),
    # Earth and sky
    *("cdo", "gdal", "osmium", "psfex", "swarp"),
    # Benchmarks
    *("stress-ng", "sysbench"),
)
"""The names of all applications, which are the values of ``program`` in their data sets."""


def part(name: str) -> Part:
    """Return the part of an application: judged if the SHA-256 of its name, as a number, is a multiple of three."""
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big")
    return "judged" if digest % JUDGED_ONE_IN == 0 else "development"


def judged(names: Iterable[str]) -> list[str]:
    """Return the names of applications for judging, sorted."""
    return sorted({name for name in names if name in APPLICATIONS and part(name) == "judged"})


def refuse_judged(names: Iterable[str]) -> None:
    """Check that nothing is learned from an application for judging.

    Raises:
        ValueError: if there is one; it names all of them.
    """
    if found := judged(names):
        raise ValueError(
            f"the data set has rows of {', '.join(found)}: these applications are for judging only "
            "(pinfold.split), so nothing is learned from them; leave their rows out"
        )
