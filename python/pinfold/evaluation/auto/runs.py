"""Runs of the default policy on simulated machines, beside its parts, unpinned threads and the best static placement.

A *subject* is a recorded workload or real application on a machine. All policies repeat it as often as the best static
placement does in the judged time. The oracle is the least time of all static placements: the named ones, with pages
where the first thread touches them and interleaved, and each placement that some policy has chosen. It is fixed from
the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from pinfold.evaluation.classify.programs import Machine, Own, own
from pinfold.evaluation.classify.sweep import PAPER_MACHINES
from pinfold.evaluation.finished import Run, finished, finished_twice
from pinfold.evaluation.judged.judging import BASELINE, MEASURE_BOTH, NOISE
from pinfold.evaluation.judged.subjects import APPLICATION_THREADS, applications
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.section import PINFOLD, output
from pinfold.evaluation.workloads import Workload

UNKNOWN = ("e5-4650x4", "e5-2660v2x2")
"""Machines that are in no training set of a shipped model."""
MACHINES = (*PAPER_MACHINES, *UNKNOWN)
"""The first ones have rows in the training set of the shipped model."""
QUICK_MACHINES = PAPER_MACHINES[:1]

FULL = ("gups", "transpose", "lattice")
"""Judged programs with a thread for each core, beyond the caches: the first thread has touched all pages, or, of the
last one, each thread its own."""
HALF = ("imbalance", "mandelbrot", "nbody", "pipeline")
"""Judged programs with threads for half of the cores. The policy was developed with others, on the first machine:
``barrier``, ``cg``, ``compute``, ``false_sharing``, ``kmeans``, ``monte_carlo``, ``pairs``, ``random_access``,
``spmv``, ``stencil`` and ``stream``. These were chosen before any of them had run under it."""
QUICK = ("imbalance", "lattice")

FOLDER = Path("target/evaluation/auto")
SIMULATIONS = Path("target/evaluation/simulations")
"""Simulated configurations: policies try the same ones."""

STATIC = ("packed", "distributed", "close", "spread", "compact", "scatter")
PAGES = ("first_touch", "interleave")

UNPINNED, AUTO = "unpinned", "auto"
PARTS = ("autopin", "hints", "classify", "sam")
"""The policies that ``auto`` joins, and that place whole programs."""

WORDS: Mapping[str, Sequence[str]] = {UNPINNED: ("--policy", "none"), BASELINE: MEASURE_BOTH}
"""Policies whose name in tables differs from ``--policy``: their options of ``pinfold run``."""

TIMES = (10, 60, 600, 3600)
"""The judged times in virtual seconds."""

PROBES = {10: "500ms", 60: "3s", 600: "30s", 3600: "3m"}
"""The probes of the parts, a twentieth of the judged time."""
PROBING = ("autopin", BASELINE)
"""Those that have probes. ``hints`` and ``classify`` have windows as ``auto`` has them."""

SOURCES = ("model", "counts", "topology", "neighbours", "pages")
"""The sources of proposals, as ``--do-not-ask`` names them. Rules are not used here."""

BELIEF = "belief"
"""What plans the trials of all proposals."""

COUNTED = ("model", "counts")
"""Those that need hardware counters."""

DATA = Path("models/data/classify.parquet")
FOR_MODEL = FOLDER / "model.json"

TRIED = 20
"""The repetitions that show how long one takes."""


@dataclass(frozen=True)
class Subject:
    """A program on a machine.

    Attributes
    ----------
    machine : str
        The simulated machine.
    program : str
        The name of the workload or application.
    arguments : str
        Those of a workload, in its size for this machine; of an application the name of its recording.
    threads : int
        The number of threads.
    source : Workload or Path
        What is recorded, or the recording of an application.
    """

    machine: str
    program: str
    arguments: str
    threads: int
    source: Workload | Path

    @classmethod
    def of_workload(cls, machine: str, workload: Workload, threads: int) -> Subject:
        """Return a workload on a machine."""
        return cls(machine, workload.program, workload.arguments, threads, workload)

    @property
    def is_real(self) -> bool:
        """Whether it is a real application."""
        return isinstance(self.source, Path)

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.program} {self.arguments}, {self.threads} threads"

    @property
    def recording(self) -> Path:
        """The recording, which is made if it is missing."""
        if isinstance(self.source, Path):
            return self.source
        own = Own(self.source)
        file = FOLDER / f"{own.name}-{self.threads}.pft"
        return made_once(file, lambda unfinished: own.record(self.threads, unfinished))


def subjects(machine: str, quick: bool) -> list[Subject]:
    """Return the judged subjects on a machine: own programs, and the applications that are recorded here."""
    cores = Machine.of(machine).cores
    sizes: dict[str, list[Workload]] = {}
    for program in own(machine, False):
        if isinstance(program, Own):
            sizes.setdefault(program.workload.program, []).append(program.workload)
    workloads = [(sizes[name][0], cores // 2) for name in HALF]
    workloads += [(sizes[name][-2 if name == FULL[-1] else -1], cores) for name in FULL]
    found = [Subject.of_workload(machine, *one) for one in workloads]
    if quick:
        return [one for one in found if one.program in QUICK]
    return found + [
        Subject(machine, name, recording.stem.replace(f"-{APPLICATION_THREADS}-", " "), APPLICATION_THREADS, recording)
        for name, recording in applications().items()
    ]


def model_without_judged() -> Path:
    """Train the placement model without the judged programs; once for a data set."""

    def train(unfinished: Path) -> None:
        rows = pyarrow.parquet.read_table(DATA)
        judged = pyarrow.compute.is_in(rows["program"], pyarrow.array([*FULL, *HALF]))
        data = unfinished.with_suffix(".parquet")
        pyarrow.parquet.write_table(rows.filter(pyarrow.compute.invert(judged)), data)
        output([str(PINFOLD), "learn", "train", "classify", "--quiet", "--data", str(data), "-o", str(unfinished)])
        data.unlink()

    return made_once(FOR_MODEL, train)


def words_of(policy: str) -> list[str]:
    """Return the options of ``pinfold run`` for a policy."""
    return list(WORDS.get(policy, ("--policy", policy)))


@dataclass(frozen=True)
class Static:
    """A placement that is fixed from the start."""

    placement: str
    pages: str

    @property
    def words(self) -> list[str]:
        """The options of ``pinfold run``."""
        if self.placement in (*STATIC, UNPINNED):
            policy = words_of(self.placement)
        else:
            policy = ["--policy", "fixed", "--schedule", self.placement]
        return policy if self.pages == "first_touch" else [*policy, "--page-map", self.pages]

    def __str__(self) -> str:
        """Return its name."""
        return f"{self.placement} {self.pages}"


NAMED = [Static(placement, pages) for placement in STATIC for pages in PAGES]
SYSTEM = Static(UNPINNED, "first_touch")
SYSTEM_INTERLEAVED = Static(UNPINNED, "interleave")

LONGEST_INTERLEAVED = 600
"""The longest judged time in virtual seconds with unpinned threads and interleaved pages. An hour of them is hundreds
of configurations in detail, two fifths of a subject's, and in shorter times they were at most 0.01 % faster than the
best of the others."""


class Runs:
    """The runs of one subject."""

    def __init__(self, subject: Subject, model: Path) -> None:
        """Store the subject and the placement model of ``auto`` and ``classify``."""
        self.subject = subject
        self._model = model

    @cached_property
    def _tried(self) -> float:
        """The time of ``TRIED`` repetitions in the best of the named static placements."""
        return min(self._run(static.words, TRIED).seconds for static in NAMED)

    def repeat(self, judged: int) -> int:
        """Return how often the best of the named static placements repeats the program in a judged time."""
        return max(1, round(judged * TRIED / self._tried))

    def of_policy(self, policy: str, judged: int) -> Run:
        """Run a policy, with noise in its readings."""
        return self._run(self._noisy(policy, judged), self.repeat(judged))

    def without(self, sources: Sequence[str], judged: int) -> Run:
        """Run ``auto`` without these sources of proposals."""
        return self._run([*self._noisy(AUTO, judged), "--do-not-ask", ",".join(sources)], self.repeat(judged))

    def ignorant(self, judged: int) -> Run:
        """Run ``auto`` with a belief that knows nothing before the first trial."""
        return self._run([*self._noisy(AUTO, judged), "--belief", "none"], self.repeat(judged))

    def known(self, judged: int) -> Run:
        """Run ``auto`` a second time, with the database of the first run."""
        words = self._words(self._noisy(AUTO, judged), self.repeat(judged))
        return finished_twice(words, [self.subject.recording], [self._model])

    def oracle(self, judged: int, chosen: Sequence[str | None]) -> tuple[float, str]:
        """Return the time of the best static placement, and its name. ``chosen`` are what policies chose."""
        repeat = self.repeat(judged)
        others = [Static(one, pages) for one in dict.fromkeys(chosen) if one for pages in PAGES]
        statics = dict.fromkeys([*NAMED, SYSTEM, *others])
        if judged > LONGEST_INTERLEAVED:
            statics.pop(SYSTEM_INTERLEAVED, None)
        return min((self._run(static.words, repeat).seconds, str(static)) for static in statics)

    def _noisy(self, policy: str, judged: int) -> list[str]:
        model = ["--placement-model", str(self._model)] if policy in (AUTO, "classify") else []
        probe = ["-t", PROBES[judged]] if policy in PROBING else []
        return [*words_of(policy), *model, *probe, "--noise", NOISE]

    def _run(self, words: Sequence[str], repeat: int) -> Run:
        return finished(self._words(words, repeat), [self.subject.recording], [self._model])

    def _words(self, words: Sequence[str], repeat: int) -> list[str]:
        threads = [] if "fixed" in words else ["--threads", str(self.subject.threads)]
        simulations = ["--simulations", str(SIMULATIONS)]
        return ["--machine", self.subject.machine, *words, *threads, *simulations, "--repeat", str(repeat)]
