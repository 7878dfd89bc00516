"""SAM is judged alone and in pairs: what runs, the gains, and the figures that are asked for."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from pinfold.evaluation.finished import Run
from pinfold.evaluation.hints.sweep import Sweep
from pinfold.evaluation.judged import judging as judged
from pinfold.evaluation.judged import sam as judged_sam
from pinfold.evaluation.judged.judging import NOISE, SAM, UNPINNED, Outcome, Subject
from pinfold.evaluation.judged.sam import MACHINE, PAIRS, POLICIES, THREADS, TIME, Gain, Judged
from pinfold.evaluation.workloads import Workload

SUBJECT = Subject("pigz", "pigz early", MACHINE, 8, Path("pigz.pft"), "0-7", 0.5)


def subject(program: str, which: str = "early") -> Subject:
    return replace(SUBJECT, program=program, label=f"{program} {which}", recording=Path(f"{program}.pft"))


def ran(*speeds: float) -> Run:
    return Run(20.0, None, 1, [], list(speeds), [{} for _ in speeds], {})


def outcome(program: str, policy: str, seconds: float) -> Outcome:
    return Outcome(subject(program), policy, TIME, seconds, 100.0, None)


def test_pairs_are_of_different_programs_and_the_names_alone_decide_them() -> None:
    subjects = [subject("c"), subject("a", "late"), subject("a"), subject("b"), subject("d")]
    each = judged_sam.one_of_each(subjects)
    assert [one.label for one in each] == ["a early", "b early", "c early", "d early"]
    found = ["".join(one.program for one in pair) for pair in judged_sam.pairs(each)]
    assert found == ["ab", "bc", "cd", "ac", "bd", "ad"][:PAIRS]
    assert judged_sam.pairs(judged_sam.one_of_each(subjects[::-1])) == judged_sam.pairs(each)
    many = [subject(name) for name in "abcdefgh"]
    assert judged_sam.pairs(many) == list(pairwise(many))[:PAIRS]
    assert judged_sam.pairs(many[:1]) == []


def test_every_pair_of_few_programs_runs_once() -> None:
    few = [subject(name) for name in "abc"]
    assert sorted(judged_sam.pairs(few), key=str) == sorted(combinations(few, 2), key=str)


def test_a_pair_gains_the_geometric_mean_and_its_least_gain_is_that_of_the_worse_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(files: Sequence[Path], *words: str, machine: str) -> Run:
        assert machine == MACHINE
        assert words[2:] == ("--noise", NOISE)
        assert [file.name for file in files] == ["pigz.pft", "xz.pft"]
        return ran(8.0, 9.0) if words[1] == "sam" else ran(2.0, 9.0)

    monkeypatch.setattr(judged_sam, "run", run)
    (gain,) = judged_sam.side_by_side([(subject("pigz"), subject("xz"))], lambda text: None)
    assert (gain.mean, gain.least) == pytest.approx((2.0, 1.0))
    assert gain.label == "pigz early, 8 threads beside xz early, 8 threads"


def test_sam_runs_the_same_work_as_policies_that_need_no_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(words: list[str], recordings: list[Path], files: Any) -> Run:
        calls.append(words)
        assert not files
        return ran(1.0)

    monkeypatch.setattr(judged, "finished", run)
    found = judged_sam.judge_sam({"own": [SUBJECT]}, [], lambda text: None)
    assert [one.policy for one in found.alone["own"]] == list(POLICIES)
    assert {tuple(words[:4]) for words in calls} == {("--machine", MACHINE, "--repeat", "120")}
    assert ["--policy", "sam"] in [words[-2:] for words in calls]
    assert found.gains == {"own": [Gain("pigz early, 8 threads", 1.0, 1.0)]}


def test_a_loss_in_the_mean_and_harm_to_one_program_are_figures_that_are_not_held() -> None:
    outcomes = [
        *(outcome("a", SAM, 90.0), outcome("a", UNPINNED, 100.0)),
        *(outcome("b", SAM, 110.0), outcome("b", UNPINNED, 100.0)),
    ]
    pairs = [Gain("one", 0.99, 0.96), Gain("other", 1.0, 0.98)]
    found = judged_sam.promises(Judged({"own": outcomes}, {"development": pairs}))
    assert [(one.value, one.promise, one.held) for one in found] == [
        (pytest.approx(1.005, abs=1e-3), ">= 1", True),
        (pytest.approx(0.9091, abs=1e-4), ">= 0.95", False),
        (pytest.approx(0.995, abs=1e-3), ">= 1", False),
        (0.96, ">= 0.95", True),
    ]


def test_a_group_without_programs_is_shown_as_not_measured() -> None:
    found = Judged({"judging": []}, {"judging": []})
    assert {(one.value, one.held) for one in judged_sam.promises(found)} == {(None, None)}
    shares, gains = judged_sam.tables(found)
    assert shares.columns == ["policy", "judging (0)"]
    assert {row[1] for row in shares.rows} == {"-"}
    assert [row[1:] for row in gains.rows] == [["0", "-", "-", "-"]] * 2
    assert judged_sam.data(found)["groups"]["judging"]["shares"][SAM] is None


def test_each_own_workload_has_one_subject_whose_window_covers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def sweep(program: str, threads: int, name: str) -> Sweep:
        return Sweep(Workload(program, 0, ""), threads, Path(f"{name}.parquet"), Path(f"{name}.pft"))

    def of_sweep(data: Path, recording: Path, machine: str) -> Subject | None:
        return None if "small-window" in data.name else replace(SUBJECT, recording=recording)

    swept: list[str] = []

    def swept_elsewhere(one: Sweep, machine: str, placements: Sequence[str]) -> Path:
        assert machine == MACHINE
        swept.append(one.data.stem)
        return one.data

    monkeypatch.setattr(judged_sam, "of_sweep", of_sweep)
    monkeypatch.setattr(judged_sam, "swept_elsewhere", swept_elsewhere)
    found = judged_sam.of_own(
        [
            *(sweep("fft", 4, "four"), sweep("fft", THREADS, "small-window")),
            *(sweep("fft", THREADS, "covers"), sweep("fft", THREADS, "larger"), sweep("lu", THREADS, "small-window-2")),
        ]
    )
    assert [one.recording.stem for one in found] == ["covers"]
    assert swept == ["small-window", "covers", "small-window-2"]
