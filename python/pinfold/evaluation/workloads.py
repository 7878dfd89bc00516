"""The programs of ``workloads/`` that sections run, with their arguments, and the build that runs them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pinfold.evaluation.section import PINFOLD


@dataclass(frozen=True)
class Workload:
    """A program of ``workloads/`` with its arguments.

    Attributes
    ----------
    program : str
        Its name.
    region : int, optional
        The parallel region with its work, in the order in which regions begin; None records the whole program.
    arguments : str
        Its arguments.
    quick : bool
        Whether it is in the reduced set.
    """

    program: str
    region: int | None
    arguments: str
    quick: bool = False

    @property
    def name(self) -> str:
        """The base of its files' names."""
        return "_".join([self.program, *self.arguments.replace("--", "").split()])

    def command(self, threads: int) -> list[str]:
        """Return the command line."""
        return [f"target/workloads/{self.program}", "--threads", str(threads), *self.arguments.split()]


# Sizes are inside, near and beyond the Opteron's caches: 512 KiB per core, and 5 MiB for the six cores of a domain.
# Eight packed threads have two such domains, and distributed ones eight. A window has some hundred thousand to a few
# million accesses.
WORKLOADS = (
    Workload("barrier", 0, "--size 400 --iterations 2", quick=True),
    Workload("bfs", 1, "--size 512k --iterations 2", quick=True),
    Workload("bfs", 1, "--size 8M --iterations 1"),
    Workload("compute", 0, "--size 512k --iterations 2", quick=True),
    Workload("false_sharing", 0, "--size 32k --iterations 2", quick=True),
    Workload("fft", 1, "--size 2M --iterations 1", quick=True),
    Workload("fft", 1, "--size 8M --iterations 1"),
    Workload("graph_chase", 1, "--mode read --size 16M --iterations 1"),
    Workload("graph_chase", 1, "--mode update --size 1M --iterations 1", quick=True),
    Workload("graph_chase", 1, "--mode update --size 16M --iterations 1"),
    Workload("hash_join", 2, "--size 1M --iterations 2", quick=True),
    Workload("hash_join", 2, "--size 4M --iterations 1"),
    Workload("histogram", 1, "--mode private --size 2M --iterations 2"),
    Workload("histogram", 1, "--mode private --size 16M --iterations 1"),
    Workload("histogram", 1, "--mode shared --size 512k --iterations 2", quick=True),
    Workload("hubench", 0, "--size 16k --iterations 2", quick=True),
    Workload("imbalance", 0, "--size 512k --iterations 2"),
    Workload("kmeans", 1, "--size 2M --iterations 1", quick=True),
    Workload("lu", 1, "--size 256k --iterations 2"),
    Workload("lubench", 0, "--mode 100 --size 512k --iterations 2", quick=True),
    Workload("lubench", 0, "--mode 1600 --size 512k --iterations 2"),
    Workload("mandelbrot", 0, "--size 32k --iterations 2"),
    Workload("membench", 1, "--mode row --size 64M --iterations 1"),
    Workload("membench", 1, "--mode line --size 16M --iterations 1", quick=True),
    Workload("monte_carlo", 0, "--size 512k --iterations 2", quick=True),
    Workload("multigrid", 2, "--size 512k --iterations 4", quick=True),
    Workload("multigrid", 2, "--size 9M --iterations 1"),
    Workload("nbody", 1, "--size 32k --iterations 2"),
    Workload("pairs", None, "--size 64k --iterations 64", quick=True),
    Workload("pipeline", None, "--size 64k --iterations 20", quick=True),
    Workload("pipeline", None, "--size 256k --iterations 8"),
    Workload("random_access", 1, "--mode dependent --size 2M --iterations 1", quick=True),
    Workload("random_access", 1, "--mode independent --size 32M --iterations 1"),
    Workload("random_access", 1, "--mode dependent --size 64M --iterations 1"),
    Workload("sort", 1, "--size 1M --iterations 1"),
    Workload("sort", 1, "--size 4M --iterations 1"),
    Workload("spmv", 1, "--size 2M --iterations 2", quick=True),
    Workload("spmv", 1, "--size 12M --iterations 1"),
    Workload("spmv", 1, "--size 32M --iterations 1"),
    Workload("stencil", 1, "--size 2M --iterations 2", quick=True),
    Workload("stencil", 1, "--size 16M --iterations 1"),
    Workload("stencil", 1, "--size 48M --iterations 1"),
    Workload("stream", 1, "--size 3M --iterations 2", quick=True),
    Workload("stream", 1, "--size 16M --iterations 1", quick=True),
    Workload("stream", 1, "--size 64M --iterations 1"),
)


def build() -> str:
    """Name the build of pinfold: another build may give other results."""
    return hashlib.sha256(PINFOLD.read_bytes()).hexdigest()[:12]
