"""Policies are judged by running them: the arguments, the summary of runs, and runs that are kept."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinfold.evaluation import finished, section
from pinfold.evaluation.judged import judging as judged
from pinfold.evaluation.judged import report as judged_report
from pinfold.evaluation.judged.judging import (
    BASELINE,
    NOISE,
    ONE_SAMPLE,
    PAIR,
    POLICIES,
    TIMES,
    TWO_SAMPLES,
    VERIFIED,
    Outcome,
    Rules,
    Subject,
    arguments,
    gain,
    share,
)
from pinfold.learn.hints.hint import Hint

SUBJECT = Subject("fft", "fft", "opteron-6164x4", 8, Path("fft.pft"), "0-7", 0.5)
RULES = {name: Rules(Path("rules.json"), Hint.parse("sLP")) for name in (ONE_SAMPLE, VERIFIED, PAIR, TWO_SAMPLES)}


def outcome(program: str, policy: str, seconds: float) -> Outcome:
    subject = replace(SUBJECT, program=program, label=program)
    return Outcome(subject, policy, TIMES[0], seconds, 100.0, None)


def test_no_judgement_is_without_noise() -> None:
    assert float(NOISE) > 0


def test_the_baseline_is_a_search_of_the_two_static_placements() -> None:
    assert arguments(BASELINE, SUBJECT, RULES) == [
        *("--policy", "autopin", "--schedule", "distributed", "--schedule", "packed", "--threads", "8"),
    ]


def test_only_one_sample_is_not_verified() -> None:
    unverified = {policy: "--unverified" in arguments(policy, SUBJECT, RULES) for policy in POLICIES}
    assert [policy for policy, without in unverified.items() if without] == [ONE_SAMPLE]


def test_a_share_is_a_geometric_mean_over_subjects_with_the_worst_of_them() -> None:
    found = share([outcome("fft", "p", 100.0), outcome("lu", "p", 400.0)])
    assert found is not None
    assert found.mean == pytest.approx(0.5)
    assert found.worst == pytest.approx(0.25)
    assert found.subjects == 2
    assert found.low == pytest.approx(0.25)
    assert found.high == pytest.approx(1.0)
    assert share([]) is None


def test_a_gain_compares_the_same_subjects() -> None:
    outcomes = [outcome("fft", "a", 100.0), outcome("fft", "b", 200.0), outcome("lu", "a", 100.0)]
    assert gain(outcomes, "a", "b") == pytest.approx((2.0, 2.0, 2.0))
    assert gain(outcomes, "a", "c") is None


def test_a_learned_policy_that_does_not_beat_the_baseline_is_a_figure_that_is_not_held() -> None:
    faster = [outcome("fft", TWO_SAMPLES, 100.0), outcome("fft", BASELINE, 101.0)]
    slower = [outcome("fft", TWO_SAMPLES, 101.0), outcome("fft", BASELINE, 100.0)]
    assert [one.held for one in judged_report.promises("own", faster)] == [True]
    assert [one.held for one in judged_report.promises("own", slower)] == [False]


def test_all_policies_run_the_same_work_with_noise_and_the_oracle_is_the_fastest_fixed_pinning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[list[str]] = []

    def run(words: list[str], recordings: list[Path], files: Any = ()) -> finished.Run:
        calls.append(words)
        seconds = 90.0 if "packed" in words and "distributed" not in words else 120.0
        return finished.Run(seconds, None, 1, [], [1 / seconds], [{}], {})

    monkeypatch.setattr(judged, "finished", run)
    outcomes = judged.judge([SUBJECT], lambda subject: RULES, TIMES[1:2], lambda text: None)
    assert {tuple(words[2:4]) for words in calls} == {("--repeat", "120")}
    assert all(words[6:8] == ["--noise", NOISE] for words in calls)
    assert {one.oracle for one in outcomes} == {90.0}
    assert [one.policy for one in outcomes] == list(POLICIES)


def test_a_finished_run_knows_no_other_and_is_not_done_again_unless_its_recording_or_rules_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def output(arguments: list[str]) -> str:
        nonlocal calls
        calls += 1
        database = Path(arguments[arguments.index("--db") + 1])
        assert not database.exists()
        assert database.parent.exists()
        program = {"speed": 2.0, "events": {"cycles": 4.0}}
        simulation = {"repetitions": 3.0, "programs": [program] * sum(word.endswith(".pft") for word in arguments)}
        chosen = {"candidate": 0, "pus": [0, 1], "at": 0.5}
        ran = {"ran": 1.5, "chosen": chosen, "simulation": simulation, "candidates": [{"rate": None}]}
        Path(arguments[arguments.index("--json") + 1]).write_text(json.dumps(ran))
        return ""

    monkeypatch.chdir(tmp_path)
    for name in ("binary", "one.pft", "rules.json", "same.json"):
        Path(name).write_text("content")
    monkeypatch.setattr(finished, "PINFOLD", Path("binary"))
    monkeypatch.setattr(section, "output", output)
    recording, rules, same = Path("one.pft"), Path("rules.json"), Path("same.json")
    expected = finished.Run(1.5, "0,1", 3, [None], [2.0], [{"cycles": 4.0}], {}, chosen_at=0.5)
    assert finished.finished(["--rules", str(rules)], [recording], [rules]) == expected
    finished.finished(["--rules", str(same)], [recording], [same])
    assert calls == 1
    finished.finished(["--rules", str(rules), "--seed", "1"], [recording], [rules])
    other = Path("other.json")
    other.write_text("other content")
    finished.finished(["--rules", str(other)], [recording], [other])
    assert calls == 3
    assert finished.finished(["--rules", str(rules)], [recording, recording], [rules]).speeds == [2.0, 2.0]
    assert calls == 4


@pytest.mark.parametrize(("candidate", "at"), [(0, 0.0), (1, 7.0)])
def test_the_unpinned_program_is_chosen_from_the_beginning_unless_its_pages_move(
    candidate: int, at: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {
        "ran": 9.0,
        "chosen": {"candidate": candidate, "pus": None, "at": 7.0},
        "simulation": {"repetitions": 1.0, "programs": []},
        "candidates": [{"rate": None}, {"rate": None, "pages": "interleave"}],
    }
    monkeypatch.chdir(tmp_path)
    Path("binary").touch()
    monkeypatch.setattr(finished, "PINFOLD", Path("binary"))
    monkeypatch.setattr(finished, "run_json", lambda words, recordings: record)
    assert finished.finished([], []).chosen_at == at


def test_few_subjects_with_some_number_of_threads_are_shown_with_the_others() -> None:
    def of_threads(threads: int, number: int) -> list[Outcome]:
        found = [outcome(f"p{place}", "p", 100.0) for place in range(number)]
        return [replace(one, subject=replace(one.subject, threads=threads)) for one in found]

    many = judged_report.LEAST_SUBJECTS
    assert judged_report.threads_of(of_threads(8, many) + of_threads(4, many)) == [4, 8]
    assert judged_report.threads_of(of_threads(8, many) + of_threads(4, 1)) == [None]
    assert judged_report.threads_of([]) == []
