"""Models of `react` are judged on programs that had no part in them."""

from typing import Any

import numpy as np
import pytest
from react_cases import configurations, own_binary, regions

from pinfold.learn.folds import folds_of
from pinfold.learn.races import best_two, covering
from pinfold.learn.react.method import (
    ALL_PAIRS,
    BASELINE,
    BEST_OF_OUTPUTS,
    MODEL,
    OUTPUTS,
    POSSIBLE,
    STATIC,
    THREE,
    TWO,
    RandomPairs,
    Study,
    Way,
    WithinConfigurations,
    coverage,
    every_pair,
    folds_of_regions,
    searches,
)
from pinfold.learn.react.models import REGRET, SLOW, TREE, RegionLearner, many_labels

__all__ = ["own_binary"]


def study(kind: Any, **arguments: Any) -> Study:
    found = regions(kind, **arguments)
    return Study.of(found, found)


def test_the_papers_score_of_noise_is_high_where_fresh_programs_gain_next_to_nothing() -> None:
    noise = study("noise", counters=4)
    paper = noise.as_published(ALL_PAIRS).score / noise.possible()
    nested, low, _ = noise.nested(ALL_PAIRS, 0).share(MODEL)
    assert paper > 0.3
    assert nested < paper / 2
    assert low < 0


def test_what_counters_tell_is_found_on_fresh_programs_and_not_by_the_control() -> None:
    structured = study("structured", programs=40, each=1, counters=3)
    run = structured.nested(ALL_PAIRS, 0)
    control = structured.nested(ALL_PAIRS, 0, shuffled=True)
    assert run.share(MODEL)[0] > 0.85
    assert control.share(MODEL)[0] < 0.4
    assert run.over(MODEL, STATIC)[1] > 0
    assert run.share(BASELINE) == (0, 0, 0)
    assert run.share(POSSIBLE) == (1, 1, 1)
    assert run.share(STATIC)[0] <= run.share(TWO)[0] <= run.share(BEST_OF_OUTPUTS)[0] <= 1


def test_no_program_is_in_training_and_judging() -> None:
    found = regions("structured", programs=12)
    seen: list[tuple[set[float], set[float]]] = []

    def fit(values: Any, gains: Any) -> Any:
        def predict(others: Any) -> Any:
            seen.append((set(values[:, 0].tolist()), set(others[:, 0].tolist())))
            return np.zeros(len(others), dtype=np.int64)

        return predict

    # The first feature is the program's number.
    values, places = found.features()
    numbers = np.array([float(program.removeprefix("program")) for program in found.programs])
    values[:, 0] = numbers
    watched = Study(values, places, found.gains, found.programs)
    model = RegionLearner("watched", fit)
    way = Way("watched", lambda values, gains, folds: RandomPairs(model, 1).judge(values, gains, folds, (0, 1)), model)
    watched.nested(way, 0)
    assert len(seen) > 10, "pairs are judged inside of each outer fold, and models outside"
    assert all(not training & judged for training, judged in seen)
    outer = seen[-1]
    assert outer[0] | outer[1] == set(numbers.tolist())


def test_the_outputs_and_static_choices_are_those_of_the_training_programs() -> None:
    found = regions("noise", programs=6, each=1)
    gains = found.gains.copy()
    gains[0, 5] = 50  # Only program0 gains by it, and by very much.
    values, places = found.features()
    one = Study(values, places, gains, found.programs)
    way = Way("first two", lambda values, gains, folds: RandomPairs(TREE, 1).judge(values, gains, folds, (0, 1)), TREE)
    run = one.nested(way, 0)
    assert run.gains[POSSIBLE][0] == 50
    assert run.gains[STATIC][0] < 50, "the configuration is not known before program0 is"


def test_folds_keep_programs_together_and_the_papers_do_not() -> None:
    programs = [f"program{place // 3}" for place in range(60)]
    folds = folds_of(programs, 10, 0)
    assert len(set(folds.tolist())) == 10
    assert all(len({int(fold) for fold in folds[3 * place : 3 * place + 3]}) == 1 for place in range(20))
    paper = folds_of_regions(60, 10, 0)
    assert any(len({int(fold) for fold in paper[3 * place : 3 * place + 3]}) > 1 for place in range(20))


def test_outputs_cover_what_all_configurations_gain() -> None:
    gains = np.array([[0, 4, 2.0], [0, 0, 2.5], [0, -1, -1.0]])
    assert covering(gains, 2) == [2, 1], "first the one that gains most alone, then what adds most to it"
    assert covering(gains, 3) == [2, 1, 0]
    assert coverage(gains)[-1] == 1
    assert best_two(gains) == (1, 2)
    shares = coverage(regions("noise").gains)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


def test_the_space_is_searched_in_the_papers_five_ways() -> None:
    found = regions("noise", programs=4, settings=("0000", "1111", "0101"))
    figures = searches(found)
    gains, every = found.gains, found.configurations
    on = [place for place, one in enumerate(every) if one.prefetch == "0000"]
    assert figures["only NUMA"] == pytest.approx(float(np.exp(gains[:, on].max(axis=1).mean())))
    assert figures["coupled"] == pytest.approx(float(np.exp(gains.max(axis=1).mean())))
    assert figures["only NUMA"] <= figures["NUMA then prefetchers"] <= figures["coupled"]
    assert 1 <= figures["only prefetchers"] <= figures["prefetchers then NUMA"] <= figures["coupled"]
    best = every[max(on, key=lambda place: gains[0, place])]
    then = [gains[0, place] for place, one in enumerate(every) if one._replace(prefetch="0000") == best]
    one = searches(found.at([0]))
    assert one["NUMA then prefetchers"] == pytest.approx(float(np.exp(max(then))))


@pytest.mark.parametrize("model", [*SLOW, REGRET], ids=lambda model: model.name)
def test_each_model_learns_what_two_telling_features_say(model: RegionLearner) -> None:
    random = np.random.default_rng(0)
    values = random.uniform(size=(120, 2)).astype(np.float32)
    quarter = 2 * (values[:, 0] > 0.5) + (values[:, 1] > 0.5)
    gains = np.where(quarter[:, None] == np.arange(4)[None], 1.0, 0.0) + random.normal(0, 0.01, size=(120, 4))
    predict = model.fit(values[:80], gains[:80])
    right = float((predict(values[80:]) == quarter[80:]).mean())
    assert right > 0.7, "chance is a quarter"


@pytest.mark.parametrize("model", [*SLOW, REGRET, TREE], ids=lambda model: model.name)
def test_each_model_says_the_only_class_that_it_knows(model: RegionLearner) -> None:
    gains = np.tile([0.0, 1, 0.5], (8, 1))
    assert model.fit(np.random.default_rng(0).normal(size=(8, 2)), gains)(np.zeros((3, 2))).tolist() == [1, 1, 1]


def test_with_many_labels_all_within_five_per_cent_of_the_best_speed_are_right() -> None:
    speeds = np.array([[2, 1.91, 1.89, 1]])
    assert many_labels(np.log(speeds)).tolist() == [[1, 1, 0, 0]]


def test_random_pairs_are_as_many_as_the_budget_and_the_same_for_a_seed() -> None:
    found = study("structured", programs=6, counters=3)
    folds = folds_of(found.programs, 5, 0)
    outputs = found.gains[:, covering(found.gains, OUTPUTS)]
    searched = RandomPairs(SLOW[-1], budget=5)
    choice = searched(found.values, outputs, folds)
    assert choice == searched(found.values, outputs, folds)
    assert choice.score == searched.judge(found.values, outputs, folds, choice.features).score


def test_a_pair_of_one_configuration_is_of_one_configuration() -> None:
    found = study("structured", programs=8, counters=4)
    within = WithinConfigurations(tuple(configuration for configuration, _ in found.places))
    folds = folds_of(found.programs, 5, 0)
    outputs = found.gains[:, covering(found.gains, OUTPUTS)]
    choice = within(found.values, outputs, folds)
    one, other = choice.features
    assert found.places[one][0] == found.places[other][0]
    assert choice.score <= every_pair(found.values, outputs, folds).score
    assert len(within.scores(found.values, outputs, folds)) == len(configurations())


def test_three_features_gain_no_less_than_two_on_the_folds_that_choose_them() -> None:
    found = study("structured", programs=10, counters=3)
    assert found.as_published(THREE).score >= found.as_published(ALL_PAIRS).score
