"""Judges policies by running them: ``pinfold run --policy P --machine M FILE.pft``, with their costs and with noise.

A *subject* is a recording on a machine. Every policy runs it for the same number of repetitions, which the fastest
pinning of a sweep needs about the judged time for. So a policy's share of the oracle is the oracle's virtual time over
its own, whole runs with initialisation, samples, moves of threads and pages, cold caches and the check of the choice.
Readings of a metric have noise of ``NOISE`` percent; the run itself has none.

The oracle is the fastest fixed pinning: of all placements and orders of ranks of the sweep, and of the static policies.
It needs no sample and knows the program, so a policy reaches it only by chance. The probe is a twentieth of the judged
time: 30 s, the default, for ten minutes.

Policies learn from own workloads only, without the judged program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import sched_getaffinity
from pathlib import Path

import numpy as np

from pinfold.evaluation.finished import finished
from pinfold.learn.bootstrap import mean_interval
from pinfold.learn.hints.hint import Hint

NOISE = "6"
"""The noise of readings over a tenth of a second, in percent. Measured: the median of the coefficients of variation of
readings that are 100 ms apart, of workloads on a virtual machine of two processors (``spread`` in
evaluation/live.json). The eight of them with at least 10 counts in a reading, where whole counts add little, have 0.4
to 34 %, in the median 5.9 %.
"""

UNPINNED, PACKED, DISTRIBUTED = "unpinned", "packed", "distributed"
BASELINE = "packed and distributed measured, the faster kept"
MEASURE_BOTH = ("--policy", "autopin", "--schedule", "distributed", "--schedule", "packed")
"""The words of ``BASELINE``."""
ONE_SAMPLE, VERIFIED = "hints, one sample", "hints, verified"
PAIR, TWO_SAMPLES = "hints, the best pair without counters", "hints, two learned samples"
AUTOPIN, SAM, ORACLE = "autopin", "sam", "oracle"

POLICIES = (UNPINNED, PACKED, DISTRIBUTED, BASELINE, ONE_SAMPLE, VERIFIED, PAIR, TWO_SAMPLES, AUTOPIN)
"""In the order of tables. Those before ``BASELINE`` decide nothing. SAM is judged on another machine."""

STATIC = (PACKED, DISTRIBUTED)
SEED = 0
"""Of noise and scheduler."""


@dataclass(frozen=True)
class Time:
    """A judged time.

    Attributes
    ----------
    seconds : int
        The virtual time that the fastest pinning needs about.
    probe : str
        The length of a probe.
    """

    seconds: int
    probe: str


TIMES = (Time(600, "30s"), Time(60, "3s"), Time(10, "500ms"))
"""Of own workloads. Applications, whose recordings are longer, have the first."""


@dataclass(frozen=True)
class Rules:
    """A learned policy: a file of rules, and the hint of its first sample."""

    file: Path
    first: Hint


@dataclass(frozen=True)
class Subject:
    """A recording on a machine, which policies run.

    Attributes
    ----------
    program : str
        Its program: with other arguments it is the same program.
    label : str
        Its name in tables.
    machine : str
        The simulated machine.
    threads : int
        The number of its threads.
    recording : Path
        The recording.
    oracle : str
        The fastest pinning of a sweep, as a CPU list.
    seconds : float
        The time of one repetition under it, with warm caches.
    footprint_over_caches : float or None
        The memory that the program uses over all last-level caches of the machine; None if not known.
    """

    program: str
    label: str
    machine: str
    threads: int
    recording: Path
    oracle: str
    seconds: float
    footprint_over_caches: float | None = None


@dataclass(frozen=True)
class Outcome:
    """A run of a policy.

    Attributes
    ----------
    subject : Subject
        What ran.
    policy : str
        The policy's name.
    time : Time
        The judged time.
    seconds : float
        The virtual time of the whole run.
    oracle : float
        That of the oracle.
    chosen : str or None
        The placement that was kept.
    """

    subject: Subject
    policy: str
    time: Time
    seconds: float
    oracle: float
    chosen: str | None

    @property
    def share(self) -> float:
        """Return the share of the oracle's performance."""
        return self.oracle / self.seconds


def arguments(policy: str, subject: Subject, rules: Mapping[str, Rules]) -> list[str]:
    """Return the arguments of ``pinfold run`` that select a policy for a subject.

    Args:
        policy: one of ``POLICIES``, SAM, or the oracle.
        subject: the recording on its machine.
        rules: the learned policies by name.
    """
    threads = ("--threads", str(subject.threads))
    if policy in rules:
        learned = rules[policy]
        words = ["--policy", "hints:rules", "--rules", str(learned.file), "--observe", str(learned.first)]
        return [*words, *(["--unverified"] if policy == ONE_SAMPLE else [])]
    return {
        UNPINNED: ["--policy", "none"],
        PACKED: ["--policy", "fixed", "--schedule", "packed", *threads],
        DISTRIBUTED: ["--policy", "fixed", "--schedule", "distributed", *threads],
        BASELINE: [*MEASURE_BOTH, *threads],
        AUTOPIN: ["--policy", "autopin"],
        SAM: ["--policy", "sam"],
        ORACLE: ["--policy", "fixed", "--schedule", subject.oracle],
    }[policy]


def judge(
    subjects: Sequence[Subject],
    rules: Callable[[Subject], Mapping[str, Rules]],
    times: Sequence[Time],
    progress: Callable[[str], None],
    policies: Sequence[str] = POLICIES,
) -> list[Outcome]:
    """Run policies on all subjects.

    Args:
        subjects: the recordings on their machines.
        rules: the learned policies by name, for a subject: not learned from its program.
        times: the judged times.
        progress: receives progress messages.
        policies: the policies.

    Returns:
        The outcomes in the order of subjects, times and policies.
    """
    learned = [rules(subject) for subject in subjects]

    def of_subject(number: int) -> list[Outcome]:
        subject = subjects[number]
        progress(f"subject {number + 1} of {len(subjects)}: {subject.label}, {subject.threads} threads")
        return [one for time in times for one in _outcomes(subject, learned[number], time, policies)]

    with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
        return [one for outcomes in pool.map(of_subject, range(len(subjects))) for one in outcomes]


def _outcomes(subject: Subject, rules: Mapping[str, Rules], time: Time, policies: Sequence[str]) -> list[Outcome]:
    repeat = max(1, round(time.seconds / subject.seconds))

    def run(policy: str) -> tuple[float, str | None]:
        words = ["--machine", subject.machine, "--repeat", str(repeat), "--seed", str(SEED), "--noise", NOISE]
        words += ["--probe", time.probe, *arguments(policy, subject, rules)]
        done = finished(words, [subject.recording], [one.file for one in rules.values()])
        return done.seconds, done.chosen

    fixed = {policy: run(policy) for policy in (*STATIC, ORACLE)}
    oracle = min(seconds for seconds, _ in fixed.values())
    ran = {policy: fixed[policy] if policy in STATIC else run(policy) for policy in policies}
    return [Outcome(subject, policy, time, seconds, oracle, chosen) for policy, (seconds, chosen) in ran.items()]


@dataclass(frozen=True)
class Share:
    """The share of the oracle's performance that a policy reaches.

    Attributes
    ----------
    mean : float
        Geometric mean.
    worst : float
        The least share of a subject.
    low, high : float
        The 95 % interval of the mean when the programs are drawn anew.
    subjects : int
        The number of subjects.
    """

    mean: float
    worst: float
    low: float
    high: float
    subjects: int


def share(outcomes: Sequence[Outcome]) -> Share | None:
    """Summarise a policy's outcomes; None for none.

    The interval is a percentile bootstrap over programs: subjects of one program are alike, and are drawn together.
    """
    if not outcomes:
        return None
    logs = _by_subject(outcomes)
    mean, low, high = np.exp(mean_interval(_by_program(logs)))
    return Share(float(mean), float(np.exp(min(logs.values()))), float(low), float(high), len(logs))


def _by_subject(outcomes: Sequence[Outcome]) -> dict[Subject, float]:
    """Return the logarithm of the share of each subject; of its mean, if it ran for several times."""
    found: dict[Subject, list[float]] = {}
    for one in outcomes:
        found.setdefault(one.subject, []).append(float(np.log(one.share)))
    return {subject: float(np.mean(logs)) for subject, logs in found.items()}


def _by_program(subjects: Mapping[Subject, float]) -> list[list[float]]:
    """Return the values of all subjects of each program, in the order of their names."""
    programs: dict[str, list[float]] = {}
    ordered = sorted(subjects.items(), key=lambda found: (found[0].program, found[0].label, found[0].threads))
    for subject, value in ordered:
        programs.setdefault(subject.program, []).append(value)
    return list(programs.values())


def gain(outcomes: Sequence[Outcome], policy: str, over: str) -> tuple[float, float, float] | None:
    """Return how much faster one policy is than another: the ratio of speeds, and its 95 % interval over programs."""
    one, other = (_by_subject([run for run in outcomes if run.policy == name]) for name in (policy, over))
    both = {subject: one[subject] - other[subject] for subject in one.keys() & other.keys()}
    if not both:
        return None
    ratio, low, high = np.exp(mean_interval(_by_program(both)))
    return float(ratio), float(low), float(high)


def speedup(outcomes: Sequence[Outcome], policy: str, over: str) -> list[tuple[Subject, float]]:
    """Return the gain of each subject, the greatest first."""
    one, other = (_by_subject([run for run in outcomes if run.policy == name]) for name in (policy, over))
    gains = [(subject, float(np.exp(one[subject] - other[subject]))) for subject in one.keys() & other.keys()]
    return sorted(gains, key=lambda found: (-found[1], found[0].label))
