"""The programs of the sweeps for ``react``: parallel regions of own workloads with three numbers of threads.

The paper (Sánchez Barrera et al., ICS 2020) has 57 regions of NAS, Rodinia, LULESH and CLOMP. Here they are the regions
with the work of the programs of ``workloads/``, in two sizes if the program's data can be scaled. Several sizes and
modes of a program are several regions, and one program: whoever splits them for a test keeps them together.

Windows are whole executions of a region, so they cover the data of the program. The larger size is limited by the time
of the simulation: an access to a new line takes 0.3 to 0.6 us, in each of 600 executions. Programs that access little
besides new lines are larger than a last-level cache (20 MiB on ``e5-4650x4``, 33 MiB on ``platinum-8168x2``); programs
with much work on their data are smaller.

On all nodes of a machine even the larger size fits the caches: two nodes of ``gold-6142x2`` have 76 MiB. Real programs
rarely fit there. So some regions have a third size, beyond all caches of machines of two packages, which only sampled
simulation can afford. Programs with accesses at random have none: the state of caches before each sampled piece takes
so long that one of them, in 480 configurations, is an hour of processor time.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinfold.evaluation.workloads import Workload


@dataclass(frozen=True)
class Scaled:
    """A region whose data has two sizes.

    Attributes
    ----------
    program, region : str, int
        The workload, and its region with the work.
    small, large : str
        The sizes.
    mode : str
        The workload's mode; may be empty.
    iterations : int
        The number of iterations that covers the data of the larger size; the smaller has one.
    vast : str or None
        A size beyond all caches of machines of two packages.
    """

    program: str
    region: int
    small: str
    large: str
    mode: str = ""
    iterations: int = 1
    vast: str | None = None

    def workloads(self) -> list[Workload]:
        """Return it with the two sizes that fit caches."""
        return [self._sized(self.small, 1), self._sized(self.large, self.iterations)]

    def beyond_caches(self) -> list[Workload]:
        """Return it with the size beyond all caches, if it has one."""
        return [] if self.vast is None else [self._sized(self.vast, 1)]

    def _sized(self, size: str, iterations: int) -> Workload:
        mode = f"--mode {self.mode} " if self.mode else ""
        return Workload(self.program, self.region, f"{mode}--size {size} --iterations {iterations}")


SCALED = (
    Scaled("adi", 1, "2M", "32M", vast="128M"),
    Scaled("bfs", 1, "1M", "16M"),
    Scaled("cg", 1, "2M", "32M"),
    Scaled("fft", 1, "512k", "4M"),
    Scaled("graph_chase", 1, "1M", "24M", "read"),
    Scaled("graph_chase", 1, "1M", "24M", "update"),
    Scaled("gups", 1, "2M", "32M"),
    Scaled("hash_join", 2, "1M", "8M"),
    Scaled("histogram", 1, "2M", "48M", "private", vast="256M"),
    Scaled("kmeans", 1, "512k", "4M"),
    Scaled("lattice", 1, "2M", "48M", vast="256M"),
    Scaled("membench", 1, "8M", "48M", "row", vast="256M"),
    Scaled("membench", 1, "8M", "48M", "line", vast="256M"),
    Scaled("multigrid", 2, "512k", "9M"),
    Scaled("radix_sort", 1, "2M", "24M"),
    Scaled("random_access", 1, "4M", "32M", "independent", 2),
    Scaled("random_access", 1, "4M", "32M", "dependent", 2),
    Scaled("ring", 1, "2M", "48M", vast="256M"),
    Scaled("sort", 1, "512k", "2M"),
    Scaled("spmv", 1, "2M", "48M"),
    Scaled("stencil", 1, "2M", "48M", vast="256M"),
    Scaled("stream", 1, "3M", "48M", vast="256M"),
    Scaled("transpose", 1, "2M", "48M", vast="256M"),
    Scaled("wavefront", 1, "1M", "32M", vast="128M"),
)

UNSCALED = (
    Workload("barrier", 0, "--size 400 --iterations 2"),
    Workload("compute", 0, "--size 512k --iterations 2"),
    Workload("false_sharing", 0, "--size 32k --iterations 2"),
    Workload("histogram", 1, "--mode shared --size 512k --iterations 2"),
    Workload("hubench", 0, "--size 16k --iterations 2"),
    Workload("imbalance", 0, "--size 512k --iterations 2"),
    Workload("lu", 1, "--size 256k --iterations 2"),
    Workload("lubench", 0, "--mode 100 --size 512k --iterations 2"),
    Workload("lubench", 0, "--mode 1600 --size 512k --iterations 2"),
    Workload("mandelbrot", 0, "--size 32k --iterations 2"),
    Workload("monte_carlo", 0, "--size 512k --iterations 2"),
    Workload("nbody", 1, "--size 32k --iterations 2"),
)
"""Regions whose size is an amount of work, or whose work grows much faster than their data."""

REDUCED = ("random_access", "stream")
"""The programs of the reduced set."""

NOT_SAMPLED = ("hash_join", "lu")
"""Programs whose samples are wrong by more than their intervals say (docs/design/simulation.md)."""


def workloads(quick: bool) -> list[Workload]:
    """Return all regions, or the reduced set: the small regions of some programs."""
    scaled = [workload for one in SCALED for workload in one.workloads()]
    if quick:
        return [one.workloads()[0] for one in SCALED if one.program in REDUCED]
    return [*UNSCALED, *scaled]


def beyond_caches() -> list[Workload]:
    """Return the regions whose data is larger than all caches of machines of two packages."""
    return [workload for one in SCALED for workload in one.beyond_caches()]
