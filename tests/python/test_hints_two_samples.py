"""Two samples are learned: where a program begins, and with which placement it is compared."""

import pytest

from pinfold.learn.hints.hint import Hint
from pinfold.learn.hints.judging import DISTRIBUTED, PACKED, Case, cases
from pinfold.learn.hints.llc_domains import Loads
from pinfold.learn.hints.observations import Observation, Program
from pinfold.learn.hints.two_samples import TRIAL, costs, learn_two_samples

BETWEEN = Hint.parse("sLP")
PLACES: dict[Hint, Loads] = {DISTRIBUTED: ((1, 1), (1, 1)), PACKED: ((4, 0), (0, 0)), BETWEEN: ((2, 2), (0, 0))}


def programs(name: str, number: int, counter: float, *seconds: float) -> list[Observation]:
    """Observe programs of one kind: distributed, packed and between."""
    return [
        Observation(Program("m", f"{name}{one}", f"{name}{one}", 4), "", loads, (counter + one,), 1 / time, time)
        for one in range(number)
        for loads, time in zip(PLACES.values(), seconds, strict=True)
    ]


def of(observations: list[Observation]) -> list[Case]:
    return cases(observations, lambda machine, threads: PLACES)


def test_the_pair_that_suits_most_programs_is_learned() -> None:
    # The placement between is as good as the distributed one where that is good, and best for others.
    learned = learn_two_samples(of([*programs("stream", 6, 100, 1, 2, 1), *programs("share", 6, 1, 3, 2, 1)]))
    assert (learned.first, learned.depth) == (BETWEEN, 0)


def test_no_second_sample_is_taken_where_the_counters_say_that_it_is_not_worth_it() -> None:
    known = of([*programs("stream", 6, 100, 1.0, 9.0, 9.0), *programs("share", 6, 1, 2.0, 1.0, 1.9)])
    learned = learn_two_samples(known)
    unknown = of([*programs("new", 1, 101.5, 1.0, 9.0, 9.0), *programs("other", 1, 2.5, 2.0, 1.0, 1.9)])
    tried = {case.program.name: (learned.first, learned.second(case)) for case in unknown}
    assert learned.depth == 1
    assert PLACES[tried["new0"][0]] == PLACES[tried["new0"][1]] or DISTRIBUTED in tried["new0"]
    assert [learned.chosen(case) for case in unknown] == [DISTRIBUTED, PACKED]


def test_a_second_sample_costs_its_share_of_the_run_and_the_faster_placement_is_kept() -> None:
    (case,) = of(programs("one", 1, 1, 1.0, 2.0, 1.5))
    regret = case.regrets()
    cost = costs(case, DISTRIBUTED)
    assert cost[DISTRIBUTED] == pytest.approx(0)
    assert cost[PACKED] == pytest.approx(TRIAL * regret[PACKED])
    assert costs(case, PACKED)[DISTRIBUTED] == pytest.approx(TRIAL * regret[PACKED])
    assert costs(case, PACKED)[PACKED] == pytest.approx(regret[PACKED])


def test_one_program_is_too_few() -> None:
    with pytest.raises(ValueError, match="one0 is the only program"):
        learn_two_samples(of(programs("one", 1, 1, 1.0, 2.0, 1.5)))
