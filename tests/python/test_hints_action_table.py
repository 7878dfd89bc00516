"""Action tables follow figure 6 of the AutoFinity paper, for observations with given hints."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinfold._native import moved_threads
from pinfold.learn.cpu_list import cpu_list
from pinfold.learn.hints.action_table import (
    CONDENSE,
    Action,
    Source,
    build_action_table,
    rules_on_values,
    thresholds,
    training_rows,
)
from pinfold.learn.hints.discretize import bins, equal_frequency_thresholds, equal_width_thresholds
from pinfold.learn.hints.hint import HINTS, Hint, affinity_hints
from pinfold.learn.hints.llc_domains import LlcDomains, Loads, canonical
from pinfold.learn.hints.observations import Observation, Program, relative_to_slowest, sensitive
from pinfold.learn.hints.ripper import Condition, RipperClassifier, Rule

SPREAD, PACKED, UNEVEN = ((2,), (2,)), ((4,), (0,)), ((3,), (1,))
FFT, LU = Program("two sockets", "fft", "fft", 4), Program("two sockets", "lu", "lu", 4)
SPREAD_HINT, PACKED_HINT = Hint.parse("SLP"), Hint.parse("slp")


def best_matches(machine: str, threads: int) -> Mapping[Hint, Loads]:
    assert (machine, threads) == ("two sockets", 4)
    return {SPREAD_HINT: SPREAD, PACKED_HINT: PACKED}


def observed(program: Program, counter: float, **performances: float) -> list[Observation]:
    places = {"spread": SPREAD, "packed": PACKED, "uneven": UNEVEN}
    return [
        Observation(program, "", places[name], (counter,), performance, 1 / performance)
        for name, performance in performances.items()
    ]


def table(observations: list[Observation], **options: Any) -> list[Action]:
    return build_action_table(observations, [np.array([10.0])], best_matches, **{"leeway": 0} | options)


def test_a_behaviour_gets_the_hint_with_the_best_performance_in_every_placement() -> None:
    actions = table(observed(FFT, 5, spread=1, packed=2) + observed(LU, 50, spread=4, packed=3))
    assert [(action.behaviour, action.source.loads, str(action.hint)) for action in actions] == [
        ((0,), SPREAD, "slp"),
        ((0,), PACKED, "slp"),
        ((1,), SPREAD, "SLP"),
        ((1,), PACKED, "SLP"),
    ]
    assert actions[0].consequences == {SPREAD_HINT: 1, PACKED_HINT: 2}


@pytest.mark.parametrize(
    ("condense", "expected"),
    [
        ("average", 7 / 3),
        ("gmean", 2),
        ("hmean", 12 / 7),
        ("max", 4),
        ("median", 2),
        ("min", 1),
        ("sum", 7),
    ],
)
def test_programs_that_behave_alike_are_condensed(condense: str, expected: float) -> None:
    programs = [FFT, LU, Program("two sockets", "bfs", "bfs", 4)]
    seen = [
        one
        for program, performance in zip(programs, (1, 2, 4), strict=True)
        for one in observed(program, 5, spread=performance)
    ]
    assert set(CONDENSE) == {"average", "gmean", "hmean", "max", "median", "min", "sum"}
    (action,) = table(seen, condense=condense)
    assert action.consequences[SPREAD_HINT] == pytest.approx(expected)


def test_the_condense_function_can_decide_which_hint_is_best() -> None:
    seen = observed(FFT, 5, spread=1, packed=2) + observed(LU, 5, spread=9, packed=3)
    assert {str(action.hint) for action in table(seen, condense="min")} == {"slp"}
    assert {str(action.hint) for action in table(seen, condense="max")} == {"SLP"}


def test_placements_within_the_leeway_belong_to_a_hint() -> None:
    seen = observed(FFT, 5, packed=2, uneven=3)
    assert {action.hint for action in table(seen)} == {PACKED_HINT}
    # The uneven placement is one thread away from both.
    assert {action.hint for action in table(seen, leeway=1)} == {SPREAD_HINT}


def test_a_hint_with_several_placements_has_their_average() -> None:
    (action, _) = table(observed(FFT, 5, packed=2, uneven=3), leeway=1, condense="sum")
    assert action.consequences == {SPREAD_HINT: 3, PACKED_HINT: 2.5}


def test_without_a_placement_of_a_hint_there_is_no_action() -> None:
    assert table(observed(FFT, 5, uneven=3)) == []


def test_each_sample_period_is_compared_only_with_itself() -> None:
    early = observed(FFT, 5, spread=1, packed=2)
    late = [replace(one, period="late") for one in observed(FFT, 50, spread=2, packed=1)]
    actions = {(action.behaviour, action.hint) for action in table(early + late)}
    assert actions == {((0,), PACKED_HINT), ((1,), SPREAD_HINT)}


def test_a_missing_performance_is_not_zero() -> None:
    (spread, packed) = table(observed(FFT, 5, spread=np.nan, packed=2))
    assert spread.consequences == packed.consequences == {PACKED_HINT: 2}


def test_a_missing_counter_is_a_separate_behaviour_and_missing_for_the_learner() -> None:
    actions = table(observed(FFT, np.nan, spread=1) + observed(LU, 0, spread=1))
    assert [action.behaviour for action in actions] == [(-1,), (0,)]
    values, hints = training_rows(actions)
    assert np.isnan(values[0, 0])
    assert values[1, 0] == 0
    assert hints.tolist() == ["SLP", "SLP"]


def test_equally_good_hints_give_the_first_one() -> None:
    assert {action.hint for action in table(observed(FFT, 5, packed=2, spread=2))} == {SPREAD_HINT}


def test_insensitive_programs_are_left_out() -> None:
    insensitive = observed(FFT, 5, spread=1, packed=1.015)
    kept = observed(LU, 5, spread=1, packed=1.03)
    assert sensitive(insensitive + kept) == kept


def test_performance_is_relative_to_the_slowest_of_the_program() -> None:
    seen = observed(FFT, 5, spread=3, packed=6) + observed(LU, 5, spread=4, packed=1)
    assert [one.performance for one in relative_to_slowest(seen)] == [1, 2, 4, 1]
    with pytest.raises(ValueError, match="has performance 0"):
        relative_to_slowest([replace(seen[0], performance=0)])


def test_an_invalid_parameter_is_named() -> None:
    seen = observed(FFT, 5, spread=1)
    with pytest.raises(ValueError, match="condense is 'mode': it must be one of average, gmean"):
        table(seen, condense="mode")
    with pytest.raises(ValueError, match="leeway is -1"):
        table(seen, leeway=-1)
    with pytest.raises(ValueError, match="method is 'entropy': it must be one of equal_width"):
        thresholds(seen, "entropy")
    with pytest.raises(ValueError, match="there are no observations"):
        thresholds([])
    with pytest.raises(ValueError, match="count is 0: there must be at least one bin"):
        thresholds(seen, count=0)


def test_equal_width_bins_have_one_width() -> None:
    assert equal_width_thresholds(np.array([0.0, 1, 2, np.nan, 10]), 5, adjust=False).tolist() == [2, 4, 6, 8]
    assert equal_width_thresholds(np.full(9, 3.0), 5).tolist() == []


def test_the_number_of_equal_width_bins_adapts_to_the_values() -> None:
    heaps = np.concatenate([np.linspace(0, 1, 20), np.linspace(9, 10, 20)])
    assert len(equal_width_thresholds(heaps, 5)) == 4
    assert len(equal_width_thresholds(np.linspace(0, 1, 40), 5)) == 0
    # A single value in a bin has no density when it is left out.
    assert len(equal_width_thresholds(np.append(heaps, 100), 5)) == 0


def test_equal_frequency_bins_have_the_same_number_of_values() -> None:
    values = np.random.RandomState(0).permutation(np.arange(50.0) ** 3)
    assert np.bincount(bins(values, equal_frequency_thresholds(values, 5))).tolist() == [10] * 5
    assert equal_frequency_thresholds(np.array([1.0] * 30 + [2.0] * 3), 5).tolist() == [1.5]


def test_rules_on_bins_become_rules_on_values_that_cover_the_same() -> None:
    random = np.random.RandomState(0)
    values = random.normal(size=(400, 2))
    cuts = [equal_frequency_thresholds(column, 5) for column in values.T]
    binned = np.column_stack([bins(column, cut) for column, cut in zip(values.T, cuts, strict=True)])
    target = (binned[:, 0] >= 3) & (binned[:, 1] <= 2)
    learned = RipperClassifier(random_state=0).fit(binned, target)
    assert len(learned.rules_) > 1
    for on_bins, on_values in zip(learned.rules_, rules_on_values(learned.rules_, cuts), strict=True):
        assert on_values.covers(values).tolist() == on_bins.covers(binned.astype(float)).tolist()


def test_a_rule_on_the_name_of_a_bin_has_no_bounds() -> None:
    with pytest.raises(ValueError, match="learn with bins as numbers"):
        rules_on_values([Rule((Condition(0, "=", 1),), "SLP", 1, 0)], [np.array([1.0])])


def test_hints_are_written_as_in_autofinity() -> None:
    assert [str(hint) for hint in HINTS] == ["SLP", "SLp", "SlP", "Slp", "sLP", "sLp", "slP", "slp"]
    assert [Hint.parse(str(hint)) for hint in HINTS] == list(HINTS)
    with pytest.raises(ValueError, match="'LSP' is not an affinity hint"):
        Hint.parse("LSP")


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        # The paper's example of section 2.2: six threads on one LLC, and one of them on another package.
        (((6, 0), (0, 0)), ((5, 0), (1, 0)), 1),
        (((6, 0), (0, 0)), ((0, 0), (0, 6)), 0),
        (((2, 2), (2, 2)), ((6, 2), (0, 0)), 4),
        # The fullest package of one placement is not that of the other.
        (((2, 2), (3, 0)), ((2, 2), (2, 1)), 1),
        (((1, 1), (6,)), ((6,), (1, 1)), 0),
    ],
)
def test_moved_threads_are_counted_up_to_symmetries(one: Loads, other: Loads, distance: int) -> None:
    assert moved_threads(one, other) == distance
    assert moved_threads(other, one) == distance


def test_placements_of_other_threads_or_machines_are_not_compared() -> None:
    for other in (((5, 0), (0, 0)), ((6, 0),), ((6,), (0,))):
        with pytest.raises(ValueError, match="are not placements of the same threads on the same machine"):
            moved_threads(((6, 0), (0, 0)), other)


def test_a_placement_corresponds_to_every_hint_within_the_leeway() -> None:
    matches = best_matches("two sockets", 4)
    assert affinity_hints(UNEVEN, matches, 0) == ()
    assert affinity_hints(UNEVEN, matches, 1) == (SPREAD_HINT, PACKED_HINT)
    assert affinity_hints(PACKED, matches, 0) == (PACKED_HINT,)


def test_loads_are_counted_in_the_last_level_of_caches() -> None:
    def pu(number: int) -> dict[str, Any]:
        private = {"level": 2, "cache_type": "unified"}
        return _object("cache", [_object("pu", [], str(number))], cache=private)

    def shared(*numbers: int) -> dict[str, Any]:
        return _object("cache", [pu(number) for number in numbers], cache={"level": 3, "cache_type": "unified"})

    packages = [_object("package", [shared(0, 1), shared(2, 3)]), _object("package", [shared(4, 5), pu(6)])]
    domains = LlcDomains.of_topology({"tree": _object("machine", packages)})
    assert domains.loads([0, 1, 2, 4, 6]) == canonical(((2, 1), (1, 1)))
    assert domains.loads([6, 4, 5]) == ((2, 1), (0, 0))
    with pytest.raises(ValueError, match="PU 9 is in the pinning and not in the topology"):
        domains.loads([0, 9])


def _object(kind: str, children: list[Any], pus: str = "", cache: Any = None) -> dict[str, Any]:
    return {"kind": kind, "children": children, "pus": pus, "cache": cache}


def test_a_cpu_list_keeps_its_order() -> None:
    assert cpu_list("3,0-2,7") == [3, 0, 1, 2, 7]


def test_sources_distinguish_machines_and_numbers_of_threads() -> None:
    other = [replace(one, program=Program("two sockets", "fft", "fft", 8)) for one in observed(FFT, 5, spread=1)]
    seen: list[tuple[str, int]] = []

    def asked(machine: str, threads: int) -> Mapping[Hint, Loads]:
        seen.append((machine, threads))
        return {SPREAD_HINT: SPREAD}

    actions = build_action_table(observed(FFT, 5, spread=1) + other, [np.array([10.0])], asked)
    assert [action.source for action in actions] == [
        Source("two sockets", 4, SPREAD),
        Source("two sockets", 8, SPREAD),
    ]
    assert seen == [("two sockets", 4), ("two sockets", 8)]
