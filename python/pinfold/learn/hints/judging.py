"""Judges how a policy chooses affinity hints: each program by a policy that was not learned from it.

The comparison is that of AutoFinity (Moore and Childers, 2012, section 3.6), in these steps:

1. A *case* is a program with a number of threads: its time in every placement of the data set, and its counters there.
2. For each program the policy is learned from the others, from cases of one number of threads (leave-one-program-out).
   A program with other arguments is the same program.
3. The policy sees a sample of the distributed placement, in which an unknown program begins (section 3), and chooses a
   hint. The time of the case is that of the hint's placement.
4. It is compared with the packed and the distributed placement, and with the *oracle*: the best of all placements and
   orders of ranks of the data set.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pinfold.learn.hints.hint import Hint
from pinfold.learn.hints.llc_domains import Loads
from pinfold.learn.hints.observations import Observation, Program

PACKED = Hint.parse("slp")
DISTRIBUTED = Hint.parse("SLP")

INTERESTING = 1.2
"""A case is interesting if packed and distributed differ by at least this factor (section 3.6)."""

GOOD = 1.01
"""A choice is good if its time is at most this multiple of that of the better one of packed and distributed."""


@dataclass(frozen=True)
class Case:
    """A program with a number of threads, in the placements in which it was observed."""

    program: Program
    label: str
    """The identity of the program in tables: its name, and the arguments that distinguish it from its other
    variants."""
    matches: Mapping[Hint, Loads]
    """The placement of each hint."""
    observed: Mapping[Loads, Observation]
    """By placement the observation with the ranks in the order of the PUs, which is the order in which hints pin."""
    fastest: float
    """The least time of all pinnings, which are the placements in all orders of ranks that were observed."""

    def seconds(self, hint: Hint) -> float:
        """Return its time in a hint's placement."""
        return self.observed[self.matches[hint]].seconds

    def regrets(self) -> dict[Hint, float]:
        """Return for each hint the logarithm of its time over that of the best hint."""
        least = self.seconds(self.best_hint)
        return {hint: float(np.log(self.seconds(hint) / least)) for hint in self.matches}

    def sample(self, hint: Hint) -> Observation:
        """Return the counters in a hint's placement."""
        return self.observed[self.matches[hint]]

    @property
    def oracle(self) -> float:
        """Return the least time of all placements and orders of ranks."""
        return self.fastest

    @property
    def best_hint(self) -> Hint:
        """Return the hint with the least time; among hints of the same placement the first."""
        return min(self.matches, key=self.seconds)


Choose = Callable[[Case], Hint]
"""A policy: it sees the samples of a case, and no times."""

Learn = Callable[[Sequence[Case]], Choose]
"""Learns a policy from cases."""


@dataclass(frozen=True)
class Judgement:
    """The choice of a policy for a case of a program from which it was not learned."""

    case: Case
    hint: Hint

    @property
    def learned(self) -> float:
        """Return the time under the policy, in seconds."""
        return self.case.seconds(self.hint)

    @property
    def packed(self) -> float:
        """Return the time under the static policy that shares caches and packages, in seconds."""
        return self.case.seconds(PACKED)

    @property
    def distributed(self) -> float:
        """Return the time under the static policy that spreads threads, in seconds."""
        return self.case.seconds(DISTRIBUTED)

    @property
    def interesting(self) -> bool:
        """Return whether packed and distributed differ by at least a fifth."""
        return max(self.packed, self.distributed) >= INTERESTING * min(self.packed, self.distributed)

    @property
    def good(self) -> bool:
        """Return whether the choice is within 1 % of the better static policy, or better."""
        return self.learned <= GOOD * min(self.packed, self.distributed)


@dataclass(frozen=True)
class Score:
    """The summary of a policy's judgements."""

    oracle_ratio: float
    """Geometric mean of the oracle's time over the policy's, of the cases with the training's number of threads."""
    all_oracle_ratio: float
    """The same of all cases; where not all placements were swept, the oracle is the best swept one."""
    seconds: float
    """Geometric mean of the policy's times, of the cases with the training's number of threads."""
    interesting: int
    """The number of interesting cases, of all numbers of threads."""
    good: int
    """The number of these that are within 1 % of the better static policy."""


def cases(
    observations: Iterable[Observation],
    best_matches: Callable[[str, int], Mapping[Hint, Loads]],
    incomplete: bool = False,
) -> list[Case]:
    """Return the cases of a data set, in its order.

    Args:
        observations: of whole programs.
        best_matches: the placement of each hint, for a machine and a number of threads.
        incomplete: programs may have been observed in only some placements; such a case has no time for a missing hint.

    Raises:
        ValueError: if a program was not observed in the placement of a hint.
    """
    observed: dict[Program, dict[Loads, Observation]] = {}
    fastest: dict[Program, float] = {}
    for one in observations:
        of_program = observed.setdefault(one.program, {})
        of_program[one.loads] = min(of_program.get(one.loads, one), one, key=lambda other: other.pinning)
        fastest[one.program] = min(fastest.get(one.program, one.seconds), one.seconds)
    labels = _labels(list(observed))
    found = []
    for program, of_program in observed.items():
        matches = best_matches(program.machine, program.threads)
        for hint, loads in matches.items():
            if loads not in of_program and not incomplete:
                raise ValueError(
                    f"`{program.command}` with {program.threads} threads on {program.machine} is not in the data set "
                    f"in the placement of the hint {hint}, {loads}: sweep it with `--space threads` or `--space hints`"
                )
        found.append(Case(program, labels[program], matches, of_program, fastest[program]))
    return found


def _labels(programs: Sequence[Program]) -> dict[Program, str]:
    """Name programs with as few arguments as distinguish them, independently of the number of threads."""
    words = {program: tuple(without_threads(program.command)) for program in programs}
    machines = {program.machine for program in programs}
    labels = {}
    for name in {program.name for program in programs}:
        telling = _distinguishing({words[program] for program in programs if program.name == name})
        for program in programs:
            if program.name == name:
                kept = (words[program][place] for place in telling if place < len(words[program]))
                label = " ".join((name, *kept))
                labels[program] = label if len(machines) == 1 else f"{label}, {program.machine}"
    return labels


def without_threads(command: str) -> list[str]:
    """Return a command's arguments without the number of threads."""
    _, *words = command.split()
    if "--threads" in words:
        place = words.index("--threads")
        del words[place : place + 2]
    return words


def _distinguishing(variants: Collection[tuple[str, ...]]) -> tuple[int, ...]:
    """Return the positions of the fewest arguments that distinguish the variants of a program."""
    places = range(max(map(len, variants)))
    for number in range(len(places) + 1):
        for chosen in itertools.combinations(places, number):
            shown = {tuple(words[place] if place < len(words) else None for place in chosen) for words in variants}
            if len(shown) == len(variants):
                return chosen
    return tuple(places)


def leave_one_program_out(all_cases: Sequence[Case], learn: Learn, training_threads: int) -> list[Judgement]:
    """Judge every case by a policy that was learned from other programs.

    Args:
        all_cases: of at least two programs.
        learn: learns a policy.
        training_threads: only cases with this number of threads are learned from; all are judged.

    Raises:
        ValueError: if no data is left for learning; the message names the program that was left out.
    """
    judgements: dict[Program, Judgement] = {}
    for name in sorted({case.program.name for case in all_cases}):
        others = [case for case in all_cases if case.program.name != name and case.program.threads == training_threads]
        if not others:
            raise ValueError(
                f"without {name} there is no program with {training_threads} threads to learn from: sweep others, too"
            )
        try:
            choose = learn(others)
        except ValueError as error:
            raise ValueError(f"without {name}: {error}") from error
        judgements |= {case.program: Judgement(case, choose(case)) for case in all_cases if case.program.name == name}
    return [judgements[case.program] for case in all_cases]


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(list(values)))))


def score(judgements: Sequence[Judgement], training_threads: int) -> Score:
    """Summarise judgements.

    Raises:
        ValueError: if no case has the training's number of threads.
    """
    trained = [one for one in judgements if one.case.program.threads == training_threads]
    if not trained:
        raise ValueError(f"no program has {training_threads} threads: choose another number with --threads")
    interesting = [one for one in judgements if one.interesting]
    return Score(
        oracle_ratio=geometric_mean(one.case.oracle / one.learned for one in trained),
        all_oracle_ratio=geometric_mean(one.case.oracle / one.learned for one in judgements),
        seconds=geometric_mean(one.learned for one in trained),
        interesting=len(interesting),
        good=sum(one.good for one in interesting),
    )
