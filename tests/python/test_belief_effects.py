"""Effects of choices: z of regions that were run in few configurations, and over different baselines."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pinfold.learn.belief import effects, file
from pinfold.learn.belief.choice import shares_of, start_of
from pinfold.learn.belief.data import Region, Times, is_usual
from pinfold.learn.belief.learning import Learned, Settings, spread_of
from pinfold.learn.belief.point import Point
from pinfold.learn.races import Floats
from pinfold.learn.trained import Trained

POINTS = tuple(
    Point(threads, min(threads, 1.0), nodes, "scatter", pages, prefetch)
    for threads, nodes, pages, prefetch in product(
        (0.5, 1.0, 2.0), (0.5, 1.0), ("first_touch", "locality"), ("0000", "0001", "1100", "1111")
    )
)

USUAL = next(place for place, point in enumerate(POINTS) if is_usual(point))

PREFETCHERS_OFF, FEW_THREADS = 0.3, 0.7


def truth(regions: int) -> Floats:
    """Return z of regions: each has its own effect of the last prefetcher, and of half of the threads."""
    random = np.random.default_rng(3)
    off, few = (random.normal(mean, 0.2, size=regions) for mean in (PREFETCHERS_OFF, FEW_THREADS))
    without = np.array([point.prefetch[3] == "1" for point in POINTS])
    half = np.array([point.threads == 0.5 for point in POINTS])
    return np.outer(off, without) + np.outer(few, half)


def times_of(logs: Floats, baselines: list[int]) -> Times:
    regions = tuple(Region("made", f"made#{number}", ()) for number in range(len(logs)))
    places = np.array(baselines, dtype=np.int64)
    relative = logs - logs[np.arange(len(logs)), places][:, None]
    return Times(regions, POINTS, places, relative, np.ones(len(logs)), 1e-4)


def some(logs: Floats, number: int) -> Floats:
    """Return times of which each region was run in some random configurations, and in the usual one."""
    random = np.random.default_rng(4)
    known = np.full(logs.shape, np.nan)
    for region, times in enumerate(logs):
        run = [USUAL, *random.choice(len(POINTS), number, replace=False)]
        known[region, run] = times[run]
    return known


def test_few_random_configurations_of_each_region_show_mean_and_covariance_of_all() -> None:
    whole = truth(1500)
    found = spread_of(times_of(some(whole, 8), [USUAL] * 1500))
    assert found.mean == pytest.approx(whole.mean(axis=0), abs=0.05)
    assert found.covariance == pytest.approx(np.cov(whole.T), abs=0.04)
    # The baseline is 0 for each region.
    assert found.mean[USUAL] == found.covariance[USUAL, USUAL] == 0


def test_regions_with_a_baseline_for_their_number_of_threads_say_the_same_of_differences() -> None:
    whole = truth(300)
    logs = some(whole, 8)
    baselines = [USUAL] * 300
    # Two thirds of the regions were run with half of the threads only, and are over a baseline of their own.
    own = next(place for place, point in enumerate(POINTS) if point.threads == 0.5)
    for region in range(200):
        logs[region] = np.where([point.threads == 0.5 for point in POINTS], whole[region], np.nan)
        baselines[region] = own
    found = spread_of(times_of(logs, baselines))
    assert found.mean == pytest.approx(whole.mean(axis=0), abs=0.1)
    off = next(place for place, point in enumerate(POINTS) if point == POINTS[own]._replace(prefetch="0001"))
    assert found.mean[off] - found.mean[own] == pytest.approx(PREFETCHERS_OFF, abs=0.05)
    difference = found.away[:, off] - found.away[:, own]
    assert difference @ difference == pytest.approx(0.2**2, rel=0.5)


def test_without_the_usual_baseline_each_configuration_is_over_that_of_most_of_its_regions() -> None:
    own = [next(place for place, point in enumerate(POINTS) if point.threads == threads) for threads in (0.5, 2.0)]
    logs, baselines = truth(20), [own[region % 2] for region in range(20)]
    for region, baseline in enumerate(baselines):
        logs[region, [point.threads != POINTS[baseline].threads for point in POINTS]] = np.nan
    times = times_of(logs, baselines)
    references = effects.references(times)
    for place, point in enumerate(POINTS):
        if point.threads != 1:
            assert POINTS[references[place]].threads == point.threads
    assert spread_of(times).mean[own] == pytest.approx(0)


def test_the_weight_of_a_region_counts() -> None:
    logs = some(truth(100), 8)
    logs[50:] *= 3
    light = times_of(logs, [USUAL] * 100)
    heavy = replace(light, weights=np.where(np.arange(100) < 50, 1.0, 9.0))
    assert spread_of(heavy).mean.max() > 1.2 * spread_of(light).mean.max()


def test_a_small_file_lists_configurations_that_were_run_often() -> None:
    logs = some(truth(60), 4)
    often = [place for place, point in enumerate(POINTS) if point.prefetch == "0000"]
    logs[:, often] = truth(60)[:, often]
    times = times_of(logs, [USUAL] * 60)
    every = Learned.of(times).belief(Settings(), origin)
    few = Learned.of(times).belief(Settings(most_bytes=4 << 10), origin)
    assert set(every.points) == set(POINTS)
    assert len(file.text(few).encode()) <= 4 << 10
    assert len(often) < len(few.points) < len(POINTS)
    assert {POINTS[place] for place in often} <= set(few.points)


def origin(name: str) -> Trained:
    return Trained(True, ["made"], ["made#0"], 1, name)


def test_a_search_over_a_baseline_of_its_own_believes_differences_only() -> None:
    whole = truth(60)
    times = times_of(some(whole, 8), [USUAL] * 60)
    belief = Learned.of(times).belief(Settings(), origin)
    own = next(place for place, point in enumerate(POINTS) if point.threads == 0.5)
    over_own = times_of(whole[:1], [own])
    run = np.arange(len(POINTS))
    for judged, baseline in ((times, USUAL), (over_own, own)):
        start = start_of(belief, judged, 0, run)
        prior = belief.over(POINTS, "made")
        differences = prior.mean - (0 if baseline == USUAL else prior.mean[own])
        assert start.baseline == baseline
        assert start.prior.mean == pytest.approx(differences)
    assert belief.over(POINTS, "made").mean[own] > 0.5
    relative = start_of(belief, over_own, 0, run).prior
    assert relative.mean[own] == relative.covariance[own, own] == 0


def test_a_choice_counts_both_kinds_of_baselines_the_same() -> None:
    own = next(place for place, point in enumerate(POINTS) if point.threads == 0.5)
    logs = np.zeros((10, len(POINTS)))
    logs[:, own + 1] = -1.0
    times = times_of(logs, [USUAL, *[own] * 9])
    gained = np.zeros((2, 10))
    gained[0, 0], gained[1, 1:5] = 1.0, 1.0
    assert shares_of(times, gained) == pytest.approx([1.0, 4 / 9])
    of_one_kind = times_of(logs, [own] * 10)
    assert shares_of(of_one_kind, gained) == pytest.approx([0.1, 0.4])
