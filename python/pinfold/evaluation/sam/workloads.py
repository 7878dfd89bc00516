"""The workloads in place of the programs of SAM's evaluation, and the 26 mixes of its table 2.

A workload represents a program of the paper by its sharing, its demand for memory and its number of tasks. The graph
programs share much; PARSEC's and the filters that the paper calls CPU bound share little; SPEC's have one task each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pinfold.evaluation.sam.runs import recording
from pinfold.evaluation.workloads import Workload

MICROBENCHMARKS = {
    "HuBench": Workload("hubench", 0, "--size 16k --iterations 2", quick=True),
    "LuBench": Workload("lubench", 0, "--mode 1600 --size 2M --iterations 1"),
    "MemBench": Workload("membench", 1, "--mode row --size 128M --iterations 1", quick=True),
}

# The paper's program and the workload that represents it. The comments give the reasons.
PARALLEL = {
    # All tasks walk the graphs, in phases of sharing and of computing.
    "TunkRank": Workload("bfs", 1, "--size 512k --iterations 2", quick=True),
    # Filters that update one model: all tasks write to all of it.
    "SGD": Workload("graph_chase", 1, "--mode update --size 1M --iterations 1", quick=True),
    "BSGD": Workload("histogram", 1, "--mode shared --size 256k --iterations 1"),
    "SVD": Workload("hash_join", 2, "--size 1M --iterations 2"),
    # Sharing between neighbours that varies over time.
    "LSGD": Workload("multigrid", 2, "--size 512k --iterations 8"),
    # Programs that the paper calls CPU bound: some sharing with little effect.
    "ALS": Workload("lu", 1, "--size 128k --iterations 1"),
    "PMF": Workload("kmeans", 1, "--size 1M --iterations 1"),
    "RBM": Workload("nbody", 1, "--size 32k --iterations 1"),
    # PARSEC: small data that all tasks read and write, rarely the same.
    "Canneal": Workload("sort", 1, "--size 1M --iterations 1"),
    "Bodytrack": Workload("fft", 1, "--size 1M --iterations 1"),
}

# Not in the paper: other workloads for which placements differ.
OURS = {
    "barrier": Workload("barrier", 0, "--size 400 --iterations 2"),
    "false_sharing": Workload("false_sharing", 0, "--size 128k --iterations 2"),
    "pipeline": Workload("pipeline", None, "--size 64k --iterations 10"),
    "stencil": Workload("stencil", 1, "--size 2M --iterations 4"),
    "stream": Workload("stream", 1, "--size 64M --iterations 1"),
}

# SPEC CPU2006: one task each, with data larger than all caches of the machine, or without data.
SEQUENTIAL = {
    "libq": Workload("membench", 1, "--mode row --size 64M --iterations 1"),
    "soplex": Workload("spmv", 1, "--size 64M --iterations 1"),
    "mcf": Workload("graph_chase", 1, "--mode read --size 64M --iterations 1"),
    "milc": Workload("stream", 1, "--size 64M --iterations 1"),
    "omnetpp": Workload("random_access", 1, "--mode dependent --size 64M --iterations 1"),
    "bzip2": Workload("compute", 0, "--size 512k --iterations 2"),
    "sjeng": Workload("mandelbrot", 0, "--size 32k --iterations 2"),
    "gobmk": Workload("monte_carlo", 0, "--size 512k --iterations 1"),
    "hmmer": Workload("nbody", 1, "--size 8k --iterations 1"),
    "h264ref": Workload("kmeans", 1, "--size 128k --iterations 1"),
}

CPU = Workload("compute", 0, "--size 2M --iterations 1")
"""The programs that the paper calls CPU in its mixes: tasks that only compute."""

ALL = {**MICROBENCHMARKS, **PARALLEL, **OURS, **SEQUENTIAL, "CPU": CPU}


@dataclass(frozen=True)
class Application:
    """A program of a mix.

    Attributes
    ----------
    name : str
        The paper's program that it represents.
    tasks : int
        The number of its tasks in all processes.
    """

    name: str
    tasks: int

    @property
    def processes(self) -> int:
        """The number of processes: SPEC's programs have one task each."""
        return self.tasks if self.name in SEQUENTIAL else 1

    @property
    def file(self) -> Path:
        """The recording of one process."""
        return recording(ALL[self.name], self.tasks // self.processes)


def mix(text: str) -> list[Application]:
    """Parse a mix as table 2 has it, such as ``12 MemBench, 8 HuBench``."""
    words = (part.split() for part in text.split(","))
    return [Application(name, int(tasks)) for tasks, name in words]


MIXES = {
    1: "12 MemBench, 8 HuBench",
    2: "14 MemBench, 6 HuBench",
    3: "10 MemBench, 6 HuBench, 4 CPU",
    4: "2 libq, 2 bzip2, 2 sjeng, 2 omnetpp",
    5: "2 libq, 2 soplex, 2 gobmk, 2 hmmer",
    6: "2 mcf, 2 milc, 2 sjeng, 2 h264ref",
    7: "2 milc, 2 libq, 2 h264ref, 2 sjeng",
    8: "2 mcf, 2 libq, 2 h264ref, 2 sjeng, 4 TunkRank",
    9: "10 SGD, 10 BSGD",
    10: "10 SGD, 10 LSGD",
    11: "10 LSGD, 10 BSGD",
    12: "10 LSGD, 10 ALS",
    13: "10 SVD, 10 SGD",
    14: "10 SVD, 10 BSGD",
    15: "10 SVD, 10 LSGD",
    16: "10 SVD, 10 LSGD",
    17: "20 SGD, 20 BSGD",
    18: "20 SGD, 20 LSGD",
    19: "20 LSGD, 20 BSGD",
    20: "20 LSGD, 20 ALS",
    21: "20 SVD, 20 SGD",
    22: "20 SVD, 20 BSGD",
    23: "20 SVD, 20 LSGD",
    24: "16 BSGD, 10 MemBench, 14 CPU",
    25: "16 LSGD, 10 MemBench, 14 CPU",
    26: "16 SGD, 10 MemBench, 14 CPU",
}
"""Table 2 of the paper. Numbers 15 and 16 are equal there."""

QUICK_MIXES = (1, 4, 9, 24)
