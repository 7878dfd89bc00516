"""SAM, judged by running it: programs alone and two side by side, on a machine whose events show what threads share.

AMD's family 10h has no such events, so this is not the machine on which the other policies are judged.

1. Alone, one recording of each program runs under SAM and under policies that need no learning. The oracle is the
   fastest pinning of a sweep in the few placements in which applications are swept.
2. In pairs, two applications of one part of the split run side by side, unpinned and under SAM. The names alone decide
   which applications are a pair: neighbours in their order, then the next but one, and so on.

Every run has one order of task creation, which is the same for SAM and for unpinned threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import geometric_mean
from typing import Any

from pinfold.applications import data_sets
from pinfold.evaluation.finished import Run
from pinfold.evaluation.hints.sweep import Sweep, swept_elsewhere
from pinfold.evaluation.judged.judging import (
    AUTOPIN,
    DISTRIBUTED,
    NOISE,
    PACKED,
    SAM,
    TIMES,
    UNPINNED,
    Outcome,
    Subject,
    judge,
    share,
    speedup,
)
from pinfold.evaluation.judged.report import of, runs, shown
from pinfold.evaluation.judged.subjects import of_sweep
from pinfold.evaluation.section import Promise, Table
from pinfold.evaluation.side_by_side import LASTS, at_once, run

MACHINE = "e5-4650x4"
POLICIES = (UNPINNED, PACKED, DISTRIBUTED, AUTOPIN, SAM)
TIME = TIMES[1]
THREADS = 8
"""Of own workloads."""

PAIRS = 4
"""The number of pairs of each part of the split."""

SPACE = ("--space", "threads", "--limit", str(data_sets.LIMIT))
"""The arguments of a sweep in the placements in which applications are swept."""

NO_LOSS, NO_HARM = 1.0, 0.95
"""The gain over unpinned threads that is asked for: of the geometric mean, and of the program that gains least. Below
1 for a single program, because a sample or a trial costs something where SAM can change nothing."""

ABOUT = f"""\
**SAM** is judged on `{MACHINE}`, because the events of the other machine do not show what threads share. There the
oracle is the fastest pinning of a sweep in {data_sets.LIMIT} placements. One recording of each program is run. In a
pair two applications run side by side, each repeating its recorded region, for {LASTS.removesuffix("s")} s after the
first decision; the first {PAIRS} pairs in the order of the names are run. A gain is the speed under SAM over that of
unpinned threads, with the same order of task creation. That of a pair is the geometric mean of both programs."""


@dataclass(frozen=True)
class Gain:
    """How much faster a program alone, or a pair of programs, is under SAM than unpinned.

    Attributes
    ----------
    label : str
        What ran.
    mean : float
        The ratio of speeds; of a pair the geometric mean.
    least : float
        That of the program that gains less; of a program alone the same.
    """

    label: str
    mean: float
    least: float


@dataclass(frozen=True)
class Judged:
    """What was run.

    Attributes
    ----------
    alone : mapping
        The outcomes of programs that ran alone, by group.
    pairs : mapping
        The gains of pairs, by group.
    """

    alone: Mapping[str, Sequence[Outcome]]
    pairs: Mapping[str, Sequence[Gain]]

    @property
    def gains(self) -> dict[str, list[Gain]]:
        """The gains of all groups, alone and in pairs."""
        alone = {
            group: [Gain(_label(subject), ratio, ratio) for subject, ratio in speedup(outcomes, SAM, UNPINNED)]
            for group, outcomes in self.alone.items()
        }
        return alone | {f"pairs of {group}": list(gains) for group, gains in self.pairs.items()}


def of_own(sweeps: Sequence[Sweep]) -> list[Subject]:
    """Return a subject for each program: the first of its workloads whose window covers it on this machine."""
    found: dict[str, Subject] = {}
    for one in sweeps:
        if one.threads == THREADS and one.workload.program not in found:
            data = swept_elsewhere(one, MACHINE, SPACE)
            if subject := of_sweep(data, one.recording, MACHINE):
                found[one.workload.program] = subject
    return list(found.values())


def judge_sam(alone: Mapping[str, Sequence[Subject]], paired: Sequence[str], progress: Callable[[str], None]) -> Judged:
    """Run all subjects alone, and those of some groups in pairs.

    Args:
        alone: the subjects by group.
        paired: the groups of which pairs are run.
        progress: receives progress messages.
    """
    outcomes = {group: judge(of_group, lambda _: {}, [TIME], progress, POLICIES) for group, of_group in alone.items()}
    return Judged(outcomes, {group: side_by_side(pairs(alone[group]), progress) for group in paired})


def one_of_each(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the first recording of each program, in the order of the names."""
    programs: dict[str, Subject] = {}
    for subject in sorted(subjects, key=lambda one: (one.program, one.label)):
        programs.setdefault(subject.program, subject)
    return list(programs.values())


def pairs(subjects: Sequence[Subject]) -> list[tuple[Subject, Subject]]:
    """Return the first pairs: neighbours, then the next but one, and so on."""
    apart = range(1, len(subjects))
    return [pair for distance in apart for pair in zip(subjects, subjects[distance:], strict=False)][:PAIRS]


def side_by_side(found: Sequence[tuple[Subject, Subject]], progress: Callable[[str], None]) -> list[Gain]:
    """Run pairs, unpinned and under SAM."""

    def speeds(pair: tuple[Subject, Subject], policy: str) -> Run:
        progress(f"{' beside '.join(map(_label, pair))}, {policy}")
        recordings = [subject.recording for subject in pair]
        return run(recordings, "--policy", policy, "--noise", NOISE, machine=MACHINE)

    ran = iter(at_once([partial(speeds, pair, policy) for pair in found for policy in ("none", "sam")]))
    gains = []
    for pair, unpinned, sam in zip(found, ran, ran, strict=True):
        ratios = [fast / slow for fast, slow in zip(sam.speeds, unpinned.speeds, strict=True)]
        gains.append(Gain(" beside ".join(map(_label, pair)), geometric_mean(ratios), min(ratios)))
    return gains


def _label(subject: Subject) -> str:
    return f"{subject.label}, {subject.threads} threads"


def tables(judged: Judged) -> list[Table]:
    """Return the shares of the oracle's performance, and the gains over unpinned threads."""
    columns = [f"{group} ({len({one.subject for one in outcomes})})" for group, outcomes in judged.alone.items()]
    shares = [
        [policy, *(shown(share(of(outcomes, TIME, None, policy))) for outcomes in judged.alone.values())]
        for policy in POLICIES
    ]
    caption = (
        f"On `{MACHINE}`, share of the oracle's performance in {TIME.seconds} s with probes of {TIME.probe}: geometric "
        "mean (95 % interval over programs), worst:"
    )
    rows = [[group, str(len(gains)), *_summary(gains)] for group, gains in judged.gains.items()]
    head = ["programs", "number", "gain, geometric mean", "least gain of a program", "of"]
    return [
        Table(["policy", *columns], shares, caption),
        Table(head, rows, f"On `{MACHINE}`, gain of SAM over unpinned threads:"),
    ]


def _summary(gains: Sequence[Gain]) -> list[str]:
    if not gains:
        return ["-", "-", "-"]
    least = min(gains, key=lambda one: one.least)
    mean = geometric_mean(one.mean for one in gains)
    return [f"{mean - 1:+.1%}", f"{least.least - 1:+.1%}", least.label]


def promises(judged: Judged) -> list[Promise]:
    """Return the figures that are asked for: SAM loses nothing in the mean of each group, and harms no program."""
    found = []
    for group, gains in judged.gains.items():
        figures = {
            "geometric mean": (geometric_mean(one.mean for one in gains) if gains else None, NO_LOSS),
            "least of a program": (min((one.least for one in gains), default=None), NO_HARM),
        }
        for what, (value, least) in figures.items():
            name = f"speed of {SAM}, over {UNPINNED}, {what}: {group}, on {MACHINE}"
            held = None if value is None else value >= least
            found.append(Promise(name, None if value is None else round(value, 4), "", f">= {least:g}", held))
    return found


def data(judged: Judged) -> dict[str, Any]:
    """Return the content of the JSON file."""
    return {
        "machine_model": MACHINE,
        "time": asdict(TIME),
        "groups": {
            group: {
                "shares": {
                    policy: None if (found := share(of(outcomes, TIME, None, policy))) is None else asdict(found)
                    for policy in POLICIES
                },
                "runs": runs(outcomes),
            }
            for group, outcomes in judged.alone.items()
        },
        "gains": {group: [asdict(one) for one in gains] for group, gains in judged.gains.items()},
    }
