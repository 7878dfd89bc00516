"""Policies are judged on programs from which they were not learned, and compared with static placements."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pinfold.learn.hints.hint import Hint
from pinfold.learn.hints.judging import (
    DISTRIBUTED,
    PACKED,
    Case,
    Choose,
    Judgement,
    cases,
    geometric_mean,
    leave_one_program_out,
    score,
)
from pinfold.learn.hints.llc_domains import Loads
from pinfold.learn.hints.observations import Observation, Program
from pinfold.learn.hints.policy import Recipe, learn_policy
from pinfold.learn.hints.regret_tree import learn_tree, rows_of
from pinfold.learn.hints.ripper import first_that_holds
from pinfold.learn.hints.variants import DEFAULT, PAPER, faster, several, static, verified

TOGETHER: Loads = ((4,), (0,))
APART: Loads = ((2,), (2,))
UNEVEN: Loads = ((3,), (1,))
MATCHES = {DISTRIBUTED: APART, PACKED: TOGETHER}
SHARING, STREAMING = 1e7, 1e3
#: With four threads on two caches, each placement differs by two moved threads from each other one.
EXACT = replace(PAPER, leeway=0)


def best_matches(machine: str, threads: int) -> dict[Hint, Loads]:
    return MATCHES


def observed(
    name: str, counter: float, *seconds: float, threads: int = 4, arguments: str = "", other: float = 1e9
) -> list[Observation]:
    """Observe a program packed, distributed, and (if there is a third time) unevenly placed."""
    program = Program("two sockets", name, f"bin/{name} --threads {threads}{arguments}", threads)
    places = (TOGETHER, APART, UNEVEN)
    return [
        Observation(program, "", loads, (counter, other), 1 / one, one)
        for loads, one in zip(places[: len(seconds)], seconds, strict=True)
    ]


def programs(threads: int = 4) -> list[Case]:
    """Return programs that share, which are faster packed, and programs that stream, which are faster distributed."""
    observations = []
    for number in range(10):
        # Each has its own value of the other counter, so that behaviours differ.
        sharing, streaming = (factor * (1 + number / 5) for factor in (SHARING, STREAMING))
        other = 10.0 ** (number / 2)
        observations += observed(f"share{number}", sharing, 1.0, 2.0, 1.2, threads=threads, other=other)
        observations += observed(f"stream{number}", streaming, 3.0, 1.0, 2.5, threads=threads, other=other)
    return cases(observations, best_matches)


def judged(*seconds: float, hint: Hint = PACKED) -> Judgement:
    (case,) = cases(observed("fft", 1.0, *seconds), best_matches)
    return Judgement(case, hint)


def test_a_judgement_has_the_times_of_the_policy_of_both_static_ones_and_of_the_best_placement() -> None:
    one = judged(3.0, 2.0, 1.0)
    assert (one.learned, one.packed, one.distributed, one.case.oracle) == (3, 3, 2, 1)
    assert one.case.best_hint == DISTRIBUTED


@pytest.mark.parametrize(("packed", "interesting"), [(1.19, False), (1.2, True), (0.84, False), (0.8, True)])
def test_a_case_is_interesting_if_the_static_policies_differ_by_a_fifth(packed: float, interesting: bool) -> None:
    assert judged(packed, 1.0).interesting is interesting


@pytest.mark.parametrize(("packed", "good"), [(0.5, True), (1.01, True), (1.02, False)])
def test_a_choice_is_good_within_one_percent_of_the_better_static_policy(packed: float, good: bool) -> None:
    assert judged(packed, 1.0).good is good


def test_a_policy_is_not_learned_from_the_judged_program_with_any_arguments() -> None:
    observations = observed("fft", 1.0, 1.0, 2.0, arguments=" --size 1M") + observed("fft", 1.0, 1.0, 2.0, threads=8)
    observations += observed("lu", 1.0, 1.0, 2.0)
    seen = []

    def learn(training: Sequence[Case]) -> Choose:
        known = {case.program.name for case in training}
        assert {case.program.threads for case in training} == {4}

        def choose(case: Case) -> Hint:
            assert case.program.name not in known
            seen.append(case.program)
            return PACKED

        return choose

    observations += observed("bfs", 1.0, 1.0, 2.0)
    all_cases = cases(observations, best_matches)
    judgements = leave_one_program_out(all_cases, learn, 4)
    assert [one.case for one in judgements] == all_cases
    assert len(seen) == len(all_cases)


def test_the_only_program_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="without fft there is no program with 4 threads"):
        leave_one_program_out(cases(observed("fft", 1.0, 1.0, 2.0), best_matches), static(PACKED), 4)


def test_a_program_that_was_not_swept_in_a_hints_placement_is_named() -> None:
    with pytest.raises(ValueError, match=r"`bin/fft --threads 4` with 4 threads .* is not in the data set"):
        cases(observed("fft", 1.0, 1.0), best_matches)


def test_the_score_has_geometric_means_of_the_learned_threads_and_interesting_cases_of_all() -> None:
    all_cases = programs() + programs(threads=8)
    got = score(leave_one_program_out(all_cases, static(PACKED), 4), 4)
    assert got.oracle_ratio == pytest.approx(geometric_mean([1.0, 1 / 3]))
    assert got.seconds == pytest.approx(geometric_mean([1.0, 3.0]))
    assert (got.interesting, got.good) == (40, 20)


def test_cases_are_labelled_by_their_differences() -> None:
    observations = observed("fft", 1.0, 1.0, 2.0, arguments=" --size 1M")
    observations += observed("fft", 1.0, 1.0, 2.0, arguments=" --size 2M") + observed("lu", 1.0, 1.0, 2.0)
    assert [case.label for case in cases(observations, best_matches)] == ["fft 1M", "fft 2M", "lu"]


@pytest.mark.parametrize("recipe", [EXACT, replace(DEFAULT, leeway=0), Recipe(learner="regret_tree", depth=1)])
def test_every_recipe_learns_which_programs_share(recipe: Recipe) -> None:
    policy = learn_policy(programs(), best_matches, recipe)
    assert policy.hint((2 * SHARING, 1e3)) == PACKED
    assert policy.hint((STREAMING, 1e3)) == DISTRIBUTED
    assert policy.rules[-1].conditions == ()


def test_a_threshold_on_a_logarithmic_scale_is_written_as_a_count() -> None:
    policy = learn_policy(programs(), best_matches, replace(EXACT, scale="logarithmic"))
    (condition,) = policy.rules[0].conditions
    assert STREAMING <= condition.threshold < 3 * SHARING


def test_insensitive_programs_are_refused() -> None:
    indifferent = cases(observed("fft", 1.0, 1.0, 1.0) + observed("lu", 2.0, 1.0, 1.0), best_matches)
    with pytest.raises(ValueError, match="there is nothing to learn from"):
        learn_policy(indifferent, best_matches)


def test_without_relevant_counters_the_most_frequent_best_hint_is_taken() -> None:
    alike = [observed(name, 1.0, packed, 1.0) for name, packed in (("a", 0.5), ("b", 0.6), ("c", 2.0))]
    policy = learn_policy(cases([one for of_program in alike for one in of_program], best_matches), best_matches)
    assert [(rule.conditions, rule.target, rule.errors) for rule in policy.rules] == [((), str(PACKED), 1)]


def test_a_regret_is_the_logarithm_of_the_cost_of_a_wrong_hint() -> None:
    (case,) = cases(observed("fft", 1.0, 3.0, 1.0), best_matches)
    assert case.regrets() == pytest.approx({DISTRIBUTED: 0.0, PACKED: np.log(3)})


def test_a_regret_tree_takes_the_hint_with_the_least_cost_and_not_the_most_frequent_best_hint() -> None:
    # No counter distinguishes the three. Two gain a little when packed, and the third loses much.
    alike = observed("a", 1.0, 1.0, 1.1) + observed("b", 1.0, 1.0, 1.1) + observed("c", 1.0, 9.0, 1.0)
    (rule,) = learn_tree(rows_of(cases(alike, best_matches)), depth=2, leaf=0.05)
    assert (rule.target, rule.coverage, rule.errors) == (str(DISTRIBUTED), 6, 4)


def test_a_regret_tree_that_expects_verification_takes_the_hint_that_gains_most_where_it_gains() -> None:
    # As above, but the loss is rolled back: trying packed costs nothing.
    alike = observed("a", 1.0, 1.0, 1.1) + observed("b", 1.0, 1.0, 1.1) + observed("c", 1.0, 9.0, 1.0)
    rows = rows_of(cases(alike, best_matches), verified=True)
    for depth in (0, 2):
        (rule,) = learn_tree(rows, depth, leaf=0.05)
        assert (rule.target, rule.coverage, rule.errors) == (str(PACKED), 6, 0)


def test_the_rules_of_a_tree_cover_every_row_once() -> None:
    rows = rows_of(programs())
    rules = learn_tree(rows, depth=3, leaf=0.05)
    fired = first_that_holds(rules, rows.values)
    assert [rule.coverage for rule in rules] == np.bincount(fired, minlength=len(rules)).tolist()
    assert sum(rule.errors for rule in rules) == 0


def test_a_change_that_does_not_help_is_rolled_back() -> None:
    sharer, streamer = programs()[:2]
    choose = verified(static(PACKED))([sharer, streamer])
    assert (choose(sharer), choose(streamer)) == (PACKED, DISTRIBUTED)


def test_the_faster_of_two_samples_is_the_better_static_policy() -> None:
    assert [faster(case) for case in programs()[:2]] == [PACKED, DISTRIBUTED]


def test_a_policy_is_asked_again_in_the_placement_that_it_chose() -> None:
    # Packed, a sharing program of this data set looks like a streaming one, so the second answer is the first
    # placement.
    flips = programs()
    program = Program("two sockets", "flip", "bin/flip", 4)
    places = {
        TOGETHER: Observation(program, "", TOGETHER, (STREAMING, 1e3), 1.0, 1.0),
        APART: Observation(program, "", APART, (2 * SHARING, 1e3), 1.0, 1.0),
    }
    case = Case(program, "flip", MATCHES, places, fastest=1.0)
    assert [several(best_matches, EXACT, samples)(flips)(case) for samples in (1, 2, 3)] == [
        PACKED,
        DISTRIBUTED,
        PACKED,
    ]
