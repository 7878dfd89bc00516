"""The section of policies that were judged by running them, beside the baseline that a learned policy must beat."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pinfold.evaluation.hints.sweep import MACHINE, TRAINING_THREADS, Sweep, data_set, sweeps
from pinfold.evaluation.judged import report, sam
from pinfold.evaluation.judged.judging import (
    BASELINE,
    NOISE,
    PAIR,
    TIMES,
    TWO_SAMPLES,
    Outcome,
    Subject,
    judge,
)
from pinfold.evaluation.judged.report import DEVELOPMENT, JUDGED, OWN
from pinfold.evaluation.judged.subjects import Learned, of_applications, of_sweeps
from pinfold.evaluation.section import PINFOLD, Promise, Section
from pinfold.learn.hints.data_set import read

QUICK_PROGRAMS, QUICK_THREADS = ("barrier", "fft", "pairs", "pipeline", "spmv", "stream"), (8, 16)
"""The reduced set: each policy has one run of a minute."""

ABOUT = f"""\
Every policy runs each recording end to end on the simulated machine, for the time that the fastest fixed pinning needs
about: with its samples, its moves of threads and pages, cold caches after a move, the check of its choice, and noise
of {NOISE} % on what it reads in a tenth of a second. The share is the time of the oracle, which is the fastest of all
swept placements and orders of ranks, over that of the policy. The oracle is fixed from the start and samples nothing,
so 100 % cannot be reached by a policy that has to look. The noise has a part that lasts for ten seconds, and a probe
of 30 s does not average it away. All runs are single. Own workloads have {TRAINING_THREADS} threads; of each program
one recording is run, the first by name.

The baselines decide nothing (unpinned threads, on the simulated Linux-like scheduler; packed; distributed), or need no
learning: `{BASELINE}` has two samples of every program, and autopin nine. `hints` are learned. With one sample they are
AutoFinity with pinfold's counters; verified, a second sample shows whether the change helped. `{TWO_SAMPLES}` learn
where to sample, too: the placement in which a program begins, and, from its counters there, the one with which it is
compared, or none. Both are chosen by the expected loss of the whole run on programs that are left out, and for each
number of threads, which is known before the first sample. `{PAIR}` is the same with the same second placement for
every program, and shows what counters add. Learned policies are judged on programs from which they were
not learned, with all sizes of these left out; applications by policies that were learned from own workloads alone."""


def judged(quick: bool) -> Section:
    """Run all policies on own workloads and on the recorded applications."""

    def progress(text: str) -> None:
        print(f"judged: {text}", file=sys.stderr)

    swept = sweeps(quick)
    learned = Learned(read([data_set(swept, quick)], PINFOLD))
    applications = of_applications()
    threads = QUICK_THREADS if quick else (TRAINING_THREADS,)
    subjects = {
        OWN: of_sweeps([one for one in swept if one.threads in threads]),
        DEVELOPMENT: sam.one_of_each(applications["development"]),
        JUDGED: sam.one_of_each(applications["judged"]),
    }
    if quick:
        subjects = {group: list(filter(_is_quick, of_group)) for group, of_group in subjects.items()}
    times = {group: TIMES[1:2] if quick else TIMES if group == OWN else TIMES[:1] for group in subjects}
    groups: dict[str, list[Outcome]] = {group: [] for group in subjects}
    for group, of_group in subjects.items():
        groups[group] += judge(of_group, learned.rules, times[group], progress)
    under_sam = sam.judge_sam(_alone(swept, quick), () if quick else (DEVELOPMENT, JUDGED), progress)
    recorded = [group for group in (DEVELOPMENT, JUDGED) if not groups[group]]
    missing = f" Not recorded here: {' and '.join(recorded)} (`make applications`)." if recorded else ""
    reduced = "A reduced set (`make evaluation-quick`).\n\n" if quick else ""
    inside = report.inside_caches(groups)
    without = " The reduced set has no applications under SAM." if quick else ""
    text = f"**Simulated** on `{MACHINE}`. {reduced}{ABOUT} {inside}{missing}\n\n{sam.ABOUT}{without}"
    promises: list[Promise] = [
        *(one for group, outcomes in groups.items() for one in report.promises(group, outcomes)),
        *sam.promises(under_sam),
    ]
    command = f"pinfold run --machine {MACHINE} --noise {NOISE} --seed 0 --repeat N"
    return Section(
        "judged",
        "Policies judged by running them",
        text,
        [
            f"{command} --threads 8 --schedule distributed --schedule packed FILE.pft",
            f"{command} --policy hints:rules --rules RULES.json --observe sLP FILE.pft",
            f"pinfold run --machine {sam.MACHINE} --noise {NOISE} --seed 0 --policy sam ONE.pft OTHER.pft",
        ],
        [*report.tables(groups), *sam.tables(under_sam)],
        {"simulated": True, "machine_model": MACHINE, **report.data(groups), "sam": sam.data(under_sam)},
        promises=promises,
    )


def _is_quick(subject: Subject) -> bool:
    return subject.program in QUICK_PROGRAMS and subject.threads in QUICK_THREADS


def _alone(swept: Sequence[Sweep], quick: bool) -> dict[str, list[Subject]]:
    """Return what SAM runs alone, by group: applications; in the reduced set, which has none, own workloads."""
    if quick:
        return {OWN: sam.of_own([one for one in swept if one.workload.program in QUICK_PROGRAMS])}
    applications = of_applications(sam.MACHINE)
    return {
        DEVELOPMENT: sam.one_of_each(applications["development"]),
        JUDGED: sam.one_of_each(applications["judged"]),
    }
