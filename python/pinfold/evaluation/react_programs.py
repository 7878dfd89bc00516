"""What is swept for ``react``: parallel regions of own workloads, with three numbers of threads on each machine.

The paper (Sánchez Barrera et al., ICS 2020) has 57 regions of NAS, Rodinia, LULESH and CLOMP. Here they are the regions
with the work of the programs of ``workloads/``, each program with data inside one last-level cache and, where the
program is bound by memory, beyond all of them. Several sizes and modes of a program are several regions, and one
program: whoever splits them for a test keeps them together.

Windows are whole executions of a region, so that they cover what the program uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinfold.evaluation.affinity_sweep import Workload

#: Few last-level caches of the machines hold this: 20 MiB on ``e5-4650x4``, 33 MiB on ``platinum-8168x2``.
INSIDE = "2M"


@dataclass(frozen=True)
class Scaled:
    """A region whose data has two sizes.

    Attributes
    ----------
    program, region : str, int
        The workload, and its region with the work.
    inside, beyond : str
        The sizes. Programs of which all threads use all data are beyond a cache of which each node has one; those of
        which each thread has its own part are beyond all of them together.
    mode : str
        The workload's mode; may be empty.
    iterations : int
        The number with which the window covers the data.
    """

    program: str
    region: int
    inside: str
    beyond: str
    mode: str = ""
    iterations: int = 1

    def workloads(self) -> list[Workload]:
        """Return it with both sizes."""
        mode = f"--mode {self.mode} " if self.mode else ""
        return [
            Workload(self.program, self.region, f"{mode}--size {size} --iterations {self.iterations}")
            for size in (self.inside, self.beyond)
        ]


SCALED = (
    Scaled("adi", 1, INSIDE, "32M"),
    Scaled("bfs", 1, "1M", "16M"),
    Scaled("cg", 1, INSIDE, "32M"),
    Scaled("fft", 1, INSIDE, "16M"),
    Scaled("graph_chase", 1, "1M", "32M", "read", 4),
    Scaled("graph_chase", 1, "1M", "32M", "update", 4),
    Scaled("gups", 1, INSIDE, "64M"),
    Scaled("hash_join", 2, "1M", "32M"),
    Scaled("histogram", 1, INSIDE, "64M", "private"),
    Scaled("kmeans", 1, "1M", "16M"),
    Scaled("lattice", 1, INSIDE, "64M"),
    Scaled("membench", 1, "8M", "256M", "row"),
    Scaled("membench", 1, "8M", "256M", "line"),
    Scaled("multigrid", 2, "512k", "9M"),
    Scaled("radix_sort", 1, INSIDE, "32M"),
    Scaled("random_access", 1, "4M", "64M", "independent", 4),
    Scaled("random_access", 1, "4M", "64M", "dependent", 4),
    Scaled("ring", 1, INSIDE, "64M"),
    Scaled("sort", 1, "1M", "4M"),
    Scaled("spmv", 1, INSIDE, "48M"),
    Scaled("stencil", 1, INSIDE, "96M"),
    Scaled("stream", 1, "3M", "96M"),
    Scaled("transpose", 1, INSIDE, "64M"),
    Scaled("wavefront", 1, "1M", "32M"),
)

#: Regions whose size is an amount of work, or whose work grows much faster than their data.
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

#: The programs of the reduced set.
REDUCED = ("random_access", "stream")


def workloads(quick: bool) -> list[Workload]:
    """Return all regions, or those of the reduced set: the small ones of some programs."""
    scaled = [workload for one in SCALED for workload in one.workloads()]
    if quick:
        return [one.workloads()[0] for one in SCALED if one.program in REDUCED]
    return [*UNSCALED, *scaled]
