"""What policies are judged on: recordings with the sweep that has their oracle, and the policies learned from others.

- Own workloads: those of :mod:`pinfold.evaluation.hints.sweep`, one recording of each program with 4, 8, 16 and 24
  threads. Each program is judged by policies that were learned from the other programs, with all their sizes.
- Applications: what ``make applications`` has recorded and swept here, by policies that were learned from all own
  workloads. Nothing is learned from them. The folder of a recording has the application's name: its rows here have
  that of the file that was run, which may be an interpreter.

The learned policy of two samples is learned for each number of threads, from programs with this number or the nearest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow.parquet

from pinfold.evaluation.hints.sweep import MACHINE, TRAINING_THREADS, Sweep
from pinfold.evaluation.judged.judging import ONE_SAMPLE, PAIR, TWO_SAMPLES, VERIFIED, Rules, Subject
from pinfold.learn.hints.data_set import DataSet
from pinfold.learn.hints.judging import DISTRIBUTED, without_threads
from pinfold.learn.hints.policy import learn_policy
from pinfold.learn.hints.ripper import Rule
from pinfold.learn.hints.rule_file import rule_policy
from pinfold.learn.hints.two_samples import DEPTHS, learn_two_samples
from pinfold.learn.hints.variants import DEFAULT
from pinfold.learn.trained import Trained
from pinfold.split import Part, part, refuse_judged

FOLDER = Path("target/evaluation/judged")
APPLICATIONS = Path("target/applications/recordings")
APPLICATION_THREADS = 8
"""Of the recordings of applications that are judged whole, or beside each other."""
NO_APPLICATIONS = "Real applications were not run: `make applications` records them."
COLUMNS = (
    *("machine", "program", "command", "region", "page_map", "prefetch", "num_threads", "pinning", "time_s"),
    *("window_covers", "footprint_bytes", "llc_bytes"),
)


def of_sweeps(sweeps: Sequence[Sweep]) -> list[Subject]:
    """Return a subject for each program and number of threads: the first of its workloads whose window covers it."""
    found: dict[tuple[str, int], Subject] = {}
    for one in sweeps:
        key = one.workload.program, one.threads
        if key not in found and (subject := of_sweep(one.data, one.recording, MACHINE)):
            found[key] = subject
    return list(found.values())


def applications(folder: Path = APPLICATIONS) -> dict[str, Path]:
    """Return a recording of each application for judging: the first one with :data:`APPLICATION_THREADS` threads.

    They are in the order of their names. Without recordings there are none.
    """
    found: dict[str, Path] = {}
    for file in sorted(folder.glob(f"*/*-{APPLICATION_THREADS}-*.pft")):
        if part(file.parent.name) == "judged":
            found.setdefault(file.parent.name, file)
    return found


def of_applications(machine: str = MACHINE) -> dict[Part, list[Subject]]:
    """Return the subjects of the applications recorded here, on a machine, by their part of the split."""
    found: dict[Part, list[Subject]] = {"development": [], "judged": []}
    for recording in sorted(APPLICATIONS.glob("*/*.pft")):
        data = recording.with_suffix(".parquet")
        if data.exists() and (subject := of_sweep(data, recording, machine)):
            name = recording.parent.name
            found[part(name)].append(replace(subject, program=name, label=f"{name} {recording.stem}"))
    return found


def of_sweep(data: Path, recording: Path, machine: str) -> Subject | None:
    """Return the subject of a recording and its sweep; None if the window does not cover the program."""
    rows = pyarrow.parquet.read_table(data, columns=list(COLUMNS)).to_pylist()
    whole = [
        row
        for row in rows
        if (row["region"], row["page_map"], row["prefetch"], row["machine"]) == (None, "first_touch", "0000", machine)
        and row["window_covers"] is not False
    ]
    if not whole:
        return None
    fastest = min(whole, key=lambda row: (row["time_s"], row["pinning"]))
    return Subject(
        program=fastest["program"],
        label=" ".join([fastest["program"], *without_threads(fastest["command"])]),
        machine=fastest["machine"],
        threads=fastest["num_threads"],
        recording=recording,
        oracle=fastest["pinning"],
        seconds=fastest["time_s"],
        footprint_over_caches=_ratio(fastest["footprint_bytes"], fastest["llc_bytes"]),
    )


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


class Learned:
    """The learned policies for each program, from a data set of other programs."""

    def __init__(self, data: DataSet) -> None:
        """Store the data set of own workloads.

        Raises:
            ValueError: if it has an application for judging.
        """
        refuse_judged(case.program.name for case in data.cases)
        self._data = data.seen(DEFAULT.view)
        self._learned = cache(self._learn)

    def rules(self, subject: Subject) -> Mapping[str, Rules]:
        """Return the policies for a subject, by name."""
        return self._learned(subject.program, subject.threads)

    def _learn(self, program: str, threads: int) -> Mapping[str, Rules]:
        cases = [case for case in self._data.cases if case.program.name != program]
        training = [case for case in cases if case.program.threads == TRAINING_THREADS]
        default = learn_policy(training, self._data.machines.best_matches, DEFAULT)
        # An application may have another number of threads than any workload.
        nearest = min({case.program.threads for case in cases}, key=lambda number: (abs(number - threads), number))
        alike = [case for case in cases if case.program.threads == nearest]
        programs = sorted({case.program.name for case in cases})
        one = Rules(self._write(default.rules, programs, DEFAULT.text()), DISTRIBUTED)

        def of_depths(depths: Sequence[int]) -> Rules:
            two = learn_two_samples(alike, depths)
            return Rules(self._write(two.rules, programs, two.text()), two.first)

        return {ONE_SAMPLE: one, VERIFIED: one, PAIR: of_depths((0,)), TWO_SAMPLES: of_depths(DEPTHS)}

    def _write(self, rules: Sequence[Rule], programs: Sequence[str], learner: str) -> Path:
        machines = sorted({case.program.machine for case in self._data.cases})
        trained = Trained(self._data.simulated, machines, programs, len(self._data.cases), learner)
        text = rule_policy(rules, self._data.metrics, trained)
        FOLDER.mkdir(parents=True, exist_ok=True)
        file = FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        file.write_text(text, encoding="utf-8")
        return file
