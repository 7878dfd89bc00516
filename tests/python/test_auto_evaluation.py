"""The judging of the default policy, with runs that are made up."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pinfold.evaluation.auto import runs as auto_runs
from pinfold.evaluation.auto import section as auto
from pinfold.evaluation.auto.plots import over_best
from pinfold.evaluation.auto.runs import Runs, Subject
from pinfold.evaluation.auto.section import Judged, promises_of
from pinfold.evaluation.finished import Run
from pinfold.evaluation.judged.judging import BASELINE
from pinfold.evaluation.workloads import Workload

WORKLOAD = Workload("stencil", 1, "--size 4M")


def judged(time: int, **seconds: float) -> Judged:
    """Return a judged subject whose oracle needs 100 s; policies that are not named need 200 s."""
    subject = Subject.of_workload("e5-2680v3x2", WORKLOAD, 24)
    others = dict.fromkeys((*auto.POLICIES, auto.KNOWN), 200.0)
    return Judged(subject, time, 100.0, "packed first_touch", others | seconds)


def held(found: Sequence[Judged], name: str) -> Any:
    """Return the value of a promise, and whether it holds."""
    (promise,) = (one for one in promises_of(found) if one.name == name)
    return promise.value, promise.held


def test_medians_and_the_worst_are_compared_with_what_is_asked_for() -> None:
    found = [judged(600, auto=101.0), judged(600, auto=101.5), judged(600, auto=109.0)]
    assert held(found, "time over the oracle at 600 s, median") == (pytest.approx(1.015), False)
    assert held([judged(600, auto=100.05)], "time over the oracle at 600 s, median") == (pytest.approx(1.0005), True)
    assert held(found, "time over the oracle at 600 s, worst") == (pytest.approx(1.09), False)


def test_hints_has_to_be_faster_than_the_two_placements_that_anybody_would_try() -> None:
    name = f"speed of hints over {BASELINE} at 60 s, mean"
    even = judged(60, **{"hints": 100.0, BASELINE: 100.0})
    faster = judged(60, **{"hints": 100.0, BASELINE: 102.01})
    assert held([even, faster], name) == (pytest.approx(1.01), True)
    assert held([even], name) == (1.0, False)


def test_one_program_that_is_slower_than_unpinned_breaks_the_promise() -> None:
    found = [judged(60, auto=100.0), judged(60, auto=103.0, unpinned=100.0)]
    assert held(found, "time over unpinned at 60 s, slowest program") == (pytest.approx(1.03), False)
    assert held(found[:1], "time over unpinned at 60 s, slowest program")[1]


def test_auto_is_compared_with_the_best_of_its_parts_by_program() -> None:
    found = [judged(60, auto=110.0, autopin=100.0, classify=150.0), judged(60, auto=100.0, sam=100.0)]
    assert held(found, "time over the best of its parts at 60 s, median") == (pytest.approx(1.05), False)
    name = "classify's time over that of auto at 60 s, mean"
    assert held(found, name) == (pytest.approx((150 / 110 * 2) ** 0.5), True)


def test_the_choice_is_judged_by_when_it_was_made_and_a_run_without_one_says_nothing() -> None:
    found = [judged(600), judged(600), judged(600), judged(600)]
    for one, at in zip(found, (0.0, 1.8, 11.0, None), strict=True):
        one.found_at = at
    name = "seconds until the kept placement was chosen, runs of 600 s"
    assert held(found, f"{name}, median") == (1.8, True)
    assert held(found, f"{name}, latest") == (11.0, False)


def test_a_time_that_was_not_judged_promises_nothing() -> None:
    assert not [one for one in promises_of([judged(60)]) if "600" in one.name]


def test_the_subjects_are_the_judged_programs_in_the_sizes_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_runs, "applications", dict)
    found = auto_runs.subjects("e5-2680v3x2", quick=False)
    threads = {one.program: one.threads for one in found}
    assert threads == dict.fromkeys(auto_runs.HALF, 12) | dict.fromkeys(auto_runs.FULL, 24)
    arguments = {one.program: one.arguments for one in found}
    assert "--init serial" in arguments["gups"]
    assert "--init parallel" in arguments["lattice"]
    quick = auto_runs.subjects("e5-2680v3x2", quick=True)
    assert {one.program for one in quick} == set(auto_runs.QUICK)


def test_real_applications_are_judged_with_the_threads_of_their_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Path("raxml/gtr-8-late.pft")
    monkeypatch.setattr(auto_runs, "applications", lambda: {"raxml": recording})
    found = auto_runs.subjects("e5-4650x4", quick=False)
    (real,) = (one for one in found if one.is_real)
    assert (real.label, real.recording) == ("raxml gtr late, 8 threads", recording)
    assert not [one for one in auto_runs.subjects("e5-4650x4", quick=True) if one.is_real]
    own = judged(60, auto=100.0)
    own_only, of_real = auto.summaries([own, Judged(real, 60, 100.0, "packed first_touch", own.seconds)])
    assert own_only.columns[1] == "60 s (2)"
    assert of_real.columns[1] == "60 s (1)"
    assert len(auto.summaries([own])) == 1


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Replace runs of the binary. A placement with interleaved pages takes half a second a repetition, others one."""
    done: list[Sequence[str]] = []

    def finished(words: Sequence[str], _recordings: Sequence[Path], _files: Sequence[Path] = ()) -> Run:
        done.append(words)
        repeat = int(words[words.index("--repeat") + 1])
        return Run(repeat * (0.5 if "interleave" in words else 1.0), "0,1", repeat, [], [], [], {})

    monkeypatch.setattr(auto_runs, "finished", finished)
    monkeypatch.setattr(auto_runs, "finished_twice", finished)
    monkeypatch.setattr(Subject, "recording", Path("a.pft"))
    return done


def test_all_policies_repeat_a_program_as_often_as_the_best_placement_does_in_the_judged_time(calls: Any) -> None:
    runs = Runs(Subject.of_workload("e5-2680v3x2", WORKLOAD, 24), Path("model.json"))
    found = list(auto.judge(runs, [60]))
    assert {words[-1] for words in calls} == {str(auto_runs.TRIED), "120"}
    (one,) = found
    assert (one.oracle, one.over("auto")) == (60.0, 2.0)
    assert one.best.endswith("interleave")
    # What policies chose is tried, too, and only policies that read something have noise.
    fixed = [words for words in calls if "fixed" in words]
    assert {words[words.index("--schedule") + 1] for words in fixed} == {"0,1"}
    noisy = {words[words.index("--policy") + 1] for words in calls if "--noise" in words and "--policy" in words}
    assert noisy == {"auto", "none", *auto_runs.PARTS}
    (tried,) = (words for words in calls if "distributed" in words and "packed" in words)
    assert "--noise" in tried
    left_out = {words[words.index("--do-not-ask") + 1] for words in calls if "--do-not-ask" in words}
    assert left_out == set(auto_runs.SOURCES)
    assert [words[words.index("--belief") + 1] for words in calls if "--belief" in words] == ["none"]
    assert auto.ablation(found).rows[0] == ["belief", "1.000", "1.00"]


def test_in_the_long_time_auto_runs_without_counters_too(calls: Any) -> None:
    runs = Runs(Subject.of_workload("e5-2680v3x2", WORKLOAD, 24), Path("model.json"))
    (one,) = auto.judge(runs, [auto.LONG])
    assert one.over(auto.UNCOUNTED) == 2.0
    assert [words[words.index("--do-not-ask") + 1] for words in calls if "--do-not-ask" in words] == ["model,counts"]
    (promise,) = [one for one in auto.promises_of([one]) if "without counters" in one.name]
    assert (promise.value, promise.held) == (2.0, False)


def test_parts_have_probes_that_suit_the_judged_time(calls: Any) -> None:
    runs = Runs(Subject.of_workload("e5-2680v3x2", WORKLOAD, 24), Path("model.json"))
    runs.of_policy("autopin", 600)
    assert calls[-1][calls[-1].index("-t") + 1] == "30s"
    for judged in auto_runs.TIMES:
        value, unit = re.fullmatch(r"(\d+)(ms|s|m)", auto_runs.PROBES[judged]).groups()  # type: ignore[union-attr]
        assert float(value) * {"ms": 0.001, "s": 1.0, "m": 60.0}[unit] == judged / 20
    runs.of_policy("auto", 600)
    assert "-t" not in calls[-1]
    assert calls[-1][calls[-1].index("--placement-model") + 1] == "model.json"


def test_unpinned_threads_run_with_interleaved_pages_for_ten_minutes_at_most(calls: Any) -> None:
    runs = Runs(Subject.of_workload("e5-2680v3x2", WORKLOAD, 24), Path("model.json"))

    def of_unpinned(judged: int) -> list[bool]:
        before = len(calls)
        runs.oracle(judged, ["unpinned", "0,1"])
        words = [words for words in calls[before:] if "none" in words]
        return ["interleave" in one for one in words]

    assert of_unpinned(600) == [False, True]
    assert of_unpinned(3600) == [False]


def test_the_gain_is_drawn_over_the_best_placement_and_a_run_without_a_policy_has_no_dot() -> None:
    runs = [
        {"time_s": 60, "oracle_s": 50.0, "seconds": {"unpinned": 100.0, "auto": 55.0}},
        {"time_s": 10, "oracle_s": 10.0, "seconds": {"unpinned": 10.0}},
        {"time_s": 60, "oracle_s": 60.0, "seconds": {"unpinned": 60.0, "auto": 60.0}},
    ]
    assert over_best(runs, "unpinned") == {10: [1.0], 60: [1.0, 2.0]}
    assert over_best(runs, "auto") == {60: [1.0, pytest.approx(1.1)]}
