"""Runs of the default policy on simulated machines, beside its parts, unpinned threads and the best static placement.

A *subject* is a recorded workload on a machine. All policies repeat it as often as the best static placement does in
the judged time. The oracle is the least time of all static placements: the named ones, with pages where the first
thread touches them and interleaved, and each placement that some policy has chosen. It is fixed from the start.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pinfold.evaluation.affinity_sweep import Workload
from pinfold.evaluation.finished import Run, finished, finished_twice
from pinfold.evaluation.judged import NOISE
from pinfold.evaluation.made_once import made_once
from pinfold.evaluation.placement_programs import Machine, Own, own

TRAINED = ("e5-2680v3x2", "e5-2650lv4x2", "gold-6140x2")
"""Machines with rows in the training set of the shipped model."""
UNKNOWN = ("e5-4650x4", "opteron-6164x4")
"""Machines that are in no training set of a shipped model."""
MACHINES = (*TRAINED, *UNKNOWN)

FOLDER = Path("target/evaluation/auto")

STATIC = ("packed", "distributed", "close", "spread", "compact", "scatter")
PAGES = ("first_touch", "interleave")

UNPINNED, AUTO = "unpinned", "auto"
PARTS = ("autopin", "classify", "sam")
"""The policies that ``auto`` joins, and that need nothing but the program. No rules for ``hints`` are shipped."""

POLICY = {UNPINNED: "none"}
"""Policies whose name in tables is not that of ``--policy``."""

TIMES = (10, 60, 600)
"""The judged times in virtual seconds."""

TRIED = 20
"""The repetitions that show how long one takes."""


@dataclass(frozen=True)
class Subject:
    """A workload on a machine.

    Attributes
    ----------
    machine : str
        The simulated machine.
    workload : Workload
        The workload, in its size for this machine.
    threads : int
        The number of threads.
    """

    machine: str
    workload: Workload
    threads: int

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.workload.program} {self.workload.arguments}, {self.threads} threads"

    @property
    def recording(self) -> Path:
        """The recording, which is made if it is missing."""
        own = Own(self.workload)
        file = FOLDER / f"{own.name}-{self.threads}.pft"
        return made_once(file, lambda unfinished: own.record(self.threads, unfinished))


def subjects(machine: str, programs: Sequence[str]) -> list[Subject]:
    """Return subjects with a thread for each core, and with half as many.

    Of a program's sizes that is the last: beyond the caches, with pages that the first thread has touched.
    """
    cores = Machine.of(machine).cores
    of_program = {program.workload.program: program.workload for program in own(machine, False)}
    return [Subject(machine, of_program[name], threads) for name in programs for threads in (cores // 2, cores)]


@dataclass(frozen=True)
class Static:
    """A placement that is fixed from the start."""

    placement: str
    pages: str

    @property
    def words(self) -> list[str]:
        """The options of ``pinfold run``."""
        if self.placement in STATIC:
            policy = ["--policy", self.placement]
        elif self.placement == UNPINNED:
            policy = ["--policy", "none"]
        else:
            policy = ["--policy", "fixed", "--schedule", self.placement]
        return policy if self.pages == "first_touch" else [*policy, "--page-map", self.pages]

    def __str__(self) -> str:
        """Return its name."""
        return f"{self.placement} {self.pages}"


NAMED = [Static(placement, pages) for placement in STATIC for pages in PAGES]
SYSTEM = Static(UNPINNED, "first_touch")


class Runs:
    """The runs of one subject."""

    def __init__(self, subject: Subject) -> None:
        """Store the subject."""
        self.subject = subject

    @cache  # noqa: B019
    def seconds(self, static: Static, repeat: int = TRIED) -> float:
        """Return the time of a static placement."""
        return self._run(static.words, repeat).seconds

    def repeat(self, judged: int) -> int:
        """Return how often the best of the named static placements repeats the program in a judged time."""
        best = min(self.seconds(static) for static in NAMED)
        return max(1, round(judged * TRIED / best))

    def of_policy(self, policy: str, judged: int) -> Run:
        """Run a policy, with noise in what it reads."""
        return self._run(self._noisy(policy), self.repeat(judged))

    def known(self, judged: int) -> Run:
        """Run ``auto`` a second time, with the database of the first run."""
        words = self._words(self._noisy(AUTO), self.repeat(judged))
        return finished_twice(words, [self.subject.recording])

    def oracle(self, judged: int, chosen: Sequence[str | None]) -> tuple[float, str]:
        """Return the time of the best static placement, and its name. ``chosen`` are what policies chose."""
        repeat = self.repeat(judged)
        others = [Static(one, "first_touch") for one in dict.fromkeys(chosen) if one]
        return min((self.seconds(static, repeat), str(static)) for static in dict.fromkeys([*NAMED, *others]))

    @staticmethod
    def _noisy(policy: str) -> list[str]:
        return ["--policy", POLICY.get(policy, policy), "--noise", NOISE]

    def _run(self, words: Sequence[str], repeat: int) -> Run:
        return finished(self._words(words, repeat), [self.subject.recording])

    def _words(self, words: Sequence[str], repeat: int) -> list[str]:
        threads = ["--threads", str(self.subject.threads)] if "fixed" not in words else []
        return ["--machine", self.subject.machine, *words, *threads, "--repeat", str(repeat)]
