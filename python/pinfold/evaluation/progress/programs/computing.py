"""Programs that compute: a solver with MPI, matrices in Python, a benchmark, a build."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pinfold.evaluation.progress.figures import Figure, Made, Shared, Written
from pinfold.evaluation.progress.program import SOURCES, Program, path_of
from pinfold.evaluation.progress.quota import Group

ENDLESS = 1 << 40
SOURCE_FILES = 4000
FUNCTIONS = 5


class Solver(Program):
    """A stencil in two processes, which exchange their borders by MPI in each step."""

    kind = "MPI solver"
    figure_is = "time steps, in shared memory"

    def __init__(self, name: str, suffix: str) -> None:
        """Name it, and its MPI by the suffix of its commands."""
        self.name = name
        self._compiler, self._starter = f"mpicc.{suffix}", f"mpirun.{suffix}"
        self._is_open_mpi = suffix == "openmpi"
        self.needs = (self._compiler, self._starter)

    def prepare(self, folder: Path) -> None:
        """Compile it."""
        words = [path_of(self._compiler), "-O2", "-o", str(folder / "stencil"), str(SOURCES / "stencil.c")]
        subprocess.run(words, check=True)

    def clear(self, folder: Path) -> None:
        """Remove the steps of an earlier run."""
        (folder / "steps").unlink(missing_ok=True)

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        # Open MPI would pin both processes.
        options = ["--oversubscribe", "--bind-to", "none"] if self._is_open_mpi else []
        steps = ENDLESS if amount is None else amount
        words = [str(folder / "stencil"), str(steps), str(folder / "steps")]
        return [path_of(self._starter), *options, "-n", "2", *words]

    def environment(self) -> Mapping[str, str]:
        """Return what lets Open MPI start as root."""
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if self._is_open_mpi else {}

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of steps."""
        del group
        return Shared(folder / "steps")


class Product(Program):
    """Products of matrices with NumPy."""

    name = "NumPy product"
    kind = "numerical Python"
    figure_is = "products, in shared memory"

    def clear(self, folder: Path) -> None:
        """Remove the count of an earlier run."""
        (folder / "products").unlink(missing_ok=True)

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        products = ENDLESS if amount is None else amount
        return [sys.executable, str(SOURCES / "product.py"), str(products), str(folder / "products")]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of products."""
        del group
        return Shared(folder / "products")


class Primes(Program):
    """Sysbench's test of the processor."""

    name = "sysbench cpu"
    kind = "benchmark"
    figure_is = "events, as it prints them each second"
    needs = ("sysbench",)

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        del folder
        limit = ["--time=0", f"--events={amount}"] if amount is not None else ["--time=600", "--report-interval=1"]
        return [path_of("sysbench"), "cpu", "--threads=2", *limit, "run"]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of events."""
        del group

        def events(line: str) -> float:
            # `[ 3s ] thds: 2 eps: 812.31 lat (ms,95%): 2.52`
            words = line.split()
            return float(words[words.index("eps:") + 1]) if "eps:" in words else 0.0

        return Written(folder, "output", events)


class Build(Program):
    """Make, which compiles many small files of C, two at a time."""

    name = "make -j2"
    kind = "build"
    figure_is = "object files"
    needs = ("make", "gcc")

    def prepare(self, folder: Path) -> None:
        """Write the sources."""
        for number in range(SOURCE_FILES):
            (folder / f"part{number}.c").write_text(_source(number))
        (folder / "Makefile").write_text(
            "PARTS := $(addsuffix .o,$(addprefix part,$(shell seq 1 $(AMOUNT))))\n"
            "all: $(PARTS)\n"
            "%.o: %.c\n\tgcc -O1 -c -o $@ $<\n"
        )

    def clear(self, folder: Path) -> None:
        """Remove the object files of an earlier run."""
        for file in folder.glob("*.o"):
            file.unlink()

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        parts = SOURCE_FILES - 1 if amount is None else min(amount, SOURCE_FILES - 1)
        return [path_of("make"), "-s", "-j2", "-C", str(folder), f"AMOUNT={parts}"]

    def environment(self) -> Mapping[str, str]:
        """Return what keeps the job server of a make around this one out."""
        return {"MAKEFLAGS": "", "MAKELEVEL": ""} if "MAKEFLAGS" in os.environ else {}

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of object files."""
        del group
        return Made(folder, ".o")


def _source(number: int) -> str:
    functions = (
        f"int f{number}_{index}(const char *text) {{ int sum = {index}; while (*text) sum = sum * 31 + *text++; "
        f'if (sum % 7 == 3) printf("%d %s\\n", sum, text); return sum; }}\n'
        for index in range(FUNCTIONS)
    )
    return "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + "".join(functions)


COMPUTING: tuple[Program, ...] = (
    Solver("stencil, Open MPI", "openmpi"),
    Solver("stencil, MPICH", "mpich"),
    Product(),
    Primes(),
    Build(),
)
